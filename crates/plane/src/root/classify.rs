//! Classifier tables as workers read them. Each is looked up a vector at a time.

use std::sync::Arc;

use weir_base::clock::Time;
use weir_base::prefetch;
use weir_table::masked;

use crate::model::{ClassifyStart, IpFamily};
use crate::root::counters::Counter;
use crate::root::sampler::Choice;
use crate::root::sav::Meters;

/// The interface has no table; or there is no next table.
pub const NONE: u16 = u16::MAX;

/// The tables of all interfaces.
#[derive(Clone, Default)]
pub struct Classifiers {
    /// In the order of the model.
    pub tables: Arc<[Table]>,
    /// Ways that sessions give to packets, by their number.
    pub ways: Arc<[Way]>,
    /// Some interface has tables for ingress.
    pub input: bool,
    /// Some interface has tables for egress.
    pub output: bool,
}

/// A table.
#[derive(Clone)]
pub struct Table {
    /// The number of the table, which no other one gets, whatever the model.
    pub id: u32,
    /// The header that its mask begins at.
    pub start: ClassifyStart,
    /// Of [`ClassifyStart::Meta`]: the mark is compared, and the interface or its VRF.
    pub compared: [bool; 2],
    /// The family of packets that may match; `None`: both.
    pub family: Option<IpFamily>,
    /// The values of its sessions, and their numbers.
    pub keys: Arc<masked::Table>,
    /// The action of each session by its number, as an index of `actions`.
    pub action_of: Arc<[u32]>,
    /// The actions.
    pub actions: Arc<[Action]>,
    /// The counters of sessions, by worker and number.
    pub counted: Arc<[Box<[SessionCounter]>]>,
    /// The counters of packets without a session, by worker.
    pub missed: Arc<[MissCounter]>,
    /// The place of the next table; [`NONE`] without one.
    pub next: u16,
    /// Without a next table: packets without a session pass.
    pub permits_misses: bool,
}

/// Octets of a [`MetaKey`].
pub const META_LENGTH: usize = 12;

/// The metadata of a packet, as tables of [`ClassifyStart::Meta`] look it up.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaKey {
    /// Its mark.
    pub mark: u32,
    /// The number of the interface that it came in by.
    pub interface: u32,
    /// The number of the interface's VRF.
    pub vrf: u32,
}

impl MetaKey {
    /// The octets under a mask.
    #[inline(always)]
    pub fn octets(self) -> [u8; META_LENGTH] {
        let MetaKey { mark, interface, vrf } = self;
        let all = u128::from(mark) << 64 | u128::from(interface) << 32 | u128::from(vrf);
        let [_, _, _, _, rest @ ..] = all.to_be_bytes();
        rest
    }
}

/// The action of a session.
#[derive(Clone, Debug)]
pub struct Action {
    /// Packets pass.
    pub permit: bool,
    /// Packets pass, and there is nothing more to it.
    pub is_plain: bool,
    /// The number of the way that packets get.
    pub way: Option<u32>,
    /// The mark that packets get.
    pub mark: Option<u32>,
    /// The rate that passes.
    pub meter: Option<Arc<Meters>>,
    /// Packets are offered to a sampler.
    pub sample: Option<Choice>,
}

/// Where the lookup sends packets that have it, unless they are for the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// The [`Forwarding`](crate::root::Forwarding) of IPv4 packets.
    pub v4: Option<u32>,
    /// The same of IPv6 packets.
    pub v6: Option<u32>,
    /// The VRF in whose tables the destination is looked up, by number, if there is no forwarding.
    pub vrf: Option<u16>,
    /// A translation gave the destination, which is one of the VRF.
    pub is_translated: bool,
}

/// The counter of a session on one worker.
#[derive(Debug, Default)]
#[repr(align(32))]
pub struct SessionCounter {
    /// Packets.
    pub packets: Counter,
    /// Octets from the header of IP on.
    pub octets: Counter,
    /// When the last packet came, in nanoseconds of the clock.
    pub last: Counter,
}

/// The counter of packets without a session on one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct MissCounter {
    /// Packets.
    pub packets: Counter,
}

impl Table {
    /// The action of a session; `None`, if this version has none of its number.
    #[inline(always)]
    pub(crate) fn action(&self, session: u32) -> Option<&Action> {
        self.actions.get(*self.action_of.get(session as usize)? as usize)
    }

    /// Fetches what is counted for a session.
    #[inline(always)]
    pub(crate) fn fetch(&self, worker: usize, session: u32) {
        if let Some(counter) = self.counted.get(worker).and_then(|own| own.get(session as usize)) {
            prefetch::read(counter);
        }
    }

    /// Counts packets of so many octets in all for a session.
    #[inline(always)]
    pub(crate) fn count(&self, worker: usize, session: u32, (packets, octets): (u64, u64), now: Time) {
        if let Some(counter) = self.counted.get(worker).and_then(|own| own.get(session as usize)) {
            counter.packets.add(packets);
            counter.octets.add(octets);
            counter.last.set(now.0);
        }
    }
}
