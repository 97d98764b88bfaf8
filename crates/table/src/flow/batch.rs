//! Lookups of several keys at a time, in three passes, so that memory is fetched while other keys are dealt with: the hash of each
//! key, and its line of tags is fetched; the tags, and the first entry with the key's tag is fetched; the entry.

use std::ops::Range;
use std::ptr::NonNull;

use weir_base::prefetch;

use super::bucket::{Entry, LANES, Tags};
use super::key::Key;
use super::table::{BATCH, HALF, Place, Table, Target, tag};

/// The CPU compares all tags of a bucket at once.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
}

/// Keys that are looked up together.
struct Half<K, V, A> {
    keys: [K; HALF],
    hashes: [u64; HALF],
    /// The tags of the home.
    lines: [NonNull<Tags>; HALF],
    /// The entries of the home; later the first one whose tag is the key's.
    entries: [*mut Entry<K, V, A>; HALF],
    /// The lane of that one; 31 or 32 if there is none.
    lanes: [u8; HALF],
    /// Keys that were compared: the first ones.
    compared: usize,
}

impl<K: Key, V: Copy + Default, A: Copy> Half<K, V, A> {
    fn new() -> Self {
        Half {
            keys: [K::default(); HALF],
            hashes: [0; HALF],
            lines: [NonNull::dangling(); HALF],
            entries: [std::ptr::null_mut(); HALF],
            lanes: [LANES as u8; HALF],
            compared: 0,
        }
    }

    /// Fetches the tags of the homes of the keys in a range. There are buckets.
    #[inline(always)]
    fn seek(&mut self, table: &Table<K, V, A>, range: Range<usize>) {
        self.compared = 0;
        let own = self.keys[range.clone()].iter().zip(&mut self.hashes[range.clone()]);
        let own = own.zip(&mut self.lines[range.clone()]).zip(&mut self.entries[range]);
        for (((key, hash), line), entry) in own {
            *hash = key.hash(&table.secret);
            let (tags, entries) = table.buckets.addresses(table.target(*hash).home as usize);
            prefetch::read(tags.as_ptr());
            (*line, *entry) = (tags, entries.as_ptr());
        }
    }

    /// Compares the tags of the first keys, and fetches the first entry of each that may be the key's.
    ///
    /// # Safety
    /// Each of these keys was sought since they were last compared, and the buckets are still there.
    #[inline(always)]
    unsafe fn compare(&mut self, len: usize) {
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            // SAFETY: the CPU has the features; the rest is the caller's promise.
            return unsafe { self.compare_with_avx512(len) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.compare_by(len, |tags, tag| tags.matching(tag)) }
    }

    /// # Safety
    /// As for [`Half::compare`], and the CPU has the features.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi1,bmi2,avx512f,avx512bw")]
    unsafe fn compare_with_avx512(&mut self, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.compare_by(len, |tags, tag| tags.matching_avx512(tag)) }
    }

    /// # Safety
    /// As for [`Half::compare`].
    #[inline(always)]
    unsafe fn compare_by(&mut self, len: usize, matching: impl Fn(&Tags, u16) -> u32) {
        let len = len.min(HALF);
        let keys = self.lines[..len].iter().zip(&self.hashes[..len]).zip(&mut self.entries[..len]);
        for (((line, &hash), entry), lane) in keys.zip(&mut self.lanes[..len]) {
            // SAFETY: the line is that of a bucket.
            let first = matching(unsafe { line.as_ref() }, tag(hash)).trailing_zeros();
            *lane = first as u8;
            // Without such a tag, this is behind the bucket's entries, and is not read.
            *entry = entry.wrapping_add(first as usize);
            prefetch::read(*entry);
        }
        self.compared = len;
    }

    /// The entry with a key that was compared, if it is the first one with its tag in its home.
    ///
    /// # Safety
    /// The buckets did not change since.
    #[inline(always)]
    unsafe fn usual(&self, at: usize) -> Option<*mut Entry<K, V, A>> {
        if at >= self.compared.min(HALF) || usize::from(self.lanes[at]) >= LANES {
            return None;
        }
        // SAFETY: the lane is one of the bucket's.
        let is_own = unsafe { (*self.entries[at]).key.is(&self.keys[at]) };
        is_own.then_some(self.entries[at])
    }

    /// The place of a key that is not the usual one.
    #[inline(always)]
    fn elsewhere(&self, table: &Table<K, V, A>, at: usize) -> Place {
        if at >= self.compared.min(HALF) {
            return Place::NONE;
        }
        // SAFETY: the line is that of the bucket in which the key is at home, and the table is borrowed.
        let away = unsafe { self.lines[at].as_ref() }.away;
        // Most keys that are not in the table have no entry with their tag, and no bucket beside their home.
        if usize::from(self.lanes[at]) >= LANES && away == 0 {
            return Place::NONE;
        }
        self.look_again(table, at)
    }

    #[cold]
    #[inline(never)]
    fn look_again(&self, table: &Table<K, V, A>, at: usize) -> Place {
        table.look(table.target(self.hashes[at]), &self.keys[at]).unwrap_or(Place::NONE)
    }

    /// The place of a key that was compared.
    ///
    /// # Safety
    /// As for [`Half::usual`].
    #[inline(always)]
    unsafe fn place(&self, table: &Table<K, V, A>, at: usize) -> Place {
        // SAFETY: the caller's promise.
        match unsafe { self.usual(at) } {
            Some(_) => Place::new(table.target(self.hashes[at]).home as usize, usize::from(self.lanes[at])),
            None => self.elsewhere(table, at),
        }
    }
}

/// A lookup of several keys: [`Lookup::seek`] for each, [`Lookup::compare`] once, then [`Lookup::value`]. With
/// [`Lookup::compare_half`], the next keys are sought while the compared ones are dealt with, so that memory has more
/// time to come. The table does not change meanwhile, but for its values.
pub struct Lookup<'t, K, V, A> {
    table: &'t mut Table<K, V, A>,
    /// Slots of two halves, one behind the other.
    halves: [Half<K, V, A>; 2],
    /// The half whose slots get the next keys.
    half: usize,
    /// The slots of that half, and those behind it, which have keys that were not compared yet.
    sought: usize,
}

impl<K: Key, V: Copy + Default, A: Copy> Lookup<'_, K, V, A> {
    /// Puts a key into the next slot, and fetches memory for it.
    #[inline(always)]
    pub fn seek(&mut self, key: K) {
        let slot = self.half * HALF + self.sought;
        if self.table.buckets.len() > 0 && slot < BATCH {
            let (own, at) = (&mut self.halves[slot / HALF], slot % HALF);
            own.keys[at] = key;
            own.seek(self.table, at..at + 1);
            self.sought += 1;
        }
    }

    /// Returns the slots that get the next keys, after [`Lookup::compare_half`]. [`Lookup::seek_each`] seeks the keys put there.
    #[inline(always)]
    pub fn next_keys(&mut self) -> &mut [K; HALF] {
        &mut self.halves[self.half % 2].keys
    }

    /// Fetches memory for the first of [`Lookup::next_keys`].
    #[inline(always)]
    pub fn seek_each(&mut self, count: usize) {
        if self.table.buckets.len() > 0 {
            self.sought = count.min(HALF);
            self.halves[self.half % 2].seek(self.table, 0..self.sought);
        }
    }

    /// Compares the tags of all keys, and fetches more memory. They are in the slots from 0 on, and the next key begins a new batch
    /// of up to [`BATCH`].
    #[inline(always)]
    pub fn compare(&mut self) {
        let (first, sought) = (std::mem::take(&mut self.half), std::mem::take(&mut self.sought));
        // SAFETY: `seek` sought the keys of these slots, and the table is borrowed since.
        unsafe { self.halves[first % 2].compare(sought) };
        if first == 0 {
            // SAFETY: as above.
            unsafe { self.halves[1].compare(sought.saturating_sub(HALF)) };
        }
    }

    /// Compares the tags of up to [`HALF`] keys, and fetches more memory. Returns the slot of the first one. The next keys, of which
    /// there are as many at most, come into other slots.
    #[inline(always)]
    pub fn compare_half(&mut self) -> usize {
        let (half, sought) = (self.half % 2, std::mem::take(&mut self.sought));
        self.half = 1 - half;
        // SAFETY: `seek` or `seek_each` sought the keys of these slots, and the table is borrowed since.
        unsafe { self.halves[half].compare(sought) };
        half * HALF
    }

    /// Calls a function with the value of each key of a half that was compared, which begins with the slot `first`, if it is the first
    /// one with its tag in its home: the usual case. For other keys, of `count`, there is none: [`Lookup::value`] may find it.
    #[inline(always)]
    pub fn each_usual(&mut self, first: usize, count: usize, mut each: impl FnMut(usize, Option<&mut V>)) {
        let half = &self.halves[first / HALF % 2];
        let compared = half.compared.min(HALF).min(count);
        for at in 0..compared {
            // SAFETY: the table is borrowed, and nothing but values was changed since the slots were compared.
            let entry = unsafe { half.usual(at) };
            // SAFETY: the entry is the table's, which is borrowed exclusively; the value is lent to one call.
            each(at, entry.map(|entry| unsafe { &mut (*entry).value }));
        }
        (compared..count).for_each(|at| each(at, None));
    }

    /// Returns the value of the key in a slot.
    #[inline(always)]
    pub fn value(&mut self, slot: usize) -> Option<&mut V> {
        let half = self.halves.get(slot / HALF)?;
        // SAFETY: the table is borrowed, and nothing but values was changed since the slots were compared.
        match unsafe { half.usual(slot % HALF) } {
            // SAFETY: the entry is the table's, which is borrowed exclusively as long as the value.
            Some(entry) => Some(unsafe { &mut (*entry).value }),
            None => match half.elsewhere(self.table, slot % HALF) {
                Place::NONE => None,
                place => self.table.value_mut(place),
            },
        }
    }

    /// Returns the hash of the key in a slot that was compared. [`Table::hash`] gives the same.
    #[inline]
    pub fn hash(&self, slot: usize) -> Option<u64> {
        let half = self.halves.get(slot / HALF)?;
        half.hashes[..half.compared.min(HALF)].get(slot % HALF).copied()
    }

    /// Returns the place of the key in a slot; [`Place::NONE`] if it is not in the table.
    #[inline]
    pub fn place(&self, slot: usize) -> Place {
        // SAFETY: as above.
        self.halves.get(slot / HALF).map_or(Place::NONE, |half| unsafe { half.place(self.table, slot % HALF) })
    }
}

impl<K: Key, V: Copy + Default, A: Copy> Table<K, V, A> {
    /// Begins a lookup of several keys.
    #[inline(always)]
    pub fn lookup(&mut self) -> Lookup<'_, K, V, A> {
        Lookup { table: self, halves: [Half::new(), Half::new()], half: 0, sought: 0 }
    }

    /// Finds keys: the place of each, or [`Place::NONE`].
    #[inline]
    pub fn find_each(&self, keys: &[K], places: &mut [Place]) {
        if self.buckets.len() == 0 {
            return places.iter_mut().take(keys.len()).for_each(|place| *place = Place::NONE);
        }
        let mut halves = [Half::new(), Half::new()];
        for (keys, places) in keys.chunks(BATCH).zip(places.chunks_mut(BATCH)) {
            for (half, keys) in halves.iter_mut().zip(keys.chunks(HALF)) {
                half.keys[..keys.len()].copy_from_slice(keys);
                half.seek(self, 0..keys.len());
            }
            for (half, keys) in halves.iter_mut().zip(keys.chunks(HALF)) {
                // SAFETY: the keys were sought, and the table is borrowed.
                unsafe { half.compare(keys.len()) };
            }
            let count = keys.len().min(places.len());
            for (half, places) in halves.iter().zip(places[..count].chunks_mut(HALF)) {
                for (at, place) in places.iter_mut().enumerate() {
                    // SAFETY: as above.
                    *place = unsafe { half.place(self, at) };
                }
            }
        }
    }

    /// Returns the keys that surely are not in the table, as bits. Reads tags alone: a key that is not in the table may have the
    /// tag of another one, and is left out then, once in a thousand times.
    #[inline]
    pub fn absent<const N: usize>(&self, keys: &[K; N]) -> u64 {
        const { assert!(N <= u64::BITS as usize) };
        if self.buckets.len() == 0 {
            return u64::MAX >> (u64::BITS as usize - N);
        }
        let targets = keys.map(|key| {
            let target = self.target(key.hash(&self.secret));
            prefetch::read(self.buckets.addresses(target.home as usize).0.as_ptr());
            target
        });
        let bit =
            |(at, target): (usize, &Target)| u64::from(self.buckets.lacks(target.home as usize, target.tag)) << at;
        targets.iter().enumerate().map(bit).fold(0, |all, bit| all | bit)
    }
}
