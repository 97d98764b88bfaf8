//! The table: a bounded map that grows in steps.

use weir_base::prefetch;

use super::bucket::{BUCKETS, Entry, LANES, Tags};
use super::key::{Key, Secret};
use super::memory::Buckets;

/// Keys of a lookup by the vector, at most.
pub const VECTOR: usize = 256;
/// Keys of a [`Lookup`](super::Lookup) at a time, at most: so many that their cache lines arrive in time, and so few that a CPU
/// fetches the lines of all of them at once.
pub const BATCH: usize = 32;
/// Keys that are compared while as many others are sought, at most.
pub const HALF: usize = BATCH / 2;

/// Entries of a group, on average, when the table grows.
pub(super) const USUAL: usize = 190;
/// Buckets of a table, at most: a [`Place`] has 32 bits.
const MOST_BUCKETS: usize = 1 << 26;
/// Groups that a step of growth splits, at most.
pub(super) const SPLITS: usize = 1;

/// Where an entry lies, until the next [`Table::prepare`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(pub(super) u32);

impl Place {
    /// Nowhere.
    pub const NONE: Place = Place(u32::MAX);

    #[inline(always)]
    pub(super) fn new(bucket: usize, lane: usize) -> Place {
        Place((bucket << 5 | lane) as u32)
    }

    /// Bucket and lane.
    #[inline(always)]
    pub(super) fn parts(self) -> (usize, usize) {
        (self.0 as usize >> 5, self.0 as usize & 31)
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

/// Where a hash leads, until the next [`Table::prepare`].
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The key's home bucket.
    pub(super) home: u32,
    pub(super) tag: u16,
}

/// The bits of a hash that name the home bucket in its group; further bits name the group.
#[inline(always)]
fn home_in_group(hash: u64) -> usize {
    hash as usize & (BUCKETS - 1)
}

/// The home bucket of a hash, of so many buckets: `wide` is the mask of [`Table`].
#[inline(always)]
fn home(hash: u64, wide: u32, len: usize) -> u32 {
    let home = hash as u32 & wide;
    if home < len as u32 { home } else { home & wide >> 1 }
}

/// The tag of a hash. The lowest bit keeps tags apart from those of vacant lanes.
#[inline(always)]
pub(super) fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
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
    pub(super) secret: Secret,
    pub(super) buckets: Buckets<K, V, A>,
    /// Bits that name any bucket: the least mask of ones that has the numbers of all. Buckets whose number has its highest bit
    /// came from those without it; the groups that such ones are still to come from are those behind the last.
    wide: u32,
    len: usize,
    most: usize,
    /// The entries of a group that lie outside of their homes, while it is split.
    moving: Vec<(K, V)>,
}

impl<K: Key, V: Copy + Default, A: Copy> Table<K, V, A> {
    /// Creates a table for up to `most` entries. It has room for none until it is prepared.
    pub fn new(most: usize, secret: Secret) -> Self {
        Table { secret, buckets: Buckets::new(), wide: BUCKETS as u32 - 1, len: 0, most, moving: Vec::new() }
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
        self.buckets.octets()
    }

    /// Returns the hash of a key under the table's secret.
    #[inline(always)]
    pub fn hash(&self, key: &K) -> u64 {
        key.hash(&self.secret)
    }

    /// Where a hash leads; there are buckets.
    #[inline(always)]
    pub(super) fn target(&self, hash: u64) -> Target {
        Target { home: home(hash, self.wide, self.buckets.len()), tag: tag(hash) }
    }

    #[inline]
    pub(super) fn look(&self, Target { home, tag }: Target, key: &K) -> Option<Place> {
        let (bucket, lane) = self.buckets.find(home as usize, tag, key)?;
        Some(Place::new(bucket, lane))
    }

    /// Computes where a key lies or is to lie, and fetches the tags of its home. There are buckets, or nothing is fetched.
    #[inline]
    pub fn seek(&self, key: &K) -> Target {
        let target = self.target(key.hash(&self.secret));
        if (target.home as usize) < self.buckets.len() {
            prefetch::read(self.buckets.addresses(target.home as usize).0.as_ptr());
        }
        target
    }

    /// Fetches the entry that a key is to get, whose tags were fetched.
    #[inline]
    pub fn fetch_vacant(&self, target: Target) {
        let home = target.home as usize;
        if let Some(lane) = self.buckets.tags(home).and_then(Tags::vacant)
            && let Some(entry) = self.buckets.entry(home, lane)
        {
            let first = std::ptr::from_ref(entry).cast::<u8>();
            prefetch::read(first);
            // An entry may lie on two lines.
            prefetch::read(first.wrapping_add(size_of::<Entry<K, V, A>>() - 1));
        }
    }

    /// Finds a key that was sought.
    #[inline]
    pub fn find_at(&self, target: Target, key: &K) -> Option<Place> {
        self.look(target, key)
    }

    /// Finds a key.
    pub fn find(&self, key: &K) -> Option<Place> {
        self.look(self.target(key.hash(&self.secret)), key)
    }

    /// Returns the value at a place that was found.
    #[inline]
    pub fn value(&self, place: Place) -> Option<&V> {
        let (bucket, lane) = place.parts();
        self.buckets.taken(bucket, lane).map(|own| &own.value)
    }

    /// Returns the value at a place that was found, to be changed.
    #[inline]
    pub fn value_mut(&mut self, place: Place) -> Option<&mut V> {
        let (bucket, lane) = place.parts();
        self.buckets.taken_mut(bucket, lane).map(|own| &mut own.value)
    }

    /// Returns the key at a place that was found.
    pub fn key(&self, place: Place) -> Option<&K> {
        let (bucket, lane) = place.parts();
        self.buckets.taken(bucket, lane).map(|own| &own.key)
    }

    /// Inserts a key that is not in the table. Never allocates.
    ///
    /// # Errors
    /// If the table is full, or the key's group is.
    pub fn insert(&mut self, key: K, value: V) -> Result<Place, Full> {
        self.insert_at(self.target(key.hash(&self.secret)), key, value)
    }

    /// Inserts a key that was sought and is not in the table. Never allocates.
    ///
    /// # Errors
    /// If the table is full, or the key's group is.
    pub fn insert_at(&mut self, target: Target, key: K, value: V) -> Result<Place, Full> {
        debug_assert!(self.find(&key).is_none(), "a key that is there");
        if self.len >= self.most {
            return Err(Full::Bound);
        }
        let Target { home, tag } = target;
        let (bucket, lane) = self.buckets.insert(home as usize, tag, key, value).ok_or(Full::Crowded)?;
        self.len += 1;
        Ok(Place::new(bucket, lane))
    }

    /// Removes a key; returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let target = self.target(key.hash(&self.secret));
        let (bucket, lane) = self.look(target, key)?.parts();
        let secret = &self.secret;
        let home = |key: &K| home_in_group(key.hash(secret));
        let value = self.buckets.remove(bucket, lane, target.home as usize, home)?;
        self.len -= 1;
        Some(value)
    }

    /// Returns the number of groups.
    pub fn groups(&self) -> usize {
        self.buckets.len() / BUCKETS
    }

    /// Removes the entries of a group that are not to be kept: 496 at most are visited.
    pub fn retain_in(&mut self, group: usize, mut keep: impl FnMut(&K, &V) -> bool) {
        let secret = &self.secret;
        let home = |key: &K| home_in_group(key.hash(secret));
        self.len -= self.buckets.retain(group, home, |key, value| keep(key, value));
    }

    /// Takes a step towards room for so many more entries, as far as the bound allows: splits a group at most. Returns
    /// whether there is room. Places that were found before mean nothing afterwards.
    pub fn prepare(&mut self, entries: usize) -> bool {
        let wanted = self.len.saturating_add(entries).min(self.most.max(self.len)).div_ceil(USUAL);
        for _ in 0..SPLITS {
            if self.groups() >= wanted || self.buckets.len() >= MOST_BUCKETS || self.grow().is_err() {
                break;
            }
        }
        self.groups() >= wanted
    }

    /// Adds a group.
    fn grow(&mut self) -> std::io::Result<()> {
        let new = self.buckets.len() as u32;
        self.buckets.add_group()?;
        if new == 0 {
            self.moving.reserve(BUCKETS * LANES);
            return Ok(());
        }
        if new > self.wide {
            self.wide = self.wide << 1 | 1;
        }
        let (from, to) = ((new & self.wide >> 1) as usize / BUCKETS, new as usize / BUCKETS);
        let (secret, wide, len) = (&self.secret, self.wide, self.buckets.len());
        let home = |key: &K| home(key.hash(secret), wide, len) as usize;
        self.buckets.split(from, to, home, &mut self.moving);
        while let Some((key, value)) = self.moving.pop() {
            let Target { home, tag } = self.target(key.hash(&self.secret));
            // The old group or the new one, which have room for the entries of one.
            let moved = self.buckets.insert(home as usize, tag, key, value);
            debug_assert!(moved.is_some());
        }
        Ok(())
    }
}
