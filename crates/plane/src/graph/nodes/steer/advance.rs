//! Packets whose first octets a rule takes off: the packet behind them comes in by the same interface.
//!
//! A super-packet whose segments have the octets that go is cut before, and its segments go round again. Packets behind them do so, too,
//! so that no flow is reordered.

use weir_packet::offload::{Checksum, Offload};
use weir_packet::packet::{Packet, Shown, State};
use weir_packet::parse::Parsed;
use weir_packet::segment::{self, Segmenter};

use super::super::piece::next_piece;
use super::super::stage::Stage;
use super::super::{Context, discard, ethernet_input, ip_input};
use crate::graph::nesting::{self, MOST_NESTING};
use crate::model::SteerHeader;
use crate::node::Node;
use crate::reason::Reason;

/// Takes octets off the front of a frame, and sends the rest to the node of the header that it begins with. The packet matches the
/// rules of its interface again, as a packet out of a tunnel: the bound on nesting ends it.
#[cold]
pub(super) fn into(context: &mut Context<'_>, packet: &mut Packet, place: u8, octets: usize, header: SteerHeader) {
    if nesting::taken_off(packet) >= MOST_NESTING {
        return context.next.refuse(packet, place, Reason::NestingLimit);
    }
    if takes_headers(packet, octets) {
        match cut(context, packet, octets, header) {
            Ok(()) => context.counters.absorbed.add(1),
            Err(reason) => context.next.refuse(packet, place, reason),
        }
        return;
    }
    if let Err(reason) = take_off(packet, octets, header) {
        return context.next.refuse(packet, place, reason);
    }
    if context.requeue.has_added(stage(header) as u8, packet) {
        packet.set_resume(stage(header) as u8);
        if let Err(refused) = context.requeue.push(packet.take()) {
            *packet = refused;
            context.next.refuse(packet, place, Reason::NoBuffer);
        }
        return;
    }
    if header != SteerHeader::Ethernet {
        return context.next.push(Node::IpInput, place);
    }
    let admitted = ethernet_input::admit_inner(context, packet);
    ip_input::conclude(context, packet, place, admitted);
}

/// The stage of a packet that goes round again behind its octets.
fn stage(header: SteerHeader) -> Stage {
    if header == SteerHeader::Ethernet { Stage::Frame } else { Stage::IpInput }
}

/// Each segment of a super-packet has the octets that go: they reach into the headers that the split writes.
fn takes_headers(packet: &Packet, octets: usize) -> bool {
    packet.is_to_be_segmented() && !segment::is_nested(packet) && octets > packet.l4_offset()
}

/// Takes octets off the front of a frame that has these headers behind them.
fn take_off(packet: &mut Packet, octets: usize, header: SteerHeader) -> Result<(), Reason> {
    let version = packet.data().get(octets).map(|first| first >> 4);
    let begins = match header {
        SteerHeader::Ethernet => version.is_some(),
        SteerHeader::Ip4 => version == Some(4),
        SteerHeader::Ip6 => version == Some(6),
    };
    let offload = packet.offload();
    // A checksum that is to be completed in the octets that go is that of an outer header.
    let is_outer = offload.checksum == Checksum::Partial && usize::from(offload.start) < octets;
    if !begins || packet.pull(octets).is_err() {
        return Err(Reason::SteerAdvance);
    }
    packet.set_parsed(&Parsed { l3_length: packet.len() as u32, ..Parsed::default() });
    if is_outer || offload.checksum != Checksum::Partial {
        packet.set_offload(Offload { checksum: Checksum::Unknown, start: 0, offset: 0, ..offload });
    }
    packet.set_shown(Shown::EMPTY);
    packet.set_state(State::EMPTY);
    packet.set_resume(0);
    nesting::take_off(packet);
    Ok(())
}

/// Cuts a super-packet, takes the octets off each segment, and has it go round again. If there is no room for one, those before it go on
/// and the packet counts as dropped.
fn cut(context: &mut Context<'_>, packet: &Packet, octets: usize, header: SteerHeader) -> Result<(), Reason> {
    let mut segmenter = Segmenter::new(packet).map_err(|_| Reason::OffloadMismatch)?;
    while !segmenter.is_done() {
        let mut piece = next_piece(context.cache, packet, &mut segmenter)?;
        context.counters.created.add(1);
        let taken = take_off(&mut piece, octets, header);
        piece.set_resume(stage(header) as u8);
        let (mut refused, reason) = match taken {
            Ok(()) => match context.requeue.push(piece) {
                Ok(()) => continue,
                Err(refused) => (refused, Reason::NoBuffer),
            },
            Err(reason) => (piece, reason),
        };
        discard(context, &refused, reason);
        refused.recycle(context.cache);
        if reason == Reason::NoBuffer {
            return Err(reason);
        }
    }
    Ok(())
}
