//! The port over capture files.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use weir_base::clock::Time;
use weir_packet::buffer::{Cache, MAX_FRAME};
use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};

use super::{CaptureError, Reader, Writer, encode};
use crate::failure::FailureSlot;
use crate::null::Sink;
use crate::outcome::Outcomes;
use crate::spec::PcapSpec;
use crate::{
    Burst, Capabilities, Failure, Offloads, Outcome, Port, PortCounters, Readiness, Receiver, Transmitter, count,
};

/// A pcap port: one receive queue over the input, one file behind all transmit queues.
pub(crate) struct CapturePort {
    source: Option<Source>,
    output: Option<Arc<Mutex<Output>>>,
    counters: Arc<PortCounters>,
    failure: FailureSlot,
}

impl CapturePort {
    /// Opens the input up to its first packet, and creates the output.
    pub(crate) fn open(spec: &PcapSpec) -> Result<CapturePort, CaptureError> {
        if let (Some(input), Some(output)) = (&spec.input, &spec.output)
            && is_same(input, output)
        {
            return Err(CaptureError::SameFile { path: input.clone() });
        }
        let (counters, failure) = (Arc::default(), FailureSlot::default());
        let source = match &spec.input {
            Some(path) => Some(Source::open(path, spec, Arc::clone(&counters), failure.clone())?),
            None => None,
        };
        let output = match &spec.output {
            Some(path) => {
                let writer = Writer::create(path)?;
                Some(Arc::new(Mutex::new(Output { writer, failure: None })))
            }
            None => None,
        };
        Ok(CapturePort { source, output, counters, failure })
    }
}

/// Returns whether both paths name one file, which need not exist.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino()));
    match (identity(a), identity(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

impl Port for CapturePort {
    fn kind(&self) -> &'static str {
        "pcap"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { transmit: Offloads::AS_IS, ..Capabilities::default() }
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }

    fn failure(&self) -> Option<Failure> {
        self.failure.failure()
    }

    fn receivers(&mut self) -> Vec<Box<dyn Receiver>> {
        self.source.take().into_iter().map(|source| Box::new(source) as Box<dyn Receiver>).collect()
    }

    fn transmitters(&mut self, workers: usize) -> Vec<Box<dyn Transmitter>> {
        let Some(output) = self.output.take() else { return Sink::for_workers(workers) };
        let queue = |_| {
            let (output, counters, failure) = (Arc::clone(&output), Arc::clone(&self.counters), self.failure.clone());
            let outcomes = Outcomes::default();
            Box::new(FileQueue { output, counters, failure, records: Vec::new(), ends: Vec::new(), outcomes })
                as Box<dyn Transmitter>
        };
        (0..workers).map(queue).collect()
    }
}

/// The receive queue.
struct Source {
    reader: Reader<File>,
    /// The reader's current packet is not delivered yet.
    waiting: bool,
    repeat: bool,
    pace: Option<Pace>,
    counters: Arc<PortCounters>,
    failure: FailureSlot,
}

/// The capture's intervals: a packet is due as long after `start` as it was captured after `first`.
#[derive(Default)]
struct Pace {
    start: Option<Time>,
    first: Time,
    /// Due time of the packet that was checked last.
    last: Time,
}

impl Pace {
    fn is_due(&mut self, captured: Time, now: Time) -> bool {
        let start = *self.start.get_or_insert_with(|| {
            self.first = captured;
            now
        });
        self.last = Time(start.0.saturating_add(captured.since(self.first)));
        self.last <= now
    }

    /// Restarts the capture: its first packet is due with its last.
    fn again(&mut self) {
        self.start = Some(self.last);
    }
}

impl Source {
    fn open(
        path: &Path,
        spec: &PcapSpec,
        counters: Arc<PortCounters>,
        failure: FailureSlot,
    ) -> Result<Source, CaptureError> {
        let mut reader = Reader::open(path)?;
        // The first packet shows errors that the header does not: link types in pcapng, truncation.
        let waiting = reader.read()?.is_some();
        if !waiting && spec.repeat {
            return Err(CaptureError::NoPackets { path: path.to_owned() });
        }
        let pace = spec.paced.then(Pace::default);
        Ok(Source { reader, waiting, repeat: spec.repeat, pace, counters, failure })
    }

    /// Makes a packet ready. Returns `false` if there are no more.
    fn fetch(&mut self) -> Result<bool, CaptureError> {
        if !self.waiting {
            self.waiting = self.reader.read()?.is_some();
        }
        if !self.waiting && self.repeat {
            self.reader = Reader::open(self.reader.path())?;
            self.waiting = self.reader.read()?.is_some();
            if let Some(pace) = &mut self.pace {
                pace.again();
            }
        }
        Ok(self.waiting)
    }
}

impl Receiver for Source {
    fn readiness(&self) -> Readiness<'_> {
        match &self.pace {
            Some(pace) if self.waiting => Readiness::At(pace.last),
            _ => Readiness::Now,
        }
    }

    fn receive(&mut self, vector: &mut Vector, cache: &mut Cache, now: Time) -> Burst {
        while vector.room() > 0 {
            match self.fetch() {
                Ok(true) => (),
                Ok(false) => return Burst::Ended,
                Err(error) => {
                    count(&self.counters.receive_errors, 1);
                    self.failure.note(error);
                    self.repeat = false;
                    return Burst::Ended;
                }
            }
            let Some(record) = self.reader.current() else { return Burst::Ended };
            if let Some(pace) = &mut self.pace
                && !pace.is_due(record.time, now)
            {
                return Burst::Idle;
            }
            if record.frame.len() > MAX_FRAME {
                count(&self.counters.receive_errors, 1);
            } else {
                let Some(mut packet) = Packet::copy_of(cache, record.frame) else { return Burst::More };
                packet.set_time(record.time);
                if (record.original as usize) > record.frame.len() {
                    count(&self.counters.cut, 1);
                }
                if vector.push(packet).is_err() {
                    return Burst::More;
                }
            }
            self.waiting = false;
        }
        Burst::More
    }
}

/// The output file.
struct Output {
    writer: Writer<File>,
    /// Write failure. The file may end in half a record, so nothing is appended.
    failure: Option<Failure>,
}

/// A transmit queue. Workers write to the file in turns, a burst at a time. A packet counts as sent when the file has
/// its whole record.
struct FileQueue {
    output: Arc<Mutex<Output>>,
    counters: Arc<PortCounters>,
    failure: FailureSlot,
    /// Records to write.
    records: Vec<u8>,
    /// End of each record.
    ends: Vec<usize>,
    outcomes: Outcomes,
}

impl Transmitter for FileQueue {
    fn transmit(&mut self, vector: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, now: Time) -> usize {
        for &place in frame.places() {
            let packet = &vector[place];
            encode(&mut self.records, packet.time().unwrap_or(now), packet.data());
            self.ends.push(self.records.len());
        }
        frame.len()
    }

    fn sends_later(&self) -> bool {
        true
    }

    fn outcome(&mut self) -> Option<Outcome> {
        self.outcomes.take()
    }

    fn kick(&mut self) {
        if self.ends.is_empty() {
            return;
        }
        // After a panic elsewhere the file may end in half a record, but the output is consistent.
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let mut written = 0;
        if output.failure.is_none()
            && let Err(error) = output.writer.write_through(&self.records, &mut written)
        {
            output.failure = Some(self.failure.note(error));
        }
        let sent = self.ends.partition_point(|&end| end <= written);
        let lost = self.ends.len() - sent;
        count(&self.counters.transmit_errors, lost as u64);
        self.outcomes.add(sent, true);
        self.outcomes.add(lost, false);
        self.records.clear();
        self.ends.clear();
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.kick();
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.failure.clone().map_or(Ok(()), |failure| Err(std::io::Error::other(failure)))
    }
}

impl Drop for FileQueue {
    fn drop(&mut self) {
        self.kick();
    }
}
