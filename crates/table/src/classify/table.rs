//! What readers see.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use weir_base::reclaim::{Domain, Guard};

use crate::lpm::arena::Arena;

use super::address::Address;
use super::arch::{self, View};
use super::dense::Dense;
use super::fields::Fields;

/// A classifier as workers share it. Made and changed by a [`Writer`](super::Writer), whose changes appear in it, each at
/// once for any one lookup.
pub struct Table<K> {
    arena: Arc<Arena>,
    pub(super) root: AtomicU32,
    domain: Domain,
    /// What dense leaves refer to, by their blocks.
    pub(super) dense: Mutex<HashMap<u32, Arc<Dense<K>>>>,
}

impl<K: Address> Table<K> {
    pub(super) fn new(domain: &Domain, arena: Arc<Arena>) -> Table<K> {
        Table { arena, root: AtomicU32::new(0), domain: domain.clone(), dense: Mutex::default() }
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
        unsafe { arch::lookup(&self.view(), packets, None, found) };
    }

    pub(super) fn view(&self) -> View {
        View { base: self.arena.base(), root: self.root.load(Ordering::Acquire) }
    }
}

impl<K> fmt::Debug for Table<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use weir_base::random::Random;

    use super::super::sample::{self, Packets};
    use super::super::{Limits, Writer};
    use super::*;

    /// The body that this CPU runs is held against the specification elsewhere; here the others against it.
    fn bodies_agree<K: Packets>() {
        let mut random = Random::from_seed(1);
        for count in [0, 1, 20, 21, 100, 1000, 3000] {
            let rules = sample::mixed::<K>(count, &mut random);
            let domain = Domain::new();
            let mut writer = Writer::new(&domain, Limits { rules: count, bytes: 64 << 20 }).unwrap();
            let placed = rules.iter().enumerate();
            writer.load(placed.map(|(place, rule)| (place as u64, rule.clone(), place as u32))).unwrap();
            let (table, mut reader) = (writer.table(), domain.reader().unwrap());
            let guard = reader.pin();
            for count in [0, 1, 15, 16, 17, 255, 256, 257, 1000] {
                let packets: Vec<_> = (0..count).map(|_| sample::near(&rules, &mut random)).collect();
                let mut usual = vec![0; count];
                table.lookup_each(&guard, &packets, &mut usual);
                for body in arch::bodies::<K>() {
                    let mut found = vec![0; count];
                    // SAFETY: the guard is held; only bodies for this CPU are listed.
                    unsafe { body(&table.view(), &packets, None, &mut found) };
                    assert_eq!(found, usual);
                }
            }
        }
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
