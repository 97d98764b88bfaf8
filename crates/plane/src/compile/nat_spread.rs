//! The worker of packets in routing domains that translate: whether one worker has all of them.
//!
//! Both directions of a translation have to come to one worker. The remote address names it, which stays as it is. If the
//! inside host of a rule is behind an outside interface, the reply looks as if it came from a remote host, and names another worker
//! than the first packet. Then one worker has all packets of the domain.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::model::{
    Addresses, Interface, InterfaceIndex, NatIndex, NatList, NatMapping, NatRule, NatVerb, Route, VrfIndex,
};

use super::covering::{Destinations, find_routes};
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
        let mut hosts: BTreeSet<(VrfIndex, IpAddr)> = BTreeSet::new();
        let outside =
            || interfaces.iter().filter_map(|own| Some((own.vrf, own.nat?, nat.get(usize::from(own.nat?.0))?)));
        for (vrf, _, list) in outside() {
            own.by_rules[own.groups[usize::from(vrf.0)]] |= needs_one(list);
            let inside = list.rules.iter().flat_map(inside);
            hosts.extend(inside.map(|host| (vrf, host)));
        }
        if hosts.is_empty() {
            return own;
        }
        let hosts = ways(&hosts, interfaces, routes);
        for (vrf, index, list) in outside() {
            let is_outside = |by: &InterfaceIndex| {
                let by = &interfaces[by.0 as usize];
                by.nat.is_some() && own.groups[usize::from(by.vrf.0)] == own.groups[usize::from(vrf.0)]
            };
            for (place, rule) in list.rules.iter().enumerate() {
                let ways = inside(rule).into_iter().filter_map(|host| hosts.get(&(vrf, host)));
                let by = ways.flatten().copied().find(is_outside);
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

/// Returns the interfaces that the best link or route of each host leads to.
fn ways(
    hosts: &BTreeSet<(VrfIndex, IpAddr)>,
    interfaces: &[Interface],
    routes: &[Route],
) -> BTreeMap<(VrfIndex, IpAddr), Vec<InterfaceIndex>> {
    let mut all: Vec<_> = hosts.iter().map(|&(vrf, host)| Destinations::new(vrf, (host, host), ())).collect();
    find_routes(&mut all, interfaces, routes);
    let out = |own: &Destinations<()>| own.routes.first().map_or_else(Vec::new, |best| best.way.out(routes).collect());
    all.iter().map(|own| ((own.vrf, own.first), out(own))).collect()
}
