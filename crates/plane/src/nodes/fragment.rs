//! `ip4-fragment`: cuts packets to the MTU of the next link (RFC 791, 3.2), and sends the pieces.
//!
//! The pieces travel in a vector of their own, which leaves whenever it is full: a datagram of 64 KiB on a link of 68
//! octets makes more of them than a vector holds.

use weir_packet::checksum;
use weir_packet::fragment::{Cannot, Fragmenter};
use weir_packet::packet::Packet;
use weir_packet::parse::{ParseFlags, Parsed};
use weir_packet::vector::{Frame, Vector};

use super::{Context, ORIGINATED, output, rewrite};
use crate::node::Node;
use crate::reason::Reason;
use crate::root::Adjacency;

/// `pieces` is empty before and after.
pub(super) fn run(context: &mut Context<'_>, pieces: &mut Vector, vector: &mut Vector, frame: &Frame) {
    for &place in frame.places() {
        send_earlier(context, vector, place);
        let packet = &mut vector[place];
        let Some(adjacency) = context.root.adjacencies.get(packet.forwarding() as usize) else {
            context.next.refuse(packet, place, Reason::NoRoute);
            continue;
        };
        match Fragmenter::new(packet.l3(), adjacency.mtu) {
            Ok(fragmenter) => match send(context, pieces, packet, adjacency, fragmenter) {
                Ok(()) => context.counters.absorbed.add(1),
                Err(reason) => context.next.refuse(packet, place, reason),
            },
            Err(Cannot::Option(_)) => context.next.refuse_aloud(packet, place, Reason::BadOptions),
            Err(_) => context.next.refuse(packet, place, Reason::FragmentFailed),
        }
    }
}

/// Sends what came before a packet and waits for `output`: its fragments must not overtake packets of its own flow.
fn send_earlier(context: &mut Context<'_>, vector: &mut Vector, place: u8) {
    let (mut waiting, mut earlier, mut later) = (Frame::new(), Frame::new(), Frame::new());
    context.next.take(Node::Output, &mut waiting);
    for &other in waiting.places() {
        if other < place { earlier.push(other) } else { later.push(other) }
    }
    context.next.extend(Node::Output, &later);
    if !earlier.is_empty() {
        context.counters.nodes[Node::Output as usize].packets.add(earlier.len() as u64);
        output::run(context, vector, &earlier);
    }
}

/// Sends all fragments of a packet. When buffers run out, those made so far have left and the packet counts as dropped.
fn send(
    context: &mut Context<'_>,
    pieces: &mut Vector,
    packet: &Packet,
    adjacency: &Adjacency,
    mut fragmenter: Fragmenter<'_>,
) -> Result<(), Reason> {
    let mut outcome = Ok(());
    while let Some(length) = fragmenter.next_length() {
        let piece = Packet::new(context.cache, length).ok_or(Reason::NoBuffer).and_then(|mut piece| {
            fragmenter.next(piece.data_mut()).ok_or(Reason::FragmentFailed)?;
            finish(&mut piece, packet, adjacency)?;
            Ok(piece)
        });
        match piece {
            Ok(piece) => {
                if pieces.room() == 0 {
                    flush(context, pieces, adjacency.port);
                }
                // There is room now.
                let _ = pieces.push(piece);
                context.counters.created.add(1);
            }
            Err(reason) => {
                outcome = Err(reason);
                break;
            }
        }
    }
    flush(context, pieces, adjacency.port);
    outcome
}

/// Makes a frame of a fragment's octets.
fn finish(piece: &mut Packet, packet: &Packet, adjacency: &Adjacency) -> Result<(), Reason> {
    piece.inherit(packet);
    let originated = packet.flags().contains(ORIGINATED);
    let flags = ParseFlags::IP4 | ParseFlags::FRAGMENT | ORIGINATED.when(originated);
    piece.set_parsed(&Parsed { flags, ..Parsed::default() });
    if !originated {
        checksum::decrement_ttl(piece.l3_mut());
    }
    piece.set_forwarding(packet.forwarding());
    rewrite::put_link_layer::<rewrite::V4>(piece, adjacency).map_err(|()| Reason::NoHeadroom)
}

fn flush(context: &mut Context<'_>, pieces: &mut Vector, port: u32) {
    let mut frame = Frame::new();
    frame.fill(pieces.len());
    output::transmit(context, pieces, &frame, port as usize);
    pieces.filled().iter_mut().for_each(|piece| piece.recycle(context.cache));
    pieces.clear();
}
