//! Allowlists as workers read them. Sources are looked up a vector at a time.
//!
//! Interfaces that name the same lists in the same order share a [`Sequence`]. A source has to be in each list of a
//! sequence: a list is looked up only for sources that the lists before it contain.

use std::sync::Arc;

use weir_base::reclaim::Guard;
use weir_table::lpm::{AsKey, Table};

use crate::root::adjacency::{Adjacency, Kind};
use crate::root::counters::Counter;
use crate::root::family::{Both, Family};
use crate::root::forwarding::Forwarding;
use crate::root::sav::Routes;

/// The interface has no lists.
pub const NONE: u16 = u16::MAX;

/// The allowlists of all interfaces.
#[derive(Clone, Default)]
pub struct Allowlists {
    /// Of IPv4, by number.
    pub v4: Arc<[Sequence<u32>]>,
    /// Of IPv6.
    pub v6: Arc<[Sequence<u128>]>,
}

impl Both for Allowlists {
    type Part<K: Family> = Arc<[Sequence<K>]>;

    #[inline(always)]
    fn v4(&self) -> &Arc<[Sequence<u32>]> {
        &self.v4
    }

    #[inline(always)]
    fn v6(&self) -> &Arc<[Sequence<u128>]> {
        &self.v6
    }
}

/// Lists in the order in which interfaces name them; at least one.
#[derive(Clone, Debug)]
pub struct Sequence<K: Family>(pub Arc<[List<K>]>);

/// A list, for one family.
#[derive(Clone, Debug)]
pub struct List<K: Family> {
    /// Its place in the model.
    pub place: u16,
    /// The sources in the list.
    pub sources: Sources<K>,
    /// The counters of the list over both families, by worker.
    pub counters: Arc<[AllowCounters]>,
}

/// The sources of an allowlist.
#[derive(Clone, Debug)]
pub enum Sources<K: Family> {
    /// The addresses of these prefixes: whatever they have for a value.
    Prefixes(Arc<Table<K>>),
    /// The sources to which the VRF of this number has a route that does not discard.
    Vrf(u16),
}

/// The counters of an allowlist on one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct AllowCounters {
    /// Packets whose sources are in it.
    pub passed: Counter,
    /// Packets whose sources are not: they were dropped.
    pub refused: Counter,
}

impl<K: Family> List<K> {
    /// For each source a word that is not 0 if the list contains it.
    #[inline(always)]
    pub(crate) fn look_up(&self, routes: Routes<'_>, guard: &Guard<'_>, sources: &[K::Octets], words: &mut [u32]) {
        // They have just been written: they need not be fetched.
        let source = |index: usize| sources[index].as_key();
        match &self.sources {
            Sources::Prefixes(table) => table.lookup_each(guard, source, words),
            Sources::Vrf(vrf) => {
                let Some(tables) = routes.vrfs.get(usize::from(*vrf)) else { return words.fill(0) };
                K::of(tables).lookup_each(guard, source, words);
                let adjacencies = routes.adjacencies.view();
                for word in words {
                    let taken =
                        Forwarding(*word).set().is_some() || adjacencies.get(*word).is_some_and(does_not_discard);
                    *word = u32::from(taken);
                }
            }
        }
    }
}

/// The route leads somewhere.
#[inline(always)]
fn does_not_discard(adjacency: &Adjacency) -> bool {
    !matches!(adjacency.kind, Kind::NoRoute | Kind::Blackhole | Kind::Unreachable | Kind::Prohibit)
}
