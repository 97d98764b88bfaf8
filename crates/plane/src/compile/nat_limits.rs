//! Limits on the translations of routing domains and lists.

use std::sync::Arc;

use super::map::Map;
use crate::model::Gateway;
use crate::root::nat::{NONE, Translators};
use crate::root::nat_limit::{LimitCounters, SharedLimit};

/// The limits on the translations of routing domains, by their zones.
pub(super) fn vrf_limits(gateway: &Gateway, map: &Map) -> Vec<Option<u32>> {
    let limited =
        || gateway.vrfs.iter().zip(&map.nat_zones).filter(|(vrf, zone)| vrf.nat_limit.is_some() && **zone != NONE);
    let count = limited().map(|(_, &zone)| usize::from(zone) + 1).max();
    let mut limits = vec![None; count.unwrap_or(0)];
    limited().for_each(|(vrf, &zone)| limits[usize::from(zone)] = vrf.nat_limit);
    limits
}

/// The limits on the translations of lists, by the numbers of their names. `lists` has those of each rule's list.
pub(super) fn list_limits(lists: impl Iterator<Item = (u16, Option<u32>)>) -> Vec<Option<u32>> {
    let mut limits = Vec::new();
    for (number, limit) in lists.map(|(number, limit)| (usize::from(number), limit)) {
        limits.resize(limits.len().max(number + 1), None);
        limits[number] = limit;
    }
    limits
}

/// Whether limits of routing domains are those in force.
pub(super) fn are_those(limits: &[Option<u32>], current: &Translators) -> bool {
    current.vrf_limits.iter().map(|own| own.as_ref().map(|own| own.most)).eq(limits.iter().copied())
}

/// Limits with the counters that they have, or with new ones for so many workers.
pub(super) fn with_counters(
    limits: &[Option<u32>],
    current: &[Option<SharedLimit>],
    workers: usize,
) -> Arc<[Option<SharedLimit>]> {
    let of = |(number, &most): (usize, &Option<u32>)| {
        let before = current.get(number).and_then(Option::as_ref).map(|own| Arc::clone(&own.counters));
        let counters = before.unwrap_or_else(|| Arc::new(LimitCounters::new(workers)));
        most.map(|most| SharedLimit { most, counters })
    };
    limits.iter().enumerate().map(of).collect()
}
