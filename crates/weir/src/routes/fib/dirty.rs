//! Prefixes whose offers may have changed.

use ipnet::IpNet;

/// A set of prefixes that is filled, then emptied in order. Filling costs a write for each prefix, not a search.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    /// Prefixes, some more than once until they are sorted: the first at the end then.
    pub(super) list: Vec<IpNet>,
    is_sorted: bool,
    /// The length at which repetitions are removed, so that memory stays within twice that of all prefixes.
    most: usize,
}

impl Dirty {
    /// Prefixes in the list before repetitions are looked for.
    pub(super) const LEAST: usize = 65_536;

    pub(super) fn insert(&mut self, prefix: IpNet) {
        if self.list.len() >= self.most.max(Dirty::LEAST) {
            self.sort();
            self.most = 2 * self.list.len();
        }
        self.list.push(prefix);
        self.is_sorted = false;
    }

    pub(super) fn extend(&mut self, prefixes: impl IntoIterator<Item = IpNet>) {
        prefixes.into_iter().for_each(|prefix| self.insert(prefix));
    }

    /// Its memory.
    pub(super) fn octets(&self) -> usize {
        self.list.capacity() * size_of::<IpNet>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn pop_first(&mut self) -> Option<IpNet> {
        if !self.is_sorted {
            self.sort();
        }
        self.list.pop()
    }

    fn sort(&mut self) {
        self.list.sort_unstable_by(|a, b| b.cmp(a));
        self.list.dedup();
        self.is_sorted = true;
    }
}
