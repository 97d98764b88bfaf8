//! The control thread: it owns neighbours and links. It handles the events of workers, the kernel's link messages and
//! due timers, and publishes the results, whatever operation is under way. Else it sleeps. A second thread compiles the
//! model again when links have changed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_base::clock::Time;
use weir_base::ring::Consumer;
use weir_base::wake::{Sleeper, Waker};
use weir_port::links::Monitor;

use super::control::Control;
use crate::graph::events;
use crate::graph::events::Event;
use crate::neighbor::control::Work;

/// The least time between two roots that follow from neighbour changes: changes within it share a root. The first is
/// never delayed.
const PAUSE: Duration = Duration::from_millis(1);

/// Nanoseconds until the next attempt to change the compiler while a reader has it locked.
const AGAIN: u64 = 10_000_000;

/// The parts of the engine that the thread uses.
pub(super) struct Parts {
    pub(super) control: Arc<Control>,
    /// The event ring of each worker.
    pub(super) rings: Vec<Consumer<Event>>,
    /// The kernel's link messages; none if no port has a device.
    pub(super) monitor: Option<Monitor>,
    /// Time of the next attempt to create a punt device again.
    pub(super) punts: Option<Time>,
}

/// The threads, as the engine holds them. Dropping it ends them.
pub(super) struct Threads {
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    /// None in tests.
    control: Option<Arc<Control>>,
}

impl Threads {
    pub(super) fn start(parts: Parts, sleeper: Sleeper, waker: Waker) -> io::Result<Threads> {
        let stop = Arc::new(AtomicBool::new(false));
        let control = Arc::clone(&parts.control);
        let mut threads =
            Threads { threads: Vec::new(), stop: Arc::clone(&stop), waker, control: Some(Arc::clone(&control)) };
        let told = Arc::clone(&stop);
        let links = move || {
            while !told.load(Ordering::Relaxed) {
                control.links.wait();
                control.follow_links();
            }
        };
        threads.threads.push(thread::Builder::new().name("weir_links".into()).spawn(links)?);
        let keeper = move || keep(parts, sleeper, &stop);
        threads.threads.push(thread::Builder::new().name("weir_keeper".into()).spawn(keeper)?);
        Ok(threads)
    }

    /// Wraps this thread, whose sleeper belongs to the waker.
    #[cfg(test)]
    pub(super) fn of(thread: JoinHandle<()>, waker: Waker) -> Threads {
        Threads { threads: vec![thread], stop: Arc::default(), waker, control: None }
    }

    /// Has the keeper look around: timers may have changed.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// The keeper takes its leave of the links, and they end. Further calls do nothing.
    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        if let Some(control) = &self.control {
            control.links.set();
        }
        for thread in self.threads.drain(..) {
            // If it panicked it has said why on stderr.
            let _ = thread.join();
        }
    }

    /// Returns whether one of the threads ended without a command to end.
    pub(super) fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished) && !self.stop.load(Ordering::Relaxed)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}

fn keep(mut parts: Parts, mut sleeper: Sleeper, stop: &AtomicBool) {
    loop {
        let last = stop.load(Ordering::Relaxed);
        let (published, next) = parts.round(last);
        if last {
            return;
        }
        if published {
            thread::sleep(PAUSE);
        }
        sleeper.announce();
        if stop.load(Ordering::Relaxed) || parts.rings.iter().any(|ring| !ring.is_empty()) {
            sleeper.stay_up();
            continue;
        }
        let descriptors: Vec<_> = parts.monitor.iter().map(Monitor::descriptor).collect();
        sleeper.sleep(&descriptors, next.map(|next| parts.control.clock.until(next)));
    }
}

impl Parts {
    /// Does all there is to do. Gives whether a version of the root followed, and when something is due next.
    fn round(&mut self, last: bool) -> (bool, Option<Time>) {
        let control = &*self.control;
        let now = control.clock.now();
        let mut work = Work::default();
        let changes = self.monitor.as_mut().map_or_else(Vec::new, Monitor::changes);
        let refreshed = control.refresh(&changes);
        let mut published = refreshed && control.look_at_links(&mut work);
        if refreshed || self.punts.is_some_and(|due| due <= now) {
            self.punts = control.watch_punts(now, &mut work);
        }
        let mut state = control.state();
        // Before timers, which may wait for just this.
        for ring in &mut self.rings {
            ring.pop(events::RING, |event| state.keeper.handle(&event, now, &mut work));
        }
        state.keeper.step(now, &mut work);
        if last {
            state.keeper.farewell(&mut work);
        }
        published |= control.carry_out(&mut state, None, work);
        let mut next = state.keeper.next();
        if state.is_ahead() {
            let again = Time(now.0.saturating_add(AGAIN));
            next = Some(next.map_or(again, |next| next.min(again)));
        }
        drop(state);
        next = next.into_iter().chain(self.punts).min();
        if published || refreshed {
            // Queues of a device that was made again wait in vain for the old one, also where nothing else is different now.
            control.wake();
        }
        if published {
            control.collect();
        }
        (published, next)
    }
}
