//! Anonymous memory in huge pages where there are any.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const HUGE: usize = 2 << 20;

/// What a region's pages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// From the kernel's reserved pool (`vm.nr_hugepages`).
    Huge,
    /// Ordinary pages that the kernel was asked to merge (transparent huge pages).
    Transparent,
}

/// A zeroed mapping, aligned to 2 MiB, unmapped on drop. Its address never changes.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    mapping: (NonNull<u8>, usize),
    pages: Pages,
}

// SAFETY: a region is plain memory that the value owns; it has no thread affinity.
unsafe impl Send for Region {}
// SAFETY: shared access hands out a pointer only; whoever dereferences it answers for races.
unsafe impl Sync for Region {}

impl Region {
    /// Maps at least `len` octets that are going to be used: huge pages first, and memory is committed at once when
    /// they are there.
    ///
    /// # Errors
    /// When the system has no room.
    pub fn new(len: usize) -> io::Result<Region> {
        let rounded = round(len)?;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let huge = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                rounded,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::HUGETLB,
            )
        };
        match huge.map(|address| NonNull::new(address.cast::<u8>())) {
            Ok(Some(base)) => Ok(Region { base, len: rounded, mapping: (base, rounded), pages: Pages::Huge }),
            _ => Region::reserve(rounded),
        }
    }

    /// Reserves address space for `len` octets; memory is taken when it is first touched, in transparent huge pages
    /// where the kernel has them.
    ///
    /// # Errors
    /// When the system has no room.
    pub fn reserve(len: usize) -> io::Result<Region> {
        let len = round(len)?;
        let mapped = len.checked_add(HUGE).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: as above.
        let address = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let start = NonNull::new(address.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let skip = start.as_ptr().align_offset(HUGE);
        // SAFETY: skip < HUGE, and the mapping is HUGE longer than len.
        let base = unsafe { start.add(skip) };
        // SAFETY: the range lies inside the mapping. It is advice: a kernel without huge pages may refuse.
        let _ = unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxHugepage) };
        Ok(Region { base, len, mapping: (start, mapped), pages: Pages::Transparent })
    }

    /// The first octet, aligned to 2 MiB.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length in octets, a multiple of 2 MiB.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a region has at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// What its pages are.
    pub fn pages(&self) -> Pages {
        self.pages
    }
}

fn round(len: usize) -> io::Result<usize> {
    len.max(1).checked_next_multiple_of(HUGE).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

impl Drop for Region {
    fn drop(&mut self) {
        let (address, len) = self.mapping;
        // SAFETY: exactly what was mapped, and nobody else unmaps it; the owner of the region answers for pointers into it.
        let _ = unsafe { munmap(address.as_ptr().cast(), len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_zeroed_aligned_and_writable() {
        for region in [Region::new(3 << 20).unwrap(), Region::reserve(1).unwrap()] {
            assert_eq!(region.base().as_ptr() as usize % HUGE, 0);
            assert_eq!(region.len() % HUGE, 0);
            // SAFETY: the last octet of the region, which nothing else refers to.
            unsafe {
                let last = region.base().add(region.len() - 1);
                assert_eq!(last.read(), 0);
                last.write(7);
                assert_eq!(last.read(), 7);
            }
        }
    }

    #[test]
    fn no_room_is_an_error() {
        assert!(Region::new(usize::MAX - 5).is_err());
        assert!(Region::reserve(1 << 60).is_err());
    }
}
