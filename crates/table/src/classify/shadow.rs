//! Rules that an earlier one covers: no packet gets to them, so that a tree need not have them.
//!
//! A tree leaves them out where lookups would take long otherwise. Each is noted under one rule that covers it. That rule is in the
//! tree, or is noted under another in turn, whose place is lower: so the last one of such a row is in the tree, and covers all
//! others. When a rule goes, those under it look for another, or come to the tree: so one rule has [`MOST`] under it at most.
//!
//! Where a rule has no room for more, a new one may be noted under one of the widest rules under it: so few rules of the tree have
//! room for any number.

use std::collections::{BTreeSet, HashMap};

use crate::lpm::Folding;

/// Rules that are noted under one, at most: as many as come to a tree in some milliseconds.
pub(super) const MOST: usize = 4096;

/// Rules under one that others may be noted under.
const WIDEST: usize = 4;

/// The notes, by places.
#[derive(Default)]
pub(super) struct Shadowed {
    /// The rule that covers each.
    by: HashMap<u64, u64, Folding>,
    /// The same the other way round.
    under: BTreeSet<(u64, u64)>,
    covers: HashMap<u64, Cover, Folding>,
}

/// A rule that covers some.
#[derive(Default)]
struct Cover {
    /// How many.
    rules: usize,
    /// The widest of them with their widths, the widest first.
    widest: Vec<(u32, u64)>,
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

    /// How many rules are noted under one.
    pub(super) fn count(&self, cover: u64) -> usize {
        self.covers.get(&cover).map_or(0, |cover| cover.rules)
    }

    /// Whether one more can be noted under a rule.
    pub(super) fn has_room(&self, cover: u64) -> bool {
        self.count(cover) < MOST
    }

    /// The widest of those under a rule.
    pub(super) fn widest(&self, cover: u64) -> impl Iterator<Item = u64> {
        self.covers.get(&cover).into_iter().flat_map(|cover| cover.widest.iter().map(|(_, place)| *place))
    }

    /// Those under a rule, in order.
    pub(super) fn under(&self, cover: u64) -> Vec<u64> {
        self.under.range((cover, 0)..=(cover, u64::MAX)).map(|(_, place)| *place).collect()
    }

    /// Notes one under a rule. The more packets it matches, the greater is its width.
    pub(super) fn note(&mut self, place: u64, cover: u64, width: u32) {
        self.forget(place);
        self.by.insert(place, cover);
        self.under.insert((cover, place));
        let cover = self.covers.entry(cover).or_default();
        cover.rules += 1;
        let before = cover.widest.partition_point(|(other, _)| *other >= width);
        if before < WIDEST {
            cover.widest.truncate(WIDEST - 1);
            cover.widest.insert(before, (width, place));
        }
    }

    /// Forgets one; those under it stay. Gives whether it was noted.
    pub(super) fn forget(&mut self, place: u64) -> bool {
        let Some(by) = self.by.remove(&place) else { return false };
        self.under.remove(&(by, place));
        if let Some(cover) = self.covers.get_mut(&by) {
            cover.rules -= 1;
            cover.widest.retain(|(_, other)| *other != place);
            if cover.rules == 0 {
                self.covers.remove(&by);
            }
        }
        true
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        let widest = |cover: &Cover| cover.widest.capacity() * size_of::<(u32, u64)>();
        self.by.capacity() * 17
            + self.covers.capacity() * (size_of::<(u64, Cover)>() + 1)
            + self.covers.values().map(widest).sum::<usize>()
            + self.under.len() * 20
    }
}
