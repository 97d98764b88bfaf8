//! Middleware that writes all received and sent packets to a pcap file.
//!
//! Received packets have their receive time, sent packets the time at which the port took them. Packets that the port
//! could not send are not written. All queues of the port share the file, a burst at a time: capturing is for
//! inspection, not for speed.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::vector::{Indices, VECTOR, Vector};

use crate::failure::FailureSlot;
use crate::outcome::Outcomes;
use crate::pcap::{CaptureError, Writer, encode};
use crate::wrapped::{Layer, Wrapped};
use crate::{Burst, Failure, Outcome, Port, PortCounters, Readiness, Receiver, Segmentation, Transmitter};

/// Wraps a port and captures its packets. Creates the file and replaces an existing one.
///
/// # Errors
/// If the file cannot be created.
pub fn captured(port: Box<dyn Port>, path: &Path) -> Result<impl Port + use<>, CaptureError> {
    let writer = Arc::new(Mutex::new(Some(Writer::create(path)?)));
    Ok(Wrapped::new(port, Log { writer, failure: FailureSlot::default() }))
}

/// The file. If it cannot be written, packets still pass, and the port reports the failure.
#[derive(Clone)]
struct Log {
    /// `None` after a failure.
    writer: Arc<Mutex<Option<Writer<File>>>>,
    failure: FailureSlot,
}

impl Log {
    fn with(&self, act: impl FnOnce(&mut Writer<File>) -> Result<(), CaptureError>) {
        // After a panic elsewhere the file may end in half a record, but the writer is consistent.
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
        Box::new(TransmitQueue {
            sink,
            log: self.clone(),
            burst: Vec::new(),
            records: VecDeque::new(),
            lengths: VecDeque::new(),
            outcomes: Outcomes::default(),
        })
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
            new.iter().try_for_each(|packet| writer.write(packet.time().unwrap_or(now), packet.data()))?;
            // Receive queues are not flushed by the worker.
            if burst == Burst::More || new.is_empty() { Ok(()) } else { writer.flush() }
        });
        burst
    }
}

struct TransmitQueue {
    sink: Box<dyn Transmitter>,
    log: Log,
    /// Records of one burst, before the sink has taken its packets.
    burst: Vec<u8>,
    /// Records of packets that the sink took and has not reported yet.
    records: VecDeque<u8>,
    /// Octets of each of these records.
    lengths: VecDeque<usize>,
    /// Outcomes of the sink, for the caller.
    outcomes: Outcomes,
}

impl TransmitQueue {
    /// Removes the records of the oldest packets, and writes them if the packets were sent.
    fn settle(&mut self, outcome: Outcome) {
        let octets = self.lengths.drain(..outcome.packets.min(self.lengths.len())).sum();
        if outcome.sent {
            let (first, second) = self.records.as_slices();
            let first = &first[..first.len().min(octets)];
            let second = &second[..octets - first.len()];
            self.log.with(|writer| writer.append(first).and_then(|()| writer.append(second)));
        }
        self.records.drain(..octets);
    }

    /// Reads the outcomes of the sink.
    fn follow(&mut self) {
        while let Some(outcome) = self.sink.outcome() {
            self.settle(outcome);
            self.outcomes.add(outcome.packets, outcome.sent);
        }
    }
}

impl Transmitter for TransmitQueue {
    fn transmit(
        &mut self,
        vector: &mut Vector,
        frame: &Indices,
        refused: &mut Indices,
        cache: &mut Cache,
        now: Time,
    ) -> usize {
        self.burst.clear();
        let mut starts = [0; VECTOR];
        for (start, &place) in starts.iter_mut().zip(frame.places()) {
            *start = self.burst.len();
            encode(&mut self.burst, now, vector[place].data());
        }
        let end = self.burst.len();
        let taken = self.sink.transmit(vector, frame, refused, cache, now);
        for (index, place) in frame.places()[..taken].iter().enumerate() {
            if !refused.places().contains(place) {
                let end = if index + 1 < frame.len() { starts[index + 1] } else { end };
                self.records.extend(&self.burst[starts[index]..end]);
                self.lengths.push_back(end - starts[index]);
            }
        }
        if !self.sink.sends_later() {
            self.settle(Outcome { packets: self.lengths.len(), sent: true });
        }
        taken
    }

    fn segmentation(&self) -> Option<Segmentation> {
        self.sink.segmentation()
    }

    fn sends_later(&self) -> bool {
        self.sink.sends_later()
    }

    fn outcome(&mut self) -> Option<Outcome> {
        self.outcomes.take()
    }

    fn kick(&mut self) {
        self.sink.kick();
        self.follow();
    }

    fn is_pending(&self) -> bool {
        self.sink.is_pending()
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = self.sink.flush();
        self.follow();
        self.log.with(Writer::flush);
        flushed
    }

    fn close(&mut self) {
        self.sink.close();
        self.follow();
        self.log.with(Writer::flush);
    }
}
