//! weir in the place of a Linux gateway: what it forwards is held against what the kernel forwarded, octet by octet.
//!
//! The recordings hold what the kernel's gateway received and sent. weir has its addresses, hardware addresses, MTUs and
//! routes, gets what it received, and must send what it sent. Every packet that both forward is equal in every octet:
//! TTL, checksums, tags, fragments and their order. What differs otherwise is listed here in full:
//!
//! - **Class E sources** (240.0.0.0/4): the kernel forwards them; weir drops them as martians (RFC 1812, 5.3.7).
//! - **Identification, "don't fragment"** of ICMP messages: the kernel counts the one and clears the other; weir sets
//!   "don't fragment", so that the first means nothing (RFC 6864). **Flow labels** of ICMPv6 errors: the kernel chooses
//!   some, weir sends 0.
//! - **Unreachable routes** in IPv6: the kernel reports "no route" (code 0), weir "reject route" (code 6, RFC 4443).
//! - **Rates**: errors about destinations without a route are limited per host by the kernel; weir's limits, for all
//!   hosts together, are not reached here.
//! - **Ports of the gateway itself**: the kernel answers "port unreachable"; weir serves none and does not answer.
//! - **Pointers** of parameter problems: of an option that runs past the header the kernel names the type, weir the
//!   length; a record route too short to record anything is an error to the kernel, while weir goes on to the next option
//!   and names the error that it finds there.
//! - **IPv6 destinations that cannot be** (unspecified, loopback, link-local): the kernel reports that there is no
//!   route; weir drops them as martians, without an error.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir::replay::Options;
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::{icmpv6, ipv4, ipv6, protocol};
use weir_packet::{parse, text};
use weir_plane::model::Gateway;
use weir_tests::{LINKS, Packet, Replayed, SCENARIOS, captures, gateway, packets, replay};

/// Packet by packet, so that what leaves is in the order of what came.
const SINGLE: Options = Options { seed: 1, strict_neighbors: true, vector: 1, any_mac: false, own_keys: false };

/// The interface that a frame on a link belongs to.
fn interface(link: &str, frame: &[u8]) -> String {
    let tags = parse::ethernet(frame).expect("a whole header").tags;
    match tags.inner.or(tags.outer) {
        Some(tag) => format!("{link}.{}", tag.vid()),
        None => link.to_owned(),
    }
}

/// Source and destination of a frame's packet; `None` if it is not IP.
fn addresses(frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let link = parse::ethernet(frame).ok()?;
    let packet = frame.get(usize::from(link.l3)..)?;
    match link.ethertype {
        ethertype::IPV4 => ipv4::Header::new(packet).ok().map(|ip| (ip.source().into(), ip.destination().into())),
        ethertype::IPV6 => ipv6::Header::new(packet).ok().map(|ip| (ip.source().into(), ip.destination().into())),
        _ => None,
    }
}

/// The packets that left by an interface.
#[derive(Debug, Default, PartialEq)]
struct Sent {
    /// From others.
    forwarded: Vec<Vec<u8>>,
    /// From the gateway itself.
    own: Vec<Vec<u8>>,
}

fn sort(gateway: &Gateway, packets: impl IntoIterator<Item = Packet>) -> Sent {
    let mut sent = Sent::default();
    for Packet { frame, .. } in packets {
        // The kernel joins groups of its own.
        let Some((source, _)) = addresses(&frame).filter(|(_, to)| !to.is_multicast()) else { continue };
        let mut ours = gateway.interfaces.iter().flat_map(|interface| &interface.addresses);
        let own = ours.any(|address| address.net.addr() == source);
        if own { &mut sent.own } else { &mut sent.forwarded }.push(frame);
    }
    sent
}

/// By interface: what the kernel sent and what weir sent.
fn both(scenario: &str, replayed: &Replayed) -> Vec<(String, Sent, Sent)> {
    let gateway = gateway(scenario);
    let mut theirs: BTreeMap<String, Vec<Packet>> = BTreeMap::new();
    for link in LINKS {
        for packet in packets(&captures(scenario).join(format!("{link}-out.pcap"))) {
            theirs.entry(interface(link, &packet.frame)).or_default().push(packet);
        }
    }
    let names: Vec<String> = gateway.interfaces.iter().map(|interface| interface.name.clone()).collect();
    assert!(theirs.keys().all(|name| names.contains(name)), "{:?}", theirs.keys());
    let pair = |name: String| {
        let kernel = sort(&gateway, theirs.remove(&name).unwrap_or_default());
        let weir = sort(&gateway, replayed.sent(&name));
        (name, kernel, weir)
    };
    names.into_iter().map(pair).collect()
}

fn lines(frames: &[Vec<u8>]) -> Vec<String> {
    frames.iter().map(|frame| text::summary(frame).to_string()).collect()
}

#[test]
fn what_is_forwarded_equals_what_the_kernel_forwarded() {
    for (scenario, least) in [("plain", 138), ("narrow", 150), ("vlan", 131), ("jumbo", 62), ("crafted", 46)] {
        let replayed = replay(scenario, SINGLE);
        let mut total = 0;
        for (name, mut kernel, weir) in both(scenario, &replayed) {
            let class_e =
                |frame: &Vec<u8>| matches!(addresses(frame), Some((IpAddr::V4(a), _)) if a.octets()[0] >= 240);
            let before = kernel.forwarded.len();
            kernel.forwarded.retain(|frame| !class_e(frame));
            assert_eq!(before - kernel.forwarded.len(), usize::from(scenario == "crafted" && name == "right"));
            assert_eq!(lines(&weir.forwarded), lines(&kernel.forwarded), "{scenario} {name}");
            assert!(weir.forwarded == kernel.forwarded, "{scenario} {name}: octets differ");
            total += weir.forwarded.len();
        }
        assert!(total >= least, "{scenario}: {total}");
    }
}

/// A message of the gateway, without what the kernel and weir fill in differently.
fn comparable(mut frame: Vec<u8>) -> Vec<u8> {
    let link = parse::ethernet(&frame).expect("a whole header");
    let packet = &mut frame[usize::from(link.l3)..];
    if link.ethertype == ethertype::IPV4 {
        packet[4..6].fill(0); // identification
        packet[6] &= !0x40; // don't fragment
        packet[10..12].fill(0); // checksum of both
    } else {
        packet[1..4].fill(0); // flow label, and the traffic class' lower half, which is 0
        let is_reject_route = packet[6] == protocol::ICMPV6
            && packet[40] == icmpv6::kind::UNREACHABLE
            && packet[41] == icmpv6::unreachable::REJECT_ROUTE;
        if is_reject_route || packet[40..42] == [icmpv6::kind::UNREACHABLE, icmpv6::unreachable::NO_ROUTE] {
            packet[41] = 0;
            packet[42..44].fill(0); // checksum
        }
    }
    frame
}

/// Returns the lines of the first list that the second has not; each is counted once.
fn beyond(these: &[Vec<u8>], those: &[Vec<u8>]) -> Vec<String> {
    let mut rest: Vec<_> = those.iter().cloned().map(comparable).collect();
    let mut beyond = Vec::new();
    for frame in these {
        let same = comparable(frame.clone());
        match rest.iter().position(|other| *other == same) {
            Some(place) => {
                rest.remove(place);
            }
            None => beyond.push(text::summary(frame).to_string()),
        }
    }
    beyond
}

#[test]
fn what_the_gateway_says_itself_equals_what_the_kernel_said() {
    let mut only_kernel = Vec::new();
    let mut only_weir = Vec::new();
    for scenario in SCENARIOS {
        let replayed = replay(scenario, SINGLE);
        for (_, kernel, weir) in both(scenario, &replayed) {
            let told = |line: String| format!("{scenario}: {line}");
            only_kernel.extend(beyond(&kernel.own, &weir.own).into_iter().map(told));
            only_weir.extend(beyond(&weir.own, &kernel.own).into_iter().map(told));
        }
    }
    assert_eq!(
        only_kernel,
        [
            // Pointers.
            "crafted: IP4 10.1.0.1 > 10.1.0.2 icmp parameter-problem ttl 64 length 84 dscp 48",
            "crafted: IP4 10.1.0.1 > 10.1.0.2 icmp parameter-problem ttl 64 length 84 dscp 48",
            // Destinations that cannot be.
            "crafted: IP6 2001:db8:1::1 > 2001:db8:1::2 icmp6 destination-unreachable ttl 64 length 120",
            "crafted: IP6 2001:db8:1::1 > 2001:db8:1::2 icmp6 destination-unreachable ttl 64 length 120",
        ]
    );
    assert_eq!(
        only_weir,
        [
            // The kernel had reported another destination to this host just before.
            "plain: IP4 10.1.0.1 > 10.1.0.2 icmp destination-unreachable ttl 64 length 156 dscp 48 df",
            "plain: IP4 10.1.0.1 > 10.1.0.2 icmp destination-unreachable ttl 64 length 256 dscp 48 df",
            "plain: IP4 10.1.0.1 > 10.1.0.2 icmp destination-unreachable code 1 ttl 64 length 56 dscp 48 df",
            "plain: IP4 10.1.0.1 > 10.1.0.2 icmp destination-unreachable code 1 ttl 64 length 156 dscp 48 df",
            "plain: IP4 10.1.0.1 > 10.1.0.2 icmp destination-unreachable code 1 ttl 64 length 256 dscp 48 df",
            // Pointers.
            "crafted: IP4 10.1.0.1 > 10.1.0.2 icmp parameter-problem ttl 64 length 84 dscp 48 df",
            "crafted: IP4 10.1.0.1 > 10.1.0.2 icmp parameter-problem ttl 64 length 84 dscp 48 df",
        ]
    );
}

/// Counts of verdicts, and of reasons where packets were dropped.
const TALLIES: [(&str, &[(&str, usize)]); 5] = [
    (
        "plain",
        &[
            ("blackhole", 6),
            ("forward", 138),
            ("local", 8),
            ("local-unhandled", 6),
            ("multicast", 1),
            ("no-route", 6),
            ("ttl-expired", 8),
            ("unreachable", 6),
        ],
    ),
    ("narrow", &[("forward", 142), ("mtu-exceeded", 12), ("multicast", 1)]),
    ("vlan", &[("forward", 131), ("mtu-exceeded", 1)]),
    ("jumbo", &[("forward", 62)]),
    (
        "crafted",
        &[
            ("bad-checksum", 2),
            ("bad-ihl", 1),
            ("bad-options", 2),
            ("bad-payload-length", 2),
            ("bad-total-length", 2),
            ("bad-version", 4),
            ("broadcast", 4),
            ("forward", 47),
            ("link-layer-broadcast", 2),
            ("link-local", 2),
            ("martian-destination", 6),
            ("martian-source", 8),
            ("multicast", 3),
            ("not-our-mac", 1),
            ("source-route", 2),
            ("truncated-ipv4", 1),
            ("ttl-expired", 7),
            ("unhandled-ethertype", 1),
        ],
    ),
];

/// Compares every packet's fate with the file beside the recording. `WEIR_BLESS=1` writes that file again: for use
/// after a look at the changes.
#[test]
fn every_packet_meets_its_fate() {
    for (scenario, tally) in TALLIES {
        let replayed = replay(scenario, Options { strict_neighbors: true, ..Options::default() });
        let tally: BTreeMap<String, usize> = tally.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
        assert_eq!(replayed.tally(), tally, "{scenario}");
        let mut fates = String::new();
        for (n, fate) in replayed.fates.iter().enumerate() {
            fates += &format!("{} {fate}\n", n + 1);
        }
        let file = captures(format!("{scenario}.fates"));
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&file, &fates).expect("the file is written");
        }
        let expected = std::fs::read_to_string(&file).expect("the file is there");
        for (is, should) in fates.lines().zip(expected.lines()) {
            assert_eq!(is, should, "{scenario}");
        }
        assert_eq!(fates.lines().count(), expected.lines().count(), "{scenario}");
    }
}

/// Frames in any order.
fn in_any_order(replayed: &Replayed, scenario: &str) -> Vec<(String, Vec<Vec<u8>>)> {
    let sent = gateway(scenario).interfaces.into_iter().map(|interface| {
        let mut frames: Vec<Vec<u8>> = replayed.sent(&interface.name).into_iter().map(|packet| packet.frame).collect();
        frames.sort();
        (interface.name, frames)
    });
    sent.collect()
}

#[test]
fn how_packets_are_gathered_into_vectors_changes_nothing() {
    for scenario in SCENARIOS {
        let single = replay(scenario, SINGLE);
        for vector in [2, 3, 256] {
            let many = replay(scenario, Options { vector, ..SINGLE });
            assert!(single.fates == many.fates, "{scenario}: vectors of {vector}");
            assert!(
                in_any_order(&single, scenario) == in_any_order(&many, scenario),
                "{scenario}: vectors of {vector}"
            );
        }
    }
}

#[test]
fn a_replay_twice_is_equal_to_the_octet() {
    for scenario in SCENARIOS {
        let [first, second] = [(); 2].map(|()| replay(scenario, Options { seed: 7, ..Options::default() }));
        assert!(first.lines == second.lines, "{scenario}");
        for interface in gateway(scenario).interfaces {
            let name = format!("{}.pcap", interface.name);
            let [a, b] = [&first, &second].map(|replayed| std::fs::read(replayed.folder.path().join(&name)).unwrap());
            assert!(a == b, "{scenario} {name}");
        }
    }
}
