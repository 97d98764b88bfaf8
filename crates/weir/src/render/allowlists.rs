//! `show allowlists`: the lists of sources, their interfaces and counters.

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::number::octets;
use super::table::{Align, Table};

/// Every allowlist, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowlists {
    /// Each list.
    pub lists: Vec<Allowlist>,
}

/// An allowlist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Allowlist {
    /// Its name.
    pub name: String,
    /// The routing domain whose routes it is, if it has no prefixes of its own.
    pub vrf: Option<String>,
    /// Its prefixes of IPv4.
    pub ipv4_prefixes: u64,
    /// Its prefixes of IPv6.
    pub ipv6_prefixes: u64,
    /// Octets of its tables.
    pub bytes: u64,
    /// Interfaces that apply it to IPv4.
    pub ipv4_interfaces: Vec<String>,
    /// Interfaces that apply it to IPv6.
    pub ipv6_interfaces: Vec<String>,
    /// Packets whose sources it contains.
    pub passed: u64,
    /// Packets that were dropped because it does not contain their sources.
    pub refused: u64,
    /// Where it was declared.
    pub origin: String,
}

impl Allowlists {
    /// Of the gateway's lists.
    pub fn new(lists: Vec<stats::AllowlistStats>) -> Self {
        let list = |list: stats::AllowlistStats| Allowlist {
            name: list.name,
            vrf: list.vrf,
            ipv4_prefixes: list.prefixes.0 as u64,
            ipv6_prefixes: list.prefixes.1 as u64,
            bytes: list.octets as u64,
            ipv4_interfaces: list.interfaces.v4,
            ipv6_interfaces: list.interfaces.v6,
            passed: list.passed,
            refused: list.refused,
            origin: list.origin,
        };
        Allowlists { lists: lists.into_iter().map(list).collect() }
    }
}

impl Report for Allowlists {
    const SCHEMA: &'static str = "weir.show.allowlists/1";

    fn text(&self) -> String {
        if self.lists.is_empty() {
            return "there are no allowlists\n".to_owned();
        }
        let columns = [
            "List",
            "VRF",
            "IPv4",
            "IPv6",
            "Memory",
            "Passed",
            "Refused",
            "IPv4 interfaces",
            "IPv6 interfaces",
            "Declared",
        ];
        let align = |name| match name {
            "IPv4" | "IPv6" | "Memory" | "Passed" | "Refused" => Align::Right,
            _ => Align::Left,
        };
        let mut table = Table::new(&columns.map(|name| (name, align(name))));
        for list in self.lists.clone() {
            let own = list.vrf.is_none();
            let count = |count: u64| if own { count.to_string() } else { String::new() };
            table.row([
                list.name,
                list.vrf.clone().unwrap_or_default(),
                count(list.ipv4_prefixes),
                count(list.ipv6_prefixes),
                if own { octets(list.bytes) } else { String::new() },
                list.passed.to_string(),
                list.refused.to_string(),
                list.ipv4_interfaces.join(","),
                list.ipv6_interfaces.join(","),
                list.origin,
            ]);
        }
        table.text()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn one_line_a_list() {
        let lists = Allowlists::new(sample::allowlists());
        assert_eq!(
            lists.text(),
            "\
List       VRF   IPv4  IPv6    Memory  Passed  Refused  IPv4 interfaces  IPv6 interfaces  Declared
customers  -        3     1  2.00 KiB    1000        7  wan,lan          wan              edge.toml:50
routed     blue     -     -         -       0        0  -                -                edge.toml:54
"
        );
        assert_eq!(read::<Allowlists>(&json(&lists)).unwrap(), lists);
        assert_eq!(Allowlists::new(vec![]).text(), "there are no allowlists\n");
    }
}
