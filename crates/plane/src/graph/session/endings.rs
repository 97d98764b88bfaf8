//! How many sessions ended, and why.

use crate::graph::counters::{CAUSES, Ending, SessionCounters};

/// Sessions that ended and are not counted yet, by cause.
#[derive(Debug, Default)]
pub(super) struct Endings([u64; CAUSES]);

impl Endings {
    #[inline]
    pub(super) fn add(&mut self, why: Ending) {
        self.0[why as usize] += 1;
    }

    /// Counts them.
    pub(super) fn count(&mut self, counters: &SessionCounters) {
        for (counter, ended) in counters.ended.iter().zip(&mut self.0) {
            if *ended > 0 {
                counter.add(std::mem::take(ended));
            }
        }
    }
}
