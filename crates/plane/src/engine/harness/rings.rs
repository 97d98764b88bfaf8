//! Rings of a harness's workers, which the caller may read: neighbour events, samples of packets, events of translations,
//! sessions that begin and end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use weir_base::ring::ring;

use super::stepped::Harness;
use crate::graph::events::{self, Event};
use crate::graph::sample::{self, Sample};
use crate::graph::session::{LOG_RING, NatEvent, SessionEvent, WATCH_RING};
use crate::graph::worker::Worker;

impl Harness {
    /// Lets the caller resolve neighbours from now on: packets are held until it answers ([`Harness::events`]) instead
    /// of being refused at once.
    pub fn listen(&mut self) {
        let connect = |worker: &mut Worker| {
            let (producer, events) = ring(events::RING);
            worker.events.connect(producer, None);
            events
        };
        self.rings.events = self.workers.iter_mut().map(connect).collect();
        self.limit();
    }

    /// Logs translations from now on, for the caller ([`Harness::nat_events`]).
    pub fn log_translations(&mut self) {
        let connect = |worker: &mut Worker| {
            let (producer, events) = ring(LOG_RING);
            worker.sessions.log.connect(producer, None, Arc::default());
            events
        };
        self.rings.log = self.workers.iter_mut().map(connect).collect();
    }

    /// The events of translations since the last call.
    pub fn nat_events(&mut self) -> Vec<NatEvent> {
        let mut taken = Vec::new();
        for events in &mut self.rings.log {
            events.pop(LOG_RING, |event| taken.push(event));
        }
        taken
    }

    /// Watches sessions from now on, for the caller ([`Harness::session_events`]). Returns whether they are watched, which the caller
    /// may change, and how many events were lost.
    pub fn watch_sessions(&mut self) -> (Arc<AtomicBool>, Arc<AtomicU64>) {
        let (is_watched, lost) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicU64>::default());
        let connect = |worker: &mut Worker| {
            let (producer, events) = ring(WATCH_RING);
            worker.sessions.watch.connect(producer, None, (Arc::clone(&is_watched), Arc::clone(&lost)));
            events
        };
        self.rings.sessions = self.workers.iter_mut().map(connect).collect();
        (is_watched, lost)
    }

    /// The sessions that began and ended since the last call.
    pub fn session_events(&mut self) -> Vec<SessionEvent> {
        let mut taken = Vec::new();
        for events in &mut self.rings.sessions {
            events.pop(WATCH_RING, |event| taken.push(event));
        }
        taken
    }

    /// Takes samples from now on, for the caller ([`Harness::samples`]).
    pub fn take_samples(&mut self) {
        let connect = |worker: &mut Worker| {
            let (producer, samples) = ring(sample::RING);
            worker.samples.connect(producer, None);
            samples
        };
        self.rings.samples = self.workers.iter_mut().map(connect).collect();
    }

    /// The samples that were taken since the last call, if any are; the oldest thousand, if there were more.
    pub fn samples(&mut self) -> Vec<Sample> {
        let mut taken = Vec::new();
        for samples in &mut self.rings.samples {
            samples.pop(sample::RING, |sample| taken.push(sample));
        }
        taken
    }

    /// Returns the worker's neighbour events since the last call, if the caller resolves neighbours: the oldest few
    /// thousand, if there were more.
    pub fn events(&mut self) -> Vec<Event> {
        let mut told = Vec::new();
        for events in &mut self.rings.events {
            events.pop(events::RING, |event| told.push(event));
        }
        told
    }
}
