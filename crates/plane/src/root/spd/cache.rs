//! The caches of an SPD: a worker takes the memory of its own from here once, and counts here.

use std::sync::{Mutex, PoisonError};

use weir_table::recent::{Entries, Refused, entries, places};

use crate::root::counters::Counter;
use crate::root::family::Family;

/// The cache of a direction and family.
pub struct Cached<K: Family> {
    /// Its number, which no other cache ever has.
    pub id: u64,
    /// Places of each worker's cache.
    pub places: usize,
    /// By worker.
    workers: Box<[OfWorker<K>]>,
}

struct OfWorker<K: Family> {
    /// The memory, while the worker does not have it.
    supply: Mutex<Option<Entries<K::FlowKey>>>,
    counters: CacheCounters,
}

/// Counters of a worker's cache.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CacheCounters {
    /// Entries.
    pub entries: Counter,
    /// Packets whose policy was there.
    pub hits: Counter,
    /// Packets whose flow was not there.
    pub misses: Counter,
    /// Packets whose flow was there, and was decided again as a change of the SPD concerned it.
    pub stale: Counter,
    /// Entries that were overwritten by those of other flows.
    pub overwritten: Counter,
}

impl<K: Family> Cached<K> {
    /// A cache for so many flows on each worker.
    ///
    /// # Errors
    /// When the system has no memory for it.
    pub fn new(id: u64, flows: u32, workers: usize) -> Result<Cached<K>, Refused> {
        let of_worker =
            |_| Ok(OfWorker { supply: Mutex::new(Some(entries(flows)?)), counters: CacheCounters::default() });
        let workers: Box<[OfWorker<K>]> = (0..workers).map(of_worker).collect::<Result<_, Refused>>()?;
        Ok(Cached { id, places: places(flows) as usize, workers })
    }

    /// Takes the memory of a worker; `None` if the worker has it.
    pub(crate) fn take(&self, worker: usize) -> Option<Entries<K::FlowKey>> {
        let supply = &self.workers.get(worker)?.supply;
        supply.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Gives the memory of a worker back, for the case that a root with this cache comes into force once more.
    pub(crate) fn give_back(&self, worker: usize, entries: Entries<K::FlowKey>) {
        if let Some(own) = self.workers.get(worker) {
            *own.supply.lock().unwrap_or_else(PoisonError::into_inner) = Some(entries);
        }
    }

    /// The counters of a worker.
    #[inline]
    pub(crate) fn counters(&self, worker: usize) -> Option<&CacheCounters> {
        self.workers.get(worker).map(|own| &own.counters)
    }

    /// The counters of all workers.
    pub fn all(&self) -> impl Iterator<Item = &CacheCounters> {
        self.workers.iter().map(|own| &own.counters)
    }
}
