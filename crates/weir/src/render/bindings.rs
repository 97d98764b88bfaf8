//! `show bindings`: which hardware addresses may use which addresses of IP, and who did.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::acl::Hits;
use super::number::octets;
use super::table::{Align, Table};

/// All bindings, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bindings {
    /// Each list of them.
    pub bindings: Vec<Binding>,
}

/// A list of bindings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Its name.
    pub name: String,
    /// Interfaces that apply it.
    pub interfaces: Vec<String>,
    /// Octets of its tables.
    pub bytes: u64,
    /// Packets that no rule matched: they were dropped.
    pub unmatched: Hits,
    /// Where it was declared.
    pub origin: String,
    /// Its rules, in their order.
    pub rules: Vec<Rule>,
    /// Learned bindings at most; without it, none are learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Learned bindings, by interface and address.
    #[serde(default)]
    pub learned: Vec<Learned>,
    /// Leases and addresses without a binding, as there were as many as there may be.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_learned: u64,
    /// The same by interface and bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    /// Prefixes that routers behind trusted interfaces advertise, by interface and prefix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<Prefix>,
}

/// A prefix of the link that a router advertises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefix {
    /// The trusted interface.
    pub interface: String,
    /// The prefix.
    pub prefix: String,
    /// Seconds until it ends; `None`: it does not end.
    pub left: Option<u64>,
}

/// Bindings of an interface that a bound refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The interface.
    pub interface: String,
    /// The bound, in words.
    pub bound: String,
    /// How many it refused.
    pub count: u64,
}

/// A learned binding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    /// The interface.
    pub interface: String,
    /// The hardware address.
    pub mac: String,
    /// The address, or that of a prefix.
    pub address: IpAddr,
    /// The length of a prefix; without it, it is an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_length: Option<u8>,
    /// The source: `dhcp`, or `slaac` (RFC 6620).
    pub source: String,
    /// `tentative` (not permitted yet), `valid`, `testing`, or `set-aside` while a rule has the address.
    #[serde(default = "valid")]
    pub state: String,
    /// Seconds until it ends; `None`: it does not end.
    pub left: Option<u64>,
}

/// The state of bindings from DHCP, for which earlier versions name none.
fn valid() -> String {
    "valid".to_owned()
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Its id, for `weir binding`.
    pub id: u32,
    /// Itself.
    pub rule: String,
    /// The packets that it matched.
    #[serde(flatten)]
    pub hits: Hits,
    /// Where it was declared.
    pub origin: String,
}

fn hits(traffic: stats::Traffic) -> Hits {
    Hits { packets: traffic.packets, bytes: traffic.bytes }
}

/// A rule in the words of the configuration.
fn rule(row: stats::BindingRow) -> Rule {
    let action = if row.permit { "permit" } else { "deny" };
    let mac = match row.mac_length {
        0 => "any".to_owned(),
        48 => row.mac,
        length => format!("{}/{length}", row.mac),
    };
    let from = row.from.map_or_else(|| "any".to_owned(), |from| from.to_string());
    Rule { id: row.id, rule: format!("{action} {mac} from {from}"), hits: hits(row.matched), origin: row.origin }
}

impl Bindings {
    /// Of the gateway's bindings.
    pub fn new(all: Vec<stats::BindingsStats>) -> Self {
        let learned = |row: stats::LearnedRow| Learned {
            interface: row.interface,
            mac: row.mac,
            address: row.address,
            prefix_length: row.prefix_length,
            source: row.source.to_owned(),
            state: row.state.to_owned(),
            left: row.left,
        };
        let refused = |row: stats::RefusedRow| Refused {
            interface: row.interface,
            bound: row.bound.to_owned(),
            count: row.count,
        };
        let prefix =
            |row: stats::PrefixRow| Prefix { interface: row.interface, prefix: row.prefix.to_string(), left: row.left };
        let of = |bindings: stats::BindingsStats| Binding {
            prefixes: bindings.prefixes.into_iter().map(prefix).collect(),
            limit: bindings.limit,
            learned: bindings.learned.into_iter().map(learned).collect(),
            not_learned: bindings.not_learned,
            refused: bindings.refused.into_iter().map(refused).collect(),
            name: bindings.name,
            interfaces: bindings.interfaces,
            bytes: bindings.octets as u64,
            unmatched: hits(bindings.unmatched),
            origin: bindings.origin,
            rules: bindings.rules.into_iter().map(rule).collect(),
        };
        Bindings { bindings: all.into_iter().map(of).collect() }
    }
}

impl Report for Bindings {
    const SCHEMA: &'static str = "weir.show.bindings/1";

    fn text(&self) -> String {
        if self.bindings.is_empty() {
            return "no hardware addresses are bound\n".to_owned();
        }
        let columns = ["Bindings", "Rules", "Unmatched", "Unmatched bytes", "Memory", "Interfaces", "Declared"];
        let align = |name| match name {
            "Bindings" | "Interfaces" | "Declared" | "Rule" => Align::Left,
            _ => Align::Right,
        };
        let mut lists = Table::new(&columns.map(|name| (name, align(name))));
        let mut rules =
            Table::new(&["Bindings", "Id", "Packets", "Bytes", "Declared", "Rule"].map(|name| (name, align(name))));
        let columns = ["Bindings", "Interface", "Hardware", "Address", "Source", "State", "Ends in"];
        let mut learned = Table::new(&columns.map(|name| (name, Align::Left)));
        let mut sums = String::new();
        for binding in &self.bindings {
            let Binding { name, limit: Some(limit), learned: own, not_learned, refused, prefixes, .. } = binding else {
                continue;
            };
            for Learned { interface, mac, address, prefix_length, source, state, left } in own {
                let left = left.map_or_else(|| "never".to_owned(), |left| format!("{left} s"));
                let address = match prefix_length {
                    Some(length) => format!("{address}/{length}"),
                    None => address.to_string(),
                };
                let (interface, mac, source) = (interface.clone(), mac.clone(), source.clone());
                learned.row([name.clone(), interface, mac, address, source, state.clone(), left]);
            }
            for Prefix { interface, prefix, left } in prefixes {
                let end = left.map_or_else(|| "does not end".to_owned(), |left| format!("ends in {left} s"));
                sums.push_str(&format!("{name}: a router at {interface} advertises {prefix}, {end}\n"));
            }
            sums.push_str(&format!("{name}: {} of {limit} learned, {not_learned} refused\n", own.len()));
            for Refused { interface, bound, count } in refused {
                sums.push_str(&format!("{name}: {count} refused at {interface}: {bound} was reached\n"));
            }
        }
        for Binding { name, interfaces, bytes, unmatched, origin, rules: own, .. } in self.bindings.clone() {
            for Rule { id, rule, hits, origin } in &own {
                let (packets, bytes) = (hits.packets.to_string(), hits.bytes.to_string());
                rules.row([name.clone(), id.to_string(), packets, bytes, origin.clone(), rule.clone()]);
            }
            let (packets, octets_of) = (unmatched.packets.to_string(), unmatched.bytes.to_string());
            let interfaces = interfaces.join(",");
            lists.row([name, own.len().to_string(), packets, octets_of, octets(bytes), interfaces, origin]);
        }
        let learned = if sums.is_empty() { sums } else { format!("\n{}{sums}", learned.text()) };
        format!("{}\n{}{learned}", lists.text(), rules.text())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn lists_then_rules() {
        let bindings = Bindings::new(sample::bindings());
        assert_eq!(
            bindings.text(),
            "\
Bindings  Rules  Unmatched  Unmatched bytes    Memory  Interfaces  Declared
cust          3          7              448  2.00 KiB  lan         edge.toml:60

Bindings  Id  Packets  Bytes  Declared      Rule
cust       1       12    768  edge.toml:61  permit 02:00:00:00:00:01 from 10.0.0.1/32
cust       2        3    192  edge.toml:62  permit 02:00:5e:00:00:00/24 from 2001:db8::/32
cust       3        0      0  edge.toml:63  deny any from any
"
        );
        assert_eq!(read::<Bindings>(&json(&bindings)).unwrap(), bindings);
        let mut learning = sample::bindings();
        let row = |last: u8, left| stats::LearnedRow {
            interface: "lan".into(),
            mac: format!("02:00:00:00:00:{last:02x}"),
            address: [10, 0, 0, last].into(),
            prefix_length: None,
            source: "dhcp",
            state: "valid",
            left,
        };
        let slaac = stats::LearnedRow {
            address: std::net::Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9).into(),
            source: "slaac",
            state: "tentative",
            ..row(9, Some(1))
        };
        let delegated = stats::LearnedRow {
            address: std::net::Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0).into(),
            prefix_length: Some(56),
            ..row(10, Some(60))
        };
        (learning[0].limit, learning[0].not_learned) = (Some(4096), 1);
        let bound = "`slaac-limit` of the interface";
        learning[0].refused = vec![stats::RefusedRow { interface: "lan".into(), bound, count: 1 }];
        let advertised =
            |prefix: &str, left| stats::PrefixRow { interface: "wan".into(), prefix: prefix.parse().unwrap(), left };
        learning[0].prefixes = vec![advertised("2001:db8:1::/64", Some(1800)), advertised("2001:db8:2::/64", None)];
        learning[0].learned = vec![row(7, Some(3599)), row(8, None), slaac, delegated];
        let learning = Bindings::new(learning);
        assert_eq!(
            learning.text().split_once("any from any\n\n").unwrap().1,
            "\
Bindings  Interface  Hardware           Address          Source  State      Ends in
cust      lan        02:00:00:00:00:07  10.0.0.7         dhcp    valid      3599 s
cust      lan        02:00:00:00:00:08  10.0.0.8         dhcp    valid      never
cust      lan        02:00:00:00:00:09  fe80::9          slaac   tentative  1 s
cust      lan        02:00:00:00:00:0a  2001:db8:1::/56  dhcp    valid      60 s
cust: a router at wan advertises 2001:db8:1::/64, ends in 1800 s
cust: a router at wan advertises 2001:db8:2::/64, does not end
cust: 4 of 4096 learned, 1 refused
cust: 1 refused at lan: `slaac-limit` of the interface was reached
"
        );
        assert_eq!(read::<Bindings>(&json(&learning)).unwrap(), learning);
        assert_eq!(Bindings::new(vec![]).text(), "no hardware addresses are bound\n");
    }
}
