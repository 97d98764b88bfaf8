//! What readers see.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_base::reclaim::{Domain, Guard};

use crate::lpm::arena::Arena;

use super::address::Address;
use super::arch::{self, View};
use super::fields::Fields;

/// A classifier as workers share it. Made and changed by a [`Writer`](super::Writer), whose changes appear in it, each at
/// once for any one lookup.
pub struct Table<K> {
    arena: Arc<Arena>,
    pub(super) root: AtomicU32,
    pub(super) seeds: [u64; 4],
    domain: Domain,
    family: PhantomData<K>,
}

impl<K: Address> Table<K> {
    pub(super) fn new(domain: &Domain, arena: Arc<Arena>, seeds: [u64; 4]) -> Table<K> {
        Table { arena, root: AtomicU32::new(0), seeds, domain: domain.clone(), family: PhantomData }
    }

    /// For each packet, the identity of the first rule that matches, or [`NO_RULE`](super::NO_RULE). Best in vectors of
    /// up to 256.
    ///
    /// # Panics
    /// If `guard` belongs to a reader of another domain than the writer's, or the lengths differ.
    #[inline]
    pub fn lookup_each(&self, guard: &Guard<'_>, packets: &[Fields<K>], found: &mut [u32]) {
        assert!(self.domain.owns(guard), "guard of another domain");
        assert_eq!(packets.len(), found.len(), "one answer per packet");
        // SAFETY: the guard keeps every block that is or was reachable from here since it was pinned.
        unsafe { arch::lookup(&self.view(), packets, found) };
    }

    pub(super) fn view(&self) -> View {
        View {
            base: self.arena.base(),
            root: self.root.load(Ordering::Acquire),
            seeds: self.seeds,
            far: self.arena.is_far(),
        }
    }
}

impl<K> fmt::Debug for Table<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}
