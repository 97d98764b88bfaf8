//! The usual rewrite: of a packet that is forwarded over plain Ethernet and fits.

use weir_packet::packet::Packet;
use weir_packet::wire::ethernet;

use crate::graph::flags::{ENCAPSULATED, ORIGINATED};
use crate::root::family::Family;
use crate::root::{Adjacency, Kind};

/// Rewrites a packet that is forwarded over plain Ethernet and fits; false, with nothing changed, for any other.
#[inline(always)]
pub(super) fn rewrite<K: Family>(packet: &mut Packet, adjacency: &Adjacency) -> bool {
    let length = packet.len() - packet.l3_offset();
    let plain = (packet.l3_offset() == ethernet::LENGTH)
        & (usize::from(adjacency.l2_len) == ethernet::LENGTH)
        & (adjacency.kind == Kind::Rewrite)
        & (length <= adjacency.mtu as usize)
        & !packet.state().intersects(ORIGINATED | ENCAPSULATED);
    if !plain || !K::decrement_above_one(packet) {
        return false;
    }
    let Some(header) = packet.data_mut().first_chunk_mut::<{ ethernet::LENGTH }>() else { return false };
    header[..12].copy_from_slice(&adjacency.l2[..12]);
    header[12..].copy_from_slice(&K::ETHERTYPE.to_be_bytes());
    true
}
