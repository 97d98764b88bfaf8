//! `show sav`: the policies of source address validation, and what interfaces counted of it.

pub mod changed;
pub mod diff;
pub mod dry_run;
pub mod entries;
pub mod learned;

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::number::octets;
use super::table::{Align, Table};

/// Source address validation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sav {
    /// Each policy, in the order of the configuration.
    pub policies: Vec<Policy>,
    /// Each interface and family that has a policy, or had one and counted.
    pub interfaces: Vec<Interface>,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// `acl`, `urpf-strict`, `urpf-loose`, `urpf-feasible` or `table`.
    pub mechanism: String,
    /// What becomes of packets that are not valid: `permit` or `discard`.
    pub action: String,
    /// How nested prefixes are taken; of a table.
    #[serde(rename = "match")]
    pub matching: Option<String>,
    /// `merged`, `cards-serial` or `cards-parallel`; of a table.
    pub layout: Option<String>,
    /// Sources that no rule knows are valid.
    pub incremental: bool,
    /// Where it was declared.
    pub origin: String,
    /// What it looks sources up in; none where it asks routes.
    pub tables: Vec<Lookup>,
    /// Who says how many entries: `file`, then the others.
    pub sources: Vec<Source>,
    /// Octets of what is kept of entries that came while the gateway ran.
    pub dynamic_bytes: u64,
    /// Octets of counters of hits.
    pub hits_bytes: u64,
}

/// How full a table is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Lookup {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Prefixes.
    pub prefixes: u64,
    /// How many there may be.
    pub prefixes_limit: u64,
    /// Different sets of interfaces.
    pub sets: u64,
    /// How many there may be.
    pub sets_limit: u64,
    /// Octets of what lookups touch.
    pub lookup_bytes: u64,
    /// Octets of what is kept beside it, so that it can be changed.
    pub control_bytes: u64,
}

/// Who says something of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// `file`, or who said it while the gateway ran.
    pub source: String,
    /// How many entries.
    pub entries: u64,
}

/// What an interface counted of one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// The interface.
    pub interface: String,
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Its policy; empty: it has none any more.
    pub policy: String,
    /// Packets that were validated.
    pub checked: u64,
    /// Of these, those whose source no rule knows, and that went on for it.
    pub unknown: u64,
    /// Those that were not valid, by what found them so: every mechanism, in order.
    pub invalid: Vec<Invalid>,
}

/// Packets that were not valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invalid {
    /// What found them so: a mechanism, or `special`.
    pub mechanism: String,
    /// How many.
    pub packets: u64,
    /// Their octets.
    pub bytes: u64,
}

impl Sav {
    /// Of the gateway's policies and a snapshot.
    pub fn new(policies: Vec<stats::SavPolicyStats>, snapshot: &stats::Snapshot) -> Self {
        Sav {
            policies: policies.into_iter().map(Policy::new).collect(),
            interfaces: snapshot.sav.iter().map(Interface::new).collect(),
        }
    }
}

impl Policy {
    fn new(stats: stats::SavPolicyStats) -> Self {
        let source = |(source, entries): (String, usize)| Source { source, entries: entries as u64 };
        Policy {
            name: stats.name,
            mechanism: stats.mechanism.to_owned(),
            action: stats.action.to_owned(),
            matching: stats.matching.map(str::to_owned),
            layout: stats.layout.map(str::to_owned),
            incremental: stats.incremental,
            origin: stats.origin,
            tables: stats.tables.iter().map(Lookup::new).collect(),
            sources: stats.sources.into_iter().map(source).collect(),
            dynamic_bytes: stats.dynamic_octets as u64,
            hits_bytes: stats.hits_octets as u64,
        }
    }
}

impl Lookup {
    fn new(stats: &stats::SavTableStats) -> Self {
        Lookup {
            family: stats.family.to_owned(),
            prefixes: stats.prefixes.0 as u64,
            prefixes_limit: stats.prefixes.1 as u64,
            sets: stats.sets.0 as u64,
            sets_limit: stats.sets.1 as u64,
            lookup_bytes: stats.lookup_octets as u64,
            control_bytes: stats.control_octets as u64,
        }
    }
}

impl Interface {
    fn new(stats: &stats::SavInterfaceStats) -> Self {
        let invalid = |&(mechanism, stats::Traffic { packets, bytes }): &(&str, stats::Traffic)| Invalid {
            mechanism: mechanism.to_owned(),
            packets,
            bytes,
        };
        Interface {
            interface: stats.interface.clone(),
            family: stats.family.to_owned(),
            policy: stats.policy.clone(),
            checked: stats.checked,
            unknown: stats.unknown,
            invalid: stats.invalid.iter().map(invalid).collect(),
        }
    }
}

/// What the policies are.
fn policies(policies: &[Policy]) -> String {
    let columns = ["Policy", "Mechanism", "Action", "Match", "Layout", "Incremental", "Declared"];
    let mut table = Table::new(&columns.map(|name| (name, Align::Left)));
    for policy in policies.iter().cloned() {
        let incremental = match policy.tables.is_empty() {
            true => "",
            false if policy.incremental => "yes",
            false => "no",
        };
        table.row([
            policy.name,
            policy.mechanism,
            policy.action,
            policy.matching.unwrap_or_default(),
            policy.layout.unwrap_or_default(),
            incremental.to_owned(),
            policy.origin,
        ]);
    }
    table.text()
}

/// How full their tables are, and what they take.
fn lookups(policies: &[Policy]) -> String {
    let mut table = Table::new(&[
        ("Policy", Align::Left),
        ("Family", Align::Left),
        ("Prefixes", Align::Right),
        ("Limit", Align::Right),
        ("Sets", Align::Right),
        ("Limit", Align::Right),
        ("Lookup memory", Align::Right),
        ("Control memory", Align::Right),
    ]);
    for (policy, lookup) in policies.iter().flat_map(|policy| policy.tables.iter().map(move |table| (policy, table))) {
        table.row([
            policy.name.clone(),
            lookup.family.clone(),
            lookup.prefixes.to_string(),
            lookup.prefixes_limit.to_string(),
            lookup.sets.to_string(),
            lookup.sets_limit.to_string(),
            octets(lookup.lookup_bytes),
            octets(lookup.control_bytes),
        ]);
    }
    table.text()
}

/// Who says what of them.
fn sources(policies: &[Policy]) -> String {
    let mut table = Table::new(&[
        ("Policy", Align::Left),
        ("Source", Align::Left),
        ("Entries", Align::Right),
        ("Dynamic memory", Align::Right),
        ("Hits memory", Align::Right),
    ]);
    for policy in policies {
        for (number, Source { source, entries }) in policy.sources.iter().enumerate() {
            // What all of them take stands in the first line.
            let memory = |bytes| if number == 0 { octets(bytes) } else { String::new() };
            let (dynamic, hits) = (memory(policy.dynamic_bytes), memory(policy.hits_bytes));
            table.row([policy.name.clone(), source.clone(), entries.to_string(), dynamic, hits]);
        }
    }
    table.text()
}

/// What the interfaces counted.
fn counted(interfaces: &[Interface]) -> String {
    let mut table = Table::new(&[
        ("Interface", Align::Left),
        ("Family", Align::Left),
        ("Policy", Align::Left),
        ("Checked", Align::Right),
        ("Unknown", Align::Right),
        ("Invalid", Align::Right),
        ("Invalid bytes", Align::Right),
    ]);
    for interface in interfaces {
        let sum = |of: fn(&Invalid) -> u64| interface.invalid.iter().map(of).sum::<u64>().to_string();
        table.row([
            interface.interface.clone(),
            interface.family.clone(),
            interface.policy.clone(),
            interface.checked.to_string(),
            interface.unknown.to_string(),
            sum(|invalid| invalid.packets),
            sum(|invalid| invalid.bytes),
        ]);
    }
    table.text()
}

/// What found packets not valid; empty where nothing did.
fn invalid(interfaces: &[Interface]) -> String {
    let mut table = Table::new(&[
        ("Interface", Align::Left),
        ("Family", Align::Left),
        ("Mechanism", Align::Left),
        ("Invalid", Align::Right),
        ("Invalid bytes", Align::Right),
    ]);
    let mut any = false;
    for Interface { interface, family, invalid, .. } in interfaces {
        for Invalid { mechanism, packets, bytes } in invalid.iter().filter(|invalid| invalid.packets > 0) {
            any = true;
            let (packets, bytes) = (packets.to_string(), bytes.to_string());
            table.row([interface.clone(), family.clone(), mechanism.clone(), packets, bytes]);
        }
    }
    if any { table.text() } else { String::new() }
}

impl Report for Sav {
    const SCHEMA: &'static str = "weir.show.sav/1";

    fn text(&self) -> String {
        if self.policies.is_empty() && self.interfaces.is_empty() {
            return "no policy validates sources\n".to_owned();
        }
        let mut parts = vec![policies(&self.policies)];
        if self.policies.iter().any(|policy| !policy.tables.is_empty()) {
            parts.push(lookups(&self.policies));
            parts.push(sources(&self.policies));
        }
        if !self.interfaces.is_empty() {
            parts.push(counted(&self.interfaces));
        }
        parts.push(invalid(&self.interfaces));
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn policies_then_tables_then_sources_then_interfaces() {
        let sav = Sav::new(sample::sav_policies(), &sample::snapshot());
        assert_eq!(
            sav.text(),
            "\
Policy  Mechanism    Action   Match          Layout  Incremental  Declared
edge    table        discard  most-specific  merged  yes          edge.toml:40
core    urpf-strict  permit   -              -       -            edge.toml:44

Policy  Family  Prefixes    Limit  Sets  Limit  Lookup memory  Control memory
edge    ipv4           3  2000000     2  16384       1.50 MiB           640 B
edge    ipv6           1  2000000     1  16384       2.00 KiB           320 B

Policy  Source  Entries  Dynamic memory  Hits memory
edge    file          3           224 B     1.00 KiB
edge    api           1               -            -

Interface  Family  Policy  Checked  Unknown  Invalid  Invalid bytes
wan        ipv4    edge       1000       10      100           6400
wan        ipv6    -             5        0        0              0

Interface  Family  Mechanism  Invalid  Invalid bytes
wan        ipv4    table           90           5760
wan        ipv4    special         10            640
"
        );
        assert_eq!(read::<Sav>(&json(&sav)).unwrap(), sav);
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        let none = Sav { policies: vec![], interfaces: vec![] };
        assert_eq!(none.text(), "no policy validates sources\n");
        let routes = sample::sav_policies().split_off(1);
        let sav = Sav { policies: routes.into_iter().map(Policy::new).collect(), interfaces: vec![] };
        assert_eq!(
            sav.text(),
            "\
Policy  Mechanism    Action  Match  Layout  Incremental  Declared
core    urpf-strict  permit  -      -       -            edge.toml:44
"
        );
    }
}
