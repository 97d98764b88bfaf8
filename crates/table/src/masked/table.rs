//! The table as readers see it.

use std::hint::select_unpredictable;

use weir_base::reclaim::{Domain, Guard};

use super::bucket::{Buckets, CLOSED, GROUP, SLOTS, VACANT};
use super::mask::{Key, Mask};
use crate::flow::Secret;

/// The result of a lookup that found no entry.
pub const NO_ENTRY: u32 = u32::MAX;

/// Words of a key, at most, of which a bucket is one line.
const NARROW: usize = 2;

/// Keys that are looked up together.
const BATCH: usize = 32;

/// Masked keys with their numbers.
pub struct Table {
    pub(super) mask: Mask,
    pub(super) buckets: Buckets,
    pub(super) groups: usize,
    pub(super) bound: usize,
    secret: Secret,
    domain: Domain,
}

/// Groups of buckets for so many entries. Half of the slots are in use at most, on average.
fn groups(bound: usize) -> usize {
    (2 * bound).div_ceil(SLOTS * GROUP).max(1)
}

/// Returns the octets of memory of a table for so many entries.
pub fn octets(mask: &Mask, bound: usize) -> u64 {
    (groups(bound) * Buckets::octets_of_group(mask.words())) as u64
}

impl Table {
    pub(super) fn new(domain: &Domain, mask: Mask, bound: usize, secret: Secret) -> Table {
        let groups = groups(bound);
        let buckets = Buckets::new(groups, mask.words());
        Table { mask, buckets, groups, bound, secret, domain: domain.clone() }
    }

    /// Returns the mask of the keys.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// The most entries that there can be.
    pub fn bound(&self) -> usize {
        self.bound
    }

    /// Octets of memory.
    pub fn octets(&self) -> usize {
        self.buckets.octets()
    }

    /// Returns the home of a key.
    #[inline(always)]
    pub(super) fn home<const W: usize>(&self, key: &[u64; W]) -> usize {
        let hash = self.secret.hash(key);
        let group = (((hash >> 32) * self.groups as u64) >> 32) as usize;
        group * GROUP + (hash as usize % GROUP)
    }

    /// Looks up headers, given by the octets that they begin with: for each the number of its entry, or [`NO_ENTRY`].
    ///
    /// # Panics
    /// If the guard is of another domain.
    #[inline]
    pub fn look_up<'p>(&self, guard: &Guard<'_>, octets: impl Fn(usize) -> &'p [u8], found: &mut [u32]) {
        assert!(self.domain.owns(guard), "a guard of another domain");
        match self.mask.words() {
            2 => self.each::<2>(octets, found),
            4 => self.each::<4>(octets, found),
            6 => self.each::<6>(octets, found),
            8 => self.each::<8>(octets, found),
            10 => self.each::<10>(octets, found),
            12 => self.each::<12>(octets, found),
            14 => self.each::<14>(octets, found),
            _ => self.each::<16>(octets, found),
        }
    }

    /// Looks up in three passes, so that memory is fetched while other keys are dealt with.
    #[inline(always)]
    fn each<'p, const W: usize>(&self, octets: impl Fn(usize) -> &'p [u8], found: &mut [u32]) {
        let mut keys = [[0; W]; BATCH];
        let mut homes = [usize::MAX; BATCH];
        for (batch, found) in found.chunks_mut(BATCH).enumerate() {
            for (index, home) in homes.iter_mut().enumerate().take(found.len()) {
                *home = match self.mask.read::<W>(octets(batch * BATCH + index)) {
                    None => usize::MAX,
                    Some(key) => {
                        keys[index] = key;
                        let home = self.home(&key);
                        self.buckets.fetch::<W>(home);
                        home
                    }
                };
            }
            for ((found, key), &home) in found.iter_mut().zip(&keys).zip(&homes) {
                *found = if home == usize::MAX { NO_ENTRY } else { self.find(key, home) };
            }
        }
    }

    /// The number of a key's entry.
    #[inline(always)]
    fn find<const W: usize>(&self, key: &[u64; W], home: usize) -> u32 {
        let header = self.buckets.header(home);
        if W <= NARROW {
            // Without a branch for each slot: no CPU can guess which one it is.
            let mut found = NO_ENTRY;
            for (slot, &mark) in header.marks.iter().enumerate() {
                let is_it = (mark != VACANT) & (mark != CLOSED) & self.buckets.holds(home, slot, key);
                found = select_unpredictable(is_it, mark.wrapping_sub(1), found);
            }
            let is_done = (found != NO_ENTRY) | (header.beyond == 0);
            return if is_done { found } else { self.find_beyond(key, home, header.beyond) };
        }
        for (slot, &mark) in header.marks.iter().enumerate() {
            if mark != VACANT && self.buckets.holds(home, slot, key) && mark != CLOSED {
                return mark - 1;
            }
        }
        if header.beyond == 0 { NO_ENTRY } else { self.find_beyond(key, home, header.beyond) }
    }

    /// The number of a key's entry in the other buckets of its group.
    #[cold]
    fn find_beyond<const W: usize>(&self, key: &[u64; W], home: usize, mut beyond: u32) -> u32 {
        while beyond != 0 {
            let other = home / GROUP * GROUP + beyond.trailing_zeros() as usize;
            beyond &= beyond - 1;
            for (slot, &mark) in self.buckets.header(other).marks.iter().enumerate() {
                if mark != VACANT && mark != CLOSED && self.buckets.holds(other, slot, key) {
                    return mark - 1;
                }
            }
        }
        NO_ENTRY
    }

    /// Returns the home of a key with as many words as the mask has.
    pub(super) fn home_of(&self, key: &Key) -> usize {
        fn first<const W: usize>(key: &Key) -> [u64; W] {
            std::array::from_fn(|index| key[index])
        }
        match self.mask.words() {
            2 => self.home(&first::<2>(key)),
            4 => self.home(&first::<4>(key)),
            6 => self.home(&first::<6>(key)),
            8 => self.home(&first::<8>(key)),
            10 => self.home(&first::<10>(key)),
            12 => self.home(&first::<12>(key)),
            14 => self.home(&first::<14>(key)),
            _ => self.home(key),
        }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("mask", &self.mask).field("bound", &self.bound).finish_non_exhaustive()
    }
}
