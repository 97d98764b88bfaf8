//! Packets that are cut before they are put into a tunnel or taken out of one, and the packets behind them: they go round again, in their
//! order. Those on the way in come from `output`, as fragments do.

use weir_packet::packet::Packet;
use weir_packet::segment::Segmenter;

use super::super::piece::next_piece;
use super::super::stage::Stage;
use super::super::{Context, discard};
use crate::graph::flags::NAT_HELD;
use crate::graph::session::Carried;
use crate::reason::Reason;

/// Has a packet come back to `output` behind the packets that were queued before.
#[cold]
pub(in super::super) fn queue(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    packet.set_resume(Stage::Output as u8);
    // It has passed `output`, and counts for its sessions.
    Carried::clear(packet);
    packet.add_state(NAT_HELD);
    if let Err(refused) = context.requeue.push(packet.take()) {
        *packet = refused;
        context.next.refuse(packet, place, Reason::NoBuffer);
    }
}

/// Cuts a packet into segments, which come back to `output`. If the queue has no room for all of them now, the packet comes
/// back as it is, behind the packets in the queue.
#[cold]
pub(super) fn segment(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    let Ok(segmenter) = Segmenter::new(packet) else {
        return context.next.refuse(packet, place, Reason::OffloadMismatch);
    };
    if segmenter.count() > context.requeue.room() && !context.requeue.is_empty() {
        return queue(context, packet, place);
    }
    context.merges.regret(packet.interface());
    match send(context, packet, segmenter, Stage::Output) {
        Ok(()) => context.counters.absorbed.add(1),
        Err(reason) => context.next.refuse(packet, place, reason),
    }
}

/// Has a packet of a tunnel come back to be taken out, behind the packets that were queued before.
#[cold]
pub(super) fn decapsulate(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    packet.set_resume(Stage::Decapsulate as u8);
    if let Err(refused) = context.requeue.push(packet.take()) {
        *packet = refused;
        context.next.refuse(packet, place, Reason::NoBuffer);
    }
}

/// Cuts a super-packet into the datagrams of a tunnel, which come back to be taken out. If the queue has no room for all of them now, the
/// packet comes back as it is.
#[cold]
pub(super) fn datagrams(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    let Ok(segmenter) = Segmenter::new(packet) else {
        return context.next.refuse(packet, place, Reason::OffloadMismatch);
    };
    if segmenter.count() > context.requeue.room() && !context.requeue.is_empty() {
        return decapsulate(context, packet, place);
    }
    match send(context, packet, segmenter, Stage::Decapsulate) {
        Ok(()) => context.counters.absorbed.add(1),
        Err(reason) => context.next.refuse(packet, place, reason),
    }
}

/// Queues all segments of a packet for a stage. If there is no room for one, those before it go on and the packet counts as dropped.
fn send(context: &mut Context<'_>, packet: &Packet, mut segmenter: Segmenter<'_>, stage: Stage) -> Result<(), Reason> {
    while !segmenter.is_done() {
        let mut piece = next_piece(context.cache, packet, &mut segmenter)?;
        piece.set_resume(stage as u8);
        context.counters.created.add(1);
        if let Err(mut refused) = context.requeue.push(piece) {
            discard(context, &refused, Reason::NoBuffer);
            refused.recycle(context.cache);
            return Err(Reason::NoBuffer);
        }
    }
    Ok(())
}
