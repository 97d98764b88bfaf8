//! Segments of a super-packet as packets of their own.

use weir_packet::buffer::Cache;
use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags};
use weir_packet::segment::Segmenter;

use crate::graph::flags::ORIGINATED;
use crate::reason::Reason;

/// Makes the next segment of a packet, behind the packet's link-layer header.
pub(super) fn next_piece(cache: &mut Cache, packet: &Packet, segmenter: &mut Segmenter<'_>) -> Result<Packet, Reason> {
    let length = segmenter.next_length().ok_or(Reason::OffloadMismatch)?;
    let mut piece = Packet::new(cache, length).ok_or(Reason::NoBuffer)?;
    segmenter.next(piece.data_mut());
    let v4 = packet.flags().contains(ParseFlags::IP4);
    let parsed = if v4 { parse::ipv4(piece.data(), 0) } else { parse::ipv6(piece.data(), 0) };
    let link = packet.data().get(..packet.l3_offset()).unwrap_or_default();
    let framed = parsed.is_ok_and(|parsed| {
        piece.set_parsed(&parsed);
        piece.replace_l2(link.len()).map(|room| room.copy_from_slice(link)).is_ok()
    });
    if !framed {
        piece.recycle(cache);
        return Err(Reason::OffloadMismatch);
    }
    piece.inherit_part(packet);
    if packet.state().contains(ORIGINATED) {
        piece.add_state(ORIGINATED);
    }
    piece.set_nesting(packet.nesting());
    piece.set_forwarding(packet.forwarding());
    Ok(piece)
}
