//! Counters. Each has one writer, its worker, and any number of readers: a worker adds with a plain load and store, so
//! that counting costs no locked instruction, and two workers share no line.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread adds to and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; for the one writer.
    #[inline(always)]
    pub fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    /// Sets; for the one writer.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
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
