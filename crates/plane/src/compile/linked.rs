//! VRFs that translate together: routes of one lead to interfaces of the other, and one of them has rules that translate.

use crate::model::{Gateway, Interface, NatIndex, Route, RouteTarget};

/// Returns the group of each VRF, by index: the least index among the VRFs that its routes link it with.
pub(super) fn groups(gateway: &Gateway) -> Vec<usize> {
    groups_of(gateway.vrfs.len(), &gateway.interfaces, &gateway.routes)
}

pub(super) fn groups_of(vrfs: usize, interfaces: &[Interface], routes: &[Route]) -> Vec<usize> {
    let mut group: Vec<usize> = (0..vrfs).collect();
    if vrfs < 2 || interfaces.iter().all(|own| own.nat.is_none()) {
        return group;
    }
    for route in routes {
        let RouteTarget::Via(hops) = &route.target else { continue };
        for hop in hops.iter() {
            let other = interfaces[hop.interface.0 as usize].vrf;
            let ends = [route.vrf, other].map(|vrf| group[usize::from(vrf.0)]);
            if ends[0] != ends[1] {
                let (least, most) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
                group.iter_mut().filter(|own| **own == most).for_each(|own| *own = least);
            }
        }
    }
    group
}

/// Returns whether each VRF, by index, is of a group that translates.
pub(super) fn translating(gateway: &Gateway, groups: &[usize]) -> Vec<bool> {
    translating_of(&gateway.interfaces, groups, |_| true)
}

/// Returns whether each of so many VRFs, by index, has rules of one of the lists that `counts` names.
pub fn translating_vrfs(
    vrfs: usize,
    interfaces: &[Interface],
    routes: &[Route],
    counts: impl Fn(NatIndex) -> bool,
) -> Vec<bool> {
    translating_of(interfaces, &groups_of(vrfs, interfaces, routes), counts)
}

fn translating_of(interfaces: &[Interface], groups: &[usize], counts: impl Fn(NatIndex) -> bool) -> Vec<bool> {
    let mut translates = vec![false; groups.len()];
    for own in interfaces.iter().filter(|own| own.nat.is_some_and(&counts)) {
        translates[groups[usize::from(own.vrf.0)]] = true;
    }
    groups.iter().map(|&group| translates[group]).collect()
}

/// Returns whether each VRF, by index, translates together with another one.
pub(super) fn shared(gateway: &Gateway, groups: &[usize]) -> Vec<bool> {
    let is_shared = |own: &usize| groups.iter().filter(|other| *other == own).count() > 1;
    translating(gateway, groups).into_iter().zip(groups).map(|(translates, own)| translates && is_shared(own)).collect()
}
