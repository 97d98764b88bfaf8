//! What everything in weir stands on: time, randomness, CPU affinity, prefetching, sleeping and waking, publish-and-reclaim,
//! and safe creation of files.
//!
//! Knows nothing of packets or tables.

pub mod affinity;
pub mod clock;
pub mod file;
pub mod prefetch;
pub mod random;
pub mod reclaim;
pub mod region;
pub mod ring;
pub mod tsc;
pub mod wake;
