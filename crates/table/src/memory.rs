//! The memory of a table's buckets: in huge pages where it fills some. A lookup reads a bucket at random, and with small pages it waits
//! for the page tables first.

use std::marker::PhantomData;
use std::ops::Deref;

use weir_base::region::Region;

/// The least octets of a table in huge pages.
const LEAST: usize = 2 << 20;

/// A bucket, which is empty if all its octets are zero.
///
/// # Safety
/// Zeros are a value of the type, it is no longer aligned than a huge page, and it needs no drop.
pub(crate) unsafe trait Zeroed: Default + Sync {}

/// So many values, all zero at first.
pub(crate) enum Memory<T> {
    Heap(Box<[T]>),
    Region(Region, usize, PhantomData<T>),
}

impl<T: Zeroed> Memory<T> {
    /// Makes so many values.
    pub(crate) fn new(count: usize) -> Memory<T> {
        let octets = count * size_of::<T>();
        match Region::reserve(octets.max(1)) {
            Ok(region) if octets >= LEAST => Memory::Region(region, count, PhantomData),
            _ => Memory::Heap(std::iter::repeat_with(T::default).take(count).collect()),
        }
    }
}

impl<T: Zeroed> Deref for Memory<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        match self {
            Memory::Heap(values) => values,
            // SAFETY: the region has the octets of so many values and is aligned to more than one. It was zeroed, which is a value;
            // since then it was accessed as values alone, which threads may share.
            Memory::Region(region, count, _) => unsafe {
                std::slice::from_raw_parts(region.base().cast::<T>().as_ptr(), *count)
            },
        }
    }
}
