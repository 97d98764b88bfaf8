//! `show sav`: the policies of source address validation, and what interfaces counted of it.

pub mod changed;
pub mod diff;
pub mod dry_run;
pub mod entries;
pub mod learned;
pub mod policy;
pub mod stage;

use serde::{Deserialize, Serialize};
use weir_plane::stats;

pub use policy::Policy;

use super::Report;
use super::table::{Align, Table};

/// Source address validation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sav {
    /// Each policy, in the order of the configuration.
    pub policies: Vec<Policy>,
    /// Each interface and family that has a policy, or had one and counted.
    pub interfaces: Vec<Interface>,
}

/// The counters of an interface and family.
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
    /// Packets that were not, being exempt.
    #[serde(default)]
    pub exempt: u64,
    /// Of these, those whose source no rule knows, and that went on for it.
    pub unknown: u64,
    /// Invalid packets that were dropped by a limit.
    #[serde(default)]
    pub limited: u64,
    /// Invalid packets that were redirected.
    #[serde(default)]
    pub redirected: u64,
    /// Invalid packets by the check that found them, for every mechanism in order.
    pub invalid: Vec<Invalid>,
}

/// Packets that were not valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invalid {
    /// The check: a mechanism, or `special`.
    pub mechanism: String,
    /// How many.
    pub packets: u64,
    /// Their octets.
    pub bytes: u64,
}

impl Sav {
    /// Of the gateway's policies and a snapshot.
    pub fn new(policies: Vec<stats::SavPolicyStats>, snapshot: &stats::Snapshot) -> Self {
        Sav { policies: policies.into_iter().map(Policy::new).collect(), interfaces: interfaces(snapshot) }
    }
}

/// Returns the counters of each interface, by family.
pub(super) fn interfaces(snapshot: &stats::Snapshot) -> Vec<Interface> {
    snapshot.sav.iter().map(Interface::new).collect()
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
            exempt: stats.exempt,
            limited: stats.limited,
            redirected: stats.redirected,
            unknown: stats.unknown,
            invalid: stats.invalid.iter().map(invalid).collect(),
        }
    }
}

/// Formats the counters of the interfaces.
fn counted(interfaces: &[Interface]) -> String {
    let mut table = Table::new(&[
        ("Interface", Align::Left),
        ("Family", Align::Left),
        ("Policy", Align::Left),
        ("Exempt", Align::Right),
        ("Checked", Align::Right),
        ("Unknown", Align::Right),
        ("Invalid", Align::Right),
        ("Invalid bytes", Align::Right),
        ("Limited", Align::Right),
        ("Redirected", Align::Right),
    ]);
    for interface in interfaces {
        let sum = |of: fn(&Invalid) -> u64| interface.invalid.iter().map(of).sum::<u64>().to_string();
        table.row([
            interface.interface.clone(),
            interface.family.clone(),
            interface.policy.clone(),
            interface.exempt.to_string(),
            interface.checked.to_string(),
            interface.unknown.to_string(),
            sum(|invalid| invalid.packets),
            sum(|invalid| invalid.bytes),
            interface.limited.to_string(),
            interface.redirected.to_string(),
        ]);
    }
    table.text()
}

/// Formats the checks that found packets invalid; empty if none did.
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

/// Formats the counters of interfaces; empty where there are no interfaces.
pub(super) fn tables(interfaces: &[Interface]) -> String {
    let mut parts = vec![if interfaces.is_empty() { String::new() } else { counted(interfaces) }, invalid(interfaces)];
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

impl Report for Sav {
    const SCHEMA: &'static str = "weir.show.sav/1";

    fn text(&self) -> String {
        if self.policies.is_empty() && self.interfaces.is_empty() {
            return "no policy validates sources\n".to_owned();
        }
        let mut parts = policy::text(&self.policies);
        parts.push(tables(&self.interfaces));
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
Policy  Mechanism    Action   Stage       Since                 Match          Layout  Incremental  Declared
edge    table        discard  -           -                     most-specific  merged  yes          edge.toml:40
core    urpf-strict  permit   rate-limit  2025-11-21T09:46:41Z  -              -       -            edge.toml:44

Policy  Rate limit                                       Redirect                          Sample           Exempt   Link check  Alarm
core    10000000 bits/s, 1000000 at once, per interface  198.51.100.9 on wan, ipv6 on lan  1 in 100 to lab  2 rules  known       1000 packets/s over 10 s

Policy  Interface permit  Interface deny  Permit  Deny
edge                   1               0       2     0

Policy  Family  Prefixes    Limit  Sets  Limit  Lookup memory  Control memory
edge    ipv4           3  2000000     2  16384       1.50 MiB           640 B
edge    ipv6           1  2000000     1  16384       2.00 KiB           320 B

Policy  Source  Entries  Dynamic memory  Hits memory
edge    file          3           224 B     1.00 KiB
edge    api           1               -            -

Interface  Family  Policy  Exempt  Checked  Unknown  Invalid  Invalid bytes  Limited  Redirected
wan        ipv4    edge         0     1000       10      100           6400        0           0
wan        ipv6    -            0        5        0        0              0        0           0

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
Policy  Mechanism    Action  Stage       Since                 Match  Layout  Incremental  Declared
core    urpf-strict  permit  rate-limit  2025-11-21T09:46:41Z  -      -       -            edge.toml:44

Policy  Rate limit                                       Redirect                          Sample           Exempt   Link check  Alarm
core    10000000 bits/s, 1000000 at once, per interface  198.51.100.9 on wan, ipv6 on lan  1 in 100 to lab  2 rules  known       1000 packets/s over 10 s
"
        );
    }
}
