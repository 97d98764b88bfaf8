//! The compiler: its state, and compiling a model in two parts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_base::reclaim::Domain;
use weir_packet::wire::MacAddress;
use weir_table::lpm;

use super::acl::{self, StagedAcls};
use super::allow;
use super::bindings;
use super::bridge;
use super::classify;
use super::concerns::Concerns;
use super::hops::Routing;
use super::interfaces::{self, addresses, demux, samplers};
use super::ipsec;
use super::linked;
use super::listless::Shown;
use super::map::{Map, Places, Settings};
use super::noted::Noted;
use super::numbers::{Numbers, assign};
use super::pass::Pass;
use super::rubbish::Rubbish;
use super::sav;
use super::segments;
use super::sources::Sources;
use super::spd;
use super::stations::{Fixed, LearnedSet};
use super::steer;
use super::table_full::TableFull;
use super::tables::{Writers, write};
use super::tunnel;
use super::{nat, nat_zones};
use crate::compile::rib::Rib;
use crate::model::{self, Address, FlowTable, Gateway, IcmpLimits, PerFamily};
use crate::root::acl::Access;
use crate::root::sampler::Sampler;
use crate::root::segments::PerSegment;
use crate::root::{Changes, Demux, Interface, Pending, Root, Tables};

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
    pub(super) shown: Shown,
    pub(super) buckets: Arc<[u32]>,
    pub(super) sav: sav::Store,
    pub(super) acl: acl::Store,
    pub(super) allow: allow::Store,
    pub(super) bindings: bindings::Store,
    pub(super) classify: classify::Store,
    pub(super) nat: nat::Store,
    pub(super) spd: spd::Store,
    steer: steer::Store,
    pub(super) ipsec: ipsec::Store,
    pub(super) tunnels: tunnel::Store,
    pub(super) bridges: bridge::Store,
    /// Some interface of the model says which ethertypes may leave.
    pub(super) ethertypes_out: bool,
    pub(super) merges_all: bool,
    /// Exemptions or rules that translate may match some segments of a super-packet, and others not.
    pub(super) per_segment: PerSegment,
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
    ways: classify::Ways,
    sav: sav::Staged,
    acl: StagedAcls,
    allow: allow::Prepared,
    bindings: bindings::Prepared,
    classify: classify::Prepared,
    nat: nat::Prepared,
    spd: spd::Prepared,
    steer: steer::Prepared,
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
            shown: Shown::default(),
            buckets: Arc::default(),
            sav: sav::Store::default(),
            acl: acl::Store::new(settings.workers),
            allow: allow::Store::default(),
            bindings: bindings::Store::new(domain),
            classify: classify::Store::new(settings.secret),
            nat: nat::Store::default(),
            spd: spd::Store::default(),
            steer: steer::Store::default(),
            ipsec: ipsec::Store::default(),
            tunnels: tunnel::Store::default(),
            bridges: bridge::Store::default(),
            ethertypes_out: false,
            merges_all: false,
            per_segment: PerSegment::default(),
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
        let interfaces = interfaces::interfaces(&self.interfaces, self.settings.workers, (gateway, &map), places);
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
        self.prepare_with(gateway, places, self.stage_acls(gateway)?)
    }

    /// Prepares a model as [`Compiler::prepare`] does, with access lists that were staged before.
    ///
    /// # Errors
    /// As for [`Compiler::prepare`].
    pub fn prepare_with(
        &self,
        gateway: &Gateway,
        places: &Places,
        mut acls: StagedAcls,
    ) -> Result<Prepared, TableFull> {
        match self.prepare_parts(gateway, places, &mut acls) {
            Ok(prepared) => Ok(Prepared { acl: acls, ..prepared }),
            Err(full) => {
                self.acl.abandon(acls);
                Err(full)
            }
        }
    }

    fn prepare_parts(&self, gateway: &Gateway, places: &Places, acl: &mut StagedAcls) -> Result<Prepared, TableFull> {
        let mut numbers = self.numbers.clone();
        numbers.adjacencies.begin();
        numbers.sets.begin();
        numbers.vrfs.begin();
        let map = map(&mut numbers, gateway);
        let mut interfaces = interfaces::interfaces(&self.interfaces, self.settings.workers, (gateway, &map), places);
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
        let ways = classify::Ways::new(&mut pass);
        let steered = pass.steered();
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
        let classify = self.classify.prepare(&self.domain, self.settings.workers, (gateway, &map))?;
        let nat = self.nat.prepare(&self.domain, self.settings.workers, (gateway, &map, &ways.of_vrfs), &interfaces)?;
        let spd = self.spd.prepare(&self.domain, self.settings.workers, (gateway, &map))?;
        let steer = self.steer.prepare(&self.domain, self.settings.workers, gateway, steered)?;
        let allow = self.allow.prepare(&self.domain, gateway)?;
        self.acl.prepare(acl::Input { domain: &self.domain, gateway, map: &map }, acl)?;
        let (tables, differing) =
            write(&self.domain, self.limit, &mut self.writers(), &self.ribs, gateway, &map, &ribs)?;
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
            ways,
            sav,
            acl: StagedAcls::default(),
            allow,
            bindings,
            classify,
            nat,
            spd,
            steer,
            tables,
            differing,
        })
    }

    /// Counts the routes that a model would have in force, with those of other sources and of learned neighbours. Nothing changes.
    pub fn count_routes(&self, gateway: &Gateway, places: &Places) -> usize {
        let (mut numbers, mut routing) = (self.numbers.clone(), self.routing.clone());
        numbers.adjacencies.begin();
        numbers.sets.begin();
        numbers.vrfs.begin();
        let map = map(&mut numbers, gateway);
        let mut interfaces = interfaces::interfaces(&self.interfaces, self.settings.workers, (gateway, &map), places);
        let mut pass = Pass {
            gateway,
            map: &map,
            interfaces: &mut interfaces,
            numbers: &mut numbers,
            routing: &mut routing,
            fixed: &Fixed::new(gateway, &map.interfaces),
            learned: &self.learned,
            previous: &self.ribs,
            sources: &self.sources,
        };
        let mut ribs = pass.base();
        pass.learned(&mut ribs);
        ribs.iter().map(Rib::len).sum()
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
        let number = self.models + u64::from(counts);
        self.classify.commit(prepared.classify, prepared.ways, (gateway, number), rubbish);
        self.nat.commit(prepared.nat, (gateway, &map), &mut interfaces, rubbish);
        let of_spds = self.spd.commit(prepared.spd, (gateway, &map), &mut interfaces, rubbish);
        self.steer.commit(prepared.steer, (gateway, &map), &mut interfaces, rubbish);
        self.ipsec.commit(self.settings.workers, (gateway, &map), &interfaces);
        self.tunnels.commit(self.settings.workers, (gateway, &map), &interfaces);
        let Settings { workers, secret, .. } = self.settings;
        self.bridges.commit((workers, secret), (gateway, &map), &mut interfaces);
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
        self.per_segment = segments::per_segment(gateway, self.acl.per_segment());
        self.merges_all = gateway.interfaces.iter().any(|interface| interface.merge == model::Merge::All);
        self.icmp = gateway.icmp;
        if gateway.flow_table.recheck != self.flow_table.recheck {
            // Sessions go on for another reason.
            self.acl.count_change();
        }
        self.flow_table = gateway.flow_table;
        self.samplers = samplers(&self.samplers, self.settings.workers, (gateway, &map)).into();
        self.models += u64::from(counts);
        self.sources.keep(gateway);
        self.clutter = 0;
        self.concerns.noted().append(prepared.differing);
        self.concerns.noted().append(of_spds);
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

    /// Returns the bridges in force.
    pub fn bridges(&self) -> &[crate::root::bridge::Bridge] {
        &self.bridges.current().list
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
        // With `on-change = "keep"`, sessions may be left where no rule opens any. These need no state.
        let mut access = self.acl.current().clone();
        let changed = std::mem::take(&mut self.changed);
        let interfaces = self.shown.next(&self.interfaces, changed, &mut access);
        self.concerns.noted().append(self.acl.take_noted());
        let mut root = Root {
            generation: self.generation,
            model: self.models,
            ports: Arc::clone(&self.ports),
            interfaces,
            vrfs: self.tables.clone(),
            adjacencies: self.routing.adjacencies.clone(),
            pending: Pending::default(),
            buckets: Arc::clone(&self.buckets),
            sav: self.sav.current().clone(),
            acl: self.access(access),
            allow: self.allow.current().clone(),
            bindings: self.bindings.current().clone(),
            classify: self.classify.current().clone(),
            nat: self.nat.current().clone(),
            spd: self.spd.current().clone(),
            steer: self.steer.current().clone(),
            ipsec: self.ipsec.current().clone(),
            tunnels: self.tunnels.current().clone(),
            bridges: self.bridges.current().clone(),
            ethertypes_out: self.ethertypes_out,
            merges_all: self.merges_all,
            per_segment: self.per_segment.clone(),
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
    fn access(&self, access: Access) -> Access {
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

    /// The paths of a multipath set whose links are up: (adjacency, weight).
    pub fn paths(&self, set: u32) -> &[(u32, u32)] {
        self.routing.live.get(set as usize).map_or(&[], Vec::as_slice)
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
}

/// The adjacencies and the interfaces of each multipath set, by its number.
pub(super) fn reverse(numbers: &Numbers, routing: &Routing) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
    let mut all = vec![Vec::new(); numbers.sets.used().len()];
    let mut sets = all.clone();
    for (_, number) in numbers.sets.iter() {
        let Some(paths) = routing.live.get(number as usize) else { continue };
        all[number as usize] = paths.iter().map(|&(adjacency, _)| adjacency).collect();
        let adjacencies = paths.iter().filter_map(|&(adjacency, _)| routing.adjacencies.get(adjacency as usize));
        sets[number as usize] = adjacencies.map(|adjacency| adjacency.interface).collect();
    }
    (all, sets)
}

/// The numbers of a model's interfaces and VRFs.
fn map(numbers: &mut Numbers, gateway: &Gateway) -> Map {
    let groups = linked::groups(gateway);
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
        nat_zones: nat_zones::zones(&mut numbers.zones, gateway, &groups),
        nat_groups: groups,
        samplers: gateway.samplers.iter().map(|sampler| assign(&mut numbers.samplers, &sampler.name)).collect(),
        sas: gateway.sas.iter().map(|sa| assign(&mut numbers.sas, &sa.name)).collect(),
    }
}
