//! Limits on the translations of routing domains.

use std::sync::Arc;

use super::map::Map;
use crate::model::Gateway;
use crate::root::nat::{Linked, NONE, Spread, Translators};
use crate::root::nat_vrf::{VrfLimit, VrfLimitCounters};

/// The limits on the translations of routing domains, by their zones.
pub(super) fn vrf_limits(gateway: &Gateway, map: &Map) -> Vec<Option<u32>> {
    let limited =
        || gateway.vrfs.iter().zip(&map.nat_zones).filter(|(vrf, zone)| vrf.nat_limit.is_some() && **zone != NONE);
    let count = limited().map(|(_, &zone)| usize::from(zone) + 1).max();
    let mut limits = vec![None; count.unwrap_or(0)];
    limited().for_each(|(vrf, &zone)| limits[usize::from(zone)] = vrf.nat_limit);
    limits
}

/// Whether limits are those in force.
pub(super) fn are_those(limits: &[Option<u32>], current: &Translators) -> bool {
    current.vrf_limits.iter().map(|own| own.as_ref().map(|own| own.most)).eq(limits.iter().copied())
}

/// Limits with the shares of so many workers. They keep their counters.
pub(super) fn shared(
    limits: &[Option<u32>],
    (domains, spread): (&[Option<Linked>], &[Option<Spread>]),
    current: &Translators,
    workers: usize,
) -> Arc<[Option<VrfLimit>]> {
    let of = |(zone, &most): (usize, &Option<u32>)| {
        let most = most?;
        let vrf = domains.get(zone).copied().flatten().map(|own| usize::from(own.vrf));
        let is_single = vrf.and_then(|vrf| spread.get(vrf)?.as_ref()).is_some_and(|own| own.is_single);
        let before = current.vrf_limit(zone as u16).map(|own| Arc::clone(&own.counters));
        Some(VrfLimit {
            most,
            share: if is_single { most } else { most.div_ceil(workers.max(1) as u32) },
            counters: before.unwrap_or_else(|| Arc::new(VrfLimitCounters::new(workers))),
        })
    };
    limits.iter().enumerate().map(of).collect()
}
