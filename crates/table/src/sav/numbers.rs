//! Reusable numbers. A number is reused when no reader can find its old meaning: all readers have passed since no
//! current value has it, and the older tables whose values may have it are dropped.

use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

use weir_base::reclaim::{Domain, Stamp};

/// Numbers from 1 to a limit. `T` is the table whose values have them.
pub(super) struct Numbers<T> {
    domain: Domain,
    limit: u32,
    /// First number that was never used.
    fresh: u32,
    free: Vec<u32>,
    /// Numbers that readers may still have, with the conditions of their reuse.
    waiting: VecDeque<Waiting<T>>,
    /// Numbers released since the last stamp.
    gone: Vec<u32>,
    /// Older tables that may be referenced.
    older: Vec<Weak<T>>,
}

struct Waiting<T> {
    stamp: Stamp,
    tables: Vec<Weak<T>>,
    numbers: Vec<u32>,
}

impl<T> Waiting<T> {
    /// Returns whether no reference to the tables is left.
    fn is_unseen(&mut self) -> bool {
        self.tables.retain(|table| table.strong_count() > 0);
        // Pairs with the release of the last drop: its reads happened before.
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

    /// Makes another table current.
    pub(super) fn supersede(&mut self, table: &Arc<T>) {
        self.older.push(Arc::downgrade(table));
    }

    /// Returns an unused number. Waits for readers if only they hold the last ones. `None`: no number is left.
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

    /// Releases a number.
    pub(super) fn give(&mut self, number: u32) {
        self.gone.push(number);
    }

    /// Starts the wait for readers of released numbers. Called when the current table has no value with them.
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

    /// Returns the count of numbers that were ever used, including 0.
    pub(super) fn used(&self) -> u32 {
        self.fresh
    }

    pub(super) fn octets(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(|waiting| waiting.numbers.capacity()).sum();
        (self.free.capacity() + self.gone.capacity() + waiting) * 4
    }
}
