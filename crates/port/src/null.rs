//! The null port: receives nothing and discards transmitted packets.

use std::sync::Arc;

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::vector::{Indices, Vector};

use crate::{Capabilities, Offloads, Port, PortCounters, Receiver, Transmitter};

/// A null port. It has no receive queues.
#[derive(Debug, Default)]
pub(crate) struct Null {
    counters: Arc<PortCounters>,
}

impl Port for Null {
    fn kind(&self) -> &'static str {
        "null"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { transmit: Offloads::AS_IS, ..Capabilities::default() }
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }

    fn receivers(&mut self) -> Vec<Box<dyn Receiver>> {
        Vec::new()
    }

    fn transmitters(&mut self, workers: usize) -> Vec<Box<dyn Transmitter>> {
        Sink::for_workers(workers)
    }
}

/// A transmit queue that discards all packets.
#[derive(Debug)]
pub(crate) struct Sink;

impl Sink {
    pub(crate) fn for_workers(workers: usize) -> Vec<Box<dyn Transmitter>> {
        (0..workers).map(|_| Box::new(Sink) as Box<dyn Transmitter>).collect()
    }
}

impl Transmitter for Sink {
    fn transmit(&mut self, _: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        frame.len()
    }
}
