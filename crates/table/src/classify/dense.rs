//! Leaves of many rules that nothing parts, as ranges that overlap each other: a list of rules as vectors of bits. Rules are
//! taken out of it one by one; it is built anew when a quarter have been, or others come.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::address::Address;
use super::rule::Rule;
use super::small::{self, Small};

/// Rules of such a leaf, at most: their memory grows with the number of them, to 0.5 KiB each for two fields of ranges at this size.
pub(super) const MOST_DENSE: usize = small::MOST;

/// Rules that are taken together, until others can be parted, or there are no more.
pub(super) const SOME: usize = 1024;

/// Rows of interfaces where there are more rules than [`SOME`]: each is of 2 KiB for [`MOST_DENSE`]. Interfaces that the same rules
/// name have one.
pub(super) const MOST_ROWS: usize = 2048;

/// Interfaces of all rules that are looked at for that, one by one.
pub(super) const MOST_NAMED: usize = 1 << 20;

/// Rules in order.
pub(super) struct Dense<K> {
    small: Small<K>,
    /// The place and the identity of each.
    entries: Vec<(u64, u32)>,
    /// How many have not been taken out.
    live: AtomicUsize,
}

impl<K: Address> Dense<K> {
    /// The rules, with their places and identities, in order.
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

    /// The list, in which rules are identified by their numbers.
    #[inline]
    pub(super) fn small(&self) -> &Small<K> {
        &self.small
    }

    /// Octets of memory that it takes.
    pub(super) fn octets(&self) -> usize {
        self.small.octets() + size_of_val(&*self.entries)
    }

    /// Places and identities by number, of rules that have been taken out too.
    #[inline]
    pub(super) fn entries(&self) -> &[(u64, u32)] {
        &self.entries
    }

    /// The places of its rules.
    pub(super) fn places(&self) -> impl Iterator<Item = u64> {
        let live = self.entries.iter().enumerate().filter(|(number, _)| self.small.is_live(*number));
        live.map(|(_, (place, _))| *place)
    }

    /// How many rules it has.
    pub(super) fn rules(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// The number of the rule at a place, if it has one.
    pub(super) fn number(&self, place: u64) -> Option<usize> {
        let number = self.entries.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        self.small.is_live(number).then_some(number)
    }

    /// The place of the last rule before a place that matches both of two packets, and is accepted.
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

    /// Takes a rule out, which it has.
    pub(super) fn take(&self, number: usize) {
        self.small.take(number);
        self.live.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether so many rules have been taken out that it is better built anew without another than that this is taken out too.
    pub(super) fn is_thin(&self) -> bool {
        4 * self.rules().saturating_sub(1) < 3 * self.entries.len()
    }
}

/// A leaf that waits until no reader can look at it any more, whose octets count until then.
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
