//! The traffic generator: streams of packets made from templates or looped from captures.
//!
//! The specification decides everything. Packet `n` of a stream depends on `n` and the stream's seed only, not on
//! queues and bursts. Packets transmitted to a generator are discarded.

mod error;
mod flows;
mod frames;
mod layout;
mod link;
mod looped;
pub(crate) mod mix;
mod pace;
mod payload;
mod share;
mod size;
mod stream;
mod template;

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::vector::Vector;

use crate::context::Context;
use crate::error::OpenError;
use crate::null::Sink;
use crate::spec::GeneratorSpec;
use crate::{Burst, Capabilities, Offloads, Port, PortCounters, Readiness, Receiver, Transmitter};
pub use error::StreamError;
use frames::Target;
use link::Link;
use stream::{Source, Stream};

pub(crate) struct Generator {
    receivers: Vec<Box<dyn Receiver>>,
    counters: Arc<PortCounters>,
}

impl Generator {
    pub(crate) fn open(spec: &GeneratorSpec, queues: u16, context: &Context) -> Result<Generator, OpenError> {
        if spec.streams.is_empty() {
            return Err(OpenError::NoStreams);
        }
        let max_frame = context.max_frame.min(context.pool.longest_frame());
        let start = Arc::new(OnceLock::new());
        let queues = u64::from(queues.max(1));
        let mut of_queue: Vec<Vec<Stream>> = (0..queues).map(|_| Vec::new()).collect();
        for (index, stream) in spec.streams.iter().enumerate() {
            let source = Source::new(stream, &Link::of(context, index), max_frame)
                .map_err(|error| OpenError::Stream { number: index + 1, error })?;
            for (queue, streams) in of_queue.iter_mut().enumerate() {
                streams.push(Stream::new(&source, stream, queue as u64, queues, &start));
            }
        }
        let receivers = of_queue.into_iter().map(|streams| Box::new(Queue { streams }) as Box<dyn Receiver>).collect();
        Ok(Generator { receivers, counters: Arc::default() })
    }
}

impl Port for Generator {
    fn kind(&self) -> &'static str {
        "generator"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { transmit: Offloads::AS_IS, ..Capabilities::default() }
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }

    fn receivers(&mut self) -> Vec<Box<dyn Receiver>> {
        std::mem::take(&mut self.receivers)
    }

    fn transmitters(&mut self, workers: usize) -> Vec<Box<dyn Transmitter>> {
        Sink::for_workers(workers)
    }
}

/// A receive queue: its share of every stream.
struct Queue {
    streams: Vec<Stream>,
}

impl Receiver for Queue {
    fn readiness(&self) -> Readiness<'_> {
        let mut first = None;
        for stream in &self.streams {
            match stream.readiness() {
                Readiness::At(time) => first = Some(first.map_or(time, |first: Time| first.min(time))),
                Readiness::Never => {}
                now => return now,
            }
        }
        first.map_or(Readiness::Never, Readiness::At)
    }

    fn receive(&mut self, vector: &mut Vector, cache: &mut Cache, now: Time) -> Burst {
        for stream in &mut self.streams {
            stream.admit(now);
        }
        let mut into = Target { vector, cache };
        if let [stream] = &mut self.streams[..] {
            stream.emit(usize::MAX, &mut into);
        } else {
            self.interleave(&mut into);
        }
        if self.streams.iter().all(Stream::has_ended) {
            Burst::Ended
        } else if self.streams.iter().any(Stream::is_due) {
            Burst::More
        } else {
            Burst::Idle
        }
    }
}

impl Queue {
    /// Takes packets in the order of their due times, then packets of streams without a rate in turns.
    fn interleave(&mut self, into: &mut Target<'_>) {
        while into.vector.room() > 0 {
            let waiting = self.streams.iter_mut().filter(|stream| stream.is_due() && !stream.is_starved());
            let Some(next) = waiting.min_by(|a, b| a.turn().partial_cmp(&b.turn()).unwrap_or(Ordering::Equal)) else {
                return;
            };
            next.emit(1, into);
        }
    }
}
