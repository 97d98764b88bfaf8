//! Prefixes in their order, with the knowledge of what lies inside of what.
//!
//! The order is that of addresses, and of lengths among equal ones: so the prefixes inside of one follow it. They lie in
//! *chunks* of up to [`CHUNK`], as arrays of addresses, of lengths and of values; beside each prefix stands the length of
//! the longest prefix around it, the default prefix aside. What is around a prefix that is not there follows from the one
//! before it: whatever is around the former is, or is around, the latter.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lpm::{Key, Prefix};

/// Prefixes in a chunk at most: so many that the list of chunks is short, and so few that it costs little to make room.
const CHUNK: usize = 128;

/// Prefixes in a chunk that was filled in order: the next changes find room.
const FILL: usize = 96;

struct Chunk<K, V> {
    addresses: Vec<K>,
    lens: Vec<u8>,
    /// The length of the longest prefix around each; 0: none, or the default prefix.
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

    /// How many of the prefixes come before another.
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

/// A place in a forest: where a prefix is, or where it would be. Good until the next insertion or removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    chunk: usize,
    slot: usize,
}

/// See the [module](self).
pub(super) struct Forest<K, V> {
    /// None is empty.
    chunks: Vec<Chunk<K, V>>,
    /// The first prefix of each chunk.
    firsts: Vec<Prefix<K>>,
    len: usize,
    /// The chunk that was found last: prefixes that are looked for one after another often lie side by side.
    recent: AtomicUsize,
}

impl<K: Key, V> Forest<K, V> {
    pub(super) fn new() -> Self {
        Forest { chunks: Vec::new(), firsts: Vec::new(), len: 0, recent: AtomicUsize::new(0) }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Octets of memory, about.
    pub(super) fn octets(&self) -> usize {
        let chunk = CHUNK * (size_of::<K>() + 2 + size_of::<V>()) + size_of::<Chunk<K, V>>() + size_of::<Prefix<K>>();
        self.chunks.len() * chunk
    }

    /// Where a prefix is, or else where it would be.
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

    /// The last chunk that does not begin after a prefix.
    fn chunk(&self, prefix: &Prefix<K>) -> Option<usize> {
        let recent = self.recent.load(Ordering::Relaxed).min(self.firsts.len());
        let (before, from) = self.firsts.split_at(recent);
        let after = if from.first().is_some_and(|first| first <= prefix) {
            // Steps that double, then halve.
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

    /// All prefixes, with what stands there, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Prefix<K>, &V)> {
        self.chunks.iter().flat_map(|chunk| (0..chunk.len()).map(|slot| (chunk.prefix(slot), &chunk.values[slot])))
    }

    /// The longest prefix around one that is, or would be, at `place`.
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
                // None is around `prefix` that is not around the one before it.
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
        // There is no other than, perhaps, the default prefix; which comes before all others.
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

    /// The place itself, if there is a prefix, or that of the next one.
    fn settle(&self, place: Place) -> Option<Place> {
        match self.chunks.get(place.chunk) {
            Some(chunk) if place.slot < chunk.len() => Some(place),
            Some(_) if place.chunk + 1 < self.chunks.len() => Some(Place { chunk: place.chunk + 1, slot: 0 }),
            _ => None,
        }
    }

    /// The first place after a prefix's own.
    pub(super) fn after(&self, place: Result<Place, Place>) -> Option<Place> {
        match place {
            Ok(Place { chunk, slot }) => self.settle(Place { chunk, slot: slot + 1 }),
            Err(place) => self.settle(place),
        }
    }

    /// The first prefix that begins after an address.
    pub(super) fn beyond(&self, address: K) -> Option<Place> {
        let chunk = self.firsts.partition_point(|first| first.address() <= address).checked_sub(1);
        let Some(chunk) = chunk else { return self.settle(Place { chunk: 0, slot: 0 }) };
        let slot = self.chunks[chunk].addresses.partition_point(|&other| other <= address);
        self.settle(Place { chunk, slot })
    }

    /// Puts a prefix where [`Forest::find`] says that it would be; gives its place.
    pub(super) fn insert(&mut self, prefix: Prefix<K>, place: Place, value: V) -> Place {
        let around = self.around(&prefix, Err(place)).map_or(0, |around| self.prefix(around).len());
        let mut place = place;
        if self.chunks.is_empty() {
            self.chunks.push(Chunk::new());
            self.firsts.push(prefix);
        } else if self.chunks[place.chunk].len() == CHUNK {
            // What comes in order leaves room behind itself.
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

    /// Takes a prefix out.
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

    /// Joins a chunk with the next one where both together are half full.
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

    /// Tells the prefixes inside of one, those that `which` selects by the length around them, what is around them now.
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

    /// A forest is a sorted map, and finds what is around a prefix as a search through all of them does.
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
            // It grows, and shrinks again.
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
