//! Compiling a model into a root.
//!
//! The compiler remembers the numbers it gave to interfaces, VRFs, adjacencies and multipath sets, so that the next
//! version can share everything that did not change, forwarding tables above all: only routes that differ are written,
//! in one transaction per table, and nothing is visible before all of them succeeded.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_base::reclaim::Domain;
use weir_packet::wire::MacAddress;
use weir_packet::wire::ethernet::ethertype;
use weir_table::lpm::{self, Full, Prefix, Transaction, Value, Writer};

use crate::counters::InterfaceCounters;
use crate::ecmp;
use crate::model::{self, Gateway, InterfaceIndex, InterfaceKind, NextHop, Origin, RouteTarget};
use crate::rib::{Entry, Rib, Source};
use crate::root::{Adjacency, Demux, Forwarding, Interface, Kind, MAX_L2, NONE, Root, Tables, derived_mac};

/// Octets of forwarding table that a route may take on average before the table counts as full, and the least a table
/// may take: sparse IPv6 routes need a few cache lines each, real tables far less (ARCHITECTURE.md).
const BYTES_PER_ROUTE: usize = 512;
const LEAST_BYTES: usize = 16 << 20;

/// A table has no room for the routes of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("vrf {vrf}: route {prefix}: {full}")]
pub struct TableFull {
    /// The VRF.
    pub vrf: String,
    /// The route that did not fit.
    pub prefix: String,
    /// Where it was declared.
    pub origin: Origin,
    /// Which limit was met.
    pub full: Full,
}

/// A port that an interface of the model stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortPlace {
    /// Its number.
    pub number: u32,
    /// The hardware address it came with.
    pub mac: Option<[u8; 6]>,
}

/// Where a model's interfaces stand.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The port of every interface of kind `Port`, by the model's index.
    pub ports: HashMap<u32, PortPlace>,
    /// The number of the port that every punt device is, by the model's index of its interface.
    pub punts: HashMap<u32, u32>,
}

/// What the root takes over as it is.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Number of workers.
    pub workers: usize,
    /// Unresolved neighbours get a made-up hardware address.
    pub invent_neighbors: bool,
}

/// What an adjacency is for: equal keys keep their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Terminal(Kind),
    /// Interface number, and the next hop (or any neighbour on the link).
    NextHop(u32, Option<IpAddr>),
}

/// A multipath set: (adjacency, weight), sorted.
type Paths = Vec<(u32, u32)>;

/// The numbers given so far.
#[derive(Clone, Default)]
struct Numbers {
    interfaces: HashMap<String, u32>,
    vrfs: Numbered<String>,
    adjacencies: Numbered<Key>,
    sets: Numbered<Paths>,
}

/// Numbers for keys; a number is free again when nothing used its key in a whole compilation.
#[derive(Clone)]
struct Numbered<K> {
    numbers: HashMap<K, u32>,
    used: Vec<bool>,
    free: Vec<u32>,
}

impl<K> Default for Numbered<K> {
    fn default() -> Self {
        Numbered { numbers: HashMap::new(), used: Vec::new(), free: Vec::new() }
    }
}

impl<K: Clone + Eq + std::hash::Hash> Numbered<K> {
    fn begin(&mut self) {
        self.used.fill(false);
    }

    /// The number of a key, and whether it is new.
    fn number(&mut self, key: &K) -> (u32, bool) {
        if let Some(&number) = self.numbers.get(key) {
            self.used[number as usize] = true;
            return (number, false);
        }
        let number = self.free.pop().unwrap_or(self.used.len() as u32);
        if number as usize == self.used.len() {
            self.used.push(true);
        }
        self.used[number as usize] = true;
        self.numbers.insert(key.clone(), number);
        (number, true)
    }

    /// Frees what was not used, for the next compilation: the root of this one knows nothing of it.
    fn end(&mut self) {
        let Numbered { numbers, used, free } = self;
        numbers.retain(|_, number| {
            let keep = used[*number as usize];
            if !keep {
                free.push(*number);
            }
            keep
        });
    }
}

struct Writers {
    v4: Writer<u32>,
    v6: Writer<u128>,
}

/// Turns models into roots, one after another.
pub struct Compiler {
    domain: Domain,
    settings: Settings,
    numbers: Numbers,
    writers: Vec<Writers>,
    ribs: Vec<Rib>,
    adjacencies: Vec<Adjacency>,
    buckets: Vec<u32>,
    interfaces: Vec<Interface>,
    generation: u64,
    limit: usize,
}

/// How a model's numbers relate to a root's.
#[derive(Debug, Clone, Default)]
pub struct Map {
    /// By the model's index of an interface: its number.
    pub interfaces: Vec<u32>,
    /// By the model's index of a VRF: its number.
    pub vrfs: Vec<u16>,
}

impl Compiler {
    /// A compiler that has compiled nothing. `limits` bound the tables of every VRF.
    pub fn new(domain: &Domain, settings: Settings, limits: model::Limits) -> Self {
        Compiler {
            domain: domain.clone(),
            settings,
            numbers: Numbers::default(),
            writers: Vec::new(),
            ribs: Vec::new(),
            adjacencies: Vec::new(),
            buckets: Vec::new(),
            interfaces: Vec::new(),
            generation: 0,
            limit: limits.routes as usize,
        }
    }

    /// Compiles a model whose interfaces stand at `places`.
    ///
    /// # Errors
    /// When a table has no room; then everything is as it was.
    pub fn compile(&mut self, gateway: &Gateway, places: &Places) -> Result<(Root, Map), TableFull> {
        let mut numbers = self.numbers.clone();
        numbers.adjacencies.begin();
        numbers.sets.begin();
        numbers.vrfs.begin();
        let map = Map {
            interfaces: gateway
                .interfaces
                .iter()
                .map(|interface| assign(&mut numbers.interfaces, &interface.name))
                .collect(),
            vrfs: gateway.vrfs.iter().map(|vrf| numbers.vrfs.number(&vrf.name).0 as u16).collect(),
        };
        let mut interfaces = self.interfaces(gateway, places, &map);
        let mut pass = Pass {
            gateway,
            map: &map,
            interfaces: &interfaces,
            numbers: &mut numbers,
            adjacencies: self.adjacencies.clone(),
            buckets: self.buckets.clone(),
            macs: gateway
                .neighbors
                .iter()
                .map(|neighbor| ((neighbor.interface, neighbor.address), neighbor.mac))
                .collect(),
            previous: &self.ribs,
        };
        let ribs = pass.ribs();
        let links = pass.links();
        let (adjacencies, buckets) = (pass.adjacencies, pass.buckets);
        for (&number, (on_link, link_local)) in map.interfaces.iter().zip(links) {
            let interface = &mut interfaces[number as usize];
            (interface.on_link, interface.link_local) = (on_link, link_local.into());
        }
        let tables = self.write(gateway, &map, &ribs)?;

        numbers.adjacencies.end();
        numbers.sets.end();
        numbers.vrfs.end();
        self.numbers = numbers;
        self.ribs = ribs;
        self.adjacencies = adjacencies;
        self.buckets = buckets;
        self.interfaces = interfaces;
        self.generation += 1;
        let root = Root {
            generation: self.generation,
            ports: demux(gateway, &map, &self.interfaces),
            interfaces: self.interfaces.clone(),
            vrfs: tables,
            adjacencies: self.adjacencies.clone(),
            buckets: self.buckets.clone().into(),
            icmp: gateway.icmp,
            invent_neighbors: self.settings.invent_neighbors,
        };
        Ok((root, map))
    }

    /// The routes of each VRF number, as last compiled.
    pub fn ribs(&self) -> &[Rib] {
        &self.ribs
    }

    /// The paths of a multipath set: (adjacency, weight).
    pub fn paths(&self, set: u32) -> &[(u32, u32)] {
        let mut sets = self.numbers.sets.numbers.iter();
        sets.find(|&(_, &number)| number == set).map_or(&[], |(paths, _)| paths)
    }

    /// Frees what readers have passed.
    pub fn collect(&mut self) {
        for writers in &mut self.writers {
            writers.v4.collect();
            writers.v6.collect();
        }
    }

    /// How full the tables of each VRF number are.
    pub fn occupancy(&self) -> impl Iterator<Item = (lpm::Stats, lpm::Stats)> {
        self.writers.iter().map(|writers| (writers.v4.stats(), writers.v6.stats()))
    }

    /// Interfaces by number. Those that the model no longer has stay as holes.
    fn interfaces(&self, gateway: &Gateway, places: &Places, map: &Map) -> Vec<Interface> {
        let mut interfaces = self.interfaces.clone();
        interfaces.iter_mut().for_each(|interface| interface.present = false);
        let mut macs: Vec<[u8; 6]> = Vec::new();
        let mut numbers: Vec<u32> = Vec::new();
        for (index, interface) in gateway.interfaces.iter().enumerate() {
            let (port, inherited) = match &interface.kind {
                InterfaceKind::Port { .. } => {
                    let place = places.ports.get(&(index as u32));
                    (place.map_or(NONE, |place| place.number), place.and_then(|place| place.mac))
                }
                // A VLAN interface stands after its parent.
                InterfaceKind::Vlan { parent, .. } => (numbers[parent.0 as usize], Some(macs[parent.0 as usize])),
            };
            let mac = interface.mac.map(|mac| mac.0).or(inherited).unwrap_or(derived_mac(&interface.name).0);
            macs.push(mac);
            numbers.push(port);
            let number = map.interfaces[index] as usize;
            let counters = match interfaces.get(number) {
                Some(known) => known.counters.clone(),
                None => (0..self.settings.workers).map(|_| InterfaceCounters::default()).collect(),
            };
            let compiled = Interface {
                present: true,
                name: interface.name.as_str().into(),
                port,
                vrf: map.vrfs[usize::from(interface.vrf.0)],
                mac,
                mtu: interface.mtu,
                addresses: interface.addresses.as_slice().into(),
                punt: places.punts.get(&(index as u32)).copied().unwrap_or(NONE),
                on_link: Adjacency::NO_ROUTE,
                link_local: Arc::default(),
                counters,
            };
            // New numbers come in ascending order, one past the last.
            match interfaces.get_mut(number) {
                Some(slot) => *slot = compiled,
                None => interfaces.push(compiled),
            }
        }
        interfaces
    }

    /// Writes what differs into the tables; all or nothing.
    fn write(&mut self, gateway: &Gateway, map: &Map, ribs: &[Rib]) -> Result<Vec<Tables>, TableFull> {
        let limits = lpm::Limits {
            max_routes: self.limit,
            max_bytes: self.limit.saturating_mul(BYTES_PER_ROUTE).clamp(LEAST_BYTES, 4 << 30),
        };
        while self.writers.len() < ribs.len() {
            let writers = Writers { v4: Writer::new(&self.domain, limits), v6: Writer::new(&self.domain, limits) };
            self.writers.push(writers);
        }
        let none = Rib::default();
        let mut v4 = Vec::new();
        let mut v6 = Vec::new();
        for (number, (writers, rib)) in self.writers.iter_mut().zip(ribs).enumerate() {
            let old = self.ribs.get(number).unwrap_or(&none);
            let name = || {
                let index = map.vrfs.iter().position(|&vrf| usize::from(vrf) == number);
                index.map_or_else(String::new, |index| gateway.vrfs[index].name.clone())
            };
            v4.push(change(&mut writers.v4, &old.v4, &rib.v4, prefix_v4, name)?);
            v6.push(change(&mut writers.v6, &old.v6, &rib.v6, prefix_v6, name)?);
        }
        // Nothing can fail from here on.
        let commit =
            |(v4, v6): (Transaction<'_, u32>, Transaction<'_, u128>)| Tables { v4: v4.commit(), v6: v6.commit() };
        Ok(v4.into_iter().zip(v6).map(commit).collect())
    }
}

/// Writes the differences between two sets of routes into a draft of their table.
fn change<'w, K: lpm::Key, N: Copy + Eq + std::hash::Hash + std::fmt::Display>(
    writer: &'w mut Writer<K>,
    old: &HashMap<N, Entry>,
    new: &HashMap<N, Entry>,
    prefix: impl Fn(N) -> Prefix<K>,
    vrf: impl Fn() -> String,
) -> Result<Transaction<'w, K>, TableFull> {
    let mut draft = writer.transaction();
    // Removals first: what they free may be needed.
    for net in old.keys().filter(|net| !new.contains_key(net)) {
        draft.remove(&prefix(*net));
    }
    for (&net, entry) in new {
        if old.get(&net).is_some_and(|old| old.forwarding == entry.forwarding) {
            continue;
        }
        let Some(value) = Value::new(entry.forwarding) else { continue };
        draft.insert(prefix(net), value).map_err(|full| TableFull {
            vrf: vrf(),
            prefix: net.to_string(),
            origin: entry.origin,
            full,
        })?;
    }
    Ok(draft)
}

fn prefix_v4(net: Ipv4Net) -> Prefix<u32> {
    Prefix::new(u32::from(net.network()), net.prefix_len()).unwrap_or(Prefix::ALL)
}

fn prefix_v6(net: Ipv6Net) -> Prefix<u128> {
    Prefix::new(u128::from(net.network()), net.prefix_len()).unwrap_or(Prefix::ALL)
}

/// The number of a name; new names get the next one. Never reused: packets on their way between workers carry it.
fn assign(numbers: &mut HashMap<String, u32>, name: &str) -> u32 {
    let next = numbers.len() as u32;
    *numbers.entry(name.to_owned()).or_insert(next)
}

/// What the ports' frames belong to.
fn demux(gateway: &Gateway, map: &Map, interfaces: &[Interface]) -> Vec<Demux> {
    let numbers = interfaces.iter().flat_map(|interface| [interface.port, interface.punt]);
    let count = numbers.filter(|&number| number != NONE).map(|number| number + 1).max();
    let mut untagged = vec![NONE; count.unwrap_or(0) as usize];
    let mut hosts = untagged.clone();
    let mut tagged: Vec<HashMap<(u16, u16, u16), u32>> = vec![HashMap::new(); untagged.len()];
    for (index, interface) in gateway.interfaces.iter().enumerate() {
        let number = map.interfaces[index];
        let port = interfaces[number as usize].port as usize;
        if let Some(host) = hosts.get_mut(interfaces[number as usize].punt as usize) {
            *host = number;
        }
        match interface.kind {
            _ if port >= untagged.len() => {}
            InterfaceKind::Port { .. } => untagged[port] = number,
            InterfaceKind::Vlan { outer, inner, .. } => {
                tagged[port].insert((outer.tpid, outer.vid, inner.unwrap_or(0)), number);
            }
        }
    }
    let ports = untagged.into_iter().zip(hosts).zip(tagged);
    ports.map(|((untagged, host), tagged)| Demux { untagged, host, tagged: tagged.into() }).collect()
}

/// One compilation's routes and what they lead to.
struct Pass<'a> {
    gateway: &'a Gateway,
    map: &'a Map,
    interfaces: &'a [Interface],
    numbers: &'a mut Numbers,
    adjacencies: Vec<Adjacency>,
    buckets: Vec<u32>,
    macs: HashMap<(InterfaceIndex, IpAddr), MacAddress>,
    previous: &'a [Rib],
}

impl Pass<'_> {
    /// The routes of every VRF number, the strongest of each prefix.
    fn ribs(&mut self) -> Vec<Rib> {
        // Number 0 is what tables answer when they have no route.
        self.terminal(Kind::NoRoute);
        let mut ribs = vec![Rib::default(); self.numbers.vrfs.used.len()];
        let gateway = self.gateway;
        let local = self.terminal(Kind::Local);
        let broadcast = self.terminal(Kind::Broadcast);
        for interface in &gateway.interfaces {
            let rib = &mut ribs[usize::from(self.map.vrfs[usize::from(interface.vrf.0)])];
            for address in interface.addresses.iter().filter(|address| !is_link_local(address.net.addr())) {
                rib.add(
                    address.net.addr().into(),
                    Entry { forwarding: local, source: Source::Local, origin: address.origin },
                );
                match address.net {
                    IpNet::V4(net) => {
                        for end in ends(net) {
                            let entry =
                                Entry { forwarding: broadcast, source: Source::Broadcast, origin: address.origin };
                            rib.add(IpAddr::V4(end).into(), entry);
                        }
                    }
                    // The subnet's routers share its first address (RFC 4291, 2.6.1), but not where two routers are all
                    // that there is (RFC 6164).
                    IpNet::V6(net) if net.prefix_len() < 127 => {
                        let entry = Entry { forwarding: local, source: Source::Local, origin: address.origin };
                        rib.add(IpAddr::V6(net.network()).into(), entry);
                    }
                    IpNet::V6(_) => {}
                }
            }
        }
        for (index, interface) in gateway.interfaces.iter().enumerate() {
            let vrf = usize::from(self.map.vrfs[usize::from(interface.vrf.0)]);
            for address in interface.addresses.iter().filter(|address| !is_link_local(address.net.addr())) {
                let forwarding = self.next_hop(InterfaceIndex(index as u32), None);
                ribs[vrf]
                    .add(address.net.trunc(), Entry { forwarding, source: Source::Connected, origin: address.origin });
            }
        }
        for route in &gateway.routes {
            let vrf = usize::from(self.map.vrfs[usize::from(route.vrf.0)]);
            let previous = self.previous.get(vrf).and_then(|rib| rib.get(route.prefix));
            let (forwarding, source) = match &route.target {
                RouteTarget::Via(paths) => (self.via(route.prefix, paths, previous), Source::Static),
                RouteTarget::Blackhole => (self.terminal(Kind::Blackhole), Source::Blackhole),
                RouteTarget::Unreachable => (self.terminal(Kind::Unreachable), Source::Unreachable),
                RouteTarget::Local => (local, Source::Local),
            };
            ribs[vrf].add(route.prefix, Entry { forwarding, source, origin: route.origin });
        }
        for neighbor in gateway.neighbors.iter().filter(|neighbor| !is_link_local(neighbor.address)) {
            let interface = &gateway.interfaces[neighbor.interface.0 as usize];
            let rib = &mut ribs[usize::from(self.map.vrfs[usize::from(interface.vrf.0)])];
            // A neighbour is a destination only where the route for its address leads onto its link: it overrules no
            // more specific route elsewhere, and none that discards.
            let on_link = self.next_hop(neighbor.interface, None);
            let leads_there = |entry: Entry| match Forwarding(entry.forwarding).set() {
                Some(set) => self.set(set).contains(&on_link),
                None => entry.forwarding == on_link,
            };
            if rib.covering(neighbor.address).is_some_and(|(_, entry)| leads_there(entry)) {
                let forwarding = self.next_hop(neighbor.interface, Some(neighbor.address));
                let entry = Entry { forwarding, source: Source::Neighbor, origin: neighbor.origin };
                rib.add(neighbor.address.into(), entry);
            }
        }
        ribs
    }

    /// What leads to each interface's link: the adjacency of anybody on it, and those of its link-local neighbours.
    fn links(&mut self) -> Vec<(u32, HashMap<Ipv6Addr, u32>)> {
        let interfaces = (0..self.gateway.interfaces.len()).map(|index| InterfaceIndex(index as u32));
        let mut links: Vec<_> = interfaces.map(|index| (self.next_hop(index, None), HashMap::new())).collect();
        for neighbor in &self.gateway.neighbors {
            if let IpAddr::V6(address) = neighbor.address
                && address.is_unicast_link_local()
            {
                let number = self.next_hop(neighbor.interface, Some(neighbor.address));
                links[neighbor.interface.0 as usize].1.insert(address, number);
            }
        }
        links
    }

    fn terminal(&mut self, kind: Kind) -> u32 {
        self.adjacency(Key::Terminal(kind), Adjacency::terminal(kind))
    }

    /// The adjacency of a next hop, or of any neighbour on a link.
    fn next_hop(&mut self, index: InterfaceIndex, address: Option<IpAddr>) -> u32 {
        let number = self.map.interfaces[index.0 as usize];
        let interface = &self.interfaces[number as usize];
        let mac = address.and_then(|address| self.macs.get(&(index, address)));
        let (l2, l2_len) = link_layer(self.gateway, index, mac.copied().unwrap_or(MacAddress::ZERO), interface.mac);
        let adjacency = Adjacency {
            kind: if mac.is_some() { Kind::Rewrite } else { Kind::Neighbor },
            l2_len,
            l2,
            port: interface.port,
            interface: number,
            mtu: interface.mtu,
            next_hop: address,
        };
        self.adjacency(Key::NextHop(number, address), adjacency)
    }

    fn adjacency(&mut self, key: Key, adjacency: Adjacency) -> u32 {
        let (number, _) = self.numbers.adjacencies.number(&key);
        if self.adjacencies.len() <= number as usize {
            self.adjacencies.resize(number as usize + 1, Adjacency::terminal(Kind::NoRoute));
        }
        self.adjacencies[number as usize] = adjacency;
        number
    }

    /// What a route over these paths leads to. Flows keep the path they had under `previous` where they can.
    fn via(&mut self, prefix: IpNet, paths: &[NextHop], previous: Option<Entry>) -> u32 {
        let mut weights: Paths = Vec::new();
        for path in paths {
            // The one host of a host route is the next hop where the route is on the link and the host is known there.
            let host = Some(prefix.addr()).filter(|&host| {
                prefix.prefix_len() == prefix.max_prefix_len() && self.macs.contains_key(&(path.interface, host))
            });
            let adjacency = self.next_hop(path.interface, path.address.or(host));
            // The same path named twice has the sum of its weights.
            match weights.iter_mut().find(|(other, _)| *other == adjacency) {
                Some((_, weight)) => *weight += u32::from(path.weight),
                None => weights.push((adjacency, u32::from(path.weight))),
            }
        }
        if let [(adjacency, _)] = weights[..] {
            return Forwarding::adjacency(adjacency).0;
        }
        weights.sort_unstable();
        let (set, new) = self.numbers.sets.number(&weights);
        if new {
            let before: Option<Vec<u32>> = previous.map(|entry| match Forwarding(entry.forwarding).set() {
                Some(set) => self.set(set).to_vec(),
                None => vec![entry.forwarding; ecmp::BUCKETS],
            });
            let buckets = ecmp::share(&weights, before.as_deref());
            let start = set as usize * ecmp::BUCKETS;
            if self.buckets.len() < start + ecmp::BUCKETS {
                self.buckets.resize(start + ecmp::BUCKETS, Adjacency::NO_ROUTE);
            }
            self.buckets[start..start + ecmp::BUCKETS].copy_from_slice(&buckets);
        }
        Forwarding::multipath(set).0
    }

    fn set(&self, set: u32) -> &[u32] {
        let start = set as usize * ecmp::BUCKETS;
        self.buckets.get(start..start + ecmp::BUCKETS).unwrap_or_default()
    }
}

/// The link-layer header towards a neighbour, with the ethertype of IPv4, and its length.
fn link_layer(gateway: &Gateway, index: InterfaceIndex, to: MacAddress, from: [u8; 6]) -> ([u8; MAX_L2], u8) {
    let mut header = Vec::with_capacity(MAX_L2);
    header.extend(to.0);
    header.extend(from);
    if let InterfaceKind::Vlan { outer, inner, .. } = gateway.interfaces[index.0 as usize].kind {
        header.extend(outer.tpid.to_be_bytes());
        header.extend(outer.vid.to_be_bytes());
        if let Some(inner) = inner {
            header.extend(ethertype::VLAN.to_be_bytes());
            header.extend(inner.to_be_bytes());
        }
    }
    header.extend(ethertype::IPV4.to_be_bytes());
    let mut l2 = [0; MAX_L2];
    l2[..header.len()].copy_from_slice(&header);
    (l2, header.len() as u8)
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The addresses at both ends of a connected prefix, which no host has; none where every address is a host's
/// (RFC 3021, and single addresses).
fn ends(net: Ipv4Net) -> Vec<Ipv4Addr> {
    if net.prefix_len() >= 31 { Vec::new() } else { vec![net.network(), net.broadcast()] }
}
