//! A frame in one line, as traces show it.

use std::fmt;

use crate::mss;
use crate::parse::{self, Malformed, ParseFlags, Parsed};
use crate::wire::ethernet::ethertype;
use crate::wire::{arp, icmpv4, icmpv6, ipv4, ipv6, protocol, udp};

/// A frame in one line, to be printed: `vlan 7 IP4 10.0.0.1 > 192.0.2.9 tcp 1000 > 443 flags syn ttl 64 length 40`.
///
/// `length` is that of the IP packet in octets. Whatever the bytes are, there is a line; what is malformed says so.
pub fn summary(frame: &[u8]) -> Summary<'_> {
    Summary { frame, bare: false }
}

/// As [`summary`], for an IP packet without a link-layer header: one that was made here and has none yet.
pub fn packet_summary(packet: &[u8]) -> Summary<'_> {
    Summary { frame: packet, bare: true }
}

/// See [`summary`].
#[derive(Debug, Clone, Copy)]
pub struct Summary<'a> {
    frame: &'a [u8],
    bare: bool,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frame = self.frame;
        if self.bare {
            return match frame.first().map(|first| first >> 4) {
                Some(6) => ip(f, "IP6", frame, frame, parse::ipv6(frame, 0)),
                _ => ip(f, "IP4", frame, frame, parse::ipv4(frame, 0)),
            };
        }
        let l2 = match parse::ethernet(frame) {
            Ok(l2) => l2,
            Err(malformed) => return write!(f, "malformed {} length {}", malformed.name(), frame.len()),
        };
        if let Some(outer) = l2.tags.outer {
            write!(f, "vlan {} ", outer.vid())?;
        }
        if let Some(inner) = l2.tags.inner {
            write!(f, "inner {} ", inner.vid())?;
        }
        let l3 = usize::from(l2.l3);
        let payload = frame.get(l3..).unwrap_or(&[]);
        match l2.ethertype {
            ethertype::IPV4 => ip(f, "IP4", frame, payload, parse::ipv4(frame, l3)),
            ethertype::IPV6 => ip(f, "IP6", frame, payload, parse::ipv6(frame, l3)),
            ethertype::ARP => match arp::Fields::parse(payload) {
                Ok(arp) if arp.operation == arp::Operation::Request => {
                    write!(f, "ARP who-has {} tell {}", arp.target, arp.sender)
                }
                Ok(arp) => write!(f, "ARP {} is-at {}", arp.sender, arp.sender_mac),
                Err(_) => write!(f, "ARP malformed length {}", payload.len()),
            },
            other => {
                write!(f, "{} > {} ethertype 0x{other:04x} length {}", l2.source, l2.destination, payload.len())
            }
        }
    }
}

fn ip(
    f: &mut fmt::Formatter<'_>,
    family: &str,
    frame: &[u8],
    packet: &[u8],
    parsed: Result<Parsed, Malformed>,
) -> fmt::Result {
    f.write_str(family)?;
    let (ttl, dscp) = match packet.first().map(|first| first >> 4) {
        Some(4) => match ipv4::Header::new(packet) {
            Ok(header) => {
                write!(f, " {} > {}", header.source(), header.destination())?;
                (header.ttl(), header.dscp())
            }
            Err(_) => (0, 0),
        },
        Some(6) => match ipv6::Header::new(packet) {
            Ok(header) => {
                write!(f, " {} > {}", header.source(), header.destination())?;
                (header.hop_limit(), header.dscp())
            }
            Err(_) => (0, 0),
        },
        _ => (0, 0),
    };
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(malformed) => return write!(f, " malformed {} length {}", malformed.name(), packet.len()),
    };
    transport(f, frame, &parsed)?;
    write!(f, " ttl {ttl} length {}", parsed.l3_length)?;
    if dscp != 0 {
        write!(f, " dscp {dscp}")?;
    }
    if parsed.flags.contains(ParseFlags::IP4) {
        if let Ok(header) = ipv4::Header::new(packet) {
            if header.dont_fragment() {
                f.write_str(" df")?;
            }
            if header.is_fragment() {
                let id = u32::from(header.identification());
                fragment(f, header.fragment_offset(), header.more_fragments(), id)?;
            }
        }
    } else if let Ok(ipv6::Walk { fragment: Some(found), .. }) = ipv6::walk(parsed.packet(frame)) {
        fragment(f, found.offset, found.more, found.identification)?;
    }
    if parsed.flags.contains(ParseFlags::OPTIONS) { f.write_str(" options") } else { Ok(()) }
}

fn fragment(f: &mut fmt::Formatter<'_>, offset: u16, more: bool, id: u32) -> fmt::Result {
    write!(f, " fragment {offset}{} id {id}", if more { "+" } else { "" })
}

/// The SPI of a packet of ESP in UDP, on the port that RFC 3948 gives it. 0 marks a message of IKE.
fn esp_in_udp(frame: &[u8], parsed: &Parsed, (source, destination): (u16, u16)) -> Option<u32> {
    const PORT: u16 = 4500;
    if parsed.protocol != protocol::UDP || source != PORT && destination != PORT {
        return None;
    }
    // The SPI and the sequence number are there.
    let esp: &[u8; 8] = parsed.transport(frame).get(udp::LENGTH..)?.first_chunk()?;
    let [a, b, c, d, ..] = *esp;
    Some(u32::from_be_bytes([a, b, c, d])).filter(|&spi| spi != 0)
}

fn transport(f: &mut fmt::Formatter<'_>, frame: &[u8], parsed: &Parsed) -> fmt::Result {
    match protocol::NAMES.name(parsed.protocol) {
        Some(name) => write!(f, " {name}")?,
        None => write!(f, " protocol {}", parsed.protocol)?,
    }
    if parsed.flags.contains(ParseFlags::LATER_FRAGMENT) {
        return Ok(());
    }
    if let Some((source, destination)) = parsed.ports(frame) {
        write!(f, " {source} > {destination}")?;
        if let Some(flags) = parsed.tcp_flags(frame) {
            write!(f, " flags {flags}")?;
        }
        if let Some(mss) = mss::of(parsed, frame) {
            write!(f, " mss {mss}")?;
        }
        return match esp_in_udp(frame, parsed, (source, destination)) {
            Some(spi) => write!(f, " spi 0x{spi:x}"),
            None => Ok(()),
        };
    }
    if let Some((kind, code)) = parsed.icmp(frame) {
        let name = if parsed.protocol == protocol::ICMP { icmpv4::NAMES.name(kind) } else { icmpv6::NAMES.name(kind) };
        match name {
            Some(name) => write!(f, " {name}")?,
            None => write!(f, " type {kind}")?,
        }
        return if code == 0 { Ok(()) } else { write!(f, " code {code}") };
    }
    if parsed.protocol == protocol::ESP
        && let Some(spi) = parsed.transport(frame).first_chunk()
    {
        return write!(f, " spi 0x{:x}", u32::from_be_bytes(*spi));
    }
    let foreign = match parsed.flags.contains(ParseFlags::IP4) {
        true => protocol::ICMPV6,
        false => protocol::ICMP,
    };
    let should = protocol::has_ports(parsed.protocol) || matches!(parsed.protocol, protocol::ICMP | protocol::ICMPV6);
    if should && parsed.protocol != foreign { f.write_str(" truncated") } else { Ok(()) }
}
