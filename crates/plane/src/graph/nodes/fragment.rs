//! `ip4-fragment`, `ip6-fragment`: cut packets to the MTU of the next link (RFC 791, 3.2), and send the pieces. In IPv6
//! only the source may do that (RFC 8200, 5): packets of our own.
//!
//! The pieces travel in a vector of their own, which leaves whenever it is full: a datagram of 64 KiB on a link of 68
//! octets makes more of them than a vector holds.

use weir_base::random::SecureRandom;
use weir_packet::buffer::Cache;
use weir_packet::checksum;
use weir_packet::fragment::{Cannot, Fragmenter, SourceFragmenter};
use weir_packet::packet::Packet;
use weir_packet::parse::{ParseFlags, Parsed};
use weir_packet::segment::Segmenter;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::ipv4;

use super::piece::next_piece;
use super::rewrite;
use super::stage::Stage;
use super::{Context, discard, output, session, tunnel};
use crate::graph::flags::{ENCAPSULATED, ORIGINATED};
use crate::node::Node;
use crate::reason::Reason;
use crate::root::family::Family;
use crate::root::{Adjacency, BRIDGE, TUNNEL};

/// `pieces` is empty before and after.
pub(super) fn run<K: Family>(context: &mut Context<'_>, pieces: &mut Vector, vector: &mut Vector, frame: &Indices) {
    for &place in frame.places() {
        send_earlier(context, vector, place);
        let packet = &mut vector[place];
        let Some(adjacency) = context.root.adjacencies.get(packet.forwarding() as usize) else {
            context.next.refuse(packet, place, Reason::NoRoute);
            continue;
        };
        if packet.is_to_be_segmented() {
            match send_segments::<K>(context, pieces, packet, adjacency) {
                Ok(()) => {
                    session::pass(context, packet);
                    context.counters.absorbed.add(1);
                }
                Err(reason) => context.next.refuse(packet, place, reason),
            }
            continue;
        }
        // Its checksum covers all pieces, so it cannot be completed later.
        checksum::complete(packet);
        if packet.state().intersects(ORIGINATED | ENCAPSULATED) {
            allow(packet, context.random);
        }
        let mtu = rewrite::mtu::<K>(packet, adjacency);
        let fragments = if packet.flags().contains(ParseFlags::IP4) {
            Fragmenter::new(packet.l3(), mtu).map(Fragments::V4)
        } else {
            // Random, and not to be predicted (RFC 7739, 5.2).
            SourceFragmenter::new(packet.l3(), mtu, context.random.next() as u32).map(Fragments::V6)
        };
        match fragments {
            Ok(fragments) => match send::<K>(context, pieces, packet, adjacency, fragments) {
                Ok(()) => {
                    session::pass(context, packet);
                    context.counters.absorbed.add(1);
                }
                Err(reason) => context.next.refuse(packet, place, reason),
            },
            Err(Cannot::Option(_)) => context.next.refuse_aloud(packet, place, Reason::BadOptions),
            Err(_) => context.next.refuse(packet, place, Reason::FragmentFailed),
        }
    }
}

/// Sends the fragments of all segments of a super-packet. When buffers run out, those made so far have left and the packet counts as
/// dropped.
#[cold]
fn send_segments<K: Family>(
    context: &mut Context<'_>,
    pieces: &mut Vector,
    packet: &Packet,
    adjacency: &Adjacency,
) -> Result<(), Reason> {
    let mut segmenter = Segmenter::new(packet).map_err(|_| Reason::OffloadMismatch)?;
    let mtu = rewrite::mtu::<K>(packet, adjacency);
    while !segmenter.is_done() {
        let mut piece = next_piece(context.cache, packet, &mut segmenter)?;
        context.counters.created.add(1);
        let sent = Fragmenter::new(piece.l3(), mtu)
            .map_err(|_| Reason::FragmentFailed)
            .and_then(|fragments| send::<K>(context, pieces, &piece, adjacency, Fragments::V4(fragments)));
        match sent {
            Ok(()) => context.counters.absorbed.add(1),
            Err(reason) => discard(context, &piece, reason),
        }
        piece.recycle(context.cache);
        sent?;
    }
    Ok(())
}

/// The fragments of a packet.
pub(super) enum Fragments<'a> {
    V4(Fragmenter<'a>),
    V6(SourceFragmenter<'a>),
}

impl Fragments<'_> {
    /// The next one as a packet without a link-layer header; `None` after the last.
    pub(super) fn piece(&mut self, cache: &mut Cache) -> Result<Option<Packet>, Reason> {
        let (length, family) = match self {
            Fragments::V4(fragmenter) => (fragmenter.next_length(), ParseFlags::IP4),
            Fragments::V6(fragmenter) => (fragmenter.next_length(), ParseFlags::IP6),
        };
        let Some(length) = length else { return Ok(None) };
        let mut piece = Packet::new(cache, length).ok_or(Reason::NoBuffer)?;
        let written = match self {
            Fragments::V4(fragmenter) => fragmenter.next(piece.data_mut()),
            Fragments::V6(fragmenter) => fragmenter.next(piece.data_mut()),
        };
        if written != Some(length) {
            piece.recycle(cache);
            return Err(Reason::FragmentFailed);
        }
        piece.set_parsed(&Parsed { flags: family | ParseFlags::FRAGMENT, ..Parsed::default() });
        Ok(Some(piece))
    }
}

/// Permits the fragmentation of an originated packet, whatever its header forbids. A datagram that forbids it has no
/// meaningful identification (RFC 6864, 4.1), so it gets one.
pub(super) fn allow(packet: &mut Packet, random: &mut SecureRandom) {
    let Some(header) = packet.l3_header_mut::<{ ipv4::LENGTH }>() else { return };
    let word = u16::from_be_bytes([header[ipv4::FRAGMENT], header[ipv4::FRAGMENT + 1]]);
    if header[ipv4::VERSION_IHL] != 0x45 || word & ipv4::DONT_FRAGMENT == 0 {
        return;
    }
    header[ipv4::FRAGMENT..][..2].copy_from_slice(&(word & !ipv4::DONT_FRAGMENT).to_be_bytes());
    header[ipv4::IDENTIFICATION..][..2].copy_from_slice(&(random.next() as u16).to_be_bytes());
    header[ipv4::CHECKSUM..][..2].fill(0);
    let checksum = checksum::of(header);
    header[ipv4::CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
}

/// Sends what came before a packet and waits for `output`: its fragments must not overtake packets of its own flow.
fn send_earlier(context: &mut Context<'_>, vector: &mut Vector, place: u8) {
    let (mut waiting, mut earlier, mut later) = (Indices::new(), Indices::new(), Indices::new());
    context.next.take(Node::Output, &mut waiting);
    // Packets come there from several nodes.
    waiting.sort();
    for &other in waiting.places() {
        if other < place { earlier.push(other) } else { later.push(other) }
    }
    context.next.extend(Node::Output, &later);
    if !earlier.is_empty() {
        context.counters.nodes[Node::Output as usize].packets.add(earlier.len() as u64);
        output::run(context, vector, &earlier);
        let mut tunnelled = Indices::new();
        context.next.take(Node::TunnelEncap, &mut tunnelled);
        if !tunnelled.is_empty() {
            tunnelled.sort();
            context.counters.nodes[Node::TunnelEncap as usize].packets.add(tunnelled.len() as u64);
            tunnel::encap(context, vector, &tunnelled);
        }
    }
}

/// Sends all fragments of a packet. When buffers run out, those made so far have left and the packet counts as dropped.
fn send<K: Family>(
    context: &mut Context<'_>,
    pieces: &mut Vector,
    packet: &Packet,
    adjacency: &Adjacency,
    mut fragments: Fragments<'_>,
) -> Result<(), Reason> {
    let mut outcome = Ok(());
    loop {
        let piece = fragments.piece(context.cache).and_then(|piece| {
            let Some(mut piece) = piece else { return Ok(None) };
            finish::<K>(&mut piece, packet, adjacency)?;
            Ok(Some(piece))
        });
        match piece {
            Ok(Some(piece)) => {
                if pieces.room() == 0 {
                    flush(context, pieces, adjacency.port);
                }
                // There is room now.
                let _ = pieces.push(piece);
                context.counters.created.add(1);
            }
            Ok(None) => break,
            Err(reason) => {
                outcome = Err(reason);
                break;
            }
        }
    }
    flush(context, pieces, adjacency.port);
    outcome
}

/// Has fragments that leave by a tunnel or a bridge go round again, to `output`.
#[cold]
fn requeue(context: &mut Context<'_>, pieces: &mut Vector) {
    for piece in pieces.filled() {
        piece.set_resume(Stage::Output as u8);
        if let Err(mut refused) = context.requeue.push(piece.take()) {
            discard(context, &refused, Reason::NoBuffer);
            refused.recycle(context.cache);
        }
    }
    pieces.clear();
}

/// Makes a frame of a fragment's octets.
fn finish<K: Family>(piece: &mut Packet, packet: &Packet, adjacency: &Adjacency) -> Result<(), Reason> {
    piece.inherit_part(packet);
    piece.set_nesting(packet.nesting());
    if packet.state().contains(ORIGINATED) {
        piece.add_state(ORIGINATED);
    } else if packet.state().contains(ENCAPSULATED) {
        piece.add_state(ENCAPSULATED);
    } else {
        checksum::decrement_ttl(piece.l3_mut());
    }
    piece.set_forwarding(packet.forwarding());
    rewrite::put_link_layer::<K>(piece, adjacency).map_err(|()| Reason::NoHeadroom)
}

fn flush(context: &mut Context<'_>, pieces: &mut Vector, port: u32) {
    if matches!(port, TUNNEL | BRIDGE) {
        return requeue(context, pieces);
    }
    let mut frame = Indices::new();
    frame.fill(pieces.len());
    output::transmit(context, pieces, &frame, port as usize);
    pieces.filled().iter_mut().for_each(|piece| piece.recycle(context.cache));
    pieces.clear();
}
