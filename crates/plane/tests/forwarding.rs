//! Forwarding: what a packet looks like when it leaves, by which interface, and which route decided.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::kit::*;
use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::MacAddress;
use weir_plane::harness::Verdict;
use weir_plane::model::{InterfaceKind, RouteTarget};
use weir_plane::reason::Reason;
use weir_plane::root::invented_mac;
use weir_plane::stats::Traffic;
use weir_port::{Outcome, Transmitter};

const UDP4: &str = "udp from 10.0.0.2 port 1000 to 198.51.100.9 port 53";
const UDP6: &str = "udp from 2001:db8:a::2 port 1000 to 2001:db8:ffff::9 port 53";

#[test]
fn a_packet_is_sent_on_with_one_hop_less_to_live() {
    let mut rig = two_ports().rig();
    for text in [UDP4, UDP6] {
        for more in ["", " ttl 2", " ttl 255", " length 1500", " dscp 46"] {
            let seen = rig.forwards("lan", &format!("{text}{more}"));
            seen.assert_link("wan", own_mac(1), mac(2), &[]);
        }
    }
    let conservation = rig.conservation();
    assert_eq!((conservation.received, conservation.transmitted, conservation.created), (10, 10, 0));
}

#[test]
fn every_ttl_and_checksum_comes_out_right() {
    // The checksum is updated incrementally: all carries must come out as those of a full sum.
    let mut rig = two_ports().rig();
    for number in 0..4000u32 {
        let (ttl, identification) = (2 + number % 254, number.wrapping_mul(48_271));
        let mut frame = rig.frame("lan", &format!("{UDP4} ttl {ttl}"));
        frame[18..20].copy_from_slice(&(identification as u16).to_be_bytes());
        mend(&mut frame);
        rig.forwards_frame("lan", &frame);
    }
}

#[test]
fn padding_of_the_link_is_cut_off() {
    let mut rig = two_ports().rig();
    for text in [UDP4, UDP6] {
        let mut frame = rig.frame("lan", text);
        frame.resize(frame.len() + 40, 0xee);
        let seen = rig.forwards_frame("lan", &frame);
        assert_eq!(seen.packet.len() + 14, frame.len() - 40);
    }
}

/// A trunk with three kinds of tags, and an untagged side.
fn tagged() -> Build {
    Build::new()
        .port("lan", &["10.0.0.1/24", "2001:db8:a::1/64"])
        .port("trunk", &["10.1.0.1/24", "2001:db8:1::1/64"])
        .vlan("v7", "trunk", &[7], &["10.7.0.1/24", "2001:db8:7::1/64"])
        .vlan("q", "trunk", &[100, 7], &["10.107.0.1/24", "2001:db8:107::1/64"])
        .vlan("ad", "trunk", &[7], &["10.9.0.1/24", "2001:db8:9::1/64"])
        .with(|interface| {
            let InterfaceKind::Vlan { outer, .. } = &mut interface.kind else { unreachable!() };
            outer.tpid = 0x88a8;
        })
}

#[test]
fn tags_go_on_at_the_egress() {
    let mut rig = tagged().inventive();
    for (destination, tags) in [
        ("10.1.0.9", &[][..]),
        ("10.7.0.9", &[(0x8100, 7)]),
        ("10.107.0.9", &[(0x88a8, 100), (0x8100, 7)]),
        ("10.9.0.9", &[(0x88a8, 7)]),
    ] {
        let seen = rig.forwards("lan", &format!("udp from 10.0.0.2 port 1 to {destination} port 2"));
        assert_eq!((seen.port.as_str(), seen.from, seen.tags.as_slice()), ("trunk", own_mac(1), tags));
    }
    for (destination, tags) in [
        ("2001:db8:1::9", &[][..]),
        ("2001:db8:7::9", &[(0x8100, 7)]),
        ("2001:db8:107::9", &[(0x88a8, 100), (0x8100, 7)]),
        ("2001:db8:9::9", &[(0x88a8, 7)]),
    ] {
        let seen = rig.forwards("lan", &format!("udp from 2001:db8:a::2 port 1 to {destination} port 2"));
        assert_eq!((seen.port.as_str(), seen.from, seen.tags.as_slice()), ("trunk", own_mac(1), tags));
    }
}

#[test]
fn tags_choose_the_interface_at_the_ingress() {
    let mut rig = tagged().inventive();
    let untagged = rig.frame("trunk", "udp from 10.7.0.2 port 1 to 10.0.0.9 port 2");
    let with = |tags: &[[u8; 4]]| {
        let mut frame = untagged.clone();
        frame.splice(12..12, tags.concat());
        frame
    };
    // What makes the ingress interface visible is its counter of what came in: echo replies come from it.
    for (tags, reason) in [
        (vec![], None),
        (vec![[0x81, 0, 0, 7]], None),
        (vec![[0x81, 0, 0xe0, 7]], None), // priority 7
        (vec![[0x88, 0xa8, 0, 7]], None),
        (vec![[0x88, 0xa8, 0, 100], [0x81, 0, 0, 7]], None),
        (vec![[0x81, 0, 0xe0, 0]], None),                     // a priority tag
        (vec![[0x81, 0, 0, 7], [0x81, 0, 0xa0, 0]], None),    // one within a VLAN
        (vec![[0x88, 0xa8, 0xa0, 0], [0x81, 0, 0, 7]], None), // and one around it
        (vec![[0x88, 0xa8, 0, 100], [0x88, 0xa8, 0, 7]], Some(Reason::UnknownVlan)),
        (vec![[0x81, 0, 0, 8]], Some(Reason::UnknownVlan)),
        (vec![[0x81, 0, 0, 100], [0x81, 0, 0, 7]], Some(Reason::UnknownVlan)),
        (vec![[0x88, 0xa8, 0, 100], [0x81, 0, 0, 8]], Some(Reason::UnknownVlan)),
        (vec![[0x88, 0xa8, 0, 100]], Some(Reason::UnknownVlan)),
        (vec![[0x81, 0, 0, 7], [0x81, 0, 0, 7], [0x81, 0, 0, 7]], Some(Reason::UnknownVlan)),
        (vec![[0x81, 0, 0x0f, 0xff]], Some(Reason::UnknownVlan)),
    ] {
        match reason {
            None => rig.forwards_frame("trunk", &with(&tags)).assert_link("lan", own_mac(0), invented("10.0.0.9"), &[]),
            Some(reason) => rig.drops_frame("trunk", &with(&tags), reason),
        }
    }
    // Three tags: the parser reads two.
    rig.drops_frame("trunk", &with(&[[0x81, 0, 0, 7], [0x81, 0, 0, 0], [0x81, 0, 0, 7]]), Reason::UnhandledEthertype);
}

fn invented(address: &str) -> MacAddress {
    invented_mac(ip(address))
}

#[test]
fn tags_are_taken_off_and_put_on_between_two_vlans() {
    let mut rig = tagged().inventive();
    let seen = rig.forwards("trunk", "udp from 10.7.0.2 port 1 to 10.107.0.2 port 2 vlan 7 length 1500");
    assert_eq!(seen.tags, [(0x88a8, 100), (0x8100, 7)]);
    let seen = rig.forwards("trunk", "udp from 10.107.0.2 port 1 to 10.7.0.2 port 2 vlan 100 inner 7 length 1500");
    assert_eq!(seen.tags, [(0x8100, 7)]);
    let seen = rig.forwards("trunk", "udp from 10.107.0.2 port 1 to 10.0.0.2 port 2 vlan 100 inner 7");
    assert_eq!((seen.port.as_str(), seen.tags.as_slice()), ("lan", &[][..]));
}

#[test]
fn vrfs_do_not_see_each_other() {
    let build = Build::new()
        .port("r-in", &["10.0.0.1/24", "2001:db8:a::1/64"])
        .in_vrf("red")
        .port("r-out", &["10.1.0.1/24", "2001:db8:b::1/64"])
        .in_vrf("red")
        .port("b-in", &["10.0.0.1/24", "2001:db8:a::1/64"])
        .in_vrf("blue")
        .port("b-out", &["10.1.0.1/24", "2001:db8:b::1/64"])
        .in_vrf("blue")
        .via_in("red", "203.0.113.0/24", &["r-out 10.1.0.2"])
        .via_in("red", "2001:db8:99::/48", &["r-out 2001:db8:b::2"])
        .via_in("blue", "203.0.113.0/24", &["b-out 10.1.0.2"])
        .route_in("blue", "2001:db8:99::/48", RouteTarget::Blackhole)
        .route_in("blue", "203.0.113.128/25", RouteTarget::Unreachable)
        .port("plain", &["10.9.0.1/24"]);
    let mut rig = build.inventive();
    let to = |host: u8| format!("udp from 10.0.0.2 port 1 to 203.0.113.{host} port 2");
    assert_eq!(rig.forwards("r-in", &to(9)).port, "r-out");
    assert_eq!(rig.forwards("r-in", &to(200)).port, "r-out");
    assert_eq!(rig.forwards("b-in", &to(9)).port, "b-out");
    rig.told("b-in", &to(200), Reason::Unreachable).assert_icmp("10.0.0.1", 3, 1, 0);
    let six = "udp from 2001:db8:a::2 port 1 to 2001:db8:99::1 port 2";
    assert_eq!(rig.forwards("r-in", six).port, "r-out");
    rig.drops("b-in", six, Reason::Blackhole);
    // The default VRF has neither, nor our addresses of the others.
    rig.told("plain", "udp from 10.9.0.2 port 1 to 203.0.113.9 port 2", Reason::NoRoute);
    rig.told("plain", "icmp from 10.9.0.2 to 10.0.0.1", Reason::NoRoute);
    assert_eq!(rig.answers("b-in", "icmp from 10.0.0.2 to 10.1.0.1").port, "b-in");
    // Both in one vector, by turns.
    let frames: Vec<_> = (0..100).map(|_| rig.frame("r-in", &to(9))).collect();
    let (outcomes, out) = rig.put_all("r-in", &frames);
    assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Forward));
    assert!(out.iter().all(|(port, _)| port == "r-out"));
}

#[test]
fn neighbours_are_known_made_up_or_missing() {
    let mut rig = two_ports().rig();
    for (to, known) in [("10.0.0.2", mac(1)), ("192.0.2.2", mac(2))] {
        assert_eq!(rig.forwards("wan", &format!("udp from 192.0.2.2 port 1 to {to} port 2")).to, known);
    }
    for (to, known) in [("2001:db8:a::2", mac(1)), ("2001:db8:b::2", mac(2))] {
        assert_eq!(rig.forwards("wan", &format!("udp from 2001:db8:b::2 port 1 to {to} port 2")).to, known);
    }
    let seen = rig.told("wan", "udp from 192.0.2.2 port 1 to 10.0.0.77 port 2", Reason::NoNeighbor);
    seen.assert_icmp("192.0.2.1", 3, 1, 0);
    let seen = rig.told("wan", "udp from 2001:db8:b::2 port 1 to 2001:db8:a::77 port 2", Reason::NoNeighbor);
    seen.assert_icmp("2001:db8:b::1", 1, 3, 0);

    let mut rig = two_ports().inventive();
    let seen = rig.forwards("wan", "udp from 192.0.2.2 port 1 to 10.0.0.77 port 2");
    assert_eq!(seen.to, invented("10.0.0.77"));
    assert_eq!(rig.forwards("wan", "udp from 192.0.2.2 port 1 to 10.0.0.2 port 2").to, mac(1));
    let six = rig.forwards("wan", "udp from 2001:db8:b::2 port 1 to 2001:db8:a::77 port 2").to;
    assert_eq!(six, invented("2001:db8:a::77"));
}

#[test]
fn a_neighbour_makes_no_route_of_its_own() {
    let build = || two_ports().port("other", &["172.16.0.1/24", "2001:db8:c::1/64"]);
    // A more specific route leads elsewhere, though there is a neighbour on the link that the prefix is connected to.
    let mut rig = build()
        .neighbor("lan", "10.0.0.200", mac(9))
        .neighbor("lan", "2001:db8:a::8000", mac(9))
        .neighbor("other", "172.16.0.2", mac(3))
        .neighbor("other", "2001:db8:c::2", mac(3))
        .via("10.0.0.128/25", &["other 172.16.0.2"])
        .via("2001:db8:a::8000/113", &["other 2001:db8:c::2"])
        .rig();
    assert_eq!(rig.forwards("wan", "udp from 192.0.2.2 port 1 to 10.0.0.200 port 2").to, mac(3));
    assert_eq!(rig.forwards("wan", "udp from 2001:db8:b::2 port 1 to 2001:db8:a::8000 port 2").to, mac(3));

    let mut rig = build().neighbor("lan", "10.0.0.200", mac(9)).route("10.0.0.128/25", RouteTarget::Blackhole).rig();
    rig.drops("wan", "udp from 192.0.2.2 port 1 to 10.0.0.200 port 2", Reason::Blackhole);
}

#[test]
fn an_on_link_route_reaches_the_neighbours_of_its_link() {
    let mut rig = two_ports()
        .port("p2p", &["10.255.0.1/32", "2001:db8:ffff::1/128"])
        .via("10.50.0.0/16", &["p2p"])
        .via("2001:db8:50::/48", &["p2p"])
        .neighbor("p2p", "10.50.1.1", mac(5))
        .neighbor("p2p", "2001:db8:50::1", mac(5))
        .neighbor("p2p", "10.60.1.1", mac(6))
        .via("10.70.1.1/32", &["p2p"])
        .neighbor("p2p", "10.70.1.1", mac(7))
        .rig();
    assert_eq!(rig.forwards("lan", "udp from 10.0.0.2 port 1 to 10.50.1.1 port 2").to, mac(5));
    assert_eq!(rig.forwards("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:50::1 port 2").to, mac(5));
    rig.told("lan", "udp from 10.0.0.2 port 1 to 10.50.1.2 port 2", Reason::NoNeighbor);
    assert_eq!(rig.forwards("lan", "udp from 10.0.0.2 port 1 to 10.70.1.1 port 2").to, mac(7));
    // No route says that it is on that link.
    assert_eq!(rig.forwards("lan", "udp from 10.0.0.2 port 1 to 10.60.1.1 port 2").port, "wan");
    // Our own address is ours on such an interface, too.
    rig.answers("lan", "icmp from 10.0.0.2 to 10.255.0.1");
    rig.answers("lan", "icmp6 from 2001:db8:a::2 to 2001:db8:ffff::1");
}

#[test]
fn the_strongest_source_of_a_prefix_wins() {
    let mut rig = two_ports()
        .route("10.0.0.1/32", RouteTarget::Blackhole) // local is stronger
        .route("10.0.0.0/24", RouteTarget::Blackhole) // connected is stronger
        .route("10.0.0.255/32", RouteTarget::Local) // broadcast is stronger
        .route("10.0.0.2/32", RouteTarget::Unreachable) // stronger than the neighbour
        .route("2001:db8:a::1/128", RouteTarget::Blackhole)
        .route("2001:db8:a::/64", RouteTarget::Blackhole)
        .route("2001:db8:a::2/128", RouteTarget::Unreachable)
        .neighbor("lan", "10.0.0.3", mac(3))
        .neighbor("lan", "2001:db8:a::3", mac(3))
        .rig();
    rig.answers("wan", "icmp from 192.0.2.2 to 10.0.0.1");
    assert_eq!(rig.forwards("wan", "udp from 192.0.2.2 port 1 to 10.0.0.3 port 2").to, mac(3));
    rig.drops("wan", "udp from 192.0.2.2 port 1 to 10.0.0.255 port 2", Reason::Broadcast);
    rig.told("wan", "udp from 192.0.2.2 port 1 to 10.0.0.2 port 2", Reason::Unreachable);
    rig.answers("wan", "icmp6 from 2001:db8:b::2 to 2001:db8:a::1");
    assert_eq!(rig.forwards("wan", "udp from 2001:db8:b::2 port 1 to 2001:db8:a::3 port 2").to, mac(3));
    rig.told("wan", "udp from 2001:db8:b::2 port 1 to 2001:db8:a::2 port 2", Reason::Unreachable);
}

#[test]
fn routes_that_forward_nothing() {
    let mut rig = two_ports()
        .route("203.0.113.0/24", RouteTarget::Blackhole)
        .route("203.0.113.64/26", RouteTarget::Unreachable)
        .route("203.0.113.65/32", RouteTarget::Local)
        .route("203.0.113.66/32", RouteTarget::Prohibit)
        .route("2001:db8:99::/48", RouteTarget::Blackhole)
        .route("2001:db8:99:1::/64", RouteTarget::Unreachable)
        .route("2001:db8:99:1::1/128", RouteTarget::Local)
        .route("2001:db8:99:1::3/128", RouteTarget::Prohibit)
        .rig();
    rig.drops("lan", "udp from 10.0.0.2 port 1 to 203.0.113.1 port 2", Reason::Blackhole);
    rig.told("lan", "udp from 10.0.0.2 port 1 to 203.0.113.64 port 2", Reason::Unreachable)
        .assert_icmp("10.0.0.1", 3, 1, 0);
    assert_eq!(rig.answers("lan", "icmp from 10.0.0.2 to 203.0.113.65").source, ip("203.0.113.65"));
    rig.drops("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:99::1 port 2", Reason::Blackhole);
    rig.told("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:99:1::2 port 2", Reason::Unreachable).assert_icmp(
        "2001:db8:a::1",
        1,
        6,
        0,
    );
    rig.told("lan", "udp from 10.0.0.2 port 1 to 203.0.113.66 port 2", Reason::Prohibit)
        .assert_icmp("10.0.0.1", 3, 13, 0);
    rig.told("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:99:1::3 port 2", Reason::Prohibit).assert_icmp(
        "2001:db8:a::1",
        1,
        1,
        0,
    );
    assert_eq!(rig.answers("lan", "icmp6 from 2001:db8:a::2 to 2001:db8:99:1::1").source, ip("2001:db8:99:1::1"));

    let mut rig = Build::new().port("lan", &["10.0.0.1/24", "2001:db8:a::1/64"]).inventive();
    rig.told("lan", UDP4, Reason::NoRoute).assert_icmp("10.0.0.1", 3, 0, 0);
    rig.told("lan", UDP6, Reason::NoRoute).assert_icmp("2001:db8:a::1", 1, 0, 0);
}

#[test]
fn ipv4_goes_by_ipv6_next_hops() {
    let mut rig = two_ports()
        .via("203.0.113.0/24", &["wan 2001:db8:b::2"])
        .via("198.18.0.0/15", &["wan fe80::9"])
        .neighbor("wan", "fe80::9", mac(9))
        .via("2001:db8:99::/48", &["wan fe80::9"])
        .rig();
    rig.forwards("lan", "udp from 10.0.0.2 port 1 to 203.0.113.1 port 2").assert_link("wan", own_mac(1), mac(2), &[]);
    rig.forwards("lan", "udp from 10.0.0.2 port 1 to 198.18.0.1 port 2").assert_link("wan", own_mac(1), mac(9), &[]);
    rig.forwards("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:99::1 port 2").assert_link(
        "wan",
        own_mac(1),
        mac(9),
        &[],
    );
}

#[test]
fn directed_broadcasts_stay_where_they_are() {
    let mut rig = two_ports().port("pair", &["10.5.0.0/31"]).port("single", &["10.6.0.1/32"]).rig();
    for address in ["10.0.0.255", "10.0.0.0", "192.0.2.255", "192.0.2.0"] {
        rig.drops("lan", &format!("udp from 10.0.0.2 port 1 to {address} port 2"), Reason::Broadcast);
        rig.drops("lan", &format!("icmp from 10.0.0.2 to {address}"), Reason::Broadcast);
    }
    // RFC 3021: both addresses of a /31 are hosts.
    rig.answers("lan", "icmp from 10.0.0.2 to 10.5.0.0");
    rig.told("lan", "icmp from 10.0.0.2 to 10.5.0.1", Reason::NoNeighbor);
    rig.answers("lan", "icmp from 10.0.0.2 to 10.6.0.1");
}

#[test]
fn routers_answer_to_the_subnet_router_anycast_address() {
    // RFC 4291, 2.6.1; not on a /127 (RFC 6164), where it is a host.
    let mut rig = two_ports().port("pair", &["2001:db8:c::/127"]).inventive();
    // The reply comes from an address of one router alone (RFC 4443, 4.2).
    for (address, from) in
        [("2001:db8:a::", "2001:db8:a::1"), ("2001:db8:b::", "2001:db8:a::1"), ("2001:db8:c::", "2001:db8:c::")]
    {
        let seen = rig.answers("lan", &format!("icmp6 from 2001:db8:a::2 to {address}"));
        assert_eq!(seen.source, ip(from));
    }
    assert_eq!(rig.forwards("lan", "icmp6 from 2001:db8:a::2 to 2001:db8:c::1").port, "pair");
}

#[test]
fn an_interface_without_addresses_forwards() {
    let mut rig = Build::new()
        .port("bare", &[])
        .port("out", &["192.0.2.1/24", "2001:db8:b::1/64"])
        .neighbor("bare", "192.0.2.7", mac(7)) // no route says so
        .inventive();
    rig.forwards("bare", "udp from 203.0.113.1 port 1 to 192.0.2.9 port 2");
    rig.forwards("bare", "udp from 2001:db8:a::2 port 1 to 2001:db8:b::9 port 2");
    assert_eq!(rig.forwards("bare", "udp from 203.0.113.1 port 1 to 192.0.2.7 port 2").port, "out");
}

/// A port that never has room, and counts its kicks.
struct Full(Arc<AtomicUsize>);

impl Transmitter for Full {
    fn transmit(&mut self, _: &mut Vector, _: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        0
    }

    fn kick(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_port_that_took_nothing_is_kicked_as_well() {
    let mut rig = two_ports().rig();
    let (wan, kicks) = (rig.index("wan"), Arc::<AtomicUsize>::default());
    rig.harness.connect(wan, Box::new(Full(Arc::clone(&kicks))));
    let frame = rig.frame("lan", UDP4);
    for (frame, expected) in [(&frame[..], 1), (&frame[..10], 1), (&frame[..], 2)] {
        assert!(rig.harness.inject(0, frame, Time(0), 0));
        rig.harness.run();
        assert_eq!(kicks.load(Ordering::Relaxed), expected);
    }
    assert_eq!(rig.harness.drops(Reason::TransmitFull), 2);
}

/// A port that refuses each third packet. Of the others it loses each second one when it is kicked, if it sends later.
struct Unreliable {
    later: bool,
    offered: usize,
    waiting: usize,
    outcomes: VecDeque<Outcome>,
}

impl Transmitter for Unreliable {
    fn transmit(
        &mut self,
        vector: &mut Vector,
        frame: &Indices,
        refused: &mut Indices,
        cache: &mut Cache,
        _: Time,
    ) -> usize {
        for &place in frame.places() {
            self.offered += 1;
            if self.offered.is_multiple_of(3) {
                refused.push(place);
            } else {
                self.waiting += 1;
                // As ports do that keep the buffer.
                vector[place].take().recycle(cache);
            }
        }
        frame.len()
    }

    fn sends_later(&self) -> bool {
        self.later
    }

    fn outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    fn kick(&mut self) {
        if self.later {
            let outcomes = (0..std::mem::take(&mut self.waiting)).map(|number| number % 2 == 0);
            self.outcomes.extend(outcomes.map(|sent| Outcome { packets: 1, sent }));
        }
    }
}

#[test]
fn what_a_port_cannot_send_is_dropped_and_not_transmitted() {
    for (later, sent, dropped) in [(false, 6, 3), (true, 3, 6)] {
        let mut rig = two_ports().rig();
        let wan = rig.index("wan");
        let port = Unreliable { later, offered: 0, waiting: 0, outcomes: VecDeque::new() };
        rig.harness.connect(wan, Box::new(port));
        let frame = rig.frame("lan", UDP4);
        (0..9).for_each(|number| assert!(rig.harness.inject(0, &frame, Time(0), number)));
        rig.harness.run();
        let sum = rig.conservation();
        assert_eq!((sum.transmitted, sum.dropped, sum.held, sum.imbalance()), (sent, dropped, 0, 0), "later: {later}");
        assert_eq!(rig.harness.drops(Reason::TransmitFailed), dropped);
        let octets = frame.len() as u64;
        let counted = |packets| Traffic { packets, bytes: packets * octets };
        let [lan, wan] = ["lan", "wan"].map(|name| rig.harness.interface_stats(rig.index(name)).unwrap());
        assert_eq!((wan.tx, lan.dropped, lan.rx), (counted(sent), counted(dropped), counted(9)), "later: {later}");
    }
}

/// A port that sends later and has no room until it is closed.
struct Stuck {
    waiting: usize,
    outcome: Option<Outcome>,
}

impl Transmitter for Stuck {
    fn transmit(&mut self, _: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        self.waiting += frame.len();
        frame.len()
    }

    fn sends_later(&self) -> bool {
        true
    }

    fn outcome(&mut self) -> Option<Outcome> {
        self.outcome.take()
    }

    fn is_pending(&self) -> bool {
        self.waiting > 0
    }

    fn close(&mut self) {
        self.outcome = Some(Outcome { packets: std::mem::take(&mut self.waiting), sent: false });
    }
}

#[test]
fn what_waits_in_a_port_is_held_until_it_is_sent_or_given_up() {
    let mut rig = two_ports().rig();
    let wan = rig.index("wan");
    rig.harness.connect(wan, Box::new(Stuck { waiting: 0, outcome: None }));
    let frame = rig.frame("lan", UDP4);
    (0..5).for_each(|number| assert!(rig.harness.inject(0, &frame, Time(0), number)));
    rig.harness.run();
    let sum = rig.conservation();
    assert_eq!((sum.transmitted, sum.held, sum.dropped, sum.imbalance()), (0, 5, 0, 0));
    // Another takes its place, as after a reload.
    rig.harness.connect(wan, Box::new(Stuck { waiting: 0, outcome: None }));
    let sum = rig.conservation();
    assert_eq!((sum.transmitted, sum.held, sum.dropped, sum.imbalance()), (0, 0, 5, 0));
    assert_eq!(rig.harness.drops(Reason::TransmitFailed), 5);
}

#[test]
fn what_a_full_or_missing_port_does_not_take_is_dropped() {
    let mut rig = two_ports().rig();
    *rig.room.lock().unwrap() = 3;
    let frames: Vec<_> = (0..8).map(|_| rig.frame("lan", UDP4)).collect();
    let (outcomes, out) = rig.put_all("lan", &frames);
    assert_eq!(out.len(), 3);
    let verdicts = tally(outcomes.iter().map(|outcome| outcome.verdict.name()));
    assert_eq!((verdicts["forward"], verdicts["drop"]), (3, 5));
    assert_eq!(rig.harness.drops(Reason::TransmitFull), 5);

    let options = weir_plane::harness::Options { seed: 1, invent_neighbors: true };
    let mut harness = weir_plane::harness::Harness::new(two_ports().0, options).unwrap();
    assert!(harness.inject(0, &rig.frame("lan", UDP4), weir_base::clock::Time(0), 0));
    assert_eq!(harness.run()[0].verdict, Verdict::Drop(Reason::NoPort));
    assert_eq!(harness.conservation().imbalance(), 0);
}
