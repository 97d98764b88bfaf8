//! Link-local addresses (RFC 4291, 2.5.6): each means something on one link alone, so no table has them. Part of
//! `ip6-lookup`.

use std::net::{IpAddr, Ipv6Addr};

use weir_packet::packet::Packet;
use weir_packet::parse;

use super::{Context, route};
use crate::graph::flags::{ENCAPSULATED, ORIGINATED};
use crate::graph::record::Fate;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::{Adjacency, Forwarding, Kind, NONE};

/// Deals with a packet from or to a link-local address; `value` is what the table says of its destination. False when
/// it goes the way of all others.
#[inline(always)]
pub(super) fn settle(
    context: &mut Context<'_>,
    packet: &mut Packet,
    place: u8,
    destination: &[u8; 16],
    value: u32,
) -> bool {
    const fn is_link_local(first: u8, second: u8) -> bool {
        first == 0xfe && second & 0xc0 == 0x80
    }
    let to = is_link_local(destination[0], destination[1]);
    let from = packet.l3().get(8..10).is_some_and(|octets| is_link_local(octets[0], octets[1]));
    if !to && !from {
        return false;
    }
    if to {
        settle_to(context, packet, place, Ipv6Addr::from(*destination));
        true
    } else {
        settle_from(context, packet, place, Ipv6Addr::from(*destination), value)
    }
}

/// Handles a packet to a link-local address: it is the gateway's on the ingress link, or the packet is an answer of the
/// gateway to a host on that link.
#[cold]
fn settle_to(context: &mut Context<'_>, packet: &mut Packet, place: u8, destination: Ipv6Addr) {
    let Some(interface) = context.root.interfaces.get(packet.interface() as usize) else {
        return context.next.refuse(packet, place, Reason::LinkLocal);
    };
    if interface.has(destination.into()) {
        note(context, packet, destination, Adjacency::NO_ROUTE);
        context.next.push(Node::Local, place);
    } else if packet.state().intersects(ORIGINATED | ENCAPSULATED) {
        let number = interface.neighbor(destination);
        packet.set_forwarding(number);
        let kind = context.root.adjacencies.get(number as usize).map_or(Kind::NoRoute, |adjacency| adjacency.kind);
        route::exceptional(context, packet, place, kind);
    } else {
        context.next.refuse(packet, place, Reason::LinkLocal);
    }
}

/// From a link-local address to another kind: never to another link (RFC 4443, 3.1, code 2). What is for us goes
/// nowhere, and our own answers may go back by the link that the question came by.
#[cold]
fn settle_from(context: &mut Context<'_>, packet: &mut Packet, place: u8, destination: Ipv6Addr, value: u32) -> bool {
    let root = context.root;
    let hash = || parse::flow_hash(&packet.parsed(), packet.data(), context.seed);
    let number = Forwarding(value).resolve(hash, &root.buckets);
    let (kind, egress) = root
        .adjacencies
        .get(number as usize)
        .map_or((Kind::NoRoute, NONE), |adjacency| (adjacency.kind, adjacency.interface));
    let ours =
        root.interfaces.get(packet.interface() as usize).is_some_and(|interface| interface.has(destination.into()));
    if ours || kind == Kind::Local {
        note(context, packet, destination, number);
        context.next.push(Node::Local, place);
    } else if packet.state().intersects(ORIGINATED | ENCAPSULATED) && egress == packet.interface() {
        return false;
    } else {
        context.next.refuse_aloud(packet, place, Reason::LinkLocal);
    }
    true
}

/// Records that a packet is for the gateway, as no table has an entry for it.
fn note(context: &mut Context<'_>, packet: &Packet, destination: Ipv6Addr, adjacency: u32) {
    let vrf = context.root.interfaces.get(packet.interface() as usize).map_or(0, |interface| interface.vrf);
    let octets = packet.parsed().l3_length;
    context.record(packet, Fate::LookedUp { vrf, destination: IpAddr::V6(destination), adjacency, octets });
}
