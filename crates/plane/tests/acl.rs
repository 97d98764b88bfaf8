//! Access lists, through the graph: which packets pass, and which rules count them. Both families, on both ways.

use crate::kit::*;
use weir_plane::harness::Verdict;
use weir_plane::model::{AclAction, NextHop, Origin, PerFamily, Rejection, Sampler, SamplerIndex, Sampling, SavAction};
use weir_plane::reason::Reason;
use weir_plane::sample::{Cause, Treatment};

/// From a host on `lan` to one behind `wan`, in each family.
const WAYS: [&str; 2] = [" from 10.0.0.2PORT to 198.51.100.9", " from 2001:db8:a::2PORT to 2001:db8:ffff::9"];

/// Returns the verdicts of a list on packets that a gateway forwards, as ingress list and as egress list.
#[track_caller]
fn verdicts(rules: &[&str], packets: &[(&str, bool)]) {
    for output in [false, true] {
        let build = two_ports().acl("list", rules);
        let build = if output { build.acl_out("wan", &["list"]) } else { build.acl_in("lan", &["list"]) };
        let mut rig = build.rig();
        for &(text, passes) in packets {
            if passes {
                rig.forwards("lan", text);
            } else {
                rig.drops("lan", text, Reason::AclDeny);
            }
        }
        assert_eq!(rig.acl_hits("list").iter().sum::<u64>(), packets.len() as u64);
    }
}

/// A packet of each family: `SPORT` in front of the destination, `rest` behind it.
fn packets(protocol: &str, source_port: Option<u16>, rest: &str) -> [String; 2] {
    let port = source_port.map_or_else(String::new, |port| format!(" port {port}"));
    WAYS.map(|way| format!("{protocol}{}{rest}", way.replace("PORT", &port)))
}

#[test]
fn ports_by_themselves_and_by_ranges() {
    for protocol in ["tcp", "udp"] {
        let rules = [
            format!("permit {protocol} port 80"),
            format!("permit {protocol} port 1000-2000 sport 5000-6000"),
            format!("deny {protocol} port 3000"),
            format!("permit {protocol} port 2990-3010"),
        ];
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        for family in 0..2 {
            let packet = |from: u16, to: u16| packets(protocol, Some(from), &format!(" port {to}"))[family].clone();
            let cases = [
                (packet(1, 80), true),
                (packet(1, 79), false),
                (packet(1, 81), false),
                (packet(80, 1), false),
                (packet(5000, 1000), true),
                (packet(6000, 2000), true),
                (packet(5500, 1500), true),
                (packet(4999, 1500), false),
                (packet(6001, 1500), false),
                (packet(5500, 999), false),
                (packet(5500, 2001), false),
                (packet(1, 2990), true),
                (packet(1, 3010), true),
                (packet(1, 3000), false),
                (packet(1, 2989), false),
                (packet(1, 3011), false),
            ];
            let cases: Vec<_> = cases.iter().map(|(text, passes)| (text.as_str(), *passes)).collect();
            verdicts(&rules, &cases);
        }
    }
}

#[test]
fn protocols_are_told_apart() {
    for family in 0..2 {
        let of = |protocol: &str| packets(protocol, Some(9), " port 80")[family].clone();
        let (tcp, udp) = (of("tcp"), of("udp"));
        verdicts(&["permit tcp port 80"], &[(&tcp, true), (&udp, false)]);
        verdicts(&["permit udp"], &[(&tcp, false), (&udp, true)]);
        let bare = packets("99", None, "")[family].clone();
        verdicts(&["permit 99"], &[(&tcp, false), (&bare, true)]);
        verdicts(&["deny 99", "permit any"], &[(&tcp, true), (&bare, false)]);
    }
}

#[test]
fn a_datagram_without_data_is_one() {
    for text in packets("udp", Some(9), " port 53") {
        let length = if text.contains("10.0") { 28 } else { 48 };
        let empty = format!("{text} length {length}");
        verdicts(&["permit udp port 53"], &[(&empty, true)]);
        verdicts(&["deny udp port 53", "permit any"], &[(&empty, false)]);
    }
}

#[test]
fn types_and_codes_of_icmp() {
    let v4 = |rest: &str| format!("icmp from 10.0.0.2 to 198.51.100.9 {rest}");
    let v6 = |rest: &str| format!("icmp6 from 2001:db8:a::2 to 2001:db8:ffff::9 {rest}");
    verdicts(
        &["permit icmp type 8 code 0", "permit icmp type 3 code 1-3", "permit icmp type 255"],
        &[
            (&v4("type 8"), true),
            (&v4("type 0"), false),
            (&v4("type 7"), false),
            (&v4("type 9"), false),
            (&v4("type 8 code 1"), false),
            (&v4("type 3 code 0"), false),
            (&v4("type 3 code 1"), true),
            (&v4("type 3 code 3"), true),
            (&v4("type 3 code 4"), false),
            // The last of all types.
            (&v4("type 255 code 255"), true),
            (&v4("type 254"), false),
        ],
    );
    verdicts(
        &["permit icmp6 type 128", "permit icmp6 type 0 code 0", "permit icmp6 type 255"],
        &[
            (&v6("type 128"), true),
            (&v6("type 129"), false),
            (&v6("type 127"), false),
            (&v6("type 0"), true),
            (&v6("type 255"), true),
        ],
    );
}

#[test]
fn flags_by_mask_and_value() {
    for family in 0..2 {
        let tcp = |flags: &str| packets("tcp", Some(9), &format!(" port 80 flags {flags}"))[family].clone();
        let cases =
            [("syn", false), ("syn,ack", true), ("ack", true), ("syn,ece", false), ("rst", false), ("fin,ack", true)];
        let cases: Vec<_> = cases.map(|(flags, passes)| (tcp(flags), passes)).into();
        let cases: Vec<_> = cases.iter().map(|(text, passes)| (text.as_str(), *passes)).collect();
        verdicts(&["permit tcp flags ack/ack"], &cases);
        verdicts(&["deny tcp flags syn/syn,ack", "deny tcp flags rst/rst", "permit any"], &cases);
    }
}

#[test]
fn what_is_cut_off_has_no_ports_and_no_flags() {
    // The IP header says that there are so few octets; what lies behind them in the frame is nobody's.
    let frame = |rig: &Rig, transport: u8| {
        let mut frame = rig.frame("lan", "tcp from 10.0.0.2 port 9 to 198.51.100.9 port 80 flags syn length 60");
        frame[16..18].copy_from_slice(&u16::from(20 + transport).to_be_bytes());
        mend(&mut frame);
        frame
    };
    let rig = |rules: &[&str]| two_ports().acl("list", rules).acl_in("lan", &["list"]).rig();
    let mut ports = rig(&["permit tcp port 80"]);
    let mut flags = rig(&["permit tcp flags syn/syn"]);
    for octets in 0..=20 {
        let (with_ports, with_flags) = (octets >= 4, octets >= 20);
        for (rig, passes) in [(&mut ports, with_ports), (&mut flags, with_flags)] {
            let frame = frame(rig, octets);
            let verdict = rig.put("lan", &frame).outcome.verdict;
            let expected = if passes { Verdict::Forward } else { Verdict::Drop(Reason::AclDeny) };
            assert_eq!(verdict, expected, "{octets} octets");
        }
    }
}

#[test]
fn addresses_by_prefix_and_by_range() {
    let from = |source: &str| format!("udp from {source} port 1 to 198.51.100.9 port 2");
    verdicts(
        &[
            "deny any from 10.0.0.64/26",
            "permit any from 10.0.0.0/24 to 198.51.100.8/30",
            "permit any from 10.9.0.5-10.9.0.9",
        ],
        &[
            (&from("10.0.0.63"), true),
            (&from("10.0.0.64"), false),
            (&from("10.0.0.127"), false),
            (&from("10.0.0.128"), true),
            (&from("10.0.1.1"), false),
            (&from("10.9.0.4"), false),
            (&from("10.9.0.5"), true),
            (&from("10.9.0.9"), true),
            (&from("10.9.0.10"), false),
            ("udp from 10.0.0.2 port 1 to 198.51.100.12 port 2", false),
        ],
    );
    let from = |source: &str| format!("udp from {source} port 1 to 2001:db8:ffff::9 port 2");
    verdicts(
        &[
            "deny any from 2001:db8:a::8000/113",
            "permit any from 2001:db8:a::/64",
            "permit any from 2001:db8:b::5-2001:db8:b::1:4",
        ],
        &[
            (&from("2001:db8:a::7fff"), true),
            (&from("2001:db8:a::8000"), false),
            (&from("2001:db8:a::ffff"), false),
            (&from("2001:db8:a::1:0"), true),
            (&from("2001:db8:b::4"), false),
            (&from("2001:db8:b::5"), true),
            (&from("2001:db8:b::1:4"), true),
            (&from("2001:db8:b::1:5"), false),
        ],
    );
}

#[test]
fn families_and_codepoints() {
    let [v4, v6] = packets("udp", Some(1), " port 2");
    verdicts(&["permit ip4"], &[(&v4, true), (&v6, false)]);
    verdicts(&["deny ip4", "permit any"], &[(&v4, false), (&v6, true)]);
    let marked = |text: &str, dscp: u8| format!("{text} dscp {dscp}");
    for text in [&v4, &v6] {
        verdicts(
            &["permit any dscp 46"],
            &[(&marked(text, 46), true), (&marked(text, 45), false), (text, false), (&marked(text, 63), false)],
        );
    }
}

#[test]
fn the_first_that_matches_decides_and_counts() {
    let build =
        two_ports().acl("list", &["permit udp port 53", "deny udp port 1-100", "permit udp"]).acl_in("lan", &["list"]);
    let mut rig = build.rig();
    for (port, passes) in [(53, true), (53, true), (54, false), (1000, true), (100, false), (7, false)] {
        for text in packets("udp", Some(9), &format!(" port {port}")) {
            let verdict = rig.send("lan", &text).outcome.verdict;
            assert_eq!(verdict == Verdict::Forward, passes);
        }
    }
    rig.drops("lan", "tcp from 10.0.0.2 port 1 to 198.51.100.9 port 2", Reason::AclDeny);
    assert_eq!(rig.acl_hits("list"), [4, 6, 2, 1]);
    let rows = rig.harness.acl_rules("list");
    assert_eq!(rows[0].matched.bytes, 2 * 28 + 2 * 48, "octets from the header of IP on");
}

#[test]
fn hits_are_counted_in_vectors_of_all_kinds() {
    let rules: Vec<String> = (0..100).map(|port| format!("permit udp port {port}")).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let mut rig = two_ports().acl("list", &rules).acl_in("lan", &["list"]).rig();
    let frames = |rig: &Rig, ports: &dyn Fn(u32) -> u32| -> Vec<Vec<u8>> {
        (0..256).map(|n| rig.frame("lan", &packets("udp", Some(9), &format!(" port {}", ports(n)))[0])).collect()
    };
    let (same, runs, mixed) = (frames(&rig, &|_| 7), frames(&rig, &|n| n / 64), frames(&rig, &|n| n * 37 % 100));
    for frames in [same, runs, mixed] {
        assert_eq!(rig.put_all("lan", &frames).1.len(), 256);
    }
    let mut expected = vec![0; 101];
    expected[7] += 256;
    (0..4).for_each(|port| expected[port] += 64);
    (0..256).for_each(|n| expected[n * 37 % 100] += 1);
    assert_eq!(rig.acl_hits("list"), expected);
}

#[test]
fn vectors_of_all_lengths_go_through_lists_that_are_kept_once() {
    let rules = |from: u32, to| (from..to).map(|port| format!("permit udp port {port}")).collect::<Vec<_>>();
    let (own, common) = (rules(0, 20), rules(20, 90));
    let texts = |rules: &'static [String]| rules.iter().map(String::as_str).collect::<Vec<_>>();
    let (own, common) = (texts(own.leak()), texts(common.leak()));
    let build = two_ports().acl("own", &own).acl("common", &common).acl("last", &["deny udp port 95", "permit any"]);
    let build = build.acl_in("lan", &["own", "common", "last"]).acl_in("wan", &["common"]);
    let mut rig = build.rig();
    rig.harness.share_acls(0).unwrap();
    let mut expected = [vec![0; 21], vec![0; 71], vec![0; 3]];
    for length in [1, 2, 20, 254, 255, 256] {
        let port = |n: usize| n * 37 % 100;
        let frames: Vec<Vec<u8>> =
            (0..length).map(|n| rig.frame("lan", &packets("udp", Some(9), &format!(" port {}", port(n)))[0])).collect();
        let (outcomes, _) = rig.put_all("lan", &frames);
        for (n, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome.verdict == Verdict::Forward, port(n) != 95, "port {} of {length}", port(n));
            match port(n) {
                port @ 0..20 => expected[0][port] += 1,
                port @ 20..90 => expected[1][port - 20] += 1,
                95 => expected[2][0] += 1,
                _ => expected[2][1] += 1,
            }
        }
    }
    assert_eq!(["own", "common", "last"].map(|list| rig.acl_hits(list)), expected);
}

#[test]
fn several_lists_in_their_order() {
    let build = two_ports()
        .acl("first", &["deny udp port 1", "permit udp port 2"])
        .acl("second", &["permit udp port 1", "deny udp port 2", "permit udp port 3"])
        .acl("last", &["permit udp port 4"])
        .acl_default(AclAction::Permit);
    let mut rig = build.clone().acl_in("lan", &["first", "second", "last"]).rig();
    let send = |rig: &mut Rig, port: u16| {
        let text = packets("udp", Some(9), &format!(" port {port}"))[0].clone();
        rig.send("lan", &text).outcome.verdict == Verdict::Forward
    };
    assert_eq!([1, 2, 3, 4, 5].map(|port| send(&mut rig, port)), [false, true, true, true, true]);
    assert_eq!((rig.acl_hits("first"), rig.acl_hits("second")), (vec![1, 1, 0], vec![0, 0, 1, 0]));
    assert_eq!(rig.acl_hits("last"), [1, 1]);
    // In the other order, and without the last: a packet that no list permits is denied.
    let mut rig = build.acl_in("lan", &["second", "first"]).rig();
    assert_eq!([1, 2, 3, 4, 5].map(|port| send(&mut rig, port)), [true, false, true, false, false]);
    assert_eq!((rig.acl_hits("second"), rig.acl_hits("first")), (vec![1, 1, 1, 0], vec![0, 0, 2]));
}

#[test]
fn defaults_decide_for_the_rest() {
    let texts = packets("udp", Some(1), " port 2");
    let build = |action| two_ports().acl("list", &["deny tcp"]).acl_default(action).acl_in("lan", &["list"]);
    let mut permit = build(AclAction::Permit).rig();
    let mut deny = build(AclAction::Deny).rig();
    let mut reject = build(AclAction::Reject(Rejection::Usual)).rig();
    for text in &texts {
        permit.forwards("lan", text);
        deny.drops("lan", text, Reason::AclDeny);
        reject.told("lan", text, Reason::AclReject);
    }
    for rig in [permit, deny, reject] {
        assert_eq!(rig.acl_hits("list"), [0, 2]);
    }
}

#[test]
fn the_same_list_on_many_interfaces() {
    let build = (0..5).fold(two_ports(), |build, number| build.port(&format!("p{number}"), &[]));
    let build = build.acl("list", &["deny udp port 1", "permit any"]).acl("other", &["permit any"]);
    let build = (0..4).fold(build, |build, number| build.acl_in(&format!("p{number}"), &["list"]));
    let mut rig = build.acl_out("wan", &["other"]).rig();
    for number in 0..5 {
        let port = format!("p{number}");
        let text = |to: u16| format!("udp from 10.9.0.2 port 9 to 198.51.100.9 port {to}");
        rig.forwards(&port, &text(2));
        if number < 4 {
            rig.drops(&port, &text(1), Reason::AclDeny);
        } else {
            rig.forwards(&port, &text(1));
        }
    }
    assert_eq!((rig.acl_hits("list"), rig.acl_hits("other")), (vec![4, 4, 0], vec![6, 0]));
}

#[test]
fn interfaces_of_one_port_have_lists_of_their_own() {
    let build = two_ports()
        .vlan("blue", "lan", &[7], &[])
        .vlan("red", "lan", &[8, 9], &[])
        .acl("a", &["permit udp port 1"])
        .acl("b", &["permit udp port 2"])
        .acl_in("blue", &["a"])
        .acl_in("red", &["b"]);
    let mut rig = build.rig();
    let text = |port: u16, tags: &str| format!("udp from 10.0.0.2 port 9 to 198.51.100.9 port {port}{tags}");
    // In one vector, alternating: packets of one chain are looked up together, and none is forgotten.
    let tags = ["", " vlan 7", " vlan 8 inner 9"];
    let frames: Vec<_> = (0..252).map(|n| rig.frame("lan", &text(1 + n / 3 % 2, tags[usize::from(n) % 3]))).collect();
    let (outcomes, out) = rig.put_all("lan", &frames);
    for (n, outcome) in outcomes.iter().enumerate() {
        let passes = [true, n / 3 % 2 == 0, n / 3 % 2 == 1][n % 3];
        assert_eq!(outcome.verdict == Verdict::Forward, passes, "{n}");
    }
    assert_eq!(out.len(), 84 + 42 + 42);
    assert_eq!((rig.acl_hits("a"), rig.acl_hits("b")), (vec![42, 42], vec![42, 42]));
}

#[test]
fn extension_headers_are_walked_on_both_ways() {
    let pad = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    for output in [false, true] {
        let build = two_ports().acl("list", &["permit udp port 53", "deny udp", "permit any"]);
        let build = if output { build.acl_out("wan", &["list"]) } else { build.acl_in("lan", &["list"]) };
        let mut rig = build.rig();
        for (port, passes) in [(53, true), (54, false)] {
            let plain = rig.frame("lan", &packets("udp", Some(9), &format!(" port {port}"))[1]);
            let atomic = [17, 0, 0, 0, 0, 0, 0, 1];
            for (first, headers) in [
                (60, pad(17).to_vec()),
                (0, pad(17).to_vec()),
                (0, [pad(60), pad(17)].concat()),
                (60, [pad(60), pad(60), pad(17)].concat()),
                (44, atomic.to_vec()),
                (60, [pad(44), atomic].concat()),
            ] {
                let frame = with_extensions(&plain, first, &headers);
                let verdict = rig.put("lan", &frame).outcome.verdict;
                assert_eq!(verdict == Verdict::Forward, passes, "{first}: {headers:?}");
            }
        }
        assert_eq!(rig.acl_hits("list"), [6, 6, 0, 0]);
    }
}

#[test]
fn options_do_not_hide_ports() {
    let mut rig = two_ports().acl("list", &["permit udp port 53"]).acl_in("lan", &["list"]).rig();
    for (port, passes) in [(53, true), (54, false)] {
        let plain = rig.frame("lan", &packets("udp", Some(9), &format!(" port {port}"))[0]);
        let frame = with_options(&plain, &[1, 1, 1, 1, 1, 1, 1, 0]);
        assert_eq!(rig.put("lan", &frame).outcome.verdict == Verdict::Forward, passes);
    }
}

#[test]
fn what_is_for_the_gateway_is_asked_about_as_it_comes_in() {
    let build = two_ports().acl("list", &["deny icmp type 8", "deny icmp6 type 128", "permit any"]);
    let mut rig = build.clone().acl_in("lan", &["list"]).rig();
    rig.drops("lan", "icmp from 10.0.0.2 to 10.0.0.1 type 8", Reason::AclDeny);
    rig.drops("lan", "icmp6 from 2001:db8:a::2 to 2001:db8:a::1 type 128", Reason::AclDeny);
    rig.answers("wan", "icmp from 192.0.2.2 to 192.0.2.1 type 8");
    assert_eq!(rig.acl_hits("list"), [1, 1, 0, 0]);
    // Not as it is answered: the reply alone leaves.
    let mut rig = build.acl_out("lan", &["list"]).rig();
    rig.answers("lan", "icmp from 10.0.0.2 to 10.0.0.1 type 8");
    assert_eq!(rig.acl_hits("list"), [0, 0, 1, 0]);
}

#[test]
fn what_the_gateway_makes_is_asked_about_as_it_leaves() {
    let build =
        two_ports().acl("quiet", &["deny icmp type 0", "deny icmp type 11", "permit any"]).acl_out("lan", &["quiet"]);
    let mut rig = build.rig();
    let passage = rig.send("lan", "icmp from 10.0.0.2 to 10.0.0.1 type 8");
    assert_eq!((passage.outcome.verdict, passage.out.len()), (Verdict::Local, 0), "its reply is denied");
    let passage = rig.send("lan", "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 ttl 1");
    assert_eq!((passage.outcome.verdict, passage.out.len()), (Verdict::Drop(Reason::TtlExpired), 0));
    assert_eq!((rig.acl_hits("quiet"), rig.harness.drops(Reason::AclDeny)), (vec![1, 1, 0, 0], 2));
}

#[test]
fn what_the_host_gets_from_its_link_is_asked_about() {
    let build = Build::new().port("lan", &["10.0.0.1/24", "fe80::1/64"]).punt();
    let mut rig = build.acl("list", &["deny 89", "permit any"]).acl_in("lan", &["list"]).rig();
    for (text, passes) in [
        ("89 from 10.0.0.2 to 224.0.0.5", false),
        ("88 from 10.0.0.2 to 224.0.0.10", true),
        ("89 from fe80::9 to ff02::5", false),
        ("88 from fe80::9 to ff02::a", true),
    ] {
        let mac = if text.contains("ff02") { "33:33:00:00:00:05" } else { "01:00:5e:00:00:05" };
        let passage = rig.send("lan", &format!("{text} mac-to {mac}"));
        let expected = if passes { Verdict::Local } else { Verdict::Drop(Reason::AclDeny) };
        assert_eq!(passage.outcome.verdict, expected, "{text}");
    }
    assert_eq!(rig.acl_hits("list"), [2, 2, 0]);
}

#[test]
fn what_waits_for_its_next_hop_is_asked_once() {
    let build = two_ports()
        .acl("in", &["permit any"])
        .acl("out", &["deny udp port 1", "permit any"])
        .acl_in("lan", &["in"])
        .acl_out("wan", &["out"]);
    let mut rig = build.clone().rig();
    rig.harness.listen();
    for port in [1, 2] {
        let text = format!("udp from 10.0.0.2 port 9 to 192.0.2.9 port {port}");
        assert_eq!(rig.send("lan", &text).outcome.verdict, Verdict::Held);
    }
    assert_eq!((rig.acl_hits("in"), rig.acl_hits("out")), (vec![2, 0], vec![0, 0, 0]));
    rig.reload(build.neighbor("wan", "192.0.2.9", mac(9)));
    let (_, out) = rig.idle();
    assert_eq!(out.len(), 1);
    assert_eq!((rig.acl_hits("in"), rig.acl_hits("out")), (vec![2, 0], vec![1, 1, 0]));
}

#[test]
fn what_validation_sends_elsewhere_is_asked_about_there() {
    let build = two_ports().port("scrub", &["192.0.3.1/24"]).neighbor("scrub", "192.0.3.2", mac(3));
    let interface = build.interface("scrub");
    let mut build = build
        .table("p", &["permit from 10.0.0.0/24 on lan"])
        .validate(&["lan"], "p")
        .acl("in", &["permit any"])
        .acl("out", &["deny udp port 1", "permit any"])
        .acl_in("lan", &["in"])
        .acl_out("scrub", &["out"]);
    let policy = &mut build.0.sav[0];
    policy.action = SavAction::Redirect;
    policy.redirect =
        PerFamily { v4: Some(NextHop { interface, address: Some(ip("192.0.3.2")), weight: 1 }), v6: None };
    let mut rig = build.rig();
    let forged = |port: u16| format!("udp from 198.51.100.1 port 9 to 203.0.113.1 port {port}");
    rig.drops("lan", &forged(1), Reason::AclDeny);
    assert_eq!(rig.send("lan", &forged(2)).only().port, "scrub");
    rig.forwards("lan", "udp from 10.0.0.2 port 9 to 203.0.113.1 port 1");
    assert_eq!((rig.acl_hits("in"), rig.acl_hits("out")), (vec![1, 0], vec![1, 1, 0]));
}

#[test]
fn both_ways_and_the_interface_that_it_came_by() {
    let build = two_ports()
        .port("guest", &["10.1.0.1/24"])
        .acl("in", &["permit udp"])
        .acl("out", &["deny any on guest", "permit any on lan", "permit icmp type 11"])
        .acl_in("lan", &["in"])
        .acl_out("wan", &["out"]);
    let mut rig = build.rig();
    let text = |from: &str| format!("udp from {from} port 1 to 198.51.100.9 port 2");
    rig.forwards("lan", &text("10.0.0.2"));
    rig.drops("guest", &text("10.1.0.2"), Reason::AclDeny);
    rig.drops("lan", "tcp from 10.0.0.2 port 1 to 198.51.100.9 port 2", Reason::AclDeny);
    assert_eq!((rig.acl_hits("in"), rig.acl_hits("out")), (vec![1, 1], vec![1, 1, 0, 0]));
}

#[test]
fn what_the_gateway_makes_came_by_no_interface() {
    // Neither an error about a packet, nor a reset, nor the reply that an echo request is made.
    let build = two_ports()
        .acl("in", &["reject tcp port 23", "permit any"])
        .acl("out", &["deny any on wan", "deny any on lan", "permit icmp", "permit icmp6", "permit tcp"])
        .acl_in("wan", &["in"])
        .acl_out("wan", &["out"]);
    let mut rig = build.rig();
    rig.told("wan", "udp from 198.51.100.9 port 1 to 10.0.0.2 port 2 ttl 1", Reason::TtlExpired);
    rig.told("wan", "udp from 2001:db8:ffff::9 port 1 to 2001:db8:a::2 port 2 ttl 1", Reason::TtlExpired);
    rig.answers("wan", "icmp from 192.0.2.2 to 192.0.2.1 type 8");
    rig.answers("wan", "icmp6 from 2001:db8:b::2 to 2001:db8:b::1 type 128");
    let reset = rig.send("wan", "tcp from 198.51.100.9 port 1 to 10.0.0.2 port 23");
    assert_eq!((reset.outcome.verdict, reset.out.len()), (Verdict::Drop(Reason::AclReject), 1));
    assert_eq!(rig.acl_hits("out"), [0, 0, 2, 2, 1, 0]);
    // Others did come by one.
    rig.drops("lan", "icmp from 10.0.0.2 to 198.51.100.9 type 8", Reason::AclDeny);
    assert_eq!(rig.acl_hits("out"), [0, 1, 2, 2, 1, 0]);
}

#[test]
fn no_more_than_the_limit_of_a_rule() {
    for output in [false, true] {
        let build = two_ports().acl("list", &["permit udp port 53 limit 10", "permit any"]);
        let build = if output { build.acl_out("wan", &["list"]) } else { build.acl_in("lan", &["list"]) };
        let mut rig = build.rig();
        rig.advance(1_000_000_000);
        let frame = |rig: &Rig, port: u16| rig.frame("lan", &packets("udp", Some(9), &format!(" port {port}"))[0]);
        let (limited_frame, free) = (frame(&rig, 53), frame(&rig, 54));
        let mut burst = |count: usize| rig.put_all("lan", &vec![&limited_frame; count]).1.len();
        assert_eq!((burst(25), burst(25)), (10, 0));
        assert_eq!(rig.put_all("lan", &vec![&free; 100]).1.len(), 100);
        rig.advance(500_000_000);
        assert_eq!(rig.put_all("lan", &[&limited_frame; 25]).1.len(), 5);
        assert_eq!(rig.harness.drops(Reason::AclRateLimit), 60);
        assert_eq!(rig.acl_hits("list"), [75, 100, 0], "what is beyond it was matched, too");
        let limited = |rig: &Rig| rig.harness.acl_rules("list").iter().map(|row| row.limited).collect::<Vec<_>>();
        assert_eq!(limited(&rig), [Some(60), None]);
    }
}

#[test]
fn what_rules_log_is_sampled() {
    for output in [false, true] {
        let rules = [
            "permit udp port 1 log",
            "deny udp port 2 log",
            "reject udp port 3 log",
            "permit udp port 4 log limit 1",
            "permit any",
        ];
        let mut build = two_ports().acl("list", &rules).acl_sample(Sampling { one_in: 1, to: SamplerIndex(0) });
        build.0.samplers = vec![Sampler {
            name: "s".into(),
            pcap: None,
            ipfix: Some("127.0.0.1:4739".parse().unwrap()),
            snap_length: 64,
            rate: 1_000_000,
            origin: Origin::default(),
        }];
        let build = if output { build.acl_out("wan", &["list"]) } else { build.acl_in("lan", &["list"]) };
        let mut rig = build.rig();
        rig.harness.take_samples();
        rig.advance(5_000_000_000);
        let numbers: Vec<u32> = rig.harness.acl_rules("list").iter().map(|row| row.number).collect();
        for (port, treatment) in [
            (1, Treatment::Passed),
            (2, Treatment::Dropped),
            (3, Treatment::Dropped),
            (4, Treatment::Passed),
            (4, Treatment::RateLimited),
        ] {
            for text in packets("udp", Some(9), &format!(" port {port}")).iter().take(if port == 4 { 1 } else { 2 }) {
                let frame = rig.frame("lan", text);
                rig.put("lan", &frame);
                let samples = rig.harness.samples();
                let [sample] = &samples[..] else { panic!("{text}: {samples:?}") };
                assert_eq!(sample.frame(), &frame[..frame.len().min(64)]);
                let cause = Cause::Logged { rule: numbers[port - 1], output };
                assert_eq!((sample.cause, sample.treatment), (cause, treatment), "{text}");
            }
        }
        rig.forwards("lan", "tcp from 10.0.0.2 port 1 to 198.51.100.9 port 2");
        assert_eq!(rig.harness.samples(), []);
    }
}

#[test]
fn what_is_told_of_a_packet_names_the_rules() {
    let build = two_ports()
        .acl("in", &["deny tcp", "permit udp port 53"])
        .acl("out", &["permit any"])
        .acl_in("lan", &["in"])
        .acl_out("wan", &["out"]);
    let mut rig = build.rig();
    let [text, _] = packets("udp", Some(9), " port 53");
    let told = rig.send("lan", &text).outcome.acl;
    let of: Vec<_> = told
        .iter()
        .map(|one| (one.output, one.decision.list.as_str(), one.decision.rule.as_ref().unwrap().0))
        .collect();
    assert_eq!(of, [(false, "in", 1), (true, "out", 0)]);
    let told = rig.send("lan", &packets("udp", Some(9), " port 54")[0]).outcome.acl;
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].decision.list.as_str(), told[0].decision.rule.as_ref()), ("in", None));
}
