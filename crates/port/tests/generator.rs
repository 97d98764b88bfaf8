//! Generators.

mod common;

use std::collections::HashSet;

use common::*;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use weir_base::clock::Time;
use weir_packet::buffer::{Pool, PoolSize};
use weir_packet::vector::Vector;
use weir_port::Burst;
use weir_port::spec::*;

/// Checks every length and checksum of the frame. Returns the fields of its flow.
fn check(frame: &[u8], spec: &TemplateSpec) -> (Vec<u8>, u16, u16) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let vlans: Vec<u16> = packet.vlan_ids().iter().map(|id| id.value()).collect();
    assert_eq!(vlans, spec.vlan.iter().map(|(_, id)| *id).collect::<Vec<_>>());
    let (addresses, payload) = match packet.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(usize::from(header.total_len), frame.len() - 14 - 4 * spec.vlan.len());
            assert_eq!((header.time_to_live, header.dont_fragment), (spec.ttl, spec.dont_fragment));
            ([header.source, header.destination].concat(), ip.payload().payload)
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header().to_header();
            assert_eq!(usize::from(header.payload_length), frame.len() - 54 - 4 * spec.vlan.len());
            assert_eq!(header.hop_limit, spec.ttl);
            ([header.source, header.destination].concat(), ip.payload().payload)
        }
        NetSlice::Arp(_) => panic!("no template makes ARP"),
    };
    let transport = packet.transport.as_ref().unwrap();
    let (source, destination, carried) = match (transport, packet.net.as_ref().unwrap()) {
        (TransportSlice::Udp(udp), net) => {
            let header = udp.to_header();
            assert_eq!(usize::from(header.length), payload.len());
            let sum = match net {
                NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()),
                NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload()),
                NetSlice::Arp(_) => unreachable!(),
            };
            assert_eq!(header.checksum, sum.unwrap());
            (header.source_port, header.destination_port, udp.payload())
        }
        (TransportSlice::Tcp(tcp), net) => {
            let header = tcp.to_header();
            let sum = match net {
                NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), tcp.payload()),
                NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), tcp.payload()),
                NetSlice::Arp(_) => unreachable!(),
            };
            assert_eq!(header.checksum, sum.unwrap());
            assert!(header.ack && !header.syn);
            (header.source_port, header.destination_port, tcp.payload())
        }
        (TransportSlice::Icmpv4(icmp), _) => {
            assert_eq!(etherparse::checksum::Sum16BitWords::new().add_slice(icmp.slice()).ones_complement(), 0);
            assert_eq!(icmp.type_u8(), 8);
            (u16::from_be_bytes(icmp.slice()[4..6].try_into().unwrap()), 0, &icmp.slice()[8..])
        }
        (TransportSlice::Icmpv6(icmp), NetSlice::Ipv6(ip)) => {
            let header = ip.header().to_header();
            assert!(icmp.is_checksum_valid(header.source, header.destination));
            assert_eq!(icmp.type_u8(), 128);
            (u16::from_be_bytes(icmp.slice()[4..6].try_into().unwrap()), 0, &icmp.slice()[8..])
        }
        _ => panic!("unexpected transport"),
    };
    assert!(carried.iter().enumerate().all(|(index, &octet)| octet == index as u8));
    (addresses, source, destination)
}

fn templates() -> impl Strategy<Value = TemplateSpec> {
    let transport = prop_oneof![Just(Transport::Udp), Just(Transport::Tcp), Just(Transport::Icmp)];
    let vlan = prop_oneof![Just(vec![]), Just(vec![(0x8100, 7)]), Just(vec![(0x88a8, 100), (0x8100, 4094)]),];
    let size = prop_oneof![
        (82u32..3000).prop_map(SizeSpec::Fixed),
        (82u32..400, 0u32..1500).prop_map(|(low, more)| SizeSpec::Range(low, low + more)),
        Just(SizeSpec::Imix),
        Just(SizeSpec::Fixed(65_535)),
    ];
    (any::<bool>(), transport, vlan, size, 1u32..500, any::<u64>(), any::<bool>(), any::<u8>()).prop_map(
        |(v6, protocol, vlan, size, flows, seed, dont_fragment, ttl)| {
            let base = if v6 { template_v6() } else { template() };
            TemplateSpec { protocol, vlan, size, flows, seed, dont_fragment, ttl, ..base }
        },
    )
}

proptest! {
    #[test]
    fn every_packet_is_right_and_every_flow_distinct(spec in templates()) {
        let flows = u64::from(spec.flows);
        let spec_of = |count| generator([stream(spec.clone(), None, Some(count))]);
        let packets = all(&mut *open(&spec_of(flows * 2), 1).receivers()[0], Time(9));
        prop_assert_eq!(packets.len() as u64, flows * 2);
        let seen: Vec<_> = packets.iter().map(|packet| check(&packet.frame, &spec)).collect();
        prop_assert_eq!(seen[..flows as usize].iter().collect::<HashSet<_>>().len() as u64, flows);
        prop_assert_eq!(&seen[..flows as usize], &seen[flows as usize..], "the second round goes the same way");
        // The same again gives the same octets, and another seed does not.
        let again = all(&mut *open(&spec_of(flows * 2), 1).receivers()[0], Time(9));
        prop_assert_eq!(&packets, &again);
    }

    #[test]
    fn queues_share_flows_and_counts_add_up(
        spec in templates(), queues in 1u16..9, count in 0u64..2000, second in 0u64..300,
    ) {
        let spec = TemplateSpec { size: SizeSpec::Fixed(100), ..spec };
        let other = TemplateSpec { seed: 5, flows: 3, ..spec.clone() };
        let streams = [stream(spec.clone(), None, Some(count)), stream(other, None, Some(second))];
        let alone = all(&mut *open(&generator(streams.clone()), 1).receivers()[0], Time(0));
        prop_assert_eq!(alone.len() as u64, count + second);
        let mut shared = Vec::new();
        let mut owner = std::collections::HashMap::new();
        for (queue, receiver) in open(&generator([streams[0].clone()]), queues).receivers().iter_mut().enumerate() {
            for packet in all(&mut **receiver, Time(0)) {
                prop_assert_eq!(*owner.entry(check(&packet.frame, &spec)).or_insert(queue), queue);
            }
        }
        for receiver in &mut open(&generator(streams), queues).receivers() {
            shared.extend(all(&mut **receiver, Time(0)));
        }
        let sorted = |mut packets: Vec<Got>| { packets.sort(); packets };
        prop_assert_eq!(sorted(shared), sorted(alone), "the same packets, whatever the queues");
    }

    #[test]
    fn rates_are_kept_within_a_packet(
        rates in prop::collection::vec(1u64..3_000_000, 1..4), queues in 1u16..4,
        steps in prop::collection::vec(0u64..200_000, 1..50),
    ) {
        let streams: Vec<_> = rates.iter().enumerate().map(|(index, &rate)| {
            stream(TemplateSpec { size: SizeSpec::Fixed(60 + index as u32), ..template() }, Some(rate), None)
        }).collect();
        let mut port = open(&generator(streams), queues);
        let (mut receivers, mut cache) = (port.receivers(), cache());
        let (start, mut elapsed) = (1_000_000, 0);
        let mut got = vec![0u64; rates.len()];
        for step in std::iter::once(0).chain(steps) {
            elapsed += step;
            for receiver in &mut receivers {
                loop {
                    let (packets, state) = burst(&mut **receiver, &mut cache, Time(start + elapsed));
                    packets.iter().for_each(|packet| got[packet.frame.len() - 60] += 1);
                    if state == Burst::Idle { break }
                    prop_assert_eq!(state, Burst::More);
                }
            }
            for (rate, got) in rates.iter().zip(&got) {
                let exact = *rate as f64 * elapsed as f64 / 1e9;
                prop_assert!((*got as f64 - exact).abs() <= 1.0, "{got} packets, {exact} expected");
            }
        }
    }
}

#[test]
fn the_seed_decides_what_is_made() {
    let with = |seed| {
        let spec = generator([stream(TemplateSpec { seed, ..template() }, None, Some(100))]);
        all(&mut *open(&spec, 1).receivers()[0], Time(0))
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

#[test]
fn streams_take_turns_in_proportion_to_their_rates() {
    let of = |size, rate| stream(TemplateSpec { size: SizeSpec::Fixed(size), ..template() }, rate, None);
    let mut port = open(&generator([of(60, Some(1000)), of(61, Some(3000)), of(62, None)]), 1);
    let (mut receivers, mut cache) = (port.receivers(), cache());
    burst(&mut *receivers[0], &mut cache, Time(0));
    let (packets, _) = burst(&mut *receivers[0], &mut cache, Time(20_000_000));
    let sizes: Vec<usize> = packets.iter().map(|packet| packet.frame.len()).collect();
    assert_eq!(sizes.len(), 256);
    assert_eq!(sizes[..80].iter().filter(|&&size| size == 60).count(), 20);
    assert!(sizes[..80].chunks(4).all(|turn| turn.iter().filter(|&&size| size == 61).count() == 3));
    assert!(sizes[80..].iter().all(|&size| size == 62));

    let mut port = open(&generator([of(60, None), of(61, None)]), 1);
    let (packets, _) = burst(&mut *port.receivers()[0], &mut cache, Time(0));
    assert!(packets.chunks(2).all(|turn| (turn[0].frame.len(), turn[1].frame.len()) == (60, 61)));
}

#[test]
fn imix_and_ranges_are_even() {
    let sizes = |size| {
        let spec = generator([stream(TemplateSpec { size, ..template() }, None, Some(12_000))]);
        let packets = all(&mut *open(&spec, 1).receivers()[0], Time(0));
        packets.iter().map(|packet| packet.frame.len()).collect::<Vec<_>>()
    };
    let imix = sizes(SizeSpec::Imix);
    for (size, share) in [(60, 7000_i64), (590, 4000), (1514, 1000)] {
        let count = imix.iter().filter(|&&len| len == size).count() as i64;
        assert!((count - share).abs() <= 3, "{count} of {size}");
    }
    let range = sizes(SizeSpec::Range(101, 120));
    for size in 101..=120 {
        let count = range.iter().filter(|&&len| len == size).count() as i64;
        assert!((count - 600).abs() <= 3, "{count} of {size}");
    }
    // Headers of 74 octets: the small frames of the mix are as short as they can be.
    let spec = TemplateSpec { size: SizeSpec::Imix, protocol: Transport::Tcp, ..template_v6() };
    let spec = generator([stream(spec, None, Some(12))]);
    assert_eq!(all(&mut *open(&spec, 1).receivers()[0], Time(0)).iter().map(|p| p.frame.len()).min(), Some(74));
}

#[test]
fn packets_that_may_be_cut_have_different_identifications() {
    let spec = TemplateSpec { dont_fragment: false, flows: 1, ..template() };
    let packets = all(&mut *open(&generator([stream(spec, None, Some(1000))]), 1).receivers()[0], Time(0));
    let identifications: HashSet<_> = packets.iter().map(|packet| packet.frame[18..20].to_vec()).collect();
    assert_eq!(identifications.len(), 1000);
}

#[test]
fn a_shortage_of_buffers_loses_nothing() {
    let of = |size, count| stream(TemplateSpec { size: SizeSpec::Fixed(size), ..template() }, None, Some(count));
    let pool = Pool::new(PoolSize { small: 10, large: 1 }).unwrap();
    let mut cache = pool.cache();
    let mut receivers = open(&generator([of(64, 100), of(9000, 7)]), 1).receivers();
    let (mut small, mut large) = (0, 0);
    loop {
        let (packets, state) = burst(&mut *receivers[0], &mut cache, Time(0));
        assert!(packets.len() <= 11);
        small += packets.iter().filter(|packet| packet.frame.len() == 64).count();
        large += packets.iter().filter(|packet| packet.frame.len() == 9000).count();
        if state == Burst::Ended {
            break;
        }
        assert_eq!(state, Burst::More);
    }
    assert_eq!((small, large), (100, 7));
}

#[test]
fn ranges_bound_the_flows() {
    let one = "10.0.0.1".parse().unwrap();
    let spec = TemplateSpec {
        source: (one, one),
        source_port: (5, 6),
        destination: (one, "10.0.0.3".parse().unwrap()),
        destination_port: (7, 7),
        flows: 1000,
        ..template()
    };
    let packets = all(&mut *open(&generator([stream(spec.clone(), None, Some(1000))]), 3).receivers()[0], Time(0));
    assert_eq!(packets.iter().map(|packet| check(&packet.frame, &spec)).collect::<HashSet<_>>().len(), 2);
    let mut receivers = open(&generator([stream(spec, None, None)]), 8).receivers();
    let mut vector = Vector::new();
    assert_eq!(receivers[6].receive(&mut vector, &mut cache(), Time(0)), Burst::Ended, "a queue without a flow");
}

#[test]
fn addresses_default_to_the_interface() {
    let packets = all(&mut *open(&generator([stream(template(), None, Some(1))]), 1).receivers()[0], Time(0));
    assert_eq!(packets[0].frame[..7], [2, 0, 0, 0, 0, 1, 2]);
    let spec = TemplateSpec { destination_mac: Some([4; 6]), source_mac: Some([6; 6]), ..template() };
    let packets = all(&mut *open(&generator([stream(spec, None, Some(1))]), 1).receivers()[0], Time(0));
    assert_eq!(packets[0].frame[..12], [4, 4, 4, 4, 4, 4, 6, 6, 6, 6, 6, 6]);
}

#[test]
fn more_flows_than_can_be_kept_ready_are_still_distinct() {
    let spec = TemplateSpec { flows: 1 << 24, source_port: (0, 65535), ..template() };
    let mut port = open(&generator([stream(spec.clone(), None, Some(5000))]), 1);
    let packets = all(&mut *port.receivers()[0], Time(0));
    assert_eq!(packets.iter().map(|packet| check(&packet.frame, &spec)).collect::<HashSet<_>>().len(), 5000);
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let message = |template: TemplateSpec| {
        let spec = generator([stream(template, None, None)]);
        weir_port::open(&spec, &Middleware::default(), 1, &context()).err().expect("refused").to_string()
    };
    let size = |size| message(TemplateSpec { size, ..template() });
    assert_eq!(
        size(SizeSpec::Fixed(41)),
        "stream 1: frames of 41 octets are too short for their headers, which take 42"
    );
    assert!(size(SizeSpec::Range(60, u32::MAX)).contains("at most 65549"));
    assert!(size(SizeSpec::Range(70_000, 80_000)).contains("too long"));
    assert!(size(SizeSpec::Range(u32::MAX, u32::MAX)).contains("too long"));
    assert!(size(SizeSpec::Range(61, 60)).contains("`size`"));
    assert!(message(TemplateSpec { flows: 0, ..template() }).contains("1 to 16777216"));
    assert!(message(TemplateSpec { vlan: vec![(0x8100, 1); 3], ..template() }).contains("at most two"));
    assert!(message(TemplateSpec { vlan: vec![(0x8100, 4095)], ..template() }).contains("4095"));
    assert!(message(TemplateSpec { destination: template_v6().destination, ..template() }).contains("family"));
    assert!(message(TemplateSpec { source_port: (2, 1), ..template() }).contains("`source-port`"));
    let open = |streams: Vec<_>| weir_port::open(&generator(streams), &Middleware::default(), 1, &context());
    assert!(open(vec![]).is_err());
    assert!(open(vec![stream(template(), Some(0), None)]).is_err());
}
