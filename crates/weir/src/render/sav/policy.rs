//! The policies of `show sav`.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_plane::{model, stats};

use super::super::number::octets;
use super::super::table::{Align, Table};
use super::super::time::utc_seconds;

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// `acl`, `urpf-strict`, `urpf-loose`, `urpf-feasible` or `table`.
    pub mechanism: String,
    /// The configured action for invalid packets: `permit`, `rate-limit`, `redirect` or `discard`.
    pub action: String,
    /// The stage in its place.
    #[serde(default)]
    pub stage: Option<Stage>,
    /// How nested prefixes are taken; of a table.
    #[serde(rename = "match")]
    pub matching: Option<String>,
    /// `merged`, `cards-serial` or `cards-parallel`; of a table.
    pub layout: Option<String>,
    /// Sources that no rule knows are valid.
    pub incremental: bool,
    /// Configured rules, by the list that they stand in; of a table.
    #[serde(default)]
    pub rules: Option<Rules>,
    /// How many packets pass where they are limited.
    #[serde(default)]
    pub rate_limit: Option<RateLimit>,
    /// Where packets go where they are redirected.
    #[serde(default)]
    pub redirect: Vec<Target>,
    /// Which of them are sampled.
    #[serde(default)]
    pub sample: Option<Sample>,
    /// Rules that say which packets are not validated.
    #[serde(default)]
    pub exempt: u64,
    /// The check of source hardware addresses: `off`, `known` or `strict`.
    #[serde(default)]
    pub link_check: String,
    /// The threshold of its alarm.
    #[serde(default)]
    pub alarm: Option<Alarm>,
    /// Where it was declared.
    pub origin: String,
    /// Its tables; empty for mechanisms that use routes.
    pub tables: Vec<Lookup>,
    /// The number of entries by source: `file`, then the others.
    pub sources: Vec<Source>,
    /// Octets of what is kept of entries that came while the gateway ran.
    pub dynamic_bytes: u64,
    /// Octets of counters of hits.
    pub hits_bytes: u64,
    /// Octets of the buckets of its rate limit.
    #[serde(default)]
    pub limit_bytes: u64,
}

/// An action in the place of the one that is configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// The action.
    pub action: String,
    /// Since when, in seconds of the Unix epoch.
    pub since: u64,
}

/// How many rules stand in which kind of list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Rules {
    /// Allowlists of interfaces: mode 1.
    pub interface_permit: u64,
    /// Blocklists of interfaces: mode 2.
    pub interface_deny: u64,
    /// Allowlists of prefixes: mode 3.
    pub permit: u64,
    /// Blocklists of prefixes: mode 4.
    pub deny: u64,
}

/// A limit of packets that are not valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// `packets` or `bits`.
    pub unit: String,
    /// So many of them in a second.
    pub rate: u64,
    /// So many at once.
    pub burst: u64,
    /// The scope of one bucket: `interface` or `rule`.
    pub per: String,
}

/// Where packets are redirected to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// The next hop; `None`: they go straight to their destinations.
    pub address: Option<IpAddr>,
    /// The interface that they leave by.
    pub interface: String,
}

/// Which packets are sampled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Sample {
    /// One in so many.
    pub one_in: u32,
    /// The sampler.
    pub to: String,
}

/// The threshold of an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// Packets in a second.
    pub packets: u64,
    /// On average over so many seconds.
    pub window: u32,
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

/// A source of entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// `file`, or who said it while the gateway ran.
    pub source: String,
    /// How many entries.
    pub entries: u64,
}

impl Policy {
    pub(super) fn new(stats: stats::SavPolicyStats) -> Self {
        let source = |(source, entries): (String, usize)| Source { source, entries: entries as u64 };
        let target =
            |(family, address, interface): (&str, _, _)| Target { family: family.to_owned(), address, interface };
        Policy {
            name: stats.name,
            mechanism: stats.mechanism.to_owned(),
            action: stats.action.to_owned(),
            stage: stats.stage.map(|(action, since)| Stage { action: action.to_owned(), since }),
            matching: stats.matching.map(str::to_owned),
            layout: stats.layout.map(str::to_owned),
            incremental: stats.incremental,
            rules: stats.rules.map(Rules::new),
            rate_limit: stats.rate_limit.map(RateLimit::new),
            redirect: stats.redirect.into_iter().map(target).collect(),
            sample: stats.sample.map(|(one_in, to)| Sample { one_in, to }),
            exempt: stats.exempt as u64,
            link_check: stats.link_check.to_owned(),
            alarm: stats.alarm.map(|model::Alarm { packets, window }| Alarm { packets, window }),
            origin: stats.origin,
            tables: stats.tables.iter().map(Lookup::new).collect(),
            sources: stats.sources.into_iter().map(source).collect(),
            dynamic_bytes: stats.dynamic_octets as u64,
            hits_bytes: stats.hits_octets as u64,
            limit_bytes: stats.limit_octets as u64,
        }
    }

    /// Returns whether the policy has more settings for packets than the action.
    fn responds(&self) -> bool {
        let more = self.rate_limit.is_some() || !self.redirect.is_empty() || self.sample.is_some();
        more || self.exempt > 0 || self.alarm.is_some() || self.link_check != "off"
    }
}

impl Rules {
    fn new(counts: [usize; 4]) -> Self {
        let [interface_permit, interface_deny, permit, deny] = counts.map(|count| count as u64);
        Rules { interface_permit, interface_deny, permit, deny }
    }
}

impl RateLimit {
    fn new(limit: model::RateLimit) -> Self {
        RateLimit {
            unit: match limit.unit {
                model::RateUnit::Packets => "packets",
                model::RateUnit::Bits => "bits",
            }
            .to_owned(),
            rate: limit.rate,
            burst: limit.burst,
            per: match limit.per {
                model::RatePer::Interface => "interface",
                model::RatePer::Rule => "rule",
            }
            .to_owned(),
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

/// Tables of text, of which some may be empty.
pub(super) fn text(all: &[Policy]) -> Vec<String> {
    let mut parts = vec![policies(all)];
    if all.iter().any(Policy::responds) {
        parts.push(responses(all));
    }
    if all.iter().filter_map(|policy| policy.rules).any(|rules| Rules { permit: 0, ..rules } != Rules::new([0; 4])) {
        parts.push(rules(all));
    }
    if all.iter().any(|policy| !policy.tables.is_empty()) {
        parts.push(lookups(all));
        parts.push(sources(all));
    }
    parts
}

/// Formats the policies.
fn policies(policies: &[Policy]) -> String {
    let columns = ["Policy", "Mechanism", "Action", "Stage", "Since", "Match", "Layout", "Incremental", "Declared"];
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
            policy.stage.as_ref().map_or_else(String::new, |stage| stage.action.clone()),
            policy.stage.map_or_else(String::new, |stage| utc_seconds(stage.since)),
            policy.matching.unwrap_or_default(),
            policy.layout.unwrap_or_default(),
            incremental.to_owned(),
            policy.origin,
        ]);
    }
    table.text()
}

/// Formats the settings beside the action, and exemptions.
fn responses(policies: &[Policy]) -> String {
    let columns = ["Policy", "Rate limit", "Redirect", "Sample", "Exempt", "Link check", "Alarm"];
    let mut table = Table::new(&columns.map(|name| (name, Align::Left)));
    for policy in policies.iter().filter(|policy| policy.responds()) {
        let limit = policy.rate_limit.as_ref().map_or_else(String::new, |RateLimit { unit, rate, burst, per }| {
            format!("{rate} {unit}/s, {burst} at once, per {per}")
        });
        let target = |Target { family, address, interface }: &Target| match address {
            Some(address) => format!("{address} on {interface}"),
            None => format!("{family} on {interface}"),
        };
        let sample =
            policy.sample.as_ref().map_or_else(String::new, |Sample { one_in, to }| format!("1 in {one_in} to {to}"));
        let alarm = policy
            .alarm
            .map_or_else(String::new, |Alarm { packets, window }| format!("{packets} packets/s over {window} s"));
        let exempt = match policy.exempt {
            0 => String::new(),
            1 => "1 rule".to_owned(),
            count => format!("{count} rules"),
        };
        table.row([
            policy.name.clone(),
            limit,
            policy.redirect.iter().map(target).collect::<Vec<_>>().join(", "),
            sample,
            exempt,
            policy.link_check.clone(),
            alarm,
        ]);
    }
    table.text()
}

/// How many rules stand in which lists.
fn rules(policies: &[Policy]) -> String {
    let columns = ["Interface permit", "Interface deny", "Permit", "Deny"];
    let columns = columns.map(|name| (name, Align::Right));
    let [a, b, c, d] = columns;
    let mut table = Table::new(&[("Policy", Align::Left), a, b, c, d]);
    for (policy, rules) in policies.iter().filter_map(|policy| Some((policy, policy.rules?))) {
        let Rules { interface_permit, interface_deny, permit, deny } = rules;
        let counts = [interface_permit, interface_deny, permit, deny].map(|count| count.to_string());
        let [a, b, c, d] = counts;
        table.row([policy.name.clone(), a, b, c, d]);
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

/// Formats the sources of their entries.
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
