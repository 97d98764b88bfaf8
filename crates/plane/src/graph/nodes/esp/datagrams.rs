//! Super-packets of ESP in UDP that came in: they are cut before they are decrypted. The datagrams go round again, in their order, and so
//! do the packets of ESP behind them.

use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags};
use weir_packet::segment::Segmenter;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::udp;

use super::super::Context;
use super::super::discard;
use super::super::stage::Stage;
use crate::graph::flow::Unlearned;
use crate::reason::Reason;

/// Cuts super-packets, and has all packets behind the first one come back; returns the places of the packets before it.
#[cold]
pub(super) fn cut_all(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) -> Indices {
    let mut at_once = Indices::new();
    for &place in frame.places() {
        let packet = &mut vector[place];
        let is_whole = packet.is_to_be_segmented();
        if !is_whole && !context.requeue.has_added(Stage::Decrypt as u8, packet) {
            at_once.push(place);
            continue;
        }
        context.notes.forget(place, Unlearned::Spd);
        if is_whole { cut_datagrams(context, packet, place) } else { queue(context, packet, place) }
    }
    at_once
}

/// Has a packet of ESP come back behind the packets that were queued before.
fn queue(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    packet.set_resume(Stage::Decrypt as u8);
    if let Err(refused) = context.requeue.push(packet.take()) {
        *packet = refused;
        context.next.refuse(packet, place, Reason::NoBuffer);
    }
}

/// Cuts a super-packet of ESP in UDP into its datagrams, which come back. If the queue has no room for all of them now, the packet
/// comes back as it is.
fn cut_datagrams(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    let Ok(segmenter) = Segmenter::new(packet) else {
        return context.next.refuse(packet, place, Reason::OffloadMismatch);
    };
    if segmenter.count() > context.requeue.room() && !context.requeue.is_empty() {
        return queue(context, packet, place);
    }
    match cut(context, packet, segmenter) {
        Ok(()) => context.counters.absorbed.add(1),
        Err(reason) => context.next.refuse(packet, place, reason),
    }
}

/// Queues all datagrams of a packet. If there is no room for one, those before it go on and the packet counts as dropped.
fn cut(context: &mut Context<'_>, packet: &Packet, mut segmenter: Segmenter<'_>) -> Result<(), Reason> {
    let v4 = packet.flags().contains(ParseFlags::IP4);
    let own = spi(packet);
    while let Some(length) = segmenter.next_length() {
        let mut piece = Packet::new(context.cache, length).ok_or(Reason::NoBuffer)?;
        segmenter.next(piece.data_mut());
        let parsed = if v4 { parse::ipv4(piece.data(), 0) } else { parse::ipv6(piece.data(), 0) };
        let Ok(parsed) = parsed else {
            piece.recycle(context.cache);
            return Err(Reason::OffloadMismatch);
        };
        piece.set_parsed(&parsed);
        piece.inherit_part(packet);
        piece.set_state(packet.state());
        piece.set_nesting(packet.nesting());
        piece.set_forwarding(packet.forwarding());
        piece.set_resume(Stage::Decrypt as u8);
        context.counters.created.add(1);
        // This worker has the SA of the first datagram, and another one may have those of other SAs.
        let is_own = spi(&piece) == own;
        let refused = match is_own {
            true => context.requeue.push(piece).err().map(|piece| (piece, Reason::NoBuffer)),
            false => Some((piece, Reason::OffloadMismatch)),
        };
        if let Some((mut piece, reason)) = refused {
            discard(context, &piece, reason);
            piece.recycle(context.cache);
            if is_own {
                return Err(reason);
            }
        }
    }
    Ok(())
}

/// The SPI of a datagram.
fn spi(packet: &Packet) -> Option<[u8; 4]> {
    packet.data().get(packet.l4_offset() + udp::LENGTH..)?.first_chunk().copied()
}
