//! Segments of a super-packet as packets of their own.

use weir_packet::buffer::Cache;
use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags};
use weir_packet::segment::{self, Segmenter};

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

/// Takes the last segment off a super-packet of several: it goes on where the packet does.
pub(super) fn last_piece(cache: &mut Cache, packet: &mut Packet) -> Result<Packet, Reason> {
    let mut segmenter = Segmenter::new(packet).map_err(|_| Reason::OffloadMismatch)?;
    let before = segmenter.count().saturating_sub(1);
    segmenter.skip_to_last();
    let mut last = next_piece(cache, packet, &mut segmenter)?;
    if segment::keep(packet, before).is_err() {
        last.recycle(cache);
        return Err(Reason::OffloadMismatch);
    }
    last.set_resume(packet.resume());
    last.set_state(packet.state());
    Ok(last)
}
