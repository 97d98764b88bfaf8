//! The reading ends of all workers' rings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_base::clock::{Clock, Time};
use weir_base::reclaim::Published;
use weir_base::ring::Consumer;
use weir_base::wake::{Sleeper, Waker};

use crate::graph::sample::Sample;
use crate::graph::session::{NatEvent, SessionEvent};
use crate::root::Root;
use crate::root::nat::RuleId;

/// A ring of events of translations, and how many events were lost.
pub(crate) type LogRing = (Consumer<NatEvent>, Arc<AtomicU64>);

/// A ring of sessions that began and ended, and how many events were lost.
pub(crate) type WatchRing = (Consumer<SessionEvent>, Arc<AtomicU64>);

/// Reads what the workers of a gateway took, and knows the names behind numbers. For one thread, which may take its time.
pub struct Reader {
    rings: Vec<Consumer<Sample>>,
    log: Vec<LogRing>,
    sessions: Vec<WatchRing>,
    sleeper: Sleeper,
    waker: Waker,
    root: Arc<Published<Root>>,
    clock: Clock,
}

impl Reader {
    pub(crate) fn new(
        (rings, log, sessions): (Vec<Consumer<Sample>>, Vec<LogRing>, Vec<WatchRing>),
        wakers: (Sleeper, Waker),
        root: Arc<Published<Root>>,
        clock: Clock,
    ) -> Reader {
        let (sleeper, waker) = wakers;
        Reader { rings, log, sessions, sleeper, waker, root, clock }
    }

    /// Takes up to `limit` samples of each worker, the oldest first, and hands each to `take`; returns how many there were.
    pub fn read(&mut self, limit: usize, mut take: impl FnMut(Sample)) -> usize {
        self.rings.iter_mut().map(|ring| ring.pop(limit, &mut take)).sum()
    }

    /// Takes up to `limit` events of translations of each worker, the oldest first, and hands each to `take`; returns how many
    /// there were.
    pub fn read_log(&mut self, limit: usize, mut take: impl FnMut(NatEvent)) -> usize {
        self.log.iter_mut().map(|(ring, _)| ring.pop(limit, &mut take)).sum()
    }

    /// Events of translations that were lost since the last call.
    pub fn lost_events(&self) -> u64 {
        self.log.iter().map(|(_, lost)| lost.swap(0, Ordering::Relaxed)).sum()
    }

    /// Takes up to `limit` sessions that began or ended of each worker, the oldest first, and hands each to `take`; returns how many
    /// there were.
    pub fn read_sessions(&mut self, limit: usize, mut take: impl FnMut(SessionEvent)) -> usize {
        self.sessions.iter_mut().map(|(ring, _)| ring.pop(limit, &mut take)).sum()
    }

    /// Events of sessions that were lost since the last call.
    pub fn lost_sessions(&self) -> u64 {
        self.sessions.iter().map(|(_, lost)| lost.swap(0, Ordering::Relaxed)).sum()
    }

    /// The VRF that the first packet of an event's translation came in by; `None`: it does not translate any more.
    pub fn nat_vrf(&self, event: &NatEvent) -> Option<Arc<str>> {
        self.root.with(|root| root.nat.name_of(event.zone).cloned())
    }

    /// The name of the list that a rule of translation is of, or was.
    pub fn nat_list(&self, rule: RuleId) -> Option<Arc<str>> {
        self.root.with(|root| root.nat.lists.get(usize::from(rule.list)).map(Arc::clone))
    }

    /// Waits until there are samples or events, [`Reader::waker`] is called, or `timeout` is over (`None`: no time-out); may end
    /// earlier. Returns at once if `is_wanted` reports other work. `is_wanted` is called when the waker already takes
    /// effect, so that no call is lost.
    pub fn wait(&mut self, timeout: Option<Duration>, is_wanted: impl FnOnce() -> bool) {
        self.sleeper.announce();
        if is_wanted()
            || self.rings.iter().any(|ring| !ring.is_empty())
            || self.log.iter().any(|(ring, _)| !ring.is_empty())
            || self.sessions.iter().any(|(ring, _)| !ring.is_empty())
        {
            self.sleeper.stay_up();
        } else {
            self.sleeper.sleep(&[], timeout);
        }
    }

    /// Ends [`Reader::wait`] from another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Returns the time of the clock that stamps samples.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The name of the interface of a number.
    pub fn interface(&self, number: u32) -> Option<Arc<str>> {
        self.root.with(|root| root.interfaces.get(number as usize).map(|interface| Arc::clone(&interface.name)))
    }

    /// The name of the sampler of a number.
    pub fn sampler(&self, number: u32) -> Option<Arc<str>> {
        self.root.with(|root| root.samplers.get(number as usize).map(|sampler| Arc::clone(&sampler.name)))
    }
}
