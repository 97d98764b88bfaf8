//! Counters of ports.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a port, apart from the packets that pass. Its queues write them; any thread reads them.
#[derive(Debug, Default)]
pub struct PortCounters {
    /// Frames without a free buffer.
    pub no_buffer: AtomicU64,
    /// Frames that the source could not deliver (longer than a buffer, malformed record).
    pub receive_errors: AtomicU64,
    /// Frames that the sink refused; they do not count as transmitted.
    pub transmit_errors: AtomicU64,
    /// Frames that the kernel dropped because its ring was full.
    pub kernel_drops: AtomicU64,
    /// Frames that a capture holds in part; delivered as they are.
    pub cut: AtomicU64,
    /// Packets by injected fault.
    pub faults: FaultCounters,
}

/// Injected faults, in packets.
#[derive(Debug, Default)]
pub struct FaultCounters {
    /// Dropped.
    pub dropped: AtomicU64,
    /// Duplicated.
    pub duplicated: AtomicU64,
    /// Delivered after later packets.
    pub reordered: AtomicU64,
    /// Changed.
    pub corrupted: AtomicU64,
    /// Truncated.
    pub truncated: AtomicU64,
}

/// Adds to a counter that several threads may write.
#[inline]
pub fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
