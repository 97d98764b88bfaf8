//! `show bindings`: which hardware addresses may use which addresses of IP, and who did.

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
        let of = |bindings: stats::BindingsStats| Binding {
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
        for Binding { name, interfaces, bytes, unmatched, origin, rules: own } in self.bindings.clone() {
            for Rule { id, rule, hits, origin } in &own {
                let (packets, bytes) = (hits.packets.to_string(), hits.bytes.to_string());
                rules.row([name.clone(), id.to_string(), packets, bytes, origin.clone(), rule.clone()]);
            }
            let (packets, octets_of) = (unmatched.packets.to_string(), unmatched.bytes.to_string());
            let interfaces = interfaces.join(",");
            lists.row([name, own.len().to_string(), packets, octets_of, octets(bytes), interfaces, origin]);
        }
        format!("{}\n{}", lists.text(), rules.text())
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
        assert_eq!(Bindings::new(vec![]).text(), "no hardware addresses are bound\n");
    }
}
