//! Super-packets at the way out: packets of one flow leave as one where the port takes it, and a super-packet is cut where the port
//! takes none. All policies have decided about each packet before it is merged, so merging changes no verdict and no counter.

use weir_packet::merge::{Kind, Wanted};
use weir_packet::packet::Packet;
use weir_packet::segment::{self, Segmenter};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::protocol;
use weir_port::Segmentation;

use super::piece::next_piece;
use super::transmission::{self, Lengths};
use super::{Context, discard};
use crate::graph::flags::ENCAPSULATED;
use crate::graph::nesting;
use crate::graph::record::Fate;
use crate::model::Merge;
use crate::reason::Reason;
use crate::root::Root;

/// Sends packets by a port that takes these super-packets.
pub(super) fn send(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    lengths: &mut Lengths,
    (port, takes): (usize, Segmentation),
) {
    let root = context.root;
    let (mut joining, mut foreign) = (0, false);
    let mut last = (u32::MAX, Merge::Off);
    for &place in frame.places() {
        let packet = &vector[place];
        let interface = lengths.interface(place);
        if interface != last.0 {
            last = (interface, merge_of(root, interface));
        }
        joining += usize::from(kind(root, packet, last.1) != Kind::Single);
        foreign |= packet.is_to_be_segmented() && !leaves(packet, takes, last.1);
    }
    if foreign {
        return send_pieces(context, vector, frame, lengths, (port, takes));
    }
    if joining < 2 || !(takes.tcp4 | takes.tcp6 | takes.udp) {
        return transmission::hand_over(context, vector, frame, port, lengths);
    }
    let left = merge(context, vector, frame, lengths, takes);
    transmission::hand_over(context, vector, &left, port, lengths);
}

/// A packet leaves as it is: the port takes it, and the interface does not want packets that were in a tunnel one by one.
fn leaves(packet: &Packet, takes: Segmentation, merge: Merge) -> bool {
    let alone = merge == Merge::Off && packet.is_to_be_segmented() && nesting::taken_off(packet) > 0;
    takes.includes(packet.offload().gso, packet.len()) && !alone && !segment::is_nested(packet)
}

/// The packets that are merged on their way out by an interface.
fn merge_of(root: &Root, interface: u32) -> Merge {
    root.interfaces.get(interface as usize).map_or(Merge::Off, |interface| interface.merge)
}

/// The kind of a packet for an interface that merges these packets.
#[inline(always)]
fn kind(root: &Root, packet: &Packet, merge: Merge) -> Kind {
    if merge == Merge::Off {
        return Kind::Single;
    }
    if packet.state().contains(ENCAPSULATED) {
        return if merge == Merge::All && is_esp_in_udp(root, packet) { Kind::Esp } else { Kind::Single };
    }
    if merge == Merge::All || nesting::taken_off(packet) > 0 { Kind::Exact } else { Kind::Single }
}

/// The outer packet of ESP in UDP, not of a tunnel.
fn is_esp_in_udp(root: &Root, packet: &Packet) -> bool {
    let port = packet.l4_header::<2>().map(|port| u16::from_be_bytes(*port));
    packet.protocol() == protocol::UDP && port.is_some_and(|port| root.ipsec.has_port(port))
}

/// Merges packets; returns the places of what is left.
#[inline(never)]
fn merge(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    lengths: &mut Lengths,
    takes: Segmentation,
) -> Indices {
    let (root, worker) = (context.root, context.worker);
    let Context { merges, cache, .. } = context;
    let wanted = Wanted { tcp4: takes.tcp4, tcp6: takes.tcp6, udp: takes.udp, largest: takes.largest, equal: false };
    let mut left = Indices::new();
    let of = |packet: &Packet| root.adjacencies.get(packet.forwarding() as usize).map(|way| way.interface);
    let kind =
        |_, packet: &Packet| of(packet).map_or(Kind::Single, |number| kind(root, packet, merge_of(root, number)));
    let merged = merges.merger.merge(vector, frame, &mut left, (cache, wanted), kind, |_, _| true);
    if merged.wholes == 0 {
        return left;
    }
    context.counters.created.add(merged.wholes);
    context.counters.absorbed.add(merged.packets);
    if context.recorder.is_on() {
        record(context, vector, frame, &left, lengths);
    }
    for &place in left.places() {
        let packet = &vector[place];
        if !packet.is_to_be_segmented() {
            continue;
        }
        let (interface, before) = (lengths.interface(place), lengths.more(place));
        lengths.set_super(place, packet);
        let joined = lengths.more(place).saturating_sub(before);
        if joined > 0
            && let Some(interface) = root.interfaces.get(interface as usize)
        {
            let (wholes, packets) = &interface.counters[worker].merged;
            wholes.add(1);
            packets.add(u64::from(joined) + 1);
        }
    }
    left
}

/// Records the packets that were merged.
#[cold]
fn record(context: &mut Context<'_>, vector: &Vector, before: &Indices, left: &Indices, lengths: &Lengths) {
    for &place in before.places() {
        let (packet, is_left) = (&vector[place], left.places().contains(&place));
        let was_single = lengths.more(place) == 0;
        if !is_left || packet.is_to_be_segmented() && was_single {
            context.record(packet, Fate::Merged { interface: lengths.interface(place), output: true });
        }
    }
}

/// Sends packets, some of which the port takes only in segments.
#[cold]
#[inline(never)]
fn send_pieces(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    lengths: &Lengths,
    (port, takes): (usize, Segmentation),
) {
    let mut before = Indices::new();
    for &place in frame.places() {
        let packet = &vector[place];
        if leaves(packet, takes, merge_of(context.root, lengths.interface(place))) {
            before.push(place);
            continue;
        }
        if !before.is_empty() {
            transmission::hand_over(context, vector, &before, port, lengths);
            before.clear();
        }
        let interface = lengths.interface(place);
        match cut(context, &vector[place], interface, port) {
            Ok(segments) => {
                context.counters.absorbed.add(1);
                if let Some(interface) = context.root.interfaces.get(interface as usize) {
                    let (wholes, pieces) = &interface.counters[context.worker].cut;
                    wholes.add(1);
                    pieces.add(segments);
                }
            }
            Err(reason) => discard(context, &vector[place], reason),
        }
    }
    if !before.is_empty() {
        transmission::hand_over(context, vector, &before, port, lengths);
    }
}

/// Sends the segments of a super-packet; returns how many there are. If buffers run out, those before have left.
fn cut(context: &mut Context<'_>, packet: &Packet, interface: u32, port: usize) -> Result<u64, Reason> {
    let mut segmenter = Segmenter::new(packet).map_err(|_| Reason::OffloadMismatch)?;
    context.merges.regret(packet.interface());
    // Only `cut` takes it, and puts it back.
    let mut pieces = context.segments.take().ok_or(Reason::NoBuffer)?;
    let count = segmenter.count() as u64;
    let mut outcome = Ok(count);
    while !segmenter.is_done() {
        match next_piece(context.cache, packet, &mut segmenter) {
            Ok(piece) => {
                context.counters.created.add(1);
                // There is room: it is sent when it is full.
                let _ = pieces.push(piece);
            }
            Err(reason) => {
                outcome = Err(reason);
                break;
            }
        }
        if pieces.room() == 0 {
            send_all(context, &mut pieces, interface, port);
        }
    }
    send_all(context, &mut pieces, interface, port);
    *context.segments = Some(pieces);
    outcome
}

/// Sends the packets of a vector by a port, and empties it.
fn send_all(context: &mut Context<'_>, pieces: &mut Vector, interface: u32, port: usize) {
    if pieces.is_empty() {
        return;
    }
    let mut frame = Indices::new();
    frame.fill(pieces.len());
    let mut lengths = Lengths::new();
    frame.places().iter().for_each(|&place| lengths.set(place, &pieces[place], interface));
    transmission::hand_over(context, pieces, &frame, port, &lengths);
    pieces.filled().iter_mut().for_each(|packet| packet.recycle(context.cache));
    pieces.clear();
}
