//! What readers see.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use weir_base::reclaim::{Domain, Guard};

use super::arch;
use super::arena::Arena;
use super::key::{AsKey, Key};
use super::writer::NO_ROUTE;

/// A longest-prefix-match table as workers share it. Made and changed by a [`Writer`](super::Writer).
///
/// Single changes of the writer appear in the current table, each at once for any one lookup. A transaction of the writer
/// makes a new table and leaves this one as it is.
pub struct Table<K: Key> {
    arena: Arc<Arena>,
    directory: Box<[AtomicU32]>,
    default: AtomicU32,
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
            default: AtomicU32::new(NO_ROUTE),
            domain: domain.clone(),
            generation: 1,
            alive: Arc::new(AtomicBool::new(true)),
            family: PhantomData,
        }
    }

    /// A table of the next generation that shares every block with this one.
    pub(crate) fn successor(&self) -> Table<K> {
        let copy = |word: &AtomicU32| AtomicU32::new(word.load(Ordering::Relaxed));
        Table {
            arena: self.arena.clone(),
            directory: self.directory.iter().map(copy).collect(),
            default: copy(&self.default),
            domain: self.domain.clone(),
            generation: self.generation + 1,
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
        self.default.store(value, Ordering::Release);
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
        // SAFETY: the guard keeps every block that is or was reachable from here since it was pinned.
        unsafe { arch::lookup(&self.view(), key, out) };
    }

    fn view(&self) -> View<'_, K> {
        View {
            base: self.arena.base(),
            directory: &self.directory,
            default: self.default.load(Ordering::Acquire),
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

/// A table taken apart for the lookup bodies.
pub(crate) struct View<'t, K> {
    pub(crate) base: *const u8,
    pub(crate) directory: &'t [AtomicU32],
    pub(crate) default: u32,
    pub(crate) family: PhantomData<K>,
}
