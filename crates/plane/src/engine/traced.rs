//! Traced packets as values, with what decided about each.

use crate::compile::{AclDecision, BindingDecision, ClassifyDecision, Decision, Listed};
use crate::graph::record::{Learning, Miss, NatEffect, Role, SpdEffect};
use crate::model::{BridgeIndex, InterfaceIndex, NatIndex, Origin, SaIndex, SpdIndex, SteerIndex};

/// A traced packet, as `show trace` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRow {
    /// Number of the trace, from 1.
    pub number: u32,
    /// Worker.
    pub worker: usize,
    /// When it was received: nanoseconds of the gateway's clock.
    pub time: u64,
    /// The nodes it passed, in order.
    pub steps: Vec<TraceStep>,
}

/// A node that a traced packet passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceStep {
    /// Node.
    pub node: &'static str,
    /// Interface that the packet came in on.
    pub interface: String,
    /// The packet at that node, on one line.
    pub packet: String,
    /// The decision or finding of the node, e.g. `via 198.51.100.254 on wan` or `ttl-expired`; may be empty.
    pub note: String,
    /// The decisions of policies at the node.
    pub decisions: Vec<TraceDecision>,
}

/// A decision about a traced packet, and what decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceDecision {
    /// A rule of an access list, or its default; and the packet's part in the session that the rule opened, if it has one.
    Acl(AclDecision, Option<Role>),
    /// A rule of bindings, or that none matches.
    Bindings(BindingDecision),
    /// An allowlist.
    Allowlist(Listed),
    /// A session of a classifier table, or that none matches.
    Classify(ClassifyDecision),
    /// A policy of source address validation.
    Sav {
        /// Its name.
        policy: String,
        /// Where it was declared.
        origin: Origin,
        /// Which of its entries; `None`: something has changed since, or none did.
        decision: Option<Decision>,
    },
    /// The ethertypes of an interface; where they were declared.
    Ethertypes(Origin),
    /// The learned decision about its flow, or why it takes none.
    Flow(Option<Miss>),
    /// Whether the decision about its flow was learned.
    Learning(Learning),
    /// A rule that translates: its list, its place there, and its effect.
    Nat(NatIndex, u32, NatEffect),
    /// An SPD: the place of the policy if one matched, and its effect.
    Spd(SpdIndex, Option<u32>, SpdEffect),
    /// A steer rule: its list, and its place there.
    Steer(SteerIndex, u32),
    /// The pair of SAs that encrypted it, or decrypted it (true).
    Sa(SaIndex, bool),
    /// The interface of the tunnel that it was put into, or taken out of (true).
    Tunnel(InterfaceIndex, bool),
    /// It became part of a super-packet, or the super-packet: the interface, and whether it was leaving by it.
    Merged(InterfaceIndex, bool),
    /// The bridge that found its port, and its way in words.
    Bridge(BridgeIndex, String),
    /// It is not in force any more.
    Gone,
}
