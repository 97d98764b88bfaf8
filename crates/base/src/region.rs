//! Anonymous memory in huge pages where there are any.

use std::io;
use std::ptr::NonNull;

use rustix::mm::MapFlags;
#[cfg(not(miri))]
use rustix::mm::{self, Advice, madvise};

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
    /// Maps at least `len` octets that are going to be used, and takes the memory at once: from the reserved huge pages
    /// if there are enough, else in transparent ones.
    ///
    /// # Errors
    /// When the system has no room: told now, not by a killed process later.
    pub fn new(len: usize) -> io::Result<Region> {
        let len = round(len)?;
        if let Ok(base) = map(len, MapFlags::PRIVATE | MapFlags::HUGETLB) {
            let region = Region { base, len, mapping: (base, len), pages: Pages::Huge };
            // A control group may refuse pages that were reserved.
            if region.populate().is_ok() {
                return Ok(region);
            }
        }
        if available().is_some_and(|available| len > available) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let region = Region::aligned(len, MapFlags::PRIVATE)?;
        region.populate()?;
        Ok(region)
    }

    /// Takes the memory of all pages. Miri's heap has it already.
    #[cfg(miri)]
    fn populate(&self) -> io::Result<()> {
        Ok(())
    }

    /// Takes the memory of all pages.
    #[cfg(not(miri))]
    fn populate(&self) -> io::Result<()> {
        // SAFETY: the range is the region's own; what the pages hold stays.
        match unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxPopulateWrite) } {
            // Kernels before 5.14 do not know the advice; there, memory is taken when it is first touched.
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reserves address space for `len` octets; memory is taken when it is first touched, in transparent huge pages
    /// where the kernel has them.
    ///
    /// # Errors
    /// When the system has no room.
    pub fn reserve(len: usize) -> io::Result<Region> {
        Region::aligned(round(len)?, MapFlags::PRIVATE | MapFlags::NORESERVE)
    }

    /// A mapping of ordinary pages at a multiple of 2 MiB.
    fn aligned(len: usize, flags: MapFlags) -> io::Result<Region> {
        let mapped = len.checked_add(HUGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let start = map(mapped, flags)?;
        let skip = start.as_ptr().align_offset(HUGE);
        // SAFETY: skip < HUGE, and the mapping is HUGE longer than len.
        let base = unsafe { start.add(skip) };
        #[cfg(not(miri))]
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

#[cfg(not(miri))]
fn map(len: usize, flags: MapFlags) -> io::Result<NonNull<u8>> {
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
    let address =
        unsafe { mm::mmap_anonymous(std::ptr::null_mut(), len, mm::ProtFlags::READ | mm::ProtFlags::WRITE, flags)? };
    NonNull::new(address.cast::<u8>()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// # Safety
/// Exactly what `map` gave, which nobody uses any more.
#[cfg(not(miri))]
unsafe fn unmap(address: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { mm::munmap(address.as_ptr().cast(), len) };
}

// Miri cannot ask the system: there, the memory comes from the heap.
#[cfg(miri)]
use std::alloc::{Layout, alloc_zeroed, dealloc};

#[cfg(miri)]
fn map(len: usize, _: MapFlags) -> io::Result<NonNull<u8>> {
    // Where memory runs out, Miri ends.
    if len > 1 << 32 {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let layout = Layout::from_size_align(len, HUGE).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: no mapping is empty.
    NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// # Safety
/// Exactly what `map` gave, which nobody uses any more.
#[cfg(miri)]
unsafe fn unmap(address: NonNull<u8>, len: usize) {
    let layout = Layout::from_size_align(len, HUGE).expect("it was mapped with this layout");
    // SAFETY: the caller's promise.
    unsafe { dealloc(address.as_ptr(), layout) }
}

/// Octets of memory that can be had without pushing anyone else out, as the kernel estimates them. Miri reads no files.
fn available() -> Option<usize> {
    if cfg!(miri) {
        return None;
    }
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

fn round(len: usize) -> io::Result<usize> {
    len.max(1).checked_next_multiple_of(HUGE).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

impl Drop for Region {
    fn drop(&mut self) {
        let (address, len) = self.mapping;
        // SAFETY: exactly what was mapped, and nobody else unmaps it; the owner of the region answers for pointers into it.
        unsafe { unmap(address, len) }
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
        // Far more than others may give back meanwhile.
        assert!(Region::new(available().unwrap() + (1 << 44)).is_err());
        assert!(Region::reserve(1 << 60).is_err());
    }
}
