//! Buckets of stations. Each frame reads two of them at random.

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::memory::{Memory, Zeroed};

/// Entries of a bucket.
pub(super) const WAYS: usize = 5;

/// A bucket: one cache line.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Bucket {
    /// The address in the upper 48 bits, then a flag of configured entries, then the port; 0: nothing.
    pub(super) words: [AtomicU64; WAYS],
    /// The seconds at which the stations were seen.
    pub(super) seen: [AtomicU32; WAYS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

// SAFETY: zeros are a bucket without stations; it is a cache line of atomic numbers.
unsafe impl Zeroed for Bucket {}

/// Buckets, all empty at first.
pub(super) type Buckets = Memory<Bucket>;
