//! Super-packets whose segments may match different rules: they are cut, and the segments come back to the rules.

use weir_packet::offload::Gso;
use weir_packet::packet::Packet;
use weir_packet::segment;
use weir_packet::vector::{Indices, Vector};

use super::super::{Context, merging, stage};
use crate::reason::Reason;
use crate::root::Root;

/// Cuts the super-packets whose segments may match different rules of their list. They and the packets behind them come back to the
/// rules. Returns the places of the packets before.
#[cold]
#[inline(never)]
pub(super) fn cut(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) -> Indices {
    let mut at_once = Indices::new();
    for &place in frame.places() {
        let packet = &mut vector[place];
        let differs = packet.is_to_be_segmented() && packet.reason() == 0 && differs(context.root, packet);
        if !differs && !context.requeue.has_behind() {
            at_once.push(place);
            continue;
        }
        packet.set_resume(packet.resume() | stage::UNSTEERED);
        let queued = match differs {
            true => merging::queue_segments(context, packet).inspect(|()| context.counters.absorbed.add(1)),
            false => context.requeue.push_behind(packet.take()).map_err(|refused| {
                *packet = refused;
                Reason::NoBuffer
            }),
        };
        if let Err(reason) = queued {
            context.next.refuse(packet, place, reason);
        }
    }
    at_once
}

/// The segments of a super-packet may match different rules.
fn differs(root: &Root, packet: &Packet) -> bool {
    let list =
        root.interfaces.get(packet.interface() as usize).and_then(|own| root.steer.list.get(usize::from(own.steer)));
    list.is_some_and(|list| {
        let own = list.per_segment;
        own.octets
            || own.datagrams && packet.offload().gso == Gso::Udp && !segment::is_nested(packet)
            || own.flags && merging::differs_in_flags(packet)
    })
}
