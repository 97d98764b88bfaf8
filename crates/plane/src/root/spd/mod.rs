//! Security policy databases, as workers read them.
//!
//! An SPD has a classifier for each family and direction. The answer of a classifier is the number of a policy. A policy keeps its
//! number from version to version, wherever it stands.

mod cache;
mod changes;

use std::sync::Arc;

use weir_table::classify::Table;

use crate::model::SpdIndex;
use crate::root::counters::TrafficCounter;
use crate::root::family::{Both, Family};
use crate::root::interface::Interface;

pub use cache::{CacheCounters, Cached};
pub use changes::Changes;

/// No SPD.
pub const NONE: u16 = u16::MAX;

/// The SPDs in force.
#[derive(Clone, Default)]
pub struct Spds {
    /// By index.
    pub list: Arc<[Arc<Spd>]>,
    /// By the number of a pair of SAs: the indices of the SPDs whose rules protect by it.
    pub by_sa: Arc<[Box<[u16]>]>,
    /// Another number after each change.
    pub version: u64,
}

impl Spds {
    /// There is an SPD.
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        !self.list.is_empty()
    }

    /// The SPD of an interface.
    #[inline]
    pub fn of(&self, interface: Option<&Interface>) -> Option<&Arc<Spd>> {
        self.list.get(usize::from(interface?.spd))
    }

    /// The SPDs whose rules protect by a pair of SAs, by its number.
    #[inline]
    pub(crate) fn protecting(&self, sa: u32) -> impl Iterator<Item = &Spd> {
        let indices = self.by_sa.get(sa as usize).map_or(&[][..], |indices| indices);
        indices.iter().filter_map(|&index| self.list.get(usize::from(index)).map(|spd| &**spd))
    }

    /// The SPD of an interface compares ports, or type and code, which later fragments get from the first one.
    pub(crate) fn needs_transport<K: Family>(&self, interface: Option<&Interface>) -> bool {
        self.is_active() && self.of(interface).is_some_and(|spd| K::of(&**spd).needs_transport)
    }
}

/// An SPD.
pub struct Spd {
    /// Its index.
    pub index: SpdIndex,
    /// The classifiers of IPv4.
    pub v4: Sides<u32>,
    /// The classifiers of IPv6.
    pub v6: Sides<u128>,
    /// The number of the SPD, which no SPD of another name ever has.
    pub id: u64,
    /// Another number after each change of the SPD; not 0.
    pub version: u32,
    /// Policies by number; `None`: no policy has the number now.
    pub policies: Box<[Option<Policy>]>,
    /// The number of each policy, by its place in the configuration.
    pub numbers: Box<[u32]>,
    /// Some policy shares its flows.
    pub is_shared: bool,
}

impl Spd {
    /// The policy of a number.
    #[inline(always)]
    pub fn policy(&self, number: u32) -> Option<&Policy> {
        self.policies.get(number as usize)?.as_ref()
    }

    /// The policy at a place in the configuration.
    pub fn at(&self, place: u32) -> Option<&Policy> {
        self.policy(*self.numbers.get(place as usize)?)
    }
}

impl Both for Spd {
    type Part<K: Family> = Sides<K>;

    #[inline(always)]
    fn v4(&self) -> &Sides<u32> {
        &self.v4
    }

    #[inline(always)]
    fn v6(&self) -> &Sides<u128> {
        &self.v6
    }
}

/// The classifiers of a family, and their caches.
pub struct Sides<K: Family> {
    /// Of packets that leave.
    pub output: Arc<Table<K>>,
    /// Of packets that come in, with source and destination of rules exchanged.
    pub input: Arc<Table<K>>,
    /// A rule compares ports, or type and code, and no rule is opaque: later fragments match with the fields of the first
    /// one.
    pub needs_transport: bool,
    /// A rule is opaque: later fragments match without ports, type and code (RFC 4301, 7.2).
    pub is_opaque: bool,
    /// The caches of packets that come in, and of packets that leave.
    pub cached: [Option<Arc<Cached<K>>>; 2],
    /// The changes that entries of these caches are older than.
    pub changes: [Changes<K>; 2],
}

impl<K: Family> Sides<K> {
    /// The classifier of a direction.
    #[inline(always)]
    pub fn table(&self, output: bool) -> &Table<K> {
        if output { &self.output } else { &self.input }
    }
}

/// The action of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Packets are protected by the pair of SAs of this number.
    Protect(u32),
    /// Packets pass in clear.
    Bypass,
    /// Packets are dropped.
    Discard,
}

/// A rule of an SPD.
pub struct Policy {
    /// Its action.
    pub action: Action,
    /// Its place in the configuration.
    pub place: u32,
    /// Other rules that protect the same packets, by their pairs of SAs: each with its number. Such a pair may decrypt the packets,
    /// too, so that one pair can take the place of another without a loss.
    pub alike: Box<[(u32, u32)]>,
    /// The numbers of the policies that share its flows, itself among them; none if it does not share them.
    pub shares: Box<[u32]>,
    /// Its counters, by worker. Versions share them as long as the rule stays, and both rules of a rekey do.
    pub counters: Arc<[PolicyCounters]>,
}

impl Policy {
    /// The number of the policy that lets a pair of SAs decrypt packets that match this one, whose number is given.
    #[inline]
    pub fn admits(&self, sa: u32, number: u32) -> Option<u32> {
        if self.action == Action::Protect(sa) {
            return Some(number);
        }
        self.alike.iter().find(|alike| alike.0 == sa).map(|alike| alike.1)
    }
}

/// Counters of a policy, on one worker: packets, and octets from the IP header on.
#[derive(Debug, Default)]
pub struct PolicyCounters {
    /// Of packets that left.
    pub output: TrafficCounter,
    /// Of packets that came in.
    pub input: TrafficCounter,
}

impl PolicyCounters {
    /// The counters of a direction.
    #[inline(always)]
    pub fn of(&self, output: bool) -> &TrafficCounter {
        if output { &self.output } else { &self.input }
    }
}
