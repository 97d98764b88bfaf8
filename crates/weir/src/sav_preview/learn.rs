//! A table of sources that is learned from captured traffic and from routes: a proposal, for people to read.
//!
//! Each interface has a policy of mechanism `urpf-feasible` that drops nothing. A source with a route back over the
//! interface stands for the prefix of that route; any other for its /24 (/48 for IPv6). Sources that no policy would
//! permit by default are left out: special sources, the gateway's addresses, and sources whose route discards.
//!
//! **A table that refuses nothing of what it was learned from.** Rules nest, and the most specific one decides. So
//! wherever a source was seen on an interface that the longest prefix around it does not have yet, that prefix gets it:
//! it is *seen elsewhere, too*. And a /24 that stands for itself within the prefix of a route has the interfaces of that
//! route as well, whether its sources were seen there or not: what routing says of it is no less true for it. With this a
//! table means the same by either `match`. In the end neighbours that have no route and the same interfaces become one.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_plane::harness::Validated;
use weir_plane::model::{
    Gateway, InterfaceKind, Mechanism, Origin, PerFamily, SavAction, SavIndex, SavPolicy, Urpf, UrpfMode, VrfIndex,
};
use weir_plane::record::Said;
use weir_plane::rib::Source;
use weir_plane::sav::Class;
use weir_table::sav::Verdict;

use super::address::Address;
use super::blocks::{Block, Blocks, Boundaries, Counted, Counts, MOST, Sum};
use super::boundaries::{Ground, order};
use super::monitor::{Monitor, Progress};
use crate::render::sav::learned::{Learned, LeftOut, On, Proposed, Why};
use crate::replay::{Input, ReplayError};

/// Learning under way.
pub struct Learn {
    monitor: Monitor,
    blocks: Blocks,
    special: HashMap<(u32, Class), Sum>,
    boundaries: AllRoutes,
}

impl Learn {
    /// Opens the captures and makes the gateway, which watches each interface that has a policy or that an input names, VLANs
    /// of these included.
    ///
    /// # Errors
    /// When an input cannot be, a file cannot be opened, or there is no room for the gateway.
    pub fn new(mut gateway: Gateway, inputs: &[Input], any_mac: bool) -> Result<Learn, ReplayError> {
        watch(&mut gateway, inputs);
        let monitor = Monitor::open(gateway, inputs, any_mac)?;
        let boundaries = AllRoutes::new(&monitor);
        Ok(Learn { monitor, blocks: Blocks::new(MOST), special: HashMap::new(), boundaries })
    }

    /// Runs the graph over all captures; reports to `progress` at intervals.
    ///
    /// # Errors
    /// At the end, for the first capture that could not be read to its end.
    pub fn run(&mut self, progress: impl FnMut(Progress)) -> Result<(), ReplayError> {
        let Learn { monitor, blocks, special, boundaries } = self;
        let seen = |_: &Monitor, packet: &Validated| match packet.said {
            Said::Special(class, _) => {
                let one = Sum { packets: 1, octets: u64::from(packet.octets) };
                special.entry((packet.interface, class)).or_default().add(one);
            }
            Said::Mechanism(_) => blocks.count(packet, boundaries),
            // The learning policy has neither a link check nor exemptions.
            Said::Link(_) | Said::Exempt(_) => {}
        };
        monitor.run(seen, progress)
    }

    /// The table, of prefixes of which an interface got so many packets at least.
    pub fn propose(self, min_packets: u64) -> Learned {
        let Learn { monitor, blocks, special, boundaries } = self;
        let Counts { blocks, made_room, forgotten } = blocks.into_order();
        let in_table = blocks.len() as u64;
        let mut left_out = LeftOutSums::default();
        for ((interface, class), sum) in special {
            left_out.add(monitor.name(interface), class.name(), sum);
        }
        let mut sights = Vec::new();
        for (block, counted) in blocks {
            match Place::of(&monitor, &boundaries, &block, &counted) {
                Ok(place) => {
                    let (interface, start) = (monitor.index(block.interface), block.start);
                    sights.push(Sight { interface, start, sum: counted.sum, place });
                }
                Err(why) => left_out.add(monitor.name(block.interface), why, counted.sum),
            }
        }
        let (table, rare) = Prefixes::of(sights, min_packets);
        let name = |index: u32| monitor.harness.model().interfaces[index as usize].name.as_str();
        Learned {
            captured: Some(monitor.captured()),
            rules: table.proposed(name),
            rare: rare.proposed(name),
            left_out: left_out.0,
            table: monitor.table(in_table, made_room, forgotten),
        }
    }
}

/// Makes one policy that watches, of all interfaces that are to be watched.
fn watch(gateway: &mut Gateway, inputs: &[Input]) {
    let named = |name: &str| inputs.iter().any(|input| input.interface == name);
    let names: Vec<String> = gateway.interfaces.iter().map(|interface| interface.name.clone()).collect();
    for interface in &mut gateway.interfaces {
        let port = match interface.kind {
            InterfaceKind::Vlan { parent, .. } => names[parent.0 as usize].as_str(),
            InterfaceKind::Port { .. } | InterfaceKind::Ipsec | InterfaceKind::Tunnel(_) | InterfaceKind::Bridge(_) => {
                interface.name.as_str()
            }
        };
        let watched = named(port) || interface.sav.v4.is_some() || interface.sav.v6.is_some();
        let policy = watched.then_some(SavIndex(0));
        interface.sav = PerFamily { v4: policy, v6: policy };
    }
    let feasible = Mechanism::Urpf(Urpf { mode: UrpfMode::Feasible, default_route: false, vrf: None });
    let watching = SavPolicy::new("learn".to_owned(), feasible, Origin::default());
    gateway.sav = vec![SavPolicy { action: SavAction::Permit, ..watching }];
}

/// Rules are router-wide: blocks are cut where a route of any VRF begins or ends.
struct AllRoutes {
    v4: Vec<u32>,
    v6: Vec<u128>,
}

impl AllRoutes {
    fn new(monitor: &Monitor) -> AllRoutes {
        fn all<K: Address>(monitor: &Monitor) -> Vec<K> {
            let mut all = Vec::new();
            for vrf in 0..monitor.harness.model().vrfs.len() as u16 {
                Ground::of_routes(VrfIndex(vrf)).add(&monitor.harness, &mut all);
            }
            order(&mut all);
            all
        }
        AllRoutes { v4: all(monitor), v6: all(monitor) }
    }
}

impl Boundaries for AllRoutes {
    fn v4(&self, _: u32) -> Vec<u32> {
        self.v4.clone()
    }

    fn v6(&self, _: u32) -> Vec<u128> {
        self.v6.clone()
    }
}

/// The packets of a block.
pub(super) struct Sight {
    /// The interface's index in the model.
    pub(super) interface: u32,
    /// The first address of the block.
    pub(super) start: IpAddr,
    pub(super) sum: Sum,
    pub(super) place: Place,
}

/// The prefix that a block stands for.
pub(super) struct Place {
    pub(super) prefix: IpNet,
    /// The route back, in words; `None`: there is none over the interface.
    pub(super) route: Option<String>,
}

impl Place {
    /// The prefix of a block, or why it is left out.
    fn of(monitor: &Monitor, boundaries: &AllRoutes, block: &Block, counted: &Counted) -> Result<Place, &'static str> {
        let source = counted.example;
        let vrf = monitor.harness.model().interfaces[monitor.index(block.interface) as usize].vrf;
        let covering = monitor.harness.routes(vrf).and_then(|rib| rib.covering_more(source));
        match covering {
            Some((_, entry)) if matches!(entry.source, Source::Local | Source::Broadcast) => return Err("own"),
            Some((_, entry)) if matches!(entry.source, Source::Blackhole | Source::Unreachable | Source::Prohibit) => {
                return Err("discarded");
            }
            Some((prefix, _)) if counted.said == Said::Mechanism(Verdict::Valid) => {
                let decision = monitor.harness.decision(block.policy, block.interface, source, counted.said);
                let by = decision.and_then(|decision| decision.by.into_iter().next());
                let route = by.map_or_else(|| format!("route {prefix}"), |named| named.text);
                return Ok(Place { prefix, route: Some(route) });
            }
            _ => {}
        }
        let prefix = match block.start {
            IpAddr::V4(start) => around(&boundaries.v4, start.into()),
            IpAddr::V6(start) => around(&boundaries.v6, start.into()),
        };
        Ok(Place { prefix, route: None })
    }
}

/// The prefix that a block is in: all of it, or, where a route begins or ends within, what is between.
fn around<K: Address>(boundaries: &[K], start: K) -> IpNet {
    let next = boundaries.get(boundaries.partition_point(|boundary| *boundary <= start));
    let whole = start.saturate(K::BLOCK);
    let last = next.and_then(|next| next.previous()).map_or(whole, |last| last.min(whole));
    let bits = start.shared_bits(last).max(K::BLOCK);
    start.truncate(bits).net(bits)
}

/// The packets of a prefix on an interface.
#[derive(Debug, Clone)]
struct Seen {
    sum: Sum,
    why: Why,
    route: Option<String>,
}

/// By prefix, and by the interface's index in the model. The wider of two nested prefixes comes first.
#[derive(Debug, Default)]
pub(super) struct Prefixes(BTreeMap<IpNet, BTreeMap<u32, Seen>>);

impl Prefixes {
    /// The table, and beside it what an interface got fewer packets of.
    pub(super) fn of(mut sights: Vec<Sight>, min_packets: u64) -> (Prefixes, Prefixes) {
        let mut table = Prefixes::default();
        sights.iter().for_each(|sight| table.add(sight.interface, sight.sum, &sight.place));
        let rare = table.split_rare(min_packets);
        sights.retain(|sight| table.0.get(&sight.place.prefix).is_some_and(|on| on.contains_key(&sight.interface)));
        table.inherit();
        table.close(&sights);
        table.join();
        (table, rare)
    }

    fn add(&mut self, interface: u32, sum: Sum, place: &Place) {
        let why = if place.route.is_some() { Why::Route } else { Why::Seen };
        let seen = || Seen { sum: Sum::default(), why, route: place.route.clone() };
        self.0.entry(place.prefix).or_default().entry(interface).or_insert_with(seen).sum.add(sum);
    }

    /// Takes out what got less than so many packets.
    fn split_rare(&mut self, min_packets: u64) -> Prefixes {
        let mut rare = Prefixes::default();
        for (prefix, on) in &mut self.0 {
            let few: Vec<u32> =
                on.iter().filter(|(_, seen)| seen.sum.packets < min_packets).map(|(interface, _)| *interface).collect();
            for interface in few {
                if let Some(seen) = on.remove(&interface) {
                    rare.0.entry(*prefix).or_default().insert(interface, seen);
                }
            }
        }
        self.0.retain(|_, on| !on.is_empty());
        rare
    }

    /// The longest prefix around an address that is shorter than so many bits.
    fn around(&self, address: IpAddr, bits: u8) -> Option<IpNet> {
        let nets = (0..bits).rev().filter_map(|bits| Some(IpNet::new(address, bits).ok()?.trunc()));
        nets.into_iter().find(|net| self.0.contains_key(net))
    }

    /// Gives prefixes without a route what the prefix around them has.
    fn inherit(&mut self) {
        let prefixes: Vec<IpNet> = self.0.keys().copied().collect();
        for prefix in prefixes {
            let Some(around) = self.around(prefix.addr(), prefix.prefix_len()) else { continue };
            let wider: Vec<u32> = self.0[&around].keys().copied().collect();
            let on = self.0.entry(prefix).or_default();
            if on.values().any(|seen| seen.why == Why::Route) {
                continue;
            }
            for interface in wider {
                on.entry(interface).or_insert(Seen { sum: Sum::default(), why: Why::Wider, route: None });
            }
        }
    }

    /// Gives the longest prefix around each block the interface that it was seen on.
    fn close(&mut self, sights: &[Sight]) {
        for Sight { interface, start, sum, place } in sights {
            let bits = if start.is_ipv4() { 32 } else { 128 };
            let Some(longest) = self.around(*start, bits + 1).filter(|longest| *longest != place.prefix) else {
                continue;
            };
            let seen = self.0.entry(longest).or_default().entry(*interface);
            let seen = seen.or_insert(Seen { sum: Sum::default(), why: Why::Elsewhere, route: None });
            seen.sum.add(*sum);
            if seen.route.is_none() {
                seen.route.clone_from(&place.route);
            }
        }
    }

    /// Joins the two halves of a prefix, neither of which has a route, where both have the same interfaces.
    fn join(&mut self) {
        for bits in (1..=128).rev() {
            let halves: Vec<IpNet> = self.0.keys().copied().filter(|net| net.prefix_len() == bits).collect();
            for pair in halves.windows(2) {
                let (Some(whole), Some(other)) = (pair[0].supernet(), pair[1].supernet()) else { continue };
                let is_alike = |one: &BTreeMap<u32, Seen>, two: &BTreeMap<u32, Seen>| {
                    let bare = |on: &BTreeMap<u32, Seen>| on.values().all(|seen| seen.route.is_none());
                    one.keys().eq(two.keys()) && bare(one) && bare(two)
                };
                let alike = whole == other
                    && !self.0.contains_key(&whole)
                    && matches!((self.0.get(&pair[0]), self.0.get(&pair[1])), (Some(one), Some(two)) if is_alike(one, two));
                if !alike {
                    continue;
                }
                let (one, two) = (self.0.remove(&pair[0]), self.0.remove(&pair[1]));
                let mut on = one.unwrap_or_default();
                for (interface, seen) in two.unwrap_or_default() {
                    on.entry(interface).and_modify(|of_one| of_one.sum.add(seen.sum)).or_insert(seen);
                }
                self.0.insert(whole, on);
            }
        }
    }

    /// As rules; interfaces are named by their index.
    pub(super) fn proposed<'a>(self, name: impl Fn(u32) -> &'a str) -> Vec<Proposed> {
        let on = |(interface, seen): (u32, Seen)| On {
            interface: name(interface).to_owned(),
            packets: seen.sum.packets,
            bytes: seen.sum.octets,
            why: seen.why,
            route: seen.route,
        };
        let rule = |(prefix, all): (IpNet, BTreeMap<u32, Seen>)| Proposed {
            prefix: prefix.to_string(),
            on: all.into_iter().map(on).collect(),
        };
        self.0.into_iter().map(rule).collect()
    }
}

/// The sums of sources that are left out, by interface and cause.
#[derive(Default)]
pub(super) struct LeftOutSums(pub(super) Vec<LeftOut>);

impl LeftOutSums {
    pub(super) fn add(&mut self, name: &str, why: &str, sum: Sum) {
        let place = self.0.iter().position(|row| row.interface == name && row.why == why);
        let place = place.unwrap_or_else(|| {
            self.0.push(LeftOut { interface: name.to_owned(), why: why.to_owned(), packets: 0, bytes: 0 });
            self.0.len() - 1
        });
        self.0[place].packets += sum.packets;
        self.0[place].bytes += sum.octets;
        self.0.sort_by(|a, b| (&a.interface, &a.why).cmp(&(&b.interface, &b.why)));
    }
}
