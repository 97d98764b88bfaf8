//! Counters of SAs, tunnels, SPDs, steer rules and NAT rules as they stood when they were cleared. Workers alone write counters, so what is shown is the difference.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::root::counters::{Counter, TrafficCounter};
use crate::root::ipsec::SaCounters;
use crate::root::nat::{RuleCounters, Translators};
use crate::root::nat_limit::LimitCounters;
use crate::root::spd::PolicyCounters;
use crate::root::tunnel::TunnelCounters;
use crate::stats::{SaStats, SpdCacheRow, Traffic, TunnelStats};

/// Rows as they stood at the last clearing, by the identity of their counters.
type Rows<C, R> = HashMap<usize, (Arc<[C]>, R)>;

/// The counters at their last clearing. Each belongs to the counters stored with it: other counters of the same name
/// begin with 0.
#[derive(Default)]
pub(crate) struct Cleared {
    sas: Rows<SaCounters, SaStats>,
    tunnels: Rows<TunnelCounters, TunnelStats>,
    policies: HashMap<usize, (Arc<[PolicyCounters]>, [Traffic; 2])>,
    steer: HashMap<usize, (Arc<[TrafficCounter]>, Traffic)>,
    nat: HashMap<usize, (Arc<[RuleCounters]>, NatCounts)>,
    nat_limits: HashMap<usize, (Arc<LimitCounters>, u64)>,
    /// By the number of the cache.
    caches: HashMap<u64, SpdCacheRow>,
}

/// The counts of a NAT rule, of all workers.
#[derive(Debug, Clone, Default)]
pub(crate) struct NatCounts {
    /// Packets, octets, translations, packets without a port, SYN segments that were clamped, packets beyond a limit.
    pub(crate) sums: [u64; 6],
    /// Packets without a port, by the places of the outside address and of the protocol.
    pub(crate) exhausted_by: BTreeMap<(usize, usize), u64>,
}

impl NatCounts {
    fn of(rule: &[RuleCounters]) -> NatCounts {
        let mut own = NatCounts::default();
        for counters in rule {
            let RuleCounters { packets, octets, opened, exhausted, exhausted_by, clamped, limited, logged: _ } =
                counters;
            let counted = [packets, octets, opened, exhausted, clamped, limited];
            own.sums.iter_mut().zip(counted).for_each(|(sum, counter)| *sum += counter.value());
            for (place, protocol, count) in exhausted_by.counts() {
                *own.exhausted_by.entry((place, protocol)).or_default() += count;
            }
        }
        own
    }

    fn since(mut self, before: &NatCounts) -> NatCounts {
        self.sums.iter_mut().zip(before.sums).for_each(|(own, before)| *own = own.saturating_sub(before));
        for (key, own) in &mut self.exhausted_by {
            *own = own.saturating_sub(before.exhausted_by.get(key).copied().unwrap_or(0));
        }
        self.exhausted_by.retain(|_, own| *own > 0);
        self
    }
}

fn limited(counters: &LimitCounters) -> u64 {
    counters.limited.iter().map(Counter::value).sum()
}

/// The identity of counters, as long as somebody keeps them.
fn identity<T>(counters: &Arc<[T]>) -> usize {
    Arc::as_ptr(counters).cast::<T>() as usize
}

/// Notes the rows that are cleared now. The others of `rows` stay as they were noted, and rows that are gone are forgotten.
fn clear_rows<C, R>(
    noted: &mut Rows<C, R>,
    rows: impl Iterator<Item = (Arc<[C]>, R)>,
    is_cleared: impl Fn(&R) -> bool,
) {
    let mut before = std::mem::take(noted);
    noted.extend(rows.filter_map(|(counters, row)| {
        let id = identity(&counters);
        if is_cleared(&row) { Some((id, (counters, row))) } else { before.remove_entry(&id) }
    }));
}

impl Cleared {
    /// Begins the counters of pairs of SAs with 0: of all, or of the one of a name.
    pub(crate) fn clear_sas(&mut self, rows: impl Iterator<Item = (Arc<[SaCounters]>, SaStats)>, name: Option<&str>) {
        clear_rows(&mut self.sas, rows, |row| name.is_none_or(|name| row.name == name));
    }

    /// Begins the counters of tunnels with 0: of all, or of the one of a name.
    pub(crate) fn clear_tunnels(
        &mut self,
        rows: impl Iterator<Item = (Arc<[TunnelCounters]>, TunnelStats)>,
        name: Option<&str>,
    ) {
        clear_rows(&mut self.tunnels, rows, |row| name.is_none_or(|name| row.name == name));
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

    /// Begins the counters of NAT rules and of limits with 0.
    pub(crate) fn clear_nat(&mut self, root: &Translators) {
        let of = |counters: &Arc<[RuleCounters]>| (identity(counters), (Arc::clone(counters), NatCounts::of(counters)));
        self.nat = root.rules.iter().map(|rule| of(&rule.counters)).collect();
        let of = |own: &Arc<LimitCounters>| (Arc::as_ptr(own) as usize, (Arc::clone(own), limited(own)));
        let limits = root.vrf_limits.iter().chain(root.list_limits.iter()).flatten();
        self.nat_limits = limits.map(|limit| of(&limit.counters)).collect();
    }

    /// Returns the counts of a NAT rule since the last clearing.
    pub(crate) fn nat(&self, counters: &Arc<[RuleCounters]>) -> NatCounts {
        let now = NatCounts::of(counters);
        match self.nat.get(&identity(counters)) {
            Some((_, before)) => now.since(before),
            None => now,
        }
    }

    /// Returns the packets beyond the limit of a VRF or list since the last clearing.
    pub(crate) fn nat_limit(&self, counters: &Arc<LimitCounters>) -> u64 {
        let before = self.nat_limits.get(&(Arc::as_ptr(counters) as usize)).map_or(0, |(_, before)| *before);
        limited(counters).saturating_sub(before)
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

    /// Returns the counters of a tunnel since the last clearing.
    pub(crate) fn tunnel(&self, counters: &Arc<[TunnelCounters]>, row: TunnelStats) -> TunnelStats {
        match self.tunnels.get(&identity(counters)) {
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
