//! Packets that leave by the interface or next hop of a rule, whatever their destination.

use std::net::IpAddr;

use weir_base::reclaim::Guard;
use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;

use super::super::Context;
use super::super::next_hop::destination;
use super::super::sav::{may_leave, of_destination};
use super::super::stage::{self, Stage};
use crate::graph::flags::FOR_HOST;
use crate::graph::record::Fate;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::steer::Way;
use crate::root::{Adjacency, Forwarding, Kind, Root};

/// Sends a packet out by an adjacency, through the egress policies of its interface. False, with nothing done, for a packet that
/// stays on its link.
#[cold]
pub(super) fn to(context: &mut Context<'_>, packet: &mut Packet, place: u8, target: Option<u32>) -> bool {
    let (root, guard) = (context.root, context.guard);
    if packet.state().contains(FOR_HOST) || !may_leave(packet) || is_broadcast(root, guard, packet) {
        return false;
    }
    context.notes.bypass();
    Stage::Steered.resumes(packet);
    let target = target.and_then(|number| of_destination(root, guard, packet, number));
    let node = out(root, packet, target);
    if context.recorder.is_on()
        && let Some(destination) = destination(packet)
    {
        let (adjacency, octets) = (packet.forwarding(), packet.parsed().l3_length);
        context.record(packet, Fate::Directed { destination, adjacency, steered: true, octets });
    }
    context.next.push(node, place);
    true
}

/// A packet is for the broadcast address of a link, to which no gateway forwards (RFC 2644).
fn is_broadcast(root: &Root, guard: &Guard<'_>, packet: &Packet) -> bool {
    let Some(IpAddr::V4(to)) = destination(packet) else { return false };
    let vrf = root.interfaces.get(packet.interface() as usize).map_or(0, |interface| interface.vrf);
    let Some(tables) = root.vrfs.get(usize::from(vrf)) else { return false };
    let value = tables.v4.lookup(guard, to.into());
    Forwarding(value).set().is_none()
        && root.adjacencies.get(value as usize).is_some_and(|own| own.kind == Kind::Broadcast)
}

/// The node of a packet that a rule redirected, and that has waited for the hardware address of its next hop.
#[cold]
pub(crate) fn leave(root: &Root, guard: &Guard<'_>, packet: &mut Packet) -> Node {
    let target = target_again(root, guard, packet);
    out(root, packet, target)
}

/// The adjacency of a packet that waits, if a rule of its interface still redirects there.
pub(in super::super) fn target_again(root: &Root, guard: &Guard<'_>, packet: &Packet) -> Option<u32> {
    let waits_at = root.adjacencies.get(packet.forwarding() as usize)?;
    let interface = root.interfaces.get(packet.interface() as usize)?;
    let list = root.steer.list.get(usize::from(interface.steer))?;
    let is_of = |number: &u32| {
        root.adjacencies.get(*number as usize).is_some_and(|own| {
            own.interface == waits_at.interface && (own.next_hop.is_none() || own.next_hop == waits_at.next_hop)
        })
    };
    let targets = list.rules.iter().filter_map(|rule| if let Way::To(target) = rule.way { target } else { None });
    of_destination(root, guard, packet, targets.into_iter().find(is_of)?)
}

/// The node of a packet that leaves by an adjacency, which its field of forwarding gets.
fn out(root: &Root, packet: &mut Packet, target: Option<u32>) -> Node {
    let adjacency = target.and_then(|number| root.adjacencies.get(number as usize));
    packet.set_forwarding(target.unwrap_or(Adjacency::NO_ROUTE));
    let v4 = packet.flags().contains(ParseFlags::IP4);
    match adjacency.map(|adjacency| adjacency.kind) {
        Some(Kind::Rewrite | Kind::RewriteStale) => stage::egress(root, packet.forwarding(), v4),
        Some(Kind::Neighbor) if root.invent_neighbors => stage::egress(root, packet.forwarding(), v4),
        Some(Kind::Neighbor) => Node::Neighbor,
        _ => {
            packet.set_reason(Reason::SteerRedirect.number());
            Node::Drop
        }
    }
}
