//! Captures of packets: made ready for the workers, and read.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use weir_base::clock::{Clock, Time};
use weir_base::reclaim::Published;
use weir_base::ring::{Consumer, Producer, ring};

use super::flows;
use crate::compile::Map;
use crate::graph::capture::{CaptureCounters, Copied, MOST, RING, ROOM, Tap, Wanted};
use crate::model;
use crate::root::Root;
use crate::root::sampler::Limit;

/// The order for a capture, in the terms of a model.
#[derive(Debug, Clone, Default)]
pub struct Capture {
    /// A rule that matches the packets, whatever its action; `None`: any packets.
    pub filter: Option<model::AclRule>,
    /// The interface by which they come in or leave; `None`: any.
    pub interface: Option<model::InterfaceIndex>,
    /// Packets that come in.
    pub input: bool,
    /// Packets that leave.
    pub output: bool,
    /// Of the packets that leave, only those by interfaces without a port: tunnels and stations of bridges.
    pub portless: bool,
    /// Octets of each packet, at most.
    pub snap: usize,
    /// Packets per second, over all workers, at most.
    pub rate: u32,
}

/// As many captures run as can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyCaptures;

/// The counts of a capture so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    /// Packets that were wanted.
    pub matched: u64,
    /// Of these, packets that were not copied, as no buffer was free.
    pub no_room: u64,
    /// Of these, packets that were not copied because of the limit on packets per second.
    pub over_rate: u64,
}

/// The captures that run.
#[derive(Debug, Default)]
pub(super) struct Captures(Vec<Weak<[CaptureCounters]>>);

/// The reader of a capture. The capture ends when it is dropped.
pub struct CaptureReader {
    ends: Vec<(Consumer<Copied>, Producer<Vec<u8>>)>,
    counters: Arc<[CaptureCounters]>,
    root: Arc<Published<Root>>,
    clock: Clock,
}

impl Captures {
    /// Makes a capture for so many workers: the parts of the workers, and the reader.
    pub(super) fn begin(
        &mut self,
        order: &Capture,
        workers: usize,
        map: &Map,
        (root, clock): (&Arc<Published<Root>>, &Clock),
    ) -> Result<(Vec<Tap>, CaptureReader), TooManyCaptures> {
        self.0.retain(|running| running.strong_count() > 0);
        if self.0.len() >= MOST {
            return Err(TooManyCaptures);
        }
        let number = |index: model::InterfaceIndex| map.interfaces.get(index.0 as usize).copied();
        let snap = order.snap.max(1);
        let wanted = Arc::new(Wanted {
            filter: order.filter.as_ref().map(|rule| flows::packets(rule, map)),
            interface: order.interface.and_then(number),
            input: order.input,
            output: order.output,
            portless: order.portless,
            snap,
        });
        let counters: Arc<[CaptureCounters]> = (0..workers).map(|_| CaptureCounters::default()).collect();
        let limit = Limit::new(order.rate, Arc::<AtomicU64>::default());
        let (mut taps, mut ends) = (Vec::with_capacity(workers), Vec::with_capacity(workers));
        for _ in 0..workers {
            let (copies, copied) = ring(RING);
            let (mut free, buffers) = ring(RING);
            for _ in 0..(ROOM / snap).clamp(16, RING) {
                // There is room for all.
                let _ = free.push(Vec::with_capacity(snap));
            }
            free.flush();
            let (wanted, limit, counters) = (Arc::clone(&wanted), limit.clone(), Arc::clone(&counters));
            taps.push(Tap { wanted, limit, counters, copies, buffers });
            ends.push((copied, free));
        }
        self.0.push(Arc::downgrade(&counters));
        let (root, clock) = (Arc::clone(root), clock.clone());
        Ok((taps, CaptureReader { ends, counters, root, clock }))
    }
}

impl CaptureReader {
    /// Gives up to `limit` copies of each worker to `each`, the oldest first; returns how many there were.
    pub fn read(&mut self, limit: usize, mut each: impl FnMut(&Copied)) -> usize {
        let mut count = 0;
        for (copied, free) in &mut self.ends {
            count += copied.pop(limit, |copied| {
                each(&copied);
                // The ring holds all buffers that there are.
                let _ = free.push(copied.octets);
            });
            free.flush();
        }
        count
    }

    /// Returns what was counted so far.
    pub fn counts(&self) -> CaptureCounts {
        let sum = |of: fn(&CaptureCounters) -> u64| self.counters.iter().map(of).sum();
        CaptureCounts {
            matched: sum(|own| own.matched.value()),
            no_room: sum(|own| own.no_room.value()),
            over_rate: sum(|own| own.over_rate.value()),
        }
    }

    /// The name of the interface of a number.
    pub fn interface(&self, number: u32) -> Option<Arc<str>> {
        self.root.with(|root| root.interfaces.get(number as usize).map(|interface| Arc::clone(&interface.name)))
    }

    /// Returns the time of the clock that stamps packets.
    pub fn now(&self) -> Time {
        self.clock.now()
    }
}
