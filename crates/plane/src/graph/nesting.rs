//! Layers of tunnels: how many were taken off a packet, and how many were put on. Both stand in the packet's field of nesting.

use weir_packet::packet::Packet;

/// Most tunnels that a packet may be taken out of, or put into, one inside the other.
pub(crate) const MOST_NESTING: u8 = 4;

/// Tunnels that a packet was taken out of.
#[inline(always)]
pub(crate) fn taken_off(packet: &Packet) -> u8 {
    packet.nesting() & 0xf
}

/// Counts a tunnel that a packet was taken out of.
#[inline(always)]
pub(crate) fn take_off(packet: &mut Packet) {
    if taken_off(packet) < 0xf {
        packet.set_nesting(packet.nesting() + 1);
    }
}

/// Tunnels that a packet was taken out of, and put into.
#[inline(always)]
pub(crate) fn layers(packet: &Packet) -> usize {
    usize::from((packet.nesting() & 0xf) + (packet.nesting() >> 4))
}

/// Counts a tunnel that a packet is put into. False, with nothing changed, if it is in too many.
#[inline(always)]
pub(crate) fn put_on(packet: &mut Packet) -> bool {
    let fits = packet.nesting() >> 4 < MOST_NESTING;
    if fits {
        packet.set_nesting(packet.nesting() + 0x10);
    }
    fits
}
