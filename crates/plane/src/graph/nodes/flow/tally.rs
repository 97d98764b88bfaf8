//! Counting the packets that take decisions.

use weir_packet::packet::Packet;

use super::super::Context;
use super::own::Own;
use crate::graph::flow::{Decision, UNASKED};
use crate::root::Root;
use crate::root::acl::Found;
use crate::root::bindings::Verdict;
use crate::root::family::Family;

/// Packets and octets that a rule is to count.
#[derive(Clone, Copy)]
struct Sum {
    found: u32,
    packets: u64,
    octets: u64,
}

/// Counts packets for what their decisions name: added up as long as packets name the same.
pub(super) struct Tally<'r, K: Family> {
    root: &'r Root,
    worker: usize,
    own: Own<'r, K>,
    hits: u64,
    /// For the ingress and the egress lists.
    sums: [Sum; 2],
    pub(super) misses: [u64; 3],
}

impl<'r, K: Family> Tally<'r, K> {
    pub(super) fn new(context: &Context<'r>) -> Self {
        let none = Sum { found: UNASKED, packets: 0, octets: 0 };
        let (root, worker) = (context.root, context.worker);
        Tally { root, worker, own: Own::of(root, crate::root::NONE), hits: 0, sums: [none; 2], misses: [0; 3] }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, packet: &Packet, decision: &Decision) {
        if packet.interface() != self.own.number {
            self.change(packet.interface());
        }
        self.hits += 1;
        let octets = (packet.len() - packet.l3_offset()) as u64;
        for (index, found) in [decision.acl_in, decision.acl_out].into_iter().enumerate() {
            if self.sums[index].found != found {
                self.flush(index, found);
            }
            self.sums[index].packets += 1;
            self.sums[index].octets += octets;
        }
        if decision.has_more() {
            self.add_others(decision, octets);
        }
    }

    #[inline(never)]
    fn change(&mut self, interface: u32) {
        self.own.count(self.root, self.worker, self.hits);
        self.hits = 0;
        self.own = Own::of(self.root, interface);
    }

    /// Counts what was added up for a rule, and begins anew for another.
    #[inline(never)]
    fn flush(&mut self, index: usize, next: u32) {
        let Sum { found, packets, octets } =
            std::mem::replace(&mut self.sums[index], Sum { found: next, packets: 0, octets: 0 });
        if found != UNASKED
            && let Some(rule) = self.root.acl.pages.counter(self.worker, Found::of(found).number())
        {
            rule.packets.add(packets);
            rule.octets.add(octets);
        }
    }

    /// Counts a packet for bindings and for the row of a validator.
    #[inline(never)]
    fn add_others(&self, decision: &Decision, octets: u64) {
        if decision.bound != UNASKED
            && let Some(rule) = self.root.bindings.pages.counter(self.worker, Verdict(decision.bound).number())
        {
            rule.packets.add(1);
            rule.octets.add(octets);
        }
        if decision.row != UNASKED
            && let Some(interface) = self.own.interface
            && let Some(validator) = K::of(&self.root.sav).get(usize::from(*K::of(&interface.sav)))
        {
            validator.hit_row(self.worker, decision.row);
        }
    }

    pub(super) fn end(mut self, context: &Context<'_>, hits: usize) {
        (0..2).for_each(|index| self.flush(index, UNASKED));
        self.own.count(self.root, self.worker, self.hits);
        let counters = &context.counters.flows;
        counters.hits.add(hits as u64);
        for (counter, missed) in counters.misses.iter().zip(self.misses) {
            counter.add(missed);
        }
    }
}
