//! Packets for property tests.

use std::net::IpAddr;

use proptest::prelude::*;
use proptest::sample::select;

use crate::wire::{MacAddress, icmpv4, icmpv6, protocol, tcp};

/// A packet in the printed form. Every option that goes with the protocol may be there.
pub(crate) fn texts() -> impl Strategy<Value = String> {
    const PROTOCOLS: [&str; 10] = ["tcp", "udp", "udplite", "sctp", "dccp", "icmp", "esp", "ah", "gre", "254"];
    let options = (
        proptest::option::of(any::<u8>()),
        proptest::option::of(0u32..1500),
        proptest::option::of(0u8..64),
        proptest::option::of((0u16..4000, any::<bool>())),
        proptest::option::of(any::<u8>()),
        proptest::option::of(any::<u8>()),
        proptest::option::of((0u16..4095, proptest::option::of(0u16..4095))),
        proptest::option::of(any::<[u8; 6]>()),
    );
    (select(&PROTOCOLS[..]), any::<bool>(), any::<[u128; 2]>(), any::<[u16; 2]>(), options).prop_map(
        |(protocol, v4, addresses, ports, (ttl, extra, dscp, part, first, second, vlan, mac))| {
            let address = |bits: u128| match v4 {
                true => IpAddr::from((bits as u32).to_be_bytes()),
                false => IpAddr::from(bits.to_be_bytes()),
            };
            let protocol = match (protocol, v4) {
                ("icmp", false) => "icmp6",
                ("ah", false) => "esp",
                (other, _) => other,
            };
            let part = part.map(|(offset, more)| (offset * 8, more || offset == 0));
            let later = part.is_some_and(|part| part.0 != 0);
            let has_ports = protocol::NAMES.number(protocol).is_some_and(protocol::has_ports);
            let port = |n: u16| if has_ports && !later { format!(" port {n}") } else { String::new() };
            let (from, to) = (address(addresses[0]), address(addresses[1]));
            let mut text = format!("{protocol} from {from}{} to {to}{}", port(ports[0]), port(ports[1]));
            let mut add = |option: &str, value: Option<String>| {
                if let Some(value) = value {
                    text += &format!(" {option} {value}");
                }
            };
            add("ttl", ttl.map(|n| n.to_string()));
            // 72 octets hold the headers of every one of them.
            add("length", extra.map(|n| (72 + n / 8 * 8 + if v4 { 4 } else { 0 }).to_string()));
            add("dscp", dscp.map(|n| n.to_string()));
            add("fragment", part.map(|(offset, more)| format!("{offset}{}", if more { "+" } else { "" })));
            if !later {
                match protocol {
                    "tcp" => {
                        add("flags", first.map(|n| tcp::Flags(n).to_string()));
                        add("mss", second.map(|n| (u16::from(n) * 251).to_string()));
                    }
                    "icmp" | "icmp6" => {
                        let names = if v4 { &icmpv4::NAMES } else { &icmpv6::NAMES };
                        add("type", first.map(|n| names.name(n).map_or(n.to_string(), str::to_owned)));
                        add("code", second.map(|n| n.to_string()));
                    }
                    "esp" | "ah" => add("spi", first.map(|n| format!("0x{n:x}"))),
                    _ => {}
                }
            }
            add("vlan", vlan.map(|(outer, _)| outer.to_string()));
            add("inner", vlan.and_then(|(_, inner)| inner).map(|inner| inner.to_string()));
            add("mac-to", mac.map(|mac| MacAddress(mac).to_string()));
            text
        },
    )
}
