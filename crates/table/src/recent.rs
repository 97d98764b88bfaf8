//! A cache of answers by flow, of a fixed size: an entry for each place, and a new entry overwrites the one in its place. One
//! thread owns it.
//!
//! Each entry carries the version of the rules that gave its answer. For an entry of another version, the caller finds out whether a
//! change since concerns it. If none does, it writes the same answer with the new version. Else the entry is stale: the caller looks the
//! rules up again and writes the new answer into the same place. So changes flush nothing.
//!
//! The memory is zeroed when the cache is made, which takes no physical memory where the system maps zeroed pages lazily.

use std::alloc::{Layout, alloc_zeroed};

use crate::flow::{Key, Secret};

/// Entries, for a cache.
pub type Entries<K> = Vec<(K, u64)>;

/// A key of a cache, which memory of zeros holds.
///
/// # Safety
/// Zeros are a value of the type.
pub unsafe trait Zeroed: Copy {}

// SAFETY: zeros are a value of each integer.
unsafe impl<const WORDS: usize> Zeroed for [u64; WORDS] {}

/// The system has no memory for a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system refuses {octets} bytes of memory for a cache: lower its `flows`")]
pub struct Refused {
    /// The octets of the cache.
    pub octets: u64,
}

/// Returns the places of a cache with room for so many flows: four for each, rounded up to a power of two.
pub fn places(flows: u32) -> u64 {
    (u64::from(flows.max(1)) * 4).next_power_of_two()
}

/// Returns the octets of a cache with room for so many flows.
pub fn octets<K>(flows: u32) -> u64 {
    places(flows).saturating_mul(size_of::<(K, u64)>() as u64)
}

/// Makes the empty entries of a cache with room for so many flows.
///
/// # Errors
/// When the system has no memory for them.
pub fn entries<K: Zeroed>(flows: u32) -> Result<Entries<K>, Refused> {
    let refused = Refused { octets: octets::<K>(flows) };
    let places = usize::try_from(places(flows)).map_err(|_| refused)?;
    let layout = Layout::array::<(K, u64)>(places).map_err(|_| refused)?;
    // SAFETY: there are four places at least, each of eight octets or more.
    let memory = unsafe { alloc_zeroed(layout) }.cast::<(K, u64)>();
    if memory.is_null() {
        return Err(refused);
    }
    // SAFETY: the global allocator gave this memory for an array of so many entries, and zeros are values of both parts of an entry.
    Ok(unsafe { Vec::from_raw_parts(memory, places, places) })
}

/// A cache.
pub struct Recent<K> {
    entries: Entries<K>,
    secret: Secret,
}

/// The entry in the place of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It is of the key and of the version: this is its answer.
    Hit(u32),
    /// It is of the key, and of another version.
    Other {
        /// Its version.
        version: u32,
        /// Its answer then.
        answer: u32,
    },
    /// There is none, or one of another key.
    Miss,
}

/// The entry that a new one replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// Nothing.
    Nothing,
    /// An entry of the same key.
    Same,
    /// An entry of another key.
    Other,
}

impl<K: Key> Recent<K> {
    /// A cache with these entries, which are empty.
    ///
    /// # Panics
    /// If their number is no power of two.
    pub fn new(entries: Entries<K>, secret: Secret) -> Recent<K> {
        assert!(entries.len().is_power_of_two(), "places of a cache: {}", entries.len());
        Recent { entries, secret }
    }

    /// Gives the entries back.
    pub fn into_entries(self) -> Entries<K> {
        self.entries
    }

    /// The number of places.
    pub fn places(&self) -> usize {
        self.entries.len()
    }

    /// The place of a key.
    #[inline(always)]
    pub fn place(&self, key: &K) -> usize {
        key.hash(&self.secret) as usize & (self.entries.len() - 1)
    }

    /// Fetches a place into the cache of the CPU.
    #[inline(always)]
    pub fn prefetch(&self, place: usize) {
        if let Some(entry) = self.entries.get(place) {
            weir_base::prefetch::read(entry);
        }
    }

    /// Looks at the entry in the place of a key. `version` is not 0.
    #[inline(always)]
    pub fn at(&self, place: usize, key: &K, version: u32) -> Found {
        match self.entries.get(place) {
            Some((own, word)) if own == key && *word != 0 => match (*word >> 32) as u32 {
                of if of == version => Found::Hit(*word as u32),
                of => Found::Other { version: of, answer: *word as u32 },
            },
            _ => Found::Miss,
        }
    }

    /// Writes an answer into the place of a key. `version` is not 0.
    #[inline]
    pub fn put(&mut self, place: usize, key: K, version: u32, answer: u32) -> Replaced {
        let Some(entry) = self.entries.get_mut(place) else { return Replaced::Same };
        let replaced = match *entry {
            (_, 0) => Replaced::Nothing,
            (own, _) if own == key => Replaced::Same,
            _ => Replaced::Other,
        };
        *entry = (key, u64::from(version) << 32 | u64::from(answer));
        replaced
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use weir_base::random::Random;

    use super::*;

    #[test]
    fn answers_come_back_until_they_are_stale_or_overwritten() {
        let mut random = Random::from_seed(5);
        let mut cache = Recent::new(entries::<[u64; 2]>(4).unwrap(), Secret::new([1, 2, 3, 4]));
        assert_eq!(cache.places(), 16);
        // By place: key, version and answer.
        let mut naive: HashMap<usize, ([u64; 2], u32, u32)> = HashMap::new();
        for _ in 0..100_000 {
            let (key, version) = ([random.below(40), 7], 1 + random.below(3) as u32);
            let place = cache.place(&key);
            let expected = match naive.get(&place) {
                Some(&(own, of, answer)) if own == key && of == version => Found::Hit(answer),
                Some(&(own, version, answer)) if own == key => Found::Other { version, answer },
                _ => Found::Miss,
            };
            assert_eq!(cache.at(place, &key, version), expected);
            if random.chance(0.5) {
                let answer = if random.chance(0.1) { u32::MAX } else { random.below(9) as u32 };
                let replaced = match naive.insert(place, (key, version, answer)) {
                    None => Replaced::Nothing,
                    Some((own, ..)) if own == key => Replaced::Same,
                    Some(_) => Replaced::Other,
                };
                assert_eq!(cache.put(place, key, version, answer), replaced);
            }
        }
    }

    #[test]
    fn there_are_four_places_for_each_flow() {
        assert_eq!(entries::<[u64; 5]>(1).unwrap().len(), 4);
        assert_eq!(entries::<[u64; 2]>(0).unwrap().len(), 4);
        let all = entries::<[u64; 2]>(1000).unwrap();
        assert_eq!((all.len(), octets::<[u64; 2]>(1000)), (4096, 4096 * 24));
        assert!(all.iter().all(|entry| *entry == ([0, 0], 0)));
    }
}
