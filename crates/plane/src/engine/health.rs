//! Whether workers still go round.

use std::sync::{Mutex, PoisonError};

use super::Engine;

/// How often each worker had gone round when it was last looked at.
#[derive(Default)]
pub(super) struct Rounds(Mutex<Vec<u64>>);

impl Engine {
    /// The numbers of the workers that have not gone round since the last call, or that ended by mistake. All are woken,
    /// so that one that sleeps for want of packets has gone round by the next call; a round takes microseconds, so calls
    /// are to be some seconds apart. It waits for nothing, not even for a reload.
    pub fn stuck_workers(&self) -> Vec<usize> {
        let mut before = self.rounds.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now: Vec<u64> = self.workers.iter().map(|worker| worker.counters.loops.value()).collect();
        let stands = |number: usize| before.get(number).is_some_and(|&before| before == now[number]);
        let workers = self.workers.iter().enumerate();
        let stuck = workers.filter(|(number, worker)| worker.has_failed() || stands(*number));
        let stuck = stuck.map(|(number, _)| number).collect();
        *before = now;
        self.workers.wake();
        stuck
    }
}
