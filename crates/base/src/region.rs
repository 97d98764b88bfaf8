//! Anonymous memory, in huge pages if the kernel has them.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::MapFlags;
#[cfg(not(miri))]
use rustix::mm::{self, Advice, madvise};

const HUGE: usize = 2 << 20;
const PAGE: usize = 4096;

/// The octets of memory that the kernel could allocate at the last look, less those taken by [`Region::split`] since.
static AVAILABLE: AtomicUsize = AtomicUsize::new(usize::MAX);

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
    /// The memory of all pages was allocated with the region.
    is_whole: bool,
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
            let region = Region { base, len, mapping: (base, len), pages: Pages::Huge, is_whole: true };
            // A control group may refuse reserved pages.
            if region.populate().is_ok() {
                return Ok(region);
            }
        }
        if available().is_some_and(|available| len > available) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let mut region = Region::aligned(len, MapFlags::PRIVATE)?;
        region.advise_huge();
        region.populate()?;
        region.is_whole = true;
        Ok(region)
    }

    /// Takes the first `len` octets, rounded up, of a region that was reserved. Their memory is to be allocated by
    /// [`Region::allocate`], part by part: in ordinary pages, as to find a huge one takes the kernel some milliseconds.
    ///
    /// # Errors
    /// If the system lacked memory at the last look, or the region is shorter.
    pub fn split(space: &mut Option<Region>, len: usize) -> io::Result<Region> {
        let len = round(len)?;
        take_available(len)?;
        if cfg!(miri) {
            // A part of the heap's memory cannot be freed alone.
            return Region::aligned(len, MapFlags::PRIVATE);
        }
        let all = space.take().filter(|all| all.len >= len).ok_or(io::ErrorKind::OutOfMemory)?;
        let all = std::mem::ManuallyDrop::new(all);
        let (start, mapped) = all.mapping;
        // SAFETY: `len` is within the region.
        let end = unsafe { all.base.add(len) };
        let own = end.as_ptr() as usize - start.as_ptr() as usize;
        if mapped > own {
            *space = Some(Region {
                base: end,
                len: all.len - len,
                mapping: (end, mapped - own),
                pages: all.pages,
                is_whole: false,
            });
        }
        Ok(Region { base: all.base, len, mapping: (start, own), pages: all.pages, is_whole: false })
    }

    /// Allocates the memory of some octets. Does nothing if the memory of all pages was allocated with the region.
    ///
    /// # Errors
    /// If the system lacks memory.
    ///
    /// # Panics
    /// If the range is not the region's.
    pub fn allocate(&self, octets: Range<usize>) -> io::Result<()> {
        if self.is_whole {
            return Ok(());
        }
        assert!(octets.start <= octets.end && octets.end <= self.len, "octets of another region");
        let first = octets.start & !(PAGE - 1);
        self.populate_part(first, octets.end.next_multiple_of(PAGE) - first)
    }

    /// Returns whether the memory of all pages was allocated with the region.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Allocates the memory of all pages.
    fn populate(&self) -> io::Result<()> {
        self.populate_part(0, self.len)
    }

    /// Does nothing: the heap of Miri is allocated already.
    #[cfg(miri)]
    fn populate_part(&self, _: usize, _: usize) -> io::Result<()> {
        Ok(())
    }

    /// Allocates the memory of pages of the region.
    #[cfg(not(miri))]
    fn populate_part(&self, first: usize, len: usize) -> io::Result<()> {
        // SAFETY: the range is the region's own; what the pages hold stays.
        match unsafe { madvise(self.base.as_ptr().wrapping_add(first).cast(), len, Advice::LinuxPopulateWrite) } {
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
        let region = Region::aligned(round(len)?, MapFlags::PRIVATE | MapFlags::NORESERVE)?;
        region.advise_huge();
        Ok(region)
    }

    /// Reserves address space for [`Region::split`].
    ///
    /// # Errors
    /// If the system lacks address space.
    pub fn space(len: usize) -> io::Result<Region> {
        let region = Region::aligned(round(len)?, MapFlags::PRIVATE | MapFlags::NORESERVE)?;
        #[cfg(not(miri))]
        // SAFETY: the range lies inside the mapping. A kernel without huge pages may refuse the advice.
        let _ = unsafe { madvise(region.base.as_ptr().cast(), region.len, Advice::LinuxNoHugepage) };
        Ok(region)
    }

    /// Advises the kernel to use huge pages.
    fn advise_huge(&self) {
        #[cfg(not(miri))]
        // SAFETY: the range lies inside the mapping. A kernel without huge pages may refuse the advice.
        let _ = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxHugepage) };
    }

    /// Maps ordinary pages at a multiple of 2 MiB.
    fn aligned(len: usize, flags: MapFlags) -> io::Result<Region> {
        let mapped = len.checked_add(HUGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let start = map(mapped, flags)?;
        let skip = start.as_ptr().align_offset(HUGE);
        // SAFETY: skip < HUGE, and the mapping is HUGE longer than len.
        let base = unsafe { start.add(skip) };
        Ok(Region { base, len, mapping: (start, mapped), pages: Pages::Transparent, is_whole: cfg!(miri) })
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
    let available = line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)?;
    AVAILABLE.store(available, Ordering::Relaxed);
    Some(available)
}

/// Takes octets of the memory that was available at the last look. A look takes too long for a thread that forwards packets, so
/// there is one here only if there was none before.
fn take_available(len: usize) -> io::Result<()> {
    if AVAILABLE.load(Ordering::Relaxed) == usize::MAX {
        available();
    }
    let less = |available: usize| if available == usize::MAX { Some(available) } else { available.checked_sub(len) };
    let taken = AVAILABLE.try_update(Ordering::Relaxed, Ordering::Relaxed, less);
    taken.map(drop).map_err(|_| io::ErrorKind::OutOfMemory.into())
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
    fn parts_of_reserved_space_are_regions_of_their_own() {
        let mut space = Some(Region::space(6 << 20).unwrap());
        let whole = space.as_ref().unwrap().base();
        let parts: Vec<Region> = (0..2).map(|_| Region::split(&mut space, 1 << 20).unwrap()).collect();
        if !cfg!(miri) {
            let at = |region: &Region| region.base().as_ptr() as usize - whole.as_ptr() as usize;
            assert_eq!([at(&parts[0]), at(&parts[1])], [0, 2 << 20]);
            assert_eq!(space.as_ref().map(Region::len), Some(2 << 20));
        }
        for part in &parts {
            assert_eq!(part.len(), 2 << 20);
            part.allocate(5000..9000).unwrap();
            part.allocate(0..2 << 20).unwrap();
            // SAFETY: the last octet of the part, which nothing else refers to.
            unsafe { part.base().add((2 << 20) - 1).write(7) };
        }
        // Each is unmapped by itself.
        drop(space.take());
        drop(parts);
        assert!(cfg!(miri) || Region::split(&mut space, 1).is_err());
    }

    #[test]
    fn no_room_is_an_error() {
        assert!(Region::new(usize::MAX - 5).is_err());
        // Far more than other processes may free meanwhile.
        assert!(Region::new(available().unwrap() + (1 << 44)).is_err());
        assert!(Region::reserve(1 << 60).is_err());
    }
}
