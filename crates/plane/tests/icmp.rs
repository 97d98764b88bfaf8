//! Originated packets: ICMP errors and echo replies. Their conditions, source address and quotation, and the cases
//! without any.

use crate::kit::*;
use weir_plane::harness::Verdict;
use weir_plane::model::{IcmpLimits, RouteTarget};
use weir_plane::reason::Reason;

const UDP4: &str = "udp from 10.0.0.2 port 1000 to 198.51.100.9 port 53";
const UDP6: &str = "udp from 2001:db8:a::2 port 1000 to 2001:db8:ffff::9 port 53";

#[test]
fn time_exceeded() {
    let mut rig = two_ports().rig();
    for (more, ttl) in [("", 0), ("", 1), (" length 1500", 1)] {
        let text = format!("{UDP4} ttl {ttl}{more}");
        let seen = rig.told("lan", &text, Reason::TtlExpired);
        seen.assert_icmp("10.0.0.1", 11, 0, 0);
        seen.assert_link("lan", own_mac(0), mac(1), &[]);
        rig.told("lan", &format!("{UDP6} ttl {ttl}{more}"), Reason::TtlExpired).assert_icmp("2001:db8:a::1", 3, 0, 0);
    }
    // For us, the last hop is good enough.
    rig.answers("lan", "icmp from 10.0.0.2 to 192.0.2.1 ttl 1");
    rig.answers("lan", "icmp6 from 2001:db8:a::2 to 2001:db8:b::1 ttl 1");
    let conservation = rig.conservation();
    assert_eq!((conservation.dropped, conservation.created, conservation.local), (6, 8, 2));
}

/// `wan` takes less than `lan`.
fn narrow(mtu: u32) -> Build {
    let mut build = two_ports();
    build.0.interfaces[1].mtu = mtu;
    build
}

#[test]
fn too_big() {
    for mtu in [1280u32, 1399, 1400, 1499] {
        let mut rig = narrow(mtu).rig();
        rig.told("lan", &format!("{UDP4} df length {}", mtu + 1), Reason::MtuExceeded)
            .assert_icmp("10.0.0.1", 3, 4, mtu);
        rig.told("lan", &format!("{UDP6} length {}", mtu + 1), Reason::MtuExceeded).assert_icmp(
            "2001:db8:a::1",
            2,
            0,
            mtu,
        );
        rig.forwards("lan", &format!("{UDP4} df length {mtu}"));
        rig.forwards("lan", &format!("{UDP6} length {mtu}"));
    }
}

#[test]
fn tags_do_not_count_against_the_mtu() {
    let mut rig = Build::new()
        .port("lan", &["10.0.0.1/24", "2001:db8:a::1/64"])
        .port("trunk", &[])
        .vlan("q", "trunk", &[100, 7], &["10.107.0.1/24", "2001:db8:107::1/64"])
        .mtu(1400)
        .inventive();
    for from in ["10.0.0.2", "2001:db8:a::2"] {
        let to = if from.contains(':') { "2001:db8:107::2" } else { "10.107.0.2" };
        let df = if from.contains(':') { "" } else { " df" };
        let text = format!("udp from {from} port 1 to {to} port 2{df} length ");
        assert_eq!(rig.forwards("lan", &format!("{text}1400")).tags.len(), 2);
        rig.told("lan", &format!("{text}1401"), Reason::MtuExceeded);
        // And tags that come in do not either.
        let back = format!("udp from {to} port 1 to {from} port 2 vlan 100 inner 7{df} length 1500");
        rig.forwards("trunk", &back);
    }
}

#[test]
fn the_source_is_our_address_where_the_error_leaves() {
    // 172.16.0.0/16 lies behind `wan`, but its packets come in on `lan`: the error goes out by `wan`.
    let base = || {
        two_ports()
            .route("203.0.113.0/24", RouteTarget::Unreachable)
            .route("2001:db8:99::/48", RouteTarget::Unreachable)
            .port("bare", &[])
            .neighbor("bare", "172.17.0.1", mac(7))
            .via("172.17.0.0/16", &["bare"])
            .via("172.18.0.0/16", &["bare fe80::7"])
            .neighbor("bare", "fe80::7", mac(7))
            .via("2001:db8:77::/48", &["bare fe80::7"])
    };
    let mut rig = base().rig();
    let seen = rig.told("lan", "udp from 172.16.0.1 port 1 to 203.0.113.1 port 2", Reason::Unreachable);
    seen.assert_link("wan", own_mac(1), mac(2), &[]);
    seen.assert_icmp("192.0.2.1", 3, 1, 0);
    let seen = rig.told("lan", "udp from 2001:db8:16::1 port 1 to 2001:db8:99::1 port 2", Reason::Unreachable);
    seen.assert_link("wan", own_mac(1), mac(2), &[]);
    seen.assert_icmp("2001:db8:b::1", 1, 6, 0);
    // The egress has no address: that of the ingress.
    let seen = rig.told("wan", "udp from 172.17.0.1 port 1 to 203.0.113.1 port 2", Reason::Unreachable);
    assert_eq!(seen.port, "bare");
    seen.assert_icmp("192.0.2.1", 3, 1, 0);
    rig.told("wan", "udp from 2001:db8:77::1 port 1 to 2001:db8:99::1 port 2", Reason::Unreachable).assert_icmp(
        "2001:db8:b::1",
        1,
        6,
        0,
    );
    // Neither has: any of the VRF's.
    rig.told("bare", "udp from 172.18.0.1 port 1 to 203.0.113.1 port 2", Reason::Unreachable)
        .assert_icmp("10.0.0.1", 3, 1, 0);
    rig.told("bare", "udp from 2001:db8:77::1 port 1 to 2001:db8:99::1 port 2", Reason::Unreachable).assert_icmp(
        "2001:db8:a::1",
        1,
        6,
        0,
    );

    // There is none at all: silence. Nor one of another VRF's.
    let mut rig = Build::new()
        .port("a", &[])
        .port("b", &["10.9.0.1/24"])
        .in_vrf("other")
        .via("0.0.0.0/0", &["a 10.0.0.9"])
        .neighbor("a", "10.0.0.9", mac(9))
        .rig();
    rig.drops("a", "udp from 10.1.1.1 port 1 to 10.2.2.2 port 2 ttl 1", Reason::TtlExpired);
}

#[test]
fn a_link_local_address_is_the_source_only_for_link_local_ones() {
    let mut rig = Build::new()
        .port("lan", &["fe80::1/64", "2001:db8:a::1/64"])
        .port("ll", &["fe80::2/64"])
        .neighbor("lan", "2001:db8:a::2", mac(1))
        .neighbor("lan", "fe80::9", mac(9))
        .neighbor("ll", "fe80::9", mac(8))
        .via("2001:db8:77::/48", &["ll fe80::9"])
        .rig();
    rig.told("lan", &format!("{UDP6} ttl 1"), Reason::NoRoute).assert_icmp("2001:db8:a::1", 1, 0, 0);
    // `ll` has no address for destinations off its link: that of the ingress interface is used.
    let seen = rig.told("lan", "udp from 2001:db8:77::1 port 1 to 2001:db8:99::1 port 2", Reason::NoRoute);
    assert_eq!((seen.port.as_str(), seen.to, seen.source), ("ll", mac(8), ip("2001:db8:a::1")));
    let seen = rig.told("lan", "udp from fe80::9 port 1 to 2001:db8:99::1 port 2", Reason::LinkLocal);
    assert_eq!((seen.port.as_str(), seen.to, seen.source), ("lan", mac(9), ip("fe80::1")));
    seen.assert_icmp("fe80::1", 1, 2, 0);
    let seen = rig.told("ll", "udp from fe80::9 port 1 to 2001:db8:a::2 port 2", Reason::LinkLocal);
    assert_eq!((seen.port.as_str(), seen.to, seen.source), ("ll", mac(8), ip("fe80::2")));
}

#[test]
fn silence() {
    let mut rig = two_ports().rig();
    // About errors, and what may be one.
    for kind in ["unreachable", "time-exceeded", "parameter-problem", "redirect"] {
        let text = format!("icmp from 10.0.0.2 to 198.51.100.9 type {kind} ttl 1");
        rig.drops("lan", &text, Reason::TtlExpired);
    }
    for kind in ["unreachable", "packet-too-big", "time-exceeded", "parameter-problem", "redirect", "100", "127"] {
        let text = format!("icmp6 from 2001:db8:a::2 to 2001:db8:ffff::9 type {kind} ttl 1");
        rig.drops("lan", &text, Reason::TtlExpired);
    }
    // About echoes we do speak.
    rig.told("lan", "icmp from 10.0.0.2 to 198.51.100.9 ttl 1", Reason::TtlExpired);
    rig.told("lan", "icmp from 10.0.0.2 to 198.51.100.9 type echo-reply ttl 1", Reason::TtlExpired);
    rig.told("lan", "icmp6 from 2001:db8:a::2 to 2001:db8:ffff::9 ttl 1", Reason::TtlExpired);
    // About later fragments; about the first one we do.
    rig.told("lan", "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 ttl 1 fragment 0+", Reason::TtlExpired);
    rig.drops("lan", "udp from 10.0.0.2 to 198.51.100.9 ttl 1 fragment 8", Reason::TtlExpired);
    rig.drops("lan", "udp from 10.0.0.2 to 198.51.100.9 ttl 1 fragment 8+", Reason::TtlExpired);
    // In IPv6 only about those of what may be an error.
    rig.told("lan", "udp from 2001:db8:a::2 to 2001:db8:ffff::9 ttl 1 fragment 8", Reason::TtlExpired);
    rig.drops("lan", "icmp6 from 2001:db8:a::2 to 2001:db8:ffff::9 ttl 1 fragment 8", Reason::TtlExpired);
    // To sources that cannot be reached, or are ourselves.
    rig.drops("lan", "udp from 10.0.0.255 port 1 to 198.51.100.9 port 2 ttl 1", Reason::TtlExpired);
    rig.drops("lan", "udp from 192.0.2.1 port 1 to 198.51.100.9 port 2 ttl 1", Reason::TtlExpired);
    rig.drops("lan", "udp from 2001:db8:b::1 port 1 to 2001:db8:ffff::9 port 2 ttl 1", Reason::TtlExpired);
    assert_eq!(rig.harness.drops(Reason::Broadcast) + rig.harness.drops(Reason::LocalUnhandled), 0);
}

#[test]
fn errors_about_our_own_messages_are_none() {
    // The echo reply cannot go back: no error is sent, nothing loops.
    let mut rig = Build::new().port("lan", &["10.0.0.1/24", "2001:db8:a::1/64", "fe80::1/64"]).rig();
    for (text, reason) in [
        ("icmp from 172.16.0.1 to 10.0.0.1", Reason::NoRoute),
        ("icmp from 10.0.0.9 to 10.0.0.1", Reason::NoNeighbor),
        ("icmp from 10.0.0.1 to 10.0.0.1", Reason::LocalUnhandled),
        ("icmp from 10.0.0.255 to 10.0.0.1", Reason::Broadcast),
        ("icmp6 from 2001:db8:77::1 to 2001:db8:a::1", Reason::NoRoute),
        ("icmp6 from 2001:db8:a::9 to 2001:db8:a::1", Reason::NoNeighbor),
        ("icmp6 from fe80::9 to fe80::1", Reason::NoNeighbor),
        ("icmp6 from fe80::1 to fe80::1", Reason::LocalUnhandled),
    ] {
        let (before, drops) = (rig.conservation(), rig.harness.drops(reason));
        let result = rig.send("lan", text);
        assert_eq!((result.outcome.verdict, result.out.len()), (Verdict::Local, 0), "{text}");
        let after = rig.conservation();
        assert_eq!((after.created - before.created, after.dropped - before.dropped), (1, 1), "{text}");
        assert_eq!(rig.harness.drops(reason), drops + 1, "{text}");
    }
}

#[test]
fn errors_keep_to_their_rate_exactly() {
    let limits = IcmpLimits { error_rate: 10, error_burst: 5, echo_rate: 4, echo_burst: 2 };
    let mut rig = two_ports().icmp(limits).rig();
    let text = format!("{UDP4} ttl 1");
    let six = format!("{UDP6} ttl 1");
    let sent = |rig: &mut Rig, count: usize, text: &str| {
        let frames: Vec<_> = (0..count).map(|_| rig.frame("lan", text)).collect();
        rig.put_all("lan", &frames).1.len()
    };
    assert_eq!(sent(&mut rig, 20, &text), 5);
    assert_eq!(sent(&mut rig, 20, &six), 0, "both families share the bucket");
    rig.advance(99_999_999);
    assert_eq!(sent(&mut rig, 3, &text), 0);
    rig.advance(1);
    assert_eq!(sent(&mut rig, 3, &text), 1);
    rig.advance(10_000_000_000);
    assert_eq!(sent(&mut rig, 20, &six), 5, "no more than the burst is saved up");
    // What is not sent for other reasons costs nothing.
    rig.advance(100_000_000);
    assert_eq!(sent(&mut rig, 20, "icmp from 10.0.0.2 to 198.51.100.9 type unreachable ttl 1"), 0);
    assert_eq!(sent(&mut rig, 2, &text), 1);
    assert_eq!(rig.harness.drops(Reason::TtlExpired), 20 + 20 + 3 + 3 + 20 + 20 + 2);

    // Echoes have their own, with a drop for each that is not answered.
    assert_eq!(sent(&mut rig, 5, "icmp from 10.0.0.2 to 10.0.0.1"), 2);
    assert_eq!(rig.harness.drops(Reason::EchoLimited), 3);
    assert_eq!(sent(&mut rig, 5, "icmp6 from 2001:db8:a::2 to 2001:db8:a::1"), 0);
    rig.advance(250_000_000);
    assert_eq!(sent(&mut rig, 5, "icmp6 from 2001:db8:a::2 to 2001:db8:a::1"), 1);

    // None at all.
    let none = IcmpLimits { error_rate: 0, error_burst: 0, echo_rate: 0, echo_burst: 0 };
    let mut rig = two_ports().icmp(none).rig();
    assert_eq!(sent(&mut rig, 5, &text) + sent(&mut rig, 5, "icmp from 10.0.0.2 to 10.0.0.1"), 0);
}

#[test]
fn every_own_address_answers() {
    let mut rig = two_ports().neighbor("lan", "fe80::99", mac(9)).rig();
    for to in ["10.0.0.1", "192.0.2.1"] {
        for length in [28, 29, 1500] {
            let text = format!("icmp from 10.0.0.2 to {to} length {length} ttl 7 dscp 10");
            let request = rig.frame("lan", &text);
            let seen = rig.answers("lan", &text);
            seen.assert_link("lan", own_mac(0), mac(1), &[]);
            seen.assert_icmp(to, 0, 0, 0);
            assert_eq!((seen.destination, seen.ttl, seen.packet[1]), (ip("10.0.0.2"), 64, 40));
            assert_eq!(seen.packet[28..], request[14 + 28..]);
        }
    }
    for (from, to, station) in [
        ("2001:db8:a::2", "2001:db8:a::1", mac(1)),
        ("2001:db8:a::2", "2001:db8:b::1", mac(1)),
        ("2001:db8:a::2", "fe80::1", mac(1)), // by the same link, from its link-local address
        ("fe80::99", "fe80::1", mac(9)),      // as every ping of a link-local address
        ("fe80::99", "2001:db8:a::1", mac(9)),
        ("fe80::99", "2001:db8:b::1", mac(9)),
    ] {
        for length in [48, 49, 1500] {
            let seen = rig.answers("lan", &format!("icmp6 from {from} to {to} length {length}"));
            seen.assert_link("lan", own_mac(0), station, &[]);
            seen.assert_icmp(to, 129, 0, 0);
            assert_eq!((seen.destination, seen.ttl), (ip(from), 64));
        }
    }
    // An answer from a link-local address leaves by its link or not at all.
    let before = rig.harness.drops(Reason::LinkLocal);
    assert!(rig.send("lan", "icmp6 from 2001:db8:ffff::1 to fe80::1").out.is_empty());
    assert_eq!(rig.harness.drops(Reason::LinkLocal), before + 1);
}

#[test]
fn a_link_local_ping_needs_no_neighbour_where_they_are_made_up() {
    let mut rig = two_ports().inventive();
    let seen = rig.answers("wan", "icmp6 from fe80::99 to fe80::2");
    seen.assert_link("wan", own_mac(1), weir_plane::root::invented_mac(ip("fe80::99")), &[]);
}

#[test]
fn what_is_not_served_is_dropped_with_its_reason() {
    let mut rig = two_ports().rig();
    for text in [
        "tcp from 10.0.0.2 port 1 to 192.0.2.1 port 22",
        "icmp from 10.0.0.2 to 10.0.0.1 type echo-reply",
        "icmp from 10.0.0.2 to 10.0.0.1 type unreachable",
        "tcp from 2001:db8:a::2 port 1 to 2001:db8:a::1 port 22",
        "icmp6 from 2001:db8:a::2 to fe80::1 type echo-reply",
        "59 from 2001:db8:a::2 to 2001:db8:a::1 length 48",
    ] {
        rig.drops("lan", text, Reason::LocalUnhandled);
    }
    // RFC 1122, 3.2.2.1 and RFC 4443, 3.1.
    for (text, from, code) in [
        ("udp from 10.0.0.2 port 1 to 10.0.0.1 port 2", "10.0.0.1", 3),
        ("89 from 10.0.0.2 to 10.0.0.1 length 28", "10.0.0.1", 2),
        ("58 from 10.0.0.2 to 10.0.0.1 length 28", "10.0.0.1", 2),
    ] {
        rig.told("lan", text, Reason::LocalUnhandled).assert_icmp(from, 3, code, 0);
    }
    let seen = rig.told("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:a::1 port 2", Reason::LocalUnhandled);
    seen.assert_icmp("2001:db8:a::1", 1, 4, 0);
    // RFC 8200, 4: the octet that names what is not recognised.
    for number in [1, 4, 33, 47, 50, 51, 89, 132, 135, 253] {
        let mut frame = rig.frame("lan", "254 from 2001:db8:a::2 to 2001:db8:a::1 length 72");
        frame[14 + 6] = number;
        // Zeros where AH and mobility have their lengths.
        frame[14 + 40..14 + 48].copy_from_slice(&[59, 1, 0, 0, 0, 0, 0, 0]);
        rig.told_frame("lan", &frame, Reason::LocalUnhandled).assert_icmp("2001:db8:a::1", 4, 1, 6);
    }
    for text in [
        "udp from 10.0.0.2 port 1 to 10.0.0.1 port 2 fragment 0+",
        "udp from 10.0.0.2 to 10.0.0.1 fragment 8",
        "udp from 2001:db8:a::2 port 1 to 2001:db8:a::1 port 2 fragment 0+",
        "udp from 2001:db8:a::2 to 2001:db8:a::1 fragment 8",
        "udp from fe80::99 to fe80::1 fragment 8",
    ] {
        rig.drops("lan", text, Reason::LocalFragment);
    }
    for text in ["icmp from 10.0.0.2 to 10.0.0.1 length 64", "icmp6 from 2001:db8:a::2 to 2001:db8:a::1 length 64"] {
        let mut frame = rig.frame("lan", text);
        *frame.last_mut().unwrap() ^= 1;
        rig.drops_frame("lan", &frame, Reason::LocalBadChecksum);
    }
}

/// A packet to our address with these octets of extension headers, the first of them of this number.
fn extended(rig: &Rig, text: &str, first: u8, headers: &[u8]) -> Vec<u8> {
    let plain = rig.frame("lan", text);
    let mut frame = [&plain[..54], headers, &plain[54..]].concat();
    let payload = u16::from_be_bytes([plain[18], plain[19]]) + headers.len() as u16;
    frame[18..20].copy_from_slice(&payload.to_be_bytes());
    frame[20] = first;
    frame
}

const ECHO6: &str = "icmp6 from 2001:db8:a::2 to 2001:db8:a::1 length 100";

#[test]
fn extension_headers_of_echo_requests_are_processed() {
    // RFC 8200, 4 and RFC 6946: hop-by-hop options, destination options, a routing header without segments left, an
    // atomic fragment; and all of them.
    let mut rig = two_ports().rig();
    let expected = rig.answers("lan", ECHO6);
    for (first, headers) in [
        (44, &[58, 0, 0, 0, 1, 2, 3, 4][..]),
        (0, &[58, 0, 5, 2, 0, 0, 1, 0]),
        (60, &[58, 0, 1, 4, 0, 0, 0, 0]),
        (43, &[58, 0, 0, 0, 0, 0, 0, 0]),
        (43, &[58, 0, 77, 0, 0, 0, 0, 0]),
        (0, &[43, 0, 1, 4, 0, 0, 0, 0, 44, 0, 4, 0, 0, 0, 0, 0, 60, 0, 0, 0, 9, 9, 9, 9, 58, 0, 1, 4, 0, 0, 0, 0]),
    ] {
        let frame = extended(&rig, ECHO6, first, headers);
        let passage = rig.put("lan", &frame);
        assert_eq!(passage.outcome.verdict, Verdict::Local, "{headers:?}");
        let seen = Seen::new(&passage.out[0].0, &passage.out[0].1);
        assert_eq!(seen.packet, expected.packet, "{headers:?}");
        seen.assert_link("lan", own_mac(0), mac(1), &[]);
        // A wrong checksum is seen behind them, too.
        let mut wrong = frame.clone();
        *wrong.last_mut().unwrap() ^= 1;
        rig.drops_frame("lan", &wrong, Reason::LocalBadChecksum);
    }
    // A reply as long as the link takes, of a request that was longer.
    let text = ECHO6.replace("100", "1460");
    let seen = rig.put("lan", &extended(&rig, &text, 44, &[58, 0, 0, 0, 1, 2, 3, 4]));
    assert_eq!(seen.out[0].1.len(), 14 + 1460);
    assert_eq!(rig.conservation().held, 0);
}

#[test]
fn extension_headers_that_end_the_delivery_are_told() {
    let mut rig = two_ports().rig();
    for (first, headers, code, pointer) in [
        // Segments left: routing type 0 (RFC 5095), a segment routing header, an unknown one (RFC 8200, 4.4).
        (43, &[58, 0, 0, 1, 0, 0, 0, 0][..], 0, 42),
        (43, &[58, 0, 4, 1, 0, 0, 0, 0], 0, 42),
        (43, &[58, 0, 77, 255, 0, 0, 0, 0], 0, 42),
        (60, &[43, 0, 1, 4, 0, 0, 0, 0, 58, 0, 0, 1, 0, 0, 0, 0], 0, 50),
        // Options that are not recognised (RFC 8200, 4.2).
        (60, &[58, 0, 0x80, 4, 0, 0, 0, 0], 2, 42),
        (60, &[58, 0, 0, 0, 0xc9, 2, 0, 0], 2, 44),
        (0, &[58, 0, 0xc2, 4, 0, 0, 0, 0], 2, 42),
        // Headers that are not implemented: AH, mobility.
        (
            60,
            &[51, 0, 1, 4, 0, 0, 0, 0, 58, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            1,
            40,
        ),
    ] {
        let frame = extended(&rig, ECHO6, first, headers);
        rig.told_frame("lan", &frame, Reason::LocalUnhandled).assert_icmp("2001:db8:a::1", 4, code, pointer);
        let frame = extended(&rig, "udp from 2001:db8:a::2 port 1 to 2001:db8:a::1 port 2", first, &{
            let mut headers = headers.to_vec();
            let last = if headers.len() > 16 { 8 } else { headers.len() - 8 };
            headers[last] = 17;
            headers
        });
        rig.told_frame("lan", &frame, Reason::LocalUnhandled).assert_icmp("2001:db8:a::1", 4, code, pointer);
        // Never about an ICMPv6 error (RFC 4443, 2.4(e.1)).
        let error = "icmp6 from 2001:db8:a::2 to 2001:db8:a::1 type unreachable length 100";
        let frame = extended(&rig, error, first, headers);
        rig.drops_frame("lan", &frame, Reason::LocalUnhandled);
    }
    // To be discarded in silence: an option that says so, one that is longer than its header.
    for headers in [[58, 0, 0x40, 4, 0, 0, 0, 0], [58, 0, 1, 9, 0, 0, 0, 0]] {
        let frame = extended(&rig, ECHO6, 60, &headers);
        rig.drops_frame("lan", &frame, Reason::LocalUnhandled);
    }
    // UDP behind an atomic fragment header has no listener either.
    let udp = "udp from 2001:db8:a::2 port 1 to 2001:db8:a::1 port 2";
    let frame = extended(&rig, udp, 44, &[17, 0, 0, 0, 1, 2, 3, 4]);
    rig.told_frame("lan", &frame, Reason::LocalUnhandled).assert_icmp("2001:db8:a::1", 1, 4, 0);
}

#[test]
fn headers_of_forwarded_packets_are_not_processed() {
    let mut rig = two_ports().rig();
    let udp = "udp from 2001:db8:a::2 port 1000 to 2001:db8:ffff::9 port 53 length 100";
    for (first, headers) in [
        (44, &[17, 0, 0, 0, 1, 2, 3, 4][..]),
        (43, &[17, 0, 0, 1, 0, 0, 0, 0]),
        (60, &[17, 0, 0xc9, 4, 0, 0, 0, 0]),
        (60, &[17, 0, 0x40, 4, 0, 0, 0, 0]),
    ] {
        let frame = extended(&rig, udp, first, headers);
        let out = rig.put("lan", &frame).out;
        let mut expected = frame[14..].to_vec();
        expected[7] -= 1;
        assert_eq!((out[0].0.as_str(), &out[0].1[14..]), ("wan", &expected[..]));
    }
}
