//! The writer of a table: it adds and removes entries while readers look them up.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_base::reclaim::{Domain, Stamp};

use super::bucket::{CLOSED, GROUP, Header, SLOTS, VACANT};
use super::mask::{Key, Mask};
use super::table::Table;
use crate::flow::Secret;

/// Closed slots that share a stamp: taking one writes to a cache line that every reader reads.
const BATCH: usize = 1024;

/// The largest number of an entry.
const MOST_NUMBER: u32 = CLOSED - 2;

/// A table has no room for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// It has as many entries as it may have.
    #[error("it has {0} entries, as many as it may have")]
    Bound(usize),
    /// The group of the key is full, while the table is not.
    #[error("too many keys have hashes that meet")]
    Crowded,
}

/// A slot: the number of its bucket, and its place there.
type Slot = (u32, u8);

/// Adds and removes entries of a table.
pub struct Writer {
    table: Arc<Table>,
    domain: Domain,
    len: usize,
    /// Closed slots without a stamp.
    open: Vec<Slot>,
    sealed: VecDeque<(Stamp, Vec<Slot>)>,
}

impl Writer {
    /// Creates an empty table for `bound` entries at most. All of its memory is taken at once.
    pub fn new(domain: &Domain, mask: Mask, bound: usize, secret: Secret) -> Writer {
        let table = Arc::new(Table::new(domain, mask, bound, secret));
        Writer { table, domain: domain.clone(), len: 0, open: Vec::new(), sealed: VecDeque::new() }
    }

    /// Returns the table for readers.
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table)
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// There are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of a key's entry.
    pub fn get(&self, key: &Key) -> Option<u32> {
        let (bucket, slot) = self.find(key, self.table.home_of(key))?;
        Some(self.table.buckets.header(bucket).marks[slot] - 1)
    }

    /// Adds an entry, or gives the entry of this key another number. Returns the number that it had.
    ///
    /// # Errors
    /// If there is no room; then nothing changed.
    ///
    /// # Panics
    /// If the number is one of the two greatest of its type.
    pub fn insert(&mut self, key: &Key, number: u32) -> Result<Option<u32>, Full> {
        assert!(number <= MOST_NUMBER, "a number that marks no entry");
        let home = self.table.home_of(key);
        if let Some((bucket, slot)) = self.find(key, home) {
            let mut header = self.table.buckets.header(bucket);
            let before = std::mem::replace(&mut header.marks[slot], number + 1);
            self.table.buckets.set_header(bucket, header);
            return Ok(Some(before - 1));
        }
        if self.len >= self.table.bound {
            return Err(Full::Bound(self.table.bound));
        }
        let (bucket, slot) = self.room(home)?;
        self.table.buckets.set_key(bucket, slot, key);
        let mut header = self.table.buckets.header(bucket);
        header.marks[slot] = number + 1;
        self.table.buckets.set_header(bucket, header);
        if bucket != home {
            let mut of_home = self.table.buckets.header(home);
            of_home.beyond |= 1 << (bucket % GROUP);
            self.table.buckets.set_header(home, of_home);
        }
        self.len += 1;
        Ok(None)
    }

    /// Removes the entry of a key. Returns its number.
    pub fn remove(&mut self, key: &Key) -> Option<u32> {
        let home = self.table.home_of(key);
        let (bucket, slot) = self.find(key, home)?;
        let buckets = &self.table.buckets;
        let mut header = buckets.header(bucket);
        let before = std::mem::replace(&mut header.marks[slot], CLOSED);
        buckets.set_header(bucket, header);
        if bucket != home {
            let is_of_home = |slot: usize| {
                let taken = header.marks[slot] != VACANT && header.marks[slot] != CLOSED;
                taken && self.table.home_of(&buckets.key(bucket, slot)) == home
            };
            if !(0..SLOTS).any(is_of_home) {
                let mut of_home = buckets.header(home);
                of_home.beyond &= !(1 << (bucket % GROUP));
                buckets.set_header(home, of_home);
            }
        }
        self.len -= 1;
        self.open.push((bucket as u32, slot as u8));
        if self.open.len() >= BATCH {
            self.seal();
            self.reopen();
        }
        Some(before - 1)
    }

    /// Makes slots usable again that all readers have passed.
    pub fn collect(&mut self) {
        self.seal();
        self.reopen();
    }

    /// Closed slots that are not usable yet.
    pub fn closed(&self) -> usize {
        self.open.len() + self.sealed.iter().map(|(_, slots)| slots.len()).sum::<usize>()
    }

    fn seal(&mut self) {
        if !self.open.is_empty() {
            let slots = std::mem::take(&mut self.open);
            self.sealed.push_back((self.domain.stamp(), slots));
        }
    }

    fn reopen(&mut self) {
        while self.sealed.front().is_some_and(|(stamp, _)| self.domain.passed(*stamp)) {
            let Some((_, slots)) = self.sealed.pop_front() else { return };
            for (bucket, slot) in slots {
                let mut header = self.table.buckets.header(bucket as usize);
                header.marks[usize::from(slot)] = VACANT;
                self.table.buckets.set_header(bucket as usize, header);
            }
        }
    }

    /// Finds the slot of a key.
    fn find(&self, key: &Key, home: usize) -> Option<(usize, usize)> {
        let buckets = &self.table.buckets;
        let in_bucket = |bucket: usize, header: Header| {
            let taken = |slot: usize| header.marks[slot] != VACANT && header.marks[slot] != CLOSED;
            (0..SLOTS).find(|&slot| taken(slot) && buckets.key(bucket, slot) == *key).map(|slot| (bucket, slot))
        };
        let header = buckets.header(home);
        if let Some(found) = in_bucket(home, header) {
            return Some(found);
        }
        let others = (0..GROUP).filter(|&other| header.beyond >> other & 1 != 0);
        others.map(|other| home / GROUP * GROUP + other).find_map(|other| in_bucket(other, buckets.header(other)))
    }

    /// Finds a vacant slot for a key: in its home, else in the bucket of its group with the most. If none is vacant, waits for
    /// readers of closed ones.
    fn room(&mut self, home: usize) -> Result<(usize, usize), Full> {
        if let Some(found) = self.vacant(home) {
            return Ok(found);
        }
        self.collect();
        if let Some(found) = self.vacant(home) {
            return Ok(found);
        }
        if self.closed() > 0 {
            self.domain.synchronize();
            self.reopen();
        }
        self.vacant(home).ok_or(Full::Crowded)
    }

    fn vacant(&self, home: usize) -> Option<(usize, usize)> {
        let buckets = &self.table.buckets;
        let slots = |bucket: usize| {
            let marks = buckets.header(bucket).marks;
            (marks.iter().filter(|&&mark| mark == VACANT).count(), marks.iter().position(|&mark| mark == VACANT))
        };
        if let (_, Some(slot)) = slots(home) {
            return Some((home, slot));
        }
        let first = home / GROUP * GROUP;
        let best = (first..first + GROUP).max_by_key(|&bucket| slots(bucket).0)?;
        slots(best).1.map(|slot| (best, slot))
    }
}
