//! `show acl`: the lists of rules, who uses them, what they matched, and what they were compiled to.

pub mod attached;
pub mod changed;
pub mod imported;
pub mod rules;

use serde::{Deserialize, Serialize};

use super::Report;
use super::number::octets;
use super::table::{Align, Table};

/// The lists, the groups that their rules name, and the chains that packets meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acls {
    /// Each list: those of the configuration in its order, then the others.
    pub lists: Vec<List>,
    /// Each group.
    pub groups: Vec<Group>,
    /// The chains of the lists that interfaces name.
    pub chains: Vec<Chain>,
}

/// A list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct List {
    /// Its name.
    pub name: String,
    /// The default: `next`, `permit`, `deny`, `reject`, `reject+reset` or `reject+icmp`.
    pub default: String,
    /// Rules.
    pub rules: usize,
    /// The number of rules that live edits added.
    pub live: usize,
    /// The packets that its rules matched.
    pub matched: Hits,
    /// The packets that none of them matched.
    pub unmatched: Hits,
    /// Interfaces with this ingress list.
    #[serde(rename = "in")]
    pub input: Vec<String>,
    /// Interfaces with this egress list.
    #[serde(rename = "out")]
    pub output: Vec<String>,
    /// Where it was declared; empty for a list that came while the gateway ran.
    pub origin: String,
}

/// Packets, and their octets from the header of IP on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hits {
    /// Packets.
    pub packets: u64,
    /// Octets.
    pub bytes: u64,
}

/// A group that rules may name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The kind of its members: `addresses`, `ports` or `interfaces`.
    pub kind: String,
    /// Its members, those of groups that it names among them.
    pub members: Vec<String>,
    /// `file`, or who said so while the gateway ran.
    pub source: String,
}

/// Lists in order, compiled into one classifier of a family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Chain {
    /// The lists in order.
    pub lists: Vec<String>,
    /// Interfaces with this chain at ingress.
    #[serde(rename = "in")]
    pub input: Vec<String>,
    /// Interfaces with this chain at egress.
    #[serde(rename = "out")]
    pub output: Vec<String>,
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Boxes of fields that its rules come to.
    pub boxes: u64,
    /// Octets of memory.
    pub bytes: u64,
    /// Rules match ports, types or flags, which later fragments take from their first fragment; also true if lists of
    /// chains before this one do.
    pub needs_transport: bool,
    /// Packets that no rule matches are denied; else another chain applies.
    pub is_last: bool,
    /// How the slowest lookup fares.
    pub worst_lookup: WorstLookup,
}

/// The slowest lookup that rules allow, estimated from what they were compiled to, not measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstLookup {
    /// TSC ticks for each packet, about.
    pub ticks: u64,
    /// Nodes that part the rules by their fields, one after the other.
    pub nodes: u64,
    /// Rules that overlap so that no field parts them: a lookup searches all of them.
    pub overlapping: u64,
}

/// From so many ticks on, lookups are slow: usual lists of 10,000 rules take fewer.
const SLOW: u64 = 250;

impl std::fmt::Display for WorstLookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let WorstLookup { ticks, overlapping, .. } = self;
        let slow = if *ticks >= SLOW { "slow, " } else { "" };
        write!(f, "{slow}{ticks} ticks")?;
        match overlapping {
            0 => Ok(()),
            rules => write!(f, ", {rules} rules overlap"),
        }
    }
}

fn lists(lists: &[List]) -> String {
    let mut table = Table::new(&[
        ("List", Align::Left),
        ("Rules", Align::Right),
        ("Live", Align::Right),
        ("Matched", Align::Right),
        ("Matched bytes", Align::Right),
        ("Default", Align::Left),
        ("Unmatched", Align::Right),
        ("Unmatched bytes", Align::Right),
        ("In", Align::Left),
        ("Out", Align::Left),
        ("Declared", Align::Left),
    ]);
    for list in lists {
        table.row([
            list.name.clone(),
            list.rules.to_string(),
            list.live.to_string(),
            list.matched.packets.to_string(),
            list.matched.bytes.to_string(),
            list.default.clone(),
            list.unmatched.packets.to_string(),
            list.unmatched.bytes.to_string(),
            list.input.join(","),
            list.output.join(","),
            list.origin.clone(),
        ]);
    }
    table.text()
}

fn groups(groups: &[Group]) -> String {
    /// Members that are shown.
    const SHOWN: usize = 4;
    let mut table = Table::new(&[
        ("Group", Align::Left),
        ("Of", Align::Left),
        ("Count", Align::Right),
        ("Source", Align::Left),
        ("Members", Align::Left),
    ]);
    for Group { name, kind, members, source } in groups {
        let more = if members.len() > SHOWN { ",…" } else { "" };
        let shown = members.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(",") + more;
        table.row([name.clone(), kind.clone(), members.len().to_string(), source.clone(), shown]);
    }
    table.text()
}

fn chains(chains: &[Chain]) -> String {
    let mut table = Table::new(&[
        ("Chain", Align::Left),
        ("Family", Align::Left),
        ("Boxes", Align::Right),
        ("Memory", Align::Right),
        ("Fragments", Align::Left),
        ("Worst lookup", Align::Left),
    ]);
    for Chain { lists, family, boxes, bytes, needs_transport, is_last, worst_lookup, .. } in chains {
        let fragments = if *needs_transport { "as their first" } else { "" };
        let (boxes, memory) = (boxes.to_string(), octets(*bytes));
        let more = if *is_last { "" } else { ",…" };
        let worst = worst_lookup.to_string();
        table.row([lists.join(",") + more, family.clone(), boxes, memory, fragments.to_owned(), worst]);
    }
    table.text()
}

impl Report for Acls {
    const SCHEMA: &'static str = "weir.show.acl/1";

    fn text(&self) -> String {
        if self.lists.is_empty() && self.groups.is_empty() {
            return "there are no access lists\n".to_owned();
        }
        let mut parts = Vec::new();
        if !self.lists.is_empty() {
            parts.push(lists(&self.lists));
        }
        if !self.groups.is_empty() {
            parts.push(groups(&self.groups));
        }
        if !self.chains.is_empty() {
            parts.push(chains(&self.chains));
        }
        parts.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read};
    use super::*;

    #[test]
    fn lists_then_groups_then_chains() {
        let list = |name: &str, default: &str, input: &[&str], output: &[&str]| List {
            name: name.into(),
            default: default.into(),
            rules: 3,
            live: 1,
            matched: Hits { packets: 1000, bytes: 64_000 },
            unmatched: Hits { packets: 7, bytes: 420 },
            input: input.iter().map(ToString::to_string).collect(),
            output: output.iter().map(ToString::to_string).collect(),
            origin: if name == "spare" { String::new() } else { "edge.toml:40".into() },
        };
        let chain = |family: &str, needs_transport| Chain {
            lists: vec!["base".into(), "edge-in".into()],
            input: vec!["wan".into()],
            output: vec![],
            family: family.into(),
            boxes: 6,
            bytes: 2048,
            needs_transport,
            is_last: true,
            worst_lookup: match family {
                "ipv4" => WorstLookup { ticks: 18, nodes: 1, overlapping: 0 },
                _ => WorstLookup { ticks: 400, nodes: 3, overlapping: 49_152 },
            },
        };
        let five = ["80", "443", "8000-8999", "9000", "9443"].map(String::from);
        let group = |name: &str, kind: &str, members: &[String]| Group {
            name: name.into(),
            kind: kind.into(),
            members: members.to_vec(),
            source: if name == "web" { "file" } else { "api" }.into(),
        };
        let acls = Acls {
            lists: vec![
                list("base", "next", &["wan", "lan"], &[]),
                list("edge-in", "deny", &["wan"], &["lan"]),
                list("spare", "reject", &[], &[]),
            ],
            groups: vec![group("web", "ports", &five), group("inside", "interfaces", &["lan".to_owned()])],
            chains: vec![chain("ipv4", true), chain("ipv6", false)],
        };
        assert_eq!(
            acls.text(),
            "\
List     Rules  Live  Matched  Matched bytes  Default  Unmatched  Unmatched bytes  In       Out  Declared
base         3     1     1000          64000  next             7              420  wan,lan  -    edge.toml:40
edge-in      3     1     1000          64000  deny             7              420  wan      lan  edge.toml:40
spare        3     1     1000          64000  reject           7              420  -        -    -

Group   Of          Count  Source  Members
web     ports           5  file    80,443,8000-8999,9000,…
inside  interfaces      1  api     lan

Chain         Family  Boxes    Memory  Fragments       Worst lookup
base,edge-in  ipv4        6  2.00 KiB  as their first  18 ticks
base,edge-in  ipv6        6  2.00 KiB  -               slow, 400 ticks, 49152 rules overlap
"
        );
        assert_eq!(read::<Acls>(&json(&acls)).unwrap(), acls);
        let none = Acls { lists: vec![], groups: vec![], chains: vec![] };
        assert_eq!(none.text(), "there are no access lists\n");
    }
}
