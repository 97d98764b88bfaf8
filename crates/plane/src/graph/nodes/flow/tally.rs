//! Counting the packets that take decisions.

use weir_packet::packet::Packet;

use super::super::{Context, wire};
use super::own::Own;
use super::policies;
use crate::graph::flow::{Decision, UNASKED};
use crate::graph::record::Miss;
use crate::root::acl::Found;
use crate::root::family::Family;
use crate::root::{NONE, Root};

/// Packets and octets of a run of packets.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    pub(super) packets: u64,
    pub(super) octets: u64,
}

impl Sum {
    #[inline(always)]
    pub(super) fn add(&mut self, octets: u64) {
        self.add_all((1, octets));
    }

    /// Adds what a packet counts.
    #[inline(always)]
    pub(super) fn add_all(&mut self, (packets, octets): (u64, u64)) {
        self.packets += packets;
        self.octets += octets;
    }
}

/// The rules of the ingress and the egress lists that decided about a packet, and the interface that it came in by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    found: [u32; 2],
    interface: u32,
}

impl Rules {
    /// Of no packet.
    pub(super) const NONE: Rules = Rules { found: [UNASKED; 2], interface: NONE };

    #[inline(always)]
    pub(super) fn of(decision: &Decision, packet: &Packet) -> Rules {
        Rules::new([decision.acl_in, decision.acl_out], packet)
    }

    #[inline(always)]
    pub(super) fn new(found: [u32; 2], packet: &Packet) -> Rules {
        Rules { found, interface: packet.interface() }
    }

    /// Equality with one branch.
    #[inline(always)]
    pub(super) fn is(&self, other: &Rules) -> bool {
        let word = |rules: &Rules| u64::from(rules.found[0]) | u64::from(rules.found[1]) << 32;
        (word(self) ^ word(other)) | u64::from(self.interface ^ other.interface) == 0
    }
}

/// Octets of a packet from its IP header on.
#[inline(always)]
pub(super) fn octets(packet: &Packet) -> u64 {
    (packet.len() - packet.l3_offset()) as u64
}

/// Counts packets for what their decisions name: runs of packets with the same rules that came in by the same interface.
pub(super) struct Tally<'r, K: Family> {
    root: &'r Root,
    worker: usize,
    own: Own<'r, K>,
    hits: u64,
    /// Packets that super-packets count beside themselves.
    pub(super) more: u64,
    pub(super) misses: [u64; Miss::COUNT],
}

impl<'r, K: Family> Tally<'r, K> {
    pub(super) fn new(context: &Context<'r>) -> Self {
        let (root, worker) = (context.root, context.worker);
        Tally { root, worker, own: Own::of(root, NONE), hits: 0, more: 0, misses: [0; Miss::COUNT] }
    }

    /// Counts a run.
    #[inline(never)]
    pub(super) fn add(&mut self, rules: Rules, sum: Sum) {
        if sum.packets == 0 {
            return;
        }
        self.enter(rules.interface);
        self.hits += sum.packets;
        for found in rules.found.into_iter().filter(|&found| found != UNASKED) {
            if let Some(rule) = self.root.acl.pages.counter(self.worker, Found::of(found).number()) {
                rule.packets.add(sum.packets);
                rule.octets.add(sum.octets);
            }
        }
    }

    /// Counts a packet that came in behind validation.
    #[cold]
    pub(super) fn add_inside(&mut self, packet: &Packet, decision: &Decision) {
        let (packets, octets) = wire::counts(packet);
        self.add(Rules::of(decision, packet), Sum { packets, octets });
        self.hits -= packets;
        self.own.count_allowed(self.root, self.worker, packets);
    }

    /// Looks up the interface of the next packets, if it is another one.
    #[inline]
    fn enter(&mut self, interface: u32) {
        if interface != self.own.number {
            self.own.count(self.root, self.worker, std::mem::take(&mut self.hits));
            self.own = Own::of(self.root, interface);
        }
    }

    /// Counts a packet for bindings, for the row of a validator, and for policies of SPDs.
    #[inline(never)]
    pub(super) fn add_others(&mut self, packet: &Packet, decision: &Decision) {
        self.enter(packet.interface());
        let counts = wire::counts(packet);
        self.own.count_bound(self.root, self.worker, decision, counts);
        if decision.is_secured() {
            let egress = self.root.adjacencies.view().get(decision.adjacency).map_or(NONE, |own| own.interface);
            let ingress = (packet.interface(), decision.spd_in);
            policies::count(self.root, self.worker, ingress, false, counts);
            policies::count(self.root, self.worker, (egress, decision.spd_out), true, counts);
        }
    }

    /// Counts for the interfaces, and all packets.
    pub(super) fn end(self, context: &Context<'_>, hits: usize) {
        self.own.count(self.root, self.worker, self.hits);
        let counters = &context.counters.flows;
        counters.hits.add(hits as u64 + self.more);
        for (counter, missed) in counters.misses.iter().zip(self.misses) {
            counter.add(missed);
        }
    }
}
