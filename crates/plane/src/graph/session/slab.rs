//! Sessions by number, in chunks, so that growing moves none of them.

use weir_base::prefetch;

/// Sessions of a chunk.
const CHUNK: usize = 256;

/// Numbered places for values. A place that becomes vacant is used again after [`Slab::recycle`] only.
pub(super) struct Slab<T> {
    chunks: Vec<Box<[Option<T>]>>,
    free: Vec<u32>,
    /// Vacant places that packets of the vector may still name.
    vacated: Vec<u32>,
    /// Places from this one on were never used.
    fresh: u32,
    len: usize,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { chunks: Vec::new(), free: Vec::new(), vacated: Vec::new(), fresh: 0, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Places that were ever used.
    pub(super) fn extent(&self) -> u32 {
        self.fresh
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<Option<T>>()
            + (self.free.capacity() + self.vacated.capacity()) * size_of::<u32>()
    }

    /// Allocates memory for so many values more, at most a chunk at a time; gives whether it is there.
    pub(super) fn prepare(&mut self, more: usize) -> bool {
        let vacant = |slab: &Self| slab.free.len() + slab.chunks.len() * CHUNK - slab.fresh as usize;
        if vacant(self) < more {
            self.chunks.push((0..CHUNK).map(|_| None).collect());
            // Each place is in one of the lists at most.
            self.free.reserve(self.chunks.len() * CHUNK - self.free.len());
        }
        // Each packet of a vector ends two sessions at most, and one of its own ends after it.
        self.vacated.reserve(4 * CHUNK);
        vacant(self) >= more
    }

    /// Puts a value into a place; `None` if memory for it was not prepared.
    pub(super) fn insert(&mut self, value: T) -> Option<u32> {
        let number = self.free.pop().unwrap_or(self.fresh);
        let place = self.chunks.get_mut(number as usize / CHUNK)?.get_mut(number as usize % CHUNK)?;
        if number == self.fresh {
            self.fresh += 1;
        }
        *place = Some(value);
        self.len += 1;
        Some(number)
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.chunks.get(number as usize / CHUNK)?.get(number as usize % CHUNK)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.chunks.get_mut(number as usize / CHUNK)?.get_mut(number as usize % CHUNK)?.as_mut()
    }

    /// Fetches the cache lines of a place that have these octets.
    #[inline]
    pub(super) fn prefetch<const N: usize>(&self, number: u32, octets: [usize; N]) {
        let place = self.chunks.get(number as usize / CHUNK).and_then(|chunk| chunk.get(number as usize % CHUNK));
        let Some(place) = place else { return };
        let first = std::ptr::from_ref(place).cast::<u8>();
        octets.into_iter().for_each(|octet| prefetch::read(first.wrapping_add(octet)));
    }

    /// Takes a value out.
    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.chunks.get_mut(number as usize / CHUNK)?.get_mut(number as usize % CHUNK)?.take()?;
        self.vacated.push(number);
        self.len -= 1;
        Some(value)
    }

    /// No packet names a vacant place any more.
    pub(super) fn recycle(&mut self) {
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
            let (mut slab, mut map) = (Slab::new(), HashMap::new());
            for (value, (step, number)) in steps.into_iter().enumerate() {
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
                prop_assert_eq!(slab.get(number), map.get(&number));
            }
        }
    }
}
