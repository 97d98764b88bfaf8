//! What tap devices and packet sockets have to be told of a packet beside its octets.

use weir_packet::offload::{Checksum, Gso, Offload};

/// Octets of all headers in front of the payload that is to be segmented; 0 when that is not said.
pub(crate) fn header_len(data: &[u8], offload: &Offload) -> u16 {
    let transport = match (offload.gso, offload.checksum) {
        (Gso::Tcp4 | Gso::Tcp6, Checksum::Partial) => {
            let offset = data.get(usize::from(offload.start) + 12);
            offset.map_or(0, |octet| u16::from(octet >> 4) * 4)
        }
        (Gso::Udp, Checksum::Partial) => 8,
        _ => return 0,
    };
    offload.start.saturating_add(transport)
}
