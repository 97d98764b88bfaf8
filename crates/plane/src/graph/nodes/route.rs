//! Dispatch by route: a packet leaves, waits for a neighbour, is for the gateway, or is refused. Part of the lookups.

use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags};
use weir_packet::vector::Indices;

use super::{Context, next_hop, stage};
use crate::graph::hold;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::{Forwarding, Kind};

/// Sends a packet to the target of its route. Indices of packets that leave are gathered in `usual`.
#[inline(always)]
pub(super) fn dispatch(context: &mut Context<'_>, usual: &mut Indices, packet: &mut Packet, place: u8, value: u32) {
    let root = context.root;
    let number =
        Forwarding(value).resolve(|| parse::flow_hash(&packet.parsed(), packet.data(), context.seed), &root.buckets);
    packet.set_forwarding(number);
    let kind = root.adjacencies.get(number as usize).map_or(Kind::NoRoute, |adjacency| adjacency.kind);
    if kind == Kind::Rewrite {
        usual.push(place);
    } else {
        exceptional(context, packet, place, kind);
    }
}

#[cold]
pub(super) fn exceptional(context: &mut Context<'_>, packet: &mut Packet, place: u8, kind: Kind) {
    let v4 = packet.flags().contains(ParseFlags::IP4);
    let leave = |context: &mut Context<'_>, packet: &Packet| {
        context.next.push(stage::egress(context.root, packet.forwarding(), v4), place);
    };
    match kind {
        Kind::Rewrite | Kind::RewriteStale => leave(context, packet),
        Kind::Neighbor if context.root.invent_neighbors => leave(context, packet),
        Kind::Neighbor => match next_hop::key(context.root, packet)
            .and_then(|hold::Key { interface, address }| context.root.resolved(interface, address))
        {
            // It was learned a moment ago, and the tables do not have it yet.
            Some(number) => {
                packet.set_forwarding(number);
                leave(context, packet);
            }
            None => context.next.push(Node::Neighbor, place),
        },
        Kind::Local => context.next.push(Node::Local, place),
        Kind::Blackhole => context.next.refuse(packet, place, Reason::Blackhole),
        Kind::Tentative => context.next.refuse(packet, place, Reason::TentativeAddress),
        Kind::Broadcast => context.next.refuse(packet, place, Reason::Broadcast),
        Kind::NoRoute => context.next.refuse_aloud(packet, place, Reason::NoRoute),
        Kind::Unreachable => context.next.refuse_aloud(packet, place, Reason::Unreachable),
        Kind::Prohibit => context.next.refuse_aloud(packet, place, Reason::Prohibit),
    }
}
