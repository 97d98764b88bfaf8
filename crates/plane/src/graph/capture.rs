//! Captures: workers copy packets that a filter matches, as they come in and as they leave.
//!
//! A worker waits for nobody. Buffers for copies are made before a capture begins, and go round between the worker and the reader. A
//! packet that finds no buffer is counted, and is missing in the capture.

use std::sync::Arc;

use weir_base::clock::Time;
use weir_base::ring::{Consumer, Producer};
use weir_packet::packet::Packet;

use crate::graph::trace::Filter;
use crate::root::counters::Counter;
use crate::root::sampler::Limit;

/// Captures at a time.
pub(crate) const MOST: usize = 4;

/// Copies of one worker that wait to be read, at most.
pub(crate) const RING: usize = 1024;

/// Octets of all buffers of one worker, at most, as long as that is a buffer for each of 16 packets.
pub(crate) const ROOM: usize = 4 << 20;

/// The packets that are wanted, and how much of them.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The packets; `None`: any.
    pub filter: Option<Filter>,
    /// The number of the interface by which they come in or leave; `None`: any.
    pub interface: Option<u32>,
    /// Packets that come in.
    pub input: bool,
    /// Packets that leave.
    pub output: bool,
    /// Of the packets that leave, only those by interfaces without a port.
    pub portless: bool,
    /// Octets of each packet that are copied at most.
    pub snap: usize,
}

/// A copy of a packet.
#[derive(Debug)]
pub struct Copied {
    /// When the packet came, or when it left.
    pub time: Time,
    /// The number of the interface.
    pub interface: u32,
    /// It was leaving.
    pub output: bool,
    /// It begins with its IP header, as packets in tunnels of IP do.
    pub bare: bool,
    /// Octets of the packet.
    pub length: usize,
    /// Its first octets.
    pub octets: Vec<u8>,
}

/// The counters of a worker for a capture.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CaptureCounters {
    /// Packets that were wanted.
    pub matched: Counter,
    /// Packets that were not copied, as no buffer was free.
    pub no_room: Counter,
    /// Packets that were not copied because of the limit on packets per second.
    pub over_rate: Counter,
}

/// A worker's end of a capture.
pub(crate) struct Tap {
    pub(crate) wanted: Arc<Wanted>,
    pub(crate) limit: Limit,
    pub(crate) counters: Arc<[CaptureCounters]>,
    pub(crate) copies: Producer<Copied>,
    pub(crate) buffers: Consumer<Vec<u8>>,
}

/// The captures of a worker.
#[derive(Default)]
pub(crate) struct Taps {
    list: Vec<Tap>,
}

impl Taps {
    /// Begins a capture.
    pub(crate) fn begin(&mut self, tap: Tap) {
        self.list.push(tap);
    }

    /// Packets are wanted.
    #[inline(always)]
    pub(crate) fn is_active(&self) -> bool {
        !self.list.is_empty()
    }

    /// Shows what was copied to readers, and ends captures without a reader.
    #[inline]
    pub(crate) fn flush(&mut self) {
        if self.is_active() {
            self.list.iter_mut().for_each(|tap| tap.copies.flush());
            self.list.retain(|tap| !tap.copies.is_abandoned());
        }
    }

    /// The captures, to be looked through.
    pub(crate) fn each(&mut self) -> impl Iterator<Item = &mut Tap> {
        self.list.iter_mut()
    }
}

/// The way of a packet.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    /// The number of the interface.
    pub(crate) interface: u32,
    /// The packet is leaving.
    pub(crate) output: bool,
    /// The interface by which it leaves has no port.
    pub(crate) portless: bool,
    /// The packet begins with its IP header.
    pub(crate) bare: bool,
}

impl Tap {
    /// Copies a packet that is wanted, if there is room.
    pub(crate) fn take(&mut self, (worker, now): (usize, Time), packet: &Packet, way: Way) {
        let Some(counters) = self.counters.get(worker) else { return };
        counters.matched.add(1);
        if !self.limit.admit(now) {
            return counters.over_rate.add(1);
        }
        let mut free = None;
        self.buffers.pop(1, |buffer| free = Some(buffer));
        let Some(mut octets) = free else { return counters.no_room.add(1) };
        octets.clear();
        // The buffer has this room, so that nothing is allocated.
        let data = packet.data();
        octets.extend_from_slice(&data[..data.len().min(self.wanted.snap).min(octets.capacity())]);
        let Way { interface, output, bare, .. } = way;
        let time = if output { now } else { packet.time().unwrap_or(now) };
        let copied = Copied { time, interface, output, bare, length: data.len(), octets };
        if self.copies.push(copied).is_err() {
            counters.no_room.add(1);
        }
    }
}
