//! Changes applied step by step give the same root as a compilation of all of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use proptest::prelude::*;
use weir_base::reclaim::{Domain, Reader};

use super::rib::{By, Source};
use super::sources::{Hop, Target};
use super::*;
use crate::kit::*;
use crate::model::{self, Gateway, InterfaceKind};
use crate::root::{Adjacency, Kind, Root};

/// Models that differ in routes, addresses, static neighbours and VRFs, over the same three interfaces.
fn model(variant: u8) -> Gateway {
    let mut build = Build::new()
        .port("a", &["10.0.0.1/16", "2001:db8:a::1/64"])
        .port("b", &["10.1.0.1/16", "2001:db8:b::1/64", "10.0.7.1/24"])
        .vlan("v", "b", &[7], &["10.2.0.1/16"])
        .via("172.16.0.0/12", &["a 10.0.0.3", "b 10.1.0.3", "v 10.2.0.3"])
        .via("10.0.5.0/24", &["b"])
        .via("10.0.6.0/24", &["a", "b"]);
    if variant & 1 != 0 {
        build =
            build.via("10.0.0.4/32", &["a"]).via("2001:db8:a::5/128", &["b fe80::5"]).neighbor("a", "10.0.0.6", mac(9));
    }
    if variant & 2 != 0 {
        build = build.via("10.0.0.5/32", &["b 10.1.0.4"]).neighbor("b", "fe80::6", mac(8)).via("::/0", &["a fe80::7"]);
    }
    if variant & 4 != 0 {
        build = build.port("c", &["10.3.0.1/16"]).in_vrf("red").via_in("red", "10.0.0.0/8", &["c"]);
    }
    if variant & 8 != 0 {
        build.0.interfaces[0].addresses.truncate(1);
        build = build.neighbor("b", "10.0.6.3", mac(7));
    }
    build.0
}

fn places(model: &Gateway, down: [bool; 2], peer: bool) -> Places {
    let mut places = Places::default();
    for (index, interface) in (0u32..).zip(&model.interfaces) {
        if let InterfaceKind::Port { .. } = interface.kind {
            let down = down.get(index as usize).copied().unwrap_or(false);
            let peer = (peer && interface.name == "c").then_some([2, 9, 9, 9, 9, 9]);
            places.ports.insert(index, PortPlace { number: index, mac: None, peer, down });
        }
    }
    places
}

fn compiler(domain: &Domain) -> Compiler {
    let limits = model::Limits { routes: 1000, neighbors: 100, ..model::Limits::default() };
    Compiler::new(domain, Settings { workers: 1, invent_neighbors: false, secret: [1, 2, 3, 4] }, limits)
}

/// Addresses that neighbours, routes and our own addresses have between them.
fn candidates() -> Vec<IpAddr> {
    let v4 = ["10.0.0", "10.0.5", "10.0.6", "10.0.7", "10.1.0", "10.2.0", "10.3.0"];
    let v4 = v4.iter().flat_map(|net| (1..8).map(move |host| format!("{net}.{host}")));
    let v6 = ["2001:db8:a::", "2001:db8:b::", "fe80::"];
    let v6 = v6.iter().flat_map(|net| (1..8).map(move |host| format!("{net}{host}")));
    v4.chain(v6).map(|text| ip(&text)).collect()
}

/// Where a packet is led: the kind of its adjacency, the octets put in front, the interface and the next hop.
type Lead = (Kind, Vec<u8>, u32, Option<IpAddr>);

/// A change of a neighbour: the index of its interface, that of its address among the candidates, and the last octet of
/// its MAC address and whether it is confirmed, unless it is forgotten.
type Lesson = (u32, usize, Option<(u8, bool)>);

/// Returns the targets for each of these addresses in each VRF, or on each link, in terms without numbers.
fn meaning(compiler: &Compiler, root: &Root, reader: &mut Reader) -> Vec<(String, Vec<Lead>)> {
    let guard = reader.pin();
    let adjacency = |number: u32| {
        let found = root.adjacencies.get(number as usize).copied().unwrap_or(Adjacency::terminal(Kind::NoRoute));
        // A host that is its own next hop is the same whether it has been named or not.
        (found.kind, found.l2[..usize::from(found.l2_len)].to_vec(), found.interface, found.next_hop)
    };
    let mut all = Vec::new();
    for (vrf, tables) in root.vrfs.iter().enumerate() {
        for address in candidates().into_iter().chain([ip("172.16.0.1"), ip("9.9.9.9"), ip("2001:db8:9::1")]) {
            let value = match address {
                IpAddr::V4(address) => tables.v4.lookup(&guard, address.to_bits()),
                IpAddr::V6(address) => tables.v6.lookup(&guard, address.to_bits()),
            };
            let rib = compiler.ribs().get(vrf).and_then(|rib| rib.covering(address));
            let said = rib.map_or(0, |(_, entry)| entry.forwarding);
            assert_eq!(value, said, "{address}: the table and what it was made of");
            let mut leads = match crate::root::Forwarding(value).set() {
                None => vec![adjacency(value)],
                Some(set) => compiler.paths(set).iter().map(|(number, _)| adjacency(*number)).collect(),
            };
            leads.sort_by_key(|lead| lead.2);
            all.push((format!("{vrf} {address}"), leads));
        }
    }
    for interface in root.interfaces.iter().filter(|interface| interface.present) {
        for address in candidates() {
            let IpAddr::V6(address) = address else { continue };
            all.push((format!("{} {address}", interface.name), vec![adjacency(interface.neighbor(address))]));
        }
        let own: Vec<String> = interface.addresses.iter().map(|own| own.net.to_string()).collect();
        all.push((format!("{} {own:?} {}", interface.name, interface.tentative.len()), Vec::new()));
    }
    all
}

#[derive(Debug, Clone)]
enum Op {
    Learn(Vec<Lesson>),
    Load {
        variant: u8,
        down: [bool; 2],
        peer: bool,
        tentative: bool,
    },
    Usable,
    /// A source changes its offers: VRF, party, and the indices of prefixes and targets, the last of which is none.
    Offer(bool, bool, Vec<(usize, usize)>),
}

/// Prefixes that sources offer: around, inside and beside those of the model, and its hosts.
const OFFERED: [&str; 16] = [
    "0.0.0.0/0",
    "9.9.9.0/24",
    "10.0.0.0/8",
    "10.0.0.0/16",
    "10.0.0.0/29",
    "10.0.0.4/32",
    "10.0.0.6/32",
    "10.0.5.0/24",
    "10.0.5.3/32",
    "10.0.6.0/24",
    "10.1.0.0/30",
    "172.16.0.0/12",
    "::/0",
    "2001:db8:9::/48",
    "2001:db8:a::5/128",
    "2001:db8:b::/126",
];

/// The targets of offers.
fn targets() -> Vec<Option<Arc<Target>>> {
    let hop = |interface, address: &str| Hop { interface, address: address.parse().ok(), weight: 1 };
    let then = |hops: &[Hop], next| Some(Arc::new(Target::Via(hops.into(), next)));
    let via = |hops: &[Hop]| then(hops, None);
    vec![
        None,
        Some(Arc::new(Target::Blackhole)),
        Some(Arc::new(Target::Unreachable)),
        via(&[hop(0, "10.0.0.3")]),
        via(&[hop(1, "")]),
        via(&[hop(0, "10.0.0.3"), hop(1, "10.1.0.5"), hop(3, "10.3.0.5")]),
        via(&[hop(0, "fe80::5"), Hop { weight: 3, ..hop(1, "fe80::6") }]),
        via(&[hop(3, ""), hop(7, "10.3.0.9")]),
        then(&[hop(0, "10.0.0.3")], via(&[hop(1, "10.1.0.5")])),
        then(&[hop(1, "")], then(&[hop(7, "")], then(&[hop(1, "")], Some(Arc::new(Target::Blackhole))))),
    ]
}

/// All routes, with the party that each comes from and the number of its alternates.
fn routes(compiler: &Compiler) -> Vec<(usize, IpNet, By, Source, usize)> {
    let mut all = Vec::new();
    for (vrf, rib) in compiler.ribs().iter().enumerate() {
        let v4 = rib.v4.iter().map(|(&net, entry)| (IpNet::from(net), entry));
        let v6 = rib.v6.iter().map(|(&net, entry)| (IpNet::from(net), entry));
        all.extend(v4.chain(v6).map(|(net, entry)| (vrf, net, entry.by, entry.source, rib.alternates(net).len())));
    }
    all.sort_by_key(|route| (route.0, route.1));
    all
}

fn op() -> impl Strategy<Value = Op> {
    let learned = proptest::option::weighted(0.7, (1..4u8, any::<bool>()));
    let one = (0..4u32, 0..candidates().len(), learned);
    prop_oneof![
        6 => proptest::collection::vec(one, 1..6).prop_map(Op::Learn),
        2 => (0..16u8, any::<[bool; 2]>(), any::<[bool; 2]>())
            .prop_map(|(variant, down, [peer, tentative])| Op::Load { variant, down, peer, tentative }),
        1 => Just(Op::Usable),
        4 => (
            any::<bool>(),
            any::<bool>(),
            proptest::collection::vec((0..OFFERED.len(), 0..targets().len()), 1..6),
        )
            .prop_map(|(red, kernel, offers)| Op::Offer(red, kernel, offers)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn step_by_step_is_all_at_once(ops in proptest::collection::vec(op(), 1..25)) {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let mut compiler = compiler(&domain);
        let (mut gateway, mut now) = (model(0), places(&model(0), [false; 2], false));
        let mut known: HashMap<(u32, IpAddr), Learned> = HashMap::new();
        let (_, mut map) = compiler.compile(&gateway, &now).unwrap();
        let mut offered: HashMap<(&str, By, IpNet), Arc<Target>> = HashMap::new();
        let mut has_offered = false;
        let mut root;
        let candidates = candidates();
        for op in ops {
            match op {
                Op::Learn(learned) => {
                    let changes: Vec<Change> = learned
                        .iter()
                        .filter(|(interface, ..)| map.interfaces.contains(interface))
                        .map(|&(interface, at, learned)| {
                            let learned = learned.map(|(last, stale)| Learned { mac: mac(last), stale });
                            Change::Neighbor { interface, address: candidates[at], learned }
                        })
                        .collect();
                    for change in &changes {
                        let Change::Neighbor { interface, address, learned } = *change else { continue };
                        match learned {
                            Some(learned) => known.insert((interface, address), learned),
                            None => known.remove(&(interface, address)),
                        };
                    }
                    let (new, refused) = compiler.change(changes);
                    prop_assert_eq!(refused, 0);
                    root = new;
                }
                Op::Load { variant, down, peer, tentative } => {
                    gateway = model(variant);
                    now = places(&gateway, down, peer);
                    if tentative {
                        let (_, interfaces) = compiler.outline(&gateway, &now);
                        for (number, interface) in interfaces.iter().enumerate() {
                            for own in interface.addresses.iter() {
                                if let IpAddr::V6(address) = own.net.addr() {
                                    now.unusable.insert((number as u32, address));
                                }
                            }
                        }
                    }
                    (root, map) = compiler.compile(&gateway, &now).unwrap();
                    has_offered = false;
                    offered.retain(|(vrf, ..), _| gateway.vrfs.iter().any(|own| own.name == *vrf));
                    // What is known of interfaces that are gone goes with them.
                    let gone: Vec<_> =
                        known.keys().filter(|(interface, _)| !map.interfaces.contains(interface)).copied().collect();
                    for (interface, address) in gone {
                        known.remove(&(interface, address));
                        root = compiler.change([Change::Neighbor { interface, address, learned: None }]).0;
                    }
                }
                Op::Usable => {
                    let mut all: Vec<_> = now.unusable.drain().collect();
                    all.sort_unstable();
                    let changes = all.into_iter().map(|(interface, address)| Change::Usable { interface, address });
                    root = compiler.change(changes).0;
                }
                Op::Offer(red, kernel, offers) => {
                    has_offered = true;
                    let (vrf, by) = (if red { "red" } else { "default" }, if kernel { By::Kernel } else { By::Fpm });
                    let offers: Vec<_> = offers
                        .into_iter()
                        .map(|(prefix, target)| (OFFERED[prefix].parse().unwrap(), targets()[target].clone()))
                        .collect();
                    let is_there = gateway.vrfs.iter().any(|own| own.name == vrf);
                    let (new, changed) = compiler.change_routes(vrf, by, offers.clone());
                    root = new;
                    prop_assert_eq!((changed.refused.len(), changed.is_unknown), (0, !is_there));
                    let (mut counts, mut first) = ([0; 3], None);
                    for (prefix, target) in offers.into_iter().filter(|_| is_there) {
                        let before = match target.clone() {
                            Some(target) => offered.insert((vrf, by, prefix), target),
                            None => offered.remove(&(vrf, by, prefix)),
                        };
                        let effect = match (&before, &target) {
                            (None, Some(_)) => 0,
                            (Some(_), None) => 2,
                            _ if before == target => continue,
                            _ => 1,
                        };
                        counts[effect] += 1;
                        first = first.or(Some(prefix));
                    }
                    prop_assert_eq!(([changed.came, changed.changed, changed.went], changed.first), (counts, first));
                }
            }
            // Interfaces have numbers by the order in which they were first seen: the same here.
            let mut fresh = self::compiler(&domain);
            fresh.numbers.interfaces = compiler.numbers.interfaces.clone();
            fresh.interfaces = compiler.interfaces.clone();
            fresh.numbers.vrfs = compiler.numbers.vrfs.clone();
            for (&(interface, address), &learned) in &known {
                fresh.learned.set(interface, address, Some(learned));
            }
            for (&(vrf, by, prefix), target) in &offered {
                fresh.sources.set(vrf, by, prefix, Some(Arc::clone(target)));
            }
            let (expected, _) = fresh.compile(&gateway, &now).unwrap();
            prop_assert_eq!(routes(&compiler), routes(&fresh));
            prop_assert_eq!(meaning(&compiler, &root, &mut reader), meaning(&fresh, &expected, &mut reader));
            let used = |compiler: &Compiler| compiler.numbers.adjacencies.used().iter().filter(|used| **used).count();
            // Next hops of offers stay until the next compilation, and paths by links that are down get theirs with it.
            let (now, least) = (used(&compiler), used(&fresh));
            prop_assert!(now == least || has_offered, "{} adjacencies in use, not {}", now, least);
        }
    }
}

#[test]
fn a_table_without_room_leaves_neighbours_to_the_link() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let gateway = model(0);
    let now = places(&gateway, [false; 2], false);
    let mut compiler = compiler(&domain);
    let (root, _) = compiler.compile(&gateway, &now).unwrap();
    let routes = compiler.occupancy().next().unwrap().0.routes;
    let before = meaning(&compiler, &root, &mut reader);
    let learned = Some(Learned { mac: mac(1), stale: false });
    let neighbors: Vec<IpAddr> = (0..1200u32).map(|host| std::net::Ipv4Addr::from(0x0a00_8000 + host).into()).collect();
    let learn = |address: &IpAddr, learned| Change::Neighbor { interface: 0, address: *address, learned };
    let (_, refused) = compiler.change(neighbors.iter().map(|address| learn(address, learned)));
    assert_eq!(refused, 1200 - (1000 - routes));
    let (root, refused) = compiler.change(neighbors.iter().map(|address| learn(address, None)));
    assert_eq!(refused, 0);
    assert_eq!(meaning(&compiler, &root, &mut reader), before);
    assert_eq!(compiler.occupancy().next().unwrap().0.routes, routes);
    let free = compiler.numbers.adjacencies.used().iter().filter(|used| !**used).count();
    assert!(free >= 1000 - routes);
    let (_, refused) = compiler.change(neighbors[..500].iter().map(|address| learn(address, learned)));
    assert_eq!((refused, compiler.occupancy().next().unwrap().0.routes), (0, routes + 500));
}

/// A route over several links keeps its set when one of them goes down and comes back, as many prefixes as there are: buckets change.
#[test]
fn a_link_changes_sets_and_not_prefixes() {
    let domain = Domain::new();
    let gateway = model(0);
    let mut compiler = compiler(&domain);
    let (root, _) = compiler.compile(&gateway, &places(&gateway, [false; 2], false)).unwrap();
    let (prefix, offered): (IpNet, IpNet) = ("172.16.0.0/12".parse().unwrap(), "9.9.9.0/24".parse().unwrap());
    let target = targets()[5].clone();
    compiler.change_routes("default", By::Kernel, vec![(offered, target)]);
    let of = |compiler: &Compiler, net| compiler.ribs()[0].get(net).map(|entry| entry.forwarding);
    let before = [of(&compiler, prefix), of(&compiler, offered)];
    let interfaces = |compiler: &Compiler, root: &Root, forwarding: Option<u32>| {
        let set = crate::root::Forwarding(forwarding.unwrap()).set().unwrap();
        let interface = |number: &u32| root.adjacencies.get(*number as usize).unwrap().interface;
        let buckets: std::collections::BTreeSet<u32> = compiler.routing.set(set).iter().map(interface).collect();
        let paths: std::collections::BTreeSet<u32> =
            compiler.paths(set).iter().map(|(number, _)| interface(number)).collect();
        assert_eq!(buckets, paths);
        buckets.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(interfaces(&compiler, &root, before[0]), [0, 1, 2]);
    let shared = compiler.routing.buckets.clone();
    for (down, left) in [([true, false], [vec![1, 2], vec![1]]), ([false, true], [vec![0], vec![0]])] {
        let (root, _) = compiler.recompile(&gateway, &places(&gateway, down, false)).unwrap();
        assert_eq!([of(&compiler, prefix), of(&compiler, offered)], before);
        assert_eq!(interfaces(&compiler, &root, before[0]), left[0]);
        assert_eq!(interfaces(&compiler, &root, before[1]), left[1]);
        let (root, _) = compiler.recompile(&gateway, &places(&gateway, [false; 2], false)).unwrap();
        assert_eq!([of(&compiler, prefix), of(&compiler, offered)], before);
        assert_eq!(interfaces(&compiler, &root, before[0]), [0, 1, 2]);
    }
    assert_eq!(compiler.routing.buckets, shared, "each flow is on its first path again");
    // Without any link there is no route.
    compiler.recompile(&gateway, &places(&gateway, [true; 2], false)).unwrap();
    assert_eq!([of(&compiler, prefix), of(&compiler, offered)], [None; 2]);
}

/// While all links of a source's route are down, its next one counts, before routes of weaker sources.
#[test]
fn the_next_route_of_a_source_counts_while_the_links_of_the_first_are_down() {
    let domain = Domain::new();
    let gateway = model(0);
    let mut compiler = compiler(&domain);
    compiler.compile(&gateway, &places(&gateway, [false; 2], false)).unwrap();
    let offered: IpNet = "9.9.9.0/24".parse().unwrap();
    let kernel = Some(Arc::new(Target::Unreachable));
    let hop = |interface, address: &str| Hop { interface, address: address.parse().ok(), weight: 1 };
    let second = Some(Arc::new(Target::Via([hop(1, "10.1.0.5")].into(), None)));
    let first = Some(Arc::new(Target::Via([hop(0, "10.0.0.3")].into(), second)));
    compiler.change_routes("default", By::Kernel, vec![(offered, kernel)]);
    let over = |compiler: &Compiler| {
        let rib = &compiler.ribs()[0];
        let entry = rib.get(offered).unwrap();
        let adjacency = compiler.routing.adjacencies.get(entry.forwarding as usize).unwrap();
        (entry.by, entry.source, adjacency.next_hop, rib.alternates(offered).len())
    };
    compiler.change_routes("default", By::Fpm, vec![(offered, first.clone())]);
    for _ in 0..2 {
        for (down, expected) in [
            ([false, false], (By::Fpm, Source::Static, Some(ip("10.0.0.3")), 1)),
            ([true, false], (By::Fpm, Source::Static, Some(ip("10.1.0.5")), 0)),
            ([false, true], (By::Fpm, Source::Static, Some(ip("10.0.0.3")), 0)),
            ([true, true], (By::Kernel, Source::Unreachable, None, 0)),
        ] {
            compiler.recompile(&gateway, &places(&gateway, down, false)).unwrap();
            assert_eq!(over(&compiler), expected, "{down:?}");
        }
        // The same if the route comes while the links are down.
        compiler.change_routes("default", By::Fpm, vec![(offered, None)]);
        compiler.recompile(&gateway, &places(&gateway, [true, false], false)).unwrap();
        compiler.change_routes("default", By::Fpm, vec![(offered, first.clone())]);
        assert_eq!(over(&compiler), (By::Fpm, Source::Static, Some(ip("10.1.0.5")), 0));
    }
}
