//! The usual rewrites: of a packet that leaves over plain Ethernet and fits.

use weir_packet::packet::Packet;
use weir_packet::wire::ethernet;

use crate::graph::flags::{ENCAPSULATED, ORIGINATED};
use crate::root::family::Family;
use crate::root::{Adjacency, Kind};

/// Packets that leave by an adjacency leave over plain Ethernet.
#[inline(always)]
pub(super) fn is_over_ethernet(adjacency: &Adjacency) -> bool {
    (usize::from(adjacency.l2_len) == ethernet::LENGTH) & (adjacency.kind == Kind::Rewrite)
}

/// Rewrites a packet that leaves over plain Ethernet and fits; false, with nothing changed, for any other.
#[inline(always)]
pub(super) fn rewrite<K: Family>(packet: &mut Packet, adjacency: &Adjacency) -> bool {
    is_over_ethernet(adjacency) && rewrite_over_ethernet::<K>(packet, adjacency)
}

/// As [`rewrite`], where the adjacency [is over Ethernet](is_over_ethernet).
#[inline(always)]
pub(super) fn rewrite_over_ethernet<K: Family>(packet: &mut Packet, adjacency: &Adjacency) -> bool {
    let length = packet.len() - packet.l3_offset();
    let plain = (packet.l3_offset() == ethernet::LENGTH)
        & (length <= adjacency.mtu as usize)
        & !packet.is_to_be_segmented()
        & !packet.state().intersects(ORIGINATED | ENCAPSULATED);
    plain && K::decrement_above_one(packet) && write::<K>(packet, adjacency)
}

/// Rewrites a packet without a link-layer header that leaves over plain Ethernet and fits: one that was decrypted, or a packet of
/// ESP; false, with nothing changed, for any other.
#[inline(never)]
pub(super) fn bare<K: Family>(packet: &mut Packet, adjacency: &Adjacency) -> bool {
    let state = packet.state();
    let fits = (packet.l3_offset() == 0)
        & (usize::from(adjacency.l2_len) == ethernet::LENGTH)
        & (adjacency.kind == Kind::Rewrite)
        & (packet.len() <= adjacency.mtu as usize);
    // The path of a packet of ESP may take less, and so may that of an answer of the gateway.
    if !fits || state.contains(ORIGINATED) || state.contains(ENCAPSULATED) && packet.mtu() > 0 {
        return false;
    }
    if state.contains(ENCAPSULATED) {
        return packet.replace_l2(ethernet::LENGTH).is_ok() && write::<K>(packet, adjacency);
    }
    packet.l3().get(K::TTL).is_some_and(|&ttl| ttl > 1)
        && packet.replace_l2(ethernet::LENGTH).is_ok()
        && K::decrement_above_one(packet)
        && write::<K>(packet, adjacency)
}

#[inline(always)]
fn write<K: Family>(packet: &mut Packet, adjacency: &Adjacency) -> bool {
    let Some(header) = packet.data_mut().first_chunk_mut::<{ ethernet::LENGTH }>() else { return false };
    header[..12].copy_from_slice(&adjacency.l2[..12]);
    header[12..].copy_from_slice(&K::ETHERTYPE.to_be_bytes());
    true
}
