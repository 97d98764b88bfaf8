//! Lists of steer rules, as workers read them.
//!
//! A list has a classifier for each family. A rule with conditions that the classifier has no field for is a *candidate*: its
//! conditions are checked after the lookup, and the search goes on behind it if they do not hold.

mod condition;
mod side;
mod within;

use std::sync::Arc;

use weir_packet::packet::Packet;

use crate::model::{SteerHeader, SteerIndex};
use crate::node::Node;
use crate::root::counters::TrafficCounter;
use crate::root::family::{Both, Family};

pub use condition::{Condition, Stations};
pub use side::{Entry, Side};
pub use within::Within;

/// No list.
pub const NONE: u16 = u16::MAX;

/// The lists in force.
#[derive(Clone, Default)]
pub struct Steers {
    /// By index.
    pub list: Arc<[Arc<Steer>]>,
    /// Some list is *per segment*.
    pub per_segment: bool,
}

/// The ways in which rules of a list are *per segment*: they may match some segments of a super-packet, and others not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PerSegment {
    /// They compare octets in which any two segments may differ, or packets inside.
    pub octets: bool,
    /// They compare identifiers behind UDP: each datagram has its own.
    pub datagrams: bool,
    /// They compare TCP flags in which segments differ.
    pub flags: bool,
}

impl PerSegment {
    /// Returns whether some rule is per segment.
    #[must_use]
    pub fn is_any(self) -> bool {
        self.octets | self.datagrams | self.flags
    }
}

/// A list.
pub struct Steer {
    /// Its index.
    pub index: SteerIndex,
    /// The search for IPv4 packets.
    pub v4: Side<u32>,
    /// The search for IPv6 packets.
    pub v6: Side<u128>,
    /// The rules about frames that are not IP, in order.
    pub frames: Box<[Frame]>,
    /// Rules by number, which is the place in the configuration.
    pub rules: Box<[Rule]>,
    /// Super-packets whose segments may match different rules are cut before the lookup.
    pub per_segment: PerSegment,
}

impl Both for Steer {
    type Part<K: Family> = Side<K>;

    #[inline(always)]
    fn v4(&self) -> &Side<u32> {
        &self.v4
    }

    #[inline(always)]
    fn v6(&self) -> &Side<u128> {
        &self.v6
    }
}

/// A rule about frames that are not IP.
pub struct Frame {
    /// The number of the rule.
    pub rule: u32,
    /// Their ethertype.
    pub ethertype: Option<u16>,
    /// The other conditions.
    pub condition: Condition,
}

impl Steer {
    /// The first rule that matches a frame that is not IP, whose payload the packet knows.
    #[must_use]
    pub fn of_frame(&self, packet: &Packet, ethertype: u16) -> Option<u32> {
        let matches = |own: &&Frame| own.ethertype.is_none_or(|own| own == ethertype) && own.condition.holds(packet);
        self.frames.iter().find(matches).map(|own| own.rule)
    }
}

/// A rule.
pub struct Rule {
    /// The mark that it gives to packets.
    pub mark: Option<u32>,
    /// Where packets go.
    pub way: Way,
    /// Packets that it matched and their octets from the IP header on, by worker. Versions share them as long as the rule stays.
    pub counters: Arc<[TrafficCounter]>,
}

/// Where packets that a rule matches go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// On.
    On,
    /// They are dropped.
    Drop,
    /// Out, by the adjacency of this number; `None`: its link is down.
    To(Option<u32>),
    /// To the worker of this number.
    Queue(u16),
    /// To a node.
    Node(Node),
    /// Into the packet behind so many octets.
    Advance(u16, SteerHeader),
}
