//! Access lists, and the classifiers that they are compiled to.

use super::traffic::Traffic;

/// An access list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclListStats {
    /// Its name.
    pub name: String,
    /// Where it was declared; empty where it was not.
    pub origin: String,
    /// The creator of the list and the time in seconds of the Unix epoch, if a command created it.
    pub created: Option<(String, u64)>,
    /// Rules of it were changed since it was declared.
    pub edited: bool,
    /// Rules.
    pub rules: usize,
    /// The number of rules that live edits added.
    pub live: usize,
    /// The action for packets that no rule matches.
    pub default: crate::model::AclDefault,
    /// The number of the default.
    pub default_number: u32,
    /// Packets that it decided about, and their octets from the IP header on.
    pub default_matched: Traffic,
    /// Packets that rules decided about.
    pub matched: Traffic,
    /// The interfaces with this ingress list.
    pub input: Vec<String>,
    /// The interfaces that name it for what leaves.
    pub output: Vec<String>,
    /// Of how many packets of rules that log one is sampled, and by which sampler.
    pub sample: Option<(u32, String)>,
    /// Octets of its order, beside those of chains and counters.
    pub octets: usize,
}

/// A rule of an access list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclRuleRow {
    /// Its number, which it has as long as it is in the list.
    pub number: u32,
    /// Where in the list it is, counted from 0.
    pub index: usize,
    /// The rule, with the interfaces of the model in force.
    pub rule: crate::model::AclRule,
    /// Packets that it matched, and their octets from the IP header on.
    pub matched: Traffic,
    /// Packets that the rule's limit dropped; `None` without a limit.
    pub limited: Option<u64>,
    /// `file`, or who said so while the gateway ran.
    pub source: String,
    /// Where it was declared; empty where it was said.
    pub origin: String,
    /// When it was said: seconds of the Unix epoch.
    pub time: Option<u64>,
}

/// Access lists that are compiled together into one section of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclSectionStats {
    /// The lists, in their order.
    pub lists: Vec<String>,
    /// No section follows for packets that no rule matches.
    pub is_last: bool,
    /// The interfaces with this section at ingress.
    pub input: Vec<String>,
    /// The interfaces with this section at egress.
    pub output: Vec<String>,
    /// For IPv4.
    pub v4: AclTableStats,
    /// For IPv6.
    pub v6: AclTableStats,
}

/// A classifier of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AclTableStats {
    /// Boxes that its rules come to: one for each combination of members of groups.
    pub boxes: usize,
    /// Octets of what lookups touch.
    pub lookup_octets: usize,
    /// Octets of what the control side keeps beside it.
    pub control_octets: usize,
    /// Rules match ports, types or flags, which later fragments do not have.
    pub needs_transport: bool,
    /// How a lookup fares at worst.
    pub worst: weir_table::classify::Shape,
}
