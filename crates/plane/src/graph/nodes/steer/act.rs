//! Acts on packets that rules match.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, Vector};

use super::super::fields::Common;
use super::super::stage::{self, Stage};
use super::super::{Context, esp, handover, tunnel, wire};
use super::onward::onward;
use super::{advance, redirect};
use crate::graph::batch::Batch;
use crate::graph::flags::FOR_HOST;
use crate::graph::record::Fate;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::family::Family;
use crate::root::steer::{Rule, Steer, Way};

/// Counts packets that matched one rule, and marks them if it says so.
#[inline(always)]
pub(super) fn all<K>(context: &mut Context<'_>, vector: &mut Vector, batch: &Batch<K>, rule: &Rule) {
    let places = &batch.places;
    let mut packets = places.len() as u64;
    let mut octets = batch.octets[..places.len()].iter().map(|&own| u64::from(own)).sum();
    wire::each_more(vector, places, |_, more, octets_more| {
        packets += more;
        octets += octets_more;
    });
    if let Some(counter) = rule.counters.get(context.worker) {
        counter.add(packets, octets);
    }
    if let Some(mark) = rule.mark {
        places.places().iter().for_each(|&place| vector[place].set_mark(mark));
    }
}

/// Finds the rule of each packet, acts on it, and sends on the packets that go on. `found`: the classifier's answers.
pub(super) fn each<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    batch: &Batch<K>,
    (found, common): (&[u32], &Common),
    list: &Steer,
) {
    let side = K::of(list);
    let mut passed = Indices::new();
    for ((&place, &answer), fields) in batch.places.places().iter().zip(found).zip(&batch.fields) {
        let packet = &mut vector[place];
        let number = side.rule(answer, packet, fields);
        let Some((number, rule)) = number.and_then(|number| Some((number, list.rules.get(number as usize)?))) else {
            passed.push(place);
            continue;
        };
        if let Some(counter) = rule.counters.get(context.worker) {
            let (packets, octets) = wire::counts(packet);
            counter.add(packets, octets);
        }
        if let Some(mark) = rule.mark {
            packet.set_mark(mark);
        }
        if context.recorder.is_on() {
            context.record(packet, Fate::Steered { list: list.index, place: number });
        }
        if !takes(context, packet, place, rule.way) {
            passed.push(place);
        }
    }
    onward(context, vector, &passed, common, K::IS_V4);
}

/// Sends a packet where a rule says. False, with nothing done: the packet goes on as without the rule.
fn takes(context: &mut Context<'_>, packet: &mut Packet, place: u8, way: Way) -> bool {
    match way {
        Way::On => false,
        Way::Drop => {
            context.next.refuse(packet, place, Reason::SteerDrop);
            true
        }
        Way::To(target) => redirect::to(context, packet, place, target),
        Way::Queue(worker) => queue(context, packet, place, usize::from(worker)),
        Way::Node(node) => to_node(context, packet, place, node),
        // A fragment has a part of the packet behind its headers, or none of its beginning.
        Way::Advance(..) if packet.flags().contains(ParseFlags::FRAGMENT) => false,
        Way::Advance(octets, header) => {
            advance::into(context, packet, place, usize::from(octets), header);
            true
        }
    }
}

/// Gives a packet to a worker. Fragments, packets that stay on their link and packets of SAs and tunnels of the gateway go on to
/// their owners: other workers have not what belongs to them.
#[cold]
fn queue(context: &mut Context<'_>, packet: &mut Packet, place: u8, worker: usize) -> bool {
    let root = context.root;
    if packet.flags().contains(ParseFlags::FRAGMENT)
        || packet.state().contains(FOR_HOST)
        || root.ipsec.is_active() && esp::owner_hash(root, packet, context.seed).is_some()
        || root.tunnels.is_active() && tunnel::owner_hash(root, packet, context.seed).is_some()
    {
        return false;
    }
    if worker == context.worker {
        let node = stage::entry(root, context.notes, packet);
        context.next.push(node, place);
        return true;
    }
    handover::give_to(context, packet, place, worker)
}

/// Sends a packet to a node. Packets that stay on their link go on, and fragments for a tunnel: `local` puts them together first.
fn to_node(context: &mut Context<'_>, packet: &mut Packet, place: u8, node: Node) -> bool {
    let is_fragment = packet.flags().contains(ParseFlags::FRAGMENT);
    if packet.state().contains(FOR_HOST) || node == Node::TunnelDecap && is_fragment {
        return false;
    }
    // Packets of its flow may have taken learned decisions in this vector.
    context.notes.bypass();
    if matches!(node, Node::Ip4Lookup | Node::Ip6Lookup) {
        Stage::Lookup.resumes(packet);
    }
    context.next.push(node, place);
    true
}
