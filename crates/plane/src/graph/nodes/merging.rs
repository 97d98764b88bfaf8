//! Super-packets at the way in: packets of one vector and one flow that were taken out of ESP or of a tunnel, or whose interface
//! wants it, go on as one. Every policy behind decides about them once, and counts them as what they are on the wire.
//!
//! Segments of a super-packet differ in few TCP flags. If access lists match on these, a packet with one is not merged, and a
//! super-packet with one is cut: so all segments have the verdict of their super-packet. If classifier tables match octets in which
//! segments differ, no packet is merged, and every super-packet is cut. If a policy limits bits, a shorter last segment may pass where
//! those before it do not: it goes by itself.

use weir_packet::merge::{Kind, Wanted};
use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::segment::{self, Segmenter};
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::{protocol, tcp, udp};

use super::piece::{last_piece, next_piece};
use super::{Context, discard};
use crate::graph::nesting;
use crate::graph::record::Fate;
use crate::model::Merge;
use crate::reason::Reason;
use crate::root::Root;

/// Merges packets of a frame that the checks of the way in have let pass. The frame keeps the places of what is left.
#[inline]
pub(super) fn merge(context: &mut Context<'_>, vector: &mut Vector, frame: &mut Indices) {
    // With several workers, the owner of the flow cuts it.
    if context.peers.len() < 2 {
        cut(context, vector, frame);
    }
    // A packet whose fate is recorded walks, so that its record names what decides.
    if frame.len() > 1 && !context.root.per_segment.tables && !context.recorder.is_of_all() {
        merge_some(context, vector, frame);
    }
}

/// Cuts super-packets in whose segments some policy may see different flags; they and the packets behind them come back. The frame
/// keeps the places of the packets before.
#[inline]
pub(crate) fn cut(context: &mut Context<'_>, vector: &mut Vector, frame: &mut Indices) {
    if vector.has_segments() && may_cut(context.root) {
        *frame = cut_all(context, vector, frame);
    }
}

/// Some policy may see different segments of a super-packet, or is about the length of the last one.
#[inline]
pub(super) fn may_cut(root: &Root) -> bool {
    root.per_segment.is_any() || limits_bits(root)
}

#[inline(never)]
fn merge_some(context: &mut Context<'_>, vector: &mut Vector, frame: &mut Indices) {
    let root = context.root;
    let own = |packet: &Packet| root.interfaces.get(packet.interface() as usize).map_or(Merge::Off, |own| own.merge);
    let mut last = (u32::MAX, Merge::Off);
    let mut count = 0;
    for &place in frame.places() {
        let packet = &vector[place];
        if packet.interface() != last.0 {
            last = (packet.interface(), own(packet));
        }
        count += usize::from(is_wanted(packet, last.1));
    }
    if count < 2 {
        return;
    }
    let Some(wanted) = wanted(context) else { return };
    let wanted = Wanted { equal: limits_bits(root), ..wanted };
    let paused = context.merges.pause(frame.places().iter().map(|&place| vector[place].interface()));
    let per_segment = root.per_segment.is_any();
    let Context { merges, cache, .. } = context;
    let may = |packet: &Packet| is_wanted(packet, own(packet)) && !paused.has(packet.interface());
    let kind = |_, packet: &Packet| if may(packet) { kind(root, packet, per_segment) } else { Kind::Single };
    let mut left = Indices::new();
    let merged = merges.merger.merge(vector, frame, &mut left, (cache, wanted), kind, are_alike);
    if merged.wholes == 0 {
        return;
    }
    context.counters.created.add(merged.wholes);
    context.counters.absorbed.add(merged.packets);
    note(context, vector, frame, &left);
    *frame = left;
}

/// Some policy limits bits.
#[inline]
pub(super) fn limits_bits(root: &Root) -> bool {
    root.per_segment.bits || root.acl.limits_bits
}

/// The interface of a packet merges it.
#[inline(always)]
fn is_wanted(packet: &Packet, merge: Merge) -> bool {
    match merge {
        Merge::Off => false,
        Merge::Tunnelled => nesting::taken_off(packet) > 0,
        Merge::All => true,
    }
}

/// The super-packets that some port takes; `None`: no port takes any.
fn wanted(context: &Context<'_>) -> Option<Wanted> {
    let takes = context.transmitters.iter().flatten().filter_map(|outlet| outlet.segmentation());
    let wanted = takes.fold(Wanted::default(), |all, own| Wanted {
        tcp4: all.tcp4 | own.tcp4,
        tcp6: all.tcp6 | own.tcp6,
        udp: all.udp | own.udp,
        largest: all.largest.max(own.largest),
        equal: false,
    });
    (wanted.tcp4 | wanted.tcp6 | wanted.udp).then_some(wanted)
}

/// The kind of a packet that its interface merges.
#[inline]
pub(super) fn kind(root: &Root, packet: &Packet, per_segment: bool) -> Kind {
    let alone = match packet.protocol() {
        protocol::TCP => {
            let flags = packet.l4_header::<{ tcp::LENGTH }>().map_or(0, |header| header[tcp::FLAGS]);
            // No decision is learned about a packet with FIN, nor taken by it.
            flags & tcp::Flags::FIN.0 != 0 || per_segment && flags & DIFFERING != 0
        }
        protocol::UDP => packet.l4_header::<{ udp::LENGTH }>().is_none_or(|header| {
            // The gateway takes these packets apart.
            let port = u16::from_be_bytes([header[2], header[3]]);
            root.ipsec.has_port(port) || root.tunnels.carrier_of(port).is_some()
        }),
        _ => true,
    };
    if alone { Kind::Single } else { Kind::Exact }
}

/// The TCP flags in which segments differ.
const DIFFERING: u8 = tcp::Flags::FIN.0 | tcp::Flags::PSH.0 | tcp::Flags::CWR.0;

/// The segments of a super-packet differ in their flags.
pub(super) fn differs_in_flags(packet: &Packet) -> bool {
    packet.protocol() == protocol::TCP
        && packet.l4_header::<{ tcp::LENGTH }>().is_some_and(|header| header[tcp::FLAGS] & DIFFERING != 0)
}

/// The graph knows the same of two packets: they came in by one interface, out of the same SA and as many tunnels, and go on at the
/// same stage.
#[inline]
pub(super) fn are_alike(one: &Packet, other: &Packet) -> bool {
    let known = |packet: &Packet| {
        let marked = (packet.mark(), packet.forwarding());
        (packet.interface(), marked, packet.state(), packet.nesting(), packet.resume(), packet.shown())
    };
    known(one) == known(other)
}

/// Counts the super-packets that were made for their interfaces, and records them where fates are recorded.
pub(super) fn note(context: &mut Context<'_>, vector: &Vector, before: &Indices, left: &Indices) {
    let mut is_left = [false; VECTOR];
    left.places().iter().for_each(|&place| is_left[usize::from(place)] = true);
    for &place in before.places() {
        let packet = &vector[place];
        let interface = packet.interface();
        if let Some(own) = context.root.interfaces.get(interface as usize) {
            let (wholes, packets) = &own.counters[context.worker].merged;
            if !is_left[usize::from(place)] {
                packets.add(1);
            } else if packet.is_to_be_segmented() {
                wholes.add(1);
                packets.add(1);
            }
        }
        if context.recorder.is_on() && (packet.is_to_be_segmented() || !is_left[usize::from(place)]) {
            context.record(packet, Fate::Merged { interface, output: false });
        }
    }
}

/// Cuts super-packets in whose segments policies may see different flags or octets; they and the packets behind them come back. Returns
/// the places of the packets before.
#[cold]
fn cut_all(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) -> Indices {
    let mut at_once = Indices::new();
    let (is_per_segment, limits_bits) = (context.root.per_segment.is_any(), limits_bits(context.root));
    for &place in frame.places() {
        let packet = &mut vector[place];
        let is_whole =
            packet.is_to_be_segmented() && packet.reason() == 0 && !packet.flags().contains(ParseFlags::FRAGMENT);
        let differs = is_whole && is_per_segment && (context.root.per_segment.tables || differs_in_flags(packet));
        let is_uneven = is_whole && limits_bits && Segmenter::new(packet).is_ok_and(|all| all.ends_shorter());
        let is_nested = segment::is_nested(packet);
        if differs || is_uneven && is_nested {
            match queue_segments(context, packet) {
                Ok(()) => context.counters.absorbed.add(1),
                Err(reason) => context.next.refuse(packet, place, reason),
            }
            continue;
        }
        let last = if is_uneven { take_last(context, packet) } else { Ok(None) };
        let last = match last {
            Ok(last) => last,
            Err(reason) => {
                context.next.refuse(packet, place, reason);
                continue;
            }
        };
        if !context.requeue.has_behind() {
            at_once.push(place);
        } else if let Err(refused) = context.requeue.push_behind(packet.take()) {
            *packet = refused;
            context.next.refuse(packet, place, Reason::NoBuffer);
        }
        if let Some(last) = last {
            queue(context, last);
        }
    }
    at_once
}

/// Takes the last segment off a super-packet.
fn take_last(context: &mut Context<'_>, packet: &mut Packet) -> Result<Option<Packet>, Reason> {
    let last = last_piece(context.cache, packet)?;
    context.counters.created.add(1);
    Ok(Some(last))
}

/// Has a packet go round again; it is dropped if there is no room.
fn queue(context: &mut Context<'_>, packet: Packet) {
    if let Err(mut refused) = context.requeue.push_behind(packet) {
        discard(context, &refused, Reason::NoBuffer);
        refused.recycle(context.cache);
    }
}

/// Queues all segments of a packet, for the stage that the packet goes on at. If there is no room for one, those before it go on and the packet counts as dropped.
pub(super) fn queue_segments(context: &mut Context<'_>, packet: &Packet) -> Result<(), Reason> {
    let mut segmenter = Segmenter::new(packet).map_err(|_| Reason::OffloadMismatch)?;
    context.merges.regret(packet.interface());
    while !segmenter.is_done() {
        let mut piece = next_piece(context.cache, packet, &mut segmenter)?;
        piece.set_resume(packet.resume());
        piece.set_state(packet.state());
        context.counters.created.add(1);
        if let Err(mut refused) = context.requeue.push_behind(piece) {
            discard(context, &refused, Reason::NoBuffer);
            refused.recycle(context.cache);
            return Err(Reason::NoBuffer);
        }
    }
    Ok(())
}
