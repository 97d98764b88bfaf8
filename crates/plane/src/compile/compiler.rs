//! The compiler: its state, and compiling a model in two parts.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use weir_base::reclaim::Domain;
use weir_packet::wire::{MacAddress, nd};
use weir_table::lpm::{self, Prefix, Transaction, Value, Writer};
use weir_table::sav::NoRoom;

use super::acl;
use super::allow;
use super::bindings;
use super::concerns::Concerns;
use super::hops::Routing;
use super::ipsec;
use super::map::{Map, Places, PortPlace, Settings};
use super::nat;
use super::noted::Noted;
use super::numbers::{Numbers, assign};
use super::pass::Pass;
use super::prefix::{is_link_local, prefix_v4, prefix_v6};
use super::rubbish::Rubbish;
use super::sav;
use super::sources::Sources;
use super::spd;
use super::stations::{Fixed, LearnedSet};
use super::table_full::{TableFull, most_bytes};
use super::tunnel;
use crate::compile::rib::{Entry, Rib};
use crate::model::{self, Address, FlowTable, Gateway, IcmpLimits, InterfaceKind, Origin, PerFamily};
use crate::root::acl::Access;
use crate::root::sampler::Sampler;
use crate::root::{
    Adjacency, Changes, Demux, Interface, InterfaceCounters, LinkLocals, NONE, Pending, Root, TUNNEL, Tables,
    derived_mac,
};

/// The link-local addresses (RFC 4291, 2.5.6) have a prefix of this length on a link.
const LINK_LOCAL_LENGTH: u8 = 64;

/// The writers of the tables of a VRF.
pub(super) struct Writers {
    pub(super) v4: Writer<u32>,
    pub(super) v6: Writer<u128>,
}

/// Turns models into roots, one after another.
pub struct Compiler {
    pub(super) domain: Domain,
    pub(super) settings: Settings,
    pub(super) limit: usize,
    pub(super) numbers: Numbers,
    /// Written while others look at the rest.
    pub(super) writers: Mutex<Vec<Writers>>,
    /// How full their tables are.
    pub(super) occupancy: Vec<(lpm::Stats, lpm::Stats)>,
    /// The routes that were written into the tables.
    pub(super) ribs: Vec<Rib>,
    pub(super) tables: Vec<Tables>,
    pub(super) routing: Routing,
    /// By number of the adjacency: the model uses it, whatever was learned.
    pub(super) based: Vec<bool>,
    pub(super) fixed: Fixed,
    pub(super) learned: LearnedSet,
    pub(super) interfaces: Vec<Interface>,
    pub(super) ports: Arc<[Demux]>,
    pub(super) icmp: IcmpLimits,
    pub(super) flow_table: FlowTable,
    /// By number of the interface: all addresses, in the order of the model.
    pub(super) addresses: Vec<Vec<Address>>,
    /// Whether `interfaces` differ from those of the last root.
    pub(super) changed: bool,
    /// The interfaces and buckets of the last root.
    pub(super) shown: Arc<[Interface]>,
    pub(super) buckets: Arc<[u32]>,
    pub(super) sav: sav::Store,
    pub(super) acl: acl::Store,
    pub(super) allow: allow::Store,
    pub(super) bindings: bindings::Store,
    pub(super) nat: nat::Store,
    pub(super) spd: spd::Store,
    pub(super) ipsec: ipsec::Store,
    pub(super) tunnels: tunnel::Store,
    /// Some interface of the model says which ethertypes may leave.
    pub(super) ethertypes_out: bool,
    pub(super) samplers: Arc<[Sampler]>,
    pub(super) generation: u64,
    pub(super) models: u64,
    pub(super) rubbish: Rubbish,
    pub(super) concerns: Concerns,
    /// Routes of other sources than the model.
    pub(super) sources: Sources,
    /// Next hops that sources have named since the last compilation.
    pub(super) clutter: usize,
}

/// A model that was compiled beside the one in force, for [`Compiler::commit`].
pub struct Prepared {
    map: Map,
    numbers: Numbers,
    interfaces: Vec<Interface>,
    fixed: Fixed,
    routing: Routing,
    ribs: Vec<Rib>,
    based: Vec<bool>,
    paths: Vec<Vec<u32>>,
    sets: Vec<Vec<u32>>,
    redirects: Vec<PerFamily<Option<u32>>>,
    sav: sav::Staged,
    acl: acl::Staged,
    allow: allow::Prepared,
    bindings: bindings::Prepared,
    nat: nat::Prepared,
    spd: spd::Prepared,
    tables: Vec<Tables>,
    /// The prefixes of routes that differ.
    differing: Noted,
}

impl Compiler {
    /// A compiler that has compiled nothing. `limits` bound the tables of every VRF.
    pub fn new(domain: &Domain, settings: Settings, limits: model::Limits) -> Self {
        Compiler {
            domain: domain.clone(),
            settings,
            limit: limits.routes as usize,
            numbers: Numbers::default(),
            writers: Mutex::default(),
            occupancy: Vec::new(),
            ribs: Vec::new(),
            tables: Vec::new(),
            routing: Routing::default(),
            based: Vec::new(),
            fixed: Fixed::default(),
            learned: LearnedSet::default(),
            interfaces: Vec::new(),
            ports: Arc::default(),
            icmp: IcmpLimits::default(),
            flow_table: FlowTable::default(),
            addresses: Vec::new(),
            changed: false,
            shown: Arc::default(),
            buckets: Arc::default(),
            sav: sav::Store::default(),
            acl: acl::Store::new(settings.workers),
            allow: allow::Store::default(),
            bindings: bindings::Store::default(),
            nat: nat::Store::default(),
            spd: spd::Store::default(),
            ipsec: ipsec::Store::default(),
            tunnels: tunnel::Store::default(),
            ethertypes_out: false,
            samplers: Arc::default(),
            generation: 0,
            models: 0,
            rubbish: Rubbish::default(),
            concerns: Concerns::default(),
            sources: Sources::default(),
            clutter: 0,
        }
    }

    /// Returns the interfaces of a model and their numbers as a compilation would give them. Changes nothing.
    pub fn outline(&self, gateway: &Gateway, places: &Places) -> (Map, Vec<Interface>) {
        let mut numbers = self.numbers.clone();
        let map = map(&mut numbers, gateway);
        let interfaces = self.interfaces(gateway, places, &map);
        (map, interfaces)
    }

    /// Returns the numbers of a model, once it is compiled: nothing is changed.
    pub(super) fn map_of(&self, gateway: &Gateway) -> Map {
        map(&mut self.numbers.clone(), gateway)
    }

    /// Compiles a model whose interfaces stand at `places`. What was learned of neighbours goes on where their interface
    /// does.
    ///
    /// # Errors
    /// When a table has no room; then everything is as it was.
    pub fn compile(&mut self, gateway: &Gateway, places: &Places) -> Result<(Root, Map), TableFull> {
        let prepared = self.prepare(gateway, places)?;
        let compiled = self.commit(gateway, prepared, true);
        drop(self.take_rubbish());
        Ok(compiled)
    }

    /// Compiles the model that was compiled last, now that its interfaces stand elsewhere: it does not count as another.
    ///
    /// # Errors
    /// As for [`Compiler::compile`].
    pub fn recompile(&mut self, gateway: &Gateway, places: &Places) -> Result<(Root, Map), TableFull> {
        let prepared = self.prepare(gateway, places)?;
        let compiled = self.commit(gateway, prepared, false);
        drop(self.take_rubbish());
        Ok(compiled)
    }

    /// The first part of compiling a model, which takes nearly all of its time. Nothing that others look at changes. If it
    /// succeeds [`Compiler::commit`] has to follow, before anything else changes.
    ///
    /// # Errors
    /// When a table has no room; then everything is as it was.
    pub fn prepare(&self, gateway: &Gateway, places: &Places) -> Result<Prepared, TableFull> {
        let mut numbers = self.numbers.clone();
        numbers.adjacencies.begin();
        numbers.sets.begin();
        numbers.vrfs.begin();
        let map = map(&mut numbers, gateway);
        let mut interfaces = self.interfaces(gateway, places, &map);
        let fixed = Fixed::new(gateway, &map.interfaces);
        let mut routing = self.routing.clone();
        let mut pass = Pass {
            gateway,
            map: &map,
            interfaces: &mut interfaces,
            numbers: &mut numbers,
            routing: &mut routing,
            fixed: &fixed,
            learned: &self.learned,
            previous: &self.ribs,
            sources: &self.sources,
        };
        let mut ribs = pass.base();
        let redirects = pass.redirects();
        let based = pass.numbers.adjacencies.used().to_vec();
        pass.learned(&mut ribs);
        let (paths, sets) = reverse(&numbers, &routing);
        let input = sav::Input {
            domain: &self.domain,
            workers: self.settings.workers,
            gateway,
            map: &map,
            numbers: &numbers.interfaces,
            ribs: &ribs,
            routing: &routing,
            sets: &sets,
            paths: &paths,
            redirects: &redirects,
        };
        let sav = self.sav.prepare(input)?;
        let bindings = self.bindings.prepare(&self.domain, self.settings.workers, gateway)?;
        let nat = self.nat.prepare(&self.domain, self.settings.workers, (gateway, &map), &interfaces)?;
        let spd = self.spd.prepare(&self.domain, self.settings.workers, (gateway, &map))?;
        let allow = self.allow.prepare(&self.domain, gateway)?;
        let acl = self.acl.prepare(acl::Input { domain: &self.domain, gateway, map: &map })?;
        let written = write(&self.domain, self.limit, &mut self.writers(), &self.ribs, gateway, &map, &ribs);
        let (tables, differing) = match written {
            Ok(written) => written,
            Err(full) => {
                self.acl.abandon(acl);
                return Err(full);
            }
        };
        numbers.adjacencies.end();
        numbers.sets.end();
        numbers.vrfs.end();
        Ok(Prepared {
            map,
            numbers,
            interfaces,
            fixed,
            routing,
            ribs,
            based,
            paths,
            sets,
            redirects,
            sav,
            acl,
            allow,
            bindings,
            nat,
            spd,
            tables,
            differing,
        })
    }

    /// The second part: it cannot fail, and takes moments. `counts`: the model counts as another than the one before.
    pub fn commit(&mut self, gateway: &Gateway, prepared: Prepared, counts: bool) -> (Root, Map) {
        let Prepared { map, numbers, mut interfaces, routing, ribs, .. } = prepared;
        let domain = self.domain.clone();
        let input = sav::Input {
            domain: &domain,
            workers: self.settings.workers,
            gateway,
            map: &map,
            numbers: &numbers.interfaces,
            ribs: &ribs,
            routing: &routing,
            sets: &prepared.sets,
            paths: &prepared.paths,
            redirects: &prepared.redirects,
        };
        let rubbish = &mut self.rubbish;
        self.sav.commit(prepared.sav, input, &mut interfaces, rubbish);
        self.acl.commit(prepared.acl, acl::Input { domain: &domain, gateway, map: &map }, &mut interfaces);
        self.allow.commit(prepared.allow, self.settings.workers, (gateway, &map), &mut interfaces, rubbish);
        self.bindings.commit(prepared.bindings, gateway, &map, &mut interfaces, rubbish);
        self.nat.commit(prepared.nat, (gateway, &map), &mut interfaces, rubbish);
        self.spd.commit(prepared.spd, (gateway, &map), &mut interfaces, rubbish);
        self.ipsec.commit(self.settings.workers, (gateway, &map), &interfaces);
        self.tunnels.commit(self.settings.workers, (gateway, &map), &interfaces);
        rubbish.push(std::mem::replace(&mut self.numbers, numbers));
        rubbish.push(std::mem::replace(&mut self.ribs, ribs));
        rubbish.push(std::mem::replace(&mut self.tables, prepared.tables));
        self.buckets = routing.buckets.as_slice().into();
        self.routing = routing;
        self.based = prepared.based;
        self.fixed = prepared.fixed;
        self.ports = demux(gateway, &map, &interfaces).into();
        self.addresses = vec![Vec::new(); interfaces.len()];
        for (interface, &number) in gateway.interfaces.iter().zip(&map.interfaces) {
            self.addresses[number as usize] = addresses(interface, MacAddress(interfaces[number as usize].mac));
        }
        self.interfaces = interfaces;
        self.changed = true;
        self.ethertypes_out = gateway.interfaces.iter().any(|interface| interface.access.ethertypes_out.is_some());
        self.icmp = gateway.icmp;
        self.flow_table = gateway.flow_table;
        self.samplers = self.samplers(gateway, &map).into();
        self.models += u64::from(counts);
        self.sources.keep(gateway);
        self.clutter = 0;
        self.concerns.noted().append(prepared.differing);
        self.count();
        (self.root(), map)
    }

    fn writers(&self) -> MutexGuard<'_, Vec<Writers>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of how full the tables are.
    pub(super) fn count(&mut self) {
        let occupancy = self.writers().iter().map(|writers| (writers.v4.stats(), writers.v6.stats())).collect();
        self.occupancy = occupancy;
    }

    /// Returns the replaced parts: dropping them takes time.
    pub fn take_rubbish(&mut self) -> Rubbish {
        let mut all = std::mem::take(&mut self.rubbish);
        all.append(&mut self.acl.rubbish);
        all
    }

    /// The next version of the root.
    pub(super) fn root(&mut self) -> Root {
        self.generation += 1;
        if std::mem::take(&mut self.changed) {
            self.shown = self.interfaces.clone().into();
        }
        self.concerns.noted().append(self.acl.take_noted());
        let mut root = Root {
            generation: self.generation,
            model: self.models,
            ports: Arc::clone(&self.ports),
            interfaces: Arc::clone(&self.shown),
            vrfs: self.tables.clone(),
            adjacencies: self.routing.adjacencies.clone(),
            pending: Pending::default(),
            buckets: Arc::clone(&self.buckets),
            sav: self.sav.current().clone(),
            acl: self.access(),
            allow: self.allow.current().clone(),
            bindings: self.bindings.current().clone(),
            nat: self.nat.current().clone(),
            spd: self.spd.current().clone(),
            ipsec: self.ipsec.current().clone(),
            tunnels: self.tunnels.current().clone(),
            ethertypes_out: self.ethertypes_out,
            samplers: Arc::clone(&self.samplers),
            icmp: self.icmp,
            flow_table: self.flow_table,
            invent_neighbors: self.settings.invent_neighbors,
            changes: Changes::default(),
        };
        root.changes = self.concerns.next(&self.domain, &root);
        root
    }

    /// The access lists. Sessions that go on in any case are looked for wherever there are lists.
    fn access(&self) -> Access {
        let access = self.acl.current().clone();
        match self.flow_table.recheck {
            true => access,
            false => Access { reflecting: access.reflecting.iter().map(|_| true).collect(), ..access },
        }
    }

    /// The sequence numbers of the outbound SAs of a model that is to come into force.
    pub(crate) fn announced_sequences(&mut self, gateway: &model::Gateway) -> crate::root::ipsec::Sequences {
        self.ipsec.announced(gateway)
    }

    /// The sequence numbers of each outbound key that was ever in force, by the digest of the key.
    pub fn sequences(&self) -> crate::root::ipsec::Sequences {
        self.ipsec.sequences()
    }

    /// The routes of each VRF number, as last compiled.
    pub fn ribs(&self) -> &[Rib] {
        &self.ribs
    }

    /// The paths of a multipath set: (adjacency, weight).
    pub fn paths(&self, set: u32) -> &[(u32, u32)] {
        self.numbers.sets.key(set).map_or(&[], Vec::as_slice)
    }

    /// Frees what readers have passed.
    pub fn collect(&mut self) {
        for writers in self.writers().iter_mut() {
            writers.v4.collect();
            writers.v6.collect();
        }
        self.count();
        self.acl.collect();
        self.allow.collect();
    }

    /// How full the tables of each VRF number are.
    pub fn occupancy(&self) -> impl Iterator<Item = (lpm::Stats, lpm::Stats)> {
        self.occupancy.iter().copied()
    }

    /// Returns the samplers by number. A sampler that the model no longer has leaves a hole.
    fn samplers(&self, gateway: &Gateway, map: &Map) -> Vec<Sampler> {
        let mut samplers: Vec<Sampler> = self.samplers.iter().map(Sampler::gone).collect();
        for (sampler, &number) in gateway.samplers.iter().zip(&map.samplers) {
            let compiled = Sampler::new(sampler, self.settings.workers, samplers.get(number as usize));
            // New numbers come in ascending order, one past the last.
            match samplers.get_mut(number as usize) {
                Some(slot) => *slot = compiled,
                None => samplers.push(compiled),
            }
        }
        samplers
    }

    /// Returns the interfaces by number. An interface that the model no longer has leaves a hole.
    fn interfaces(&self, gateway: &Gateway, places: &Places, map: &Map) -> Vec<Interface> {
        let mut interfaces = self.interfaces.clone();
        interfaces.iter_mut().for_each(|interface| interface.present = false);
        let mut stands: Vec<PortPlace> = Vec::new();
        for (index, interface) in gateway.interfaces.iter().enumerate() {
            let place = match &interface.kind {
                InterfaceKind::Port { .. } => {
                    let nowhere = PortPlace { number: NONE, ..PortPlace::default() };
                    places.ports.get(&(index as u32)).copied().unwrap_or(nowhere)
                }
                // A VLAN interface stands after its parent.
                InterfaceKind::Vlan { parent, .. } => stands[parent.0 as usize],
                InterfaceKind::Ipsec => PortPlace { number: NONE, ..PortPlace::default() },
                InterfaceKind::Tunnel(tunnel) => {
                    // Both ends may have one name, and have to differ.
                    let mac = derived_mac(&format!("{} {}", interface.name, tunnel.local));
                    PortPlace { number: TUNNEL, mac: Some(mac.0), ..PortPlace::default() }
                }
            };
            let mac = interface.mac.map(|mac| mac.0).or(place.mac).unwrap_or(derived_mac(&interface.name).0);
            stands.push(PortPlace { mac: Some(mac), ..place });
            let number = map.interfaces[index] as usize;
            let counters = match interfaces.get(number) {
                Some(known) => known.counters.clone(),
                None => (0..self.settings.workers).map(|_| InterfaceCounters::default()).collect(),
            };
            let unusable = |own: &Address| match own.net.addr() {
                IpAddr::V6(address) => places.unusable.contains(&(number as u32, address)),
                IpAddr::V4(_) => false,
            };
            let (tentative, addresses): (Vec<_>, Vec<_>) =
                addresses(interface, MacAddress(mac)).into_iter().partition(unusable);
            let compiled = Interface {
                present: true,
                name: interface.name.as_str().into(),
                port: place.number,
                peer: place.peer,
                is_linkless: interface.kind.is_linkless(),
                down: place.down,
                vrf: map.vrfs[usize::from(interface.vrf.0)],
                zone: map.zones[index],
                fast_path: interface.fast_path,
                mac,
                mtu: interface.mtu,
                addresses: addresses.into(),
                tentative: tentative.into(),
                punt: places.punts.get(&(index as u32)).copied().unwrap_or(NONE),
                on_link: Adjacency::NO_ROUTE,
                link_local: LinkLocals::default(),
                sav: PerFamily { v4: crate::root::sav::NONE, v6: crate::root::sav::NONE },
                acl_in: PerFamily { v4: crate::root::acl::NONE, v6: crate::root::acl::NONE },
                acl_out: PerFamily { v4: crate::root::acl::NONE, v6: crate::root::acl::NONE },
                allow: PerFamily { v4: crate::root::allow::NONE, v6: crate::root::allow::NONE },
                bindings: crate::root::bindings::NONE,
                nat: crate::root::nat::OfInterface::NONE,
                spd: crate::root::spd::NONE,
                ethertypes_in: interface.access.ethertypes_in.as_ref().map(|of| Arc::from(of.types.as_slice())),
                ethertypes_out: interface.access.ethertypes_out.as_ref().map(|of| Arc::from(of.types.as_slice())),
                broadcasts: Arc::default(),
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
}

/// Writes what differs into the tables; all or nothing. Gives the prefixes of routes that differ beside the tables.
fn write(
    domain: &Domain,
    limit: usize,
    all: &mut Vec<Writers>,
    before: &[Rib],
    gateway: &Gateway,
    map: &Map,
    ribs: &[Rib],
) -> Result<(Vec<Tables>, Noted), TableFull> {
    let limits = lpm::Limits { max_routes: limit, max_bytes: most_bytes(limit) };
    while all.len() < ribs.len() {
        let number = all.len();
        let refused = |full| {
            let vrf = map.vrfs.iter().position(|&vrf| usize::from(vrf) == number).map(|at| &gateway.vrfs[at]);
            TableFull {
                table: vrf.map_or_else(String::new, |vrf| format!("vrf {}", vrf.name)),
                prefix: String::new(),
                origin: vrf.map_or_else(Origin::default, |vrf| vrf.origin),
                full: NoRoom::Prefixes(full),
            }
        };
        let v4 = Writer::new(domain, limits).map_err(refused)?;
        let v6 = Writer::new(domain, limits).map_err(refused)?;
        all.push(Writers { v4, v6 });
    }
    let none = Rib::default();
    let mut differing = Noted::default();
    let mut v4 = Vec::new();
    let mut v6 = Vec::new();
    for (number, (writers, rib)) in all.iter_mut().zip(ribs).enumerate() {
        let old = before.get(number).unwrap_or(&none);
        let name = || {
            let index = map.vrfs.iter().position(|&vrf| usize::from(vrf) == number);
            index.map_or_else(String::new, |index| gateway.vrfs[index].name.clone())
        };
        v4.push(change(&mut writers.v4, (&old.v4, &rib.v4), prefix_v4, name, &mut differing)?);
        v6.push(change(&mut writers.v6, (&old.v6, &rib.v6), prefix_v6, name, &mut differing)?);
    }
    // Nothing can fail from here on.
    let commit = |(v4, v6): (Transaction<'_, u32>, Transaction<'_, u128>)| Tables { v4: v4.commit(), v6: v6.commit() };
    Ok((v4.into_iter().zip(v6).map(commit).collect(), differing))
}

/// The adjacencies and the interfaces of each multipath set, by its number.
pub(super) fn reverse(numbers: &Numbers, routing: &Routing) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
    let mut all = vec![Vec::new(); numbers.sets.used().len()];
    let mut sets = all.clone();
    for (paths, number) in numbers.sets.iter() {
        all[number as usize] = paths.iter().map(|&(adjacency, _)| adjacency).collect();
        let adjacencies = paths.iter().filter_map(|&(adjacency, _)| routing.adjacencies.get(adjacency as usize));
        sets[number as usize] = adjacencies.map(|adjacency| adjacency.interface).collect();
    }
    (all, sets)
}

/// Writes the differences between two sets of routes into a draft of their table.
fn change<'w, K: lpm::Key, N: Copy + Eq + std::hash::Hash + std::fmt::Display + Into<IpNet>>(
    writer: &'w mut Writer<K>,
    (old, new): (&HashMap<N, Entry>, &HashMap<N, Entry>),
    prefix: impl Fn(N) -> Prefix<K>,
    vrf: impl Fn() -> String,
    differing: &mut Noted,
) -> Result<Transaction<'w, K>, TableFull> {
    let mut draft = writer.transaction();
    // Removals first: what they free may be needed.
    for net in old.keys().filter(|net| !new.contains_key(net)) {
        draft.remove(&prefix(*net));
        differing.prefix((*net).into());
    }
    for (&net, entry) in new {
        if old.get(&net).is_some_and(|old| old.forwarding == entry.forwarding) {
            continue;
        }
        let Some(value) = Value::new(entry.forwarding) else { continue };
        differing.prefix(net.into());
        draft.insert(prefix(net), value).map_err(|full| TableFull {
            table: format!("vrf {}", vrf()),
            prefix: net.to_string(),
            origin: entry.origin,
            full: NoRoom::Prefixes(full),
        })?;
    }
    Ok(draft)
}

/// Returns the interfaces of the ports' frames.
fn demux(gateway: &Gateway, map: &Map, interfaces: &[Interface]) -> Vec<Demux> {
    let numbers = interfaces.iter().flat_map(|interface| [interface.port, interface.punt]);
    let count = numbers.filter(|&number| number != NONE && number != TUNNEL).map(|number| number + 1).max();
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
            InterfaceKind::Ipsec | InterfaceKind::Tunnel(_) => {}
        }
    }
    let ports = untagged.into_iter().zip(hosts).zip(tagged);
    ports.map(|((untagged, host), tagged)| Demux { untagged, host, tagged: tagged.into() }).collect()
}

/// The numbers of a model's interfaces and VRFs.
fn map(numbers: &mut Numbers, gateway: &Gateway) -> Map {
    Map {
        interfaces: gateway
            .interfaces
            .iter()
            .map(|interface| assign(&mut numbers.interfaces, &interface.name))
            .collect(),
        vrfs: gateway.vrfs.iter().map(|vrf| numbers.vrfs.number(&vrf.name).0 as u16).collect(),
        zones: gateway
            .interfaces
            .iter()
            .map(|interface| {
                let vrf = &gateway.vrfs[usize::from(interface.vrf.0)].name;
                let name = interface.zone.as_ref().map_or_else(|| format!("vrf {vrf}"), |zone| format!("zone {zone}"));
                // The number of a 65,537th zone is that of the first, whose sessions have long ended.
                assign(&mut numbers.zones, &name) as u16
            })
            .collect(),
        nat_zones: nat::zones(&mut numbers.zones, gateway),
        samplers: gateway.samplers.iter().map(|sampler| assign(&mut numbers.samplers, &sampler.name)).collect(),
        sas: gateway.sas.iter().map(|sa| assign(&mut numbers.sas, &sa.name)).collect(),
    }
}

/// The addresses of an interface: those of the model, and where there is IPv6 without a link-local address, the one that
/// follows from the hardware address (RFC 4291, 2.1 and appendix A). Its origin is weir itself.
fn addresses(interface: &model::Interface, mac: MacAddress) -> Vec<Address> {
    let mut addresses = interface.addresses.clone();
    let v6 = || interface.addresses.iter().filter(|own| own.net.addr().is_ipv6());
    if v6().next().is_some()
        && !v6().any(|own| is_link_local(own.net.addr()))
        && let Ok(net) = IpNet::new(IpAddr::V6(nd::link_local(mac)), LINK_LOCAL_LENGTH)
    {
        addresses.push(Address { net, origin: Origin::default() });
    }
    addresses
}
