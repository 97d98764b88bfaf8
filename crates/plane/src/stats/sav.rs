//! Source address validation: policies, tables, entries, and invalid packets.

use std::net::IpAddr;
use std::time::Duration;

use super::traffic::Traffic;

/// The counters of source address validation on an interface, of one family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SavInterfaceStats {
    /// The interface.
    pub interface: String,
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// The policy that it has; empty: none any more.
    pub policy: String,
    /// Packets that were validated.
    pub checked: u64,
    /// Valid packets whose source is unknown and that went on for it.
    pub unknown: u64,
    /// Packets that were not validated, being exempt.
    pub exempt: u64,
    /// Invalid packets that were dropped by a limit.
    pub limited: u64,
    /// Invalid packets that were redirected.
    pub redirected: u64,
    /// Invalid packets by the check that found them, for every mechanism in order.
    pub invalid: Vec<(&'static str, Traffic)>,
}

/// Where packets came from that were not valid.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InvalidSources {
    /// By interface, prefix of the source and cause, those with the most packets first.
    pub rows: Vec<InvalidSourceRow>,
    /// Prefixes that each worker keeps at most.
    pub limit: usize,
    /// Octets of memory, over all workers.
    pub octets: usize,
    /// The number of evicted prefixes, and their traffic.
    pub lost: (u64, Traffic),
}

/// The invalid packets of one prefix, interface and cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSourceRow {
    /// The interface.
    pub interface: String,
    /// The prefix that is counted together: 24 bits of IPv4, 48 of IPv6.
    pub prefix: ipnet::IpNet,
    /// The longest prefix that covers all sources that were entered.
    pub seen: ipnet::IpNet,
    /// One of these sources.
    pub source: IpAddr,
    /// Packets and octets of frames.
    pub traffic: Traffic,
    /// The check that found the packets invalid.
    pub by: &'static str,
    /// How long ago the last of them came.
    pub age: Duration,
}

/// An entry of a policy's list or table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavEntryRow {
    /// The prefix of sources.
    pub prefix: ipnet::IpNet,
    /// The interfaces that it is about.
    pub interfaces: Vec<String>,
    /// Whose list of a table it stands in; [`Scope::Prefix`](crate::model::Scope::Prefix) in an `acl`.
    pub scope: crate::model::Scope,
    /// They may be come in by.
    pub permit: bool,
    /// `file`, or who said so while the gateway ran.
    pub source: String,
    /// Where it was declared; empty where it was said.
    pub origin: String,
    /// When it was said: seconds of the Unix epoch.
    pub time: Option<u64>,
    /// Packets whose source's most specific prefix this is, where they are counted.
    pub hits: Option<u64>,
}

/// A policy of source address validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavPolicyStats {
    /// Its name.
    pub name: String,
    /// Its mechanism.
    pub mechanism: &'static str,
    /// The action that is configured: `permit`, `rate-limit`, `redirect` or `discard`.
    pub action: &'static str,
    /// The action that is in force in its place, and since when in seconds of the Unix epoch, if another is.
    pub stage: Option<(&'static str, u64)>,
    /// How nested prefixes are taken, of a table.
    pub matching: Option<&'static str>,
    /// `merged`, `cards-serial` or `cards-parallel`, of a table.
    pub layout: Option<&'static str>,
    /// Sources that no rule knows are valid.
    pub incremental: bool,
    /// Configured rules of a table, by the kinds of lists that they stand in: those of [`Mode::ALL`](crate::model::Mode::ALL).
    pub rules: Option<[usize; 4]>,
    /// How many packets pass where they are limited.
    pub rate_limit: Option<crate::model::RateLimit>,
    /// Where packets go where they are redirected: family, address unless they go straight to their destinations, interface.
    pub redirect: Vec<(&'static str, Option<IpAddr>, String)>,
    /// Of how many packets one is sampled, and by which sampler.
    pub sample: Option<(u32, String)>,
    /// Rules that say which packets are not validated.
    pub exempt: usize,
    /// The check of source hardware addresses: `off`, `known` or `strict`.
    pub link_check: &'static str,
    /// The threshold of its alarm.
    pub alarm: Option<crate::model::Alarm>,
    /// Where it was declared.
    pub origin: String,
    /// Its tables, IPv4 and IPv6; empty for mechanisms that use routes.
    pub tables: Vec<SavTableStats>,
    /// Entries by who says so: `file`, then the others.
    pub sources: Vec<(String, usize)>,
    /// Octets of what is kept of entries that came while the gateway ran.
    pub dynamic_octets: usize,
    /// Octets of counters of hits.
    pub hits_octets: usize,
    /// Octets of the buckets of its rate limit.
    pub limit_octets: usize,
}

/// How full one of a policy's tables is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavTableStats {
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// Prefixes, and how many there may be.
    pub prefixes: (usize, usize),
    /// Different sets of interfaces, and how many there may be.
    pub sets: (usize, usize),
    /// Octets of what lookups touch.
    pub lookup_octets: usize,
    /// Octets of what the control side keeps beside it.
    pub control_octets: usize,
}
