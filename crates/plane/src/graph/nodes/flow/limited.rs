//! Packets that take decisions with rules that limit packets, or offer them to a sampler.
//!
//! Limits and samplers see packets in the order of arrival, whether their rule was looked up or taken from a decision. So these
//! packets go to the nodes of the lists, with the rule known, and from there to the rewrite. They count for each policy where the
//! packet is when it counts: a packet that a limit drops counts for nothing behind the list.
//!
//! A packet of a translation is translated between the lists: those for ingress see it as it came in, those for egress as it leaves.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};

use super::super::{Context, wire};
use super::own::Own;
use super::policies::{self, protection};
use super::translations;
use super::tuple::is_behind_validation;
use crate::graph::flow::{Decision, UNASKED};
use crate::graph::session::translated;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::NONE;
use crate::root::acl::Found;
use crate::root::family::Family;

/// Has packets begin their way, which take the noted decisions.
#[cold]
#[inline(never)]
pub(super) fn begin<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut own = Own::<K>::of(context.root, NONE);
    for &place in frame.places() {
        let packet = &mut vector[place];
        let Some(&decision) = context.notes.limited(place) else { continue };
        if packet.interface() != own.number {
            own = Own::of(context.root, packet.interface());
        }
        validate(context, &own, packet, &decision);
        if decision.limited_by(false).is_some() {
            context.next.push(if K::IS_V4 { Node::Ip4AclIn } else { Node::Ip6AclIn }, place);
        } else {
            count_rule(context, packet, decision.acl_in);
            admit(context, &own, packet, place, &decision);
        }
    }
}

/// Sends on packets that the lists of a direction permit.
#[cold]
#[inline(never)]
pub(in crate::graph::nodes) fn go_on<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    output: bool,
) {
    let mut own = Own::<K>::of(context.root, NONE);
    for &place in frame.places() {
        let packet = &mut vector[place];
        let Some(&decision) = context.notes.limited(place) else { continue };
        if output {
            leave::<K>(context, packet, place, &decision);
            continue;
        }
        if packet.interface() != own.number {
            own = Own::of(context.root, packet.interface());
        }
        admit(context, &own, packet, place, &decision);
    }
}

/// Counts a packet for validation and bindings.
fn validate<K: Family>(context: &Context<'_>, own: &Own<'_, K>, packet: &Packet, decision: &Decision) {
    own.count_bound(context.root, context.worker, decision, wire::counts(packet));
    if !is_behind_validation(packet) {
        own.count_checked(context.worker, wire::packets(packet));
    }
}

/// Counts a packet for allowlists and the SPD of its ingress, and sends it to the egress lists, or on its way out.
fn admit<K: Family>(context: &mut Context<'_>, own: &Own<'_, K>, packet: &mut Packet, place: u8, decision: &Decision) {
    own.count_allowed(context.root, context.worker, wire::packets(packet));
    let ingress = (packet.interface(), decision.spd_in);
    let counts = wire::counts(packet);
    policies::count(context.root, context.worker, ingress, false, counts);
    if let Some(member) = translated(packet)
        && !translations::take::<K>(context, packet, member, counts)
    {
        // It was there when the packet took the decision, and none ends in the vector.
        context.notes.end_limited(place);
        return context.next.refuse(packet, place, Reason::NatUntranslated);
    }
    if decision.limited_by(true).is_some() {
        context.next.push(if K::IS_V4 { Node::Ip4AclOut } else { Node::Ip6AclOut }, place);
        return;
    }
    count_rule(context, packet, decision.acl_out);
    leave::<K>(context, packet, place, decision);
}

/// Counts a packet for the SPD of its egress, and has it rewritten, or protected.
fn leave<K: Family>(context: &mut Context<'_>, packet: &mut Packet, place: u8, decision: &Decision) {
    context.notes.end_limited(place);
    let adjacency = context.root.adjacencies.get(decision.adjacency as usize);
    let protected = adjacency.map(|own| (own.interface, protection(context.root, decision, packet, own)));
    let Some((egress, Ok(sa))) = protected else {
        // It was found when the packet took the decision.
        return context.next.refuse(packet, place, Reason::SpdNoMatch);
    };
    policies::count(context.root, context.worker, (egress, decision.spd_out), true, wire::counts(packet));
    match sa {
        Some(sa) => {
            packet.set_forwarding(sa);
            context.next.push(Node::EspEncrypt, place);
        }
        None => context.next.push(if K::IS_V4 { Node::Ip4Rewrite } else { Node::Ip6Rewrite }, place),
    }
}

/// Counts a packet for a rule of access lists.
fn count_rule(context: &Context<'_>, packet: &Packet, found: u32) {
    if found != UNASKED
        && let Some(rule) = context.root.acl.pages.counter(context.worker, Found::of(found).number())
    {
        let (packets, octets) = wire::counts(packet);
        rule.packets.add(packets);
        rule.octets.add(octets);
    }
}
