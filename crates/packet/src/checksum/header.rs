//! Checks and changes of IP headers.

use crate::wire::{ipv4, ipv6};

/// Whether the checksum of an IPv4 header without options is right: five loads, and one multiplication in place of the
/// folds. To fold is to take the remainder by 0xffff, and a right sum folds to 0xffff: it is a multiple, other than
/// zero.
#[inline]
pub fn is_valid_ipv4(header: &[u8; ipv4::LENGTH]) -> bool {
    let (words, _) = header.as_chunks::<4>();
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    sum.is_multiple_of(0xffff) && sum != 0
}

/// Takes one from the TTL of an IPv4 header and mends its checksum. Returns the TTL that is left; `None`, with nothing
/// changed, if the TTL was zero already or `header` is shorter than a header.
#[inline]
pub fn decrement_ttl(header: &mut [u8]) -> Option<u8> {
    let header = header.first_chunk_mut::<{ ipv4::LENGTH }>()?;
    let ttl = header[ipv4::TTL].checked_sub(1)?;
    header[ipv4::TTL] = ttl;
    // TTL is the upper octet of its word, which goes down by 0x100, so the checksum goes up by it, end-around. A sum of
    // 0xffff wraps as well: that is the zero that checksums do not use. Such sums are the same in any order of octets.
    let [a, b] = [header[ipv4::CHECKSUM], header[ipv4::CHECKSUM + 1]];
    let sum = u32::from(u16::from_ne_bytes([a, b])) + u32::from(u16::from_ne_bytes([1, 0]));
    let checksum = (sum + u32::from(sum >= 0xffff)) as u16;
    header[ipv4::CHECKSUM..][..2].copy_from_slice(&checksum.to_ne_bytes());
    Some(ttl)
}

/// Takes one from the hop limit of an IPv6 header. Returns the hop limit that is left; `None`, with nothing changed, if
/// it was zero already or `header` is shorter than a header.
#[inline]
pub fn decrement_hop_limit(header: &mut [u8]) -> Option<u8> {
    let header = header.first_chunk_mut::<{ ipv6::LENGTH }>()?;
    header[ipv6::HOP_LIMIT] = header[ipv6::HOP_LIMIT].checked_sub(1)?;
    Some(header[ipv6::HOP_LIMIT])
}
