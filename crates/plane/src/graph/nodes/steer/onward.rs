//! Where packets go that rules let go on.

use weir_packet::packet::{Packet, State};
use weir_packet::vector::{Indices, Vector};

use super::super::fields::Common;
use super::super::stage::{self, Stage};
use super::super::{Context, ip_input, merging};
use crate::graph::flags::FOR_HOST;
use crate::node::Node;
use crate::root::Interface;

/// Sends on packets that rules let go on. Packets that their interfaces merge are merged behind the rules: segments of a
/// super-packet that is cut for other policies come back there.
pub(super) fn onward(context: &mut Context<'_>, vector: &mut Vector, places: &Indices, common: &Common, v4: bool) {
    // In the usual case packets differ in their interface alone.
    if common.is_odd | vector.has_segments() | context.root.merges_all {
        return each(context, vector, places, v4);
    }
    let root = context.root;
    if let Some(interface) = common.interface.and_then(|number| root.interfaces.get(number as usize)) {
        return context.next.extend(node(context, interface, v4), places);
    }
    for run in places.places().chunk_by(|&one, &other| vector[one].interface() == vector[other].interface()) {
        match root.interfaces.get(vector[run[0]].interface() as usize) {
            Some(interface) => context.next.extend_places(node(context, interface, v4), run),
            None => run.iter().for_each(|&place| go_on_alone(context, vector, place)),
        }
    }
}

/// The node of usual packets of an interface.
#[inline]
fn node(context: &Context<'_>, interface: &Interface, v4: bool) -> Node {
    if context.peers.len() > 1 { Node::Handover } else { stage::first(context.root, interface, v4) }
}

fn go_on_alone(context: &mut Context<'_>, vector: &Vector, place: u8) {
    let node = ip_input::behind_steer(context, &vector[place]);
    context.next.push(node, place);
}

/// The same of any packets.
#[inline(never)]
fn each(context: &mut Context<'_>, vector: &mut Vector, places: &Indices, v4: bool) {
    let (mut entering, mut hosts) = (Indices::new(), Indices::new());
    for &place in places.places() {
        if vector[place].state().contains(FOR_HOST) { hosts.push(place) } else { entering.push(place) }
    }
    merging::merge(context, vector, &mut entering);
    if !hosts.is_empty() {
        entering.extend(&hosts);
        entering.sort();
    }
    go_on(context, vector, &entering, v4);
}

#[inline]
fn go_on(context: &mut Context<'_>, vector: &Vector, places: &Indices, v4: bool) {
    let root = context.root;
    let is_usual = |packet: &Packet| packet.resume() == Stage::Sav as u8 && packet.state() == State::EMPTY;
    let key = |place: u8| (vector[place].interface(), is_usual(&vector[place]));
    for run in places.places().chunk_by(|&one, &other| key(one) == key(other)) {
        let (interface, usual) = key(run[0]);
        match root.interfaces.get(interface as usize) {
            Some(interface) if usual => context.next.extend_places(node(context, interface, v4), run),
            _ => run.iter().for_each(|&place| go_on_alone(context, vector, place)),
        }
    }
}
