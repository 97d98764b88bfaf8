//! What readers see.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use weir_base::reclaim::{Domain, Guard};

use super::arch;
use super::arena::Arena;
use super::key::{AsKey, Key};
use super::route::NO_ROUTE;
use super::view::View;

/// A longest-prefix-match table as workers share it. Made and changed by a [`Writer`](super::Writer).
///
/// Single changes of the writer appear in the current table, each at once for any one lookup. A transaction of the
/// writer makes a new table and leaves this one as it is.
pub struct Table<K: Key> {
    arena: Arc<Arena>,
    directory: Box<[AtomicU32]>,
    /// What a lookup answers that finds nothing else; above it, how often it was set.
    default: AtomicU64,
    domain: Domain,
    generation: u32,
    alive: Arc<AtomicBool>,
    family: PhantomData<K>,
}

impl<K: Key> Table<K> {
    pub(crate) fn empty(domain: &Domain, arena: Arc<Arena>) -> Table<K> {
        Table {
            arena,
            directory: (0..1usize << K::DIRECTORY).map(|_| AtomicU32::new(0)).collect(),
            default: AtomicU64::new(u64::from(NO_ROUTE)),
            domain: domain.clone(),
            generation: 1,
            alive: Arc::new(AtomicBool::new(true)),
            family: PhantomData,
        }
    }

    /// A table of the next generation that shares every block with this one.
    ///
    /// # Panics
    /// After 2^32 of them: from then on, which blocks are shared could not be told.
    pub(crate) fn successor(&self) -> Table<K> {
        let copy = |word: &AtomicU32| AtomicU32::new(word.load(Ordering::Relaxed));
        Table {
            arena: self.arena.clone(),
            directory: self.directory.iter().map(copy).collect(),
            default: AtomicU64::new(self.default.load(Ordering::Relaxed)),
            domain: self.domain.clone(),
            generation: self.generation.checked_add(1).expect("fewer than 2^32 transactions"),
            alive: Arc::new(AtomicBool::new(true)),
            family: PhantomData,
        }
    }

    pub(crate) fn directory(&self) -> &[AtomicU32] {
        &self.directory
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Turns false when the table is dropped.
    pub(crate) fn alive(&self) -> &Arc<AtomicBool> {
        &self.alive
    }

    pub(crate) fn set_default(&self, value: u32) {
        let times = self.default.load(Ordering::Relaxed) >> 32;
        self.default.store((times.wrapping_add(1) << 32) | u64::from(value), Ordering::Release);
    }

    /// The value of the longest prefix that contains `key`, or [`NO_ROUTE`].
    ///
    /// # Panics
    /// If `guard` belongs to a reader of another domain than the writer's.
    #[inline]
    pub fn lookup(&self, guard: &Guard<'_>, key: K) -> u32 {
        let mut out = [0];
        self.lookup_each(guard, |_| key, &mut out);
        out[0]
    }

    /// [`lookup`](Table::lookup) for every key, in much less time: the loads of different keys overlap. Best in vectors
    /// of up to 256.
    ///
    /// # Panics
    /// If `guard` belongs to a reader of another domain than the writer's, or the lengths differ.
    #[inline]
    pub fn lookup_batch<A: AsKey<K>>(&self, guard: &Guard<'_>, keys: &[A], out: &mut [u32]) {
        assert_eq!(keys.len(), out.len(), "one answer per key");
        // For fewer octets it does not pay.
        if K::BITS == 128 {
            arch::fetch(keys);
        }
        self.lookup_each(guard, |index| keys[index].as_key(), out);
    }

    /// [`lookup_batch`](Table::lookup_batch) for keys that do not lie side by side: `key` is called with indices of
    /// `out`, several times for the same one, and has to be cheap and to give the same key each time.
    ///
    /// # Panics
    /// If `guard` belongs to a reader of another domain than the writer's.
    #[inline]
    pub fn lookup_each(&self, guard: &Guard<'_>, key: impl Fn(usize) -> K, out: &mut [u32]) {
        assert!(self.domain.owns(guard), "guard of another domain");
        // The default route is a word of its own. If it is set while we look, then "nothing found" and what that means
        // may come from different times; and the answer may be one that never was right.
        loop {
            let default = self.default.load(Ordering::Acquire);
            // SAFETY: the guard keeps every block that is or was reachable from here since it was pinned.
            unsafe { arch::lookup(&self.view(default as u32), &key, out) };
            // No load of the lookup may be done after the one that finds the default unchanged.
            fence(Ordering::Acquire);
            if self.default.load(Ordering::Relaxed) == default {
                return;
            }
        }
    }

    /// As [`lookup_each`](Table::lookup_each), but the prefix of no bits does not count: what only it contains has
    /// [`NO_ROUTE`].
    ///
    /// # Panics
    /// As [`lookup_each`](Table::lookup_each).
    #[inline]
    pub fn lookup_each_without_default(&self, guard: &Guard<'_>, key: impl Fn(usize) -> K, out: &mut [u32]) {
        assert!(self.domain.owns(guard), "guard of another domain");
        // SAFETY: as in `lookup_each`; nothing is read that the default is part of.
        unsafe { arch::lookup(&self.view(NO_ROUTE), &key, out) };
    }

    fn view(&self, default: u32) -> View<'_, K> {
        View {
            base: self.arena.base(),
            far: self.arena.is_far(),
            directory: &self.directory,
            default,
            family: PhantomData,
        }
    }
}

impl<K: Key> Drop for Table<K> {
    fn drop(&mut self) {
        // Release: every lookup in this table happens before the writer reuses blocks that it had alone.
        self.alive.store(false, Ordering::Release);
    }
}

impl<K: Key> fmt::Debug for Table<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("generation", &self.generation).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::arch;
    use super::super::route::{Limits, Value};
    use super::super::sample::{self, Draw, inside, uniform};
    use super::super::writer::Writer;
    use super::*;
    use weir_base::random::Random;

    /// The body that this CPU runs is held against the oracle elsewhere; here the others against it.
    fn bodies_agree<K: Draw>() {
        let mut random = Random::from_seed(1);
        for pool in sample::shapes::<K>(&mut random) {
            let domain = Domain::new();
            let mut writer = Writer::new(&domain, Limits { max_routes: 1 << 16, max_bytes: 64 << 20 }).unwrap();
            for prefix in pool.iter().filter(|prefix| prefix.len() > 0) {
                writer.insert(*prefix, Value::new(1 + random.below(100) as u32).unwrap()).unwrap();
            }
            let (table, mut reader) = (writer.table(), domain.reader().unwrap());
            let guard = reader.pin();
            for count in [0, 1, 15, 16, 17, 255, 256, 257, 1000] {
                let mut keys = inside(&pool, count, &mut random);
                keys.extend(uniform::<K>(count, &mut random));
                let mut usual = vec![0; keys.len()];
                table.lookup_batch(&guard, &keys, &mut usual);
                for (body, far) in arch::bodies::<K>().into_iter().flat_map(|body| [(body, false), (body, true)]) {
                    let mut out = vec![0; keys.len()];
                    // SAFETY: the guard is held; only bodies for this CPU are listed.
                    unsafe { body(&View { far, ..table.view(NO_ROUTE) }, &keys, &mut out) };
                    assert_eq!(out, usual);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "fewer than 2^32 transactions")]
    fn generations_do_not_begin_again() {
        let arena = Arc::new(Arena::new(1).unwrap());
        let mut last = Table::<u32>::empty(&Domain::new(), arena);
        last.generation = u32::MAX;
        last.successor();
    }

    #[test]
    fn ipv4_bodies_agree() {
        bodies_agree::<u32>();
    }

    #[test]
    fn ipv6_bodies_agree() {
        bodies_agree::<u128>();
    }
}
