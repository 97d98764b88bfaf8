//! Packets whose next hop is not resolved wait, bounded, in order, and come to an end.

use std::net::IpAddr;

use crate::kit::*;
use weir_plane::harness::Verdict;
use weir_plane::model::NeighborDiscovery;
use weir_plane::neighbor::Event;
use weir_plane::reason::Reason;

const SECOND: u64 = 1_000_000_000;

fn build(hold: u16, hold_total: u16) -> Build {
    let mut build = two_ports()
        .port("far", &["10.9.0.1/24", "2001:db8:9::1/64"])
        .via("172.16.0.0/16", &["far 10.9.0.254"])
        .via("2001:db8:16::/48", &["far 2001:db8:9::254"]);
    build.0.neighbor_discovery = NeighborDiscovery { hold, hold_total, ..NeighborDiscovery::default() };
    build
}

fn listening(build: Build) -> Rig {
    let mut rig = build.rig();
    rig.harness.listen();
    rig
}

fn to(destination: &str, number: u16) -> String {
    let source = if destination.contains(':') { "2001:db8:a::2" } else { "10.0.0.2" };
    format!("udp from {source} port 7 to {destination} port 9 length {}", 100 + number)
}

fn wanted(interface: u32, address: &str) -> Event {
    Event::Wanted { interface, address: ip(address) }
}

/// The numbers of packets made by [`to`], of what came out.
fn numbers(out: &[(String, Vec<u8>)]) -> Vec<u16> {
    out.iter().map(|(_, frame)| (frame.len() - 14 - 100) as u16).collect()
}

#[test]
fn a_packet_waits_and_goes_on_before_anything_newer() {
    for (destination, next_hop) in [
        ("172.16.0.1", "10.9.0.254"),
        ("10.9.0.77", "10.9.0.77"),
        ("2001:db8:16::1", "2001:db8:9::254"),
        ("2001:db8:9::77", "2001:db8:9::77"),
    ] {
        let mut rig = listening(build(32, 1024));
        for number in 0..10 {
            assert_eq!(rig.send("lan", &to(destination, number)).outcome.verdict, Verdict::Held);
        }
        assert_eq!(rig.harness.events(), [wanted(2, next_hop)], "once");
        let sum = rig.conservation();
        assert_eq!((sum.received, sum.held), (10, 10));
        // A root that says nothing of it changes nothing.
        rig.reload(build(32, 1024).neighbor("far", "10.9.0.200", mac(9)));
        assert!(rig.idle().1.is_empty());
        assert_eq!(rig.conservation().held, 10);
        // Resolved: in one round with newer ones of the same flow.
        rig.reload(build(32, 1024).neighbor("far", next_hop, mac(7)));
        let newer: Vec<_> = (10..20).map(|number| rig.frame("lan", &to(destination, number))).collect();
        let (_, out) = rig.put_all("lan", &newer);
        assert_eq!(numbers(&out), (0..20).collect::<Vec<_>>());
        for (port, frame) in &out {
            let seen = Seen::new(port, frame);
            seen.assert_link("far", own_mac(2), mac(7), &[]);
            assert_eq!(seen.ttl, 63);
        }
        assert_eq!(rig.conservation().held, 0);
        assert_eq!(rig.harness.events(), []);
    }
}

#[test]
fn a_worker_without_packets_looks_after_those_that_wait() {
    let mut rig = listening(build(32, 1024));
    rig.send("lan", &to("172.16.0.1", 1));
    rig.reload(build(32, 1024).neighbor("far", "10.9.0.254", mac(7)));
    let (outcomes, out) = rig.idle();
    assert_eq!((outcomes[0].verdict, numbers(&out)), (Verdict::Forward, vec![1]));
}

#[test]
fn who_does_not_answer_in_time_is_unreachable() {
    let mut rig = listening(build(32, 1024));
    let v4 = rig.frame("lan", &to("10.9.0.77", 1));
    let v6 = rig.frame("lan", &to("2001:db8:9::77", 1));
    rig.put_all("lan", &[&v4, &v6]);
    assert_eq!(rig.harness.events(), [wanted(2, "10.9.0.77"), wanted(2, "2001:db8:9::77")]);
    // A solicitation follows each second.
    for _ in 0..2 {
        rig.advance(SECOND);
        assert!(rig.idle().1.is_empty());
        assert_eq!(rig.harness.events(), [wanted(2, "10.9.0.77"), wanted(2, "2001:db8:9::77")]);
    }
    rig.advance(SECOND);
    let (outcomes, out) = rig.idle();
    assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Drop(Reason::NoNeighbor)));
    let told: Vec<Seen> = out.iter().map(|(port, frame)| Seen::new(port, frame)).collect();
    told[0].assert_icmp("10.0.0.1", 3, 1, 0);
    told[0].assert_error_about(&v4);
    told[1].assert_icmp("2001:db8:a::1", 1, 3, 0);
    told[1].assert_error_about(&v6);
    assert_eq!((rig.conservation().held, rig.harness.drops(Reason::NoNeighbor)), (0, 2));
    assert_eq!(rig.harness.events(), []);
}

#[test]
fn the_oldest_makes_room() {
    let mut rig = listening(build(4, 10));
    for number in 0..6 {
        rig.send("lan", &to("10.9.0.50", number));
    }
    assert_eq!((rig.conservation().held, rig.harness.drops(Reason::NeighborQueueFull)), (4, 2));
    rig.advance(1);
    for host in 60..66 {
        rig.send("lan", &to(&format!("10.9.0.{host}"), 100));
    }
    assert_eq!((rig.conservation().held, rig.harness.drops(Reason::NeighborQueueFull)), (10, 2));
    // The store is full: who was waited for longest gives way, packet by packet.
    for host in 70..73 {
        rig.send("lan", &to(&format!("10.9.0.{host}"), 100));
    }
    assert_eq!((rig.conservation().held, rig.harness.drops(Reason::NeighborQueueFull)), (10, 5));
    rig.reload(build(4, 10).neighbor("far", "10.9.0.50", mac(5)));
    assert_eq!(numbers(&rig.idle().1), [5], "the newest of them");
}

#[test]
fn more_than_a_vector_goes_on_in_order() {
    let mut rig = listening(build(1000, 1000));
    for chunk in 0..5u16 {
        let frames: Vec<_> = (0..200).map(|number| rig.frame("lan", &to("172.16.0.1", chunk * 200 + number))).collect();
        rig.put_all("lan", &frames);
    }
    assert_eq!(rig.conservation().held, 1000);
    rig.reload(build(1000, 1000).neighbor("far", "10.9.0.254", mac(7)));
    let newer: Vec<_> = (1000..1200).map(|number| rig.frame("lan", &to("172.16.0.1", number))).collect();
    assert_eq!(numbers(&rig.put_all("lan", &newer).1), (0..1200).collect::<Vec<_>>());
}

#[test]
fn what_waits_goes_where_the_routes_lead_by_then() {
    let mut rig = listening(build(32, 1024));
    rig.send("lan", &to("172.16.0.1", 1));
    let mut moved = build(32, 1024);
    moved.0.routes.retain(|route| route.prefix.to_string() != "172.16.0.0/16");
    rig.reload(moved);
    let (_, out) = rig.idle();
    assert_eq!(out[0].0, "wan", "by the default route");

    // Its interface is gone: no error is sent.
    rig.reload(build(32, 1024));
    rig.send("lan", &to("172.16.0.1", 1));
    rig.reload(two_ports());
    let (outcomes, out) = rig.idle();
    assert_eq!((outcomes[0].verdict, out.len()), (Verdict::Drop(Reason::InterfaceGone), 0));

    // So is the one that it came by.
    let reversed = || Build::new().port("far", &["10.9.0.1/24"]).port("lan", &["10.0.0.1/24"]);
    let mut rig = listening(reversed());
    rig.send("lan", "udp from 10.0.0.2 port 1 to 10.9.0.9 port 2");
    rig.reload(Build::new().port("far", &["10.9.0.1/24"]).neighbor("far", "10.9.0.9", mac(1)));
    assert_eq!(rig.idle().0[0].verdict, Verdict::Drop(Reason::InterfaceGone));
    assert_eq!(rig.conservation().held, 0);
}

#[test]
fn answers_of_ours_wait_too() {
    let mut rig = listening(Build::new().port("lan", &["10.0.0.1/24", "fe80::1/64"]));
    for (text, asker) in [("icmp from 10.0.0.9 to 10.0.0.1", "10.0.0.9"), ("icmp6 from fe80::9 to fe80::1", "fe80::9")]
    {
        let passage = rig.send("lan", text);
        assert_eq!((passage.outcome.verdict, passage.out.len()), (Verdict::Local, 0));
        assert_eq!(rig.harness.events(), [wanted(0, asker)]);
        let known = Build::new().port("lan", &["10.0.0.1/24", "fe80::1/64"]).neighbor("lan", asker, mac(9));
        rig.reload(known);
        let (_, out) = rig.idle();
        let reply = Seen::new(&out[0].0, &out[0].1);
        assert_eq!((reply.destination, reply.to), (ip(asker), mac(9)));
        rig.reload(Build::new().port("lan", &["10.0.0.1/24", "fe80::1/64"]));
    }
    // An answer of the gateway that times out is dropped without an error.
    rig.send("lan", "icmp from 10.0.0.9 to 10.0.0.1");
    rig.advance(3 * SECOND);
    assert!(rig.idle().1.is_empty());
    assert_eq!((rig.conservation().held, rig.harness.drops(Reason::NoNeighbor)), (0, 1));
}

#[test]
fn nothing_waits_where_nothing_may() {
    for (hold, total) in [(0, 100), (100, 0)] {
        let mut rig = listening(build(hold, total));
        let frames: Vec<_> = (0..50).map(|number| rig.frame("lan", &to("10.9.0.77", number))).collect();
        let (outcomes, _) = rig.put_all("lan", &frames);
        assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Drop(Reason::NoNeighbor)));
        let asked: Vec<Event> = rig.harness.events();
        assert_eq!(asked, [Event::Wanted { interface: 2, address: IpAddr::from([10, 9, 0, 77]) }], "once in a vector");
    }
}

#[test]
fn a_scan_of_a_whole_prefix_stays_within_bounds() {
    let mut rig = listening(build(32, 64));
    for chunk in 0..400u32 {
        let frames: Vec<_> = (0..250)
            .map(|number| rig.frame("lan", &to(&format!("2001:db8:9::{:x}:{:x}", chunk + 1, number + 1), 1)))
            .collect();
        rig.put_all("lan", &frames);
        assert_eq!(rig.conservation().held, 64);
        rig.advance(1_000_000);
    }
    assert_eq!(rig.harness.drops(Reason::NeighborQueueFull), 100_000 - 64);
    rig.advance(3 * SECOND);
    rig.idle();
    assert_eq!((rig.conservation().held, rig.harness.drops(Reason::NoNeighbor)), (0, 64));
}
