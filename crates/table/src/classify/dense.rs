//! Bit-vector leaves: many rules that nothing separates, such as overlapping ranges, as bit vectors. Rules are removed
//! one by one. The leaf is rebuilt when a quarter was removed, or rules are added.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::address::Address;
use super::rule::Rule;
use super::small::{self, Small};

/// Largest number of rules of such a leaf. Memory per rule grows with their number, to 0.5 KiB for two fields of ranges
/// at this size.
pub(super) const MOST_DENSE: usize = small::MOST;

/// Rules that are taken together, until others can be separated or none remain.
pub(super) const SOME: usize = 1024;

/// Largest number of interface rows above [`SOME`] rules: each takes 2 KiB for [`MOST_DENSE`]. Interfaces with the same
/// rules share a row.
pub(super) const MOST_ROWS: usize = 2048;

/// Largest number of interfaces of all rules that are checked for that, one by one.
pub(super) const MOST_NAMED: usize = 1 << 20;

/// Rules in order.
pub(super) struct Dense<K> {
    small: Small<K>,
    entries: Vec<(u64, u32)>,
    /// Number of rules that were not removed.
    live: AtomicUsize,
}

impl<K: Address> Dense<K> {
    /// Creates a leaf of rules with their places and identities, in order.
    pub(super) fn new<'r>(rules: impl ExactSizeIterator<Item = (u64, &'r Rule<K>, u32)>) -> Dense<K> {
        let (mut entries, mut list) = (Vec::with_capacity(rules.len()), Vec::with_capacity(rules.len()));
        for (number, (place, rule, identity)) in (0..).zip(rules) {
            entries.push((place, identity));
            list.push((rule, number));
        }
        let small =
            Small::of(list, MOST_DENSE).expect("there are fewer rules than a list may have, numbered from zero");
        Dense { small, live: AtomicUsize::new(entries.len()), entries }
    }

    /// Returns the list, which identifies rules by number.
    #[inline]
    pub(super) fn small(&self) -> &Small<K> {
        &self.small
    }

    pub(super) fn octets(&self) -> usize {
        self.small.octets() + size_of_val(&*self.entries)
    }

    /// Returns places and identities by number, including removed rules.
    #[inline]
    pub(super) fn entries(&self) -> &[(u64, u32)] {
        &self.entries
    }

    pub(super) fn places(&self) -> impl Iterator<Item = u64> {
        let live = self.entries.iter().enumerate().filter(|(number, _)| self.small.is_live(*number));
        live.map(|(_, (place, _))| *place)
    }

    pub(super) fn rules(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Returns the number of the rule at a place.
    pub(super) fn number(&self, place: u64) -> Option<usize> {
        let number = self.entries.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        self.small.is_live(number).then_some(number)
    }

    /// Returns the place of the last rule before a place that matches both of two packets and is accepted.
    pub(super) fn both(
        &self,
        packets: &[super::Fields<K>; 2],
        before: u64,
        mut accept: impl FnMut(u64) -> bool,
    ) -> Option<u64> {
        let before = self.entries.partition_point(|(place, _)| *place < before);
        let rule = self.small.both(packets, before, |rule| accept(self.entries[rule].0))?;
        Some(self.entries[rule].0)
    }

    pub(super) fn take(&self, number: usize) {
        self.small.take(number);
        self.live.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether so many rules were removed that a rebuild is better than another removal.
    pub(super) fn is_thin(&self) -> bool {
        4 * self.rules().saturating_sub(1) < 3 * self.entries.len()
    }
}

/// A removed leaf that readers may still access; its octets count until they have passed.
pub(super) struct Retired<K: Address> {
    dense: Option<Arc<Dense<K>>>,
    octets: Arc<AtomicUsize>,
}

impl<K: Address> Retired<K> {
    pub(super) fn new(dense: Option<Arc<Dense<K>>>, octets: &Arc<AtomicUsize>) -> Retired<K> {
        let own = dense.as_ref().map_or(0, |dense| dense.octets());
        octets.fetch_add(own, Ordering::Relaxed);
        Retired { dense, octets: Arc::clone(octets) }
    }
}

impl<K: Address> Drop for Retired<K> {
    fn drop(&mut self) {
        let own = self.dense.as_ref().map_or(0, |dense| dense.octets());
        self.octets.fetch_sub(own, Ordering::Relaxed);
    }
}
