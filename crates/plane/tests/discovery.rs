//! Data path and control side together: packets wait, are resolved, go on; addresses are tested; links go and come.

use std::net::{IpAddr, Ipv6Addr};

use crate::kit::*;
use weir_packet::wire::{MacAddress, arp, icmpv6, ipv6, nd, protocol};
use weir_plane::harness::Verdict;
use weir_plane::model::FastPath;
use weir_plane::neighbor::State;
use weir_plane::neighbor::control::News;

const SECOND: u64 = 1_000_000_000;
const THEIRS: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x77]);

fn build() -> Build {
    two_ports()
        .port("far", &["10.9.0.1/24", "2001:db8:9::1/64"])
        .via("172.16.0.0/16", &["far 10.9.0.254"])
        .via("2001:db8:16::/48", &["far 2001:db8:9::254"])
}

fn discovering(build: Build) -> Rig {
    let mut rig = build.rig();
    rig.harness.discover(&[]).unwrap();
    rig
}

/// The control side does what there is to do, and the workers what follows.
fn step(rig: &mut Rig) -> Vec<(String, Vec<u8>)> {
    rig.harness.step();
    rig.idle().1
}

/// Time passes in tenths of seconds.
fn pass(rig: &mut Rig, tenths: u64) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    for _ in 0..tenths {
        rig.advance(SECOND / 10);
        out.extend(step(rig));
    }
    out
}

fn text(destination: &str) -> String {
    let source = if destination.contains(':') { "2001:db8:a::2" } else { "10.0.0.2" };
    format!("udp from {source} port 7 to {destination} port 9 length 100")
}

/// Returns the address that an ARP or neighbour discovery frame solicits, and its destination.
fn question(frame: &[u8]) -> (IpAddr, MacAddress) {
    let to = MacAddress(*frame.first_chunk().unwrap());
    if frame[12..14] == [8, 6] {
        let fields = arp::Fields::parse(&frame[14..]).unwrap();
        assert_eq!(fields.operation, arp::Operation::Request);
        return (fields.target.into(), to);
    }
    match message(frame) {
        nd::Fields::NeighborSolicitation { target, .. } => (target.into(), to),
        other => panic!("{other:?}"),
    }
}

fn message(frame: &[u8]) -> nd::Fields {
    let header = ipv6::Header::new(&frame[14..]).unwrap();
    nd::Message::parse(header.source(), header.destination(), header.hop_limit(), &frame[54..]).unwrap().fields()
}

/// Builds the answer of the station with an address on the link of `far`.
fn answer(rig: &Rig, address: &str, mac: MacAddress) -> Vec<u8> {
    let ours = MacAddress(rig.harness.interface_mac(rig.index("far")).unwrap());
    let mut frame: Vec<u8> = [ours.0, mac.0].concat();
    match ip(address) {
        IpAddr::V4(sender) => {
            frame.extend([8, 6]);
            let fields = arp::Fields {
                operation: arp::Operation::Reply,
                sender_mac: mac,
                sender,
                target_mac: ours,
                target: "10.9.0.1".parse().unwrap(),
            };
            frame.extend(fields.emit());
        }
        IpAddr::V6(target) => {
            let to = "2001:db8:9::1".parse().unwrap();
            let fields = nd::Fields::NeighborAdvertisement {
                target,
                router: false,
                solicited: true,
                overrides: true,
                target_mac: Some(mac),
            };
            frame.extend(packet(target, to, &fields.emit(target, to)));
        }
    }
    frame
}

/// An ICMPv6 packet, with its ethertype in front.
fn packet(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> Vec<u8> {
    let header = ipv6::Fields {
        traffic_class: 0,
        flow_label: 0,
        payload_length: message.len() as u16,
        next_header: protocol::ICMPV6,
        hop_limit: 255,
        source,
        destination,
    };
    [&[0x86, 0xdd][..], &header.emit(), message].concat()
}

fn state(rig: &Rig, address: &str) -> Option<State> {
    rig.harness.neighbors().into_iter().find(|known| known.address == ip(address)).map(|known| known.state)
}

#[test]
fn a_packet_in_a_question_out_an_answer_in_the_packet_out() {
    for (destination, next_hop) in [
        ("172.16.0.1", "10.9.0.254"),
        ("10.9.0.77", "10.9.0.77"),
        ("2001:db8:16::1", "2001:db8:9::254"),
        ("2001:db8:9::77", "2001:db8:9::77"),
    ] {
        let mut rig = discovering(build());
        let sent = rig.frame("lan", &text(destination));
        assert_eq!(rig.put("lan", &sent).outcome.verdict, Verdict::Held);
        let out = step(&mut rig);
        assert_eq!((out.len(), out[0].0.as_str(), question(&out[0].1).0), (1, "far", ip(next_hop)));
        let sum = rig.conservation();
        assert_eq!((sum.received, sum.created, sum.held, sum.transmitted), (1, 1, 1, 1));
        let reply = answer(&rig, next_hop, THEIRS);
        assert_eq!(rig.put("far", &reply).outcome.verdict, Verdict::Local);
        rig.harness.step();
        let (outcomes, out) = rig.idle();
        assert_eq!((outcomes.len(), out.len()), (1, 1));
        let seen = Seen::new(&out[0].0, &out[0].1);
        seen.assert_link("far", own_mac(2), THEIRS, &[]);
        seen.assert_forwarded(&sent);
        // From now on at once, as long as a station answers solicitations.
        rig.forwards("lan", &text(destination)).assert_link("far", own_mac(2), THEIRS, &[]);
        assert_eq!(state(&rig, next_hop), Some(State::Reachable));
        pass(&mut rig, 460);
        assert_eq!(state(&rig, next_hop), Some(State::Stale));
        rig.forwards("lan", &text(destination)).assert_link("far", own_mac(2), THEIRS, &[]);
        step(&mut rig);
        assert_eq!(state(&rig, next_hop), Some(State::Delay));
        let probes = pass(&mut rig, 51);
        assert_eq!((probes.len(), question(&probes[0].1)), (1, (ip(next_hop), THEIRS)));
        // The address has moved to another station, which answers the solicitation.
        let reply = answer(&rig, next_hop, MacAddress([2, 0, 0, 0, 0, 0x78]));
        rig.put("far", &reply);
        step(&mut rig);
        rig.forwards("lan", &text(destination)).assert_link("far", own_mac(2), MacAddress([2, 0, 0, 0, 0, 0x78]), &[]);
        // Then the station is gone: probes, then multicast solicitations, then unreachable.
        pass(&mut rig, 460);
        rig.forwards("lan", &text(destination));
        assert_eq!(pass(&mut rig, 90).len(), 3);
        assert_eq!(state(&rig, next_hop), None);
        assert_eq!(rig.send("lan", &text(destination)).outcome.verdict, Verdict::Held);
        let out = pass(&mut rig, 40);
        assert_eq!(out.iter().filter(|(port, _)| port == "far").count(), 3);
        assert_eq!(out.iter().filter(|(port, _)| port == "lan").count(), 1, "the source gets an error");
        assert_eq!(rig.conservation().held, 0);
    }
}

/// A decision about a flow names the adjacency of its gateway, and no route changes when the gateway is gone.
#[test]
fn packets_that_take_decisions_wait_when_their_gateway_is_gone() {
    let mut build = build();
    build.0.flow_table.enabled = FastPath::On;
    let mut rig = discovering(build);
    rig.harness.set_recording(false);
    for (destination, next_hop) in [("172.16.0.1", "10.9.0.254"), ("2001:db8:16::1", "2001:db8:9::254")] {
        let (frame, hits) = (rig.frame("lan", &text(destination)), rig.harness.fast_path().hits);
        let data = |sent: &[(String, Vec<u8>)]| sent.iter().filter(|(_, sent)| sent.len() == frame.len()).count();
        rig.put_all("lan", &[&frame]);
        step(&mut rig);
        let reply = answer(&rig, next_hop, THEIRS);
        rig.put_all("far", &[&reply]);
        assert_eq!(data(&step(&mut rig)), 1, "the held one");
        let mut seconds = 0;
        while state(&rig, next_hop).is_some() {
            let (_, sent) = rig.put_all("lan", &[&frame]);
            assert_eq!((data(&sent), &sent[0].1[..6]), (1, &THEIRS.0[..]), "after {seconds} s");
            pass(&mut rig, 10);
            seconds += 1;
            assert!(seconds < 100, "nobody answers");
        }
        assert!(rig.harness.fast_path().hits > hits + 20, "{:?}", rig.harness.fast_path());
        let (_, sent) = rig.put_all("lan", &[&frame]);
        assert_eq!((sent.len(), rig.conservation().held), (0, 1), "{next_hop} is gone: {sent:?}");
        assert_eq!(pass(&mut rig, 40).iter().filter(|(port, _)| port == "lan").count(), 1, "the source gets an error");
    }
}

#[test]
fn link_local_neighbours_are_found() {
    let mut rig = discovering(build());
    let own = nd::link_local(own_mac(2));
    let from: Ipv6Addr = "fe80::77".parse().unwrap();
    let frame = |rig: &Rig, bytes: &[u8]| {
        let ours = rig.harness.interface_mac(rig.index("far")).unwrap();
        [&ours[..], &THEIRS.0, &packet(from, own, bytes)].concat()
    };
    // An echo request to the address that follows from the hardware address.
    let mut request = vec![icmpv6::kind::ECHO_REQUEST, 0, 0, 0, 0, 1, 0, 2];
    let sum = weir_packet::checksum::pseudo_v6(from, own, protocol::ICMPV6, 8).bytes(&request).checksum();
    request[2..4].copy_from_slice(&sum.to_be_bytes());
    let request = frame(&rig, &request);
    rig.put("far", &request);
    let out = step(&mut rig);
    assert_eq!(question(&out[0].1).0, IpAddr::V6(from));
    let fields = nd::Fields::NeighborAdvertisement {
        target: from,
        router: false,
        solicited: true,
        overrides: true,
        target_mac: Some(THEIRS),
    };
    let reply = frame(&rig, &fields.emit(from, own));
    rig.put("far", &reply);
    let out = step(&mut rig);
    let seen = Seen::new(&out[0].0, &out[0].1);
    seen.assert_link("far", own_mac(2), THEIRS, &[]);
    assert_eq!((seen.source, seen.destination), (own.into(), from.into()));
}

#[test]
fn who_asked_us_is_reached_at_once() {
    let mut rig = discovering(build());
    let asks = |rig: &Rig, target: &str| {
        let ours = rig.harness.interface_mac(rig.index("far")).unwrap();
        let (source, target) = ("2001:db8:9::77".parse().unwrap(), target.parse().unwrap());
        let fields = nd::Fields::NeighborSolicitation { target, source_mac: Some(THEIRS) };
        [&ours[..], &THEIRS.0, &packet(source, target, &fields.emit(source, target))].concat()
    };
    let solicitation = asks(&rig, "2001:db8:9::1");
    assert_eq!(rig.put("far", &solicitation).out.len(), 1);
    assert!(step(&mut rig).is_empty());
    assert_eq!(state(&rig, "2001:db8:9::77"), Some(State::Stale));
    assert_eq!(rig.send("lan", &text("2001:db8:9::77")).outcome.verdict, Verdict::Held);
    let out = step(&mut rig);
    Seen::new(&out[0].0, &out[0].1).assert_link("far", own_mac(2), THEIRS, &[]);
    // And a unicast solicitation confirms the stated address.
    assert_eq!((out.len(), state(&rig, "2001:db8:9::77")), (2, Some(State::Probe)));
}

#[test]
fn addresses_are_used_once_nobody_else_has_them() {
    let mut rig = build().rig();
    let far = rig.index("far");
    rig.harness.discover(&[far]).unwrap();
    let own = "2001:db8:9::1";
    let ask = |rig: &Rig, dad: bool| {
        let ours = rig.harness.interface_mac(rig.index("far")).unwrap();
        let target: Ipv6Addr = own.parse().unwrap();
        let source = if dad { Ipv6Addr::UNSPECIFIED } else { "2001:db8:9::77".parse().unwrap() };
        let fields = nd::Fields::NeighborSolicitation { target, source_mac: (!dad).then_some(THEIRS) };
        let to = nd::solicited_node(target);
        let mac = if dad { MacAddress::of_ipv6_multicast(to).0 } else { ours };
        [&mac[..], &THEIRS.0, &packet(source, to, &fields.emit(source, to))].concat()
    };
    // Tentative: no solicitation is answered.
    let asked = ask(&rig, false);
    assert!(rig.put("far", &asked).out.is_empty());
    assert!(rig.send("lan", &format!("icmp6 from 2001:db8:a::2 to {own} type echo-request")).out.is_empty());
    let out = pass(&mut rig, 21);
    let tests: Vec<IpAddr> = out
        .iter()
        .filter(|(_, frame)| {
            frame[12..14] == [0x86, 0xdd] && ipv6::Header::new(&frame[14..]).unwrap().source().is_unspecified()
        })
        .map(|(_, frame)| question(frame).0)
        .collect();
    assert_eq!(tests.len(), 2, "the global and the link-local address");
    assert!(tests.contains(&ip(own)) && tests.contains(&nd::link_local(own_mac(2)).into()));
    assert!(rig.put("far", &asked).out.len() == 1, "now it is ours");
    rig.answers("lan", &format!("icmp6 from 2001:db8:a::2 to {own} type echo-request"));
    assert_eq!(rig.harness.news(), []);
    // In another run another station has the address first.
    let mut rig = build().rig();
    rig.harness.discover(&[far]).unwrap();
    let rival = ask(&rig, true);
    rig.put("far", &rival);
    pass(&mut rig, 50);
    let news = News::DuplicateAddress { interface: "far".into(), address: own.parse().unwrap() };
    assert_eq!(rig.harness.news(), [news]);
    assert!(rig.put("far", &asked).out.is_empty());
    // The link-local address is another matter, and so is a reload: what was tested stays ours.
    let own: Ipv6Addr = nd::link_local(own_mac(2));
    let from: Ipv6Addr = "fe80::77".parse().unwrap();
    let fields = nd::Fields::NeighborSolicitation { target: own, source_mac: Some(THEIRS) };
    let solicitation = [&own_mac(2).0[..], &THEIRS.0, &packet(from, own, &fields.emit(from, own))].concat();
    assert_eq!(rig.put("far", &solicitation).out.len(), 1);
    rig.reload(build());
    assert_eq!(rig.put("far", &solicitation).out.len(), 1);
    assert!(rig.put("far", &asked).out.is_empty());
}

#[test]
fn a_link_that_is_down_takes_nothing_and_gets_all_back() {
    let ecmp = build().port("near", &["10.8.0.1/24"]).via("10.77.0.0/16", &["far 10.9.0.254", "near 10.8.0.254"]);
    let mut rig = discovering(ecmp.neighbor("near", "10.8.0.254", mac(8)).neighbor("far", "10.9.0.254", mac(9)));
    let flows: Vec<String> = (0..200u16)
        .map(|port| format!("udp from 10.0.0.2 port {} to 10.77.0.1 port 9 length 100", 1000 + port))
        .collect();
    let ways = |rig: &mut Rig| -> Vec<String> { flows.iter().map(|flow| rig.forwards("lan", flow).port).collect() };
    let before = ways(&mut rig);
    assert!(before.contains(&"far".to_owned()) && before.contains(&"near".to_owned()));
    let near = rig.index("near");
    rig.harness.set_link(near, false).unwrap();
    assert!(ways(&mut rig).iter().all(|port| port == "far"));
    // Connected prefixes go, our own addresses stay, and a default route takes over.
    assert_eq!(rig.forwards("lan", &text("10.8.0.99")).port, "wan");
    rig.answers("lan", "icmp from 10.0.0.2 to 10.8.0.1 type echo-request");
    rig.harness.set_link(near, true).unwrap();
    let after = ways(&mut rig);
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert!(after.contains(&"near".to_owned()) && moved <= 120, "{moved}");
    // Neighbours outlive it, to be confirmed.
    rig.send("lan", &text("10.9.0.77"));
    step(&mut rig);
    let reply = answer(&rig, "10.9.0.77", THEIRS);
    rig.put("far", &reply);
    step(&mut rig);
    let far = rig.index("far");
    rig.harness.set_link(far, false).unwrap();
    assert_eq!(rig.forwards("lan", &text("10.9.0.77")).port, "wan");
    rig.harness.set_link(far, true).unwrap();
    assert_eq!(state(&rig, "10.9.0.77"), Some(State::Stale));
    rig.forwards("lan", &text("10.9.0.77")).assert_link("far", own_mac(2), THEIRS, &[]);
    // And a reload.
    rig.reload(build().via("10.66.0.0/16", &["far 10.9.0.77"]));
    rig.forwards("lan", &text("10.66.0.1")).assert_link("far", own_mac(2), THEIRS, &[]);
    rig.reload(two_ports());
    assert_eq!(rig.harness.neighbors().len(), 0);
}

#[test]
fn a_flood_of_solicitations_changes_nothing_for_others() {
    let mut small = build();
    small.0.limits.neighbors = 64;
    let mut rig = discovering(small);
    rig.send("lan", &text("2001:db8:9::77"));
    step(&mut rig);
    let reply = answer(&rig, "2001:db8:9::77", THEIRS);
    rig.put("far", &reply);
    step(&mut rig);
    let ours = rig.harness.interface_mac(rig.index("far")).unwrap();
    for round in 0..100u16 {
        let frames: Vec<Vec<u8>> = (0..200u16)
            .map(|number| {
                let source = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 1, 0, round, number);
                let target = "2001:db8:9::1".parse().unwrap();
                let fields = nd::Fields::NeighborSolicitation { target, source_mac: Some(mac(5)) };
                [&ours[..], &mac(5).0, &packet(source, target, &fields.emit(source, target))].concat()
            })
            .collect();
        rig.put_all("far", &frames);
        step(&mut rig);
    }
    assert_eq!(rig.harness.neighbors().len(), 64 - 4, "with those of the configuration");
    assert_eq!(rig.harness.news(), [News::NeighborTableFull { limit: 60 }]);
    rig.forwards("lan", &text("2001:db8:9::77")).assert_link("far", own_mac(2), THEIRS, &[]);
}
