//! Counters of ports.

use std::sync::atomic::{AtomicU64, Ordering};

/// What ports count beside the packets that pass. Written by the queues, one or more per port; read by anyone.
#[derive(Debug, Default)]
pub struct PortCounters {
    /// Frames that were waiting but got no buffer.
    pub no_buffer: AtomicU64,
    /// Frames that the port's source could not deliver (longer than a buffer, malformed record).
    pub receive_errors: AtomicU64,
    /// Frames that the port's sink refused: none of them counts as transmitted.
    pub transmit_errors: AtomicU64,
    /// Frames that the kernel dropped before we saw them, its ring being full.
    pub kernel_drops: AtomicU64,
    /// Frames of which a capture holds only the beginning: delivered as they are.
    pub cut: AtomicU64,
    /// Packets that fault injection dropped, duplicated, held back, changed or cut.
    pub faults: FaultCounters,
}

/// What fault injection did, in packets.
#[derive(Debug, Default)]
pub struct FaultCounters {
    /// Vanished.
    pub dropped: AtomicU64,
    /// Arrived twice.
    pub duplicated: AtomicU64,
    /// Arrived after later ones.
    pub reordered: AtomicU64,
    /// Octets were changed.
    pub corrupted: AtomicU64,
    /// Were cut.
    pub truncated: AtomicU64,
}

/// Adds to a statistic that several threads may write.
#[inline]
pub fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
