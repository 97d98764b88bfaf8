//! The destination of a packet, and the neighbour that it goes to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;

use crate::graph::hold::Key;
use crate::root::Root;

/// Returns the destination in an IPv4 header.
pub(super) fn destination_v4(header: &[u8]) -> Option<IpAddr> {
    header.get(16..)?.first_chunk::<4>().map(|octets| IpAddr::V4(Ipv4Addr::from(*octets)))
}

/// Returns the destination in an IPv6 header.
pub(super) fn destination_v6(header: &[u8]) -> Option<IpAddr> {
    header.get(24..)?.first_chunk::<16>().map(|octets| IpAddr::V6(Ipv6Addr::from(*octets)))
}

/// Where a packet goes.
pub(super) fn destination(packet: &Packet) -> Option<IpAddr> {
    if packet.flags().contains(ParseFlags::IP4) { destination_v4(packet.l3()) } else { destination_v6(packet.l3()) }
}

/// Returns the neighbour that a packet is held for, by the packet's adjacency.
pub(super) fn key(root: &Root, packet: &Packet) -> Option<Key> {
    let adjacency = root.adjacencies.get(packet.forwarding() as usize)?;
    let address = adjacency.next_hop.or_else(|| destination(packet))?;
    Some(Key { interface: adjacency.interface, address })
}
