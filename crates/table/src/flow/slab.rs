//! Values by number, in regions, so that growing moves none of them.

use std::io;
use std::ptr::NonNull;

use weir_base::prefetch;
use weir_base::region::Region;
use weir_base::supply::Supply;

use super::table::VECTOR;

/// Octets of a region.
const OCTETS: usize = 2 << 20;
/// Octets that are allocated at a time, at least, where a region is not made ready ahead.
const PART: usize = 32 << 10;

/// Numbered slots for values. A slot that becomes vacant is used again after [`Slab::recycle`] only.
///
/// Regions are of 2 MiB, in huge pages if the kernel has them. A thread of its own makes the next one ready while one fills.
/// Where it is not ready in time, memory is allocated in parts.
pub struct Slab<T> {
    /// The first slot of each region.
    bases: Vec<NonNull<Option<T>>>,
    regions: Vec<Region>,
    supply: Supply,
    /// Slots from this one on have no memory yet.
    ready: usize,
    free: Vec<u32>,
    /// Vacant slots that packets of the vector may still name.
    vacated: Vec<u32>,
    /// Slots from this one on were never used. Those in front of it are initialised.
    fresh: u32,
    len: usize,
}

// SAFETY: `bases` point into regions that the value owns, which have no thread affinity; what lies in them is values.
unsafe impl<T: Send> Send for Slab<T> {}
// SAFETY: shared access reads only.
unsafe impl<T: Sync> Sync for Slab<T> {}

impl<T: Copy> Default for Slab<T> {
    fn default() -> Self {
        Slab::new()
    }
}

impl<T: Copy> Slab<T> {
    /// Slots of a region.
    const OF_REGION: usize = OCTETS / size_of::<Option<T>>();
    /// Slots that get memory at a time, at least.
    const PART: usize = PART / size_of::<Option<T>>();

    /// Creates a slab without memory.
    pub fn new() -> Slab<T> {
        const { assert!(align_of::<Option<T>>() <= 4096 && Self::OF_REGION > 0) };
        Slab {
            bases: Vec::new(),
            regions: Vec::new(),
            supply: Supply::new(),
            ready: 0,
            free: Vec::new(),
            vacated: Vec::new(),
            fresh: 0,
            len: 0,
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of slots that were ever used: numbers are below.
    pub fn extent(&self) -> u32 {
        self.fresh
    }

    /// Returns the octets of memory.
    pub fn octets(&self) -> usize {
        self.regions.iter().map(Region::len).sum::<usize>()
            + (self.free.capacity() + self.vacated.capacity()) * size_of::<u32>()
    }

    /// Slots of all regions.
    fn extent_of_regions(&self) -> usize {
        self.regions.len() * Self::OF_REGION
    }

    /// Slots that a value can be put into.
    fn vacant(&self) -> usize {
        self.free.len() + self.ready - self.fresh as usize
    }

    /// Allocates memory for so many values more; returns whether it is there.
    pub fn prepare(&mut self, more: usize) -> bool {
        while self.vacant() < more && self.extend(more - self.vacant()).is_ok() {}
        // The next region is made ready while this one fills.
        if self.vacant() + self.extent_of_regions() - self.ready < Self::OF_REGION / 2 {
            self.supply.order(OCTETS);
        }
        // Each packet of a vector ends two sessions at most, and one of its own ends after it.
        self.vacated.reserve(4 * VECTOR);
        self.vacant() >= more
    }

    /// Allocates memory for so many slots, or for those left of the last region.
    fn extend(&mut self, more: usize) -> io::Result<()> {
        if self.ready == self.extent_of_regions() {
            let region = self.supply.take(OCTETS)?;
            self.bases.push(region.base().cast());
            self.regions.push(region);
            // Each slot is in one of the lists at most.
            self.free.reserve(self.extent_of_regions() - self.free.len());
        }
        let Some(region) = self.regions.last() else { return Ok(()) };
        let (first, most) = (self.ready % Self::OF_REGION, Self::OF_REGION);
        let last = if region.is_whole() { most } else { (first + more.max(Self::PART)).min(most) };
        let octets = size_of::<Option<T>>();
        region.allocate(first * octets..last * octets)?;
        self.ready += last - first;
        Ok(())
    }

    /// Puts a value into a slot; returns its number, or `None` if memory for it was not prepared.
    #[inline]
    pub fn insert(&mut self, value: T) -> Option<u32> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if (self.fresh as usize) < self.ready => {
                let number = self.fresh;
                // SAFETY: the slot lies in a region, and nobody refers to a slot from `fresh` on.
                unsafe { self.slot(number).write(None) };
                self.fresh += 1;
                number
            }
            None => return None,
        };
        *self.place_mut(number)? = Some(value);
        self.len += 1;
        Some(number)
    }

    /// Returns the value of a slot.
    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&T> {
        if number >= self.fresh {
            return None;
        }
        // SAFETY: the slot is initialised.
        unsafe { self.slot(number).as_ref() }.as_ref()
    }

    /// Returns a slot, which may be vacant, and reads nothing of it.
    #[inline(always)]
    pub fn slot_of(&self, number: u32) -> Option<&Option<T>> {
        // SAFETY: the slot is initialised.
        (number < self.fresh).then(|| unsafe { self.slot(number).as_ref() })
    }

    /// Returns the value of a slot, to be changed.
    #[inline(always)]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.place_mut(number)?.as_mut()
    }

    #[inline(always)]
    fn place_mut(&mut self, number: u32) -> Option<&mut Option<T>> {
        // SAFETY: the slot is initialised; `&mut self` makes the access exclusive.
        (number < self.fresh).then(|| unsafe { self.slot(number).as_mut() })
    }

    /// # Safety
    /// The number is below `ready`.
    #[inline(always)]
    unsafe fn slot(&self, number: u32) -> NonNull<Option<T>> {
        let (region, slot) = (number as usize / Self::OF_REGION, number as usize % Self::OF_REGION);
        // SAFETY: there are regions for all slots that are ready, and each has OF_REGION slots.
        unsafe { self.bases.get_unchecked(region).add(slot) }
    }

    /// Fetches the cache lines of a slot that have these octets.
    #[inline(always)]
    pub fn prefetch<const N: usize>(&self, number: u32, octets: [usize; N]) {
        if number >= self.fresh {
            return;
        }
        // SAFETY: the slot is initialised.
        let first = unsafe { self.slot(number) }.as_ptr().cast::<u8>();
        octets.into_iter().for_each(|octet| prefetch::read(first.wrapping_add(octet)));
    }

    /// Fetches the slot that a value gets for which `before` others are inserted first.
    #[inline]
    pub fn fetch_vacant(&self, before: usize) {
        let number = match self.free.len().checked_sub(before + 1) {
            Some(at) => self.free[at] as usize,
            None => self.fresh as usize + before - self.free.len(),
        };
        if number < self.ready {
            // SAFETY: the number is below `ready`. The slot is not read.
            let first = unsafe { self.slot(number as u32) }.as_ptr().cast::<u8>();
            (0..size_of::<Option<T>>()).step_by(64).for_each(|octet| prefetch::read(first.wrapping_add(octet)));
        }
    }

    /// Takes a value out.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.place_mut(number)?.take()?;
        self.vacated.push(number);
        self.len -= 1;
        Some(value)
    }

    /// Lets vacant slots be used again: no packet names them any more.
    pub fn recycle(&mut self) {
        self.free.append(&mut self.vacated);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn vacant_places_are_used_again_after_the_vector() {
        let mut slab = Slab::new();
        assert_eq!(slab.insert('a'), None);
        assert!(slab.prepare(2));
        let (first, second) = (slab.insert('a').unwrap(), slab.insert('b').unwrap());
        assert_eq!(slab.remove(first), Some('a'));
        let third = slab.insert('c').unwrap();
        assert!(third != first && third != second);
        slab.recycle();
        assert_eq!((slab.insert('d'), slab.len()), (Some(first), 3));
    }

    proptest! {
        #[test]
        fn a_slab_is_a_map(steps in prop::collection::vec((0..4u8, 0..600u32), 0..2000)) {
            // A region has few of these.
            let (mut slab, mut map) = (Slab::new(), HashMap::new());
            for (value, (step, number)) in steps.into_iter().enumerate() {
                let value = [value; 1024];
                match step {
                    0 | 1 => {
                        while !slab.prepare(1) {}
                        let number = slab.insert(value).unwrap();
                        prop_assert_eq!(map.insert(number, value), None);
                    }
                    2 => prop_assert_eq!(slab.remove(number), map.remove(&number)),
                    _ => slab.recycle(),
                }
                prop_assert_eq!(slab.len(), map.len());
                prop_assert!(slab.len() <= slab.extent() as usize);
                prop_assert_eq!(slab.get(number), map.get(&number));
                prop_assert_eq!(slab.slot_of(number).is_some(), number < slab.extent());
                prop_assert_eq!(slab.slot_of(number).and_then(Option::as_ref), map.get(&number));
            }
        }
    }
}
