//! Where packets go that rules let go on.

use weir_packet::packet::{Packet, State};
use weir_packet::vector::{Indices, Vector};

use super::super::stage::{self, Stage};
use super::super::{Context, ip_input, merging};
use crate::graph::flags::FOR_HOST;
use crate::node::Node;

/// Sends on packets that rules let go on. Packets that their interfaces merge are merged behind the rules: segments of a
/// super-packet that is cut for other policies come back there.
pub(super) fn onward(context: &mut Context<'_>, vector: &mut Vector, places: &Indices, v4: bool) {
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
    let several = context.peers.len() > 1;
    let is_usual = |packet: &Packet| packet.resume() == Stage::Sav as u8 && packet.state() == State::EMPTY;
    let key = |place: u8| (vector[place].interface(), is_usual(&vector[place]));
    for run in places.places().chunk_by(|&one, &other| key(one) == key(other)) {
        let (interface, usual) = key(run[0]);
        match root.interfaces.get(interface as usize) {
            Some(interface) if usual => {
                let node = if several { Node::Handover } else { stage::first(root, interface, v4) };
                context.next.extend_places(node, run);
            }
            _ => {
                for &place in run {
                    let node = ip_input::behind_steer(context, &vector[place]);
                    context.next.push(node, place);
                }
            }
        }
    }
}
