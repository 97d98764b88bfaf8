//! Translation by several workers: limits that they share, and replies that come to the worker of their translation.

use super::*;

/// Sends packets of a host to so many remote hosts of networks of their own, a vector each.
fn begin_each(harness: &mut Harness, from: &str, hosts: std::ops::Range<u32>) {
    let to = MacAddress(harness.interface_mac(0).unwrap());
    for host in hosts {
        let text = format!("udp from {from} port 7 to 198.51.{host}.9 port 53");
        assert!(harness.inject(0, &frame(&text, to), Time(0), host));
        harness.run();
    }
}

#[test]
fn workers_share_the_limit_of_a_vrf() {
    for (workers, is_single) in [(2, false), (4, false), (4, true)] {
        let limited = |most| {
            let build = two_ports().masquerade("wan", 6000..=6999).nat_limit("default", most);
            if is_single { build.limit_per_address(1000) } else { build }
        };
        let options = Options { seed: 7, invent_neighbors: false };
        let mut harness = Harness::with_workers(limited(10).0, options, workers).unwrap();
        let row = |harness: &Harness| {
            let row = &harness.nat_vrfs()[0];
            (row.translations, row.limit, row.limited)
        };
        begin_each(&mut harness, "10.0.0.2", 1..101);
        assert_eq!(row(&harness), (10, Some(10), 90), "{workers} workers");
        // A reload keeps the count, and a limit that goes and comes back counts the translations that there are.
        harness.reload(limited(11).0).unwrap();
        begin_each(&mut harness, "10.0.0.3", 1..101);
        assert_eq!(row(&harness), (11, Some(11), 189), "{workers} workers");
        let mut unlimited = limited(11);
        unlimited.0.vrfs[0].nat_limit = None;
        harness.reload(unlimited.0).unwrap();
        begin_each(&mut harness, "10.0.0.4", 1..4);
        harness.reload(limited(16).0).unwrap();
        // A worker takes a limit over before its next packet. The gateway has all do it at once.
        begin_each(&mut harness, "10.0.0.2", 1..11);
        begin_each(&mut harness, "10.0.0.5", 1..101);
        assert_eq!(row(&harness), (16, Some(16), 98), "{workers} workers");
        // Each that ends makes room for one, whichever worker has it.
        let filter = FlowFilter { translations: true, ..FlowFilter::default() };
        assert_eq!(harness.clear_flows(&filter), 16);
        begin_each(&mut harness, "10.0.0.6", 1..101);
        assert_eq!(row(&harness).0, 16, "{workers} workers");
    }
}

#[test]
fn workers_share_the_limit_of_a_list() {
    for workers in [1, 2, 4] {
        let limited = |most| logged(two_ports().masquerade("wan", 6000..=6999)).list_limit(most);
        let options = Options { seed: 7, invent_neighbors: false };
        let mut harness = Harness::with_workers(limited(10).0, options, workers).unwrap();
        harness.log_translations();
        let row = |harness: &Harness| {
            let list = &harness.nat_lists()[0];
            (list.held, list.limit, list.limited)
        };
        begin_each(&mut harness, "10.0.0.2", 1..101);
        assert_eq!(row(&harness), (Some(10), Some(10), 90), "{workers} workers");
        let drops: u64 = harness.drops(Reason::NatListLimit);
        assert_eq!((drops, harness.nat_vrfs()[0].translations), (90, 10));
        let events = harness.nat_events();
        let refused: Vec<_> = events.iter().filter(|event| event.kind == NatEventKind::ListLimited).collect();
        assert_eq!(refused.iter().map(|event| event.limit).collect::<Vec<_>>(), [Some(10)], "once a minute");
        // A reload keeps the count, and another one that goes and comes back counts the translations that there are.
        harness.reload(limited(11).0).unwrap();
        begin_each(&mut harness, "10.0.0.3", 1..101);
        assert_eq!(row(&harness), (Some(11), Some(11), 189), "{workers} workers");
        let mut unlimited = limited(11);
        unlimited.0.nat[0].limit = None;
        harness.reload(unlimited.0).unwrap();
        assert_eq!(row(&harness), (None, None, 0));
        // A worker takes a limit over before its next packet. The gateway has all do it at once.
        begin_each(&mut harness, "10.0.0.2", 1..11);
        harness.reload(limited(11).0).unwrap();
        begin_each(&mut harness, "10.0.0.2", 1..11);
        begin_each(&mut harness, "10.0.0.4", 1..101);
        assert_eq!(row(&harness), (Some(11), Some(11), 100), "{workers} workers");
        // Translations that go on by a rule of another list count for that one, also beyond its limit.
        let mut renamed = limited(3);
        renamed.0.nat[0].name = "other".into();
        harness.reload(renamed.0).unwrap();
        begin_each(&mut harness, "10.0.0.2", 1..11);
        begin_each(&mut harness, "10.0.0.5", 1..101);
        let (held, limit, limited) = row(&harness);
        assert!((10..=11).contains(&held.unwrap()) && limit == Some(3) && limited == 100, "{held:?} {limited}");
        let filter = FlowFilter { translations: true, ..FlowFilter::default() };
        harness.clear_flows(&filter);
        begin_each(&mut harness, "10.0.0.6", 1..101);
        assert_eq!(row(&harness).0, Some(3), "{workers} workers");
    }
}

#[test]
fn fragments_between_inside_hosts_come_to_the_worker_of_their_translation() {
    let build = two_ports().port("dmz", &["10.1.0.1/24"]).neighbor("dmz", "10.1.0.2", mac(3));
    let build = forward(build.via("10.9.0.0/16", &["lan 10.0.0.2"]), "192.0.2.1/32", "10.1.0.2/32");
    let mut harness = Harness::with_workers(build.0, Options { seed: 7, invent_neighbors: false }, 4).unwrap();
    let [lan, dmz] = [0, 2].map(|port| MacAddress(harness.interface_mac(port).unwrap()));
    for host in 1..=100 {
        let text = format!("udp from 10.9.0.{host} port {host} to 192.0.2.1 port 53");
        assert!(harness.inject(0, &frame(&text, lan), Time(0), host));
    }
    harness.run();
    for host in 1..=100 {
        let first = format!("udp from 10.1.0.2 port 53 to 10.9.0.{host} port {host} length 1500 fragment 0+");
        let later = format!("udp from 10.1.0.2 to 10.9.0.{host} length 100 fragment 1480");
        for (number, text) in (0..).zip([first, later]) {
            assert!(harness.inject(2, &frame(&text, dmz), Time(0), 2 * host + number));
        }
    }
    harness.run();
    let translations = harness.translations(&FlowFilter::default(), usize::MAX).rows;
    assert_eq!(translations.len(), 100);
    assert!(translations.iter().all(|own| own.packets == [1, 2]), "{translations:?}");
}

/// A `destination` rule at `wan` for packets to an address of it.
fn forward(build: Build, to: &str, server: &str) -> Build {
    let mut build = build.nat("wan", NatVerb::Destination, None);
    let list = build.0.nat.last_mut().expect("a list of rules");
    let mut rule = list.rules[0].clone();
    rule.matches.to = Addresses::Net(to.parse().expect("a prefix"));
    rule.destination =
        Some(NatTarget { addresses: Some(Addresses::Net(server.parse().expect("a prefix"))), ports: None });
    list.rules = vec![rule].into();
    build
}

#[test]
fn replies_of_hosts_behind_the_outside_interface_come_to_the_worker_of_their_translation() {
    let base = || two_ports().neighbor("wan", "192.0.2.3", mac(3)).via("10.8.0.0/16", &["wan 192.0.2.3"]);
    for workers in [2, 4] {
        for server in ["192.0.2.3", "10.8.0.7"] {
            let build = forward(base(), "192.0.2.1/32", &format!("{server}/32"));
            let options = Options { seed: 7, invent_neighbors: false };
            let mut harness = Harness::with_workers(build.0, options, workers).unwrap();
            let [lan, wan] = [0, 1].map(|port| MacAddress(harness.interface_mac(port).unwrap()));
            for host in 1..=50 {
                // From outside, and from inside.
                let outside = format!("udp from 198.51.{host}.9 port {host} to 192.0.2.1 port 53");
                assert!(harness.inject(1, &frame(&outside, wan), Time(0), 7 * host));
                let inside = format!("udp from 10.0.0.2 port {host} to 192.0.2.1 port 53");
                assert!(harness.inject(0, &frame(&inside, lan), Time(0), 3 * host));
            }
            harness.run();
            for host in 1..=50 {
                for to in [format!("198.51.{host}.9"), "10.0.0.2".to_owned()] {
                    let reply = format!("udp from {server} port 53 to {to} port {host}");
                    assert!(harness.inject(1, &frame(&reply, wan), Time(0), 5 * host));
                }
            }
            harness.run();
            assert_eq!(harness.drops(Reason::NatWorker), 0);
            let translations = harness.translations(&FlowFilter::default(), usize::MAX).rows;
            assert_eq!(translations.len(), 100, "{workers} workers, {server}");
            assert!(translations.iter().all(|own| own.packets == [1, 1]), "{workers} workers, {server}");
        }
    }
}

#[test]
fn a_route_to_the_outside_interface_brings_all_packets_to_one_worker() {
    let build = |by: &str| {
        let build = two_ports().port("dmz", &["10.1.0.1/24"]).neighbor("dmz", "10.1.0.2", mac(3));
        forward(build.via("10.8.0.0/16", &[by]), "192.0.2.1/32", "10.8.0.7/32").0
    };
    let options = Options { seed: 7, invent_neighbors: false };
    let mut harness = Harness::with_workers(build("dmz 10.1.0.2"), options, 4).unwrap();
    let workers = |harness: &mut Harness, port: u16| {
        let wan = MacAddress(harness.interface_mac(1).unwrap());
        for host in 1..=50 {
            let text = format!("udp from 198.51.{host}.9 port {port} to 192.0.2.1 port 53");
            assert!(harness.inject(1, &frame(&text, wan), Time(0), host));
        }
        harness.run();
        let rows = harness.translations(&FlowFilter::default(), usize::MAX).rows;
        let rows = rows.iter().filter(|own| own.before.ports == Some((port, 53)));
        let all: Vec<usize> = rows.map(|own| own.worker).collect();
        let distinct: std::collections::BTreeSet<usize> = all.iter().copied().collect();
        (all.len(), distinct.len())
    };
    assert_eq!(workers(&mut harness, 1), (50, 4));
    harness.reload(build("wan 192.0.2.2")).unwrap();
    assert_eq!(workers(&mut harness, 2), (50, 1));
    harness.reload(build("dmz 10.1.0.2")).unwrap();
    assert_eq!(workers(&mut harness, 3), (50, 4));
}
