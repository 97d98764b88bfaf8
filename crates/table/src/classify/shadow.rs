//! Shadowed rules: an earlier rule covers them, so a tree need not contain them.
//!
//! A tree omits them if lookups would be slow otherwise. Each is recorded under one rule that covers it. That rule is
//! in the tree, or is recorded under another with a lower place. So the last rule of such a sequence is in the tree and
//! covers all others. When a rule is removed, the rules under it get another cover or enter the tree: so a rule covers
//! at most [`MOST`].
//!
//! If a rule has no room, a new one may be recorded under one of the widest rules below it: so few rules of the tree
//! have room for any number.

use std::collections::{BTreeSet, HashMap};

use crate::lpm::Folding;

/// Largest number of rules under one: as many as enter a tree in some milliseconds.
pub(super) const MOST: usize = 4096;

/// Number of rules under one that others may be recorded under.
const WIDEST: usize = 4;

/// The shadowed rules, by place.
#[derive(Default)]
pub(super) struct Shadowed {
    by: HashMap<u64, u64, Folding>,
    /// The reverse map.
    under: BTreeSet<(u64, u64)>,
    covers: HashMap<u64, Cover, Folding>,
}

/// A rule that covers some.
#[derive(Default)]
struct Cover {
    rules: usize,
    /// The widest of them with their widths, the widest first.
    widest: Vec<(u32, u64)>,
}

impl Shadowed {
    pub(super) fn is_empty(&self) -> bool {
        self.by.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.by.len()
    }

    /// Returns the covering rule of a shadowed rule.
    pub(super) fn by(&self, place: u64) -> Option<u64> {
        self.by.get(&place).copied()
    }

    pub(super) fn count(&self, cover: u64) -> usize {
        self.covers.get(&cover).map_or(0, |cover| cover.rules)
    }

    /// Returns whether a rule has room for another.
    pub(super) fn has_room(&self, cover: u64) -> bool {
        self.count(cover) < MOST
    }

    pub(super) fn widest(&self, cover: u64) -> impl Iterator<Item = u64> {
        self.covers.get(&cover).into_iter().flat_map(|cover| cover.widest.iter().map(|(_, place)| *place))
    }

    pub(super) fn under(&self, cover: u64) -> Vec<u64> {
        self.under.range((cover, 0)..=(cover, u64::MAX)).map(|(_, place)| *place).collect()
    }

    /// Records a rule under another. The width grows with the number of its packets.
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

    /// Removes a rule; the rules under it stay. Returns whether it was recorded.
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

    pub(super) fn octets(&self) -> usize {
        let widest = |cover: &Cover| cover.widest.capacity() * size_of::<(u32, u64)>();
        self.by.capacity() * 17
            + self.covers.capacity() * (size_of::<(u64, Cover)>() + 1)
            + self.covers.values().map(widest).sum::<usize>()
            + self.under.len() * 20
    }
}
