//! What everything in weir stands on: time, randomness, CPU affinity, prefetching, sleeping and waking, and
//! publish-and-reclaim.
//!
//! Knows nothing of packets or tables.

pub mod affinity;
pub mod clock;
pub mod prefetch;
pub mod random;
pub mod reclaim;
pub mod region;
pub mod ring;
pub mod tsc;
pub mod wake;
