//! `show ethertypes`: which frames interfaces let pass, and how many they did not.

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::table::{Align, Table};
use crate::ethertype;

/// Interfaces that name ethertypes, or have refused frames for theirs, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ethertypes {
    /// Each list of them.
    pub lists: Vec<List>,
}

/// The EtherTypes that an interface lets pass in a direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// The interface.
    pub interface: String,
    /// `in` or `out`.
    pub direction: String,
    /// The ethertypes, by name or as `0x88cc`; `None`: any, though it was otherwise before.
    pub ethertypes: Option<Vec<String>>,
    /// Frames of others: they were dropped.
    pub refused: u64,
    /// Where they were declared; empty: any may pass.
    pub origin: String,
}

impl Ethertypes {
    /// Of the gateway's interfaces.
    pub fn new(rows: Vec<stats::EthertypeStats>) -> Self {
        let list = |row: stats::EthertypeStats| List {
            interface: row.interface,
            direction: row.direction.to_owned(),
            ethertypes: row.ethertypes.map(|types| types.into_iter().map(ethertype::written).collect()),
            refused: row.refused,
            origin: row.origin,
        };
        Ethertypes { lists: rows.into_iter().map(list).collect() }
    }
}

impl Report for Ethertypes {
    const SCHEMA: &'static str = "weir.show.ethertypes/1";

    fn text(&self) -> String {
        if self.lists.is_empty() {
            return "interfaces let frames of any ethertype pass\n".to_owned();
        }
        let mut table = Table::new(&[
            ("Interface", Align::Left),
            ("Direction", Align::Left),
            ("Refused", Align::Right),
            ("Declared", Align::Left),
            ("Ethertypes", Align::Left),
        ]);
        for List { interface, direction, ethertypes, refused, origin } in self.lists.clone() {
            let ethertypes = match ethertypes {
                None => "any".to_owned(),
                Some(none) if none.is_empty() => "none".to_owned(),
                Some(some) => some.join(","),
            };
            table.row([interface, direction, refused.to_string(), origin, ethertypes]);
        }
        table.text()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn one_line_an_interface_and_direction() {
        let ethertypes = Ethertypes::new(sample::ethertypes());
        assert_eq!(
            ethertypes.text(),
            "\
Interface  Direction  Refused  Declared      Ethertypes
lan        in               7  edge.toml:70  ipv4,arp,ipv6,0x9000
lan        out              0  edge.toml:70  none
wan        out              3  -             any
"
        );
        assert_eq!(read::<Ethertypes>(&json(&ethertypes)).unwrap(), ethertypes);
        assert_eq!(Ethertypes::new(vec![]).text(), "interfaces let frames of any ethertype pass\n");
    }
}
