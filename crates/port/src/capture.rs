//! Middleware that writes every packet received and sent to a pcap file.
//!
//! Received packets are written with their receive time, sent ones with the time at which the port took them. All queues
//! of the port share the file, a burst at a time: capturing is for looking at traffic, not for speed.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::vector::{Frame, Vector};

use crate::failure::FailureSlot;
use crate::pcap::{CaptureError, Writer, encode};
use crate::spec::PortSpec;
use crate::{Burst, Failure, Link, OpenError, Port, PortCounters, Readiness, Receiver, Transmitter};

/// A port whose packets are captured.
pub struct Captured {
    port: Box<dyn Port>,
    log: Log,
}

impl Captured {
    /// Wraps a port and creates the file, in place of one of that name.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn new(port: Box<dyn Port>, path: &Path) -> Result<Captured, CaptureError> {
        let writer = Arc::new(Mutex::new(Some(Writer::create(path)?)));
        Ok(Captured { port, log: Log { writer, failure: FailureSlot::default() } })
    }
}

/// The file. When it cannot be written, the packets go on, and the port tells of the failure.
#[derive(Clone)]
struct Log {
    /// `None` after a failure.
    writer: Arc<Mutex<Option<Writer<File>>>>,
    failure: FailureSlot,
}

impl Log {
    fn with(&self, act: impl FnOnce(&mut Writer<File>) -> Result<(), CaptureError>) {
        // After a panic elsewhere the file may end in half a record, but nothing in memory is half done.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = writer.as_mut()
            && let Err(error) = act(open)
        {
            self.failure.note(error);
            *writer = None;
        }
    }
}

impl Port for Captured {
    fn kind(&self) -> &'static str {
        self.port.kind()
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
        self.port.failure().or_else(|| self.log.failure.failure())
    }

    fn receivers(&mut self) -> Vec<Box<dyn Receiver>> {
        let queue = |source| Box::new(ReceiveQueue { source, log: self.log.clone() }) as Box<dyn Receiver>;
        self.port.receivers().into_iter().map(queue).collect()
    }

    fn transmitters(&mut self, workers: usize) -> Vec<Box<dyn Transmitter>> {
        let queue = |sink| {
            let queue = TransmitQueue { sink, log: self.log.clone(), records: Vec::new(), ends: Vec::new() };
            Box::new(queue) as Box<dyn Transmitter>
        };
        self.port.transmitters(workers).into_iter().map(queue).collect()
    }
}

struct ReceiveQueue {
    source: Box<dyn Receiver>,
    log: Log,
}

impl Receiver for ReceiveQueue {
    fn readiness(&self) -> Readiness<'_> {
        self.source.readiness()
    }

    fn receive(&mut self, vector: &mut Vector, cache: &mut Cache, now: Time) -> Burst {
        let before = vector.len();
        let burst = self.source.receive(vector, cache, now);
        let new = &vector.filled()[before..];
        self.log.with(|writer| {
            new.iter().try_for_each(|packet| writer.write(packet.time(), packet.data()))?;
            // Nobody tells a receive queue to flush.
            if burst == Burst::More || new.is_empty() { Ok(()) } else { writer.flush() }
        });
        burst
    }
}

struct TransmitQueue {
    sink: Box<dyn Transmitter>,
    log: Log,
    /// What is to be written of the burst, once it is known how much of it was sent.
    records: Vec<u8>,
    /// Where each packet's record ends.
    ends: Vec<usize>,
}

impl Transmitter for TransmitQueue {
    fn transmit(&mut self, vector: &mut Vector, frame: &Frame, cache: &mut Cache, now: Time) -> usize {
        self.records.clear();
        self.ends.clear();
        for &place in frame.places() {
            encode(&mut self.records, now, vector[place].data());
            self.ends.push(self.records.len());
        }
        let sent = self.sink.transmit(vector, frame, cache, now);
        let end = sent.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or(0);
        self.log.with(|writer| writer.append(&self.records[..end]));
        sent
    }

    fn kick(&mut self) {
        self.sink.kick();
    }

    fn is_pending(&self) -> bool {
        self.sink.is_pending()
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.log.with(Writer::flush);
        self.sink.flush()
    }
}
