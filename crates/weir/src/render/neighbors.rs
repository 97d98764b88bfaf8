//! `show neighbors`: addresses on links and their hardware addresses, and how full the table of the learned ones is.

use std::fmt::Write as _;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::table::{Align, Table};

/// Every neighbour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Neighbors {
    /// Each neighbour.
    pub neighbors: Vec<Neighbor>,
    /// The table of those that were learned.
    pub table: Learned,
}

/// A neighbour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Neighbor {
    /// Link.
    pub interface: String,
    /// Address.
    pub address: IpAddr,
    /// Hardware address; empty while it is not known.
    pub mac: String,
    /// `static`, or as RFC 4861, 7.3.2, has it: `incomplete`, `reachable`, `stale`, `delay`, `probe`.
    pub state: String,
    /// `static`: it is configured. `dynamic`: it was learned.
    pub source: String,
    /// Seconds since it last answered a question, where it was learned and ever did.
    pub age: Option<f64>,
    /// Where it was declared; empty where it was learned.
    pub origin: String,
}

/// What the table of neighbours holds and what became of those that it did not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Learned {
    /// Neighbours that were learned.
    pub entries: u64,
    /// How many there may be.
    pub limit: u64,
    /// Those that were asked and have never answered.
    pub incomplete: u64,
    /// Those that made room for others.
    pub evicted: u64,
    /// Those for whom nobody made room.
    pub refused: u64,
    /// Questions and announcements that the rate did not allow.
    pub unsent: u64,
    /// What workers saw and could not tell.
    pub events_lost: u64,
}

impl Neighbors {
    /// Of the gateway's rows and of what its table counts.
    pub fn new(rows: Vec<stats::NeighborRow>, table: &stats::NeighborStats) -> Self {
        let neighbor = |row: stats::NeighborRow| Neighbor {
            interface: row.interface,
            address: row.address,
            mac: row.mac,
            state: row.state.to_owned(),
            source: row.source.to_owned(),
            age: row.age.map(|age| age.as_secs_f64()),
            origin: row.origin,
        };
        let &stats::NeighborStats { entries, limit, incomplete, evicted, refused, unsent, events_lost } = table;
        Neighbors {
            neighbors: rows.into_iter().map(neighbor).collect(),
            table: Learned { entries, limit, incomplete, evicted, refused, unsent, events_lost },
        }
    }
}

impl Report for Neighbors {
    const SCHEMA: &'static str = "weir.show.neighbors/1";

    fn text(&self) -> String {
        let columns = ["Interface", "Address", "MAC", "State", "Age", "Declared"];
        let mut table = Table::new(&columns.map(|name| (name, if name == "Age" { Align::Right } else { Align::Left })));
        for Neighbor { interface, address, mac, state, age, origin, .. } in self.neighbors.clone() {
            let age = age.map_or_else(String::new, |age| format!("{age:.0} s"));
            table.row([interface, address.to_string(), mac, state, age, origin]);
        }
        let mut text = table.text();
        let Learned { entries, limit, incomplete, evicted, refused, unsent, events_lost } = self.table;
        let _ = writeln!(
            text,
            "\nlearned {entries} of {limit}, incomplete {incomplete}, evicted {evicted}, refused {refused}, \
             not sent {unsent}, not heard {events_lost}"
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn one_line_each() {
        let neighbors = Neighbors::new(sample::neighbors(), &sample::snapshot().neighbors);
        assert_eq!(
            neighbors.text(),
            "\
Interface  Address         MAC                State    Age  Declared
wan        198.51.100.254  02:00:00:00:00:fe  static     -  edge.toml:30
wan        198.51.100.7    02:00:00:00:00:07  stale   75 s  -

learned 1 of 65536, incomplete 0, evicted 4, refused 3, not sent 2, not heard 0
"
        );
        assert_eq!(read::<Neighbors>(&json(&neighbors)).unwrap(), neighbors);
    }
}
