//! Rings of a harness's workers, which the caller may read: neighbour events, samples of packets, events of translations.

use std::sync::Arc;

use weir_base::ring::ring;

use super::stepped::Harness;
use crate::graph::events::{self, Event};
use crate::graph::sample::{self, Sample};
use crate::graph::session::{LOG_RING, NatEvent};
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
