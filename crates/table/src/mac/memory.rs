//! The memory of buckets: in huge pages where a table fills some. Each frame reads two buckets at random, and with small pages
//! each of these waits for the page tables first.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64};

use weir_base::region::Region;

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

/// The least octets of a table in huge pages.
const LEAST: usize = 2 << 20;

/// Buckets, all empty at first.
pub(super) enum Buckets {
    Heap(Box<[Bucket]>),
    Region(Region, usize),
}

impl Buckets {
    /// Makes so many buckets.
    pub(super) fn new(count: usize) -> Buckets {
        let octets = count * size_of::<Bucket>();
        match Region::reserve(octets) {
            Ok(region) if octets >= LEAST => Buckets::Region(region, count),
            _ => Buckets::Heap(std::iter::repeat_with(Bucket::default).take(count).collect()),
        }
    }
}

impl Deref for Buckets {
    type Target = [Bucket];

    #[inline(always)]
    fn deref(&self) -> &[Bucket] {
        match self {
            Buckets::Heap(buckets) => buckets,
            // SAFETY: the region has the octets of so many buckets and is aligned to more than one. It was zeroed, which is an empty
            // bucket; since then it was accessed as buckets alone, whose words are atomic.
            Buckets::Region(region, count) => unsafe {
                std::slice::from_raw_parts(region.base().cast::<Bucket>().as_ptr(), *count)
            },
        }
    }
}
