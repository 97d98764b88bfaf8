//! Foundations of the other crates: time, randomness, CPU affinity, prefetching, sleeping and waking, rings, memory
//! reclamation, memory regions and safe file creation.
//!
//! Contains nothing about packets or tables.

pub mod affinity;
pub mod clock;
pub mod file;
pub mod prefetch;
pub mod random;
pub mod reclaim;
pub mod region;
pub mod ring;
pub mod supply;
pub mod tsc;
pub mod wake;
