//! Security policy databases (RFC 4301, 4.4.1), as they are wanted.

use std::sync::Arc;

use super::acl::AclRule;
use super::ipsec::SaIndex;
use super::origin::Origin;

/// Index of an SPD in [`Gateway::spds`](super::Gateway::spds).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpdIndex(pub u16);

/// An SPD, for the interfaces that name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spd {
    /// Its name, unique.
    pub name: String,
    /// In the order of the configuration.
    pub rules: Arc<[SpdRule]>,
    /// Its caches of policies by flow.
    pub cache: SpdCache,
    /// Where it was declared.
    pub origin: Origin,
}

impl Spd {
    /// The places of the rules in the order in which they are matched: by priority, higher ones first, and equal ones in the
    /// order of the list.
    #[must_use]
    pub fn order(&self) -> Vec<u32> {
        // The parser refuses lists of more rules.
        let mut order: Vec<u32> = (0..self.rules.len() as u32).collect();
        order.sort_by_key(|&place| std::cmp::Reverse(self.rules[place as usize].priority));
        order
    }
}

/// Caches of an SPD, one for each direction and family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpdCache {
    /// Packets that leave are looked up in a cache first.
    pub outbound: bool,
    /// Packets that come in are looked up in a cache first.
    pub inbound: bool,
    /// Flows of each cache for which there is room on each worker. The cache has four places for each, rounded up to a
    /// power of two.
    pub flows: u32,
}

impl Default for SpdCache {
    fn default() -> Self {
        SpdCache { outbound: false, inbound: false, flows: 1_000_000 }
    }
}

/// The action of a rule (RFC 4301, 4.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpdAction {
    /// Packets are protected by this pair of SAs.
    Protect(SaIndex),
    /// Packets pass in clear.
    Bypass,
    /// Packets are dropped.
    Discard,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpdRule {
    /// Its action.
    pub action: SpdAction,
    /// The packets that leave and match. Packets that come in match with source and destination exchanged. Its action has no
    /// meaning. It names neither interfaces nor fragments nor TCP flags nor a DSCP.
    pub matches: AclRule,
    /// The rule itself names its family, not only its addresses or protocol.
    pub names_family: bool,
    /// The local end, and the remote end, say that ports are not there: the rule matches packets with neither ports nor type
    /// and code, if some end does.
    pub opaque: (bool, bool),
    /// The rule shares the flows that it matches with the other such rules of the SPD that have its selectors: each flow keeps to
    /// one of them, by its hash.
    pub shared: bool,
    /// Its pair of SAs takes the place of this one, whose rule stands beside it: both rules count together.
    pub rekeys: Option<SaIndex>,
    /// Rules of a higher priority are matched first.
    pub priority: i32,
    /// Remarks of people.
    pub comment: Option<Arc<str>>,
}

impl SpdRule {
    /// A rule without further properties.
    #[must_use]
    pub fn new(action: SpdAction, matches: AclRule) -> SpdRule {
        SpdRule {
            action,
            matches,
            names_family: false,
            opaque: (false, false),
            shared: false,
            rekeys: None,
            priority: 0,
            comment: None,
        }
    }

    /// It matches packets without ports, type and code alone.
    #[must_use]
    pub fn is_opaque(&self) -> bool {
        self.opaque.0 || self.opaque.1
    }

    /// Where it was declared.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.matches.origin
    }
}
