//! The zones of translations: one for each routing domain that translates.

use std::collections::HashMap;
use std::sync::Arc;

use super::linked::translating;
use super::map::Map;
use super::numbers::assign;
use crate::model::{Gateway, Vrf};
use crate::root::nat::{Linked, NONE};

/// The zones of the translations of a model's routing domains, by index of the domain.
pub(super) fn zones(numbers: &mut HashMap<String, u32>, gateway: &Gateway, groups: &[usize]) -> Vec<u16> {
    let zone = |(vrf, translates): (&Vrf, bool)| match translates {
        true => assign(numbers, &format!("nat {}", vrf.name)) as u16,
        false => NONE,
    };
    gateway.vrfs.iter().zip(translating(gateway, groups)).map(zone).collect()
}

/// The numbers of the routing domains that one translates together with, and its own.
pub(super) fn linked(map: &Map, vrf: u16) -> Vec<u16> {
    let group = map.vrfs.iter().position(|own| *own == vrf).map(|at| map.nat_groups[at]);
    let of_group = map.vrfs.iter().zip(&map.nat_groups).filter(|(_, own)| Some(**own) == group);
    of_group.map(|(&vrf, _)| vrf).collect()
}

/// The routing domains by the zones of their translations.
pub(super) fn domains(map: &Map, ways: &[Option<u32>]) -> Arc<[Option<Linked>]> {
    let count = map.nat_zones.iter().filter(|zone| **zone != NONE).map(|&zone| usize::from(zone) + 1).max();
    let mut domains = vec![None; count.unwrap_or(0)];
    for (((&zone, &vrf), &group), &way) in map.nat_zones.iter().zip(&map.vrfs).zip(&map.nat_groups).zip(ways) {
        if zone != NONE {
            // A gateway has at most 65,536 of them.
            domains[usize::from(zone)] = Some(Linked { vrf, group: group as u32, way });
        }
    }
    domains.into()
}

/// The names of the routing domains by the zones of their translations.
pub(super) fn names(gateway: &Gateway, map: &Map) -> Arc<[Option<Arc<str>>]> {
    let count = map.nat_zones.iter().filter(|zone| **zone != NONE).map(|&zone| usize::from(zone) + 1).max();
    let mut names = vec![None; count.unwrap_or(0)];
    for (vrf, &zone) in gateway.vrfs.iter().zip(&map.nat_zones).filter(|(_, zone)| **zone != NONE) {
        names[usize::from(zone)] = Some(vrf.name.as_str().into());
    }
    names.into()
}
