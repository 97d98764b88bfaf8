//! SPDs, their rules and their caches.

use super::traffic::Traffic;

/// An SPD.
#[derive(Debug, Clone, PartialEq)]
pub struct SpdStats {
    /// Its name.
    pub name: String,
    /// The interfaces that name it.
    pub interfaces: Vec<String>,
    /// Its rules, in the order in which they are matched.
    pub rules: Vec<SpdRuleRow>,
    /// Its caches.
    pub caches: Vec<SpdCacheRow>,
    /// Where it was declared.
    pub origin: String,
}

/// The caches of an SPD for a direction and family, of all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpdCacheRow {
    /// It is of packets that leave.
    pub output: bool,
    /// Its family.
    pub family: crate::model::IpFamily,
    /// Places for entries.
    pub places: u64,
    /// Entries.
    pub entries: u64,
    /// Packets whose flow was there.
    pub hits: u64,
    /// Packets whose flow was not there.
    pub misses: u64,
    /// Packets whose flow was there, and was decided again as a change of the SPD concerned it.
    pub stale: u64,
    /// Entries that were overwritten by those of other flows.
    pub overwritten: u64,
}

/// A rule of an SPD, and what it has matched.
#[derive(Debug, Clone, PartialEq)]
pub struct SpdRuleRow {
    /// The rule.
    pub rule: crate::model::SpdRule,
    /// The name of its SA.
    pub sa: Option<std::sync::Arc<str>>,
    /// Packets that left and matched it; octets from the IP header on.
    pub output: Traffic,
    /// Packets that came in and matched it; octets from the IP header on.
    pub input: Traffic,
    /// Where it was declared.
    pub origin: String,
}
