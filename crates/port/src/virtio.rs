//! The `virtio_net_hdr` of packets for tap devices and packet sockets.

use weir_packet::offload::{Checksum, Gso, Offload, VirtioHeader};

/// Offset of the flags in a TCP header, and the CWR flag (RFC 3168, 6.1.2).
const TCP_FLAGS: (usize, u8) = (13, 0x80);

pub(crate) fn header(data: &[u8], offload: &Offload) -> VirtioHeader {
    let mut header = VirtioHeader::of(offload, header_len(data, offload));
    // Only the first segment may carry CWR. Without this flag a device would repeat it in all.
    if is_tcp(offload)
        && let Some(flags) = data.get(usize::from(offload.start) + TCP_FLAGS.0)
        && flags & TCP_FLAGS.1 != 0
    {
        header.gso_type |= VirtioHeader::GSO_ECN;
    }
    header
}

/// Returns whether a packet is a TCP super-packet with a known header offset.
fn is_tcp(offload: &Offload) -> bool {
    matches!((offload.gso, offload.checksum), (Gso::Tcp4 | Gso::Tcp6, Checksum::Partial))
}

/// Returns the octets of all headers in front of the payload to segment; 0 if unknown.
fn header_len(data: &[u8], offload: &Offload) -> u16 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_tcp_segments_say_where_they_end_and_whether_they_carry_cwr() {
        let mut data = [0; 100];
        data[34 + 12] = 0x80;
        for (flags, gso, checksum, expected) in [
            (0x90, Gso::Tcp4, Checksum::Partial, (VirtioHeader::GSO_TCPV4 | VirtioHeader::GSO_ECN, 66)),
            (0x80, Gso::Tcp6, Checksum::Partial, (VirtioHeader::GSO_TCPV6 | VirtioHeader::GSO_ECN, 66)),
            (0x50, Gso::Tcp4, Checksum::Partial, (VirtioHeader::GSO_TCPV4, 66)),
            // The header offset is unknown; datagrams have no such flag.
            (0x90, Gso::Tcp4, Checksum::Unknown, (VirtioHeader::GSO_TCPV4, 0)),
            (0x90, Gso::Udp, Checksum::Partial, (VirtioHeader::GSO_UDP_L4, 42)),
            (0x90, Gso::None, Checksum::Partial, (VirtioHeader::GSO_NONE, 0)),
        ] {
            data[34 + 13] = flags;
            let offload = Offload { checksum, gso, segment: 1000, start: 34, offset: 16 };
            let header = header(&data, &offload);
            assert_eq!((header.gso_type, header.header_len), expected, "{gso:?} {checksum:?}");
        }
        let outside = Offload { checksum: Checksum::Partial, gso: Gso::Tcp4, segment: 1000, start: 87, offset: 6 };
        assert_eq!(header(&data, &outside).gso_type, VirtioHeader::GSO_TCPV4);
    }
}
