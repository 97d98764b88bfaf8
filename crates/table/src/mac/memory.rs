//! The memory of buckets: in huge pages where a table fills some. Each frame reads two buckets at random, and with small pages
//! each of these waits for the page tables first.

use std::ops::Deref;

use weir_base::region::Region;

use super::Bucket;

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
