//! Numbers that are given out, and given out again once nobody can come by their old meaning any more: all readers have
//! passed since no current value has it, and the older tables whose values may have it are gone.

use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

use weir_base::reclaim::{Domain, Stamp};

/// Numbers from 1 to a limit. `T` is the table whose values have them.
pub(super) struct Numbers<T> {
    domain: Domain,
    limit: u32,
    /// Numbers that were never used begin here.
    fresh: u32,
    free: Vec<u32>,
    /// Numbers that readers may still have, by what they wait for.
    waiting: VecDeque<Waiting<T>>,
    /// Numbers that were given back since the last stamp.
    gone: Vec<u32>,
    /// Older tables that somebody may hold.
    older: Vec<Weak<T>>,
}

struct Waiting<T> {
    stamp: Stamp,
    tables: Vec<Weak<T>>,
    numbers: Vec<u32>,
}

impl<T> Waiting<T> {
    /// Nobody has one of the tables.
    fn is_unseen(&mut self) -> bool {
        self.tables.retain(|table| table.strong_count() > 0);
        // Pairs with the release of whoever dropped the last one: what was read by it was read before now.
        fence(Ordering::Acquire);
        self.tables.is_empty()
    }
}

impl<T> Numbers<T> {
    pub(super) fn new(domain: &Domain, limit: u32) -> Numbers<T> {
        Numbers {
            domain: domain.clone(),
            limit,
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

    /// A number that nobody has. Where there are such that only wait for readers to pass, it waits for them. `None`: there
    /// is no room.
    pub(super) fn take(&mut self) -> Option<u32> {
        if self.free.is_empty() && self.fresh > self.limit {
            self.free_passed();
        }
        if self.free.is_empty() && self.fresh > self.limit && self.waiting.front_mut()?.is_unseen() {
            self.domain.synchronize();
            self.free_passed();
        }
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        let number = self.fresh;
        (number <= self.limit).then(|| self.fresh += 1)?;
        Some(number)
    }

    /// A number is not needed any more.
    pub(super) fn give(&mut self, number: u32) {
        self.gone.push(number);
    }

    /// To be called when the values that had the numbers that were given back are gone from the current table: from now
    /// on they wait for readers.
    pub(super) fn collect(&mut self) {
        self.older.retain(|table| table.strong_count() > 0);
        if !self.gone.is_empty() {
            let (stamp, numbers) = (self.domain.stamp(), std::mem::take(&mut self.gone));
            self.waiting.push_back(Waiting { stamp, tables: self.older.clone(), numbers });
        }
        self.free_passed();
    }

    fn free_passed(&mut self) {
        while let Some(front) = self.waiting.front_mut() {
            if !front.is_unseen() || !self.domain.passed(front.stamp) {
                break;
            }
            self.free.append(&mut front.numbers);
            self.waiting.pop_front();
        }
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Numbers that were ever used, and zero.
    pub(super) fn used(&self) -> u32 {
        self.fresh
    }

    /// Octets of memory, about.
    pub(super) fn octets(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(|waiting| waiting.numbers.capacity()).sum();
        (self.free.capacity() + self.gone.capacity() + waiting) * 4
    }
}
