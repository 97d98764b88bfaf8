//! Counters and special parts of rules, in pages that versions of the root share.

use std::sync::Arc;

use super::found::Found;
use crate::model::{RateUnit, Rejection};
use crate::root::counters::Counter;
use crate::root::sampler::Choice;
use crate::root::sav::Meters;

/// Rules of a page.
pub const PAGE: usize = 1024;

/// The counter of a rule on one worker.
#[derive(Debug, Default)]
pub struct RuleCounter {
    /// Packets.
    pub packets: Counter,
    /// Octets from the header of IP on.
    pub octets: Counter,
}

/// The parts of a rule beside its verdict.
#[derive(Clone, Debug)]
pub struct Special {
    /// Packets are offered to a sampler.
    pub sample: Option<Choice>,
    /// How many of them pass: one bucket.
    pub meter: Option<Arc<Meters>>,
    /// The report to the source, if the rule rejects.
    pub rejection: Rejection,
    /// Packets open sessions.
    pub reflects: bool,
    /// Flows are learned from their first packet on, or never.
    pub flow: Option<bool>,
}

impl Special {
    /// The rule limits bits.
    pub fn limits_bits(&self) -> bool {
        self.meter.as_ref().is_some_and(|meter| meter.limit().unit == RateUnit::Bits)
    }

    /// The rule has no limit and no sampler for the packets of its sessions, and lets them be learned.
    pub fn only_reflects(&self) -> bool {
        self.reflects && self.lets_learn()
    }

    /// The rule acts on each of its packets: it limits them, or offers them to a sampler.
    pub fn limits(&self) -> bool {
        self.sample.is_some() || self.meter.is_some()
    }

    fn lets_learn(&self) -> bool {
        !self.limits() && self.flow != Some(false)
    }
}

/// The counters and special parts of [`PAGE`] rules with adjacent numbers.
#[derive(Debug)]
pub struct Page {
    /// By worker, then by the lower bits of the number.
    counters: Arc<[Box<[RuleCounter]>]>,
    /// By the lower bits of the number, in their order.
    specials: Vec<(u16, Special)>,
}

impl Page {
    /// Rules that have matched nothing, for so many workers.
    pub fn new(workers: usize) -> Page {
        let of_worker = || (0..PAGE).map(|_| RuleCounter::default()).collect();
        Page { counters: (0..workers).map(|_| of_worker()).collect(), specials: Vec::new() }
    }

    /// The same counters with other specials, by the lower bits of the number and in their order.
    #[must_use]
    pub fn with_specials(&self, specials: Vec<(u16, Special)>) -> Page {
        debug_assert!(specials.is_sorted_by_key(|(slot, _)| *slot));
        Page { counters: Arc::clone(&self.counters), specials }
    }

    /// Packets and octets that a rule of it has matched, of all workers, by the lower bits of its number.
    pub fn matched(&self, slot: usize) -> (u64, u64) {
        let of = self.counters.iter().filter_map(|rules| rules.get(slot));
        of.fold((0, 0), |(packets, octets), rule| (packets + rule.packets.value(), octets + rule.octets.value()))
    }

    /// Returns the special rules of the page, by the lower bits of their numbers.
    pub fn specials(&self) -> &[(u16, Special)] {
        &self.specials
    }
}

/// Pages, by the upper bits of the numbers of their rules.
#[derive(Clone, Debug, Default)]
pub struct Pages(pub Arc<[Arc<Page>]>);

impl Pages {
    /// Returns a worker's counters of a page, empty if there is no such page.
    #[inline(always)]
    pub(crate) fn of(&self, worker: usize, page: usize) -> &[RuleCounter] {
        let counters = self.0.get(page).and_then(|page| page.counters.get(worker));
        counters.map_or(&[], |counters| counters)
    }

    /// Returns a worker's counter of a rule.
    #[inline(always)]
    pub fn counter(&self, worker: usize, number: u32) -> Option<&RuleCounter> {
        let page = self.0.get(number as usize / PAGE)?;
        page.counters.get(worker)?.get(number as usize % PAGE)
    }

    /// Packets and octets that a rule has matched, of all workers.
    pub fn matched(&self, number: u32) -> (u64, u64) {
        self.0.get(number as usize / PAGE).map_or((0, 0), |page| page.matched(number as usize % PAGE))
    }

    /// Returns the parts of a rule beside its verdict.
    pub fn special(&self, found: Found) -> Option<&Special> {
        let page = self.0.get(found.number() as usize / PAGE)?;
        let slot = (found.number() as usize % PAGE) as u16;
        let at = page.specials.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
        Some(&page.specials[at].1)
    }

    /// Octets of memory.
    pub fn octets(&self) -> usize {
        let of = |page: &Arc<Page>| {
            page.counters.len() * PAGE * size_of::<RuleCounter>()
                + page.specials.capacity() * size_of::<(u16, Special)>()
        };
        self.0.iter().map(of).sum()
    }
}
