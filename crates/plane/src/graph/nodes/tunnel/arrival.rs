//! Packets for the gateway that are a tunnel's, and the flows inside of them.

use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags, Parsed, Seed};
use weir_packet::tunnel::{self, Carrier, Inner, Opened, Refused};
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::{ethernet, protocol, udp};

use crate::root::Root;
use crate::root::family::Family;
use crate::root::tunnel::{Key, Tunnel};

/// The meaning of a packet for the gateway to tunnels.
#[derive(Clone, Copy)]
pub(in super::super) enum Arrival<'a> {
    /// A packet of this tunnel, whose header begins at this offset of the frame.
    Of(&'a Tunnel, usize, Opened),
    /// A packet between the addresses of a tunnel that carries nothing.
    Refused(Refused),
    /// A packet of a protocol that tunnels have, and of none of them.
    Unknown,
    /// Something else.
    Other,
}

/// Classifies a whole packet that was parsed.
#[inline]
pub(in super::super) fn arrival<'a>(root: &'a Root, packet: &Packet) -> Arrival<'a> {
    if !root.tunnels.is_active() || packet.flags().contains(ParseFlags::FRAGMENT) {
        return Arrival::Other;
    }
    let (number, l4) = (packet.protocol(), packet.l4_offset());
    let carried = match number {
        protocol::UDP => in_udp(root, packet).map(|(carrier, port)| (carrier, port, l4 + udp::LENGTH)),
        _ => Carrier::of_protocol(number).map(|carrier| (carrier, 0, l4)),
    };
    let Some((carrier, port, at)) = carried else { return Arrival::Other };
    let opened = tunnel::read(carrier, number, packet.data().get(at..).unwrap_or_default());
    let id = opened.map_or(tunnel::Id::NONE, |opened| opened.id);
    let Some(key) = key(root, packet, carrier, port, id) else { return Arrival::Other };
    match opened {
        Ok(opened) => match root.tunnels.find(&key) {
            Some(tunnel) => Arrival::Of(tunnel, at, opened),
            None if root.tunnels.has_ends(&key) => Arrival::Unknown,
            None => Arrival::Other,
        },
        Err(refused) if root.tunnels.has_ends(&key) => Arrival::Refused(refused),
        Err(_) => Arrival::Other,
    }
}

/// The carrier and the port of a datagram to a port of tunnels.
#[inline]
fn in_udp(root: &Root, packet: &Packet) -> Option<(Carrier, u16)> {
    let header = packet.l4_header::<{ udp::LENGTH }>()?;
    let port = u16::from_be_bytes([header[2], header[3]]);
    Some((root.tunnels.carrier_of(port)?, port))
}

/// The key of a packet that came in.
#[inline]
fn key(root: &Root, packet: &Packet, carrier: Carrier, port: u16, id: tunnel::Id) -> Option<Key> {
    fn ends<K: Family>(packet: &Packet) -> Option<(std::net::IpAddr, std::net::IpAddr)> {
        K::endpoints(packet.l3()).map(|(source, destination)| (destination.address(), source.address()))
    }
    let vrf = root.interfaces.get(packet.interface() as usize)?.vrf;
    let v4 = packet.flags().contains(ParseFlags::IP4);
    let (local, remote) = if v4 { ends::<u32>(packet) } else { ends::<u128>(packet) }?;
    Some(Key { vrf, local, remote, carrier, port, id })
}

/// The hash that names the owner of a packet of a tunnel of the gateway: that of the flow inside of it, so that the packet stays
/// with its worker once it is taken out. `None`: any other packet, and one whose flow cannot be read.
#[inline]
pub(in super::super) fn owner_hash(root: &Root, packet: &Packet, seed: &Seed) -> Option<u32> {
    let Arrival::Of(_, at, opened) = arrival(root, packet) else { return None };
    let parsed = inner(packet, at + opened.header, opened.inner)?;
    Some(parse::symmetric_hash(&parsed, packet.data(), seed))
}

/// A packet to be segmented ends at a tunnel of the gateway: the segments are those of the packet inside.
#[cold]
pub(in super::super) fn takes_segments(root: &Root, packet: &Packet) -> bool {
    let Arrival::Of(tunnel, ..) = arrival(root, packet) else { return false };
    root.interfaces.get(tunnel.home as usize).is_some_and(|home| home.has(tunnel.wanted.local))
}

/// Parses an inner packet where it stands.
#[inline]
fn inner(packet: &Packet, at: usize, inner: Inner) -> Option<Parsed> {
    let frame = packet.data();
    match inner {
        Inner::V4 => parse::ipv4(frame, at).ok(),
        Inner::V6 => parse::ipv6(frame, at).ok(),
        Inner::Ethernet => {
            let header = frame.get(at..)?.first_chunk::<{ ethernet::LENGTH }>()?;
            let l3 = at + ethernet::LENGTH;
            match u16::from_be_bytes([header[ethernet::ETHERTYPE], header[ethernet::ETHERTYPE + 1]]) {
                ethertype::IPV4 => parse::ipv4(frame, l3).ok(),
                ethertype::IPV6 => parse::ipv6(frame, l3).ok(),
                _ => None,
            }
        }
    }
}

/// The tunnel that sent a packet whose headers stand where `parsed` says, in the frame of `packet`: the packet itself, or one that an
/// ICMP error quotes. The identifier has to be there.
#[cold]
pub(super) fn sent<'a>(root: &'a Root, packet: &Packet, parsed: &Parsed) -> Option<&'a Tunnel> {
    if !root.tunnels.is_active() || parsed.flags.contains(ParseFlags::LATER_FRAGMENT) {
        return None;
    }
    let frame = packet.data();
    let (l3, l4) = (usize::from(parsed.l3), usize::from(parsed.l4));
    let (carrier, port, at) = match parsed.protocol {
        protocol::UDP => {
            let header = udp::Header::new(frame.get(l4..)?).ok()?;
            (root.tunnels.carrier_of(header.destination())?, header.destination(), l4 + udp::LENGTH)
        }
        number => (Carrier::of_protocol(number)?, 0, l4),
    };
    // The inner packet may be cut off, but not the header in front of it: its first octet has its version.
    let opened = tunnel::read(carrier, parsed.protocol, frame.get(at..)?).ok()?;
    let header = frame.get(l3..)?;
    let ends = match parsed.flags.contains(ParseFlags::IP4) {
        true => u32::endpoints(header).map(|(from, to)| (from.address(), to.address())),
        false => u128::endpoints(header).map(|(from, to)| (from.address(), to.address())),
    };
    let (local, remote) = ends?;
    let vrf = root.interfaces.get(packet.interface() as usize)?.vrf;
    root.tunnels.find(&Key { vrf, local, remote, carrier, port, id: opened.id })
}
