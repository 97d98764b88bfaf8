//! The scope of a datagram whose fragments are put together, or matched by their first one.

use weir_packet::packet::Packet;
use weir_packet::reassembly::Piece;

use super::Context;

/// Equal addresses are not the same in another routing domain, and link-local ones not on another link.
pub(super) fn scoped(context: &Context<'_>, packet: &Packet, mut piece: Piece) -> Piece {
    let on_link = piece.key.source.is_unicast_link_local() || piece.key.destination.is_unicast_link_local();
    let vrf = context.root.interfaces.get(packet.interface() as usize).map_or(0, |interface| interface.vrf);
    piece.key.scope = if on_link { 1 << 31 | packet.interface() } else { u32::from(vrf) };
    piece
}
