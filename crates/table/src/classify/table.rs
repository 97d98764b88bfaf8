//! The classifier of the readers.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use weir_base::reclaim::{Domain, Guard};

use crate::lpm::arena::Arena;

use super::address::Address;
use super::arch::{self, View};
use super::consulted::{Consulted, OUTSIDE};
use super::dense::Dense;
use super::error::NO_RULE;
use super::fields::Fields;

/// A classifier that workers share. A [`Writer`](super::Writer) creates and changes it. Each change is atomic for a
/// lookup. A lookup may see any subset of concurrent changes.
pub struct Table<K> {
    arena: Arc<Arena>,
    pub(super) root: AtomicU32,
    /// Lookups prefetch cache lines, as set by the writer.
    pub(super) far: AtomicBool,
    domain: Domain,
    /// Rules of bit-vector leaves, by block.
    pub(super) dense: Mutex<HashMap<u32, Arc<Dense<K>>>>,
    /// One bit for each field that rules match on.
    matched: AtomicU16,
    /// For each field outside of a flow's key: the rules that match on it; empty before there is one.
    outside: [OnceLock<Arc<Table<K>>>; OUTSIDE.len()],
}

/// Packets per vector.
const VECTOR: usize = 256;

impl<K: Address> Table<K> {
    pub(super) fn new(domain: &Domain, arena: Arc<Arena>) -> Table<K> {
        Table {
            arena,
            root: AtomicU32::new(0),
            far: AtomicBool::new(false),
            domain: domain.clone(),
            dense: Mutex::default(),
            matched: AtomicU16::new(0),
            outside: Default::default(),
        }
    }

    /// Finds the identity of the first matching rule of each packet, or [`NO_RULE`](super::NO_RULE). Best with vectors
    /// of up to 256.
    ///
    /// # Panics
    /// If `guard` belongs to a reader of a domain other than the writer's, or the lengths differ.
    #[inline]
    pub fn lookup_each(&self, guard: &Guard<'_>, packets: &[Fields<K>], found: &mut [u32]) {
        assert!(self.domain.owns(guard), "guard of another domain");
        assert_eq!(packets.len(), found.len(), "one answer per packet");
        // SAFETY: the guard keeps every block that was reachable from here since it was pinned.
        unsafe { arch::lookup(&self.view(), packets, None, found) };
    }

    /// Looks up packets as [`lookup_each`](Table::lookup_each) does. Also returns the fields outside of a flow's key
    /// that each answer depends on: the fields of rules that match the packet in all fields of the key, and come no
    /// later than the found rule. Costs the same as long as no rule matches on such fields.
    ///
    /// Returns all such fields of any rule if the writer is not one of
    /// [`with_consulted`](super::Writer::with_consulted).
    ///
    /// A concurrent change may be in the answer and not in the fields, or the reverse. A caller that caches both must
    /// read the state of changes before the lookup, and look up again when it advances.
    ///
    /// # Panics
    /// If `guard` belongs to a reader of a domain other than the writer's, or the lengths differ.
    pub fn lookup_consulted_each(
        &self,
        guard: &Guard<'_>,
        packets: &[Fields<K>],
        found: &mut [u32],
        consulted: &mut [Consulted],
    ) {
        assert_eq!(packets.len(), consulted.len(), "one set of fields per packet");
        consulted.fill(Consulted::NONE);
        let matched = self.matched().and(Consulted::OUTSIDE);
        if matched.is_empty() {
            return self.lookup_each(guard, packets, found);
        }
        assert!(self.domain.owns(guard), "guard of another domain");
        assert_eq!(packets.len(), found.len(), "one answer per packet");
        let vectors = packets.chunks(VECTOR).zip(found.chunks_mut(VECTOR)).zip(consulted.chunks_mut(VECTOR));
        for ((packets, found), consulted) in vectors {
            let count = packets.len();
            let (mut places, mut rules) = ([u64::MAX; VECTOR], [0; VECTOR]);
            let rules = &mut rules[..count];
            // SAFETY: the guard keeps every block that was reachable from here since it was pinned.
            unsafe { arch::lookup(&self.view(), packets, Some(&mut places[..count]), found) };
            for (field, outside) in OUTSIDE.into_iter().zip(&self.outside) {
                if !matched.contains(field) {
                    continue;
                }
                // The tree, if there is to be one, was published before the field was announced.
                let Some(outside) = outside.get() else {
                    consulted.iter_mut().for_each(|consulted| *consulted |= field);
                    continue;
                };
                // The found rule is among them. No rule is at the last of all places.
                let mut until = places.map(|place| place.saturating_add(1));
                // SAFETY: as above; its writer belongs to the same domain.
                unsafe { arch::lookup(&outside.view(), packets, Some(&mut until[..count]), rules) };
                for (consulted, rule) in consulted.iter_mut().zip(&*rules) {
                    if *rule != NO_RULE {
                        *consulted |= field;
                    }
                }
            }
        }
    }

    /// Returns the fields that rules match on, apart from addresses. With ports, types and codes, or flags among them,
    /// later fragments match only with the fields of the first fragment.
    pub fn matched(&self) -> Consulted {
        Consulted::from_bits(self.matched.load(Ordering::Acquire))
    }

    pub(super) fn set_matched(&self, matched: Consulted) {
        self.matched.store(matched.bits(), Ordering::Release);
    }

    /// Sets the rules that match on a field, by its number in [`OUTSIDE`].
    pub(super) fn set_outside(&self, field: usize, table: Arc<Table<K>>) {
        // Set once.
        let _ = self.outside[field].set(table);
    }

    pub(super) fn view(&self) -> View {
        View { base: self.arena.base(), root: self.root.load(Ordering::Acquire), far: self.far.load(Ordering::Relaxed) }
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

    /// Other tests compare the CPU's body with the reference implementation; this one compares the other bodies with
    /// it.
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
