//! Blocks that were removed from the current table and are not free yet.
//!
//! Two parties can still access such a block: a reader whose lookup began before the removal (it passes, see
//! [`weir_base::reclaim`]), and an older table that shares the block. A block with birth generation `born` and removal
//! generation `died` belongs to the tables of the generations `born..died`. It is free when all readers have passed and
//! none of these tables exists.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_base::reclaim::{Domain, Stamp};

use super::arena::Block;
use super::buddy::{Buddy, Order};

/// Entries that share a stamp: taking one writes to a cache line that every reader reads.
const BATCH: usize = 64;

#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) block: Block,
    pub(crate) order: Order,
    pub(crate) born: u32,
    pub(crate) died: u32,
}

/// An older table that may be referenced.
struct Snapshot {
    generation: u32,
    alive: Arc<AtomicBool>,
}

pub(crate) struct Limbo {
    domain: Domain,
    open: Vec<Entry>,
    sealed: VecDeque<(Stamp, Vec<Entry>)>,
    /// Passed by all readers, but part of a snapshot.
    shared: Vec<Entry>,
    snapshots: Vec<Snapshot>,
    /// A snapshot was dropped since the last check of `shared`.
    lost_snapshot: bool,
    octets: usize,
}

impl Limbo {
    pub(crate) fn new(domain: Domain) -> Limbo {
        Limbo {
            domain,
            open: Vec::new(),
            sealed: VecDeque::new(),
            shared: Vec::new(),
            snapshots: Vec::new(),
            lost_snapshot: false,
            octets: 0,
        }
    }

    /// Adds a block that readers of the current table cannot find.
    pub(crate) fn push(&mut self, entry: Entry) {
        self.octets += entry.order.octets();
        self.open.push(entry);
        if self.open.len() >= BATCH {
            self.seal();
        }
    }

    fn seal(&mut self) {
        if !self.open.is_empty() {
            let batch = std::mem::replace(&mut self.open, Vec::with_capacity(BATCH));
            self.sealed.push_back((self.domain.stamp(), batch));
        }
    }

    /// Adds a table that was replaced.
    pub(crate) fn add_snapshot(&mut self, generation: u32, alive: Arc<AtomicBool>) {
        self.snapshots.push(Snapshot { generation, alive });
    }

    /// Returns the generation of the youngest existing older table, or 0: later blocks belong to the current table
    /// only.
    pub(crate) fn youngest_snapshot(&mut self) -> u32 {
        if !self.snapshots.is_empty() {
            let before = self.snapshots.len();
            // Acquire: pairs with the table's drop, after which no reader uses its blocks.
            self.snapshots.retain(|snapshot| snapshot.alive.load(Ordering::Acquire));
            self.lost_snapshot |= self.snapshots.len() < before;
        }
        self.snapshots.iter().map(|snapshot| snapshot.generation).max().unwrap_or(0)
    }

    /// Frees all blocks that can be freed.
    pub(crate) fn reclaim(&mut self, buddy: &mut Buddy) {
        self.youngest_snapshot();
        if std::mem::take(&mut self.lost_snapshot) {
            for entry in std::mem::take(&mut self.shared) {
                self.release(entry, buddy);
            }
        }
        while self.sealed.front().is_some_and(|(stamp, _)| self.domain.passed(*stamp)) {
            let (_, batch) = self.sealed.pop_front().expect("there is a front");
            for entry in batch {
                self.release(entry, buddy);
            }
        }
    }

    /// Frees blocks as `reclaim` does, including those without a stamp.
    pub(crate) fn reclaim_all(&mut self, buddy: &mut Buddy) {
        self.seal();
        self.reclaim(buddy);
    }

    /// Waits for the readers, then frees all blocks outside snapshots.
    pub(crate) fn wait(&mut self, buddy: &mut Buddy) {
        self.seal();
        self.domain.synchronize();
        self.reclaim(buddy);
    }

    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    fn release(&mut self, entry: Entry, buddy: &mut Buddy) {
        let shares = |snapshot: &Snapshot| (entry.born..entry.died).contains(&snapshot.generation);
        if self.snapshots.iter().any(shares) {
            self.shared.push(entry);
        } else {
            self.octets -= entry.order.octets();
            buddy.free(entry.block, entry.order);
        }
    }
}
