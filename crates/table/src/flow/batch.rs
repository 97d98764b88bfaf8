//! Lookups of several keys at a time, in three passes, so that memory is fetched while other keys are dealt with: the hash of each
//! key, and its line of tags is fetched; the tags, and the first entry with the key's tag is fetched; the entry.

use std::ptr::NonNull;

use weir_base::prefetch;

use super::bucket::{Entry, LANES, Tags};
use super::key::Key;
use super::table::{BATCH, HALF, Place, Table, Target, tag};

/// Keys that are looked up together, by slot: two halves, each of which is compared by itself.
struct Slots<K, V, A> {
    keys: [K; BATCH],
    hashes: [u64; BATCH],
    /// The tags of the home.
    lines: [NonNull<Tags>; BATCH],
    /// The entries of the home; later the first one whose tag is the key's.
    entries: [*mut Entry<K, V, A>; BATCH],
    /// The lane of that one; 31 or 32 if there is none.
    lanes: [u8; BATCH],
    /// The slots of each half in front of this one were compared.
    compared: [usize; 2],
}

impl<K: Key, V: Copy + Default, A: Copy> Slots<K, V, A> {
    fn new() -> Self {
        Slots {
            keys: [K::default(); BATCH],
            hashes: [0; BATCH],
            lines: [NonNull::dangling(); BATCH],
            entries: [std::ptr::null_mut(); BATCH],
            lanes: [LANES as u8; BATCH],
            compared: [0; 2],
        }
    }

    /// Puts a key into a slot, and fetches the tags of its home. There are buckets.
    #[inline(always)]
    fn seek(&mut self, table: &Table<K, V, A>, slot: usize, key: K) {
        let at = slot % BATCH;
        let hash = key.hash(&table.secret);
        let (line, entries) = table.buckets.addresses(table.target(hash).home as usize);
        prefetch::read(line.as_ptr());
        self.compared[at / HALF] = 0;
        (self.keys[at], self.hashes[at]) = (key, hash);
        (self.lines[at], self.entries[at]) = (line, entries.as_ptr());
    }

    /// Compares the tags of the first slots of a half, and fetches the first entry of each that may be the key's.
    ///
    /// # Safety
    /// A key was put into each of these slots since they were last compared, and the buckets are still there.
    #[inline(always)]
    unsafe fn compare(&mut self, half: usize, len: usize) {
        let (half, len) = (half % 2, len.min(HALF));
        let own = half * HALF..half * HALF + len;
        let slots = self.lines[own.clone()].iter().zip(&self.hashes[own.clone()]).zip(&mut self.entries[own.clone()]);
        for (((line, &hash), entry), lane) in slots.zip(&mut self.lanes[own]) {
            // SAFETY: the line is that of a bucket.
            let first = unsafe { line.as_ref() }.matching(tag(hash)).trailing_zeros();
            *lane = first as u8;
            // Without such a tag, this is behind the bucket's entries, and is not read.
            *entry = entry.wrapping_add(first as usize);
            prefetch::read(*entry);
        }
        self.compared[half] = len;
    }

    /// A slot has a key that was compared.
    #[inline(always)]
    fn is_compared(&self, slot: usize) -> bool {
        slot < BATCH && slot % HALF < self.compared[slot / HALF]
    }

    /// The entry with the key of a slot that was compared, if it is the first one with its tag in its home.
    ///
    /// # Safety
    /// The buckets did not change since.
    #[inline(always)]
    unsafe fn usual(&self, slot: usize) -> Option<*mut Entry<K, V, A>> {
        if !self.is_compared(slot) || usize::from(self.lanes[slot]) >= LANES {
            return None;
        }
        // SAFETY: the lane is one of the bucket's.
        let is_own = unsafe { (*self.entries[slot]).key.is(&self.keys[slot]) };
        is_own.then_some(self.entries[slot])
    }

    /// The place of a key that is not the usual one.
    #[inline(always)]
    fn elsewhere(&self, table: &Table<K, V, A>, slot: usize) -> Place {
        if !self.is_compared(slot) {
            return Place::NONE;
        }
        // SAFETY: the line is that of the bucket in which the key of the slot is at home, and the table is borrowed.
        let away = unsafe { self.lines[slot].as_ref() }.away;
        // Most keys that are not in the table have no entry with their tag, and no bucket beside their home.
        if usize::from(self.lanes[slot]) >= LANES && away == 0 {
            return Place::NONE;
        }
        self.look_again(table, slot)
    }

    #[cold]
    #[inline(never)]
    fn look_again(&self, table: &Table<K, V, A>, at: usize) -> Place {
        table.look(table.target(self.hashes[at]), &self.keys[at]).unwrap_or(Place::NONE)
    }

    /// The place of the key in a slot that was compared.
    ///
    /// # Safety
    /// As for [`Slots::usual`].
    #[inline(always)]
    unsafe fn place(&self, table: &Table<K, V, A>, slot: usize) -> Place {
        // SAFETY: the caller's promise.
        match unsafe { self.usual(slot) } {
            Some(_) => Place::new(table.target(self.hashes[slot]).home as usize, usize::from(self.lanes[slot])),
            None => self.elsewhere(table, slot),
        }
    }
}

/// A lookup of several keys: [`Lookup::seek`] for each, [`Lookup::compare`] once, then [`Lookup::value`]. With
/// [`Lookup::compare_half`], the next keys are sought while the compared ones are dealt with, so that memory has more
/// time to come. The table does not change meanwhile, but for its values.
pub struct Lookup<'t, K, V, A> {
    table: &'t mut Table<K, V, A>,
    slots: Slots<K, V, A>,
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
            self.slots.seek(self.table, slot, key);
            self.sought += 1;
        }
    }

    /// Compares the tags of all keys, and fetches more memory. They are in the slots from 0 on, and the next key begins a new batch
    /// of up to [`BATCH`].
    #[inline(always)]
    pub fn compare(&mut self) {
        let (first, sought) = (std::mem::take(&mut self.half), std::mem::take(&mut self.sought));
        // SAFETY: `seek` put keys into these slots, and the table is borrowed since.
        unsafe { self.slots.compare(first, sought) };
        if first == 0 {
            // SAFETY: as above.
            unsafe { self.slots.compare(1, sought.saturating_sub(HALF)) };
        }
    }

    /// Compares the tags of up to [`HALF`] keys, and fetches more memory. Returns the slot of the first one. The next keys, of which
    /// there are as many at most, come into other slots.
    #[inline(always)]
    pub fn compare_half(&mut self) -> usize {
        let (half, sought) = (self.half, std::mem::take(&mut self.sought));
        self.half = 1 - half;
        // SAFETY: `seek` put keys into these slots, and the table is borrowed since.
        unsafe { self.slots.compare(half, sought) };
        half * HALF
    }

    /// Returns the value of the key in a slot.
    #[inline(always)]
    pub fn value(&mut self, slot: usize) -> Option<&mut V> {
        // SAFETY: the table is borrowed, and nothing but values was changed since the slots were compared.
        match unsafe { self.slots.usual(slot) } {
            // SAFETY: the entry is the table's, which is borrowed exclusively as long as the value.
            Some(entry) => Some(unsafe { &mut (*entry).value }),
            None => match self.slots.elsewhere(self.table, slot) {
                Place::NONE => None,
                place => self.table.value_mut(place),
            },
        }
    }

    /// Returns the hash of the key in a slot that was compared. [`Table::hash`] gives the same.
    #[inline]
    pub fn hash(&self, slot: usize) -> Option<u64> {
        self.slots.is_compared(slot).then(|| self.slots.hashes[slot])
    }

    /// Returns the place of the key in a slot; [`Place::NONE`] if it is not in the table.
    #[inline]
    pub fn place(&self, slot: usize) -> Place {
        // SAFETY: as above.
        unsafe { self.slots.place(self.table, slot) }
    }
}

impl<K: Key, V: Copy + Default, A: Copy> Table<K, V, A> {
    /// Begins a lookup of several keys.
    #[inline(always)]
    pub fn lookup(&mut self) -> Lookup<'_, K, V, A> {
        Lookup { table: self, slots: Slots::new(), half: 0, sought: 0 }
    }

    /// Finds keys: the place of each, or [`Place::NONE`].
    #[inline]
    pub fn find_each(&self, keys: &[K], places: &mut [Place]) {
        if self.buckets.len() == 0 {
            return places.iter_mut().take(keys.len()).for_each(|place| *place = Place::NONE);
        }
        let mut slots = Slots::new();
        for (keys, places) in keys.chunks(BATCH).zip(places.chunks_mut(BATCH)) {
            for (slot, key) in keys.iter().enumerate() {
                slots.seek(self, slot, *key);
            }
            // SAFETY: the slots have keys, and the table is borrowed.
            unsafe {
                slots.compare(0, keys.len());
                slots.compare(1, keys.len().saturating_sub(HALF));
            }
            for (slot, place) in places.iter_mut().enumerate().take(keys.len()) {
                // SAFETY: as above.
                *place = unsafe { slots.place(self, slot) };
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
