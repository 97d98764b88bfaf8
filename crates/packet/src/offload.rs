//! The offloads that a network card or the kernel left to be completed, and their header (`struct virtio_net_hdr`,
//! Virtual I/O Device 1.2, section 5.1.6).

/// The state of the transport checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Checksum {
    /// Nothing.
    #[default]
    Unknown,
    /// It was verified.
    Valid,
    /// It holds the pseudo-header's sum only and is to be completed.
    Partial,
}

/// The kind of segments that a super-packet stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Gso {
    /// It is a packet as it is.
    #[default]
    None,
    /// TCP segments over IPv4.
    Tcp4,
    /// TCP segments over IPv6.
    Tcp6,
    /// UDP datagrams (not fragments).
    Udp,
}

/// Offload state of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    /// The transport checksum.
    pub checksum: Checksum,
    /// Segmentation that is still to be done.
    pub gso: Gso,
    /// Payload octets of each segment; 0 without GSO.
    pub segment: u16,
    /// Where summing starts, in octets from the start of the frame (with [`Checksum::Partial`]).
    pub start: u16,
    /// Where the checksum stands, in octets from `start` (with [`Checksum::Partial`]).
    pub offset: u16,
}

impl Offload {
    /// Where the checksum of SCTP stands in its header (RFC 9260, 3.1), in octets: no other protocol has it there.
    pub const SCTP_CHECKSUM: u16 = 8;

    /// The checksum that is to be completed is SCTP's CRC32c (RFC 9260, 6.8), not the Internet checksum. The kernel hands
    /// such packets over and cannot take them: a `virtio_net_hdr` does not say which of the two is meant.
    #[inline]
    pub const fn is_crc(&self) -> bool {
        matches!((self.checksum, self.gso), (Checksum::Partial, Gso::None)) && self.offset == Self::SCTP_CHECKSUM
    }
}

/// `struct virtio_net_hdr`, without the count of buffers: 10 octets in the machine's byte order, as the kernel's packet
/// sockets and taps use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VirtioHeader {
    /// [`VirtioHeader::NEEDS_CSUM`] and [`VirtioHeader::DATA_VALID`].
    pub flags: u8,
    /// One of the `GSO_` constants, possibly with [`VirtioHeader::GSO_ECN`].
    pub gso_type: u8,
    /// Octets of all headers.
    pub header_len: u16,
    /// Payload octets of each segment.
    pub gso_size: u16,
    /// Where summing starts.
    pub csum_start: u16,
    /// Where the checksum stands after `csum_start`.
    pub csum_offset: u16,
}

/// Why a header was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadVirtioHeader;

impl VirtioHeader {
    /// Octets on the wire.
    pub const LEN: usize = 10;
    /// The checksum is to be completed.
    pub const NEEDS_CSUM: u8 = 1;
    /// The checksum was verified.
    pub const DATA_VALID: u8 = 2;
    /// Not segmented.
    pub const GSO_NONE: u8 = 0;
    /// TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// UDP segments.
    pub const GSO_UDP_L4: u8 = 5;
    /// Flag: the segments carry ECN.
    pub const GSO_ECN: u8 = 0x80;

    /// Reads a header.
    pub fn parse(octets: &[u8; Self::LEN]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([octets[at], octets[at + 1]]);
        VirtioHeader {
            flags: octets[0],
            gso_type: octets[1],
            header_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// Writes a header.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        octets[0] = self.flags;
        octets[1] = self.gso_type;
        for (at, word) in [(2, self.header_len), (4, self.gso_size), (6, self.csum_start), (8, self.csum_offset)] {
            octets[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
        octets
    }

    /// The state of a frame of `len` octets that came with this header.
    ///
    /// # Errors
    /// When it points outside the frame, or names a kind of segmentation that does not exist.
    pub fn offload(&self, len: usize) -> Result<Offload, BadVirtioHeader> {
        let gso = match self.gso_type & !Self::GSO_ECN {
            Self::GSO_NONE => Gso::None,
            Self::GSO_TCPV4 => Gso::Tcp4,
            Self::GSO_TCPV6 => Gso::Tcp6,
            Self::GSO_UDP_L4 => Gso::Udp,
            _ => return Err(BadVirtioHeader),
        };
        if gso != Gso::None && self.gso_size == 0 {
            return Err(BadVirtioHeader);
        }
        let (checksum, start, offset) = if self.flags & Self::NEEDS_CSUM != 0 {
            if usize::from(self.csum_start) + usize::from(self.csum_offset) + 2 > len {
                return Err(BadVirtioHeader);
            }
            (Checksum::Partial, self.csum_start, self.csum_offset)
        } else if self.flags & Self::DATA_VALID != 0 {
            (Checksum::Valid, 0, 0)
        } else {
            (Checksum::Unknown, 0, 0)
        };
        let segment = if gso == Gso::None { 0 } else { self.gso_size };
        Ok(Offload { checksum, gso, segment, start, offset })
    }

    /// Builds the header of this state for the kernel; `header_len` counts all headers in front of the payload.
    pub fn of(offload: &Offload, header_len: u16) -> Self {
        let (flags, csum_start, csum_offset) = match offload.checksum {
            Checksum::Unknown => (0, 0, 0),
            Checksum::Valid => (Self::DATA_VALID, 0, 0),
            Checksum::Partial => (Self::NEEDS_CSUM, offload.start, offload.offset),
        };
        let gso_type = match offload.gso {
            Gso::None => Self::GSO_NONE,
            Gso::Tcp4 => Self::GSO_TCPV4,
            Gso::Tcp6 => Self::GSO_TCPV6,
            Gso::Udp => Self::GSO_UDP_L4,
        };
        let header_len = if offload.gso == Gso::None { 0 } else { header_len };
        VirtioHeader { flags, gso_type, header_len, gso_size: offload.segment, csum_start, csum_offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_carries_the_state_there_and_back() {
        for offload in [
            Offload::default(),
            Offload { checksum: Checksum::Valid, ..Default::default() },
            Offload { checksum: Checksum::Partial, start: 34, offset: 16, ..Default::default() },
            Offload { checksum: Checksum::Partial, gso: Gso::Tcp6, segment: 1440, start: 54, offset: 16 },
            Offload { checksum: Checksum::Partial, gso: Gso::Udp, segment: 1200, start: 34, offset: 6 },
        ] {
            let header = VirtioHeader::of(&offload, 54);
            assert_eq!(VirtioHeader::parse(&header.emit()), header);
            assert_eq!(header.offload(100), Ok(offload));
        }
    }

    #[test]
    fn a_header_that_lies_is_refused() {
        let outside =
            VirtioHeader { flags: VirtioHeader::NEEDS_CSUM, csum_start: 90, csum_offset: 9, ..Default::default() };
        assert_eq!(outside.offload(100), Err(BadVirtioHeader));
        assert!(outside.offload(101).is_ok());
        assert_eq!(VirtioHeader { gso_type: 3, gso_size: 9, ..Default::default() }.offload(100), Err(BadVirtioHeader));
        assert_eq!(VirtioHeader { gso_type: 1, ..Default::default() }.offload(100), Err(BadVirtioHeader));
    }
}
