//! The common parts of nodes that answer stations on a link: the answer that is written over a solicitation, and its
//! way.

use weir_packet::packet::Packet;
use weir_packet::vector::Vector;
use weir_packet::wire::{MacAddress, ethernet};

use super::{Answer, Context};
use crate::graph::record::Fate;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::Root;

/// Returns the station that sent a packet; a packet out of a tunnel has no link-layer header.
#[inline(always)]
pub(super) fn station(packet: &Packet) -> MacAddress {
    let header = packet.data().first_chunk::<{ ethernet::LENGTH }>().filter(|_| packet.l3_offset() > 0);
    MacAddress(header.and_then(|header| header[6..].first_chunk()).copied().unwrap_or([0; 6]))
}

/// Counts a packet that was for us, and sends on what it has become.
pub(super) fn conclude(context: &mut Context<'_>, vector: &mut Vector, place: u8, answer: Result<Answer, Reason>) {
    let packet = &mut vector[place];
    match answer {
        Ok(Answer::Punt) => context.next.push(Node::Punt, place),
        Ok(answer) => {
            context.counters.local.add(1);
            context.record(packet, Fate::Local);
            if answer == Answer::Reply {
                // The question ends here and the answer begins, in the same buffer.
                context.counters.created.add(1);
                context.next.push(Node::Output, place);
            }
        }
        Err(reason) => context.next.refuse(packet, place, reason),
    }
}

/// Puts on the link-layer header of a link, tags included, towards a station.
pub(super) fn address(
    root: &Root,
    packet: &mut Packet,
    on_link: u32,
    to: MacAddress,
    ethertype: u16,
) -> Result<(), Reason> {
    let adjacency = root.adjacencies.get(on_link as usize).filter(|adjacency| adjacency.l2_len > 0);
    let adjacency = adjacency.ok_or(Reason::NoPort)?;
    let header = &adjacency.l2[..usize::from(adjacency.l2_len)];
    let room = packet.replace_l2(header.len()).map_err(|_| Reason::NoHeadroom)?;
    room.copy_from_slice(header);
    room[..6].copy_from_slice(&to.0);
    if let Some(kind) = room.last_chunk_mut::<2>() {
        *kind = ethertype.to_be_bytes();
    }
    packet.set_forwarding(on_link);
    Ok(())
}
