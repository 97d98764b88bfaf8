//! A cache of answers by flow, of a fixed size: an entry for each place, and a new entry overwrites the one in its place. One
//! thread owns it.
//!
//! Each entry carries the version of the rules that gave its answer. An entry of another version is stale: the caller looks
//! the rules up again and writes the new answer into the same place. So changes flush nothing.
//!
//! The memory is zeroed when the cache is made, which takes no physical memory where the system maps zeroed pages lazily.

use crate::flow::{Key, Secret};

/// Entries, for a cache.
pub type Entries<K> = Vec<(K, u64)>;

/// Makes the empty entries of a cache with room for so many flows: four places for each, rounded up to a power of two.
pub fn entries<K: Key>(flows: u32) -> Entries<K> {
    let places = (flows.max(1) as usize).saturating_mul(4).next_power_of_two();
    vec![(K::default(), 0); places]
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
    Stale,
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
            Some((own, word)) if own == key && *word != 0 => match (*word >> 32) as u32 == version {
                true => Found::Hit(*word as u32),
                false => Found::Stale,
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
        let mut cache = Recent::new(entries::<[u64; 2]>(4), Secret::new([1, 2, 3, 4]));
        assert_eq!(cache.places(), 16);
        // By place: key, version and answer.
        let mut naive: HashMap<usize, ([u64; 2], u32, u32)> = HashMap::new();
        for _ in 0..100_000 {
            let (key, version) = ([random.below(40), 7], 1 + random.below(3) as u32);
            let place = cache.place(&key);
            let expected = match naive.get(&place) {
                Some(&(own, of, answer)) if own == key && of == version => Found::Hit(answer),
                Some(&(own, ..)) if own == key => Found::Stale,
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
        assert_eq!(entries::<[u64; 5]>(1).len(), 4);
        assert_eq!(entries::<[u64; 2]>(1000).len(), 4096);
        assert_eq!(entries::<[u64; 2]>(0).len(), 4);
    }
}
