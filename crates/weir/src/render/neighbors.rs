//! `show neighbors`: addresses on links and their hardware addresses.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::table::{Align, Table};

/// Every neighbour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbors {
    /// Each neighbour.
    pub neighbors: Vec<Neighbor>,
}

/// A neighbour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbor {
    /// Link.
    pub interface: String,
    /// Address.
    pub address: IpAddr,
    /// Hardware address.
    pub mac: String,
    /// `static`.
    pub state: String,
    /// Where it was declared.
    pub origin: String,
}

impl Neighbors {
    /// Of the gateway's rows.
    pub fn new(rows: Vec<stats::NeighborRow>) -> Self {
        let neighbor = |row: stats::NeighborRow| Neighbor {
            interface: row.interface,
            address: row.address,
            mac: row.mac,
            state: row.state.to_owned(),
            origin: row.origin,
        };
        Neighbors { neighbors: rows.into_iter().map(neighbor).collect() }
    }
}

impl Report for Neighbors {
    const SCHEMA: &'static str = "weir.show.neighbors/1";

    fn text(&self) -> String {
        let mut table =
            Table::new(&["Interface", "Address", "MAC", "State", "Declared"].map(|name| (name, Align::Left)));
        for Neighbor { interface, address, mac, state, origin } in self.neighbors.clone() {
            table.row([interface, address.to_string(), mac, state, origin]);
        }
        table.text()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn one_line_each() {
        let neighbors = Neighbors::new(sample::neighbors());
        assert_eq!(
            neighbors.text(),
            "\
Interface  Address         MAC                State   Declared
wan        198.51.100.254  02:00:00:00:00:fe  static  edge.toml:30
"
        );
        assert_eq!(read::<Neighbors>(&json(&neighbors)).unwrap(), neighbors);
    }
}
