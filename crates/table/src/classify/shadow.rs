//! Rules that an earlier one covers: no packet gets to them, so that a tree need not have them.
//!
//! A tree leaves them out where lookups would take long otherwise. Each is noted under one rule that covers it and is in the tree. When
//! that goes, those under it look for another, or come to the tree: so one rule has [`MOST`] under it at most.

use std::collections::{BTreeSet, HashMap};

use crate::lpm::Folding;

/// Rules that are noted under one, at most: as many as come to a tree in some milliseconds.
pub(super) const MOST: usize = 4096;

/// The notes, by places.
#[derive(Default)]
pub(super) struct Shadowed {
    /// The rule that covers each.
    by: HashMap<u64, u64, Folding>,
    /// The same the other way round.
    under: BTreeSet<(u64, u64)>,
    /// How many each covers.
    counts: HashMap<u64, usize, Folding>,
}

impl Shadowed {
    pub(super) fn is_empty(&self) -> bool {
        self.by.is_empty()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by.len()
    }

    /// The rule under which one is noted, if it is.
    pub(super) fn by(&self, place: u64) -> Option<u64> {
        self.by.get(&place).copied()
    }

    /// Whether one more can be noted under a rule.
    pub(super) fn has_room(&self, cover: u64) -> bool {
        self.counts.get(&cover).is_none_or(|count| *count < MOST)
    }

    /// Those under a rule, in order.
    pub(super) fn under(&self, cover: u64) -> Vec<u64> {
        self.under.range((cover, 0)..=(cover, u64::MAX)).map(|(_, place)| *place).collect()
    }

    /// Notes one under a rule.
    pub(super) fn note(&mut self, place: u64, cover: u64) {
        self.forget(place);
        self.by.insert(place, cover);
        self.under.insert((cover, place));
        *self.counts.entry(cover).or_default() += 1;
    }

    /// Forgets one; gives whether it was noted.
    pub(super) fn forget(&mut self, place: u64) -> bool {
        let Some(cover) = self.by.remove(&place) else { return false };
        self.under.remove(&(cover, place));
        if let Some(count) = self.counts.get_mut(&cover) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&cover);
            }
        }
        true
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        (self.by.capacity() + self.counts.capacity()) * 17 + self.under.len() * 20
    }
}
