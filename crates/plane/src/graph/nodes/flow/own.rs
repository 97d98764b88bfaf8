//! The interface that packets come in by.

use super::super::stage;
use crate::graph::flow::{Decision, UNASKED};
use crate::root::bindings::Verdict;
use crate::root::family::Family;
use crate::root::sav::{NONE, Validator};
use crate::root::{Interface, Root, nat};

/// An interface, as the loops hold it: looked up once for each run of its packets.
pub(super) struct Own<'a, K: Family> {
    pub(super) number: u32,
    pub(super) interface: Option<&'a Interface>,
    /// The zone whose sessions permit packets, if it has some.
    pub(super) zone: Option<u16>,
    /// The zone of translations of its routing domain, if it has some and no other zone.
    pub(super) nat: Option<u16>,
    /// Its flows are learned.
    pub(super) is_learned: bool,
    family: std::marker::PhantomData<K>,
}

impl<'a, K: Family> Own<'a, K> {
    pub(super) fn of(root: &'a Root, number: u32) -> Self {
        let interface = root.interfaces.get(number as usize);
        let zone = interface.map(|interface| interface.zone).filter(|&zone| root.acl.reflects(zone));
        let nat = interface.map(|interface| interface.nat.zone).filter(|&nat| nat != nat::NONE && zone.is_none());
        let is_learned = interface.is_some_and(|interface| stage::is_learned(root, interface, K::IS_V4));
        Own { number, interface, zone, nat, is_learned, family: std::marker::PhantomData }
    }

    /// Counts packets that took decisions, where the nodes would have.
    pub(super) fn count(&self, root: &Root, worker: usize, hits: u64) {
        if hits > 0 {
            self.count_checked(worker, hits);
            self.count_allowed(root, worker, hits);
        }
    }

    /// Counts a packet for bindings, and for the row of a validator.
    pub(super) fn count_bound(&self, root: &Root, worker: usize, decision: &Decision, (packets, octets): (u64, u64)) {
        if decision.bound != UNASKED
            && let Some(rule) = root.bindings.pages.counter(worker, Verdict(decision.bound).number())
        {
            rule.packets.add(packets);
            rule.octets.add(octets);
        }
        if decision.row != UNASKED
            && let Some(interface) = self.interface
            && let Some(validator) = K::of(&root.sav).get(usize::from(*K::of(&interface.sav)))
        {
            validator.hit_row(worker, decision.row, packets);
        }
    }

    /// Counts packets for validation.
    pub(super) fn count_checked(&self, worker: usize, packets: u64) {
        if let Some(interface) = self.interface.filter(|own| *K::of(&own.sav) != NONE) {
            Validator::<K>::counters(interface, worker).checked.add(packets);
        }
    }

    /// Counts packets for allowlists alone.
    pub(super) fn count_allowed(&self, root: &Root, worker: usize, hits: u64) {
        let Some(interface) = self.interface else { return };
        if let Some(sequence) = K::of(&root.allow).get(usize::from(*K::of(&interface.allow))) {
            let of_worker = sequence.0.iter().filter_map(|list| list.counters.get(worker));
            of_worker.for_each(|counters| counters.passed.add(hits));
        }
    }
}
