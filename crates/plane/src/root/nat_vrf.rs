//! Limits on the translations of routing domains.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::clock::Time;

use super::counters::Counter;

/// A limit on the translations whose first packets come in by a routing domain.
#[derive(Debug, Clone)]
pub struct VrfLimit {
    /// Translations of the routing domain.
    pub most: u32,
    /// Translations that a worker may have: all of them if one worker has all packets, else an equal share, rounded up.
    pub share: u32,
    /// Its counters, which stay over reloads.
    pub counters: std::sync::Arc<VrfLimitCounters>,
}

/// Counters of a limit.
#[derive(Debug)]
pub struct VrfLimitCounters {
    /// Packets beyond the limit, by worker.
    pub limited: Box<[Counter]>,
    /// When such a packet was last logged, in nanoseconds.
    logged: AtomicU64,
}

impl VrfLimitCounters {
    /// Counters of so many workers.
    pub fn new(workers: usize) -> VrfLimitCounters {
        VrfLimitCounters { limited: (0..workers).map(|_| Counter::default()).collect(), logged: AtomicU64::new(0) }
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
