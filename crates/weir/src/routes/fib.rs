//! The routes of one source as it reports them, and the offers that follow: a state machine without I/O.
//!
//! The source names devices by index and may name next hop objects; weir has interfaces. A device is an interface's if it
//! is its punt device. For each prefix the routes are offered that lead to an interface of weir, the lowest metric first: of
//! these the first counts whose link is up.

mod chains;
mod dirty;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, btree_map};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_plane::compile::{Hop, Offer, Target};
use weir_port::routes::{Nexthop, Path, Route, RouteKind, Update};

use self::chains::Chains;
use self::dirty::Dirty;
use super::question::Own;
use crate::config::routes::Table;

/// Next hop objects, at most.
const MOST_NEXTHOPS: usize = 1 << 18;
/// Nested groups of next hop objects: the kernel allows one level.
const DEPTH: usize = 4;
/// Objects that are looked at for one route: groups may name each other, and each many times.
const MOST_LOOKS: usize = 4096;
/// Paths of a route, at most.
const MOST_PATHS: usize = weir_plane::ecmp::MAX_PATHS;
/// Targets that are kept translated.
const TRANSLATED: usize = 1 << 16;

/// The way of a route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Way {
    Paths(Arc<[Path]>),
    Nexthop(u32),
    Blackhole,
    Unreachable,
    Prohibit,
}

/// A route of the source.
#[derive(Debug, Clone)]
struct Known {
    metric: u32,
    way: Way,
    /// The list or the connection that reported it last. Lists sweep what is older, so 16 bits distinguish all of them.
    epoch: u16,
    /// The program that added it.
    protocol: u8,
}

/// The routes of a table.
#[derive(Debug, Default)]
struct Routes {
    /// For each prefix the routes in the order in which they precede.
    all: BTreeMap<IpNet, Vec<Known>>,
    /// Prefixes whose offers may have changed.
    dirty: Dirty,
}

/// Paths of routes, shared by routes with the same: full tables have many routes and few paths.
#[derive(Debug, Default)]
struct Shared(HashSet<Arc<[Path]>>);

impl Shared {
    /// Returns the shared form of paths.
    fn of(&mut self, paths: Vec<Path>) -> Arc<[Path]> {
        if let Some(known) = self.0.get(&*paths) {
            return Arc::clone(known);
        }
        if self.0.len() >= TRANSLATED {
            // Routes that have some of them keep theirs, and later ones share new ones.
            self.0.clear();
        }
        let paths: Arc<[Path]> = paths.into();
        self.0.insert(Arc::clone(&paths));
        paths
    }
}

/// The routes of one source.
#[derive(Debug)]
pub(crate) struct Fib {
    tables: Vec<(Table, Routes)>,
    /// Prefixes of tables that are not followed any more, by VRF: their offers are to be withdrawn.
    gone: Vec<(String, Vec<IpNet>)>,
    limit: usize,
    /// The source has one route for a prefix: another one takes its place, whatever its metric is.
    is_single: bool,
    nexthops: HashMap<u32, (Nexthop, u16)>,
    /// Names of devices by index, and whether they are up.
    devices: HashMap<u32, (String, bool)>,
    /// Numbers of interfaces, by name of their device.
    interfaces: HashMap<String, u32>,
    translated: HashMap<Way, Option<Arc<Target>>>,
    chains: Chains,
    paths: Shared,
    epoch: u16,
    count: usize,
    /// Some routes may be there that the tables do not take any more.
    has_excluded: bool,
    /// The limit has refused routes since the last list began.
    is_short: bool,
    refused: u64,
    first_refused: Option<IpNet>,
}

/// The counts of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Routes that are kept.
    pub(crate) routes: usize,
    /// Next hop objects.
    pub(crate) nexthops: usize,
    /// Routes that found no room, since the start.
    pub(crate) refused: u64,
    /// Memory of all that is kept, by estimate.
    pub(crate) octets: usize,
}

impl Fib {
    /// A source of these tables that keeps `limit` routes at most. `is_single`: it has one route for a prefix.
    pub(crate) fn new(tables: &[Table], limit: usize, is_single: bool) -> Fib {
        Fib {
            tables: tables.iter().map(|table| (table.clone(), Routes::default())).collect(),
            gone: Vec::new(),
            limit,
            is_single,
            nexthops: HashMap::new(),
            devices: HashMap::new(),
            interfaces: HashMap::new(),
            translated: HashMap::new(),
            chains: Chains::default(),
            paths: Shared::default(),
            epoch: 0,
            count: 0,
            has_excluded: false,
            is_short: false,
            refused: 0,
            first_refused: None,
        }
    }

    /// Takes in a change. Returns whether the kernel may have deleted routes without a word, so that a list is due.
    pub(crate) fn apply(&mut self, update: Update) -> bool {
        match update {
            Update::Route(route) => return self.add(route),
            Update::RouteGone(route) => self.remove(&route),
            Update::Nexthop(id, nexthop) => self.nexthop(id, Some(nexthop)),
            Update::NexthopGone(id) => {
                self.nexthop(id, None);
                return true;
            }
            Update::Device(index, name, is_up) => {
                let before = self.devices.insert(index, (name.clone(), is_up));
                if before.as_ref().is_none_or(|(before, _)| *before != name) {
                    self.all_changed();
                }
                // A device that goes down takes its routes along, and paths come back with it.
                return before.is_some_and(|(_, was_up)| was_up != is_up);
            }
            Update::DeviceGone(index) => {
                if self.devices.remove(&index).is_some() {
                    self.all_changed();
                }
                return true;
            }
            Update::AddressGone => return true,
            Update::Done | Update::Refused(_) => {}
        }
        false
    }

    /// Sets the numbers of interfaces, by name of their device.
    pub(crate) fn set_interfaces(&mut self, interfaces: HashMap<String, u32>) {
        self.interfaces = interfaces;
        self.all_changed();
    }

    /// Follows other tables. Routes of tables that stay are kept, so that prefixes have a route until the next list has
    /// brought another one. Its end sweeps what it leaves out. Routes that need the room earlier take that of routes which
    /// are excluded now. A lower limit concerns new routes.
    pub(crate) fn set_tables(&mut self, tables: &[Table], limit: usize) {
        self.limit = limit;
        self.has_excluded = true;
        let mut before = std::mem::take(&mut self.tables);
        for table in tables {
            let known = before.iter().position(|(own, _)| (own.id, &own.vrf) == (table.id, &table.vrf));
            let routes = known.map(|at| before.swap_remove(at).1).unwrap_or_default();
            self.tables.push((table.clone(), routes));
        }
        for (table, routes) in before {
            self.count -= routes.all.values().map(Vec::len).sum::<usize>();
            self.gone.push((table.vrf, routes.all.into_keys().collect()));
        }
        if !self.gone.is_empty() {
            // Another table may offer the same prefixes for the VRF.
            self.all_changed();
        }
    }

    /// Begins a new list: routes and objects that it does not name go at its end.
    pub(crate) fn begin(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.is_short = false;
    }

    /// Returns whether a list would bring routes that the limit refused: there is room again.
    pub(crate) fn has_room_for_refused(&self) -> bool {
        self.is_short && self.count < self.limit
    }

    /// Ends a list. Returns how many routes it did not name.
    pub(crate) fn end(&mut self) -> usize {
        let epoch = self.epoch;
        let before = self.count;
        self.has_excluded = false;
        let gone: Vec<u32> = self.nexthops.iter().filter(|(_, own)| own.1 != epoch).map(|(&id, _)| id).collect();
        gone.into_iter().for_each(|id| self.nexthop(id, None));
        self.retain(|_, route| route.epoch == epoch);
        before - self.count
    }

    /// Returns the changes of offers since the last call, `most` or some more, for one VRF.
    pub(crate) fn offers(&mut self, most: usize) -> Option<(String, Vec<Offer>)> {
        if let Some((vrf, prefixes)) = self.gone.pop() {
            return Some((vrf, prefixes.into_iter().map(|prefix| (prefix, None)).collect()));
        }
        let at = self.tables.iter().position(|(_, routes)| !routes.dirty.is_empty())?;
        let mut offers = Vec::new();
        while offers.len() < most
            && let Some(prefix) = self.tables[at].1.dirty.pop_first()
        {
            let known = self.tables[at].1.all.get(&prefix);
            let target = match known.map(Vec::as_slice) {
                None => None,
                Some([only]) => {
                    let way = only.way.clone();
                    self.translate(way)
                }
                Some(known) => {
                    let ways: Vec<Way> = known.iter().map(|route| route.way.clone()).collect();
                    let targets: Vec<_> = ways.into_iter().filter_map(|way| self.translate(way)).collect();
                    self.chains.of(targets.into_iter())
                }
            };
            offers.push((prefix, target));
        }
        Some((self.tables[at].0.vrf.clone(), offers))
    }

    /// The routes for a prefix of a VRF that lead to an interface or discard, in the order in which they precede.
    pub(crate) fn own(&mut self, vrf: &str, prefix: IpNet) -> Vec<Own> {
        let tables = self.tables.iter().filter(|(table, _)| table.vrf == vrf);
        let known: Vec<Known> = tables.filter_map(|(_, routes)| routes.all.get(&prefix)).flatten().cloned().collect();
        let own =
            |Known { metric, way, protocol, .. }: Known| Some(Own { protocol, metric, target: self.translate(way)? });
        known.into_iter().filter_map(own).collect()
    }

    /// Takes note of prefixes that the forwarding tables had no room for.
    pub(crate) fn note_refused(&mut self, prefixes: &[IpNet]) {
        self.refused += prefixes.len() as u64;
        self.first_refused = self.first_refused.or(prefixes.first().copied());
    }

    /// Returns the first prefix that was refused since the last call.
    pub(crate) fn take_first_refused(&mut self) -> Option<IpNet> {
        self.first_refused.take()
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { routes: self.count, nexthops: self.nexthops.len(), refused: self.refused, octets: self.octets() }
    }

    /// The memory of all that is kept: nodes of ordered maps are two thirds full, and each block of the heap has 16 octets more.
    fn octets(&self) -> usize {
        const BLOCK: usize = 16;
        let prefixes: usize = self.tables.iter().map(|(_, routes)| routes.all.len()).sum();
        let in_map = (size_of::<IpNet>() + size_of::<Vec<Known>>()) * 3 / 2;
        let dirty: usize = self.tables.iter().map(|(_, routes)| routes.dirty.octets()).sum();
        let routes = prefixes * (in_map + BLOCK) + self.count * size_of::<Known>() + dirty;
        let nexthops = self.nexthops.capacity() * size_of::<(u32, Nexthop, u16)>();
        let shared = self.paths.0.len() * (size_of::<Arc<[Path]>>() + size_of::<Path>() + 2 * BLOCK);
        let translated = self.translated.len() * (size_of::<(Way, Option<Arc<Target>>)>() + 4 * BLOCK);
        routes + nexthops + shared + translated
    }

    /// Keeps these routes alone.
    fn retain(&mut self, is_kept: impl Fn(&Table, &Known) -> bool) {
        for (table, Routes { all, dirty }) in &mut self.tables {
            all.retain(|&prefix, known| {
                let count = known.len();
                known.retain(|route| is_kept(table, route));
                if known.len() != count {
                    self.count -= count - known.len();
                    dirty.insert(prefix);
                }
                !known.is_empty()
            });
        }
    }

    /// Returns whether a further route finds no room, not even that of routes which are excluded now.
    fn is_full(&mut self) -> bool {
        if self.count >= self.limit && std::mem::take(&mut self.has_excluded) {
            self.retain(|table, route| table.takes(route.protocol, route.metric));
        }
        self.count >= self.limit
    }

    /// Takes note of a route beyond the limit.
    fn refuse(&mut self, prefix: IpNet) {
        self.is_short = true;
        self.refused += 1;
        self.first_refused.get_or_insert(prefix);
    }

    /// Adds a route. Returns whether a list is due.
    fn add(&mut self, route: Route) -> bool {
        let Some(at) = self.wanted(&route) else { return self.replaced_by_excluded(&route) };
        let way = match (route.kind, route.nexthop) {
            (RouteKind::Blackhole, _) => Way::Blackhole,
            (RouteKind::Unreachable, _) => Way::Unreachable,
            (RouteKind::Prohibit, _) => Way::Prohibit,
            (_, Some(id)) => Way::Nexthop(id),
            (_, None) => Way::Paths(self.paths.of(route.paths)),
        };
        let known = Known { metric: route.metric, way, epoch: self.epoch, protocol: route.protocol };
        let is_full = self.is_full();
        let routes = &mut self.tables[at].1;
        let mut list = match routes.all.entry(route.prefix) {
            btree_map::Entry::Occupied(entry) => entry,
            btree_map::Entry::Vacant(_) if is_full => {
                self.refuse(route.prefix);
                return false;
            }
            btree_map::Entry::Vacant(entry) => {
                // Most prefixes have one route: the list has no room for more.
                entry.insert(Vec::from([known]));
                self.count += 1;
                routes.dirty.insert(route.prefix);
                return false;
            }
        };
        let list = list.get_mut();
        let (first, equal) = if self.is_single {
            (0, list.len())
        } else {
            let first = list.partition_point(|other| other.metric < known.metric);
            (first, list[first..].iter().take_while(|other| other.metric == known.metric).count())
        };
        // A message about an IPv6 route has all its paths.
        let replaced = match list[first..first + equal].iter().position(|other| other.way == known.way) {
            Some(place) => Some(first + place),
            None if equal > 0 && (self.is_single || route.replaces || route.prefix.addr().is_ipv6()) => Some(first),
            None => None,
        };
        if replaced.is_none() && is_full {
            self.refuse(route.prefix);
            return false;
        }
        match replaced {
            Some(place) => {
                let is_same = list[place].way == known.way;
                list[place] = known;
                if is_same {
                    return false;
                }
            }
            None => {
                // Lists have equal routes in their order, and name each once.
                let is_stale = list.get(first).is_some_and(|other| other.epoch != self.epoch);
                let place = if route.appends || !is_stale { first + equal } else { first };
                list.insert(place, known);
                self.count += 1;
            }
        }
        routes.dirty.insert(route.prefix);
        false
    }

    /// A route that is not taken may replace one that was: another program's, or one of a lower metric. Returns whether a
    /// list is due: of several equal routes the kernel replaces the first, which may be one that is not taken either.
    fn replaced_by_excluded(&mut self, route: &Route) -> bool {
        if self.is_single {
            self.remove_all(route);
            return false;
        }
        if !route.replaces || route.tos != 0 {
            return false;
        }
        let mut is_due = false;
        for (_, Routes { all, dirty }) in self.tables.iter_mut().filter(|(table, _)| table.id == route.table) {
            let btree_map::Entry::Occupied(mut entry) = all.entry(route.prefix) else { continue };
            let Some(place) = entry.get().iter().position(|other| other.metric == route.metric) else { continue };
            entry.get_mut().remove(place);
            if entry.get().is_empty() {
                entry.remove();
            }
            self.count -= 1;
            dirty.insert(route.prefix);
            is_due = true;
        }
        is_due
    }

    /// Removes the route of a source that has one for a prefix. A deletion may name neither its program nor its metric.
    fn remove_all(&mut self, route: &Route) {
        for (_, Routes { all, dirty }) in self.tables.iter_mut().filter(|(table, _)| table.id == route.table) {
            if let Some(known) = all.remove(&route.prefix) {
                dirty.insert(route.prefix);
                self.count -= known.len();
            }
        }
    }

    fn remove(&mut self, route: &Route) {
        if self.is_single {
            return self.remove_all(route);
        }
        let Some(at) = self.wanted(route) else { return };
        let routes = &mut self.tables[at].1;
        let Some(list) = routes.all.get_mut(&route.prefix) else { return };
        let is_it = |other: &Known| match (&other.way, route.kind, route.nexthop) {
            (Way::Blackhole, RouteKind::Blackhole, _) => true,
            (Way::Unreachable, RouteKind::Unreachable, _) => true,
            (Way::Prohibit, RouteKind::Prohibit, _) => true,
            (Way::Nexthop(own), _, Some(id)) => *own == id,
            (Way::Paths(own), RouteKind::Unicast, None) => **own == *route.paths,
            _ => false,
        };
        let mut equal = list.iter().enumerate().filter(|(_, other)| other.metric == route.metric);
        let Some(place) =
            equal.clone().find(|(_, other)| is_it(other)).or_else(|| equal.next()).map(|(place, _)| place)
        else {
            return;
        };
        routes.dirty.insert(route.prefix);
        // A message may be about one of several paths of an IPv6 route.
        if let Way::Paths(own) = &list[place].way
            && route.prefix.addr().is_ipv6()
        {
            let left: Vec<Path> = own.iter().filter(|path| !is_among(path, &route.paths)).copied().collect();
            if !left.is_empty() && left.len() < own.len() {
                list[place].way = Way::Paths(left.into());
                return;
            }
        }
        list.remove(place);
        self.count -= 1;
        if list.is_empty() {
            routes.all.remove(&route.prefix);
        }
    }

    /// Returns the table of a route, if it is to be taken.
    fn wanted(&self, route: &Route) -> Option<usize> {
        let is_forwarding = !matches!(route.kind, RouteKind::Other(_));
        // Link-local prefixes and groups are the business of each link.
        let is_global = match route.prefix {
            IpNet::V4(net) => !net.network().is_multicast() && !net.network().is_link_local(),
            IpNet::V6(net) => !net.network().is_multicast() && !net.network().is_unicast_link_local(),
        };
        let takes = |table: &Table| table.id == route.table && table.takes(route.protocol, route.metric);
        (is_forwarding && is_global && route.tos == 0)
            .then(|| self.tables.iter().position(|(table, _)| takes(table)))
            .flatten()
    }

    fn nexthop(&mut self, id: u32, nexthop: Option<Nexthop>) {
        let epoch = self.epoch;
        let before = self.nexthops.get(&id).map(|own| &own.0);
        let is_same = before == nexthop.as_ref();
        match nexthop {
            Some(nexthop) if before.is_some() || self.nexthops.len() < MOST_NEXTHOPS => {
                self.nexthops.insert(id, (nexthop, epoch));
            }
            Some(_) => {}
            None => drop(self.nexthops.remove(&id)),
        }
        if !is_same {
            self.nexthops_changed();
        }
    }

    /// The translations of next hop objects may differ now, and the routes over them.
    fn nexthops_changed(&mut self) {
        let before: HashMap<Way, Option<Arc<Target>>> =
            self.translated.extract_if(|way, _| matches!(way, Way::Nexthop(_))).collect();
        let mut changed = BTreeSet::new();
        for (way, target) in before {
            if let Way::Nexthop(id) = way
                && self.translate(way) != target
            {
                changed.insert(id);
            }
        }
        if changed.is_empty() {
            return;
        }
        for (_, routes) in &mut self.tables {
            let is_over = |known: &Vec<Known>| {
                known.iter().any(|route| matches!(route.way, Way::Nexthop(id) if changed.contains(&id)))
            };
            routes.dirty.extend(routes.all.iter().filter(|(_, known)| is_over(known)).map(|(&prefix, _)| prefix));
        }
    }

    fn all_changed(&mut self) {
        self.translated.clear();
        self.chains.clear();
        for (_, routes) in &mut self.tables {
            routes.dirty.extend(routes.all.keys().copied());
        }
    }

    /// Returns the target of a way in weir; `None`: it leads to no interface of weir.
    fn translate(&mut self, way: Way) -> Option<Arc<Target>> {
        if let Some(known) = self.translated.get(&way) {
            return known.clone();
        }
        let target = match &way {
            Way::Blackhole => Some(Target::Blackhole),
            Way::Unreachable => Some(Target::Unreachable),
            Way::Prohibit => Some(Target::Prohibit),
            Way::Paths(paths) => {
                let hops = paths.iter().filter_map(|path| self.hop(path, u32::from(path.weight))).collect();
                via(hops)
            }
            Way::Nexthop(id) => {
                let (mut hops, mut looks) = (Vec::new(), MOST_LOOKS);
                if self.is_blackhole(*id) {
                    Some(Target::Blackhole)
                } else {
                    self.members(*id, 1, DEPTH, &mut looks, &mut hops);
                    via(hops)
                }
            }
        };
        let target = target.map(Arc::new);
        if self.translated.len() >= TRANSLATED {
            // Routes over objects have to be found when these change.
            self.translated.retain(|way, _| matches!(way, Way::Nexthop(_)));
        }
        self.translated.insert(way, target.clone());
        target
    }

    fn is_blackhole(&self, id: u32) -> bool {
        let is = |id| matches!(self.nexthops.get(&id), Some((Nexthop::Blackhole, _)));
        match self.nexthops.get(&id) {
            Some((Nexthop::Group(members), _)) => !members.is_empty() && members.iter().all(|&(id, _)| is(id)),
            _ => is(id),
        }
    }

    /// Adds the paths of an object and of the objects in it. `looks` is the number of objects that may still be looked at.
    fn members(&self, id: u32, weight: u32, depth: usize, looks: &mut usize, hops: &mut Vec<(Hop, u32)>) {
        if *looks == 0 {
            return;
        }
        *looks -= 1;
        match self.nexthops.get(&id) {
            Some((Nexthop::Path(path), _)) => hops.extend(self.hop(path, weight)),
            Some((Nexthop::Group(members), _)) if depth > 0 && hops.len() < MOST_PATHS => {
                for &(member, own) in members.iter().take(MOST_PATHS) {
                    self.members(member, weight.saturating_mul(own.into()), depth - 1, looks, hops);
                }
            }
            _ => {}
        }
    }

    fn hop(&self, path: &Path, weight: u32) -> Option<(Hop, u32)> {
        let interface = *self.interfaces.get(&self.devices.get(&path.device)?.0)?;
        let hop = Hop { interface, address: path.gateway, weight: 1 };
        let is_usable = !path.is_encapsulated && path.gateway.is_none_or(is_host);
        is_usable.then_some((hop, weight.max(1)))
    }
}

/// An address that a neighbour can have.
fn is_host(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(is_broadcast || address.is_unspecified() || address.is_multicast() || address.is_loopback())
}

/// The same device and gateway.
fn is_among(path: &Path, paths: &[Path]) -> bool {
    paths.iter().any(|other| (other.device, other.gateway) == (path.device, path.gateway))
}

/// A target of these paths, whose weights fit into an octet.
fn via(mut hops: Vec<(Hop, u32)>) -> Option<Target> {
    hops.truncate(MOST_PATHS);
    let most = hops.iter().map(|(_, weight)| *weight).max()?;
    let scaled = |weight: u32| match most {
        0..=255 => weight,
        _ => (u64::from(weight) * 255 / u64::from(most)) as u32,
    };
    let hop = |(hop, weight): (Hop, u32)| Hop { weight: scaled(weight).clamp(1, 255) as u8, ..hop };
    Some(Target::Via(hops.into_iter().map(hop).collect(), None))
}

#[cfg(test)]
mod tests;
