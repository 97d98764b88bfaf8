//! Packets for the gateway that are ESP, plain or in UDP (RFC 3948, 2).

use std::net::IpAddr;

use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags, Seed};
use weir_packet::wire::{protocol, udp};

use super::super::next_hop;
use crate::graph::flags::DECRYPTED;
use crate::root::Root;
use crate::root::family::Family;

/// The meaning of a packet for the gateway to IPsec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Arrival {
    /// ESP whose SPI lies at this offset of the frame.
    Esp(usize),
    /// A keepalive of a NAT traversal.
    Keepalive,
    /// Something else: IKE with its non-ESP marker, too.
    Other,
}

/// Classifies a whole packet for the gateway.
#[inline]
pub(in super::super) fn arrival(root: &Root, packet: &Packet) -> Arrival {
    if !root.ipsec.is_active() || packet.flags().contains(ParseFlags::FRAGMENT) {
        return Arrival::Other;
    }
    match packet.protocol() {
        protocol::ESP => Arrival::Esp(packet.l4_offset()),
        protocol::UDP => in_udp(root, packet),
        _ => Arrival::Other,
    }
}

fn in_udp(root: &Root, packet: &Packet) -> Arrival {
    let Some(header) = packet.l4_header::<{ udp::LENGTH }>() else { return Arrival::Other };
    let port = u16::from_be_bytes([header[2], header[3]]);
    if !root.ipsec.has_port(port) {
        return Arrival::Other;
    }
    let at = packet.l4_offset() + udp::LENGTH;
    match packet.data().get(at..).unwrap_or_default() {
        [0xff] => Arrival::Keepalive,
        // The non-ESP marker, or nothing that ESP begins with.
        [0, 0, 0, 0, ..] | [] => Arrival::Other,
        _ => Arrival::Esp(at),
    }
}

/// The hash that names the owner of a packet of ESP for an SA of the gateway: by the SPI alone, so that one worker has the window
/// of an SA, whatever its packets come in by and whichever address a NAT gives them. `None`: any other packet.
#[inline]
pub(in super::super) fn owner_hash(root: &Root, packet: &Packet, seed: &Seed) -> Option<u32> {
    let Arrival::Esp(at) = arrival(root, packet) else { return None };
    let spi = u32::from_be_bytes(*packet.data().get(at..)?.first_chunk::<4>()?);
    let vrf = root.interfaces.get(packet.interface() as usize)?.vrf;
    // Packets of ESP that are forwarded have the owner of their flow.
    root.ipsec.inbound(vrf, next_hop::destination(packet)?, spi)?;
    Some(parse::spi_hash(spi, seed))
}

/// A packet that comes in is of ESP, or a keepalive, for an address of the interface, or for an SA: no policy about packets in
/// clear is about it. Fragments of plain ESP are, too; those of ESP in UDP are not known before they are put together
/// ([`awaits_ports`]).
#[inline]
pub(in super::super) fn is_for_gateway(root: &Root, packet: &Packet) -> bool {
    if !root.ipsec.is_active() {
        return false;
    }
    let is_fragment = packet.flags().contains(ParseFlags::FRAGMENT);
    let spi_at = match arrival(root, packet) {
        Arrival::Other if is_fragment && packet.protocol() == protocol::ESP => None,
        Arrival::Other => return false,
        Arrival::Keepalive => None,
        Arrival::Esp(at) => Some(at),
    };
    let (Some(interface), Some(destination)) = (root.interfaces.get(packet.interface() as usize), destination(packet))
    else {
        return false;
    };
    let spi = spi_at.and_then(|at| packet.data().get(at..)?.first_chunk::<4>().map(|spi| u32::from_be_bytes(*spi)));
    interface.has(destination) || spi.is_some_and(|spi| root.ipsec.inbound(interface.vrf, destination, spi).is_some())
}

/// A fragment of UDP for an address of the interface is a part of ESP, perhaps: its port decides.
#[inline]
pub(in super::super) fn awaits_ports(root: &Root, packet: &Packet) -> bool {
    let has = || {
        let interface = root.interfaces.get(packet.interface() as usize);
        interface.zip(destination(packet)).is_some_and(|(interface, own)| interface.has(own))
    };
    !root.ipsec.ports.is_empty()
        && packet.protocol() == protocol::UDP
        && packet.flags().contains(ParseFlags::FRAGMENT)
        && !packet.state().contains(DECRYPTED)
        && has()
}

fn destination(packet: &Packet) -> Option<IpAddr> {
    match packet.flags().contains(ParseFlags::IP4) {
        true => u32::matched(packet).map(|header| header.destination.address()),
        false => u128::matched(packet).map(|header| header.destination.address()),
    }
}
