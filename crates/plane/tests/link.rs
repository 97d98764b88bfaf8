//! Solicitations on the link: ARP requests and neighbour solicitations are answered for the gateway's addresses only,
//! by their ingress interface, within a rate; important observations are reported.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::kit::link::*;
use crate::kit::*;
use weir_packet::wire::arp::{Fields as Arp, Operation};
use weir_packet::wire::ethernet::{self, ethertype};
use weir_packet::wire::nd::{self, Fields as Nd, Message, RouterAdvertisement};
use weir_packet::wire::{MacAddress, ipv6};
use weir_plane::harness::Verdict;
use weir_plane::model::NeighborDiscovery;
use weir_plane::neighbor::Event;
use weir_plane::reason::Reason;

/// Returns the destination, the source and the contents of an advertisement that left.
#[track_caller]
fn advertisement(frame: &[u8]) -> (Ipv6Addr, Ipv6Addr, Nd) {
    let packet = &frame[l3(frame)..];
    let header = ipv6::Header::new(packet).unwrap();
    assert_eq!(usize::from(header.payload_length()) + 40, packet.len());
    let message = Message::parse(header.source(), header.destination(), header.hop_limit(), &packet[40..]).unwrap();
    (header.source(), header.destination(), message.fields())
}

/// Both families on two ports and a VLAN in a VLAN.
fn rig() -> Rig {
    let mut rig = two_ports().vlan("deep", "wan", &[7, 8], &["10.7.0.1/24", "2001:db8:7::1/64", "fe80::7/64"]).rig();
    rig.harness.listen();
    rig
}

#[test]
fn a_request_becomes_its_reply() {
    let mut rig = rig();
    let tags: &[(u16, u16)] = &[(ethertype::QINQ, 7), (ethertype::VLAN, 8)];
    for (name, to, tags, own, sender, target) in [
        ("lan", ALL, &[][..], own_mac(0), "10.0.0.9", "10.0.0.1"),
        ("lan", own_mac(0), &[], own_mac(0), "10.0.0.9", "10.0.0.1"),
        ("lan", ALL, &[], own_mac(0), "0.0.0.0", "10.0.0.1"), // a probe (RFC 5227)
        ("lan", ALL, &[(ethertype::VLAN, 0)], own_mac(0), "10.0.0.9", "10.0.0.1"),
        ("deep", ALL, tags, own_mac(1), "10.7.0.9", "10.7.0.1"),
    ] {
        let asked = request(sender, target);
        let passage = rig.put(name, &arp(to, tags, asked));
        assert_eq!(passage.outcome.verdict, Verdict::Local, "{name} {sender}");
        let [(port, frame)] = &passage.out[..] else { panic!("{:?}", passage.out) };
        let reply = Arp {
            operation: Operation::Reply,
            sender_mac: own,
            sender: asked.target,
            target_mac: HOST,
            target: asked.sender,
        };
        let (port_name, tags) = if name == "deep" { ("wan", tags) } else { (name, &[][..]) };
        let mut expected = framed(HOST, tags, ethertype::ARP, &reply.emit());
        expected[6..12].copy_from_slice(&own.0);
        assert_eq!((port.as_str(), frame), (port_name, &expected), "{name} {sender}");
        let interface = rig.harness.interface_number(rig.index(name)).unwrap();
        assert_eq!(rig.harness.events(), [Event::Arp { interface, packet: asked }]);
    }
    let sum = rig.conservation();
    assert_eq!((sum.received, sum.local, sum.created, sum.transmitted, sum.dropped), (5, 5, 5, 5, 0));
}

#[test]
fn what_is_told_of_arp_is_what_can_matter() {
    let mut rig = rig();
    let reply = |sender: &str, target: &str, target_mac| Arp {
        operation: Operation::Reply,
        target_mac,
        ..request(sender, target)
    };
    // (contents, whether it is reported)
    for (fields, told) in [
        (reply("10.0.0.9", "10.0.0.1", own_mac(0)), true),
        (reply("172.16.0.9", "10.0.0.1", own_mac(0)), true), // a neighbour by a route over the link
        (reply("10.0.0.9", "10.0.0.8", own_mac(0)), true),   // to an address that we lent from elsewhere
        (reply("10.0.0.9", "10.0.0.8", mac(8)), false),
        (request("10.0.0.9", "10.0.0.8"), false),
        (request("10.0.0.9", "10.0.0.9"), true), // it announces its address
        (reply("10.0.0.9", "10.0.0.9", ALL), true),
        (request("172.16.0.9", "172.16.0.9"), false),
        (request("10.0.0.1", "10.0.0.1"), true), // another station has the address
        (request("10.0.0.1", "10.0.0.7"), true),
        (Arp { sender_mac: own_mac(0), ..request("10.0.0.1", "10.0.0.1") }, false), // we hear ourselves
        (Arp { sender_mac: own_mac(0), ..request("10.0.0.1", "10.0.0.9") }, false),
    ] {
        let passage = rig.put("lan", &arp(ALL, &[], fields));
        let verdict = if told { Verdict::Local } else { Verdict::Drop(Reason::ArpNotForUs) };
        assert_eq!(passage.outcome.verdict, verdict, "{fields:?}");
        let events = rig.harness.events();
        assert_eq!(events, if told { vec![Event::Arp { interface: 0, packet: fields }] } else { vec![] });
        // Another station with the gateway's address is a matter of the control side; a request for the address is
        // answered.
        let asked = fields.operation == Operation::Request && fields.target == v4("10.0.0.1") && told;
        assert_eq!(passage.out.len(), usize::from(asked), "{fields:?}");
    }
    // A request from off the link is answered, and its sender is not remembered.
    assert_eq!(rig.put("lan", &arp(ALL, &[], request("172.16.0.9", "10.0.0.1"))).out.len(), 1);
    assert_eq!(rig.harness.events(), []);
    // The address of another interface is no business of this link.
    rig.drops_frame("lan", &arp(ALL, &[], request("10.0.0.9", "192.0.2.1")), Reason::ArpNotForUs);
}

#[test]
fn malformed_arp_is_refused() {
    let mut rig = rig();
    let good = request("10.0.0.9", "10.0.0.1");
    for bad in [
        Arp { sender_mac: ALL, ..good },
        Arp { sender_mac: MacAddress::ZERO, ..good },
        Arp { sender_mac: MacAddress([1, 0, 0x5e, 0, 0, 1]), ..good },
        Arp { sender: v4("224.0.0.1"), ..good },
        Arp { sender: v4("255.255.255.255"), ..good },
        Arp { sender: v4("127.0.0.1"), ..good },
        Arp { sender: v4("0.0.0.0"), operation: Operation::Reply, ..good },
    ] {
        rig.drops_frame("lan", &arp(ALL, &[], bad), Reason::BadArp);
    }
    let whole = framed(ALL, &[], ethertype::ARP, &good.emit());
    for length in 14..whole.len() {
        rig.drops_frame("lan", &whole[..length], Reason::BadArp);
    }
    for octet in 14..22 {
        let mut frame = whole.clone();
        frame[octet] ^= 0x40;
        rig.drops_frame("lan", &frame, Reason::BadArp);
    }
    rig.drops_frame("lan", &arp(mac(9), &[], good), Reason::NotOurMac);
    assert_eq!(rig.harness.events(), []);
}

#[test]
fn a_solicitation_becomes_its_advertisement() {
    let mut rig = rig();
    let tags: &[(u16, u16)] = &[(ethertype::QINQ, 7), (ethertype::VLAN, 8)];
    let (global, local, deep) = ("2001:db8:a::1", "fe80::1", "2001:db8:7::1");
    let stranger = mac(77);
    for (name, frame, target, answered_to, mac_to) in [
        ("lan", ask(&[], "fe80::9", global, Some(HOST)), global, "fe80::9", HOST),
        ("lan", ask(&[], "2001:db8:a::9", global, Some(stranger)), global, "2001:db8:a::9", stranger),
        ("lan", ask(&[], "fe80::9", local, Some(HOST)), local, "fe80::9", HOST),
        ("deep", ask(tags, "fe80::9", deep, Some(HOST)), deep, "fe80::9", HOST),
        // A unicast solicitation need not contain the hardware address.
        (
            "lan",
            discovery(
                own_mac(0),
                &[],
                "fe80::9",
                v6(global),
                Nd::NeighborSolicitation { target: v6(global), source_mac: None },
            ),
            global,
            "fe80::9",
            HOST,
        ),
        // Duplicate address detection is answered by multicast.
        ("lan", ask(&[], "::", global, None), global, "ff02::1", MacAddress([0x33, 0x33, 0, 0, 0, 1])),
    ] {
        let passage = rig.put(name, &frame);
        assert_eq!(passage.outcome.verdict, Verdict::Local, "{target} for {answered_to}");
        let [(port, answer)] = &passage.out[..] else { panic!("{:?}", passage.out) };
        let own = own_mac(usize::from(name == "deep"));
        let seen = ethernet::Fields::parse(answer).unwrap();
        assert_eq!((seen.destination, seen.source), (mac_to, own));
        assert_eq!(port, if name == "deep" { "wan" } else { name });
        assert_eq!(answer[12..l3(answer) - 2].len(), if name == "deep" { 8 } else { 0 });
        let (source, destination, says) = advertisement(answer);
        assert_eq!((source, destination), (v6(target), v6(answered_to)));
        let solicited = answered_to != "ff02::1";
        let expected = Nd::NeighborAdvertisement {
            target: v6(target),
            router: true,
            solicited,
            overrides: true,
            target_mac: Some(own),
        };
        assert_eq!(says, expected);
        assert!(matches!(rig.harness.events()[..], [Event::Nd { packet: Nd::NeighborSolicitation { .. }, .. }]));
    }
    let sum = rig.conservation();
    assert_eq!((sum.local, sum.created, sum.transmitted, sum.dropped), (6, 6, 6, 0));
}

#[test]
fn the_anycast_address_of_routers_overrides_nothing() {
    let mut rig = rig();
    let passage = rig.put("lan", &ask(&[], "fe80::9", "2001:db8:a::", Some(HOST)));
    let (source, _, says) = advertisement(&passage.out[0].1);
    assert_eq!(source, v6("2001:db8:a::"));
    assert!(matches!(says, Nd::NeighborAdvertisement { overrides: false, solicited: true, .. }), "{says:?}");
    // fe80:: is nobody's, and the link of another prefix is elsewhere.
    rig.drops_frame("lan", &ask(&[], "fe80::9", "fe80::", Some(HOST)), Reason::NdNotForUs);
    rig.drops_frame("lan", &ask(&[], "fe80::9", "2001:db8:b::", Some(HOST)), Reason::NdNotForUs);
}

#[test]
fn discovery_that_is_not_ours_or_not_right_is_dropped() {
    let mut rig = rig();
    // Another's group, and another's address in our group.
    rig.drops_frame("lan", &ask(&[], "fe80::9", "2001:db8:a::99", Some(HOST)), Reason::Multicast);
    rig.drops_frame("lan", &ask(&[], "fe80::9", "2001:db8:a:99::1", Some(HOST)), Reason::NdNotForUs);
    let good = ask(&[], "fe80::9", "2001:db8:a::1", Some(HOST));
    for octet in [14 + 7, 14 + 40 + 1, 14 + 40 + 2, 14 + 40 + 10, 14 + 40 + 25] {
        let mut frame = good.clone();
        frame[octet] ^= 1;
        rig.drops_frame("lan", &frame, Reason::BadNd);
    }
    // RFC 6980: not even a fragment that is all of it.
    let fragment = with_extensions(&good, 44, &[58, 0, 0, 1, 0, 0, 0, 1]);
    rig.drops_frame("lan", &fragment, Reason::BadNd);
    let router = Nd::RouterAdvertisement(RouterAdvertisement { lifetime: 9, ..Default::default() });
    let all = MacAddress::of_ipv6_multicast(nd::ALL_NODES);
    rig.drops_frame("lan", &discovery(all, &[], "fe80::9", nd::ALL_NODES, router), Reason::RouterAdvertisement);
    let mut redirect = good.clone();
    redirect[14 + 40] = 137;
    rig.drops_frame("lan", &redirect, Reason::Redirect);
    assert_eq!(rig.harness.events(), []);
    // A packet for other hosts is forwarded, with its hop limit decremented.
    let to = v6("2001:db8:b::2");
    let far =
        discovery(own_mac(0), &[], "2001:db8:a::2", to, Nd::NeighborSolicitation { target: to, source_mac: None });
    assert_eq!(rig.put("lan", &far).outcome.verdict, Verdict::Forward);
}

#[test]
fn advertisements_and_router_solicitations_are_told() {
    let mut rig = rig();
    let says = |target_mac, solicited| Nd::NeighborAdvertisement {
        target: v6("fe80::9"),
        router: false,
        solicited,
        overrides: true,
        target_mac,
    };
    let all = MacAddress::of_ipv6_multicast(nd::ALL_NODES);
    let routers = MacAddress::of_ipv6_multicast(nd::ALL_ROUTERS);
    for (frame, packet) in [
        (discovery(own_mac(0), &[], "fe80::9", v6("fe80::1"), says(Some(HOST), true)), says(Some(HOST), true)),
        (discovery(all, &[], "fe80::9", nd::ALL_NODES, says(Some(HOST), false)), says(Some(HOST), false)),
        (
            discovery(routers, &[], "fe80::9", nd::ALL_ROUTERS, Nd::RouterSolicitation { source_mac: Some(HOST) }),
            Nd::RouterSolicitation { source_mac: Some(HOST) },
        ),
    ] {
        let passage = rig.put("lan", &frame);
        assert_eq!((passage.outcome.verdict, passage.out.len()), (Verdict::Local, 0));
        assert_eq!(rig.harness.events(), [Event::Nd { interface: 0, source: v6("fe80::9"), packet }]);
    }
}

#[test]
fn a_flood_of_questions_costs_little_and_grows_nothing() {
    let mut build = two_ports();
    build.0.neighbor_discovery = NeighborDiscovery { rate: 1000, ..NeighborDiscovery::default() };
    let mut rig = build.rig();
    rig.harness.listen();
    let (mut answered, mut reports) = (0, 0);
    // A million from as many sources, half of them each, in half a second of the gateway's time.
    for round in 0..5000u32 {
        let frames: Vec<Vec<u8>> = (0..200u32)
            .map(|number| match number % 2 {
                0 => {
                    let spoofed = Ipv6Addr::from(0xfe80 << 112 | u128::from(round * 200 + number));
                    ask(&[], &spoofed.to_string(), "2001:db8:a::1", Some(HOST))
                }
                _ => {
                    let spoofed = Ipv4Addr::from(0x0a00_0000 | (round * 200 + number) & 0xff);
                    arp(ALL, &[], request(&spoofed.to_string(), "10.0.0.1"))
                }
            })
            .collect();
        answered += rig.put_all("lan", &frames).1.len();
        rig.advance(100_000);
        if round % 1000 == 999 {
            reports += rig.harness.events().len();
        }
    }
    assert!((550..=650).contains(&answered), "{answered} answers: a burst of 100, and 1000 in a second");
    // Each report has an answer, so the ring was never full.
    assert!((500..=answered).contains(&reports), "{reports} reports, {answered} answers");
    let sum = rig.conservation();
    assert_eq!((sum.received, sum.held, sum.imbalance()), (1_000_000, 0, 0));
    // ARP from addresses that are no host's is refused, or not on the link; all else is limited.
    let refused: u64 = [Reason::NeighborLimited, Reason::BadArp].iter().map(|&reason| rig.harness.drops(reason)).sum();
    assert_eq!(refused + answered as u64, 1_000_000);
}

#[test]
fn a_flood_on_one_link_takes_nothing_from_another() {
    let mut rig = rig();
    let flood: Vec<Vec<u8>> = (0..250u32)
        .map(|number| match number % 3 {
            0 => arp(ALL, &[], request(&format!("10.0.0.{}", 2 + number % 200), "10.0.0.1")),
            1 => ask(&[], &format!("2001:db8:a::{:x}", 2 + number), "2001:db8:a::1", Some(HOST)),
            _ => arp(ALL, &[], Arp { target: Ipv4Addr::new(10, 0, 0, 9), ..request("10.0.0.9", "10.0.0.9") }),
        })
        .collect();
    for _ in 0..100 {
        rig.put_all("lan", &flood);
    }
    rig.harness.events();
    // The limit had no time to recover.
    assert!(rig.put("lan", &flood[0]).out.is_empty());
    let asked = request("192.0.2.9", "192.0.2.1");
    let wan = rig.put("wan", &arp(ALL, &[], asked));
    assert_eq!((wan.outcome.verdict, wan.out.len()), (Verdict::Local, 1));
    let events = rig.harness.events();
    assert!(matches!(events[..], [Event::Arp { packet, .. }] if packet == asked), "{events:?}");
}
