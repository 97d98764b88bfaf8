//! Bridges on several workers, and beside the fast path.

use std::collections::BTreeMap;

use crate::kit::*;
use weir_base::clock::Time;
use weir_base::random::Random;
use weir_packet::wire::MacAddress;
use weir_plane::harness::{Harness, Options};
use weir_plane::model::FastPath;
use weir_plane::reason::Reason;

/// A station; the port that leads to it is its number modulo 4.
fn station(number: u32) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0xcc, number as u8])
}

/// Four ports with a list that denies one port of UDP.
fn four() -> Build {
    let build = Build::new().port("p0", &[]).port("p1", &[]).port("p2", &[]).port("p3", &[]);
    let build = build.acl("edge", &["deny udp port 53", "permit+reflect any"]);
    (0..4).fold(build, |build, port| build.acl_in(&format!("p{port}"), &["edge"])).bridge(&["p0", "p1", "p2", "p3"])
}

#[test]
fn workers_share_what_they_learn_and_keep_the_order_of_flows() {
    for workers in [1, 2, 4] {
        let options = Options { seed: 3, invent_neighbors: false };
        let mut harness = Harness::with_workers(four().0, options, workers).unwrap();
        let sent = Sent::default();
        for port in 0..4 {
            harness.connect_each(port, || Box::new(Capturing::new(port, &sent)));
        }
        for number in 0..12 {
            let hello = [&[0xff; 6][..], &station(number).0, &[0x88, 0xb5], &[0; 46]].concat();
            assert!(harness.inject(number % 4, &hello, Time(0), number));
        }
        harness.run();
        // Each frame goes to the three other ports.
        assert_eq!(std::mem::take(&mut *sent.lock().unwrap()).len(), 36);
        let (mut random, mut expected) = (Random::from_seed(9), BTreeMap::<(u32, Vec<u8>), Vec<u16>>::new());
        let mut denied = 0;
        for round in 0..40u16 {
            for index in 0..100u16 {
                let (from, to) = (random.below(12) as u32, random.below(12) as u32);
                let port = [53, 54, 55, 56][random.below(4) as usize];
                let text = format!("udp from 10.0.0.{from} port 7 to 10.0.0.{to} port {port} length 40");
                let mut frame = frame(&text, station(to));
                frame[6..12].copy_from_slice(&station(from).0);
                // Frames of a flow differ in their identification.
                let number = round * 100 + index;
                frame[18..20].copy_from_slice(&number.to_be_bytes());
                mend(&mut frame);
                assert!(harness.inject(from % 4, &frame, Time(u64::from(round)), u32::from(number)));
                denied += u64::from(port == 53);
                if port != 53 && from % 4 != to % 4 {
                    let flow = (to % 4, [&frame[..12], &frame[26..38]].concat());
                    expected.entry(flow).or_default().push(number);
                }
            }
            harness.run();
        }
        let mut seen = BTreeMap::<(u32, Vec<u8>), Vec<u16>>::new();
        for (port, frame) in sent.lock().unwrap().iter() {
            let flow = (*port, [&frame[..12], &frame[26..38]].concat());
            seen.entry(flow).or_default().push(u16::from_be_bytes([frame[18], frame[19]]));
        }
        assert_eq!(seen, expected, "{workers} workers");
        assert_eq!(harness.drops(Reason::AclDeny), denied);
        assert_eq!(harness.conservation().imbalance(), 0);
        let bridge = &harness.bridges()[0];
        assert_eq!((bridge.macs, bridge.moved, bridge.held, bridge.unknown), (12, 0, 0, 0));
    }
}

/// The gateway's own station with policies, on a bridge of two ports, and a port `wan`.
fn routed(fast: FastPath) -> Rig {
    let mut build = Build::new()
        .port("p0", &[])
        .port("p1", &[])
        .port("wan", &["192.0.2.1/24"])
        .neighbor("wan", "192.0.2.2", mac(2))
        .via("0.0.0.0/0", &["wan 192.0.2.2"])
        .bridge(&["p0", "p1"])
        .own_station("gw", &["10.0.0.1/24"])
        .acl("edge", &["deny udp port 53", "permit+reflect udp", "permit any"])
        .acl_in("gw", &["edge"])
        .acl_in("p0", &["edge"]);
    for number in 2..10 {
        build = build.neighbor("gw", &format!("10.0.0.{number}"), station(number));
    }
    build.0.flow_table.enabled = fast;
    let mut rig = build.rig();
    // Packets whose fates are recorded take no learned decision.
    rig.harness.set_recording(false);
    rig
}

#[test]
fn the_fast_path_changes_nothing_and_learns_routed_packets_alone() {
    let mut rigs = [FastPath::On, FastPath::Off].map(routed);
    let own = MacAddress(rigs[0].harness.interface_mac(rigs[0].index("gw")).unwrap());
    // Bridged frames leave nothing behind.
    for _ in 0..3 {
        let mut bridged = frame("udp from 10.0.0.2 port 7 to 10.0.0.3 port 54", station(3));
        bridged[6..12].copy_from_slice(&station(2).0);
        rigs.iter_mut().for_each(|rig| drop(rig.put_all("p0", &[&bridged])));
    }
    let counted = rigs[0].harness.fast_path();
    assert_eq!((counted.hits, counted.new, counted.learned, counted.decisions), (0, 0, 0, 0));
    let mut random = Random::from_seed(4);
    for round in 0..60 {
        let mut frames: Vec<(&str, Vec<u8>)> = Vec::new();
        for _ in 0..60 {
            let (from, to) = (2 + random.below(8) as u32, 2 + random.below(8) as u32);
            let port = [53, 54, 55][random.below(3) as usize];
            let (text, to, by) = match random.below(4) {
                0 | 1 => (format!("udp from 10.0.0.{from} port 7 to 198.51.100.9 port {port}"), own, "p"),
                2 => (format!("udp from 10.0.0.{from} port 7 to 10.0.0.{to} port {port}"), station(to), "p"),
                _ => (format!("udp from 198.51.100.9 port {port} to 10.0.0.{from} port 7"), own_mac(2), "wan"),
            };
            let mut frame = frame(&text, to);
            frame[6..12].copy_from_slice(&station(from).0);
            frames.push((if by == "wan" { "wan" } else { ["p0", "p1"][from as usize % 2] }, frame));
        }
        if round % 20 == 19 {
            rigs.iter_mut().for_each(|rig| assert!(rig.harness.clear_bridge("br").is_some()));
        }
        for port in ["p0", "p1", "wan"] {
            let own: Vec<&Vec<u8>> = frames.iter().filter(|(by, _)| *by == port).map(|(_, frame)| frame).collect();
            let [fast, slow] = rigs.each_mut().map(|rig| rig.put_all(port, &own));
            assert_eq!(fast.1, slow.1, "frames of {port} in round {round}");
        }
    }
    let rows = rigs.each_ref().map(|rig| rig.harness.bridges());
    assert_eq!(rows[0], rows[1]);
    assert_eq!(rigs[0].acl_hits("edge"), rigs[1].acl_hits("edge"));
    let drops =
        rigs.each_ref().map(|rig| Reason::ALL.iter().map(|&reason| rig.harness.drops(reason)).collect::<Vec<_>>());
    assert_eq!(drops[0], drops[1]);
    assert!(rigs[0].harness.fast_path().hits > 500, "{:?}", rigs[0].harness.fast_path());
    assert!(rows[0][0].known > 100 && rows[0][0].own > 1000, "{:?}", rows[0]);
}
