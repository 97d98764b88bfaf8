//! Whether workers still go round, and the keeper of neighbours is there.

use std::sync::PoisonError;

use super::running::Engine;
use super::stuck::Stuck;

impl Engine {
    /// The workers that have not gone round since the last call, and all threads that ended by mistake. Workers are woken,
    /// so that one that sleeps for want of packets has gone round by the next call; a round takes microseconds, so calls
    /// are to be some seconds apart. It waits for nothing, not even for a reload.
    pub fn stuck(&self) -> Vec<Stuck> {
        let mut before = self.rounds.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now: Vec<u64> = self.workers.iter().map(|worker| worker.counters.loops.value()).collect();
        let stands = |number: usize| before.get(number).is_some_and(|&before| before == now[number]);
        let workers = self.workers.iter().enumerate();
        let stuck = workers.filter(|(number, worker)| worker.has_failed() || stands(*number));
        let stuck = stuck.map(|(number, _)| Stuck::Worker(number));
        let stuck = stuck.chain(self.keeper.has_failed().then_some(Stuck::Keeper)).collect();
        *before = now;
        self.workers.wake();
        stuck
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use weir_base::clock::Clock;
    use weir_base::random::Entropy;
    use weir_base::wake;

    use super::*;
    use crate::engine::{Options, keeper};
    use crate::kit::*;

    #[test]
    fn a_keeper_that_panicked_is_told_of() {
        let build = Build::new().port("lan", &["10.1.0.1/24"]);
        let options =
            Options { clock: Clock::monotonic(), random: Entropy::from_seed(1), invent_neighbors: false, pin: false };
        let mut engine = Engine::start(build.0, options).unwrap();
        assert!(engine.stuck().is_empty());
        let (_, waker) = wake::pair().unwrap();
        engine.keeper = keeper::Threads::of(thread::spawn(|| panic!("as a mistake would")), waker);
        while !engine.keeper.has_failed() {
            thread::yield_now();
        }
        assert_eq!(engine.stuck().last(), Some(&Stuck::Keeper));
        assert_eq!(Stuck::Keeper.to_string(), "the keeper of neighbours");
        assert_eq!(engine.faults(), ["the keeper of neighbours ended by mistake: restart the gateway"]);
        assert!(engine.faults().is_empty(), "reported once");
    }
}
