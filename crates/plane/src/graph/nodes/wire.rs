//! The packets on the wire that a packet stands for: counters count a super-packet as its segments.

use weir_packet::packet::Packet;
use weir_packet::segment;
use weir_packet::vector::{Indices, Vector};

/// Returns the packets on the wire, and their octets from the IP header on.
#[inline(always)]
pub(super) fn counts(packet: &Packet) -> (u64, u64) {
    let (packets, octets) = segment::of_ip(packet);
    (packets.into(), octets.into())
}

/// Returns the packets on the wire, and the octets of their frames.
#[inline(always)]
pub(super) fn frames(packet: &Packet) -> (u64, u64) {
    let (packets, octets) = segment::on_wire(packet);
    (packets.into(), octets.into())
}

/// The packets on the wire.
#[inline(always)]
pub(super) fn packets(packet: &Packet) -> u64 {
    segment::on_wire(packet).0.into()
}

/// Calls a function for each super-packet of a list, with its index, and with what it counts beside itself: packets, and octets
/// from the IP header on.
#[inline(always)]
pub(super) fn each_more(vector: &Vector, frame: &Indices, more: impl FnMut(usize, u64, u64)) {
    if vector.has_segments() {
        each_super(vector, frame, more);
    }
}

#[cold]
#[inline(never)]
fn each_super(vector: &Vector, frame: &Indices, mut more: impl FnMut(usize, u64, u64)) {
    for (index, &place) in frame.places().iter().enumerate() {
        let packet = &vector[place];
        if packet.is_to_be_segmented() {
            let (packets, octets) = counts(packet);
            more(index, packets - 1, octets - (packet.len() - packet.l3_offset()) as u64);
        }
    }
}

/// The packets that a list counts beside its own.
#[inline(always)]
pub(super) fn more(vector: &Vector, frame: &Indices) -> u64 {
    let mut sum = 0;
    each_more(vector, frame, |_, packets, _| sum += packets);
    sum
}
