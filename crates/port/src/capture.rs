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
use crate::wrapped::{Layer, Wrapped};
use crate::{Burst, Failure, Port, PortCounters, Readiness, Receiver, Transmitter};

/// Wraps a port so that its packets are captured, and creates the file, in place of one of that name.
///
/// # Errors
/// When the file cannot be created.
pub fn captured(port: Box<dyn Port>, path: &Path) -> Result<impl Port + use<>, CaptureError> {
    let writer = Arc::new(Mutex::new(Some(Writer::create(path)?)));
    Ok(Wrapped::new(port, Log { writer, failure: FailureSlot::default() }))
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

impl Layer for Log {
    fn receiver(&self, _: usize, source: Box<dyn Receiver>, _: &Arc<PortCounters>) -> Box<dyn Receiver> {
        Box::new(ReceiveQueue { source, log: self.clone() })
    }

    fn transmitter(&self, sink: Box<dyn Transmitter>) -> Box<dyn Transmitter> {
        Box::new(TransmitQueue { sink, log: self.clone(), records: Vec::new(), ends: Vec::new() })
    }

    fn failure(&self) -> Option<Failure> {
        self.failure.failure()
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
