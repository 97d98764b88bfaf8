//! Packets that the kernel left to be segmented: they are cut before they are encrypted, as nobody can cut them later. The segments
//! come back to `esp-encrypt` in their order.

use weir_packet::packet::Packet;
use weir_packet::segment::Segmenter;

use super::super::piece::next_piece;
use super::super::{Context, session};
use super::fragments;
use crate::reason::Reason;

/// Cuts a packet into segments, which come back to `esp-encrypt`. If the queue has no room for all of them now, the packet comes
/// back as it is, behind the packets in the queue.
#[cold]
pub(super) fn cut(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    let Ok(segmenter) = Segmenter::new(packet) else {
        return context.next.refuse(packet, place, Reason::OffloadMismatch);
    };
    if segmenter.count() > context.requeue.room() && !context.requeue.is_empty() {
        return fragments::queue(context, packet, place);
    }
    context.merges.regret(packet.interface());
    match send(context, packet, segmenter) {
        Ok(()) => {
            session::pass(context, packet);
            context.counters.absorbed.add(1);
        }
        Err(reason) => context.next.refuse(packet, place, reason),
    }
}

/// Queues all segments of a packet. If there is no room for one, those before it go on and the packet counts as dropped.
fn send(context: &mut Context<'_>, packet: &Packet, mut segmenter: Segmenter<'_>) -> Result<(), Reason> {
    while !segmenter.is_done() {
        let piece = next_piece(context.cache, packet, &mut segmenter)?;
        fragments::send_piece(context, packet, piece)?;
    }
    Ok(())
}
