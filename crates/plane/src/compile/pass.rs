//! One compilation's routes, and what they lead to.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use weir_packet::wire::MacAddress;
use weir_packet::wire::ethernet::ethertype;

use super::map::Map;
use super::numbers::{Key, Numbers, Paths};
use super::prefix::is_link_local;
use super::stations::{Fixed, LearnedSet};
use crate::compile::rib::{Entry, Rib, Source};
use crate::model::{Gateway, InterfaceIndex, InterfaceKind, NextHop, Origin, PerFamily, Route, RouteTarget, Tag};
use crate::root::ecmp;
use crate::root::{Adjacencies, Adjacency, Forwarding, Interface, Kind, MAX_L2};

/// The targets of routes.
#[derive(Clone, Default)]
pub(super) struct Routing {
    pub(super) adjacencies: Adjacencies,
    /// Buckets of multipath sets, [`ecmp::BUCKETS`] each.
    pub(super) buckets: Vec<u32>,
    /// By number of the interface: its VLAN tags.
    pub(super) tags: Vec<Tags>,
}

/// The tags of an interface: outer and inner.
pub(super) type Tags = Option<(Tag, Option<u16>)>;

impl Routing {
    /// The buckets of a multipath set.
    pub(super) fn set(&self, set: u32) -> &[u32] {
        let start = set as usize * ecmp::BUCKETS;
        self.buckets.get(start..start + ecmp::BUCKETS).unwrap_or_default()
    }

    /// A route with this value can lead to an adjacency.
    fn leads_to(&self, forwarding: u32, adjacency: u32) -> bool {
        match Forwarding(forwarding).set() {
            Some(set) => self.set(set).contains(&adjacency),
            None => forwarding == adjacency,
        }
    }
}

/// The sources of neighbours' adjacencies.
#[derive(Clone, Copy)]
pub(super) struct Stations<'a> {
    pub(super) interfaces: &'a [Interface],
    pub(super) fixed: &'a Fixed,
    pub(super) learned: &'a LearnedSet,
}

impl Stations<'_> {
    /// The adjacency of a next hop, or of any neighbour on a link.
    pub(super) fn adjacency(self, number: u32, address: Option<IpAddr>, tags: Tags) -> Adjacency {
        let interface = &self.interfaces[number as usize];
        let fixed = || address.and_then(|address| self.fixed.get(number, address)).map(|mac| (mac, Kind::Rewrite));
        let learned = || {
            let learned = self.learned.get(number, address?)?;
            Some((learned.mac, if learned.stale { Kind::RewriteStale } else { Kind::Rewrite }))
        };
        let peer = || interface.peer.map(|mac| (MacAddress(mac), Kind::Rewrite));
        let known = fixed().or_else(learned).or_else(peer);
        let (mac, kind) = known.unwrap_or((MacAddress::ZERO, Kind::Neighbor));
        let (kind, (l2, l2_len)) = match interface.is_linkless {
            // There is one station at the other end, and it has no hardware address.
            true => (Kind::Rewrite, ([0; MAX_L2], 0)),
            false => (kind, link_layer(mac, interface.mac, tags)),
        };
        Adjacency { kind, l2_len, l2, port: interface.port, interface: number, mtu: interface.mtu, next_hop: address }
    }

    /// Returns the owner of an address as a destination of its own, under the route that covers it. A neighbour counts
    /// only if that route leads onto its link: it overrules no more specific route elsewhere, and no discarding route.
    /// Of several links the configuration's come first, in its order, then the links where the address was learned, by
    /// number.
    pub(super) fn host(
        self,
        rib: &Rib,
        vrf: u16,
        address: IpAddr,
        numbers: &Numbers,
        routing: &Routing,
    ) -> Option<(u32, Origin)> {
        let (_, covering) = rib.covering_more(address)?;
        if rib.get(address.into()).is_some_and(|entry| entry.source != Source::Neighbor) {
            return None;
        }
        let fixed = self.fixed.at(address).iter().copied();
        let learned = self.learned.at(address).map(|number| (number, Origin::default()));
        fixed.chain(learned).find(|(number, _)| {
            let interface = self.interfaces.get(*number as usize);
            let on_link = numbers.adjacencies.known(&Key::NextHop(*number, None));
            interface.is_some_and(|interface| interface.present && interface.vrf == vrf)
                && on_link.is_some_and(|on_link| routing.leads_to(covering.forwarding, on_link))
        })
    }
}

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
        let mut ribs = vec![Rib::default(); self.numbers.vrfs.used().len()];
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
                RouteTarget::Local => (self.terminal(Kind::Local), Source::Local),
            };
            ribs[vrf].add(route.prefix, Entry { forwarding, source, origin: route.origin });
        }
        // What follows from what was learned is no part of the model: it may be gone before the next one comes.
        let nothing = LearnedSet::default();
        for neighbor in &gateway.neighbors {
            let number = self.map.interfaces[neighbor.interface.0 as usize];
            self.neighbor(&mut ribs, number, neighbor.address, &nothing);
        }
        ribs
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
                rib.add(own.net.addr().into(), Entry { forwarding, source: Source::Local, origin });
                match own.net {
                    IpNet::V4(net) if !interface.down => {
                        for end in ends(net) {
                            let entry = Entry { forwarding: broadcast, source: Source::Broadcast, origin };
                            rib.add(IpAddr::V4(end).into(), entry);
                        }
                    }
                    // The subnet's routers share its first address (RFC 4291, 2.6.1), but not where two routers are all
                    // that there is (RFC 6164).
                    IpNet::V6(net) if net.prefix_len() < 127 => {
                        let entry = Entry { forwarding: local, source: Source::Local, origin };
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
                    let entry = Entry { forwarding, source: Source::Connected, origin: own.origin };
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
        let stations = Stations { learned, ..self.stations() };
        if let Some((number, origin)) = stations.host(rib, vrf, address, self.numbers, self.routing) {
            let forwarding = self.next_hop(number, Some(address));
            rib.add(address.into(), Entry { forwarding, source: Source::Neighbor, origin });
        }
    }

    fn stations(&self) -> Stations<'_> {
        Stations { interfaces: self.interfaces, fixed: self.fixed, learned: self.learned }
    }

    fn terminal(&mut self, kind: Kind) -> u32 {
        self.set(Key::Terminal(kind), Adjacency::terminal(kind))
    }

    fn next_hop(&mut self, number: u32, address: Option<IpAddr>) -> u32 {
        let tags = self.routing.tags.get(number as usize).copied().flatten();
        let adjacency = self.stations().adjacency(number, address, tags);
        self.set(Key::NextHop(number, address), adjacency)
    }

    fn set(&mut self, key: Key, adjacency: Adjacency) -> u32 {
        let (number, _) = self.numbers.adjacencies.number(&key);
        self.routing.adjacencies.set(number, adjacency);
        number
    }

    /// Returns the target of a route over these paths; `None` if all of them are down. Flows keep the path that they
    /// had under `previous` where possible.
    fn via(&mut self, prefix: IpNet, paths: &[NextHop], previous: Option<Entry>) -> Option<u32> {
        // With who they are: interface and address outlive the numbers of adjacencies.
        let mut named: Vec<(NextHopName, (u32, u32))> = Vec::new();
        for path in paths {
            let number = self.number(path.interface);
            if self.interfaces[number as usize].down {
                continue;
            }
            // The one host of a host route on the link is its own next hop.
            let host = Some(prefix.addr()).filter(|_| prefix.prefix_len() == prefix.max_prefix_len());
            let name = (number, path.address.or(host));
            let adjacency = self.next_hop(name.0, name.1);
            // The same path named twice has the sum of its weights.
            match named.iter_mut().find(|(_, (other, _))| *other == adjacency) {
                Some((_, (_, weight))) => *weight += u32::from(path.weight),
                None => named.push((name, (adjacency, u32::from(path.weight)))),
            }
        }
        match named[..] {
            [] => return None,
            [(_, (adjacency, _))] => return Some(Forwarding::adjacency(adjacency).0),
            _ => named.sort_unstable(),
        }
        let weights: Paths = named.into_iter().map(|(_, path)| path).collect();
        let (set, new) = self.numbers.sets.number(&weights);
        if new {
            let before: Option<Vec<u32>> = previous.map(|entry| match Forwarding(entry.forwarding).set() {
                Some(set) => self.routing.set(set).to_vec(),
                None => vec![entry.forwarding; ecmp::BUCKETS],
            });
            let shared = ecmp::share(&weights, before.as_deref());
            let start = set as usize * ecmp::BUCKETS;
            let buckets = &mut self.routing.buckets;
            if buckets.len() < start + ecmp::BUCKETS {
                buckets.resize(start + ecmp::BUCKETS, Adjacency::NO_ROUTE);
            }
            buckets[start..start + ecmp::BUCKETS].copy_from_slice(&shared);
        }
        Some(Forwarding::multipath(set).0)
    }

    fn number(&self, index: InterfaceIndex) -> u32 {
        self.map.interfaces[index.0 as usize]
    }
}

/// The interface of a next hop, and its address.
type NextHopName = (u32, Option<IpAddr>);

/// The link-layer header towards a neighbour, with the ethertype of IPv4, and its length.
fn link_layer(to: MacAddress, from: [u8; 6], tags: Tags) -> ([u8; MAX_L2], u8) {
    let mut header = Vec::with_capacity(MAX_L2);
    header.extend(to.0);
    header.extend(from);
    header.extend(tag_octets(tags));
    header.extend(ethertype::IPV4.to_be_bytes());
    let mut l2 = [0; MAX_L2];
    l2[..header.len()].copy_from_slice(&header);
    (l2, header.len() as u8)
}

/// Returns the octets of the tags between the addresses and the EtherType of a frame.
pub(crate) fn tag_octets(tags: Option<(Tag, Option<u16>)>) -> Vec<u8> {
    let mut octets = Vec::new();
    if let Some((outer, inner)) = tags {
        octets.extend(outer.tpid.to_be_bytes());
        octets.extend(outer.vid.to_be_bytes());
        if let Some(inner) = inner {
            octets.extend(ethertype::VLAN.to_be_bytes());
            octets.extend(inner.to_be_bytes());
        }
    }
    octets
}

/// The addresses at both ends of a connected prefix, which no host has; none where every address is a host's
/// (RFC 3021, and single addresses).
fn ends(net: Ipv4Net) -> Vec<Ipv4Addr> {
    if net.prefix_len() >= 31 { Vec::new() } else { vec![net.network(), net.broadcast()] }
}
