//! One compilation's routes, and what they lead to.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::hops::{Hop, Hops, Resolved, Routing, Stations};
use super::map::Map;
use super::numbers::Numbers;
use super::prefix::is_link_local;
use super::sources::Sources;
use super::stations::{Fixed, LearnedSet};
use crate::compile::rib::{By, Entry, Rib, Source};
use crate::model::{
    Gateway, InterfaceIndex, InterfaceKind, NextHop, PerFamily, Route, RouteTarget, SteerRule, SteerWay,
};
use crate::root::{Interface, Kind};

/// One compilation.
pub(super) struct Pass<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) map: &'a Map,
    pub(super) interfaces: &'a mut Vec<Interface>,
    pub(super) numbers: &'a mut Numbers,
    pub(super) routing: &'a mut Routing,
    pub(super) fixed: &'a Fixed,
    pub(super) learned: &'a LearnedSet,
    pub(super) previous: &'a [Rib],
    /// Routes of other sources than the model.
    pub(super) sources: &'a Sources,
}

impl Pass<'_> {
    /// The routes of every VRF number, the strongest of each prefix, without what was learned.
    pub(super) fn base(&mut self) -> Vec<Rib> {
        // Number 0 is what tables answer when they have no route.
        self.terminal(Kind::NoRoute);
        let gateway = self.gateway;
        self.routing.tags = vec![None; self.interfaces.len()];
        for (index, interface) in gateway.interfaces.iter().enumerate() {
            if let InterfaceKind::Vlan { outer, inner, .. } = interface.kind {
                self.routing.tags[self.map.interfaces[index] as usize] = Some((outer, inner));
            }
        }
        let count = self.numbers.vrfs.used().len();
        let mut ribs: Vec<Rib> = (0..count).map(|number| Rib::with_room_of(self.previous.get(number))).collect();
        self.own_addresses(&mut ribs);
        self.connected(&mut ribs);
        let mut routes: Vec<&Route> = gateway.routes.iter().collect();
        // Of several routes for one prefix the best comes first; as it is, most often there are no metrics at all.
        routes.sort_by_key(|route| route.metric);
        for route in routes {
            let vrf = usize::from(self.map.vrfs[usize::from(route.vrf.0)]);
            let previous = self.previous.get(vrf).and_then(|rib| rib.get(route.prefix));
            let (forwarding, source) = match &route.target {
                RouteTarget::Via(paths) => match self.via(route.prefix, paths, previous) {
                    Some(forwarding) => (forwarding, Source::Static),
                    None => continue,
                },
                RouteTarget::Blackhole => (self.terminal(Kind::Blackhole), Source::Blackhole),
                RouteTarget::Unreachable => (self.terminal(Kind::Unreachable), Source::Unreachable),
                RouteTarget::Prohibit => (self.terminal(Kind::Prohibit), Source::Prohibit),
                RouteTarget::Local => (self.terminal(Kind::Local), Source::Local),
            };
            ribs[vrf].add(route.prefix, Entry { forwarding, source, by: By::Model, origin: route.origin });
        }
        self.add_from_sources(&mut ribs);
        // What follows from what was learned is no part of the model: it may be gone before the next one comes.
        let nothing = LearnedSet::default();
        for neighbor in &gateway.neighbors {
            let number = self.map.interfaces[neighbor.interface.0 as usize];
            self.neighbor(&mut ribs, number, neighbor.address, &nothing);
        }
        ribs
    }

    /// Adds the routes of other sources than the model. The routes of the model come first.
    fn add_from_sources(&mut self, ribs: &mut [Rib]) {
        let sources = self.sources;
        let mut resolved = Resolved::default();
        for (vrf, &number) in self.gateway.vrfs.iter().zip(&self.map.vrfs) {
            let number = usize::from(number);
            for (prefix, offers) in sources.of(&vrf.name) {
                for (by, target) in offers.each() {
                    let before = self.previous.get(number);
                    let previous = || before.and_then(|rib| rib.get(prefix));
                    let entry = self.hops().entry((prefix, by, target), previous, &mut resolved);
                    entry.into_iter().for_each(|entry| ribs[number].add(prefix, entry));
                }
            }
        }
    }

    /// Adds what was learned.
    pub(super) fn learned(&mut self, ribs: &mut [Rib]) {
        for (number, address) in self.learned.iter() {
            self.neighbor(ribs, number, address, self.learned);
        }
    }

    /// Where each policy redirects what is not valid, by place in the model: an adjacency for each family, and none while
    /// the link is down.
    pub(super) fn redirects(&mut self) -> Vec<PerFamily<Option<u32>>> {
        let gateway = self.gateway;
        let mut adjacency = |to: Option<NextHop>| {
            let NextHop { interface, address, .. } = to?;
            let number = self.number(interface);
            (!self.interfaces[number as usize].down).then(|| self.next_hop(number, address))
        };
        let each = gateway.sav.iter().map(|policy| policy.redirect);
        each.map(|to| PerFamily { v4: adjacency(to.v4), v6: adjacency(to.v6) }).collect()
    }

    /// The adjacency of each steer rule that redirects, by list and place; none while the link is down.
    pub(super) fn steered(&mut self) -> Vec<Vec<Option<u32>>> {
        let gateway = self.gateway;
        let mut adjacency = |rule: &SteerRule| {
            let SteerWay::To { hop: NextHop { interface, address, .. }, .. } = rule.way else { return None };
            let number = self.number(interface);
            (!self.interfaces[number as usize].down).then(|| self.next_hop(number, address))
        };
        gateway.steer.iter().map(|list| list.rules.iter().map(&mut adjacency).collect()).collect()
    }

    fn own_addresses(&mut self, ribs: &mut [Rib]) {
        let local = self.terminal(Kind::Local);
        let broadcast = self.terminal(Kind::Broadcast);
        // Nothing is done with what is for an address that is not ours yet (RFC 4862, 5.4).
        let tentative = self.terminal(Kind::Tentative);
        for &number in &self.map.interfaces {
            let interface = &self.interfaces[number as usize];
            let rib = &mut ribs[usize::from(interface.vrf)];
            let own = interface.addresses.iter().map(|own| (own, local));
            let own = own.chain(interface.tentative.iter().map(|own| (own, tentative)));
            for (own, forwarding) in own.filter(|(own, _)| !is_link_local(own.net.addr())) {
                let origin = own.origin;
                rib.add(own.net.addr().into(), Entry { forwarding, source: Source::Local, by: By::Model, origin });
                match own.net {
                    IpNet::V4(net) if !interface.down => {
                        for end in ends(net) {
                            let entry =
                                Entry { forwarding: broadcast, source: Source::Broadcast, by: By::Model, origin };
                            rib.add(IpAddr::V4(end).into(), entry);
                        }
                    }
                    // The subnet's routers share its first address (RFC 4291, 2.6.1), but not where two routers are all
                    // that there is (RFC 6164).
                    IpNet::V6(net) if net.prefix_len() < 127 => {
                        let entry = Entry { forwarding: local, source: Source::Local, by: By::Model, origin };
                        rib.add(IpAddr::V6(net.network()).into(), entry);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Adds the prefixes of the gateway's addresses whose link is up. Every interface has an adjacency for addresses on
    /// its link, used or not.
    fn connected(&mut self, ribs: &mut [Rib]) {
        for number in self.map.interfaces.clone() {
            let forwarding = self.next_hop(number, None);
            let interface = &mut self.interfaces[number as usize];
            interface.on_link = forwarding;
            if interface.down {
                continue;
            }
            for own in interface.addresses.iter().chain(interface.tentative.iter()) {
                if !is_link_local(own.net.addr()) {
                    let entry = Entry { forwarding, source: Source::Connected, by: By::Model, origin: own.origin };
                    ribs[usize::from(interface.vrf)].add(own.net.trunc(), entry);
                }
            }
        }
    }

    /// A neighbour becomes a destination of its own, if it is one; and an adjacency that is in use takes its hardware
    /// address.
    fn neighbor(&mut self, ribs: &mut [Rib], number: u32, address: IpAddr, learned: &LearnedSet) {
        let Some(interface) = self.interfaces.get(number as usize).filter(|interface| interface.present) else {
            return;
        };
        if let IpAddr::V6(link_local) = address
            && is_link_local(address)
        {
            let adjacency = self.next_hop(number, Some(address));
            self.interfaces[number as usize].link_local.set(link_local, Some(adjacency));
            return;
        }
        let vrf = interface.vrf;
        let rib = &mut ribs[usize::from(vrf)];
        let stations = Stations { interfaces: self.interfaces, fixed: self.fixed, learned };
        if let Some((number, origin)) = stations.host(rib, vrf, address, self.numbers, self.routing) {
            let forwarding = self.next_hop(number, Some(address));
            rib.add(address.into(), Entry { forwarding, source: Source::Neighbor, by: By::Model, origin });
        }
    }

    fn hops(&mut self) -> Hops<'_> {
        let stations = Stations { interfaces: self.interfaces, fixed: self.fixed, learned: self.learned };
        Hops { stations, numbers: self.numbers, routing: self.routing }
    }

    fn terminal(&mut self, kind: Kind) -> u32 {
        self.hops().terminal(kind)
    }

    /// Returns the target of packets of a family that go over these paths whatever their destination; `None` if all of them are
    /// down, or none is for the family.
    pub(super) fn everywhere(&mut self, v4: bool, paths: &[NextHop]) -> Option<u32> {
        let all = if v4 { IpNet::from(Ipv4Net::default()) } else { IpNet::from(Ipv6Net::default()) };
        if paths.is_empty() { None } else { self.via(all, paths, None) }
    }

    fn next_hop(&mut self, number: u32, address: Option<IpAddr>) -> u32 {
        self.hops().next_hop(number, address)
    }

    /// Returns the target of a route over these paths; `None` if all of them are down.
    fn via(&mut self, prefix: IpNet, paths: &[NextHop], previous: Option<Entry>) -> Option<u32> {
        let numbers = &self.map.interfaces;
        let hop = |path: &NextHop| Hop {
            interface: numbers[path.interface.0 as usize],
            address: path.address,
            weight: path.weight,
        };
        let hops: Vec<Hop> = paths.iter().map(hop).collect();
        self.hops().via(prefix, &hops, previous)
    }

    fn number(&self, index: InterfaceIndex) -> u32 {
        self.map.interfaces[index.0 as usize]
    }
}

/// The addresses at both ends of a connected prefix, which no host has; none where every address is a host's
/// (RFC 3021, and single addresses).
fn ends(net: Ipv4Net) -> Vec<Ipv4Addr> {
    if net.prefix_len() >= 31 { Vec::new() } else { vec![net.network(), net.broadcast()] }
}
