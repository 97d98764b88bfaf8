//! Packets that are cut before they are encrypted, and the packets behind them: they go round again, in their order.

use weir_packet::checksum;
use weir_packet::fragment::{Cannot, Fragmenter};
use weir_packet::packet::Packet;
use weir_packet::parse::{self, Parsed};

use super::super::Context;
use super::super::fragment::Fragments;
use super::super::session;
use super::super::stage::Stage;
use crate::graph::flags::{ENCAPSULATED, ORIGINATED, TUNNELLED};
use crate::reason::Reason;

/// Has a packet come back to `esp-encrypt` behind the packets that were queued before.
#[cold]
pub(super) fn queue(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    packet.set_resume(Stage::Encrypt as u8);
    if let Err(refused) = context.requeue.push(packet.take()) {
        *packet = refused;
        context.next.refuse(packet, place, Reason::NoBuffer);
    }
}

/// Has a packet come back to `esp-encrypt` in the next round, before anything newer.
#[cold]
pub(super) fn defer(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    packet.set_resume(Stage::Encrypt as u8);
    match context.requeue.defer(packet.take()) {
        Ok(()) => context.counters.deferred.add(1),
        Err(refused) => {
            *packet = refused;
            context.next.refuse(packet, place, Reason::NoBuffer);
        }
    }
}

/// Cuts an IPv4 packet into fragments of at most `room` octets, which come back to `esp-encrypt`.
#[cold]
pub(super) fn cut(context: &mut Context<'_>, packet: &mut Packet, place: u8, room: u32) {
    checksum::complete(packet);
    if packet.state().contains(ORIGINATED) {
        super::super::fragment::allow(packet, context.random);
    }
    let packet = &mut *packet;
    let outcome = match Fragmenter::new(packet.l3(), room) {
        Ok(fragmenter) => send(context, packet, Fragments::V4(fragmenter)),
        Err(Cannot::Option(_)) => return context.next.refuse_aloud(packet, place, Reason::BadOptions),
        Err(_) => Err(Reason::FragmentFailed),
    };
    match outcome {
        Ok(()) => {
            session::pass(context, packet);
            context.counters.absorbed.add(1);
        }
        Err(reason) => context.next.refuse(packet, place, reason),
    }
}

/// Queues all fragments of a packet. If there is no room for one, those before it go on and the packet counts as dropped.
fn send(context: &mut Context<'_>, packet: &Packet, mut fragments: Fragments<'_>) -> Result<(), Reason> {
    while let Some(mut piece) = fragments.piece(context.cache)? {
        let parsed = parse::ipv4(piece.data(), 0).map_err(|_| Reason::FragmentFailed);
        piece.set_parsed(&parsed.unwrap_or(Parsed { flags: packet.flags(), ..Parsed::default() }));
        send_piece(context, packet, piece)?;
    }
    Ok(())
}

/// Queues a parsed piece of a packet, for the SA of the packet.
///
/// # Errors
/// If there is no room; the piece counts as dropped.
pub(super) fn send_piece(context: &mut Context<'_>, packet: &Packet, mut piece: Packet) -> Result<(), Reason> {
    piece.inherit_part(packet);
    for state in [ORIGINATED, ENCAPSULATED, TUNNELLED] {
        if packet.state().contains(state) {
            piece.add_state(state);
        }
    }
    piece.set_nesting(packet.nesting());
    piece.set_forwarding(packet.forwarding());
    piece.set_resume(Stage::Encrypt as u8);
    context.counters.created.add(1);
    context.requeue.push(piece).map_err(|mut refused| {
        super::super::discard(context, &refused, Reason::NoBuffer);
        refused.recycle(context.cache);
        Reason::NoBuffer
    })
}
