//! Translation of addresses and ports, as it is wanted: lists of rules, of which the first that matches decides.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::acl::{AclRule, Addresses};
use super::mss::MssClamp;
use super::origin::Origin;
use super::sample::SamplerIndex;

/// Index of a list in [`Gateway::nat`](super::Gateway::nat).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NatIndex(pub u16);

/// An ordered list of rules, for the interfaces that name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatList {
    /// Its name, unique.
    pub name: String,
    /// In the order of the configuration.
    pub rules: Arc<[NatRule]>,
    /// The ids of its rules, which live edits do not change; `None`: they are numbered from 1.
    pub ids: Option<Arc<[u32]>>,
    /// Translations that its rules may begin, at all its interfaces; `None`: no limit.
    pub limit: Option<u32>,
    /// Where the limit was declared.
    pub limit_origin: Origin,
    /// The greatest segment size in SYN segments of its translations; `None`: they leave with theirs.
    pub mss_clamp: Option<MssClamp>,
    /// Whether inside endpoints keep their outside endpoints.
    pub mapping: NatMapping,
    /// Its translations are lines of the log.
    pub log: bool,
    /// The sampler whose collector gets its translations (RFC 8158).
    pub ipfix: Option<SamplerIndex>,
    /// Where it was declared.
    pub origin: Origin,
}

impl NatList {
    /// The id of the rule at a place.
    pub fn id(&self, place: u32) -> u32 {
        self.ids.as_ref().and_then(|ids| ids.get(place as usize)).copied().unwrap_or(place + 1)
    }
}

/// The outside endpoint (address and port) that a `source` rule gives to an inside endpoint (RFC 4787, 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NatMapping {
    /// One for each destination.
    #[default]
    EndpointDependent,
    /// The same for all destinations.
    EndpointIndependent(NatFiltering),
}

/// The outside hosts whose packets reach the inside endpoint of a mapping (RFC 4787, 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NatFiltering {
    /// Hosts that the inside endpoint has sent to, by address and port.
    #[default]
    EndpointDependent,
    /// All.
    EndpointIndependent,
}

/// The effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NatVerb {
    /// Sources of packets that leave by the interface are translated.
    Source,
    /// Destinations of packets are translated, before their route is looked up.
    Destination,
    /// Both.
    Both,
    /// Addresses inside and outside stand for each other, one for one.
    Map,
    /// Packets keep their addresses.
    Keep,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NatRule {
    /// Its effect.
    pub verb: NatVerb,
    /// The packets that it matches. Its action means nothing.
    pub matches: AclRule,
    /// Its destination is any address of the interface that names the list.
    pub to_interface: bool,
    /// The sources that packets get; `None` for `Destination` and `Keep`. A prefix for `Map`, as long as `matches.from`.
    pub source: Option<NatTarget>,
    /// The destination that packets get, one address: for `Destination` and `Both`.
    pub destination: Option<NatTarget>,
    /// The source port stays if it is free and one of the target's.
    pub preserve: bool,
    /// The port that is drawn is even if the source port is, and odd if that is.
    pub parity: bool,
    /// Its translations are lines of the log.
    pub log: bool,
    /// Translations that an inside address may have by it, for `Source`; `None`: as many as there may be sessions.
    pub limit_per_address: Option<u32>,
    /// Remarks of people.
    pub comment: Option<Arc<str>>,
}

impl NatRule {
    /// Where it was declared.
    pub fn origin(&self) -> Origin {
        self.matches.origin
    }
}

/// Addresses and ports that packets get.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NatTarget {
    /// The addresses; `None`: the first address of each family of the interface that names the list.
    pub addresses: Option<Addresses>,
    /// The ports. For destinations as many as the rule's destination ports, or one.
    pub ports: Option<RangeInclusive<u16>>,
}
