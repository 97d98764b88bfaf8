//! Bindings of hardware addresses to those of IP.

use crate::kit::link::*;
use crate::kit::*;
use weir_packet::wire::MacAddress;
use weir_packet::wire::arp::Fields as Arp;
use weir_packet::wire::nd::{self, Fields as Nd};
use weir_plane::harness::Verdict;
use weir_plane::reason::Reason;

const REFUSED: Reason = Reason::MacIp;

/// A frame from a station, by what is in it.
fn from(rig: &Rig, interface: &str, mac: MacAddress, text: &str) -> Vec<u8> {
    let mut frame = rig.frame(interface, text);
    frame[6..12].copy_from_slice(&mac.0);
    frame
}

fn v4(source: &str) -> String {
    format!("udp from {source} port 1 to 198.51.100.9 port 2")
}

fn v6(source: &str) -> String {
    format!("udp from {source} port 1 to 2001:db8:ffff::9 port 2")
}

fn station(text: &str) -> MacAddress {
    text.parse().unwrap()
}

/// Returns the packets that the rules of a list have matched, and the packets that no rule matched.
fn hits(rig: &Rig) -> (Vec<u64>, u64) {
    let list = &rig.harness.bindings()[0];
    (list.rules.iter().map(|rule| rule.matched.packets).collect(), list.unmatched.packets)
}

#[test]
fn stations_and_sources_are_bound_exactly_by_vendor_and_subnet_or_not_at_all() {
    let one = station("02:00:5e:00:00:01");
    // Another station of the same vendor, and one of another.
    let (same, other) = (station("02:00:5e:77:88:99"), station("02:00:5f:00:00:01"));
    // Rule; then for each station whether it may be 10.0.0.7, 10.0.0.8 and 10.9.0.1.
    let cases = [
        ("02:00:5e:00:00:01", "10.0.0.7/32", [[true, false, false], [false; 3], [false; 3]]),
        ("02:00:5e:00:00:01", "10.0.0.0/24", [[true, true, false], [false; 3], [false; 3]]),
        ("02:00:5e:00:00:01", "any", [[true; 3], [false; 3], [false; 3]]),
        ("02:00:5e:00:00:00/24", "10.0.0.7/32", [[true, false, false], [true, false, false], [false; 3]]),
        ("02:00:5e:00:00:00/24", "10.0.0.0/24", [[true, true, false], [true, true, false], [false; 3]]),
        ("02:00:5e:00:00:00/24", "any", [[true; 3], [true; 3], [false; 3]]),
        ("any", "10.0.0.7/32", [[true, false, false]; 3]),
        ("any", "10.0.0.0/24", [[true, true, false]; 3]),
        ("any", "any", [[true; 3]; 3]),
        // All bits but the last of the address; and more than the upper four octets, with an odd length.
        ("02:00:5e:00:00:00/47", "10.0.0.7/32", [[true, false, false], [false; 3], [false; 3]]),
        ("02:00:5e:00:00:00/33", "any", [[true; 3], [false; 3], [false; 3]]),
        ("02:00:5e:00:00:00/32", "any", [[true; 3], [false; 3], [false; 3]]),
        ("02:00:00:00:00:00/8", "10.0.0.8/32", [[false, true, false]; 3]),
    ];
    for (mac, net, expected) in cases {
        let rule = format!("permit {mac} from {net}");
        let mut rig = two_ports().bindings("list", &[&rule]).bind("lan", "list").rig();
        for (station, expected) in [one, same, other].into_iter().zip(expected) {
            for (source, expected) in ["10.0.0.7", "10.0.0.8", "10.9.0.1"].into_iter().zip(expected) {
                let frame = from(&rig, "lan", station, &v4(source));
                let verdict = rig.put("lan", &frame).outcome.verdict;
                let wanted = if expected { Verdict::Forward } else { Verdict::Drop(REFUSED) };
                assert_eq!(verdict, wanted, "{rule}: {source} by {station}");
            }
        }
        let passed = expected.iter().flatten().filter(|&&passes| passes).count() as u64;
        assert_eq!(hits(&rig), (vec![passed], 9 - passed));
    }
}

#[test]
fn the_first_rule_that_matches_decides_in_both_families() {
    let rules = [
        "deny 02:00:00:00:aa:02 from 10.0.0.9/32",
        "permit 02:00:00:00:aa:00/40 from 10.0.0.0/24",
        "permit 02:00:00:00:aa:02 from 2001:db8:a::/64",
        "deny any from 10.0.0.0/8",
        "permit 02:00:00:00:aa:02 from 10.0.0.9/32",
    ];
    let mut rig = two_ports().bindings("list", &rules).bind("lan", "list").rig();
    let two = station("02:00:00:00:aa:02");
    let frames = |rig: &Rig| {
        [
            from(rig, "lan", two, &v4("10.0.0.9")),
            from(rig, "lan", HOST, &v4("10.0.0.9")),
            from(rig, "lan", two, &v6("2001:db8:a::9")),
            from(rig, "lan", HOST, &v6("2001:db8:a::9")),
            from(rig, "lan", two, &v4("10.1.0.9")),
            from(rig, "lan", two, &v4("172.16.0.9")),
        ]
    };
    let frames = frames(&rig);
    let (outcomes, _) = rig.put_all("lan", &frames);
    let (pass, drop) = (Verdict::Forward, Verdict::Drop(REFUSED));
    let verdicts: Vec<Verdict> = outcomes.iter().map(|one| one.verdict).collect();
    assert_eq!(verdicts, [drop, pass, pass, drop, drop, drop]);
    assert_eq!(hits(&rig), (vec![1, 1, 1, 1, 0], 2));
    // The outcome names the rule.
    let said: Vec<_> = outcomes.iter().map(|one| one.bindings.map(|said| (said.rule, said.permit))).collect();
    let rule = |at: usize, permit| Some((Some(at), permit));
    let none = Some((None, false));
    assert_eq!(said, [rule(0, false), rule(1, true), rule(2, true), none, rule(3, false), none]);
    // The list does not apply to other interfaces.
    rig.forwards("wan", "udp from 203.0.113.1 port 1 to 10.0.0.2 port 2");
}

#[test]
fn behind_tags_stations_are_bound_by_the_interface_of_the_vlan() {
    let build = two_ports()
        .vlan("one", "lan", &[7], &["10.7.0.1/24"])
        .vlan("two", "lan", &[8, 9], &["10.8.0.1/24"])
        .bindings("list", &["permit 02:00:00:00:aa:02 from 10.7.0.2/32", "permit 02:00:00:00:aa:02 from 10.8.0.2/32"]);
    let mut rig = build.bind("one", "list").bind("two", "list").rig();
    let two = station("02:00:00:00:aa:02");
    for (interface, source, tags) in [("one", "10.7.0.2", "vlan 7"), ("two", "10.8.0.2", "vlan 8 inner 9")] {
        let text = format!("{} {tags}", v4(source));
        let frame = from(&rig, interface, two, &text);
        rig.forwards_frame(interface, &frame);
        rig.drops(interface, &text, REFUSED);
    }
    rig.forwards("lan", &v4("10.7.0.2"));
    assert_eq!(hits(&rig), (vec![1, 1], 2));
}

#[test]
fn who_claims_an_address_by_arp_has_to_be_bound_to_it() {
    let rules = ["permit 02:00:00:00:aa:01 from 10.0.0.9/32", "permit 02:00:00:00:aa:02 from 10.0.0.8/32"];
    let mut rig = two_ports().bindings("list", &rules).bind("lan", "list").rig();
    assert_eq!(HOST, station("02:00:00:00:aa:01"));
    assert_eq!(rig.put("lan", &arp(ALL, &[], request("10.0.0.9", "10.0.0.1"))).outcome.verdict, Verdict::Local);
    // Another station's address, in a request and unsolicited.
    rig.drops_frame("lan", &arp(ALL, &[], request("10.0.0.8", "10.0.0.1")), REFUSED);
    rig.drops_frame("lan", &arp(ALL, &[], request("10.0.0.8", "10.0.0.8")), REFUSED);
    // In the name of another station than the frame's: both have to be bound to the address.
    for address in ["10.0.0.9", "10.0.0.8"] {
        let lie = Arp { sender_mac: station("02:00:00:00:aa:02"), ..request(address, "10.0.0.1") };
        rig.drops_frame("lan", &arp(ALL, &[], lie), REFUSED);
    }
    // A host without an address probes whether one is in use.
    assert_eq!(rig.put("lan", &arp(ALL, &[], request("0.0.0.0", "10.0.0.1"))).outcome.verdict, Verdict::Local);
}

#[test]
fn who_claims_an_address_by_discovery_has_to_be_bound_to_it() {
    let rules = ["permit 02:00:00:00:aa:01 from fe80::9/128", "permit 02:00:00:00:aa:01 from 2001:db8:a::9/128"];
    let mut rig = two_ports().bindings("list", &rules).bind("lan", "list").rig();
    let verdict = |rig: &mut Rig, frame: &[u8]| rig.put("lan", frame).outcome.verdict;
    let (pass, drop) = (Verdict::Local, Verdict::Drop(REFUSED));
    assert_eq!(verdict(&mut rig, &ask(&[], "fe80::9", "2001:db8:a::1", Some(HOST))), pass);
    assert_eq!(verdict(&mut rig, &ask(&[], "fe80::9", "2001:db8:a::1", None)), pass);
    // A source and a station that do not belong together.
    assert_eq!(verdict(&mut rig, &ask(&[], "fe80::8", "2001:db8:a::1", Some(HOST))), drop);
    assert_eq!(verdict(&mut rig, &ask(&[], "fe80::9", "2001:db8:a::1", Some(mac(3)))), drop);
    // Who tests an address has none yet.
    assert_eq!(verdict(&mut rig, &ask(&[], "::", "2001:db8:a::1", None)), pass);
    // An advertisement speaks of its target.
    let all = MacAddress::of_ipv6_multicast(nd::ALL_NODES);
    let advertise = |target: &str, target_mac| {
        let (router, solicited, overrides) = (false, false, true);
        let target = target.parse().unwrap();
        discovery(
            all,
            &[],
            "fe80::9",
            nd::ALL_NODES,
            Nd::NeighborAdvertisement { target, router, solicited, overrides, target_mac },
        )
    };
    assert_eq!(verdict(&mut rig, &advertise("2001:db8:a::9", Some(HOST))), pass);
    assert_eq!(verdict(&mut rig, &advertise("2001:db8:a::9", Some(mac(3)))), drop);
    assert_eq!(verdict(&mut rig, &advertise("2001:db8:a::7", Some(HOST))), drop);
}

#[test]
fn a_message_counts_once_for_the_rule_that_decides() {
    let rules =
        ["permit 02:00:00:00:aa:01 from fe80::9/128", "deny any from fe80::8/128", "deny 02:00:00:00:aa:01 from any"];
    let mut rig = two_ports().bindings("list", &rules).bind("lan", "list").rig();
    // Of its source, and of the hardware address that it names.
    rig.put("lan", &ask(&[], "fe80::9", "2001:db8:a::1", Some(HOST)));
    assert_eq!(hits(&rig), (vec![1, 0, 0], 0));
    rig.put("lan", &ask(&[], "fe80::9", "2001:db8:a::1", None));
    assert_eq!(hits(&rig), (vec![2, 0, 0], 0));
    // The source is refused; the source is right, and the station another.
    rig.put("lan", &ask(&[], "fe80::8", "2001:db8:a::1", Some(HOST)));
    rig.put("lan", &ask(&[], "fe80::9", "2001:db8:a::1", Some(mac(3))));
    assert_eq!(hits(&rig), (vec![2, 1, 0], 1));
    // The list does not apply to packets without a source.
    rig.put("lan", &ask(&[], "::", "2001:db8:a::1", None));
    rig.put("lan", &arp(ALL, &[], request("10.0.0.9", "10.0.0.1")));
    assert_eq!(hits(&rig), (vec![2, 1, 1], 1));
}

#[test]
fn a_fragment_that_waits_before_the_lists_behind_them_counts_once() {
    let build = two_ports().bindings("list", &["permit any from any"]).bind("lan", "list");
    let mut rig = build.acl("in", &["permit udp port 54"]).acl_in("lan", &["in"]).rig();
    let later = rig.frame("lan", "udp from 10.0.0.2 to 198.51.100.9 fragment 1480");
    let first = rig.frame("lan", "udp from 10.0.0.2 port 9 to 198.51.100.9 port 54 fragment 0+");
    assert!(rig.put_all("lan", &[&later, &later]).1.is_empty());
    assert_eq!(rig.put_all("lan", &[&first]).1.len(), 3);
    assert_eq!((hits(&rig), rig.acl_hits("in")), ((vec![3], 0), vec![3, 0]));
    let matched = rig.harness.bindings()[0].rules[0].matched;
    assert_eq!(matched.bytes, rig.harness.acl_rules("in")[0].matched.bytes);
}

#[test]
fn what_is_for_the_host_on_the_link_is_asked_unless_it_comes_from_nobody() {
    let build = Build::new().port("lan", &["10.0.0.1/24", "fe80::1/64"]).punt();
    let mut rig = build.bindings("list", &["permit 02:00:00:00:aa:01 from 10.0.0.2/32"]).bind("lan", "list").rig();
    let verdict = |rig: &mut Rig, text: &str| rig.send("lan", text).outcome.verdict;
    assert_eq!(verdict(&mut rig, "udp from 10.0.0.2 port 1 to 224.0.0.5 port 2"), Verdict::Local);
    assert_eq!(verdict(&mut rig, "udp from 10.0.0.3 port 1 to 224.0.0.5 port 2"), Verdict::Drop(REFUSED));
    assert_eq!(verdict(&mut rig, "udp from fe80::9 port 1 to ff02::5 port 2"), Verdict::Drop(REFUSED));
    assert_eq!(verdict(&mut rig, "udp from 0.0.0.0 port 68 to 255.255.255.255 port 67"), Verdict::Local);
}

#[test]
fn many_rules_are_replaced_while_packets_come_and_those_that_stay_count_on() {
    let rules = |first: u32, count: u32| -> Vec<String> {
        let rule =
            |n: u32| format!("permit 02:00:00:00:{:02x}:{:02x} from 10.{}.{}.0/24", n >> 8, n & 255, n >> 8, n & 255);
        (first..first + count).map(rule).collect()
    };
    let build = |rules: &[String]| {
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        two_ports().bindings("list", &rules).bind("lan", "list")
    };
    let mut rig = build(&rules(0, 300)).rig();
    let frame = |rig: &Rig, n: u32| {
        let mac = MacAddress([2, 0, 0, 0, (n >> 8) as u8, n as u8]);
        from(rig, "lan", mac, &v4(&format!("10.{}.{}.7", n >> 8, n & 255)))
    };
    let frames: Vec<Vec<u8>> = (0..400).map(|n| frame(&rig, n)).collect();
    let verdicts = |rig: &mut Rig| -> Vec<bool> {
        let all = frames.chunks(200).flat_map(|chunk| rig.put_all("lan", chunk).0);
        all.map(|one| one.verdict == Verdict::Forward).collect()
    };
    assert_eq!(verdicts(&mut rig), (0..400).map(|n| n < 300).collect::<Vec<_>>());
    assert_eq!(hits(&rig), (vec![1; 300], 100));
    // The first hundred go, another hundred comes: the numbers of the former are the latter's only later.
    for first in [100, 50, 0] {
        rig.reload(build(&rules(first, 300)));
        assert_eq!(verdicts(&mut rig), (0..400).map(|n| (first..first + 300).contains(&n)).collect::<Vec<_>>());
    }
    // Rules 100 to 299 have stayed, 50 to 99 were away once, 0 to 49 twice: what is new counts from nothing.
    let (counts, unmatched) = hits(&rig);
    let expected: Vec<u64> = (0..300)
        .map(|n| {
            if n < 50 {
                1
            } else if n < 100 {
                2
            } else {
                4
            }
        })
        .collect();
    assert_eq!((counts, unmatched), (expected, 400));
    rig.reload(two_ports());
    rig.forwards("lan", &v4("172.16.0.1"));
    assert!(rig.harness.bindings().is_empty());
}
