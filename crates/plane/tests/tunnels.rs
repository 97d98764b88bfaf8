//! Tunnels between two gateways: what one puts in the other takes out, and what is no packet of the tunnel is dropped.

use std::collections::BTreeSet;

use crate::kit::tunnel::*;
use crate::kit::*;
use weir_packet::checksum;
use weir_packet::icmp::{self, ErrorV6};
use weir_packet::tunnel::{Carrier, Id};
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::{ipv4, protocol};
use weir_plane::harness::{Harness, Outcome, Verdict};
use weir_plane::model::{MssClamp, OuterDf, OuterDscp, OuterTtl, Sa, SaMode, SpdCache, Tunnel};
use weir_plane::reason::Reason;

const TO_EAST: [&str; 2] = [
    "udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 ttl 9 length 200",
    "udp from 2001:db8:1::2 port 7 to 2001:db8:2::2 port 9 ttl 9 length 200",
];

/// Every carrier with each of its settings, over both families.
fn all() -> Vec<Tunnel> {
    let mut all = Vec::new();
    for ends in [V4, V6] {
        all.extend(Carrier::ALL.map(|carrier| tunnel(carrier, ends)));
        let gre = tunnel(Carrier::Gre, ends);
        all.push(Tunnel { id: Id::key(Some(0)), ..gre });
        all.push(Tunnel { id: Id::key(Some(7)), checksum: true, ..gre });
        all.push(Tunnel { direct: true, ..tunnel(Carrier::Gue, ends) });
        all.push(Tunnel { zero_checksum: ends == V6, port: 8472, ..tunnel(Carrier::Vxlan, ends) });
    }
    all
}

fn frames(out: Vec<(String, Vec<u8>)>) -> Vec<Vec<u8>> {
    out.into_iter().map(|(_, frame)| frame).collect()
}

fn verdicts(outcomes: &[Outcome]) -> Vec<Verdict> {
    outcomes.iter().map(|outcome| outcome.verdict).collect()
}

/// Puts a packet into the tunnel at west, and gives the frame that leaves.
#[track_caller]
fn into(west: &mut Rig, text: &str) -> Vec<u8> {
    let passage = west.send("lan", text);
    assert_eq!(passage.outcome.verdict, Verdict::Forward, "{text}");
    let [(port, frame)] = &passage.out[..] else { panic!("one packet: {:?}", passage.out) };
    assert_eq!(port, "wan");
    frame.clone()
}

#[test]
fn every_carrier_carries_both_families_over_both() {
    for own in all() {
        let (mut west, mut east) = (west(own, &[]).rig(), east(own, &[]).rig());
        let sent: Vec<_> = (0..60)
            .map(|at| {
                let text = TO_EAST[at % 2].replace("port 7", &format!("port {}", 1000 + at));
                west.frame("lan", &text)
            })
            .collect();
        let (outcomes, out) = west.put_all("lan", &sent);
        assert_eq!(verdicts(&outcomes), vec![Verdict::Forward; 60], "{own:?}");
        let outer: Vec<_> = out.iter().map(|(port, frame)| Seen::new(port, frame)).collect();
        for seen in &outer {
            assert_eq!((seen.source, seen.destination, seen.ttl), (own.local, own.remote, 64));
            seen.assert_link("wan", own_mac(1), own_mac(1), &[]);
        }
        let (outcomes, out) = east.put_all("wan", &frames(out));
        assert_eq!(verdicts(&outcomes), vec![Verdict::Forward; 60], "{own:?}");
        for ((port, frame), sent) in out.iter().zip(&sent) {
            let seen = Seen::new(port, frame);
            assert_eq!(seen.port, "lan");
            let mut before = sent.clone();
            let (at, is_v4) = (l3(&before), before[l3(&before)] >> 4 == 4);
            before[at + if is_v4 { 8 } else { 7 }] -= 1;
            if is_v4 {
                mend(&mut before);
            }
            seen.assert_forwarded(&before);
        }
    }
}

#[test]
fn outer_headers_say_what_the_tunnel_says() {
    for ends in [V4, V6] {
        let own = Tunnel {
            ttl: OuterTtl::Copy,
            dscp: OuterDscp::Fixed(46),
            df: OuterDf::Set,
            ..tunnel(Carrier::Vxlan, ends)
        };
        let mut west = west(own, &[]).rig();
        let seen = Seen::new("wan", &into(&mut west, TO_EAST[0]));
        assert_eq!(seen.ttl, 8, "as the inner packet leaves");
        let class = if ends == V4 { seen.packet[1] } else { seen.packet[0] << 4 | seen.packet[1] >> 4 };
        assert_eq!(class, 46 << 2);
        let at = if ends == V4 { 20 } else { 40 };
        if ends == V4 {
            assert_eq!((seen.packet[6], &seen.packet[26..28]), (0x40, &[0, 0][..]), "DF, and no checksum");
        }
        assert_eq!(seen.packet[at + 8..at + 16], [8, 0, 0, 0, 0, 0, 100, 0]);
        assert_eq!(seen.packet[at + 2..at + 4], 4789u16.to_be_bytes());
        assert_eq!(seen.packet[at + 16..at + 28], [end_mac(2).0, end_mac(1).0].concat());
    }
    // Copies of DSCP and DF follow the inner packet.
    let mut west = west(tunnel(Carrier::Ip, V4), &[]).rig();
    let seen = Seen::new("wan", &into(&mut west, "udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 df dscp 10"));
    assert_eq!((seen.packet[1], seen.packet[6]), (10 << 2, 0x40));
    let seen = Seen::new("wan", &into(&mut west, TO_EAST[0]));
    assert_eq!(seen.packet[6], 0);
}

#[test]
fn source_ports_follow_flows() {
    let mut west = west(tunnel(Carrier::Geneve, V6), &[]).rig();
    let mut port = |text: &str| {
        let frame = into(&mut west, text);
        let port = u16::from_be_bytes([frame[14 + 40], frame[14 + 41]]);
        assert!(port >= 49_152);
        port
    };
    let text = |at: usize| TO_EAST[0].replace("port 7", &format!("port {at}"));
    let ports: BTreeSet<u16> = (0..200).map(|at| port(&text(at))).collect();
    assert!(ports.len() > 180, "{} ports", ports.len());
    assert_eq!(port(&text(3)), port(&text(3)));
}

/// Frames for east whose octets behind the outer IP header are these.
fn behind(carrier: Carrier, octets: &[u8]) -> Vec<u8> {
    let number = match carrier {
        Carrier::Gre => protocol::GRE,
        Carrier::Ip => protocol::IPIP,
        _ => protocol::UDP,
    };
    let header = ipv4::Fields {
        tos: 0,
        total_length: (20 + octets.len()) as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: number,
        source: [198, 51, 100, 1].into(),
        destination: [198, 51, 100, 2].into(),
    };
    [&own_mac(1).0[..], &[2, 0, 0, 0, 0, 7], &[8, 0], &header.emit(), octets].concat()
}

fn datagram(port: u16, octets: &[u8]) -> Vec<u8> {
    let length = (8 + octets.len()) as u16;
    [&[0xc0, 0, (port >> 8) as u8, port as u8][..], &length.to_be_bytes(), &[0, 0], octets].concat()
}

#[test]
fn what_is_no_packet_of_the_tunnel_is_dropped() {
    let inner = crate::kit::esp::bare(TO_EAST[0]);
    let framed = [&end_mac(2).0[..], &[2, 0, 0, 0, 0, 9], &[8, 0], &inner].concat();
    let vxlan = |vni: u8, octets: &[u8]| [&[8, 0, 0, 0, 0, 0, vni, 0][..], octets].concat();
    let geneve = |words: u8, flags: u8, octets: &[u8]| [&[words, flags, 0x65, 0x58, 0, 0, 100, 0][..], octets].concat();
    let mut wrong_mac = framed.clone();
    wrong_mac[5] ^= 1;
    let tagged = [&framed[..12], &[0x81, 0, 0, 9], &framed[12..]].concat();
    let other = |kind: u16| [&framed[..12], &kind.to_be_bytes()[..], &framed[14..]].concat();
    let mut rows: Vec<(Carrier, Vec<u8>, Option<Reason>)> = vec![
        (Carrier::Vxlan, datagram(4789, &vxlan(100, &framed)), None),
        (Carrier::Vxlan, datagram(4789, &vxlan(101, &framed)), Some(Reason::TunnelUnknown)),
        (Carrier::Vxlan, datagram(4789, &[0; 30]), Some(Reason::TunnelMalformed)),
        (Carrier::Vxlan, datagram(4789, &vxlan(100, &framed[..13])), Some(Reason::TruncatedEthernet)),
        (Carrier::Vxlan, datagram(4789, &vxlan(100, &framed[..30])), Some(Reason::TruncatedIpv4)),
        (Carrier::Vxlan, datagram(4789, &vxlan(100, &wrong_mac)), Some(Reason::NotOurMac)),
        (Carrier::Vxlan, datagram(4789, &vxlan(100, &tagged)), Some(Reason::UnknownVlan)),
        (Carrier::Vxlan, datagram(4789, &vxlan(100, &other(0x88cc))), Some(Reason::UnhandledEthertype)),
        (Carrier::Vxlan, datagram(4789, &vxlan(100, &other(ethertype::IPV6))), Some(Reason::BadVersion)),
        (Carrier::Geneve, datagram(6081, &geneve(1, 0, &[&[1, 2, 3, 0][..], &framed].concat())), None),
        (
            Carrier::Geneve,
            datagram(6081, &geneve(1, 0x40, &[&[1, 2, 0x83, 0][..], &framed].concat())),
            Some(Reason::TunnelOption),
        ),
        (
            Carrier::Geneve,
            datagram(6081, &geneve(1, 0, &[&[1, 2, 3, 9][..], &framed].concat())),
            Some(Reason::TunnelMalformed),
        ),
        (Carrier::Geneve, datagram(6081, &geneve(63, 0, &framed)), Some(Reason::TunnelMalformed)),
        (Carrier::Geneve, datagram(6081, &geneve(0, 0x80, &framed)), Some(Reason::TunnelControl)),
        (Carrier::Gue, datagram(6080, &[&[0, 4, 0, 0][..], &inner].concat()), None),
        (Carrier::Gue, datagram(6080, &inner), None),
        (Carrier::Gue, datagram(6080, &[&[0, 4, 1, 0][..], &inner].concat()), Some(Reason::TunnelOption)),
        (Carrier::Gue, datagram(6080, &[0x20, 0, 0, 0]), Some(Reason::TunnelControl)),
        (Carrier::Gre, [&[0, 0, 8, 0][..], &inner].concat(), None),
        (Carrier::Gre, [&[0x10, 0, 8, 0, 0, 0, 0, 1][..], &inner].concat(), None),
        (Carrier::Gre, [&[0x20, 0, 8, 0, 0, 0, 0, 1][..], &inner].concat(), Some(Reason::TunnelUnknown)),
        (Carrier::Gre, [&[0x80, 0, 8, 0, 1, 2, 0, 0][..], &inner].concat(), Some(Reason::TunnelChecksum)),
        (Carrier::Gre, [&[0, 1, 8, 0][..], &inner].concat(), Some(Reason::TunnelMalformed)),
        (Carrier::Gre, [&[0, 0, 0x65, 0x58][..], &framed].concat(), Some(Reason::TunnelMalformed)),
        (Carrier::Ip, inner.clone(), None),
        (Carrier::Ip, vec![0x60; 60], Some(Reason::TunnelMalformed)),
    ];
    // A length of UDP beyond the packet, and a wrong checksum.
    let mut long = datagram(4789, &vxlan(100, &framed));
    long[5] += 1;
    rows.push((Carrier::Vxlan, long, Some(Reason::TunnelMalformed)));
    let mut summed = datagram(4789, &vxlan(100, &framed));
    summed[6..8].copy_from_slice(&[1, 2]);
    rows.push((Carrier::Vxlan, summed, Some(Reason::TunnelChecksum)));
    for (carrier, octets, reason) in rows {
        let mut east = east(tunnel(carrier, V4), &[]).rig();
        let frame = behind(carrier, &octets);
        match reason {
            Some(reason) => east.drops_frame("wan", &frame, reason),
            None => assert_eq!(east.put("wan", &frame).only().port, "lan", "{carrier:?}"),
        }
        // Other hosts have no tunnel here.
        let mut other = frame;
        other[14 + 15] = 9;
        mend(&mut other);
        let verdict = east.put("wan", &other).outcome.verdict;
        assert_eq!(verdict, Verdict::Drop(Reason::LocalUnhandled), "{carrier:?}");
    }
}

/// Packets of one tunnel that follow each other are known by the octets in front: a packet that differs in any of these is taken for
/// what it is alone.
#[test]
fn packets_behind_others_are_what_they_are_alone() {
    for own in all() {
        for text in TO_EAST {
            let good = into(&mut west(own, &[]).rig(), text);
            let (mut together, mut alone) = (east(own, &[]).rig(), east(own, &[]).rig());
            let ip = if own.local.is_ipv4() { 20 } else { 40 };
            let mut sent = vec![good.clone(), good.clone()];
            // Fragments wait for others.
            for at in (15..14 + ip + 17).filter(|at| ip > 20 || !(20..22).contains(at)) {
                for bit in [0x01, 0x10] {
                    let mut frame = good.clone();
                    frame[at] ^= bit;
                    if ip == 20 && !(24..26).contains(&at) {
                        mend(&mut frame);
                    }
                    sent.extend([frame, good.clone()]);
                }
            }
            let (outcomes, out) = together.put_all("wan", &sent);
            let (mut expected, mut expected_out) = (Vec::new(), Vec::new());
            for frame in &sent {
                let passage = alone.put("wan", frame);
                expected.push(passage.outcome.verdict);
                expected_out.extend(passage.out);
            }
            assert_eq!(verdicts(&outcomes), expected, "{own:?} {text}");
            let lan = |out: Vec<(String, Vec<u8>)>| -> Vec<Vec<u8>> {
                frames(out.into_iter().filter(|(port, _)| port == "lan").collect())
            };
            assert!(expected.iter().filter(|&&verdict| verdict == Verdict::Forward).count() > sent.len() / 2);
            assert_eq!(lan(out), lan(expected_out), "{own:?} {text}");
        }
    }
}

#[test]
fn an_inner_length_beyond_the_outer_one_is_dropped() {
    let (v4, mut v6) = (crate::kit::esp::bare(TO_EAST[0]), crate::kit::esp::bare(TO_EAST[1]));
    let mut long = v4.clone();
    let length = v4.len() as u16 + 1;
    long[2..4].copy_from_slice(&length.to_be_bytes());
    long[10..12].fill(0);
    let sum = checksum::of(&long[..20]);
    long[10..12].copy_from_slice(&sum.to_be_bytes());
    let length = (v6.len() - 40) as u16 + 1;
    v6[4..6].copy_from_slice(&length.to_be_bytes());
    for carrier in Carrier::ALL {
        for (inner, kind, reason) in
            [(&long, [8, 0], Reason::BadTotalLength), (&v6, [0x86, 0xdd], Reason::BadPayloadLength)]
        {
            let framed = [&end_mac(2).0[..], &[2, 0, 0, 0, 0, 9], &kind, inner].concat();
            let octets = match carrier {
                Carrier::Vxlan => datagram(4789, &[&[8, 0, 0, 0, 0, 0, 100, 0][..], &framed].concat()),
                Carrier::Geneve => datagram(6081, &[&[0, 0, 0x65, 0x58, 0, 0, 100, 0][..], &framed].concat()),
                Carrier::Gue => datagram(6080, inner),
                Carrier::Gre => [&[0, 0][..], &kind, inner].concat(),
                Carrier::Ip => inner.clone(),
            };
            let mut east = east(tunnel(carrier, V4), &[]).rig();
            let mut frame = behind(carrier, &octets);
            if carrier == Carrier::Ip && kind[0] == 0x86 {
                frame[14 + 9] = protocol::IPV6;
                mend(&mut frame);
            }
            // Octets behind the outer packet are none of the inner one.
            for padding in [0, 8] {
                east.drops_frame("wan", &[&frame[..], &vec![0; padding]].concat(), reason);
            }
        }
    }
}

#[test]
fn a_right_checksum_of_udp_is_accepted() {
    let inner = crate::kit::esp::bare(TO_EAST[0]);
    let mut octets = datagram(6080, &inner);
    let [from, to] = [[198, 51, 100, 1], [198, 51, 100, 2]].map(std::net::Ipv4Addr::from);
    let sum = checksum::pseudo_v4(from, to, protocol::UDP, octets.len() as u16).bytes(&octets).checksum();
    octets[6..8].copy_from_slice(&sum.to_be_bytes());
    let mut east = east(tunnel(Carrier::Gue, V4), &[]).rig();
    assert_eq!(east.put("wan", &behind(Carrier::Gue, &octets)).only().port, "lan");
    // Without a checksum over IPv6, too (RFC 6935).
    let own = Tunnel { zero_checksum: true, ..tunnel(Carrier::Gue, V6) };
    let frame = into(&mut west(own, &[]).rig(), TO_EAST[0]);
    assert_eq!(frame[14 + 46..14 + 48], [0, 0]);
    let mut east = crate::kit::tunnel::east(own, &[]).rig();
    assert_eq!(east.put("wan", &frame).only().port, "lan");
}

#[test]
fn congestion_marks_come_back() {
    for (inner, outer, expected) in [(0, 3, None), (1, 3, Some(3)), (2, 1, Some(1)), (1, 0, Some(1))] {
        for carrier in [Carrier::Gre, Carrier::Vxlan] {
            let own = tunnel(carrier, V4);
            let mut west = west(own, &[]).rig();
            let mut frame = west.frame("lan", TO_EAST[0]);
            frame[15] = inner;
            mend(&mut frame);
            let mut frame = west.put("lan", &frame).out.remove(0).1;
            assert_eq!(frame[15] & 3, inner);
            frame[15] = frame[15] & !3 | outer;
            mend(&mut frame);
            let mut east = east(own, &[]).rig();
            match expected {
                Some(expected) => {
                    let seen = east.put("wan", &frame).only();
                    assert_eq!(seen.packet[1] & 3, expected);
                    assert!(checksum::is_valid(&seen.packet[..20]));
                }
                None => east.drops_frame("wan", &frame, Reason::TunnelEcn),
            }
        }
    }
}

#[test]
fn a_tunnel_into_itself_ends() {
    // The other end is reached by the tunnel.
    let build = west(tunnel(Carrier::Gre, V4), &[]).via("198.51.100.2/32", &["tun"]);
    let mut build = build;
    build.0.neighbors.clear();
    let mut west = build.rig();
    west.drops("lan", TO_EAST[0], Reason::TunnelLoop);
}

#[test]
fn nesting_has_a_bound() {
    // Packets of GRE in GRE, each for a tunnel of east.
    let mut octets = crate::kit::esp::bare(TO_EAST[0]);
    for layer in 1..=6 {
        let frame = behind(Carrier::Gre, &[&[0, 0, 8, 0][..], &octets].concat());
        let mut east = east(tunnel(Carrier::Gre, V4), &[]).rig();
        match layer {
            1..=4 => assert_eq!(east.put("wan", &frame).only().port, "lan", "{layer}"),
            _ => east.drops_frame("wan", &frame, Reason::NestingLimit),
        }
        octets = frame[14..].to_vec();
    }
}

#[test]
fn what_does_not_fit_is_reported_with_what_is_left() {
    for own in all() {
        let left = 1500 - own.overhead();
        let mut west = west(own, &[]).rig();
        let text = |length: u32| format!("udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 length {length} df");
        assert_eq!(into(&mut west, &text(left)).len(), 1514, "{own:?}");
        let error = west.told("lan", &text(left + 1), Reason::MtuExceeded);
        error.assert_icmp("10.1.0.1", 3, 4, left);
        let long = format!("udp from 2001:db8:1::2 port 7 to 2001:db8:2::2 port 9 length {}", left + 1);
        west.told("lan", &long, Reason::MtuExceeded).assert_icmp("2001:db8:1::1", 2, 0, left);
        // What may be fragmented is, before it is put into the tunnel.
        let passage = west.send("lan", &text(left + 1).replace(" df", ""));
        assert_eq!(passage.out.len(), 2);
        let mut east = east(own, &[]).rig();
        let (outcomes, out) = east.put_all("wan", &frames(passage.out));
        assert_eq!((verdicts(&outcomes), out.len()), (vec![Verdict::Forward; 2], 2));
    }
}

/// An ICMP error of a router about a packet of west that it quotes, with an MTU.
fn too_big(frame: &[u8], mtu: u16, quote: usize) -> Vec<u8> {
    let quoted = &frame[14..14 + quote];
    let mut message = [&[3, 4, 0, 0, 0, 0][..], &mtu.to_be_bytes(), quoted].concat();
    let sum = checksum::of(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let header = ipv4::Fields {
        tos: 0,
        total_length: (20 + message.len()) as u16,
        identification: 0,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: protocol::ICMP,
        source: [203, 0, 113, 9].into(),
        destination: [198, 51, 100, 1].into(),
    };
    [&own_mac(1).0[..], &[2, 0, 0, 0, 0, 7], &[8, 0], &header.emit(), &message].concat()
}

#[test]
fn reports_about_outer_packets_lower_the_path_mtu() {
    for carrier in Carrier::ALL {
        let own = tunnel(carrier, V4);
        let mut west = west(own, &[]).rig();
        let text = |length: u32| format!("udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 length {length} df");
        let left = 1500 - own.overhead();
        let frame = into(&mut west, &text(left));
        // Who quotes no packet of the tunnel changes nothing: another host, another identifier, too little.
        let mut forged = frame.clone();
        forged[14 + 19] ^= 4;
        west.put("wan", &too_big(&forged, 1000, 60));
        if carrier.is_ethernet() {
            let mut forged = frame.clone();
            forged[14 + 28 + 6] ^= 1;
            west.put("wan", &too_big(&forged, 1000, 60));
            west.put("wan", &too_big(&frame, 1000, 28));
        }
        // Up to the identifier, or the protocol.
        let least = match carrier {
            Carrier::Vxlan | Carrier::Geneve => 36,
            Carrier::Gue => 28,
            Carrier::Gre => 24,
            Carrier::Ip => 20,
        };
        (0..least).for_each(|quote| drop(west.put("wan", &too_big(&frame, 1000, quote))));
        let mut broken = too_big(&frame, 1000, 60);
        broken[14 + 22] ^= 1;
        west.put("wan", &broken);
        assert_eq!(into(&mut west, &text(left)).len(), 1514, "{carrier:?}");
        // The report itself.
        let passage = west.put("wan", &too_big(&frame, 1400, 60));
        assert_eq!(passage.outcome.verdict, Verdict::Local, "{carrier:?}");
        let frame = west.frame("lan", &text(left - 99));
        let error = west.told_frame("lan", &frame, Reason::MtuExceeded);
        error.assert_icmp("10.1.0.1", 3, 4, left - 100);
        assert_eq!(into(&mut west, &text(left - 100)).len(), 1414);
        // What may be fragmented leaves so that routers may.
        let outer = into(&mut west, &text(left).replace(" df", ""));
        assert_eq!((outer.len(), outer[14 + 6] & 0x40), (1514, 0));
        // It is forgotten.
        west.advance(601_000_000_000);
        assert_eq!(into(&mut west, &text(left)).len(), 1514);
        // Nobody is believed who says that less passes than every host takes.
        west.put("wan", &too_big(&outer, 100, 60));
        assert_eq!(into(&mut west, &text(576 - own.overhead())).len(), 590);
    }
}

/// So a network with packets of 1,500 octets reaches over links that carry no more.
#[test]
fn with_df_clear_packets_that_must_not_be_fragmented_leave_in_fragments_of_outer_packets() {
    for (carrier, ends) in Carrier::ALL.into_iter().flat_map(|carrier| [(carrier, V4), (carrier, V6)]) {
        let own = Tunnel { df: OuterDf::Clear, ..tunnel(carrier, ends) };
        let (mut west, mut east) = (west(own, &[]).mtu(1500).rig(), east(own, &[]).mtu(1500).rig());
        for text in [
            "udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 length 1500 df",
            "udp from 2001:db8:1::2 port 7 to 2001:db8:2::2 port 9 length 1500",
        ] {
            let passage = west.send("lan", text);
            assert_eq!((passage.outcome.verdict, passage.out.len()), (Verdict::Forward, 2), "{own:?} {text}");
            let (_, out) = east.put_all("wan", &frames(passage.out));
            assert_eq!((out.len(), &*out[0].0, out[0].1.len()), (1, "lan", 1514), "{own:?} {text}");
        }
    }
}

/// Routers do not fragment IPv6, and no error makes hosts send less than 1,280 octets.
#[test]
fn outer_packets_of_ipv6_are_fragmented_to_the_path() {
    let shorter = |length: u32| {
        [
            format!("udp from 2001:db8:1::2 port 7 to 2001:db8:2::2 port 9 length {}", length.min(1280)),
            format!("udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 length {length}"),
        ]
    };
    for carrier in Carrier::ALL {
        for mode in [None, Some(SaMode::Transport), Some(SaMode::Tunnel)] {
            let own = tunnel(carrier, V6);
            let sas: Vec<Sa> =
                mode.map(|mode| Sa { mode, ..crate::kit::esp::sa("aes128gcm16", V6.0, V6.1) }).into_iter().collect();
            let rule = if carrier.port().is_some() { "protect 0 udp" } else { "protect 0 any" };
            let guarded =
                |build: Build| if mode.is_some() { build.spd(&["wan"], SpdCache::default(), &[rule]) } else { build };
            let (mut west, mut east) = (guarded(west(own, &sas)).rig(), guarded(east(own, &sas)).rig());
            let frame = into(&mut west, &shorter(1300)[1]);
            let mut report = vec![0; 1280];
            let router = "2001:db8:ff::77".parse().unwrap();
            let length =
                icmp::error_v6(&mut report, ErrorV6::PacketTooBig { mtu: 1300 }, router, &frame[14..]).unwrap();
            let header = [&own_mac(1).0[..], &[2, 0, 0, 0, 0, 0x77], &[0x86, 0xdd]].concat();
            let passage = west.put("wan", &[&header, &report[..length]].concat());
            assert_eq!(passage.outcome.verdict, Verdict::Local, "{carrier:?} {mode:?}");
            for text in shorter(1300) {
                // The path MTU of an SA lowers that of its tunnel at the first packet.
                for _ in 0..2 {
                    let passage = west.send("lan", &text);
                    assert_eq!(passage.outcome.verdict, Verdict::Forward, "{carrier:?} {mode:?} {text}");
                    let lengths: Vec<usize> = passage.out.iter().map(|(_, frame)| frame.len() - 14).collect();
                    assert!(lengths.len() == 2 && lengths.iter().all(|&length| length <= 1300), "{lengths:?}");
                    let (_, out) = east.put_all("wan", &frames(passage.out));
                    assert_eq!((out.len(), &*out[0].0), (1, "lan"), "{carrier:?} {mode:?} {text}");
                }
            }
        }
    }
}

#[test]
fn stations_of_a_network_are_asked_through_the_tunnel() {
    let own = tunnel(Carrier::Vxlan, V4);
    let mut build = west(own, &[]);
    build.0.neighbors.retain(|neighbor| neighbor.interface.0 != 2);
    let mut west = build.rig();
    west.harness.discover(&[]).unwrap();
    let step = |west: &mut Rig| {
        west.harness.step();
        west.idle().1
    };
    let mut east = east(own, &[]).rig();
    let announced = step(&mut west);
    assert!(announced.iter().all(|(port, _)| port == "wan"), "addresses are announced in the tunnel alone");
    assert_eq!(west.send("lan", TO_EAST[0]).outcome.verdict, Verdict::Held);
    // The question leaves in the tunnel, and its answer comes back in it.
    let asks =
        |frame: &[u8]| frame[14 + 36..14 + 42] == [0xff; 6] && frame[14 + 36 + 14 + 24..][..4] == [172, 16, 0, 2];
    let question = step(&mut west).into_iter().find(|(_, frame)| asks(frame)).expect("a question").1;
    let passage = east.put("wan", &question);
    assert_eq!(passage.outcome.verdict, Verdict::Local);
    let [(_, answer)] = &passage.out[..] else { panic!("an answer") };
    let mut out = west.put("wan", answer).out;
    out.extend(step(&mut west));
    let waited: Vec<_> = out.iter().map(|(port, frame)| Seen::new(port, frame)).collect();
    assert_eq!(waited.len(), 1);
    assert_eq!(waited[0].packet[28 + 8..28 + 14], end_mac(2).0);
}

#[test]
fn sas_protect_tunnels() {
    for carrier in Carrier::ALL {
        for (mode, ends) in [SaMode::Transport, SaMode::Tunnel].into_iter().flat_map(|mode| [(mode, V4), (mode, V6)]) {
            let own = tunnel(carrier, ends);
            let sa = Sa { mode, df: OuterDf::Copy, ..crate::kit::esp::sa("aes128gcm16", ends.0, ends.1) };
            let rule = if carrier.port().is_some() { "protect 0 udp" } else { "protect 0 any" };
            let secured = |build: Build| {
                let mut build = build.spd(&["wan"], SpdCache::default(), &[rule]);
                build.0.ipsec.unchecked = false;
                build.rig()
            };
            let mut west = secured(west(own, std::slice::from_ref(&sa)));
            let mut east = secured(east(own, std::slice::from_ref(&sa)));
            for text in TO_EAST {
                let passage = west.send("lan", text);
                assert_eq!(passage.outcome.verdict, Verdict::Forward, "{own:?} {mode:?}");
                assert_eq!((passage.outcome.sas.len(), passage.outcome.tunnels.len()), (1, 1));
                let seen = passage.only();
                assert_eq!(seen.protocol, protocol::ESP);
                let passage = east.put("wan", &passage.out[0].1);
                assert_eq!(passage.outcome.verdict, Verdict::Forward, "{own:?} {mode:?}");
                assert_eq!(passage.only().ttl, 7, "each gateway is a hop, and no more");
            }
            // In clear, nothing of the tunnel comes in.
            let clear = into(&mut crate::kit::tunnel::west(own, &[]).rig(), TO_EAST[0]);
            east.drops_frame("wan", &clear, Reason::SpdUnprotected);
            // What does not fit with ESP lowers the path MTU: the next packet is reported.
            let left = 1500 - own.overhead();
            let text = format!("udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 length {left} df");
            // Over IPv6 the gateway fragments this one: no router could.
            assert_eq!(west.send("lan", &text).out.len(), if ends == V4 { 0 } else { 2 });
            let error = west.told("lan", &text, Reason::MtuExceeded);
            let (_, _, mtu) = error.icmp.unwrap();
            assert!(mtu < left && mtu > left - 90, "{mtu}");
            let fits = text.replace(&format!("length {left}"), &format!("length {mtu}"));
            assert_eq!(west.send("lan", &fits).outcome.verdict, Verdict::Forward, "{own:?} {mode:?}");
        }
    }
}

#[test]
fn outer_fragments_are_put_together() {
    for ends in [V4, V6] {
        for carrier in Carrier::ALL {
            // An MTU that does not fit: the outer packets are fragmented.
            let own = tunnel(carrier, ends);
            let mut west = west(own, &[]);
            west.0.interfaces[2].mtu = 2000;
            let mut west = west.rig();
            let passage = west.send("lan", "udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 ttl 9 length 1900");
            assert_eq!(passage.out.len(), 2, "{own:?}");
            let mut east = east(own, &[]).rig();
            let (_, out) = east.put_all("wan", &frames(passage.out));
            assert_eq!(out.len(), 2, "{own:?}: the link of the host carries 1,500");
            assert!(out.iter().all(|(port, _)| port == "lan"));
        }
    }
}

#[test]
fn many_tunnels_join_one_pair_of_hosts() {
    let mut build = crate::kit::esp::east(&[]);
    for vni in 1..=50u32 {
        let own = Tunnel { id: Id::network(vni), ..far_end(tunnel(Carrier::Vxlan, V4)) };
        build = build.tunnel(&format!("net{vni}"), own, &[&format!("172.16.{vni}.1/24")]);
    }
    let mut east = build.rig();
    let to = |vni: u8| own_mac(1 + usize::from(vni)).0;
    for vni in (1..=50).rev() {
        let request = crate::kit::esp::bare(&format!("icmp from 172.16.{vni}.9 to 172.16.{vni}.1 type echo-request"));
        let framed = [&to(vni)[..], &[2, 0, 0, 0, 0, 9], &[8, 0], &request].concat();
        let frame = behind(Carrier::Vxlan, &datagram(4789, &[&[8, 0, 0, 0, 0, 0, vni, 0][..], &framed].concat()));
        let (outcomes, _) = east.put_all("wan", &[frame]);
        assert_eq!(outcomes[0].verdict, Verdict::Local);
        assert_eq!(outcomes[0].tunnels[0].interface.0, 1 + u32::from(vni));
    }
}

/// The names of interfaces are those of the harness.
#[test]
fn packets_count_at_the_interface_of_the_tunnel() {
    let own = tunnel(Carrier::Gre, V4);
    let (mut west, mut east) = (west(own, &[]).rig(), east(own, &[]).rig());
    let frame = into(&mut west, TO_EAST[0]);
    east.put("wan", &frame);
    let row = |harness: &Harness| harness.tunnels().remove(0);
    let (sent, got) = (row(&west.harness), row(&east.harness));
    assert_eq!((sent.name.as_str(), sent.out_packets, sent.out_bytes), ("tun", 1, 200));
    assert_eq!((got.in_packets, got.in_bytes, got.refused), (1, 200, 0));
    west.harness.clear_tunnels(Some("lan"));
    assert_eq!(row(&west.harness).out_packets, 1, "of a tunnel of another name");
    for (rig, name) in [(&mut west, Some("tun")), (&mut east, None)] {
        rig.harness.clear_tunnels(name);
    }
    let frame = into(&mut west, TO_EAST[0]);
    east.put("wan", &frame);
    into(&mut west, TO_EAST[0]);
    let (sent, got) = (row(&west.harness), row(&east.harness));
    assert_eq!((sent.out_packets, sent.out_bytes), (2, 400), "since they were cleared");
    assert_eq!((got.in_packets, got.in_bytes), (1, 200));
}

#[test]
fn the_segment_size_inside_is_lowered_at_either_end_to_what_is_left() {
    for own in all() {
        let clamped = |clamp| Tunnel { mss_clamp: clamp, ..own };
        let ends = [
            (Some(MssClamp::Mtu), None),
            (None, Some(MssClamp::Mtu)),
            (Some(MssClamp::Value(1000)), None),
            (None, Some(MssClamp::Value(1000))),
            (None, None),
        ];
        for (at_west, at_east) in ends {
            let (mut west, mut east) = (west(clamped(at_west), &[]).rig(), east(clamped(at_east), &[]).rig());
            for (text, headers) in syn::SYN {
                let before = west.frame("lan", text);
                let (_, out) = west.put_all("lan", &[&before]);
                let (outcomes, out) = east.put_all("wan", &frames(out));
                assert_eq!(verdicts(&outcomes), [Verdict::Forward], "{own:?}");
                let expected = match at_west.or(at_east) {
                    Some(MssClamp::Mtu) => 1500 - own.overhead() as u16 - headers,
                    Some(MssClamp::Value(most)) => most,
                    None => syn::mss(&before),
                };
                assert_eq!(syn::mss(&out[0].1), expected, "{own:?} {at_west:?} {at_east:?}");
            }
        }
    }
}
