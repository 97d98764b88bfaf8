//! `drop`: counts.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};

use super::{Context, wire};
use crate::graph::flags::ORIGINATED;
use crate::graph::record::Fate;
use crate::reason::Reason;

pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    for &place in frame.places() {
        let packet = &vector[place];
        // A packet without a reason here would be our own mistake; it is counted all the same.
        let reason = Reason::of(packet.reason()).unwrap_or(Reason::InterfaceGone);
        discard(context, packet, reason);
    }
}

/// Counts a packet as dropped. Its buffer is recycled with the vector's.
#[inline]
pub(crate) fn discard(context: &mut Context<'_>, packet: &Packet, reason: Reason) {
    let (packets, octets) = wire::frames(packet);
    context.counters.drops[reason as usize].add(packets);
    if packets > 1 {
        // Its segments would have been dropped.
        context.counters.created.add(packets);
        context.counters.absorbed.add(1);
    }
    let created = packet.state().contains(ORIGINATED);
    // What weir made itself was not received anywhere.
    if !created && let Some(interface) = context.root.interfaces.get(packet.interface() as usize) {
        interface.counters[context.worker].dropped.add(packets, octets);
    }
    context.record(packet, Fate::Dropped { reason, created });
}
