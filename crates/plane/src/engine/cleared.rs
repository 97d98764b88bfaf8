//! Counters of SAs, SPDs and steer rules as they stood when they were cleared. Workers alone write counters, so what is shown is the difference.

use std::collections::HashMap;
use std::sync::Arc;

use crate::root::counters::TrafficCounter;
use crate::root::ipsec::SaCounters;
use crate::root::spd::PolicyCounters;
use crate::stats::{SaStats, SpdCacheRow, Traffic};

/// The counters at their last clearing. Each belongs to the counters stored with it: other counters of the same name
/// begin with 0.
#[derive(Default)]
pub(crate) struct Cleared {
    sas: HashMap<usize, (Arc<[SaCounters]>, SaStats)>,
    policies: HashMap<usize, (Arc<[PolicyCounters]>, [Traffic; 2])>,
    steer: HashMap<usize, (Arc<[TrafficCounter]>, Traffic)>,
    /// By the number of the cache.
    caches: HashMap<u64, SpdCacheRow>,
}

/// The identity of counters, as long as somebody keeps them.
fn identity<T>(counters: &Arc<[T]>) -> usize {
    Arc::as_ptr(counters).cast::<T>() as usize
}

impl Cleared {
    /// Begins the counters of pairs of SAs with 0.
    pub(crate) fn clear_sas(&mut self, rows: impl Iterator<Item = (Arc<[SaCounters]>, SaStats)>) {
        self.sas = rows.map(|(counters, row)| (identity(&counters), (counters, row))).collect();
    }

    /// Begins the counters of policies and caches with 0.
    pub(crate) fn clear_spds(
        &mut self,
        policies: impl Iterator<Item = (Arc<[PolicyCounters]>, [Traffic; 2])>,
        caches: impl Iterator<Item = (u64, SpdCacheRow)>,
    ) {
        self.policies = policies.map(|(counters, own)| (identity(&counters), (counters, own))).collect();
        self.caches = caches.collect();
    }

    /// Begins the counters of steer rules with 0.
    pub(crate) fn clear_steer(&mut self, rules: impl Iterator<Item = (Arc<[TrafficCounter]>, Traffic)>) {
        self.steer = rules.map(|(counters, own)| (identity(&counters), (counters, own))).collect();
    }

    /// Returns the packets of a steer rule since the last clearing.
    pub(crate) fn steer(&self, counters: &Arc<[TrafficCounter]>, now: Traffic) -> Traffic {
        let Some((_, before)) = self.steer.get(&identity(counters)) else { return now };
        Traffic { packets: now.packets.saturating_sub(before.packets), bytes: now.bytes.saturating_sub(before.bytes) }
    }

    /// The counters of a pair of SAs since they were cleared.
    pub(crate) fn sa(&self, counters: &Arc<[SaCounters]>, row: SaStats) -> SaStats {
        match self.sas.get(&identity(counters)) {
            Some((_, before)) => row.since(before),
            None => row,
        }
    }

    /// Returns the packets of a policy since the last clearing, egress and ingress.
    pub(crate) fn policy(&self, counters: &Arc<[PolicyCounters]>, now: [Traffic; 2]) -> [Traffic; 2] {
        let Some((_, before)) = self.policies.get(&identity(counters)) else { return now };
        let less = |at: usize| Traffic {
            packets: now[at].packets.saturating_sub(before[at].packets),
            bytes: now[at].bytes.saturating_sub(before[at].bytes),
        };
        [less(0), less(1)]
    }

    /// The counters of a cache since they were cleared. Its entries stay.
    pub(crate) fn cache(&self, id: u64, row: SpdCacheRow) -> SpdCacheRow {
        let Some(before) = self.caches.get(&id) else { return row };
        SpdCacheRow {
            hits: row.hits.saturating_sub(before.hits),
            misses: row.misses.saturating_sub(before.misses),
            stale: row.stale.saturating_sub(before.stale),
            overwritten: row.overwritten.saturating_sub(before.overwritten),
            ..row
        }
    }
}
