//! `ip4-rewrite`, `ip6-rewrite`: TTL, MTU, and the link-layer header of the next hop.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::checksum;
use weir_packet::offload::Gso;
use weir_packet::packet::Packet;
use weir_packet::vector::{Frame, Vector};
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::{ipv4, ipv6, protocol};

use super::{Context, ORIGINATED};
use crate::node::Node;
use crate::reason::Reason;
use crate::root::{Adjacency, Kind, invented_mac};

/// What differs between the families.
pub(super) trait Family {
    const ETHERTYPE: u16;
    /// Octets of the fixed header.
    const HEADER: usize;
    /// Where the TTL or hop limit stands in the header.
    const TTL: usize;
    /// Counts it down.
    fn decrement(header: &mut [u8]);
    /// Deals with a packet that is too long for its link.
    fn too_long(context: &mut Context<'_>, packet: &mut Packet, place: u8);
    /// The destination.
    fn destination(header: &[u8]) -> Option<IpAddr>;
}

pub(super) struct V4;
pub(super) struct V6;

impl Family for V4 {
    const ETHERTYPE: u16 = ethertype::IPV4;
    const HEADER: usize = ipv4::LENGTH;
    const TTL: usize = ipv4::TTL;

    #[inline(always)]
    fn decrement(header: &mut [u8]) {
        checksum::decrement_ttl(header);
    }

    #[cold]
    fn too_long(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
        let may_fragment = ipv4::Header::new(packet.l3()).is_ok_and(|header| !header.dont_fragment());
        if may_fragment && packet.offload().gso == Gso::None {
            context.next.push(Node::Ip4Fragment, place);
        } else {
            context.next.refuse_aloud(packet, place, Reason::MtuExceeded);
        }
    }

    fn destination(header: &[u8]) -> Option<IpAddr> {
        header.get(16..)?.first_chunk::<4>().map(|octets| IpAddr::V4(Ipv4Addr::from(*octets)))
    }
}

impl Family for V6 {
    const ETHERTYPE: u16 = ethertype::IPV6;
    const HEADER: usize = ipv6::LENGTH;
    const TTL: usize = ipv6::HOP_LIMIT;

    #[inline(always)]
    fn decrement(header: &mut [u8]) {
        checksum::decrement_hop_limit(header);
    }

    #[cold]
    fn too_long(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
        context.next.refuse_aloud(packet, place, Reason::MtuExceeded);
    }

    fn destination(header: &[u8]) -> Option<IpAddr> {
        header.get(24..)?.first_chunk::<16>().map(|octets| IpAddr::V6(Ipv6Addr::from(*octets)))
    }
}

pub(super) fn run<F: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Frame) {
    let root = context.root;
    for &place in frame.places() {
        let packet = &mut vector[place];
        let Some(adjacency) = root.adjacencies.get(packet.forwarding() as usize) else {
            context.next.refuse(packet, place, Reason::NoRoute);
            continue;
        };
        let length = packet.len() - packet.l3_offset();
        let Some(header) = packet.l3_mut().get_mut(..F::HEADER) else {
            context.next.refuse(packet, place, Reason::NoHeadroom);
            continue;
        };
        let ttl = header[F::TTL];
        // Errors are judged on the packet as it came; only what leaves is changed.
        if ttl <= 1 && !packet.flags().contains(ORIGINATED) {
            context.next.refuse_aloud(packet, place, Reason::TtlExpired);
            continue;
        }
        if length > adjacency.mtu as usize && segment_length(packet, length) > adjacency.mtu as usize {
            F::too_long(context, packet, place);
            continue;
        }
        if !packet.flags().contains(ORIGINATED) {
            F::decrement(packet.l3_mut());
        }
        if put_link_layer::<F>(packet, adjacency).is_err() {
            context.next.refuse(packet, place, Reason::NoHeadroom);
            continue;
        }
        context.next.send(adjacency.port, packet, place);
    }
}

/// The length that counts against an MTU: that of a packet's longest segment.
#[cold]
fn segment_length(packet: &Packet, length: usize) -> usize {
    let offload = packet.offload();
    if offload.gso == Gso::None {
        return length;
    }
    let l4 = packet.l4_offset();
    let transport = match packet.protocol() {
        protocol::TCP => packet.data().get(l4 + 12).map_or(0, |octet| usize::from(octet >> 4) * 4),
        _ => 8,
    };
    l4 - packet.l3_offset() + transport + usize::from(offload.segment)
}

#[inline(always)]
pub(super) fn put_link_layer<F: Family>(packet: &mut Packet, adjacency: &Adjacency) -> Result<(), ()> {
    let room = packet.replace_l2(usize::from(adjacency.l2_len)).map_err(drop)?;
    if let Ok(untagged) = <&mut [u8; 14]>::try_from(&mut *room) {
        // The usual case, as a copy of known size.
        untagged.copy_from_slice(&adjacency.l2[..14]);
    } else {
        room.copy_from_slice(&adjacency.l2[..usize::from(adjacency.l2_len)]);
    }
    if let Some(ethertype) = room.last_chunk_mut::<2>() {
        *ethertype = F::ETHERTYPE.to_be_bytes();
    }
    if adjacency.kind == Kind::Neighbor {
        invent::<F>(packet, adjacency);
    }
    Ok(())
}

/// Replays have nobody to ask for the next hop's hardware address.
#[cold]
fn invent<F: Family>(packet: &mut Packet, adjacency: &Adjacency) {
    if let Some(address) = adjacency.next_hop.or_else(|| F::destination(packet.l3())) {
        if let Some(mac) = packet.data_mut().first_chunk_mut::<6>() {
            *mac = invented_mac(address).0;
        }
    }
}
