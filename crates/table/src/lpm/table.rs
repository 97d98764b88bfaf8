//! The table of the readers.

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

/// A longest-prefix-match table that workers share. A [`Writer`](super::Writer) creates and changes it.
///
/// Single changes of the writer appear in the current table, each atomically for a lookup. A transaction creates a new
/// table and leaves this one unchanged.
pub struct Table<K: Key> {
    arena: Arc<Arena>,
    directory: Box<[AtomicU32]>,
    /// Default answer of a lookup; above it, the number of its changes.
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

    /// Returns a table of the next generation that shares all blocks with this one.
    ///
    /// # Panics
    /// After 2^32 generations, when shared blocks could no longer be identified.
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

    /// Returns the flag that is false once the table is dropped.
    pub(crate) fn alive(&self) -> &Arc<AtomicBool> {
        &self.alive
    }

    pub(crate) fn set_default(&self, value: u32) {
        let times = self.default.load(Ordering::Relaxed) >> 32;
        self.default.store((times.wrapping_add(1) << 32) | u64::from(value), Ordering::Release);
    }

    /// Returns the value of the longest prefix that contains `key`, or [`NO_ROUTE`].
    ///
    /// # Panics
    /// If `guard` belongs to a reader of a domain other than the writer's.
    #[inline]
    pub fn lookup(&self, guard: &Guard<'_>, key: K) -> u32 {
        let mut out = [0];
        self.lookup_each(guard, |_| key, &mut out);
        out[0]
    }

    /// Looks up every key as [`lookup`](Table::lookup) does, in much less time: the loads of different keys overlap.
    /// Best with vectors of up to 256 keys.
    ///
    /// # Panics
    /// If `guard` belongs to a reader of a domain other than the writer's, or the lengths differ.
    #[inline]
    pub fn lookup_batch<A: AsKey<K>>(&self, guard: &Guard<'_>, keys: &[A], out: &mut [u32]) {
        assert_eq!(keys.len(), out.len(), "one answer per key");
        // Prefetching pays for long keys only.
        if K::BITS == 128 {
            arch::fetch(keys);
        }
        self.lookup_each(guard, |index| keys[index].as_key(), out);
    }

    /// Looks up keys as [`lookup_batch`](Table::lookup_batch) does, if they are not adjacent. `key` is called with
    /// indices of `out`, several times for the same index; it must be cheap and return the same key each time.
    ///
    /// # Panics
    /// If `guard` belongs to a reader of a domain other than the writer's.
    #[inline]
    pub fn lookup_each(&self, guard: &Guard<'_>, key: impl Fn(usize) -> K, out: &mut [u32]) {
        assert!(self.domain.owns(guard), "guard of another domain");
        // The default route is a separate word. If it changes during the lookup, the state "not found" and the default
        // may be of different times, and the combined answer never valid.
        loop {
            let default = self.default.load(Ordering::Acquire);
            // SAFETY: the guard keeps every block that was reachable from here since it was pinned.
            unsafe { arch::lookup(&self.view(default as u32), &key, out) };
            // No load of the lookup may follow the load that finds the default unchanged.
            fence(Ordering::Acquire);
            if self.default.load(Ordering::Relaxed) == default {
                return;
            }
        }
    }

    /// Looks up keys as [`lookup_each`](Table::lookup_each) does, without the default route: keys that only it contains
    /// have [`NO_ROUTE`].
    ///
    /// # Panics
    /// As for [`lookup_each`](Table::lookup_each).
    #[inline]
    pub fn lookup_each_without_default(&self, guard: &Guard<'_>, key: impl Fn(usize) -> K, out: &mut [u32]) {
        assert!(self.domain.owns(guard), "guard of another domain");
        // SAFETY: as in `lookup_each`; the default is not read.
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
        // Release: every lookup in this table happens before the writer reuses its own blocks.
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

    /// Other tests compare the CPU's body with the reference implementation; this one compares the other bodies with
    /// it.
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
