use std::collections::HashMap;
use std::net::IpAddr;

use proptest::prelude::*;

use super::*;

fn table() -> Table {
    Table::main()
}

fn path(device: u32, gateway: &str) -> Path {
    Path { device, gateway: gateway.parse().ok(), weight: 1, is_encapsulated: false }
}

fn route(prefix: &str, metric: u32, paths: &[Path]) -> Route {
    Route {
        table: 254,
        prefix: prefix.parse().unwrap(),
        protocol: 186,
        tos: 0,
        metric,
        kind: RouteKind::Unicast,
        paths: paths.to_vec(),
        nexthop: None,
        replaces: false,
        appends: false,
    }
}

/// A source with devices 1 and 2 of the interfaces 10 and 20, and device 3 of none.
fn fib(limit: usize) -> Fib {
    let mut fib = Fib::new(&[table()], limit, false);
    for (index, name) in [(1, "a"), (2, "b"), (3, "other")] {
        fib.apply(Update::Device(index, name.into(), true));
    }
    fib.set_interfaces(HashMap::from([("a".into(), 10), ("b".into(), 20)]));
    fib
}

/// The offers that are in force after all changes so far.
fn follow(fib: &mut Fib, offered: &mut BTreeMap<IpNet, Arc<Target>>) {
    while let Some((vrf, offers)) = fib.offers(2) {
        assert_eq!(vrf, "default");
        for (prefix, target) in offers {
            match target {
                Some(target) => drop(offered.insert(prefix, target)),
                None => drop(offered.remove(&prefix)),
            }
        }
    }
}

fn via(hops: &[(u32, &str, u8)]) -> Arc<Target> {
    via_then(hops, None)
}

fn via_then(hops: &[(u32, &str, u8)], next: Option<Arc<Target>>) -> Arc<Target> {
    let hop = |&(interface, address, weight): &(u32, &str, u8)| Hop {
        interface,
        address: address.parse::<IpAddr>().ok(),
        weight,
    };
    Arc::new(Target::Via(hops.iter().map(hop).collect(), next))
}

#[test]
fn routes_that_lead_to_an_interface_are_offered_by_their_metric() {
    let (mut fib, mut offered) = (fib(100), BTreeMap::new());
    let net = "10.0.0.0/8".parse().unwrap();
    fib.apply(Update::Route(route("10.0.0.0/8", 20, &[path(1, "192.0.2.1")])));
    fib.apply(Update::Route(route("10.0.0.0/8", 5, &[path(3, "192.0.2.3")])));
    fib.apply(Update::Route(route("10.0.0.0/8", 10, &[path(2, "192.0.2.2")])));
    follow(&mut fib, &mut offered);
    let last = via(&[(10, "192.0.2.1", 1)]);
    assert_eq!(offered[&net], via_then(&[(20, "192.0.2.2", 1)], Some(Arc::clone(&last))));
    fib.apply(Update::RouteGone(route("10.0.0.0/8", 10, &[path(2, "192.0.2.2")])));
    follow(&mut fib, &mut offered);
    assert_eq!(offered[&net], via(&[(10, "192.0.2.1", 1)]));
    // The device becomes an interface's, and another one loses its name.
    fib.apply(Update::Device(3, "b".into(), true));
    follow(&mut fib, &mut offered);
    assert_eq!(offered[&net], via_then(&[(20, "192.0.2.3", 1)], Some(last)));
    // Of its own links, of another table, type of service or kind, of the kernel itself: not taken.
    let base = route("10.1.0.0/16", 0, &[path(1, "")]);
    for other in [
        route("fe80::/64", 0, &[path(1, "")]),
        Route { table: 255, ..base.clone() },
        Route { tos: 4, ..base.clone() },
        Route { kind: RouteKind::Other(2), ..base.clone() },
        Route { protocol: 2, ..base.clone() },
    ] {
        fib.apply(Update::Route(other));
    }
    assert_eq!(fib.counts().routes, 2);
}

#[test]
fn memory_is_that_of_the_routes() {
    let mut fib = fib(100_000);
    let empty = fib.counts().octets;
    for at in 0..10_000u32 {
        let prefix = format!("10.{}.{}.0/24", at >> 8, at & 255);
        fib.apply(Update::Route(route(&prefix, 20, &[path(1, "192.0.2.1")])));
    }
    while fib.offers(1000).is_some() {}
    let each = (fib.counts().octets - empty) / 10_000;
    assert!((80..300).contains(&each), "{each} octets a route");
    // Routes that go leave no memory but that of lists which are filled again.
    fib.begin();
    fib.end();
    while fib.offers(1000).is_some() {}
    assert!(fib.counts().octets < empty + 10_000 * 64, "{}", fib.counts().octets);
}

/// Routes for a prefix that lead nowhere are left out, as they are not offered.
#[test]
fn routes_are_known_with_their_program_and_metric() {
    let mut fib = fib(100);
    let net = "10.0.0.0/8".parse().unwrap();
    fib.apply(Update::Route(route("10.0.0.0/8", 20, &[path(1, "192.0.2.1")])));
    fib.apply(Update::Route(route("10.0.0.0/8", 5, &[path(3, "192.0.2.3")])));
    fib.apply(Update::Route(Route { protocol: 188, ..route("10.0.0.0/8", 10, &[path(2, "192.0.2.2")]) }));
    let own = |protocol, metric, target| Own { protocol, metric, target };
    let expected = [own(188, 10, via(&[(20, "192.0.2.2", 1)])), own(186, 20, via(&[(10, "192.0.2.1", 1)]))];
    assert_eq!(fib.own("default", net), expected);
    assert!(fib.own("blue", net).is_empty() && fib.own("default", "10.0.0.0/9".parse().unwrap()).is_empty());
}

/// Routes behind one that discards never count, nor do repetitions; and there is an end.
#[test]
fn a_prefix_offers_so_many_routes_at_most() {
    let (mut fib, mut offered) = (fib(100), BTreeMap::new());
    let net = "10.0.0.0/8".parse().unwrap();
    let first = route("10.0.0.0/8", 1, &[path(1, "192.0.2.1")]);
    let discards = Route { kind: RouteKind::Blackhole, ..route("10.0.0.0/8", 3, &[]) };
    for route in [
        Route { metric: 2, ..first.clone() },
        discards.clone(),
        route("10.0.0.0/8", 4, &[path(2, "192.0.2.2")]),
        first.clone(),
    ] {
        fib.apply(Update::Route(route));
    }
    follow(&mut fib, &mut offered);
    assert_eq!(offered[&net], via_then(&[(10, "192.0.2.1", 1)], Some(Arc::new(Target::Blackhole))));
    fib.apply(Update::RouteGone(discards));
    for metric in 10..30 {
        fib.apply(Update::Route(route("10.0.0.0/8", metric, &[path(1, &format!("192.0.2.{metric}"))])));
    }
    follow(&mut fib, &mut offered);
    let mut metrics = [1, 2, 10, 11, 12, 13, 14, 15].into_iter();
    let mut next = Some(Arc::clone(&offered[&net]));
    while let Some(target) = next {
        let Target::Via(hops, behind) = &*target else { panic!("{target:?}") };
        assert_eq!(hops[0].address, format!("192.0.2.{}", metrics.next().unwrap()).parse().ok());
        next = behind.clone();
    }
    assert_eq!((metrics.next(), chains::MOST_OFFERED), (None, 8));
}

#[test]
fn kinds_without_paths_are_distinct() {
    let (mut fib, mut offered) = (fib(100), BTreeMap::new());
    let net = "10.0.0.0/8".parse().unwrap();
    let of = |kind| Route { kind, ..route("10.0.0.0/8", 1, &[]) };
    for (kind, target) in [
        (RouteKind::Blackhole, Target::Blackhole),
        (RouteKind::Unreachable, Target::Unreachable),
        (RouteKind::Prohibit, Target::Prohibit),
    ] {
        fib.apply(Update::Route(of(kind)));
        follow(&mut fib, &mut offered);
        assert_eq!(*offered[&net], target);
        fib.apply(Update::RouteGone(of(kind)));
        follow(&mut fib, &mut offered);
        assert!(offered.is_empty());
    }
    // Equal routes of several kinds: the one that goes is the one of the message.
    for kind in [RouteKind::Unreachable, RouteKind::Prohibit] {
        fib.apply(Update::Route(Route { appends: true, ..of(kind) }));
    }
    fib.apply(Update::RouteGone(of(RouteKind::Unreachable)));
    follow(&mut fib, &mut offered);
    assert_eq!(*offered[&net], Target::Prohibit);
}

#[test]
fn objects_and_groups_change_the_routes_over_them() {
    let (mut fib, mut offered) = (fib(100), BTreeMap::new());
    let net = "10.0.0.0/8".parse().unwrap();
    fib.apply(Update::Route(Route { nexthop: Some(7), ..route("10.0.0.0/8", 0, &[]) }));
    follow(&mut fib, &mut offered);
    assert!(offered.is_empty(), "the object is not known yet");
    fib.apply(Update::Nexthop(1, Nexthop::Path(path(1, "fe80::1"))));
    fib.apply(Update::Nexthop(2, Nexthop::Path(path(2, "192.0.2.2"))));
    fib.apply(Update::Nexthop(7, Nexthop::Group(vec![(1, 1000), (2, 500), (9, 3)])));
    follow(&mut fib, &mut offered);
    assert_eq!(offered[&net], via(&[(10, "fe80::1", 255), (20, "192.0.2.2", 127)]));
    assert!(fib.apply(Update::NexthopGone(1)), "the kernel does not say which routes go");
    follow(&mut fib, &mut offered);
    assert_eq!(offered[&net], via(&[(20, "192.0.2.2", 255)]));
    fib.apply(Update::Nexthop(2, Nexthop::Blackhole));
    fib.apply(Update::Nexthop(7, Nexthop::Group(vec![(2, 1)])));
    follow(&mut fib, &mut offered);
    assert_eq!(*offered[&net], Target::Blackhole);
    // A group in itself has no end, and one without members no path.
    for members in [vec![(7, 1)], vec![]] {
        fib.apply(Update::Nexthop(7, Nexthop::Group(members)));
        follow(&mut fib, &mut offered);
        assert!(offered.is_empty());
    }
}

#[test]
fn groups_that_name_each_other_many_times_cost_little() {
    let (mut fib, mut offered) = (fib(100), BTreeMap::new());
    fib.apply(Update::Route(Route { nexthop: Some(1), ..route("10.0.0.0/8", 0, &[]) }));
    fib.apply(Update::Route(Route { nexthop: Some(5), ..route("10.1.0.0/16", 0, &[]) }));
    fib.apply(Update::Route(route("10.2.0.0/16", 0, &[path(99, "192.0.2.1")])));
    let start = std::time::Instant::now();
    for turn in 0..100 {
        // Each names the next one 64 times, and the last one the first.
        for id in 1..=4 {
            fib.apply(Update::Nexthop(id, Nexthop::Group(vec![(id % 4 + 1, turn + 1); 64])));
        }
        follow(&mut fib, &mut offered);
        assert!(offered.is_empty(), "no path, no object, no such device");
    }
    // Each change looked at 64⁴ objects before.
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    // A path among them is found.
    fib.apply(Update::Nexthop(9, Nexthop::Path(path(1, "192.0.2.1"))));
    fib.apply(Update::Nexthop(4, Nexthop::Group(vec![(9, 1), (1, 1)])));
    follow(&mut fib, &mut offered);
    assert_eq!(*offered[&"10.0.0.0/8".parse().unwrap()], *via(&[(10, "192.0.2.1", 255); 64]));
}

#[test]
fn a_list_sweeps_what_it_does_not_name() {
    let (mut fib, mut offered) = (fib(100), BTreeMap::new());
    for net in ["10.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16"] {
        fib.apply(Update::Route(route(net, 0, &[path(1, "")])));
    }
    follow(&mut fib, &mut offered);
    fib.begin();
    fib.apply(Update::Route(route("10.1.0.0/16", 0, &[path(1, "")])));
    fib.apply(Update::Route(route("10.3.0.0/16", 0, &[path(1, "")])));
    assert_eq!(fib.end(), 2);
    follow(&mut fib, &mut offered);
    let left: Vec<String> = offered.keys().map(IpNet::to_string).collect();
    assert_eq!(left, ["10.1.0.0/16", "10.3.0.0/16"]);
}

#[test]
fn routes_beyond_the_limit_are_counted_and_the_first_is_named() {
    let mut fib = fib(2);
    for net in ["10.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"] {
        fib.apply(Update::Route(route(net, 0, &[path(1, "")])));
    }
    assert_eq!((fib.counts().routes, fib.counts().refused), (2, 2));
    assert_eq!(fib.take_first_refused(), Some("10.2.0.0/16".parse().unwrap()));
    assert_eq!(fib.take_first_refused(), None);
    // What is there can change.
    let other = Route { replaces: true, ..route("10.1.0.0/16", 0, &[path(2, "")]) };
    fib.apply(Update::Route(other));
    assert_eq!((fib.counts().routes, fib.counts().refused), (2, 2));
}

/// The limit bounds memory. Routes that the filters of a table leave out are not kept, so they do not count. Routes that
/// lose by their metric, or lead to a device that is no interface's, are kept, as they may count later.
#[test]
fn excluded_routes_take_no_room_and_worse_ones_do() {
    let only = Table { protocols: vec![186], max_metric: 100, ..table() };
    let mut fib = Fib::new(std::slice::from_ref(&only), 2, false);
    let base = route("10.0.0.0/8", 50, &[path(1, "192.0.2.1")]);
    for excluded in [
        Route { table: 100, ..base.clone() },
        Route { protocol: 12, ..base.clone() },
        Route { metric: 101, ..base.clone() },
        Route { tos: 4, ..base.clone() },
        route("224.0.0.0/4", 0, &[path(1, "")]),
    ] {
        for _ in 0..3 {
            fib.apply(Update::Route(excluded.clone()));
        }
    }
    assert_eq!((fib.counts().routes, fib.counts().refused), (0, 0));
    fib.apply(Update::Route(base.clone()));
    fib.apply(Update::Route(Route { metric: 60, ..base.clone() }));
    fib.apply(Update::Route(Route { metric: 70, ..base.clone() }));
    assert_eq!((fib.counts().routes, fib.counts().refused), (2, 1));
    assert!(!fib.has_room_for_refused());
    fib.apply(Update::RouteGone(base));
    assert!(fib.has_room_for_refused(), "a list would bring the route of metric 70");
    fib.begin();
    assert!(!fib.has_room_for_refused());
}

/// Routes of a program that a table does not take any more keep their prefixes until a list ends, unless others need
/// their room.
#[test]
fn routes_that_become_excluded_make_room() {
    for is_single in [false, true] {
        let (mut fib, mut offered) = (Fib::new(&[table()], 2, is_single), BTreeMap::new());
        fib.apply(Update::Device(1, "a".into(), true));
        fib.set_interfaces(HashMap::from([("a".into(), 10)]));
        for net in ["10.0.0.0/8", "11.0.0.0/8"] {
            fib.apply(Update::Route(route(net, 5, &[path(1, "192.0.2.1")])));
        }
        fib.set_tables(&[Table { protocols: vec![12], ..table() }], 2);
        follow(&mut fib, &mut offered);
        assert_eq!(offered.len(), 2, "no gap before the list");
        fib.begin();
        for net in ["10.0.0.0/8", "12.0.0.0/8"] {
            fib.apply(Update::Route(Route { protocol: 12, ..route(net, 7, &[path(1, "192.0.2.1")]) }));
        }
        assert_eq!((fib.counts().routes, fib.counts().refused), (2, 0), "single: {is_single}");
        fib.end();
        follow(&mut fib, &mut offered);
        let left: Vec<String> = offered.keys().map(IpNet::to_string).collect();
        assert_eq!(left, ["10.0.0.0/8", "12.0.0.0/8"]);
    }
}

/// A route that is not taken may take the place of one that is: then there is no route any more.
#[test]
fn a_route_that_an_excluded_one_replaces_goes() {
    for is_single in [false, true] {
        let mut fib = Fib::new(&[Table { protocols: vec![186], ..table() }], 2, is_single);
        let base = route("10.0.0.0/8", 5, &[path(1, "192.0.2.1")]);
        fib.apply(Update::Route(base.clone()));
        let other = Route { protocol: 12, replaces: true, ..base.clone() };
        fib.apply(Update::Route(Route { tos: 4, metric: 6, replaces: !is_single, table: 100, ..other.clone() }));
        assert_eq!(fib.counts().routes, 1);
        assert_eq!(fib.apply(Update::Route(other)), !is_single, "a list says what the kernel has now");
        assert_eq!(fib.counts().routes, 0);
    }
    // A deletion by a forwarding plane manager may leave out the program.
    let mut fib = Fib::new(&[Table { protocols: vec![186], ..table() }], 2, true);
    fib.apply(Update::Route(route("10.0.0.0/8", 5, &[path(1, "192.0.2.1")])));
    fib.apply(Update::RouteGone(Route { protocol: 0, ..route("10.0.0.0/8", 0, &[]) }));
    assert_eq!(fib.counts().routes, 0);
}

#[test]
fn a_forwarding_plane_manager_has_one_route_for_a_prefix() {
    let mut fib = Fib::new(&[table()], 2, true);
    fib.apply(Update::Device(1, "a".into(), true));
    fib.set_interfaces(HashMap::from([("a".into(), 10)]));
    let (mut offered, net) = (BTreeMap::new(), "10.0.0.0/8".parse().unwrap());
    fib.apply(Update::Route(route("10.0.0.0/8", 20, &[path(1, "192.0.2.1")])));
    fib.apply(Update::Route(route("10.0.0.0/8", 30, &[path(1, "192.0.2.2")])));
    follow(&mut fib, &mut offered);
    assert_eq!((offered.get(&net), fib.counts().routes), (Some(&via(&[(10, "192.0.2.2", 1)])), 1));
    // Deletions name no paths.
    fib.apply(Update::RouteGone(route("10.0.0.0/8", 0, &[])));
    follow(&mut fib, &mut offered);
    assert!(offered.is_empty() && fib.counts().routes == 0);
}

#[test]
fn paths_of_ipv6_routes_go_one_by_one() {
    let (mut fib, mut offered) = (fib(100), BTreeMap::new());
    let net = "2001:db8::/32".parse().unwrap();
    let both = [path(1, "fe80::1"), path(2, "fe80::2")];
    fib.apply(Update::Route(route("2001:db8::/32", 1024, &both[..1])));
    fib.apply(Update::Route(Route { appends: true, ..route("2001:db8::/32", 1024, &both) }));
    follow(&mut fib, &mut offered);
    assert_eq!(offered[&net], via(&[(10, "fe80::1", 1), (20, "fe80::2", 1)]));
    fib.apply(Update::RouteGone(route("2001:db8::/32", 1024, &both[..1])));
    follow(&mut fib, &mut offered);
    assert_eq!(offered[&net], via(&[(20, "fe80::2", 1)]));
    fib.apply(Update::RouteGone(route("2001:db8::/32", 1024, &both[1..])));
    follow(&mut fib, &mut offered);
    assert!(offered.is_empty() && fib.counts().routes == 0);
}

/// One step: a route of these comes or goes, by the indices of its prefix, metric and path; or a list is read.
#[derive(Debug, Clone)]
enum Step {
    Add(usize, u32, u32),
    Remove(usize, u32),
    List,
}

proptest! {
    /// Whatever comes and goes, offers are those of a table that keeps one route for each prefix and metric.
    #[test]
    fn offers_are_those_of_a_plain_table(steps in proptest::collection::vec(prop_oneof![
        4 => (0..4usize, 0..3u32, 1..4u32).prop_map(|(net, metric, device)| Step::Add(net, metric, device)),
        3 => (0..4usize, 0..3u32).prop_map(|(net, metric)| Step::Remove(net, metric)),
        1 => Just(Step::List),
    ], 1..60)) {
        let nets = ["10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "2001:db8::/32"];
        let mut plain: BTreeMap<(usize, u32), u32> = BTreeMap::new();
        let (mut fib, mut offered) = (fib(100), BTreeMap::new());
        for step in steps {
            match step {
                Step::Add(net, metric, device) => {
                    plain.insert((net, metric), device);
                    let new = Route { replaces: true, ..route(nets[net], metric, &[path(device, "")]) };
                    fib.apply(Update::Route(new));
                }
                Step::Remove(net, metric) => {
                    if let Some(device) = plain.remove(&(net, metric)) {
                        fib.apply(Update::RouteGone(route(nets[net], metric, &[path(device, "")])));
                    }
                }
                Step::List => {
                    fib.begin();
                    for (&(net, metric), &device) in &plain {
                        fib.apply(Update::Route(route(nets[net], metric, &[path(device, "")])));
                    }
                    prop_assert_eq!(fib.end(), 0);
                }
            }
            follow(&mut fib, &mut offered);
            let mut devices: BTreeMap<IpNet, Vec<u32>> = BTreeMap::new();
            for (&(net, _), &device) in plain.iter().filter(|(_, device)| **device < 3) {
                let all = devices.entry(nets[net].parse().unwrap()).or_default();
                if !all.contains(&device) {
                    all.push(device);
                }
            }
            let mut expected: BTreeMap<IpNet, Arc<Target>> = BTreeMap::new();
            for (net, devices) in devices {
                let chain = devices.iter().rev().fold(None, |next, device| Some(via_then(&[(device * 10, "", 1)], next)));
                expected.extend(chain.map(|chain| (net, chain)));
            }
            prop_assert_eq!(&offered, &expected);
            prop_assert_eq!(fib.counts().routes, plain.len());
        }
    }
}

/// Prefixes that change again and again before they are handed over are handed over once, in order, and take no memory
/// without bound.
#[test]
fn prefixes_that_change_often_are_offered_once() {
    let mut dirty = super::Dirty::default();
    let net = |number: u32| IpNet::new(std::net::Ipv4Addr::from(number << 8).into(), 24).unwrap();
    for _ in 0..1000 {
        dirty.extend((0..1000).rev().map(net));
    }
    assert!(dirty.list.len() <= 2 * super::Dirty::LEAST, "{}", dirty.list.len());
    let mut popped: Vec<IpNet> = Vec::new();
    for turn in 0..500 {
        popped.extend(dirty.pop_first());
        if turn == 10 {
            // Comes in between: behind the first ones, before the others.
            dirty.insert(net(3));
        }
    }
    popped.extend(std::iter::from_fn(|| dirty.pop_first()));
    let mut expected: Vec<IpNet> = (0..1000).map(net).collect();
    expected.insert(11, net(3));
    assert_eq!(popped, expected);
    assert!(dirty.is_empty());
}

#[test]
fn tables_come_and_go() {
    let mut fib = fib(100);
    let mut offered = BTreeMap::new();
    let other = Table { id: 100, protocols: vec![186], ..table() };
    fib.apply(Update::Route(route("10.0.0.0/8", 0, &[path(1, "192.0.2.1")])));
    follow(&mut fib, &mut offered);
    // Another table brings its own routes; those of the first stay until a list leaves them out.
    fib.set_tables(&[Table { protocols: vec![12], ..table() }, other.clone()], 100);
    fib.begin();
    for protocol in [12, 186] {
        fib.apply(Update::Route(Route { protocol, ..route("10.0.0.0/8", 0, &[path(1, "192.0.2.1")]) }));
        fib.apply(Update::Route(Route { protocol, table: 100, ..route("11.0.0.0/8", 0, &[path(2, "198.51.100.1")]) }));
    }
    fib.apply(Update::Route(Route { table: 100, ..route("10.0.0.0/8", 0, &[path(2, "198.51.100.1")]) }));
    fib.end();
    follow(&mut fib, &mut offered);
    assert_eq!((offered.len(), fib.counts().routes), (2, 3));
    // What goes with a table may be in another one.
    fib.set_tables(&[other], 100);
    follow(&mut fib, &mut offered);
    let ways: Vec<_> = offered.values().cloned().collect();
    assert_eq!((ways, fib.counts().routes), (vec![via(&[(20, "198.51.100.1", 1)]); 2], 2));
    fib.set_tables(&[], 0);
    follow(&mut fib, &mut offered);
    assert_eq!((offered.len(), fib.counts().routes), (0, 0));
}
