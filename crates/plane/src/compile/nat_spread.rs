//! The worker of packets in routing domains that translate: whether one worker has all of them.
//!
//! Both directions of a translation have to come to one worker. The remote address names it, which stays as it is. If the
//! inside host of a rule is behind an outside interface, the reply looks as if it came from a remote host, and names another worker
//! than the first packet. Then one worker has all packets of the domain.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::model::{
    Addresses, Interface, InterfaceIndex, NatIndex, NatList, NatMapping, NatRule, NatVerb, Route, RouteTarget, VrfIndex,
};

use super::linked::groups_of;
use super::nat_rule::{npt, spans};

/// A rule whose inside host is behind an outside interface, by the links and routes of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returning {
    /// The VRF of the interface that names the list.
    pub vrf: VrfIndex,
    /// The list.
    pub list: NatIndex,
    /// The place of the rule there.
    pub place: usize,
    /// The outside interface that packets leave by.
    pub by: InterfaceIndex,
}

/// The VRFs whose packets go to one worker.
#[derive(Debug, Default)]
pub struct OneWorker {
    /// The group of linked VRFs that each VRF belongs to, by index.
    groups: Vec<usize>,
    /// By group: whatever the routes are, its rules need one worker.
    by_rules: Vec<bool>,
    /// Rules that need one worker because of the way to their inside hosts.
    pub returning: Vec<Returning>,
}

impl OneWorker {
    /// Finds them among so many VRFs.
    pub fn new(vrfs: usize, interfaces: &[Interface], nat: &[NatList], routes: &[Route]) -> OneWorker {
        let mut own = OneWorker { by_rules: vec![false; vrfs], ..OneWorker::default() };
        if interfaces.iter().all(|own| own.nat.is_none()) {
            return own;
        }
        own.groups = groups_of(vrfs, interfaces, routes);
        let mut hosts: BTreeMap<(VrfIndex, IpAddr), Best> = BTreeMap::new();
        let outside =
            || interfaces.iter().filter_map(|own| Some((own.vrf, own.nat?, nat.get(usize::from(own.nat?.0))?)));
        for (vrf, _, list) in outside() {
            own.by_rules[own.groups[usize::from(vrf.0)]] |= needs_one(list);
            let inside = list.rules.iter().flat_map(inside);
            hosts.extend(inside.map(|host| ((vrf, host), Best::default())));
        }
        if hosts.is_empty() {
            return own;
        }
        look_up(&mut hosts, interfaces, routes);
        for (vrf, index, list) in outside() {
            let is_outside = |by: &InterfaceIndex| {
                let by = &interfaces[by.0 as usize];
                by.nat.is_some() && own.groups[usize::from(by.vrf.0)] == own.groups[usize::from(vrf.0)]
            };
            for (place, rule) in list.rules.iter().enumerate() {
                let ways = inside(rule).into_iter().filter_map(|host| hosts.get(&(vrf, host)));
                let by = ways.flat_map(|best| &best.by).copied().find(is_outside);
                let found = by.map(|by| Returning { vrf, list: index, place, by });
                own.returning.extend(found.filter(|found| !own.returning.contains(found)));
            }
        }
        own
    }

    /// Whatever the routes are, the rules of a VRF and of those linked with it need one worker.
    pub fn by_rules(&self, vrf: VrfIndex) -> bool {
        self.groups.get(usize::from(vrf.0)).is_some_and(|&group| self.by_rules[group])
    }

    /// All packets of a VRF go to one worker.
    pub(super) fn has(&self, vrf: VrfIndex) -> bool {
        let group = |vrf: VrfIndex| self.groups.get(usize::from(vrf.0));
        self.by_rules(vrf) || self.returning.iter().any(|own| group(own.vrf) == group(vrf))
    }
}

/// The rules of a list need one worker, whatever the routes are.
fn needs_one(list: &NatList) -> bool {
    let needs = |rule: &NatRule| match rule.verb {
        // Replies to a packet from outside whose both addresses change are for an outside address: they name no remote one.
        NatVerb::Both => true,
        NatVerb::Destination => rule.matches.to == Addresses::Any && !rule.to_interface,
        // One worker counts all translations of an address, and has all mappings.
        NatVerb::Source => rule.limit_per_address.is_some() || list.mapping != NatMapping::EndpointDependent,
        NatVerb::Map | NatVerb::Keep => false,
    };
    list.rules.iter().any(needs)
}

/// The first and the last inside address of each range that a rule gives to packets from outside.
fn inside(rule: &NatRule) -> Vec<IpAddr> {
    let addresses = match rule.verb {
        NatVerb::Map if npt(rule).is_none() => Some(&rule.matches.from),
        NatVerb::Destination => rule.destination.as_ref().and_then(|own| own.addresses.as_ref()),
        _ => None,
    };
    let spans = addresses.map(spans).unwrap_or_default();
    let v4 = spans.v4.iter().flat_map(|&(first, last)| [first, last]).map(|own| IpAddr::V4(own.into()));
    let v6 = spans.v6.iter().flat_map(|&(first, last)| [first, last]).map(|own| IpAddr::V6(own.into()));
    v4.chain(v6).collect()
}

/// The best of the routes that were looked at: the interfaces that it leads to.
#[derive(Default)]
struct Best {
    /// The length of its prefix, and its metric; `None`: no route.
    rank: Option<(u8, u32)>,
    by: Vec<InterfaceIndex>,
}

/// Looks addresses up in links and routes.
fn look_up(hosts: &mut BTreeMap<(VrfIndex, IpAddr), Best>, interfaces: &[Interface], routes: &[Route]) {
    let mut offer = |vrf: VrfIndex, prefix: ipnet::IpNet, metric: u32, by: &mut dyn FnMut() -> Vec<InterfaceIndex>| {
        for (_, best) in hosts.range_mut((vrf, prefix.network())..=(vrf, prefix.broadcast())) {
            let is_better =
                |(length, least): (u8, u32)| (prefix.prefix_len(), u32::MAX - metric) > (length, u32::MAX - least);
            if best.rank.is_none_or(is_better) {
                *best = Best { rank: Some((prefix.prefix_len(), metric)), by: by() };
            }
        }
    };
    for (index, interface) in (0..).zip(interfaces) {
        for address in interface.addresses.iter() {
            offer(interface.vrf, address.net, 0, &mut || vec![InterfaceIndex(index)]);
        }
    }
    for route in routes {
        offer(route.vrf, route.prefix, route.metric, &mut || match &route.target {
            RouteTarget::Via(hops) => hops.iter().map(|hop| hop.interface).collect(),
            _ => Vec::new(),
        });
    }
}
