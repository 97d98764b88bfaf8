//! What tap devices and packet sockets have to be told of a packet beside its octets.

use weir_packet::offload::{Checksum, Gso, Offload, VirtioHeader};

/// Where the flags of a TCP header stand, and the one that says that the sender halved its window (CWR, RFC 3168, 6.1.2).
const TCP_FLAGS: (usize, u8) = (13, 0x80);

/// What the kernel is to be told of a frame or packet.
pub(crate) fn header(data: &[u8], offload: &Offload) -> VirtioHeader {
    let mut header = VirtioHeader::of(offload, header_len(data, offload));
    // Only the first segment may have the flag: unless it is told, a device would give it to all.
    if is_tcp(offload)
        && let Some(flags) = data.get(usize::from(offload.start) + TCP_FLAGS.0)
        && flags & TCP_FLAGS.1 != 0
    {
        header.gso_type |= VirtioHeader::GSO_ECN;
    }
    header
}

/// It is a long TCP segment, and known where its header starts.
fn is_tcp(offload: &Offload) -> bool {
    matches!((offload.gso, offload.checksum), (Gso::Tcp4 | Gso::Tcp6, Checksum::Partial))
}

/// Octets of all headers in front of the payload that is to be segmented; 0 when that is not said.
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
            // Nobody knows where the header is; nor has a datagram such a flag.
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
