//! Prefixes in order, with their nesting.
//!
//! The order is that of addresses, then of lengths: the prefixes inside another follow it. They lie in *chunks* of up
//! to [`CHUNK`], as arrays of addresses, lengths and values, and of the length of the longest prefix that covers each,
//! except for the default prefix. The covering prefix of a prefix that is not in the forest follows from the previous
//! one: each prefix that covers the former covers, or is, the latter.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lpm::{Key, Prefix};

/// Largest number of prefixes of a chunk: the list of chunks stays short, and an insertion cheap.
const CHUNK: usize = 128;

/// Number of prefixes of a chunk that was filled in order, with room for later changes.
const FILL: usize = 96;

struct Chunk<K, V> {
    addresses: Vec<K>,
    lens: Vec<u8>,
    /// Length of the longest covering prefix of each; 0: none, or the default prefix.
    arounds: Vec<u8>,
    values: Vec<V>,
}

impl<K: Key, V> Chunk<K, V> {
    fn new() -> Self {
        Chunk {
            addresses: Vec::with_capacity(CHUNK),
            lens: Vec::with_capacity(CHUNK),
            arounds: Vec::with_capacity(CHUNK),
            values: Vec::with_capacity(CHUNK),
        }
    }

    fn len(&self) -> usize {
        self.lens.len()
    }

    fn prefix(&self, slot: usize) -> Prefix<K> {
        Prefix::new(self.addresses[slot], self.lens[slot]).expect("it was one")
    }

    /// Returns how many of the prefixes come before another.
    fn before(&self, prefix: &Prefix<K>) -> usize {
        let (address, len) = (prefix.address(), prefix.len());
        let mut slot = self.addresses.partition_point(|&other| other < address);
        while slot < self.len() && self.addresses[slot] == address && self.lens[slot] < len {
            slot += 1;
        }
        slot
    }

    fn insert(&mut self, slot: usize, prefix: Prefix<K>, around: u8, value: V) {
        self.addresses.insert(slot, prefix.address());
        self.lens.insert(slot, prefix.len());
        self.arounds.insert(slot, around);
        self.values.insert(slot, value);
    }

    fn remove(&mut self, slot: usize) -> V {
        self.addresses.remove(slot);
        self.lens.remove(slot);
        self.arounds.remove(slot);
        self.values.remove(slot)
    }

    fn split_off(&mut self, slot: usize) -> Self {
        let mut rest = Chunk::new();
        rest.addresses.extend(self.addresses.drain(slot..));
        rest.lens.extend(self.lens.drain(slot..));
        rest.arounds.extend(self.arounds.drain(slot..));
        rest.values.extend(self.values.drain(slot..));
        rest
    }
}

/// A position in a forest: of a prefix, or of its insertion. Valid until the next insertion or removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    chunk: usize,
    slot: usize,
}

/// See the [module](self).
pub(super) struct Forest<K, V> {
    /// Chunks; none is empty.
    chunks: Vec<Chunk<K, V>>,
    /// First prefix of each chunk.
    firsts: Vec<Prefix<K>>,
    len: usize,
    /// The chunk that was found last: consecutive searches are often adjacent.
    recent: AtomicUsize,
}

impl<K: Key, V> Forest<K, V> {
    pub(super) fn new() -> Self {
        Forest { chunks: Vec::new(), firsts: Vec::new(), len: 0, recent: AtomicUsize::new(0) }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn octets(&self) -> usize {
        let chunk = CHUNK * (size_of::<K>() + 2 + size_of::<V>()) + size_of::<Chunk<K, V>>() + size_of::<Prefix<K>>();
        self.chunks.len() * chunk
    }

    /// Returns the position of a prefix, or as an error that of its insertion.
    pub(super) fn find(&self, prefix: &Prefix<K>) -> Result<Place, Place> {
        let Some(chunk) = self.chunk(prefix) else { return Err(Place { chunk: 0, slot: 0 }) };
        let here = &self.chunks[chunk];
        let slot = here.before(prefix);
        let place = Place { chunk, slot };
        if slot < here.len() && here.lens[slot] == prefix.len() && here.addresses[slot] == prefix.address() {
            Ok(place)
        } else {
            Err(place)
        }
    }

    /// Returns the last chunk that does not begin after a prefix.
    fn chunk(&self, prefix: &Prefix<K>) -> Option<usize> {
        let recent = self.recent.load(Ordering::Relaxed).min(self.firsts.len());
        let (before, from) = self.firsts.split_at(recent);
        let after = if from.first().is_some_and(|first| first <= prefix) {
            // The step doubles, then halves.
            let mut step = 1;
            while from.get(step).is_some_and(|first| first <= prefix) {
                step *= 2;
            }
            recent + step / 2 + from[step / 2..from.len().min(step)].partition_point(|first| first <= prefix)
        } else {
            before.partition_point(|first| first <= prefix)
        };
        let chunk = after.checked_sub(1)?;
        self.recent.store(chunk, Ordering::Relaxed);
        Some(chunk)
    }

    pub(super) fn prefix(&self, place: Place) -> Prefix<K> {
        self.chunks[place.chunk].prefix(place.slot)
    }

    pub(super) fn value(&self, place: Place) -> &V {
        &self.chunks[place.chunk].values[place.slot]
    }

    pub(super) fn value_mut(&mut self, place: Place) -> &mut V {
        &mut self.chunks[place.chunk].values[place.slot]
    }

    /// Returns all prefixes with their values, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Prefix<K>, &V)> {
        self.chunks.iter().flat_map(|chunk| (0..chunk.len()).map(|slot| (chunk.prefix(slot), &chunk.values[slot])))
    }

    /// Returns the longest prefix that covers the one at `place`.
    pub(super) fn around(&self, prefix: &Prefix<K>, place: Result<Place, Place>) -> Option<Place> {
        if prefix.len() == 0 {
            return None;
        }
        let len = match place {
            Ok(place) => self.chunks[place.chunk].arounds[place.slot],
            Err(place) => {
                let before = self.previous(place)?;
                let other = self.prefix(before);
                if other.contains(prefix.address()) {
                    return Some(before);
                }
                // Every prefix that covers `prefix` covers the previous one.
                let mut len = self.chunks[before.chunk].arounds[before.slot];
                while len > 0 && !other.shorten(len).contains(prefix.address()) {
                    let place = self.find(&other.shorten(len)).expect("it is around another");
                    len = self.chunks[place.chunk].arounds[place.slot];
                }
                len
            }
        };
        if len > 0 {
            return self.find(&prefix.shorten(len)).ok();
        }
        // Only the default prefix, which comes first, may be left.
        let default = self.firsts.first().is_some_and(|first| first.len() == 0);
        default.then_some(Place { chunk: 0, slot: 0 })
    }

    fn previous(&self, place: Place) -> Option<Place> {
        match place {
            Place { chunk: 0, slot: 0 } => None,
            Place { chunk, slot: 0 } => Some(Place { chunk: chunk - 1, slot: self.chunks[chunk - 1].len() - 1 }),
            Place { chunk, slot } => Some(Place { chunk, slot: slot - 1 }),
        }
    }

    /// Returns the position itself if it has a prefix, or that of the next one.
    fn settle(&self, place: Place) -> Option<Place> {
        match self.chunks.get(place.chunk) {
            Some(chunk) if place.slot < chunk.len() => Some(place),
            Some(_) if place.chunk + 1 < self.chunks.len() => Some(Place { chunk: place.chunk + 1, slot: 0 }),
            _ => None,
        }
    }

    /// Returns the first position after that of a prefix.
    pub(super) fn after(&self, place: Result<Place, Place>) -> Option<Place> {
        match place {
            Ok(Place { chunk, slot }) => self.settle(Place { chunk, slot: slot + 1 }),
            Err(place) => self.settle(place),
        }
    }

    /// Returns the first prefix that begins after an address.
    pub(super) fn beyond(&self, address: K) -> Option<Place> {
        let chunk = self.firsts.partition_point(|first| first.address() <= address).checked_sub(1);
        let Some(chunk) = chunk else { return self.settle(Place { chunk: 0, slot: 0 }) };
        let slot = self.chunks[chunk].addresses.partition_point(|&other| other <= address);
        self.settle(Place { chunk, slot })
    }

    /// Inserts a prefix at the position of [`Forest::find`]. Returns its position.
    pub(super) fn insert(&mut self, prefix: Prefix<K>, place: Place, value: V) -> Place {
        let around = self.around(&prefix, Err(place)).map_or(0, |around| self.prefix(around).len());
        let mut place = place;
        if self.chunks.is_empty() {
            self.chunks.push(Chunk::new());
            self.firsts.push(prefix);
        } else if self.chunks[place.chunk].len() == CHUNK {
            // Insertions in order leave room behind them.
            let at_end = place.slot == CHUNK && place.chunk + 1 == self.chunks.len();
            let middle = if at_end { FILL } else { CHUNK / 2 };
            let rest = self.chunks[place.chunk].split_off(middle);
            self.firsts.insert(place.chunk + 1, rest.prefix(0));
            self.chunks.insert(place.chunk + 1, rest);
            if place.slot > middle {
                place = Place { chunk: place.chunk + 1, slot: place.slot - middle };
            }
        }
        self.chunks[place.chunk].insert(place.slot, prefix, around, value);
        if place.slot == 0 {
            self.firsts[place.chunk] = prefix;
        }
        self.len += 1;
        self.adopt(&prefix, place, |around| around < prefix.len(), prefix.len());
        place
    }

    pub(super) fn remove(&mut self, place: Place) -> V {
        let prefix = self.prefix(place);
        let around = self.chunks[place.chunk].arounds[place.slot];
        self.adopt(&prefix, place, |len| len == prefix.len(), around);
        let chunk = &mut self.chunks[place.chunk];
        let value = chunk.remove(place.slot);
        self.len -= 1;
        if chunk.len() == 0 {
            self.chunks.remove(place.chunk);
            self.firsts.remove(place.chunk);
        } else {
            self.firsts[place.chunk] = chunk.prefix(0);
            self.join(place.chunk);
        }
        value
    }

    /// Joins a chunk with the next one if both together are half full.
    fn join(&mut self, chunk: usize) {
        let Some(next) = self.chunks.get(chunk + 1) else { return };
        if self.chunks[chunk].len() + next.len() > CHUNK / 2 {
            return;
        }
        let next = self.chunks.remove(chunk + 1);
        self.firsts.remove(chunk + 1);
        let here = &mut self.chunks[chunk];
        here.addresses.extend(next.addresses);
        here.lens.extend(next.lens);
        here.arounds.extend(next.arounds);
        here.values.extend(next.values);
    }

    /// Updates the covering length of the prefixes inside another that `which` selects by the length so far.
    fn adopt(&mut self, prefix: &Prefix<K>, place: Place, which: impl Fn(u8) -> bool, len: u8) {
        if prefix.len() == 0 {
            return;
        }
        let (last, mut from) = (prefix.last(), place.slot + 1);
        for chunk in &mut self.chunks[place.chunk..] {
            let end = from + chunk.addresses[from..].partition_point(|&address| address <= last);
            let inside: Range<usize> = from..end;
            chunk.arounds[inside].iter_mut().filter(|around| which(**around)).for_each(|around| *around = len);
            if end < chunk.len() {
                return;
            }
            from = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_base::random::Random;

    use super::*;
    use crate::lpm::sample::{Draw, inside_one};

    /// Compares a forest with a sorted map, and its covering prefixes with a search through all of them.
    fn is_a_map<K: Draw>(seed: u64) {
        let mut random = Random::from_seed(seed);
        let (mut forest, mut map) = (Forest::<K, u32>::new(), BTreeMap::new());
        let site = K::draw(&mut random);
        for step in 0..30_000u32 {
            let shared = random.below(u64::from(K::BITS)) as u8;
            let near =
                if random.chance(0.5) { site.splice(shared, K::draw(&mut random)) } else { K::draw(&mut random) };
            let len = random.below(u64::from(K::BITS) + 1) as u8;
            let known = map.range(Prefix::new(near, len).unwrap()..).next().map(|(prefix, _)| *prefix);
            let prefix = match known.filter(|_| random.chance(0.4)) {
                Some(known) => Prefix::new(inside_one(&known, &mut random), len.max(known.len())).unwrap(),
                None => Prefix::new(near, len).unwrap(),
            };
            // The forest grows and shrinks.
            let grow = if step % 20_000 < 10_000 { 0.7 } else { 0.2 };
            let target = known.filter(|_| !random.chance(grow));
            match target {
                Some(prefix) => {
                    let place = forest.find(&prefix).unwrap();
                    assert_eq!(Some(forest.remove(place)), map.remove(&prefix));
                }
                None => {
                    match forest.find(&prefix) {
                        Ok(place) => *forest.value_mut(place) = step,
                        Err(place) => {
                            let place = forest.insert(prefix, place, step);
                            assert_eq!((forest.prefix(place), *forest.value(place)), (prefix, step));
                        }
                    }
                    map.insert(prefix, step);
                }
            }
            assert_eq!(forest.len(), map.len());
            for prefix in [prefix, known.unwrap_or(prefix)] {
                let around = (0..prefix.len()).rev().map(|len| prefix.shorten(len)).find(|wide| map.contains_key(wide));
                let found = forest.around(&prefix, forest.find(&prefix));
                assert_eq!(found.map(|place| forest.prefix(place)), around, "{prefix}, step {step}");
                let next = map.range(prefix..).find(|(other, _)| **other != prefix).map(|(other, _)| *other);
                let found = forest.after(forest.find(&prefix));
                assert_eq!(found.map(|place| forest.prefix(place)), next);
                let beyond = map.range(prefix..).find(|(other, _)| other.address() > prefix.last());
                let found = forest.beyond(prefix.last());
                assert_eq!(found.map(|place| forest.prefix(place)), beyond.map(|(other, _)| *other));
            }
            if step % 1000 == 0 {
                assert!(forest.iter().eq(map.iter().map(|(prefix, step)| (*prefix, step))));
            }
        }
    }

    #[test]
    fn ipv4_is_a_map() {
        is_a_map::<u32>(1);
    }

    #[test]
    fn ipv6_is_a_map() {
        is_a_map::<u128>(2);
    }
}
