//! Rows: sets of interfaces as bits that readers look at while others are added.
//!
//! Equal sets share a row. A row is used again for another set once nobody can come by its number any more: all readers
//! have passed since no current value names it, and the older tables whose values may name it are gone.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use weir_base::reclaim::{Domain, Stamp};

use super::Set;

/// The row of sources that no prefix covers.
pub(super) const UNKNOWN: u32 = 0;

/// The bits, as readers see them.
#[derive(Debug)]
pub(super) struct Bits {
    /// Words of a row.
    width: usize,
    words: Box<[AtomicU64]>,
    /// The mark of each row.
    marks: Box<[AtomicU8]>,
}

impl Bits {
    /// Room for so many rows of so many interfaces. Pages that no row uses take no memory.
    fn new(rows: usize, interfaces: u32) -> Bits {
        let width = (interfaces as usize).div_ceil(64).max(1);
        let words = (0..rows * width).map(|_| AtomicU64::new(0)).collect();
        Bits { width, words, marks: (0..rows).map(|_| AtomicU8::new(0)).collect() }
    }

    /// Whether a row has an interface. One that there is no room for is in none.
    #[inline(always)]
    pub(super) fn has(&self, row: u32, interface: u32) -> bool {
        let (word, bit) = ((interface / 64) as usize, interface % 64);
        if word >= self.width {
            return false;
        }
        // The value that named this row was loaded with acquire, after the bits were stored.
        let bits = self.words.get(row as usize * self.width + word).map_or(0, |word| word.load(Ordering::Relaxed));
        bits >> bit & 1 != 0
    }

    /// The mark of a row.
    #[inline(always)]
    pub(super) fn mark(&self, row: u32) -> u8 {
        self.marks.get(row as usize).map_or(0, |mark| mark.load(Ordering::Relaxed))
    }

    fn write(&self, row: u32, (set, mark): &Row) {
        self.marks[row as usize].store(*mark, Ordering::Relaxed);
        let start = row as usize * self.width;
        let words = &self.words[start..start + self.width];
        let mut bits = vec![0u64; self.width];
        for interface in set.iter().filter(|interface| ((interface / 64) as usize) < self.width) {
            bits[(interface / 64) as usize] |= 1 << (interface % 64);
        }
        words.iter().zip(bits).for_each(|(word, bits)| word.store(bits, Ordering::Relaxed));
    }
}

/// What a row says: the interfaces, and its mark.
pub(super) type Row = (Set, u8);

struct Kept {
    row: u32,
    users: u32,
}

/// The writer's side: which set has which row. `T` is the table whose values name rows.
pub(super) struct Rows<T> {
    domain: Domain,
    bits: Arc<Bits>,
    limit: u32,
    sets: HashMap<Row, Kept>,
    /// Rows that were never used begin here.
    fresh: u32,
    free: Vec<u32>,
    /// Rows that readers may still look at, by what they wait for.
    waiting: VecDeque<(Stamp, Vec<Weak<T>>, Vec<u32>)>,
    /// Rows that went since the last stamp.
    gone: Vec<u32>,
    /// Older tables that somebody may hold.
    older: Vec<Weak<T>>,
}

impl<T> Rows<T> {
    pub(super) fn new(domain: &Domain, limit: u32, interfaces: u32) -> Rows<T> {
        Rows {
            domain: domain.clone(),
            bits: Arc::new(Bits::new(limit as usize + 1, interfaces)),
            limit,
            sets: HashMap::new(),
            fresh: 1,
            free: Vec::new(),
            waiting: VecDeque::new(),
            gone: Vec::new(),
            older: Vec::new(),
        }
    }

    /// Another table is current from now on.
    pub(super) fn supersede(&mut self, table: &Arc<T>) {
        self.older.push(Arc::downgrade(table));
    }

    pub(super) fn bits(&self) -> Arc<Bits> {
        Arc::clone(&self.bits)
    }

    /// The row of a set, which has one user more. `None`: there is no room.
    pub(super) fn take(&mut self, set: &Row) -> Option<u32> {
        if let Some(kept) = self.sets.get_mut(set) {
            kept.users += 1;
            return Some(kept.row);
        }
        self.collect();
        let row = match self.free.pop() {
            Some(row) => row,
            None if self.fresh <= self.limit => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return None,
        };
        self.bits.write(row, set);
        self.sets.insert(set.clone(), Kept { row, users: 1 });
        Some(row)
    }

    /// The row of a set has one user less.
    pub(super) fn give(&mut self, set: &Row) {
        let Some(kept) = self.sets.get_mut(set) else { return };
        kept.users -= 1;
        if kept.users == 0 {
            self.gone.push(kept.row);
            self.sets.remove(set);
        }
    }

    /// Frees the rows that nobody can come by any more. To be called when the values that named those that went are gone
    /// from the current table.
    pub(super) fn collect(&mut self) {
        self.older.retain(|table| table.strong_count() > 0);
        if !self.gone.is_empty() {
            self.waiting.push_back((self.domain.stamp(), self.older.clone(), std::mem::take(&mut self.gone)));
        }
        while let Some((stamp, tables, rows)) = self.waiting.front_mut() {
            tables.retain(|table| table.strong_count() > 0);
            if !tables.is_empty() || !self.domain.passed(*stamp) {
                break;
            }
            self.free.append(rows);
            self.waiting.pop_front();
        }
    }

    /// Rows in use, and how many there may be.
    pub(super) fn occupancy(&self) -> (usize, usize) {
        (self.sets.len(), self.limit as usize)
    }

    /// Octets of the bits that were ever used.
    pub(super) fn octets(&self) -> usize {
        self.fresh as usize * self.bits.width * 8
    }
}
