//! The common part of middleware: a port with a layer around its queues.

use std::sync::Arc;

use crate::spec::PortSpec;
use crate::{Capabilities, Creator, Failure, HostSide, Link, OpenError, Port, PortCounters, Receiver, Transmitter};

/// A layer around the queues of a port.
pub(crate) trait Layer: Send {
    /// Wraps a receive queue. `index` is its number within the port; `counters` are those of the port.
    fn receiver(&self, index: usize, source: Box<dyn Receiver>, counters: &Arc<PortCounters>) -> Box<dyn Receiver>;

    fn transmitter(&self, sink: Box<dyn Transmitter>) -> Box<dyn Transmitter> {
        sink
    }

    /// Returns the failure of the layer itself, as [`Port::failure`] does.
    fn failure(&self) -> Option<Failure> {
        None
    }
}

/// A port with a layer. Apart from queues and failures it behaves as the inner port.
pub(crate) struct Wrapped<L> {
    port: Box<dyn Port>,
    layer: L,
}

impl<L: Layer> Wrapped<L> {
    pub(crate) fn new(port: Box<dyn Port>, layer: L) -> Wrapped<L> {
        Wrapped { port, layer }
    }
}

impl<L: Layer> Port for Wrapped<L> {
    fn kind(&self) -> &'static str {
        self.port.kind()
    }

    fn capabilities(&self) -> Capabilities {
        self.port.capabilities()
    }

    fn mac(&self) -> Option<[u8; 6]> {
        self.port.mac()
    }

    fn max_frame(&self) -> Option<usize> {
        self.port.max_frame()
    }

    fn link(&self) -> Link {
        self.port.link()
    }

    fn device(&self) -> Option<&str> {
        self.port.device()
    }

    fn refresh(&mut self) {
        self.port.refresh();
    }

    fn missing(&self) -> Option<Creator> {
        self.port.missing()
    }

    fn recreate(&mut self) -> Result<(), OpenError> {
        self.port.recreate()
    }

    fn host_side(&self) -> Option<&HostSide> {
        self.port.host_side()
    }

    fn set_carrier(&mut self, carrier: bool) {
        self.port.set_carrier(carrier);
    }

    fn keep_open(&mut self) {
        self.port.keep_open();
    }

    fn adjust(&mut self, spec: &PortSpec) -> Result<bool, OpenError> {
        self.port.adjust(spec)
    }

    fn peer(&self) -> Option<[u8; 6]> {
        self.port.peer()
    }

    fn counters(&self) -> Arc<PortCounters> {
        self.port.counters()
    }

    fn failure(&self) -> Option<Failure> {
        self.port.failure().or_else(|| self.layer.failure())
    }

    fn receivers(&mut self) -> Vec<Box<dyn Receiver>> {
        let counters = self.port.counters();
        let sources = self.port.receivers().into_iter().enumerate();
        sources.map(|(index, source)| self.layer.receiver(index, source, &counters)).collect()
    }

    fn transmitters(&mut self, workers: usize) -> Vec<Box<dyn Transmitter>> {
        self.port.transmitters(workers).into_iter().map(|sink| self.layer.transmitter(sink)).collect()
    }
}
