//! `show neighbors`: addresses on links and their hardware addresses, and how full the table of the learned ones is.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::table::{Align, Table};

/// Every neighbour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Neighbors {
    /// Each neighbour.
    pub neighbors: Vec<stats::NeighborRow>,
    /// The table of learned neighbours.
    pub table: stats::NeighborStats,
}

impl Neighbors {
    /// Takes the gateway's rows and the counters of its table.
    pub fn new(neighbors: Vec<stats::NeighborRow>, table: &stats::NeighborStats) -> Self {
        Neighbors { neighbors, table: *table }
    }
}

impl Report for Neighbors {
    const SCHEMA: &'static str = "weir.show.neighbors/1";

    fn text(&self) -> String {
        let columns = ["Interface", "Address", "MAC", "State", "Age", "Declared"];
        let mut table = Table::new(&columns.map(|name| (name, if name == "Age" { Align::Right } else { Align::Left })));
        for stats::NeighborRow { interface, address, mac, state, age, origin, .. } in self.neighbors.clone() {
            let age = age.map_or_else(String::new, |age| format!("{age:.0} s"));
            table.row([interface, address.to_string(), mac, state.into_owned(), age, origin]);
        }
        let mut text = table.text();
        let stats::NeighborStats { entries, limit, incomplete, evicted, refused, unsent, events_lost } = self.table;
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
