//! Counters. Each has one writer, its worker, and any number of readers: a worker adds with a plain load and store, so
//! that counting costs no locked instruction, and two workers share no line.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::PerFamily;
use crate::node::Node;
use crate::reason::Reason;
use crate::sav::{SavCounters, Sources};

/// A number that one thread adds to and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; for the one writer.
    #[inline(always)]
    pub fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    /// The present value.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Packets and octets.
#[derive(Debug, Default)]
pub struct TrafficCounter {
    /// Packets.
    pub packets: Counter,
    /// Octets of frames.
    pub bytes: Counter,
}

impl TrafficCounter {
    /// Adds; for the one writer.
    #[inline(always)]
    pub fn add(&self, packets: u64, bytes: u64) {
        self.packets.add(packets);
        self.bytes.add(bytes);
    }
}

/// What a node counts on one worker.
#[derive(Debug, Default)]
pub struct NodeCounters {
    /// Vectors.
    pub calls: Counter,
    /// Packets in them.
    pub packets: Counter,
    /// Ticks.
    pub ticks: Counter,
}

/// What an interface counts on one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct InterfaceCounters {
    /// Received.
    pub rx: TrafficCounter,
    /// Transmitted.
    pub tx: TrafficCounter,
    /// Dropped after being received here.
    pub dropped: TrafficCounter,
    /// Given to the host after being received here.
    pub punt: TrafficCounter,
    /// Dropped for their ethertype: what came in, and what was to leave.
    pub ethertypes: (Counter, Counter),
    /// Of source address validation.
    pub sav: PerFamily<SavCounters>,
}

/// What a worker counts.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// By node.
    pub nodes: [NodeCounters; Node::COUNT],
    /// Drops by reason.
    pub drops: [Counter; Reason::COUNT],
    /// From ports.
    pub received: Counter,
    /// Made here.
    pub created: Counter,
    /// To ports.
    pub transmitted: Counter,
    /// Delivered to the gateway itself.
    pub local: Counter,
    /// Handed to other workers.
    pub handed_out: Counter,
    /// Taken over from other workers.
    pub handed_in: Counter,
    /// Gone into others.
    pub absorbed: Counter,
    /// Put into the queue of a neighbour.
    pub queued: Counter,
    /// Taken out of the queue of a neighbour.
    pub dequeued: Counter,
    /// Taken by ports that send later.
    pub entrusted: Counter,
    /// Of these, those that were sent or lost.
    pub settled: Counter,
    /// Fragments that were set aside until the first of their datagram comes.
    pub set_aside: Counter,
    /// Of these, those that went on, or were given up.
    pub taken_up: Counter,
    /// Datagrams whose fragments are remembered for rules.
    pub remembered: Counter,
    /// Datagrams of which a fragment for us has come.
    pub begun: Counter,
    /// Of these, those that are whole, or given up.
    pub ended: Counter,
    /// Where packets come from that are not valid.
    pub spoofed: Sources,
    /// Where packets come from that pass although no rule knows their source.
    pub unknown: Sources,
    /// Events that the control side had no room for.
    pub events_lost: Counter,
    /// Rounds of the main loop.
    pub loops: Counter,
    /// Rounds that found nothing.
    pub idle_loops: Counter,
    /// Times it went to sleep.
    pub sleeps: Counter,
}

impl Default for WorkerCounters {
    fn default() -> Self {
        WorkerCounters {
            nodes: std::array::from_fn(|_| NodeCounters::default()),
            drops: std::array::from_fn(|_| Counter::default()),
            received: Counter::default(),
            created: Counter::default(),
            transmitted: Counter::default(),
            local: Counter::default(),
            handed_out: Counter::default(),
            handed_in: Counter::default(),
            absorbed: Counter::default(),
            queued: Counter::default(),
            dequeued: Counter::default(),
            entrusted: Counter::default(),
            settled: Counter::default(),
            set_aside: Counter::default(),
            taken_up: Counter::default(),
            remembered: Counter::default(),
            begun: Counter::default(),
            ended: Counter::default(),
            spoofed: Sources::default(),
            unknown: Sources::default(),
            events_lost: Counter::default(),
            loops: Counter::default(),
            idle_loops: Counter::default(),
            sleeps: Counter::default(),
        }
    }
}

impl WorkerCounters {
    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(Counter::value).sum()
    }
}
