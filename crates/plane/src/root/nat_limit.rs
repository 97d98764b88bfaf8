//! Limits on translations that all workers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_base::clock::Time;

use super::counters::Counter;

/// A limit on the translations of all workers.
#[derive(Debug, Clone)]
pub struct SharedLimit {
    /// Translations at most.
    pub most: u32,
    /// Its counters, which stay over reloads.
    pub counters: Arc<LimitCounters>,
}

impl SharedLimit {
    /// There are as many translations as it allows.
    pub(crate) fn is_reached(&self) -> bool {
        self.counters.held() >= self.most
    }

    /// Counts a translation that begins; `false`, with nothing counted, if there are as many as it allows.
    pub(crate) fn take(&self) -> bool {
        let one_more = |held: u32| (held < self.most).then(|| held + 1);
        self.counters.held.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }
}

/// Counters of a limit.
#[derive(Debug)]
pub struct LimitCounters {
    held: Held,
    /// Packets beyond the limit, by worker.
    pub limited: Box<[Counter]>,
    /// When such a packet was last logged, in nanoseconds.
    logged: AtomicU64,
}

/// The translations of all workers. Workers write it when a translation begins or ends: nothing else lies on its cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Held(AtomicU32);

impl LimitCounters {
    /// Counters of so many workers.
    pub fn new(workers: usize) -> LimitCounters {
        let limited = (0..workers).map(|_| Counter::default()).collect();
        LimitCounters { held: Held::default(), limited, logged: AtomicU64::new(0) }
    }

    /// The translations of all workers.
    pub(crate) fn held(&self) -> u32 {
        self.held.0.load(Ordering::Relaxed)
    }

    /// Counts translations that are there, whatever the limit is.
    pub(crate) fn add(&self, count: u32) {
        self.held.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts translations no longer.
    pub(crate) fn release(&self, count: u32) {
        self.held.0.fetch_sub(count, Ordering::Relaxed);
    }

    /// Whether a packet beyond the limit is to be logged now: once a minute at most, over all workers.
    pub(crate) fn is_news(&self, now: Time) -> bool {
        is_due(&self.logged, now)
    }
}

/// Whether an event that was last logged at a time is to be logged now: once a minute at most.
pub(super) fn is_due(logged: &AtomicU64, now: Time) -> bool {
    const MINUTE: u64 = 60_000_000_000;
    let last = logged.load(Ordering::Relaxed);
    let is_due = last == 0 || now.0.saturating_sub(last) >= MINUTE;
    is_due && logged.compare_exchange(last, now.0.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
}
