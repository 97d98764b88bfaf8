//! Packets of tunnels of a peer that may do what it wants: whatever stands behind the outer header comes to one end,
//! and so does whatever an ICMP error quotes of one.

use std::cell::RefCell;
use std::net::IpAddr;

use weir::config::parse_str;
use weir_base::clock::Time;
use weir_packet::checksum;
use weir_packet::tunnel::{Carrier, is_intact_gre, read};
use weir_packet::wire::geneve::Options as GeneveOptions;
use weir_packet::wire::{gre, ipv4, ipv6, protocol};
use weir_plane::harness::{Harness, Options};

/// The ends of tunnels: of the gateway and of the peer.
const ADDRESSES: [(&str, &str); 2] = [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")];

/// A gateway with a tunnel of each carrier over each family.
fn harness() -> Harness {
    let mut text = r#"
        version = 1
        [[interface]]
        name = "a"
        port = "null"
        address = ["192.0.2.1/24", "2001:db8::1/64", "10.0.0.1/8"]
    "#
    .to_owned();
    for (family, (local, remote)) in ADDRESSES.iter().enumerate() {
        for (at, carrier) in Carrier::ALL.into_iter().enumerate() {
            let name = carrier.name();
            let more = if carrier.is_ethernet() { ", vni = 7" } else { "" };
            text.push_str(&format!(
                "[[interface]]\nname = \"{name}{family}\"\naddress = \"172.16.{}.1/24\"\n\
                 port = {{ {name} = {{ local = \"{local}\", remote = \"{remote}\"{more} }} }}\n",
                family * 10 + at
            ));
        }
    }
    let gateway = parse_str("tunnels.toml", &text).gateway.expect("a configuration without errors");
    Harness::new(gateway, Options { seed: 1, invent_neighbors: true }).expect("room for a small gateway")
}

/// A frame from the peer to the gateway.
fn frame(mac: [u8; 6], family: usize, number: u8, payload: &[u8]) -> Vec<u8> {
    let (local, remote) = ADDRESSES[family];
    let mut frame = [&mac[..], &[2, 0, 0, 0, 0, 9]].concat();
    match (remote.parse(), local.parse()) {
        (Ok(IpAddr::V4(source)), Ok(IpAddr::V4(destination))) => {
            frame.extend([8, 0]);
            let header = ipv4::Fields {
                tos: 3,
                total_length: 20 + payload.len() as u16,
                identification: 1,
                dont_fragment: false,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol: number,
                source,
                destination,
            };
            frame.extend(header.emit());
        }
        (Ok(IpAddr::V6(source)), Ok(IpAddr::V6(destination))) => {
            frame.extend([0x86, 0xdd]);
            let header = ipv6::Fields {
                traffic_class: 1,
                flow_label: 0,
                payload_length: payload.len() as u16,
                next_header: number,
                hop_limit: 64,
                source,
                destination,
            };
            frame.extend(header.emit());
        }
        _ => unreachable!("both ends are of one family"),
    }
    frame.extend_from_slice(payload);
    frame
}

/// An error "too big" about a packet of a tunnel, of which it quotes what it wants.
fn too_big(family: usize, number: u8, quoted: &[u8]) -> Vec<u8> {
    let (local, remote) = ADDRESSES[family];
    match (local.parse(), remote.parse()) {
        (Ok(IpAddr::V4(source)), Ok(IpAddr::V4(destination))) => {
            let header = ipv4::Fields {
                tos: 0,
                total_length: 1500,
                identification: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol: number,
                source,
                destination,
            };
            let mut message = [&[3, 4, 0, 0, 0, 0, 5, 0][..], &header.emit(), quoted].concat();
            let sum = checksum::of(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            message
        }
        (Ok(IpAddr::V6(source)), Ok(IpAddr::V6(destination))) => {
            let header = ipv6::Fields {
                traffic_class: 0,
                flow_label: 0,
                payload_length: 1460,
                next_header: number,
                hop_limit: 64,
                source,
                destination,
            };
            let mut message = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &header.emit(), quoted].concat();
            // The error comes from the other end.
            let length = message.len() as u32;
            let pseudo = checksum::pseudo_v6(destination, source, protocol::ICMPV6, length);
            let sum = pseudo.bytes(&message).checksum();
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            message
        }
        _ => unreachable!("both ends are of one family"),
    }
}

thread_local! {
    static HARNESS: RefCell<Harness> = RefCell::new(harness());
}

/// The target.
pub(crate) fn fuzz(input: &[u8]) {
    let Some((&first, payload)) = input.split_first() else { return };
    if payload.len() > 2000 {
        return;
    }
    for carrier in Carrier::ALL {
        if let Ok(opened) = read(carrier, first, payload) {
            assert!(opened.header <= payload.len());
        }
    }
    let options: usize = GeneveOptions::new(payload).map_while(Result::ok).map(|own| 4 + own.value.len()).sum();
    assert!(options <= payload.len());
    if let Ok(fields) = gre::Fields::parse(payload) {
        assert_eq!(gre::Fields::parse(&fields.emit()[..fields.length()]), Ok(fields));
        let _ = is_intact_gre(payload);
    }
    HARNESS.with_borrow_mut(|harness| {
        let mac = harness.interface_mac(0).unwrap_or_default();
        let family = usize::from(first & 1);
        for carrier in Carrier::ALL {
            let (number, octets) = match carrier.port() {
                Some(port) => {
                    let length = (8 + payload.len()) as u16;
                    let header = [&[0xc0, 1][..], &port.to_be_bytes(), &length.to_be_bytes(), &[0, 0]].concat();
                    (protocol::UDP, [&header, payload].concat())
                }
                None if carrier == Carrier::Gre => (protocol::GRE, payload.to_vec()),
                None => (if first & 2 == 0 { protocol::IPIP } else { protocol::IPV6 }, payload.to_vec()),
            };
            let icmp = [protocol::ICMP, protocol::ICMPV6][family];
            for (number, octets) in [(number, octets), (icmp, too_big(family, number, payload))] {
                let frame = frame(mac, family, number, &octets);
                assert!(harness.inject(0, &frame, Time(0), 1), "there is room for one packet");
                harness.run();
                assert_eq!(harness.conservation().imbalance(), 0);
            }
        }
    });
}
