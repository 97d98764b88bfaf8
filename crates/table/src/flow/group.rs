//! Groups of buckets: a key lies in a bucket of its group.

use super::bucket::{BUCKETS, Entry, Tags};
use super::key::Key;
use super::memory::Buckets;

/// A bucket of the same group, by its number in the group.
#[inline(always)]
fn of_group(bucket: usize, number: usize) -> usize {
    bucket & !(BUCKETS - 1) | number & (BUCKETS - 1)
}

impl<K: Key, V: Copy + Default, A: Copy> Buckets<K, V, A> {
    /// The entry of a taken lane.
    #[inline]
    pub(super) fn taken(&self, bucket: usize, lane: usize) -> Option<&Entry<K, V, A>> {
        self.tags(bucket)?.tag(lane)?;
        self.entry(bucket, lane)
    }

    /// The entry of a taken lane, to be changed.
    #[inline]
    pub(super) fn taken_mut(&mut self, bucket: usize, lane: usize) -> Option<&mut Entry<K, V, A>> {
        self.tags(bucket)?.tag(lane)?;
        self.entry_mut(bucket, lane)
    }

    /// Bucket and lane of a key whose home is a bucket.
    #[inline]
    pub(super) fn find(&self, home: usize, tag: u16, key: &K) -> Option<(usize, usize)> {
        if let Some(lane) = self.find_in(home, tag, key) {
            return Some((home, lane));
        }
        let mut away = self.tags(home)?.away;
        while away != 0 {
            let bucket = of_group(home, away.trailing_zeros() as usize);
            away &= away - 1;
            if let Some(lane) = self.find_in(bucket, tag, key) {
                return Some((bucket, lane));
            }
        }
        None
    }

    /// No entry whose home may be this bucket has a tag.
    #[inline]
    pub(super) fn lacks(&self, home: usize, tag: u16) -> bool {
        let has = |bucket: usize| self.tags(bucket).is_some_and(|tags| tags.matching(tag) != 0);
        let mut away = self.tags(home).map_or(0, |tags| tags.away);
        let mut is_there = has(home);
        while away != 0 && !is_there {
            is_there = has(of_group(home, away.trailing_zeros() as usize));
            away &= away - 1;
        }
        !is_there
    }

    #[inline]
    fn find_in(&self, bucket: usize, tag: u16, key: &K) -> Option<usize> {
        let mut matching = self.tags(bucket)?.matching(tag);
        while matching != 0 {
            let lane = matching.trailing_zeros() as usize;
            if self.entry(bucket, lane).is_some_and(|own| own.key.is(key)) {
                return Some(lane);
            }
            matching &= matching - 1;
        }
        None
    }

    /// Puts a key into its home, or into the first bucket behind with a vacant lane. `None` if the group is full, or not in
    /// use.
    pub(super) fn insert(&mut self, home: usize, tag: u16, key: K, value: V) -> Option<(usize, usize)> {
        let vacant = |step: usize| {
            let bucket = of_group(home, home + step);
            Some((bucket, self.tags(bucket)?.vacant()?))
        };
        let (bucket, lane) = (0..BUCKETS).find_map(vacant)?;
        if bucket != home {
            self.tags_mut(home)?.away |= 1 << (bucket % BUCKETS);
        }
        *self.entry_mut(bucket, lane)? = Entry::new(key, value);
        self.tags_mut(bucket)?.set(lane, tag);
        Some((bucket, lane))
    }

    /// Makes a lane vacant whose key has this home; gives its value. `home_of` gives the home of a key in its group.
    pub(super) fn remove(
        &mut self,
        bucket: usize,
        lane: usize,
        home: usize,
        home_of: impl Fn(&K) -> usize,
    ) -> Option<V> {
        let value = self.taken(bucket, lane)?.value;
        self.tags_mut(bucket)?.set(lane, 0);
        if bucket != home {
            let is_of_home = |lane| self.entry(bucket, lane).is_some_and(|own| home_of(&own.key) == home % BUCKETS);
            let is_last = !self.tags(bucket)?.taken().any(is_of_home);
            if is_last {
                self.tags_mut(home)?.away &= !(1 << (bucket % BUCKETS));
            }
        }
        Some(value)
    }

    /// Removes the entries of a group that are not to be kept; gives how many.
    pub(super) fn retain(
        &mut self,
        group: usize,
        home_of: impl Fn(&K) -> usize,
        mut keep: impl FnMut(&K, &V) -> bool,
    ) -> usize {
        let mut removed = 0;
        for bucket in group * BUCKETS..(group + 1) * BUCKETS {
            let mut lanes = self.tags(bucket).map_or(0, |tags| tags.lanes_in_use());
            while lanes != 0 {
                let lane = lanes.trailing_zeros() as usize;
                lanes &= lanes - 1;
                if let Some(Entry { key, value, .. }) = self.entry(bucket, lane)
                    && !keep(key, value)
                {
                    let home = of_group(bucket, home_of(key));
                    self.remove(bucket, lane, home, &home_of);
                    removed += 1;
                }
            }
        }
        removed
    }

    /// Splits a group: entries whose home is in another one, which is empty, move to the same places there. Entries outside of
    /// their homes are taken out. `home_of` gives the home of a key.
    pub(super) fn split(&mut self, from: usize, to: usize, home_of: impl Fn(&K) -> usize, strays: &mut Vec<(K, V)>) {
        for number in 0..BUCKETS {
            let (old, new) = (from * BUCKETS + number, to * BUCKETS + number);
            let Some(mut own) = self.tags(old).copied() else { return };
            let (mut moved, mut lanes) = (Tags::EMPTY, own.lanes_in_use());
            own.away = 0;
            while lanes != 0 {
                let lane = lanes.trailing_zeros() as usize;
                lanes &= lanes - 1;
                let (Some(entry), Some(tag)) = (self.entry(old, lane), own.tag(lane)) else { continue };
                let home = home_of(&entry.key);
                if home == old {
                    continue;
                }
                own.set(lane, 0);
                if home != new {
                    strays.push((entry.key, entry.value));
                    continue;
                }
                let entry = *entry;
                if let Some(place) = self.entry_mut(new, lane) {
                    *place = entry;
                    moved.set(lane, tag);
                }
            }
            for (bucket, tags) in [(old, own), (new, moved)] {
                if let Some(place) = self.tags_mut(bucket) {
                    *place = tags;
                }
            }
        }
    }
}
