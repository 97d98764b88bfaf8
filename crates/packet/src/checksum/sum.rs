//! Sums, checksums, and changes of fields under a checksum.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::wide;

/// A one's-complement sum on its way.
///
/// The words are added in the machine's own byte order and turned at the end: the sum does not care (RFC 1071 section
/// 2(B)), and no load has to be swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    #[inline]
    pub const fn new() -> Sum {
        Sum(0)
    }

    /// Adds bytes; an odd last byte counts as padded with a zero, so only the last part of a message may be odd.
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Sum {
        // Folded after every part, `self.0` stays below 2^17 and the sum of 2^31 words of 32 bits below 2^63 + 2^17.
        // Slices of more than 8 GiB would wrap (without a panic); a packet has 64 KiB.
        let (blocks, rest) = bytes.as_chunks::<32>();
        let mut sum = self.0.wrapping_add(wide::sum(blocks));
        let (words, rest) = rest.as_chunks::<4>();
        for word in words {
            sum = sum.wrapping_add(u64::from(u32::from_ne_bytes(*word)));
        }
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        sum = sum.wrapping_add(u64::from(u32::from_ne_bytes(last)));
        Sum((sum & 0xffff_ffff) + (sum >> 32)).shorter()
    }

    /// Copies bytes to a slice of the same length, and adds them: in one walk, which costs less than two. What is longer on either side is
    /// left alone.
    #[inline]
    pub fn copied(self, from: &[u8], to: &mut [u8]) -> Sum {
        let length = from.len().min(to.len());
        let (from, to) = (&from[..length], &mut to[..length]);
        let (blocks, rest) = from.as_chunks::<32>();
        let (copies, end) = to.as_chunks_mut::<32>();
        // As in `bytes`.
        let sum = self.0.wrapping_add(wide::copied(blocks, copies));
        end.copy_from_slice(rest);
        Sum((sum & 0xffff_ffff) + (sum >> 32)).shorter().bytes(rest)
    }

    /// Adds a 16-bit word.
    #[inline]
    pub const fn word(self, value: u16) -> Sum {
        Sum(self.0 + value.to_be() as u64).shorter()
    }

    /// Adds a 32-bit word.
    #[inline]
    pub const fn long(self, value: u32) -> Sum {
        Sum(self.0 + value.to_be() as u64).shorter()
    }

    /// The same sum below 2^17.
    #[inline(always)]
    const fn shorter(self) -> Sum {
        let sum = (self.0 & 0xffff) + (self.0 >> 16);
        Sum((sum & 0xffff) + (sum >> 16))
    }

    /// The sum itself, folded to 16 bits: 0xffff over a message whose checksum is right.
    #[inline]
    pub const fn folded(self) -> u16 {
        let sum = (self.0 & 0xffff) + (self.0 >> 16);
        u16::from_be(((sum & 0xffff) + (sum >> 16)) as u16)
    }

    /// The checksum to store: the complement of the sum.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }

    /// Whether the bytes that were added hold their checksum, and it is right.
    #[inline]
    pub const fn is_valid(self) -> bool {
        self.folded() == 0xffff
    }
}

/// The checksum of bytes whose checksum field holds zero.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).checksum()
}

/// Whether bytes that hold their checksum, and no pseudo-header, are right.
#[inline]
pub fn is_valid(bytes: &[u8]) -> bool {
    Sum::new().bytes(bytes).is_valid()
}

/// The pseudo-header of TCP, UDP and the like over IPv4 (RFC 9293 section 3.1). `length` is that of the transport
/// header and its payload in octets.
#[inline]
pub fn pseudo_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> Sum {
    Sum::new().long(source.to_bits()).long(destination.to_bits()).word(u16::from(protocol)).word(length)
}

/// The pseudo-header of an upper layer over IPv6 (RFC 8200 section 8.1). `length` is that of the upper-layer header
/// and its payload in octets.
#[inline]
pub fn pseudo_v6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: u32) -> Sum {
    Sum::new().bytes(&source.octets()).bytes(&destination.octets()).long(length).word(u16::from(protocol))
}

/// Returns the checksum that a UDP sender stores: zero means that there is none, so a sum of zero becomes 0xffff (RFC
/// 768).
#[inline]
pub const fn udp(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// A change of fields under a checksum (RFC 1624 equation 3). One value serves every checksum that covers the
/// changed fields: NAT applies the same to the IP header and, with the ports added, to the transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Delta(u16);

impl Delta {
    /// No change.
    pub const NONE: Delta = Delta(0);

    /// A 16-bit field at an even place changes.
    #[inline]
    pub const fn word(old: u16, new: u16) -> Delta {
        Delta(add(!old, new))
    }

    /// A 32-bit field at an even place changes.
    #[inline]
    pub const fn long(old: u32, new: u32) -> Delta {
        Delta::word((old >> 16) as u16, (new >> 16) as u16).and(Delta::word(old as u16, new as u16))
    }

    /// A 128-bit field at an even place changes.
    #[inline]
    pub const fn wide(old: u128, new: u128) -> Delta {
        Delta::long((old >> 96) as u32, (new >> 96) as u32)
            .and(Delta::long((old >> 64) as u32, (new >> 64) as u32))
            .and(Delta::long((old >> 32) as u32, (new >> 32) as u32))
            .and(Delta::long(old as u32, new as u32))
    }

    /// Both changes.
    #[inline]
    pub const fn and(self, other: Delta) -> Delta {
        Delta(add(self.0, other.0))
    }

    /// The same change, for checksums that are read in the order of octets of the CPU. One's-complement sums are the same in any order
    /// of octets (RFC 1071, 2).
    #[inline]
    #[must_use]
    pub const fn in_native_order(self) -> Delta {
        Delta(self.0.to_be())
    }

    /// The checksum after the change. Equal to a recomputed one as long as the bytes under it are not all zero, which
    /// an IP header or a pseudo-header rules out.
    #[inline]
    pub const fn apply(self, checksum: u16) -> u16 {
        let sum = add(!checksum, self.0);
        // A zero sum stands for 0xffff (see the top of the module): reached only from a checksum of 0xffff.
        if sum == 0 { 0 } else { !sum }
    }

    /// Returns the UDP checksum after the change: absent stays absent, and a result of zero becomes 0xffff.
    #[inline]
    pub const fn apply_udp(self, checksum: u16) -> u16 {
        if checksum == 0 { 0 } else { udp(self.apply(checksum)) }
    }
}

/// One's-complement addition.
#[inline(always)]
pub(super) const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// The checksum after a 16-bit field at an even place changed from `old` to `new`.
#[inline]
pub const fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    Delta::word(old, new).apply(checksum)
}

/// The checksum after a 32-bit field at an even place changed from `old` to `new`.
#[inline]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    Delta::long(old, new).apply(checksum)
}
