//! Checksums that a network card or the kernel left undone.

use super::sum::{of, udp};
use crate::offload::{Checksum, Gso, Offload};
use crate::packet::Packet;

/// Completes a partial transport checksum of a network card or the kernel ([`Checksum::Partial`]): the field holds the
/// pseudo-header's sum, and the octets from [`Offload::start`] to the end of the frame are added to it. The state is
/// then [`Checksum::Unknown`]: the receiver of the packet verifies it as any other. A sum of zero is written as 0xffff,
/// which UDP needs and which is equal for all others. The checksum of SCTP is a CRC32c without a pseudo-header
/// ([`Offload::is_crc`]).
///
/// Packets in any other state stay as they are, and so do super-packets: each segment gets a checksum of its own when
/// it is cut. If the field is not in the frame, the checksum cannot be completed: only the state of the packet changes.
pub fn complete(packet: &mut Packet) {
    let offload = packet.offload();
    if offload.checksum != Checksum::Partial || offload.gso != Gso::None {
        return;
    }
    let (start, offset) = (usize::from(offload.start), usize::from(offload.offset));
    if let Some(covered) = packet.data_mut().get_mut(start..) {
        if offload.is_crc() {
            complete_crc(covered, offset);
        } else if covered.len() >= offset + 2 {
            let checksum = udp(of(covered));
            covered[offset..offset + 2].copy_from_slice(&checksum.to_be_bytes());
        }
    }
    packet.set_offload(Offload { checksum: Checksum::Unknown, start: 0, offset: 0, ..offload });
}

/// RFC 9260, 6.8 and appendix A: over the packet with zeros in the field, least octet first.
#[cold]
fn complete_crc(packet: &mut [u8], offset: usize) {
    if let Some(field) = packet.get_mut(offset..offset + 4) {
        field.fill(0);
        let crc = crc32c::crc32c(packet);
        packet[offset..offset + 4].copy_from_slice(&crc.to_le_bytes());
    }
}
