//! Anonymous memory, in huge pages if the kernel has them.

use std::io;
use std::ptr::NonNull;

use rustix::mm::MapFlags;
#[cfg(not(miri))]
use rustix::mm::{self, Advice, madvise};

const HUGE: usize = 2 << 20;

/// Kind of the pages of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// From the kernel's reserved pool (`vm.nr_hugepages`).
    Huge,
    /// Ordinary pages that the kernel may merge (transparent huge pages).
    Transparent,
}

/// A zeroed mapping, aligned to 2 MiB. Its address never changes; dropping it unmaps the memory.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    mapping: (NonNull<u8>, usize),
    pages: Pages,
}

// SAFETY: a region is plain memory that the value owns; it has no thread affinity.
unsafe impl Send for Region {}
// SAFETY: shared access returns a pointer only; code that dereferences it is responsible for races.
unsafe impl Sync for Region {}

impl Region {
    /// Maps at least `len` octets and allocates their memory now: in reserved huge pages if there are enough, else in
    /// transparent ones.
    ///
    /// # Errors
    /// If the system lacks memory. The error comes now, instead of a killed process later.
    pub fn new(len: usize) -> io::Result<Region> {
        let len = round(len)?;
        if let Ok(base) = map(len, MapFlags::PRIVATE | MapFlags::HUGETLB) {
            let region = Region { base, len, mapping: (base, len), pages: Pages::Huge };
            // A control group may refuse reserved pages.
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

    /// Does nothing: the heap of Miri is allocated already.
    #[cfg(miri)]
    fn populate(&self) -> io::Result<()> {
        Ok(())
    }

    /// Allocates the memory of all pages.
    #[cfg(not(miri))]
    fn populate(&self) -> io::Result<()> {
        // SAFETY: the range is the region's own; what the pages hold stays.
        match unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxPopulateWrite) } {
            // Kernels before 5.14 do not know the advice and allocate on first access.
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reserves address space for `len` octets. The kernel allocates memory on first access, in transparent huge pages
    /// if it has them.
    ///
    /// # Errors
    /// If the system lacks address space.
    pub fn reserve(len: usize) -> io::Result<Region> {
        Region::aligned(round(len)?, MapFlags::PRIVATE | MapFlags::NORESERVE)
    }

    /// Maps ordinary pages at a multiple of 2 MiB.
    fn aligned(len: usize, flags: MapFlags) -> io::Result<Region> {
        let mapped = len.checked_add(HUGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let start = map(mapped, flags)?;
        let skip = start.as_ptr().align_offset(HUGE);
        // SAFETY: skip < HUGE, and the mapping is HUGE longer than len.
        let base = unsafe { start.add(skip) };
        #[cfg(not(miri))]
        // SAFETY: the range lies inside the mapping. A kernel without huge pages may refuse the advice.
        let _ = unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxHugepage) };
        Ok(Region { base, len, mapping: (start, mapped), pages: Pages::Transparent })
    }

    /// Returns the first octet, aligned to 2 MiB.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the length in octets, a multiple of 2 MiB.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `false`: a region has at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns the kind of the pages.
    pub fn pages(&self) -> Pages {
        self.pages
    }
}

#[cfg(not(miri))]
fn map(len: usize, flags: MapFlags) -> io::Result<NonNull<u8>> {
    // SAFETY: a new anonymous mapping at an address that the kernel chooses aliases nothing.
    let address =
        unsafe { mm::mmap_anonymous(std::ptr::null_mut(), len, mm::ProtFlags::READ | mm::ProtFlags::WRITE, flags)? };
    NonNull::new(address.cast::<u8>()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// # Safety
/// The arguments describe a mapping that `map` returned and that is no longer in use.
#[cfg(not(miri))]
unsafe fn unmap(address: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { mm::munmap(address.as_ptr().cast(), len) };
}

// Miri has no mmap: its regions come from the heap.
#[cfg(miri)]
use std::alloc::{Layout, alloc_zeroed, dealloc};

#[cfg(miri)]
fn map(len: usize, _: MapFlags) -> io::Result<NonNull<u8>> {
    // Miri aborts if memory runs out.
    if len > 1 << 32 {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let layout = Layout::from_size_align(len, HUGE).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: no mapping is empty.
    NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// # Safety
/// The arguments describe a mapping that `map` returned and that is no longer in use.
#[cfg(miri)]
unsafe fn unmap(address: NonNull<u8>, len: usize) {
    let layout = Layout::from_size_align(len, HUGE).expect("it was mapped with this layout");
    // SAFETY: the caller's promise.
    unsafe { dealloc(address.as_ptr(), layout) }
}

/// Returns the octets of memory that the kernel can allocate without swapping (`MemAvailable`). `None` under Miri,
/// which cannot read the file.
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
        // SAFETY: the arguments are those of the mapping, and only this drop unmaps it. The owner of the region is
        // responsible for pointers into it.
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
        // Far more than other processes may free meanwhile.
        assert!(Region::new(available().unwrap() + (1 << 44)).is_err());
        assert!(Region::reserve(1 << 60).is_err());
    }
}
