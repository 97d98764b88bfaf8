//! Learning decisions.

use weir_packet::vector::{Indices, Vector};

use super::super::Context;
use super::tuple::{key, of_interface};
use crate::graph::session::{Carried, ZoneOf};
use crate::root::family::Family;

/// Learns what was decided about packets that leave. They are not rewritten yet.
#[cold]
#[inline(never)]
pub(in crate::graph::nodes) fn learn<K: Family>(context: &mut Context<'_>, vector: &Vector, frame: &Indices) {
    let epoch = context.root.changes.count();
    let (mut decided, mut refused) = (0, 0);
    for &place in frame.places() {
        let packet = &vector[place];
        // An answer may lie where the packet was that it answers.
        let Some((decision, at)) = context.notes.take(place, epoch, packet.interface(), packet.forwarding()) else {
            continue;
        };
        // Sessions of another zone than that of the ingress decide about each packet. Of a packet that came to its
        // session on its way, not all was decided as for a packet of the session.
        if packet.flow_out() != 0 || packet.flow() != context.notes.flow(place) {
            continue;
        }
        let learned = match Carried::of(packet, ZoneOf::Ingress) {
            Carried::Session(member) => K::of_mut(context.sessions).learn(member, decision),
            _ => {
                let Some(key) = key::<K>(packet, of_interface(packet.interface())) else { continue };
                K::of_mut(context.flows).learn(at, key, decision, context.now)
            }
        };
        *(if learned { &mut decided } else { &mut refused }) += 1;
    }
    context.counters.flows.decided.add(decided);
    context.counters.flows.refused.add(refused);
}
