//! A group of buckets.

use super::bucket::{LANES, Tags};
use super::key::Key;

/// Buckets of a group.
pub(super) const BUCKETS: usize = 16;
/// Entries of a group.
pub(super) const ENTRIES: usize = BUCKETS * LANES;

/// An entry, aligned as `A` is.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Entry<K, V, A> {
    aligned: [A; 0],
    pub(super) key: K,
    pub(super) value: V,
}

/// A group.
pub(super) struct Group<K, V, A> {
    tags: Box<[Tags]>,
    /// By bucket, then by lane.
    entries: Box<[Entry<K, V, A>]>,
}

impl<K: Key, V: Copy + Default, A: Copy> Group<K, V, A> {
    /// Octets of memory beside the group itself.
    pub(super) const OCTETS: usize = BUCKETS * size_of::<Tags>() + ENTRIES * size_of::<Entry<K, V, A>>();

    pub(super) fn new() -> Self {
        let vacant = Entry { aligned: [], key: K::default(), value: V::default() };
        Group { tags: vec![Tags::EMPTY; BUCKETS].into(), entries: vec![vacant; ENTRIES].into() }
    }

    #[inline(always)]
    pub(super) fn tags(&self, bucket: usize) -> &Tags {
        &self.tags[bucket]
    }

    /// The content of a lane, taken or vacant; `None` if there is no such lane.
    #[inline(always)]
    pub(super) fn entry(&self, bucket: usize, lane: usize) -> Option<&Entry<K, V, A>> {
        if lane < LANES { self.entries.get(bucket * LANES + lane) } else { None }
    }

    /// The entry of a taken lane.
    #[inline]
    pub(super) fn taken(&self, bucket: usize, lane: usize) -> Option<&Entry<K, V, A>> {
        self.tags.get(bucket)?.tag(lane)?;
        self.entry(bucket, lane)
    }

    /// The value of a taken lane.
    #[inline]
    pub(super) fn taken_mut(&mut self, bucket: usize, lane: usize) -> Option<&mut V> {
        self.tags.get(bucket)?.tag(lane)?;
        self.entries.get_mut(bucket * LANES + lane).map(|entry| &mut entry.value)
    }

    /// Bucket and lane of a key whose home is a bucket.
    #[inline]
    pub(super) fn find(&self, home: usize, tag: u16, key: &K) -> Option<(usize, usize)> {
        if let Some(lane) = self.find_in(home, tag, key) {
            return Some((home, lane));
        }
        let mut away = self.tags(home).away;
        while away != 0 {
            let bucket = away.trailing_zeros() as usize;
            away &= away - 1;
            if let Some(lane) = self.find_in(bucket, tag, key) {
                return Some((bucket, lane));
            }
        }
        None
    }

    #[inline]
    fn find_in(&self, bucket: usize, tag: u16, key: &K) -> Option<usize> {
        let mut matching = self.tags(bucket).matching(tag);
        while matching != 0 {
            let lane = matching.trailing_zeros() as usize;
            if self.entry(bucket, lane).is_some_and(|own| own.key == *key) {
                return Some(lane);
            }
            matching &= matching - 1;
        }
        None
    }

    /// Puts a key into its home, or into the first bucket behind with a vacant lane. `None` if the group is full.
    pub(super) fn insert(&mut self, home: usize, tag: u16, key: K, value: V) -> Option<(usize, usize)> {
        let vacant = |step: usize| {
            let bucket = (home + step) % BUCKETS;
            Some((bucket, self.tags(bucket).vacant()?))
        };
        let (bucket, lane) = (0..BUCKETS).find_map(vacant)?;
        if bucket != home {
            self.tags[home].away |= 1 << bucket;
        }
        self.tags[bucket].set(lane, tag);
        self.entries[bucket * LANES + lane] = Entry { aligned: [], key, value };
        Some((bucket, lane))
    }

    /// Makes a lane vacant whose key has this home; gives its value. `home_of` gives the home of a key.
    pub(super) fn remove(
        &mut self,
        bucket: usize,
        lane: usize,
        home: usize,
        home_of: impl Fn(&K) -> usize,
    ) -> Option<V> {
        let value = self.taken(bucket, lane)?.value;
        self.tags[bucket].set(lane, 0);
        if bucket != home {
            let is_of_home = |lane| self.entry(bucket, lane).is_some_and(|own| home_of(&own.key) == home);
            let is_last = !self.tags(bucket).taken().any(is_of_home);
            if is_last {
                self.tags[home].away &= !(1 << bucket);
            }
        }
        Some(value)
    }

    /// Removes the entries that are not to be kept; gives how many.
    pub(super) fn retain(&mut self, home_of: impl Fn(&K) -> usize, mut keep: impl FnMut(&K, &V) -> bool) -> usize {
        let mut removed = 0;
        for bucket in 0..BUCKETS {
            for lane in 0..LANES {
                if let Some(Entry { key, value, .. }) = self.taken(bucket, lane)
                    && !keep(key, value)
                {
                    let home = home_of(key);
                    self.remove(bucket, lane, home, &home_of);
                    removed += 1;
                }
            }
        }
        removed
    }

    /// Takes all entries out.
    pub(super) fn drain(&mut self, into: &mut Vec<(K, V)>) {
        for (bucket, tags) in self.tags.iter_mut().enumerate() {
            into.extend(tags.taken().map(|lane| self.entries[bucket * LANES + lane]).map(|own| (own.key, own.value)));
            *tags = Tags::EMPTY;
        }
    }
}
