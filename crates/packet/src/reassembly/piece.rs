//! The reassembly fields of a fragment.

use std::net::Ipv6Addr;

use crate::parse::{ParseFlags, Parsed};
use crate::wire::icmpv6::parameter_problem;
use crate::wire::{ipv4, ipv6, protocol};

/// Where the data of a datagram starts in its room, in octets: room for the headers of the first fragment.
pub const DATA: usize = 3072;

/// The key that the fragments of one datagram share (RFC 791 section 3.2, RFC 8200 section 4.5). No two datagrams that
/// are under way at the same time have equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The source; an IPv4 address as an IPv4-mapped one (RFC 4291 section 2.5.5.2).
    pub source: Ipv6Addr,
    /// The destination.
    pub destination: Ipv6Addr,
    /// Its identification: 16 bits in IPv4.
    pub identification: u32,
    /// IPv4's protocol; 0 in IPv6, where it takes no part.
    pub protocol: u8,
    /// The scope of the addresses: the VRF, or for link-local addresses the link. The caller's choice.
    pub scope: u32,
}

/// Why a fragment cannot be part of any datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Bad {
    /// It is no fragment, or not the packet that was parsed.
    #[error("not a fragment")]
    NoFragment,
    /// It has no data.
    #[error("a fragment without data")]
    Empty,
    /// It is not the last, and its data is no multiple of 8 octets.
    #[error("the data of a fragment other than the last is no multiple of eight octets")]
    Odd,
    /// Its data would end beyond the longest datagram: with its own headers, that would have more than 65,535 octets
    /// (of payload, in IPv6).
    #[error("the datagram that this is a fragment of is longer than any can be")]
    TooLong {
        /// Where its fragment header lies, from the start of the IPv6 header; 0 in IPv4.
        at: usize,
    },
    /// It is the first, and the chain of headers does not end in it (RFC 7112).
    #[error("a first fragment that does not hold the whole chain of headers")]
    IncompleteChain,
    /// There are more octets of headers in front of its data than there is room for.
    #[error("more than {DATA} octets of headers in front of a fragment")]
    LongHeaders,
}

impl Bad {
    /// Returns code and pointer of the ICMPv6 parameter problem for the sender; `None` where no error is due.
    pub const fn parameter_problem(self) -> Option<(u8, u32)> {
        match self {
            // RFC 8200 section 4.5: at the payload length, and at the fragment offset.
            Bad::Odd => Some((parameter_problem::ERRONEOUS_FIELD, ipv6::PAYLOAD_LENGTH as u32)),
            Bad::TooLong { at } => Some((parameter_problem::ERRONEOUS_FIELD, at as u32 + 2)),
            Bad::IncompleteChain => Some((parameter_problem::INCOMPLETE_CHAIN, 0)),
            Bad::NoFragment | Bad::Empty | Bad::LongHeaders => None,
        }
    }
}

/// A fragment: which octets of which datagram. Only whole units of 8 octets but for the last fragment, and nothing
/// beyond the longest datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its datagram. The scope is 0.
    pub key: Key,
    /// Octets of headers in front of its data, from the IP header on; in IPv6 with the fragment header, which comes last.
    pub headers: u16,
    /// In IPv6, where the octet lies that names the fragment header; 0 in IPv4.
    pub named_at: u16,
    /// Where its data starts in that of the datagram, in octets: a multiple of 8.
    pub offset: u16,
    /// Octets of its data, at least 1.
    pub length: u16,
    /// Others follow behind it.
    pub more: bool,
    /// The protocol of the datagram: IPv4's protocol, or the one that the fragment header names.
    pub protocol: u8,
    /// The explicit congestion notification of its IP header (RFC 3168), 0 ..= 3.
    pub ecn: u8,
}

impl Piece {
    /// The fragment at the start of `packet`, its IP header first. `parsed` is what [`crate::parse`] said of it.
    ///
    /// # Errors
    /// Why no datagram can have it.
    pub fn new(parsed: &Parsed, packet: &[u8]) -> Result<Piece, Bad> {
        let packet = packet.get(..parsed.l3_length as usize).ok_or(Bad::NoFragment)?;
        let piece = if parsed.flags.contains(ParseFlags::IP4) { v4(packet) } else { v6(parsed, packet) }?;
        if piece.length == 0 {
            return Err(Bad::Empty);
        }
        if piece.more && !piece.length.is_multiple_of(8) {
            return Err(Bad::Odd);
        }
        if usize::from(piece.headers) > DATA {
            return Err(Bad::LongHeaders);
        }
        Ok(piece)
    }

    /// Whether it is IPv4.
    #[inline]
    pub fn is_v4(&self) -> bool {
        self.named_at == 0
    }

    /// Where its data ends in that of the datagram.
    #[inline]
    pub fn end(&self) -> usize {
        usize::from(self.offset) + usize::from(self.length)
    }
}

fn v4(packet: &[u8]) -> Result<Piece, Bad> {
    let header = ipv4::Header::new(packet).map_err(|_| Bad::NoFragment)?;
    let headers = header.header_length();
    let length = packet.len().checked_sub(headers).ok_or(Bad::NoFragment)?;
    if header.version() != 4 || !header.is_fragment() {
        return Err(Bad::NoFragment);
    }
    if headers + usize::from(header.fragment_offset()) + length > ipv4::MAX_DATAGRAM {
        return Err(Bad::TooLong { at: 0 });
    }
    Ok(Piece {
        key: Key {
            source: header.source().to_ipv6_mapped(),
            destination: header.destination().to_ipv6_mapped(),
            identification: header.identification().into(),
            protocol: header.protocol(),
            scope: 0,
        },
        // At most 60, and below 65,536 with the offset and the data.
        headers: headers as u16,
        named_at: 0,
        offset: header.fragment_offset(),
        length: length as u16,
        more: header.more_fragments(),
        protocol: header.protocol(),
        ecn: header.ecn(),
    })
}

/// Checks that a first fragment holds its upper-layer header (RFC 7112 section 3), for protocols of known header
/// length.
fn chain_is_complete(parsed: &Parsed) -> bool {
    let known = protocol::has_ports(parsed.protocol) || parsed.protocol == protocol::ICMPV6;
    !known || parsed.flags.contains(ParseFlags::L4_HEADER)
}

fn v6(parsed: &Parsed, packet: &[u8]) -> Result<Piece, Bad> {
    let header = ipv6::Header::new(packet).map_err(|_| Bad::NoFragment)?;
    let walk = ipv6::walk(packet).map_err(|_| Bad::NoFragment)?;
    let fragment = walk.fragment.filter(|fragment| !fragment.is_atomic()).ok_or(Bad::NoFragment)?;
    let headers = fragment.at + ipv6::FRAGMENT_LENGTH;
    let length = packet.len().checked_sub(headers).ok_or(Bad::NoFragment)?;
    // The payload of the whole: what is in front of the fragment header, but for the fixed header, and the data.
    if fragment.at - ipv6::LENGTH + usize::from(fragment.offset) + length > usize::from(u16::MAX) {
        return Err(Bad::TooLong { at: fragment.at });
    }
    if fragment.offset == 0 && !chain_is_complete(parsed) {
        return Err(Bad::IncompleteChain);
    }
    let clamped = |octets: usize| u16::try_from(octets).map_err(|_| Bad::LongHeaders);
    Ok(Piece {
        key: Key {
            source: header.source(),
            destination: header.destination(),
            identification: fragment.identification,
            protocol: 0,
            scope: 0,
        },
        headers: clamped(headers)?,
        named_at: clamped(fragment.named_at)?,
        offset: fragment.offset,
        length: clamped(length)?,
        more: fragment.more,
        protocol: packet[fragment.at],
        ecn: header.ecn(),
    })
}
