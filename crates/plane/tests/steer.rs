//! Steer rules, by VPP's flow suite in other words: each type of match with its actions.
//!
//! | VPP's flow | here |
//! |---|---|
//! | ip4, ip6, ip4-n-tuple, ip6-n-tuple, tagged ones | `fields_decide_and_the_first_rule_that_matches_acts`, `tags_are_matched` |
//! | vxlan, gtpc, gtpu, l2tpv3oip, ipsec-esp, ipsec-ah | `identifiers_are_matched` |
//! | two rules that overlap | `random_lists_find_the_first_match` |
//! | count, mark, drop | `fields_decide_and_the_first_rule_that_matches_acts` |
//! | redirect to node, with mark and advance of VXLAN | `vxlan_goes_to_the_tunnel_or_is_taken_out` |
//! | redirect to queue | `packets_that_move_to_a_worker_keep_the_order_of_their_flow`, and the contract of the flow table |
//! | generic spec and mask | `octets_are_matched_under_a_mask` |
//! | VXLAN, GTP-U and IP in IP with inner n-tuples | `packets_inside_are_matched` |
//! | Ethernet and ethertype | `frames_that_are_not_ip_are_matched`, `stations_are_matched` |
//! | hardware offload | not here |

use std::collections::BTreeMap;

use crate::kit::classify::{deny, permit};
use crate::kit::tunnel::{V4, tunnel};
use crate::kit::*;
use weir_base::clock::Time;
use weir_base::random::Random;
use weir_packet::tunnel::Carrier;
use weir_plane::harness::{Harness, Options, Verdict};
use weir_plane::model::{ClassifyStart, SteerWay};
use weir_plane::reason::Reason;
use weir_table::classify::Fields;

/// Packets that each rule of the first list has matched.
fn counts(rig: &Rig) -> Vec<u64> {
    rig.harness.steer()[0].rules.iter().map(|rule| rule.matched.packets).collect()
}

/// Applies a list of these rules at the ingress of an interface.
fn checked(build: Build, interface: &str, rules: &[&str]) -> Build {
    build.acl("list", rules).acl_in(interface, &["list"])
}

fn udp(from: &str, to: &str, port: u16) -> String {
    format!("udp from {from} port 1 to {to} port {port}")
}

#[test]
fn fields_decide_and_the_first_rule_that_matches_acts() {
    let rules = [
        "drop | udp from 10.0.0.0/8 port 7 |",
        "count | udp from 10.1.0.0/16 |",
        "mark 7 | any from 10.2.0.0/16 |",
        "drop | udp from 2001:db8:a::/64 port 7 |",
        "drop | 47 |",
    ];
    let mut rig = two_ports().steer(&["lan"], &rules).rig();
    rig.drops("lan", &udp("10.1.0.9", "203.0.113.1", 7), Reason::SteerDrop);
    rig.drops("lan", &udp("2001:db8:a::9", "2001:db8:ff::1", 7), Reason::SteerDrop);
    rig.forwards("lan", &udp("10.1.0.9", "203.0.113.1", 8));
    rig.forwards("lan", &udp("10.2.0.9", "203.0.113.1", 8));
    rig.forwards("lan", &udp("10.3.0.9", "203.0.113.1", 8));
    rig.forwards("lan", &udp("2001:db8:a::9", "2001:db8:ff::1", 8));
    // The rules are about packets that come in by their interfaces.
    rig.forwards("wan", &udp("203.0.113.1", "10.0.0.2", 7));
    assert_eq!(counts(&rig), [1, 1, 1, 1, 0]);
    // A vector is parted packet by packet.
    let frames: Vec<_> = (0..9u16).map(|at| rig.frame("lan", &udp("10.1.0.9", "203.0.113.1", 5 + at % 3))).collect();
    let (_, sent) = rig.put_all("lan", &frames);
    assert_eq!((sent.len(), counts(&rig)), (6, vec![4, 7, 1, 1, 0]));
    rig.harness.reload(two_ports().steer(&["lan"], &rules[..3]).0).unwrap();
    assert_eq!(counts(&rig), [4, 7, 1], "rules that stay keep their counters");
}

#[test]
fn a_mark_is_matched_by_access_lists() {
    let rules = [
        "mark 7 | udp from 10.1.0.0/16 |",
        "mark 16777216 | udp from 10.2.0.0/16 |",
        "mark 0 | udp from 10.3.0.0/16 |",
    ];
    let build = checked(two_ports().steer(&["lan"], &rules), "lan", &["deny udp mark 7", "permit any"]);
    // A flow that was learned decides by its mark, too.
    let build = build.acl("out", &["deny udp port 9 mark 0", "permit any"]).acl_out("wan", &["out"]);
    let mut rig = build.rig();
    for _ in 0..3 {
        rig.drops("lan", &udp("10.1.0.9", "203.0.113.1", 7), Reason::AclDeny);
        rig.forwards("lan", &udp("10.2.0.9", "203.0.113.1", 9));
        rig.forwards("lan", &udp("10.3.0.9", "203.0.113.1", 7));
        rig.drops("lan", &udp("10.3.0.9", "203.0.113.1", 9), Reason::AclDeny);
        // Without a mark, no rule on marks matches.
        rig.forwards("lan", &udp("10.4.0.9", "203.0.113.1", 9));
    }
    assert_eq!(counts(&rig), [3, 3, 6]);
}

#[test]
fn a_mark_is_matched_by_classifier_tables_which_lead_packets_another_way() {
    let rules = ["mark 7 | udp from 10.1.0.0/16 |", "mark 8 | udp from 10.2.0.0/16 |"];
    let build =
        two_ports().steer(&["lan"], &rules).port("dsl", &["203.0.113.1/24"]).neighbor("dsl", "203.0.113.2", mac(3));
    let over = build.over(&["dsl 203.0.113.2"]);
    let marked = [("00000007", over), ("00000008", deny()), ("00000009", permit())];
    let build = build.classify("marked", (ClassifyStart::Meta, None), "ffffffff", &marked).classify_in("lan", "marked");
    let mut rig = build.rig();
    let by = |rig: &mut Rig, from: &str| rig.forwards("lan", &udp(from, "198.51.100.9", 7)).port;
    assert_eq!(by(&mut rig, "10.1.0.9"), "dsl");
    rig.drops("lan", &udp("10.2.0.9", "198.51.100.9", 7), Reason::ClassifyDeny);
    assert_eq!(by(&mut rig, "10.3.0.9"), "wan");
    let packets = |session: usize| rig.harness.classify(None)[0].counted.sessions[session].packets;
    assert_eq!((packets(0), packets(1), packets(2), rig.harness.classify(None)[0].counted.missed), (1, 1, 0, 1));
}

#[test]
fn packets_that_move_to_a_worker_keep_the_order_of_their_flow() {
    for workers in [2usize, 3, 4] {
        let rules = ["queue 1 | udp port 53 |", "queue 0 | udp port 54 |", "count | udp port 55 |"];
        let build = two_ports().neighbor("wan", "203.0.113.1", mac(3)).steer(&["lan", "wan"], &rules);
        let mut harness =
            Harness::with_workers(build.0, Options { seed: 5, invent_neighbors: false }, workers).unwrap();
        let sent = Sent::default();
        for port in 0..2 {
            harness.connect_each(port, || Box::new(Capturing::new(port, &sent)));
        }
        let (mut random, mut expected) = (Random::from_seed(9), BTreeMap::<Vec<u8>, Vec<u16>>::new());
        for round in 0..30u16 {
            for index in 0..100u16 {
                let (from, port) = (random.below(6), 53 + random.below(4));
                let text = format!("udp from 10.0.0.{from} port 7 to 198.51.100.9 port {port} length 40");
                let mut frame = frame(&text, own_mac(0));
                let number = round * 100 + index;
                frame[18..20].copy_from_slice(&number.to_be_bytes());
                mend(&mut frame);
                assert!(harness.inject(0, &frame, Time(u64::from(round)), u32::from(number)));
                expected.entry(frame[26..38].to_vec()).or_default().push(number);
            }
            harness.run();
        }
        let mut seen = BTreeMap::<Vec<u8>, Vec<u16>>::new();
        for (_, frame) in sent.lock().unwrap().iter() {
            seen.entry(frame[26..38].to_vec()).or_default().push(u16::from_be_bytes([frame[18], frame[19]]));
        }
        assert_eq!(seen, expected, "{workers} workers");
        assert!(harness.handed() > 500, "{} of 3000 packets moved", harness.handed());
        assert_eq!(harness.conservation().imbalance(), 0);
    }
}

#[test]
fn octets_are_matched_under_a_mask() {
    let rules = [
        // A TTL of 9; two octets of a UDP payload; the ethertype of IPv6; an octet behind the end of all packets.
        "drop | any | l3 8:09/ff",
        "mark 1 | udp | l4 8:a0c0/f0f0",
        "count | any | l2 12:86dd/ffff",
        "drop | any | l4 100:00/01",
    ];
    let mut rig = two_ports().steer(&["lan"], &rules).rig();
    rig.drops("lan", &format!("{} ttl 9", udp("10.1.0.9", "203.0.113.1", 7)), Reason::SteerDrop);
    rig.forwards("lan", &format!("{} ttl 10", udp("10.1.0.9", "203.0.113.1", 7)));
    rig.forwards("lan", &udp("2001:db8:a::9", "2001:db8:ff::1", 7));
    assert_eq!(counts(&rig), [1, 0, 1, 0]);
    for (octets, matches) in [([0xa5, 0xcf], 1), ([0xb5, 0xcf], 0), ([0xa5, 0xdf], 0)] {
        let before = counts(&rig)[1];
        let frame = payload(&rig, 7, &octets);
        rig.put("lan", &frame);
        assert_eq!(counts(&rig)[1], before + matches);
    }
}

#[test]
fn a_redirected_packet_leaves_by_the_interface_of_the_rule() {
    let build = || two_ports().port("dpi", &["198.51.100.1/24", "2001:db8:d::1/64"]);
    let rules = [
        "to dpi 198.51.100.2 | udp from 10.0.0.0/8 port 7 |",
        "to dpi | udp port 8 |",
        "to dpi 2001:db8:d::2 | udp from 2001:db8::/32 port 7 |",
    ];
    let with = |build: Build| {
        build
            .neighbor("dpi", "198.51.100.2", mac(5))
            .neighbor("dpi", "198.51.100.3", mac(6))
            .neighbor("dpi", "2001:db8:d::2", mac(5))
            .steer(&["lan"], &rules)
    };
    let mut rig = with(build()).rig();
    for (from, to) in [("10.0.0.2", "203.0.113.1"), ("2001:db8:a::2", "2001:db8:ff::1")] {
        let frame = rig.frame("lan", &udp(from, to, 7));
        let seen = rig.forwards_frame("lan", &frame);
        seen.assert_link("dpi", own_mac(2), mac(5), &[]);
        seen.assert_forwarded(&frame);
    }
    // Without a next hop the destination is looked for on the link.
    rig.forwards("lan", &udp("10.0.0.2", "198.51.100.3", 8)).assert_link("dpi", own_mac(2), mac(6), &[]);
    // Nobody answers for other addresses there.
    rig.told("lan", &udp("10.0.0.2", "203.0.113.1", 8), Reason::NoNeighbor);
    rig.forwards("lan", &udp("10.0.0.2", "203.0.113.1", 9)).assert_link("wan", own_mac(1), mac(2), &[]);
    // Packets that stay on their link are not redirected.
    let counted = counts(&rig);
    rig.send("lan", &udp("10.0.0.2", "224.0.0.5", 8));
    assert_eq!(counts(&rig)[1], counted[1]);
    // Broadcasts of a link are matched, and not redirected (RFC 2644).
    for to in ["10.0.0.255", "198.51.100.255"] {
        rig.drops("lan", &udp("10.0.0.2", to, 8), Reason::Broadcast);
    }
    // The egress policies of the interface apply.
    let mut rig =
        with(build().acl("list", &["deny udp from 10.0.0.0/9", "permit any"]).acl_out("dpi", &["list"])).rig();
    rig.drops("lan", &udp("10.0.0.2", "203.0.113.1", 7), Reason::AclDeny);
    rig.forwards("lan", &udp("10.128.0.2", "203.0.113.1", 7));
    // While the neighbour is not known, packets wait, and leave by the rule once it is.
    let unknown = || build().steer(&["lan"], &rules);
    let mut rig = unknown().rig();
    rig.harness.listen();
    assert_eq!(rig.send("lan", &udp("10.0.0.2", "203.0.113.1", 7)).outcome.verdict, Verdict::Held);
    rig.reload(unknown().neighbor("dpi", "198.51.100.2", mac(5)));
    let (_, out) = rig.idle();
    assert_eq!((out.len(), out[0].0.as_str()), (1, "dpi"));
}

#[test]
fn checks_are_passed_by_to_a_node_alone() {
    let build = |rules: &[&str]| checked(two_ports(), "lan", &["deny udp", "permit any"]).steer(&["lan"], rules);
    let mut rig =
        build(&["node ip4-lookup | udp from 10.1.0.0/16 |", "node ip6-lookup | udp from 2001:db8:a::9/128 |"]).rig();
    rig.forwards("lan", &udp("10.1.0.9", "203.0.113.1", 7));
    rig.forwards("lan", &udp("2001:db8:a::9", "2001:db8:ff::1", 7));
    rig.drops("lan", &udp("10.2.0.9", "203.0.113.1", 7), Reason::AclDeny);
    rig.drops("lan", &udp("2001:db8:a::8", "2001:db8:ff::1", 7), Reason::AclDeny);
}

#[test]
fn tags_are_matched() {
    let mut rig = Build::new()
        .port("trunk", &["192.0.2.1/24"])
        .vlan("one", "trunk", &[1], &["10.1.0.1/16"])
        .port("wan", &["203.0.113.1/24"])
        .neighbor("wan", "203.0.113.2", mac(9))
        .steer(&["one", "trunk"], &["drop | any | vlan 1-5"])
        .rig();
    let plain = rig.frame("one", &udp("10.1.0.9", "203.0.113.2", 7));
    let tagged = [&plain[..12], &[0x81, 0, 0, 1], &plain[12..]].concat();
    rig.drops_frame("trunk", &tagged, Reason::SteerDrop);
    rig.forwards("trunk", &udp("192.0.2.9", "203.0.113.2", 7));
}

/// A frame for `lan` whose UDP payload begins with these octets.
fn payload(rig: &Rig, port: u16, octets: &[u8]) -> Vec<u8> {
    let mut frame = rig.frame("lan", &format!("udp from 10.0.0.2 port 9 to 203.0.113.1 port {port} length 120"));
    frame[42..42 + octets.len()].copy_from_slice(octets);
    frame
}

#[test]
fn a_later_fragment_has_no_identifier() {
    let mut rig = two_ports().steer(&["lan"], &["count | any | ah 5"]).rig();
    // An authentication header (RFC 4302) with SPI 5, and what it protects.
    let ah = [59, 4, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // Offsets in units of 8 octets, and the flag that more fragments follow.
    for (offset, matches) in [(0, 1), (1, 1), (32, 1)] {
        let [high, low] = ((offset << 3 | 1) as u16).to_be_bytes();
        let fragment = [51, 0, high, low, 0, 0, 0, 1];
        let frame = rig.frame("lan", &udp("2001:db8:a::2", "2001:db8:ff::1", 8));
        rig.put("lan", &with_extensions(&frame, 44, &[&fragment[..], &ah].concat()));
        assert_eq!(counts(&rig), [matches], "offset {offset}");
    }
}

#[test]
fn identifiers_are_matched() {
    let rules = [
        "count | udp port 4789 | vni 100",
        "drop | udp port 4789 | vni 200-300",
        "count | udp port 2152 | teid 9",
        "drop | 50 | esp 4096-8191",
        "drop | 115 | session 5",
        "drop | udp port 4789 from 10.0.0.2/32 | vni 400",
        "count | udp port 4789 |",
    ];
    let mut rig = two_ports().steer(&["lan"], &rules).rig();
    let vxlan = |rig: &Rig, vni: u32| {
        let [_, a, b, c] = vni.to_be_bytes();
        payload(rig, 4789, &[8, 0, 0, 0, a, b, c, 0])
    };
    for (vni, drops) in [(100, false), (199, false), (200, true), (300, true), (301, false), (400, true)] {
        let frame = vxlan(&rig, vni);
        if drops {
            rig.drops_frame("lan", &frame, Reason::SteerDrop);
        } else {
            rig.forwards_frame("lan", &frame);
        }
    }
    let gtp = payload(&rig, 2152, &[0x30, 0xff, 0, 0, 0, 0, 0, 9]);
    rig.forwards_frame("lan", &gtp);
    // ESP is found behind UDP, too.
    for (spi, drops) in [(4095u32, false), (4096, true), (8191, true), (8192, false)] {
        let frame = payload(&rig, 4500, &spi.to_be_bytes());
        if drops {
            rig.drops_frame("lan", &frame, Reason::SteerDrop);
        } else {
            rig.forwards_frame("lan", &frame);
        }
    }
    assert_eq!(counts(&rig), [1, 2, 1, 2, 0, 1, 2]);
}

/// A packet of IPv4 without a link layer, with these octets behind its header.
fn ip4(number: u8, to: u8, payload: &[u8]) -> Vec<u8> {
    let mut header =
        vec![0x45, 0, 0, 20 + payload.len() as u8, 0, 0, 0, 0, 64, number, 0, 0, 172, 16, 0, 9, 10, 1, 0, to];
    let sum = weir_packet::checksum::of(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    [&header[..], payload].concat()
}

#[test]
fn packets_inside_are_matched() {
    let rules = [
        "drop | udp port 4789 | vni 100 inner udp from 172.16.0.0/12 to 10.1.0.7/32 port 53",
        "count | udp port 4789 | vni 100 inner any to 10.1.0.8/32",
        "count | udp port 4789 | vni 0-200 inner udp port 53",
        "drop | udp port 2152 | teid 0-9 inner udp port 53",
        "drop | 4 | inner udp port 53",
        "count | any |",
    ];
    let mut rig = two_ports().steer(&["lan"], &rules).rig();
    let dns = |to: u8, port: u8| ip4(17, to, &[0, 9, 0, port, 0, 8, 0, 0]);
    let vxlan = |rig: &Rig, vni: u8, inner: &[u8]| {
        payload(rig, 4789, &[&[8, 0, 0, 0, 0, 0, vni, 0][..], &[2; 12], &[8, 0], inner].concat())
    };
    let gtp = |rig: &Rig, header: &[u8], inner: &[u8]| payload(rig, 2152, &[header, inner].concat());
    let mut wanted = [0; 6];
    for (frame, rule) in [
        (vxlan(&rig, 100, &dns(7, 53)), 0),
        (vxlan(&rig, 100, &dns(7, 54)), 5),
        (vxlan(&rig, 100, &dns(8, 54)), 1),
        (vxlan(&rig, 101, &dns(8, 54)), 5),
        (vxlan(&rig, 101, &dns(7, 53)), 2),
        // An inner packet whose checksum is wrong is no packet.
        (
            vxlan(
                &rig,
                101,
                &dns(7, 53).iter().enumerate().map(|(at, own)| own ^ u8::from(at == 12)).collect::<Vec<_>>(),
            ),
            5,
        ),
        (gtp(&rig, &[0x30, 0xff, 0, 0, 0, 0, 0, 9], &dns(7, 53)), 3),
        (gtp(&rig, &[0x32, 0xff, 0, 0, 0, 0, 0, 9, 0, 1, 0, 0], &dns(7, 53)), 3),
        (gtp(&rig, &[0x30, 0x01, 0, 0, 0, 0, 0, 9], &dns(7, 53)), 5),
        (gtp(&rig, &[0x30, 0xff, 0, 0, 0, 0, 0, 10], &dns(7, 53)), 5),
    ] {
        rig.put("lan", &frame);
        wanted[rule] += 1;
        assert_eq!(counts(&rig), wanted);
    }
    let plain = rig.frame("lan", "udp from 10.0.0.2 port 9 to 203.0.113.1 port 7 length 60");
    let mut outer = [&plain[..34], &dns(7, 53)[..]].concat();
    outer[17] = 48;
    outer[23] = 4;
    outer[24..26].fill(0);
    let sum = weir_packet::checksum::of(&outer[14..34]).to_be_bytes();
    outer[24..26].copy_from_slice(&sum);
    rig.drops_frame("lan", &outer, Reason::SteerDrop);
}

#[test]
fn stations_are_matched() {
    let rules = ["drop | udp port 7 | mac-from 02:00:00:00:01:00/40", "count | udp | mac-to 02:00:00:00:00:77"];
    let mut rig = two_ports().steer(&["lan"], &rules).rig();
    let mut frame = rig.frame("lan", &udp("10.1.0.9", "203.0.113.1", 7));
    rig.forwards_frame("lan", &frame);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 1, 9]);
    rig.drops_frame("lan", &frame, Reason::SteerDrop);
    assert_eq!(counts(&rig), [1, 0]);
}

#[test]
fn frames_that_are_not_ip_are_matched() {
    let build = || {
        Build::new()
            .port("lan", &["10.0.0.1/8"])
            .port("trunk", &["192.0.2.1/24"])
            .vlan("dpi", "trunk", &[1], &["198.51.100.1/24"])
            .vlan("one", "lan", &[5], &["10.9.0.1/16"])
    };
    let rules = [
        "drop | frame 0x88b5 | mac-from 02:00:00:00:00:07",
        "mark 7 to dpi | frame 0x88b5 |",
        "drop | frame 0x0806 | l2 38:0a000063/ffffffff",
        "drop | frame 0x88b6 | vlan 5",
        "count | any |",
        "count | frame |",
    ];
    let mut rig = build().steer(&["lan", "one"], &rules).rig();
    let frame = |tags: &[u8], from: u8, kind: [u8; 2]| {
        [&[0xff; 6][..], &[2, 0, 0, 0, 0, from], tags, &kind, &[0x5a; 46]].concat()
    };
    rig.drops_frame("lan", &frame(&[], 7, [0x88, 0xb5]), Reason::SteerDrop);
    // The frame leaves as it came, with the tag of the interface.
    let (outcome, sent) = rig.put_all("lan", &[frame(&[], 8, [0x88, 0xb5])]);
    assert_eq!(sent, [("trunk".to_owned(), frame(&[0x81, 0, 0, 1], 8, [0x88, 0xb5]))], "{outcome:?}");
    // The tag of its own interface goes.
    let (_, sent) = rig.put_all("lan", &[frame(&[0x81, 0, 0, 5], 8, [0x88, 0xb5])]);
    assert_eq!(sent, [("trunk".to_owned(), frame(&[0x81, 0, 0, 1], 8, [0x88, 0xb5]))]);
    rig.drops_frame("lan", &frame(&[0x81, 0, 0, 5], 8, [0x88, 0xb6]), Reason::SteerDrop);
    rig.drops_frame("lan", &frame(&[], 8, [0x88, 0xb6]), Reason::UnhandledEthertype);
    assert_eq!(counts(&rig), [1, 2, 0, 1, 0, 1]);
    // Frames for other stations are dropped before rules match.
    let mut other = frame(&[], 7, [0x88, 0xb5]);
    other[0] = 2;
    rig.drops_frame("lan", &other, Reason::NotOurMac);
    // Without the rules there is no way for the frame.
    let mut rig = build().rig();
    rig.drops_frame("lan", &frame(&[], 8, [0x88, 0xb5]), Reason::UnhandledEthertype);
}

#[test]
fn vxlan_goes_to_the_tunnel_or_is_taken_out() {
    // Between the addresses of the tunnel, `to` of the rule leads to the tunnel's interface past the checks of `wan`.
    let inner = |build: Build, rules: &[&str]| {
        build.tunnel("tun", tunnel(Carrier::Vxlan, V4), &["172.16.0.1/24"]).steer(&["wan"], rules)
    };
    let base = || {
        let ports = Build::new().port("lan", &["10.1.0.1/24"]).port("wan", &["198.51.100.1/24"]);
        checked(ports.neighbor("lan", "10.1.0.2", mac(1)), "wan", &["deny any"])
    };
    let packet = |rig: &Rig, to: weir_packet::wire::MacAddress| {
        let inner = frame(&udp("172.16.0.9", "10.1.0.2", 9), to);
        let mut outer = vec![0xc0, 0, 0x12, 0xb5];
        outer.extend(((16 + inner.len()) as u16).to_be_bytes());
        outer.extend([0, 0, 8, 0, 0, 0, 0, 0, 100, 0]);
        outer.extend(&inner);
        let text = format!("udp from 198.51.100.2 port 9 to 198.51.100.1 port 4789 length {}", 28 + outer.len() - 8);
        let mut whole = rig.frame("wan", &text);
        whole[34..34 + outer.len()].copy_from_slice(&outer);
        whole
    };
    let mut rig = inner(base(), &[]).rig();
    let own = own_mac(2);
    let frame = packet(&rig, own);
    rig.drops_frame("wan", &frame, Reason::AclDeny);
    let mut rig = inner(base(), &["mark 7 node tunnel-decap | udp port 4789 | vni 100"]).rig();
    rig.put("wan", &frame).only().assert_link("lan", own_mac(0), mac(1), &[]);
    assert_eq!(counts(&rig), [1]);
    // Fragments are put together first, as without the rule.
    let open = || {
        Build::new().port("lan", &["10.1.0.1/24"]).port("wan", &["198.51.100.1/24"]).neighbor("lan", "10.1.0.2", mac(1))
    };
    for rule in ["node tunnel-decap | udp port 4789 |", "advance 50 ethernet | udp port 4789 |"] {
        let mut rig = inner(open(), &[rule]).rig();
        let mut fragmenter = weir_packet::fragment::Fragmenter::new(&frame[14..], 68).unwrap();
        let (mut octets, mut fragments) = ([0; 100], Vec::new());
        while let Some(length) = fragmenter.next(&mut octets) {
            fragments.push([&frame[..14], &octets[..length]].concat());
        }
        let (_, out) = rig.put_all("wan", &fragments);
        assert_eq!((fragments.len() > 1, out.len(), counts(&rig)), (true, 1, vec![1]), "{rule}");
    }
    // Another identifier goes on, to the list.
    let mut other = frame.clone();
    other[48] = 101;
    rig.drops_frame("wan", &other, Reason::AclDeny);
    // Without a tunnel the inner frame comes in by the interface of the outer one, and passes its checks.
    let rules = ["advance 50 ethernet | udp port 4789 | vni 100"];
    let mut rig = checked(open(), "wan", &["permit any from 172.16.0.0/12"]).steer(&["wan"], &rules).rig();
    let frame = packet(&rig, own_mac(1));
    rig.put("wan", &frame).only().assert_link("lan", own_mac(0), mac(1), &[]);
    let mut rig = checked(open(), "wan", &["deny any"]).steer(&["wan"], &rules).rig();
    rig.drops_frame("wan", &frame, Reason::AclDeny);
    let mut rig = open().steer(&["wan"], &["advance 64 ip4 | udp port 4789 | vni 100"]).rig();
    assert_eq!(rig.put("wan", &frame).outcome.verdict, Verdict::Forward);
    for rule in ["advance 64 ip6 | udp |", "advance 250 ip4 | udp |"] {
        let mut rig = open().steer(&["wan"], &[rule]).rig();
        rig.drops_frame("wan", &frame, Reason::SteerAdvance);
    }
    // A rule that matches what it leaves ends at the bound of nesting.
    let mut rig = open().steer(&["wan"], &["advance 14 ip4 | any |"]).rig();
    rig.drops_frame("wan", &frame, Reason::SteerAdvance);
}

/// The first rule that matches a packet, by comparing one rule after the other.
fn naive(build: &Build, packet: &Fields<u32>, vni: Option<u32>) -> Option<usize> {
    build.0.steer[0].rules.iter().position(|rule| {
        let fields = weir_plane::compile::boxes::boxes::<u32>(&rule.matches, |interface| interface.0);
        let id = rule.id.as_ref().is_none_or(|(_, ids)| vni.is_some_and(|vni| ids.contains(&vni)));
        id && fields.iter().any(|fields| fields.matches(packet))
    })
}

#[test]
fn random_lists_find_the_first_match() {
    let mut random = Random::from_seed(1120);
    for _ in 0..60 {
        let count = 1 + random.below(40);
        let rules: Vec<String> = (0..count)
            .map(|_| {
                let mut pick = |of: &[&str]| of[random.below(of.len() as u64) as usize].to_owned();
                let what = pick(&["any", "udp", "udp", "udp", "tcp", "ip4"]);
                let from = pick(&["", " from 10.0.0.0/24", " from 10.0.0.2/32", " from 10.0.0.0/8"]);
                let port =
                    if what == "udp" { pick(&["", " port 4789", " port 4000-4789", " port 7"]) } else { String::new() };
                let vni = if what == "udp" {
                    pick(&["", "vni 1", "vni 2", "vni 3", "vni 1-2", "vni 3-9"])
                } else {
                    String::new()
                };
                format!("count | {what}{from}{port} | {vni}")
            })
            .collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let build = two_ports().steer(&["lan"], &rules);
        let mut rig = build.clone().rig();
        let mut wanted = vec![0; rules.len()];
        let frames: Vec<Vec<u8>> = (0..200)
            .map(|_| {
                let (from, port) = ([2, 3][random.below(2) as usize], [4789, 7, 4100][random.below(3) as usize]);
                let vni = random.below(11) as u8;
                let text = format!("udp from 10.0.{from}.2 port 9 to 203.0.113.1 port {port} length 120");
                let text = if from == 2 { text.replace("10.0.2.2", "10.0.0.2") } else { text };
                let mut frame = rig.frame("lan", &text);
                frame[42..50].copy_from_slice(&[8, 0, 0, 0, 0, 0, vni, 0]);
                let source = if from == 2 { 0x0a00_0002 } else { 0x0a00_0302 };
                let fields = Fields::new(source, 0xcb00_7101, 17).with_ports(9, port);
                if let Some(rule) = naive(&build, &fields, Some(vni.into())) {
                    wanted[rule] += 1;
                }
                frame
            })
            .collect();
        rig.put_all("lan", &frames);
        assert_eq!(counts(&rig), wanted, "{rules:#?}");
    }
}

#[test]
fn a_way_is_kept_with_the_rule() {
    let build = two_ports().steer(&["lan"], &["to wan 192.0.2.2 | any |"]);
    assert!(matches!(build.0.steer[0].rules[0].way, SteerWay::To { .. }));
    let mut rig = build.rig();
    // The interface that the packet came by is none of the rule's.
    rig.forwards("lan", &udp("10.0.0.2", "10.0.0.2", 9)).assert_link("wan", own_mac(1), mac(2), &[]);
}
