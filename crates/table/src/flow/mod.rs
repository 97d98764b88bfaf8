//! The flow table: keys of flows, and a small value for each, looked up by the vector. One thread owns it.
//!
//! # Layout
//! A *bucket* is a cache line of 31 tags, 16 bits of each key's hash, beside 31 entries of key and value. 16 buckets are a
//! *group*. The hash of a key names a group and, in it, the key's *home* bucket; an entry lies there, or, if that is full, in
//! another bucket of the group, and a bit of the home says in which. So a lookup reads a line of tags and one entry, seldom
//! more, and no index in between.
//!
//! # Growth
//! The table grows by a group at a time (linear hashing: W. Litwin, 1980): the group that is next in turn is split in two, by
//! one more bit of the hashes. No step touches more than the 496 entries of a group, and none copies the table. Memory is
//! allocated by [`Table::prepare`] only. Groups that have not been split yet are twice as full as the others, so groups
//! hold 190 of 496 entries on average: a group that is full refuses an entry ([`Full::Crowded`]), and with keys that
//! nobody chose by their hashes, 380 expected in the fullest groups, this is six standard deviations away.
//!
//! # Hash
//! Folded multiplication under a [`Secret`] (as the hash of workers): without the secret, nobody can choose keys that meet.

mod bucket;
mod group;
mod key;
pub mod naive;
#[cfg(test)]
mod tests;

use weir_base::prefetch;

use group::{BUCKETS, Group};
pub use key::{Key, Secret};

/// Keys of a lookup by the vector, at most.
pub const VECTOR: usize = 256;

/// Entries of a group, on average, when the table grows.
const USUAL: usize = 190;
/// Groups that a step of growth splits, at most.
const SPLITS: usize = 4;

/// Where an entry lies, until the next [`Table::prepare`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u32);

impl Place {
    /// Nowhere.
    pub const NONE: Place = Place(u32::MAX);

    fn new(group: usize, bucket: usize, lane: usize) -> Place {
        Place((group << 9 | bucket << 5 | lane) as u32)
    }

    fn parts(self) -> (usize, usize, usize) {
        let place = self.0 as usize;
        (place >> 9, place >> 5 & (BUCKETS - 1), place & 31)
    }
}

/// Why a key has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// There are as many entries as there may be.
    #[error("the table has as many entries as it may have")]
    Bound,
    /// The key's group is full, or the table was not prepared for another key.
    #[error("the group of the key is full")]
    Crowded,
}

/// Where a hash leads.
#[derive(Clone, Copy)]
struct Target {
    group: usize,
    bucket: usize,
    tag: u16,
}

/// Entries follow one another without gaps.
#[derive(Debug, Clone, Copy)]
pub struct Packed;

/// Each entry begins a cache line, so that a lookup touches as few as can be.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Lines;

/// Values by keys of flows. `A` is [`Packed`] or [`Lines`].
pub struct Table<K, V, A = Packed> {
    secret: Secret,
    groups: Vec<Group<K, V, A>>,
    /// The group that is split next; it is below `1 << level`.
    next: usize,
    level: u32,
    len: usize,
    most: usize,
    /// The entries of a group while it is split.
    moving: Vec<(K, V)>,
}

impl<K: Key, V: Copy + Default, A: Copy> Table<K, V, A> {
    /// Creates a table for up to `most` entries. It has room for none until it is prepared.
    pub fn new(most: usize, secret: Secret) -> Self {
        Table { secret, groups: Vec::new(), next: 0, level: 0, len: 0, most, moving: Vec::new() }
    }

    /// Sets the bound. Entries beyond a smaller one stay.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Returns the bound.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the octets of memory.
    pub fn octets(&self) -> usize {
        self.groups.len() * Group::<K, V, A>::OCTETS + self.groups.capacity() * size_of::<Group<K, V, A>>()
    }

    #[inline(always)]
    fn target(&self, hash: u64) -> Target {
        let low = (1usize << self.level) - 1;
        let mut group = hash as usize & low;
        if group < self.next {
            group = hash as usize & (low << 1 | 1);
        }
        // The lowest bit keeps tags apart from those of vacant lanes.
        Target { group, bucket: (hash >> 44) as usize & (BUCKETS - 1), tag: (hash >> 48) as u16 | 1 }
    }

    #[inline]
    fn look(&self, Target { group: number, bucket, tag }: Target, key: &K) -> Option<Place> {
        let group = self.groups.get(number)?;
        let (bucket, lane) = group.find(bucket, tag, key)?;
        Some(Place::new(number, bucket, lane))
    }

    /// Finds a key.
    pub fn find(&self, key: &K) -> Option<Place> {
        self.look(self.target(key.hash(&self.secret)), key)
    }

    /// Finds up to [`VECTOR`] keys: the place of each, or [`Place::NONE`].
    #[inline]
    pub fn find_each(&self, keys: &[K], places: &mut [Place]) {
        // The home of each key, and its tag: in as little memory as can be, as it is written and read for each vector.
        let (mut homes, mut tags, mut lanes) = ([0u32; VECTOR], [0u16; VECTOR], [0u8; VECTOR]);
        if self.len == 0 {
            return places.iter_mut().take(keys.len()).for_each(|place| *place = Place::NONE);
        }
        for ((key, home), tag) in keys.iter().zip(&mut homes).zip(&mut tags) {
            let target = self.target(key.hash(&self.secret));
            (*home, *tag) = ((target.group * BUCKETS + target.bucket) as u32, target.tag);
            if let Some(group) = self.groups.get(target.group) {
                prefetch::read(group.tags(target.bucket));
            }
        }
        let split = |home: u32| (home as usize / BUCKETS, home as usize % BUCKETS);
        for ((&home, &tag), lane) in homes.iter().zip(&tags).zip(&mut lanes).take(keys.len()) {
            let (group, bucket) = split(home);
            if let Some(group) = self.groups.get(group) {
                *lane = group.tags(bucket).matching(tag).trailing_zeros() as u8;
                if let Some(entry) = group.entry(bucket, usize::from(*lane)) {
                    prefetch::read(entry);
                }
            }
        }
        for ((((key, &home), &tag), &lane), place) in keys.iter().zip(&homes).zip(&tags).zip(&lanes).zip(places) {
            let ((group, bucket), lane) = (split(home), usize::from(lane));
            let usual = self.groups.get(group).and_then(|group| group.entry(bucket, lane));
            *place = match usual {
                Some(own) if own.key == *key => Place::new(group, bucket, lane),
                _ => self.look(Target { group, bucket, tag }, key).unwrap_or(Place::NONE),
            };
        }
    }

    /// Returns the value at a place that was found.
    #[inline]
    pub fn value(&self, place: Place) -> Option<&V> {
        let (group, bucket, lane) = place.parts();
        self.groups.get(group)?.taken(bucket, lane).map(|own| &own.value)
    }

    /// Returns the value at a place that was found, to be changed.
    #[inline]
    pub fn value_mut(&mut self, place: Place) -> Option<&mut V> {
        let (group, bucket, lane) = place.parts();
        self.groups.get_mut(group)?.taken_mut(bucket, lane)
    }

    /// Returns the key at a place that was found.
    pub fn key(&self, place: Place) -> Option<&K> {
        let (group, bucket, lane) = place.parts();
        self.groups.get(group)?.taken(bucket, lane).map(|own| &own.key)
    }

    /// Inserts a key that is not in the table. Never allocates.
    ///
    /// # Errors
    /// If the table is full, or the key's group is.
    pub fn insert(&mut self, key: K, value: V) -> Result<Place, Full> {
        debug_assert!(self.find(&key).is_none(), "a key that is there");
        if self.len >= self.most {
            return Err(Full::Bound);
        }
        let Target { group: number, bucket, tag } = self.target(key.hash(&self.secret));
        let group = self.groups.get_mut(number).ok_or(Full::Crowded)?;
        let (bucket, lane) = group.insert(bucket, tag, key, value).ok_or(Full::Crowded)?;
        self.len += 1;
        Ok(Place::new(number, bucket, lane))
    }

    /// Removes a key; returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let target = self.target(key.hash(&self.secret));
        let (group, bucket, lane) = self.look(target, key)?.parts();
        let secret = &self.secret;
        let home = |key: &K| (key.hash(secret) >> 44) as usize & (BUCKETS - 1);
        let value = self.groups[group].remove(bucket, lane, target.bucket, home)?;
        self.len -= 1;
        Some(value)
    }

    /// Returns the number of groups.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Removes the entries of a group that are not to be kept: 496 at most are visited.
    pub fn retain_in(&mut self, group: usize, mut keep: impl FnMut(&K, &V) -> bool) {
        let secret = &self.secret;
        let Some(own) = self.groups.get_mut(group) else { return };
        let home = |key: &K| (key.hash(secret) >> 44) as usize & (BUCKETS - 1);
        self.len -= own.retain(home, |key, value| keep(key, value));
    }

    /// Takes a step towards room for so many more entries, as far as the bound allows: splits four groups at most. Returns
    /// whether there is room. Places that were found before mean nothing afterwards.
    pub fn prepare(&mut self, entries: usize) -> bool {
        let wanted = self.len.saturating_add(entries).min(self.most.max(self.len)).div_ceil(USUAL);
        for _ in 0..SPLITS {
            if self.groups.len() >= wanted {
                break;
            }
            self.grow();
        }
        self.groups.len() >= wanted
    }

    /// Adds a group.
    fn grow(&mut self) {
        self.groups.push(Group::new());
        if self.groups.len() == 1 {
            self.moving.reserve(group::ENTRIES);
            return;
        }
        let from = self.next;
        self.next += 1;
        if self.next == 1 << self.level {
            self.next = 0;
            self.level += 1;
        }
        self.groups[from].drain(&mut self.moving);
        while let Some((key, value)) = self.moving.pop() {
            let Target { group, bucket, tag } = self.target(key.hash(&self.secret));
            // The old group or the new one, which have room for the entries of one.
            let moved = self.groups[group].insert(bucket, tag, key, value);
            debug_assert!(moved.is_some());
        }
    }
}
