//! Leaves of many rules that nothing parts, as ranges that overlap each other: a list of rules as vectors of bits, which is
//! built anew when it changes.

use super::address::Address;
use super::rule::Rule;
use super::small::Small;

/// Rules of such a leaf, at most: its memory grows with their square, to a KiB for each at this size.
pub(super) const MOST_DENSE: usize = 1024;

/// Rules in order.
pub(super) struct Dense<K> {
    small: Small<K>,
    /// The place and the identity of each.
    entries: Vec<(u64, u32)>,
}

impl<K: Address> Dense<K> {
    /// The rules, with their places and identities, in order.
    pub(super) fn new<'r>(rules: impl ExactSizeIterator<Item = (u64, &'r Rule<K>, u32)>) -> Dense<K> {
        let (mut entries, mut list) = (Vec::with_capacity(rules.len()), Vec::with_capacity(rules.len()));
        for (number, (place, rule, identity)) in (0..).zip(rules) {
            entries.push((place, identity));
            list.push((rule, number));
        }
        let small = Small::build(list).expect("there are fewer rules than a list may have, numbered from zero");
        Dense { small, entries }
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

    /// Places and identities by number.
    #[inline]
    pub(super) fn entries(&self) -> &[(u64, u32)] {
        &self.entries
    }
}
