//! IPv6 (RFC 8200).

use std::net::Ipv6Addr;

use super::{Truncated, array, be16, be32, chunk, protocol};

/// Length of the fixed header in octets.
pub const LENGTH: usize = 40;
/// Every link carries packets of this many octets (RFC 8200 section 5).
pub const MIN_MTU: usize = 1280;

/// Place of version, traffic class and flow label, 4 octets.
pub const VERSION_CLASS_LABEL: usize = 0;
/// Place of the payload length, 2 octets.
pub const PAYLOAD_LENGTH: usize = 4;
/// Place of the next header, 1 octet.
pub const NEXT_HEADER: usize = 6;
/// Place of the hop limit, 1 octet.
pub const HOP_LIMIT: usize = 7;
/// Place of the source address, 16 octets.
pub const SOURCE: usize = 8;
/// Place of the destination address, 16 octets.
pub const DESTINATION: usize = 24;

/// A view of the fixed header. Nothing but its presence is checked: see [`crate::parse::ipv6`].
#[derive(Debug, Clone, Copy)]
pub struct Header<'a>(&'a [u8; LENGTH]);

impl<'a> Header<'a> {
    /// The header at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Header<'a>, Truncated> {
        chunk(bytes, "ipv6").map(Header)
    }

    /// The bytes of the header.
    #[inline]
    pub fn bytes(self) -> &'a [u8; LENGTH] {
        self.0
    }

    /// 6 in a valid header.
    #[inline]
    pub fn version(self) -> u8 {
        self.0[0] >> 4
    }

    /// Traffic class: DSCP in the upper six bits, ECN in the lower two.
    #[inline]
    pub fn traffic_class(self) -> u8 {
        (be16(self.0, 0) >> 4) as u8
    }

    /// Differentiated services code point (RFC 2474), 0 ..= 63.
    #[inline]
    pub fn dscp(self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit congestion notification (RFC 3168), 0 ..= 3.
    #[inline]
    pub fn ecn(self) -> u8 {
        self.traffic_class() & 3
    }

    /// Flow label (RFC 6437), 20 bits.
    #[inline]
    pub fn flow_label(self) -> u32 {
        be32(self.0, VERSION_CLASS_LABEL) & 0x000f_ffff
    }

    /// Length of what follows the fixed header in octets, as the header says.
    #[inline]
    pub fn payload_length(self) -> u16 {
        be16(self.0, PAYLOAD_LENGTH)
    }

    /// Returns the type of the next header: an extension header or a protocol, see [`super::protocol`].
    #[inline]
    pub fn next_header(self) -> u8 {
        self.0[NEXT_HEADER]
    }

    /// Hop limit.
    #[inline]
    pub fn hop_limit(self) -> u8 {
        self.0[HOP_LIMIT]
    }

    /// Returns the source.
    #[inline]
    pub fn source(self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16, LENGTH>(self.0, SOURCE))
    }

    /// Returns the destination.
    #[inline]
    pub fn destination(self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16, LENGTH>(self.0, DESTINATION))
    }
}

/// The fixed header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// Traffic class: DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// Flow label, 20 bits; the upper ones are ignored.
    pub flow_label: u32,
    /// Length of what follows in octets.
    pub payload_length: u16,
    /// The type of the next header: see [`super::protocol`].
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// The source.
    pub source: Ipv6Addr,
    /// The destination.
    pub destination: Ipv6Addr,
}

impl Fields {
    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Fields, Truncated> {
        let header = Header::new(bytes)?;
        Ok(Fields {
            traffic_class: header.traffic_class(),
            flow_label: header.flow_label(),
            payload_length: header.payload_length(),
            next_header: header.next_header(),
            hop_limit: header.hop_limit(),
            source: header.source(),
            destination: header.destination(),
        })
    }

    /// The header's bytes.
    #[inline]
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0x000f_ffff;
        out[VERSION_CLASS_LABEL..][..4].copy_from_slice(&first.to_be_bytes());
        out[PAYLOAD_LENGTH..][..2].copy_from_slice(&self.payload_length.to_be_bytes());
        out[NEXT_HEADER] = self.next_header;
        out[HOP_LIMIT] = self.hop_limit;
        out[SOURCE..][..16].copy_from_slice(&self.source.octets());
        out[DESTINATION..][..16].copy_from_slice(&self.destination.octets());
        out
    }
}

/// Length of a fragment header in octets (RFC 8200 section 4.5).
pub const FRAGMENT_LENGTH: usize = 8;

/// A fragment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Where the header lies, in octets from the start of the IPv6 header.
    pub at: usize,
    /// Where the octet lies that names it, in octets from the start of the IPv6 header.
    pub named_at: usize,
    /// Where this fragment starts in the fragmentable part of the packet, in octets, a multiple of 8.
    pub offset: u16,
    /// Whether more fragments follow this one.
    pub more: bool,
    /// The identification, which the fragments of one packet share.
    pub identification: u32,
}

impl Fragment {
    /// Whether the packet is whole although it has a fragment header (an atomic fragment, RFC 6946).
    #[inline]
    pub fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// The bytes of the header, in front of `next_header`.
    pub fn emit(&self, next_header: u8) -> [u8; FRAGMENT_LENGTH] {
        let [a, b] = (self.offset & 0xfff8 | u16::from(self.more)).to_be_bytes();
        let [c, d, e, f] = self.identification.to_be_bytes();
        [next_header, 0, a, b, c, d, e, f]
    }
}

/// Extension headers that are walked through at most; a packet with more is refused.
pub const MAX_EXTENSIONS: usize = 8;

/// The result of a walk over the extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// The protocol that is no extension header: what the packet is about, [`protocol::NO_NEXT_HEADER`], or, in a
    /// later fragment, what its fragment header names (which may be an extension header of the first).
    pub protocol: u8,
    /// Where that protocol's header starts, in octets from the start of the IPv6 header; at most the packet's length.
    /// `None` in a later fragment, and where nothing follows.
    pub l4: Option<usize>,
    /// Where the octet lies that names `protocol`, from the start of the IPv6 header: what a Parameter Problem for an
    /// unrecognised next header points at.
    pub pointer: usize,
    /// The fragment header, if there is one; of several, the first that is not atomic.
    pub fragment: Option<Fragment>,
    /// Whether hop-by-hop options follow the fixed header.
    pub hop_by_hop: bool,
    /// Extension headers walked through, 0 ..= 8.
    pub extensions: usize,
}

/// Why a chain of extension headers is refused. Pointers count from the start of the IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadChain {
    /// A header runs past the end of the packet.
    #[error("extension header at octet {pointer} runs past the end of the packet")]
    Truncated {
        /// Where that header starts.
        pointer: usize,
        /// Whether the packet is a first fragment, whose chain of headers must be complete (RFC 7112).
        first_fragment: bool,
    },
    /// More than [`MAX_EXTENSIONS`].
    #[error("more than {MAX_EXTENSIONS} extension headers")]
    TooMany {
        /// Where the first header beyond the limit starts (RFC 8883).
        pointer: usize,
    },
    /// Hop-by-hop options that do not follow the fixed header (RFC 8200 section 4.1).
    #[error("hop-by-hop options that are not the first extension header")]
    MisplacedHopByHop {
        /// Where the octet lies that names them.
        pointer: usize,
    },
}

/// Walks over the extension headers of a packet: hop-by-hop options, routing, fragment, destination options, AH and
/// mobility. ESP ends the walk (all behind it is secret), as do a later fragment (what follows is no header) and every
/// number that is no extension header. `packet` starts with the fixed header and ends where its payload length says.
pub fn walk(packet: &[u8]) -> Result<Walk, BadChain> {
    let Some(header) = packet.first_chunk::<LENGTH>() else {
        return Err(BadChain::Truncated { pointer: 0, first_fragment: false });
    };
    let mut walk = Walk {
        protocol: header[NEXT_HEADER],
        l4: Some(LENGTH),
        pointer: NEXT_HEADER,
        fragment: None,
        hop_by_hop: false,
        extensions: 0,
    };
    let mut at = LENGTH;
    while protocol::is_extension(walk.protocol) {
        if walk.extensions == MAX_EXTENSIONS {
            return Err(BadChain::TooMany { pointer: at });
        }
        if walk.protocol == protocol::HOP_BY_HOP {
            if at != LENGTH {
                return Err(BadChain::MisplacedHopByHop { pointer: walk.pointer });
            }
            walk.hop_by_hop = true;
        }
        // Every extension header has at least 8 octets and starts with the next header; all but the fragment header
        // continue with a length.
        let first_fragment = walk.fragment.is_some_and(|fragment| fragment.offset == 0 && fragment.more);
        let truncated = BadChain::Truncated { pointer: at, first_fragment };
        let start = packet.get(at..).and_then(<[u8]>::first_chunk::<8>).ok_or(truncated)?;
        let length = match walk.protocol {
            protocol::FRAGMENT => FRAGMENT_LENGTH,
            // In units of 4 octets, not counting the first two (RFC 4302 section 2.2). In IPv6 the sum should be a
            // multiple of 8; peers do not insist on that, so neither do we, but the fixed part has 12 octets.
            protocol::AH if start[1] == 0 => return Err(truncated),
            protocol::AH => (usize::from(start[1]) + 2) * 4,
            // In units of 8 octets, not counting the first.
            _ => (usize::from(start[1]) + 1) * 8,
        };
        if packet.len() - at < length {
            return Err(truncated);
        }
        let mut later = false;
        if walk.protocol == protocol::FRAGMENT {
            let field = be16(start, 2);
            let fragment = Fragment {
                at,
                named_at: walk.pointer,
                offset: field & 0xfff8,
                more: field & 1 != 0,
                identification: be32(start, 4),
            };
            later = fragment.offset != 0;
            if walk.fragment.is_none_or(|earlier| earlier.is_atomic()) {
                walk.fragment = Some(fragment);
            }
        }
        walk.protocol = start[0];
        walk.pointer = at;
        walk.extensions += 1;
        at += length;
        walk.l4 = Some(at);
        if later {
            walk.l4 = None;
            return Ok(walk);
        }
    }
    if walk.protocol == protocol::NO_NEXT_HEADER {
        walk.l4 = None;
    }
    Ok(walk)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(next_header: u8, payload: &[u8]) -> Vec<u8> {
        let fields = Fields {
            traffic_class: 0xb9,
            flow_label: 0x12345,
            payload_length: payload.len() as u16,
            next_header,
            hop_limit: 63,
            source: "2001:db8::1".parse().unwrap(),
            destination: "2001:db8::2".parse().unwrap(),
        };
        let mut bytes = fields.emit().to_vec();
        assert_eq!(Fields::parse(&bytes), Ok(fields));
        bytes.extend_from_slice(payload);
        bytes
    }

    fn chain(headers: &[(u8, usize)], last: u8) -> Vec<u8> {
        let mut payload = Vec::new();
        for (i, (number, length)) in headers.iter().enumerate() {
            let next = headers.get(i + 1).map_or(last, |h| h.0);
            let unit = if *number == protocol::AH { length / 4 - 2 } else { length / 8 - 1 };
            let start = payload.len();
            payload.extend_from_slice(&[next, if *number == protocol::FRAGMENT { 0 } else { unit as u8 }]);
            payload.resize(start + length, 0);
        }
        payload.extend_from_slice(&[0; 20]);
        packet(headers.first().map_or(last, |h| h.0), &payload)
    }

    #[test]
    fn a_value_survives_the_wire() {
        let bytes = packet(17, &[0; 8]);
        let theirs = etherparse::Ipv6HeaderSlice::from_slice(&bytes).unwrap();
        assert_eq!((theirs.traffic_class(), theirs.flow_label().value()), (0xb9, 0x12345));
        assert_eq!((theirs.payload_length(), theirs.next_header().0, theirs.hop_limit()), (8, 17, 63));
        let ours = Header::new(&bytes).unwrap();
        assert_eq!((ours.dscp(), ours.ecn(), ours.flow_label()), (0x2e, 1, 0x12345));
        for length in 0..LENGTH {
            assert!(Fields::parse(&bytes[..length]).is_err());
            assert_eq!(walk(&bytes[..length]), Err(BadChain::Truncated { pointer: 0, first_fragment: false }));
        }
    }

    #[test]
    fn no_extensions() {
        let found = walk(&packet(17, &[0; 8])).unwrap();
        assert_eq!((found.protocol, found.l4, found.pointer, found.extensions), (17, Some(40), 6, 0));
        let found = walk(&packet(59, &[])).unwrap();
        assert_eq!((found.protocol, found.l4), (59, None));
    }

    #[test]
    fn every_extension_is_walked_with_its_own_length_rule() {
        let headers = [(0, 16), (60, 8), (43, 24), (44, 8), (51, 24), (60, 2048), (135, 8)];
        let found = walk(&chain(&headers, 6)).unwrap();
        let length: usize = headers.iter().map(|h| h.1).sum();
        assert_eq!((found.protocol, found.l4, found.extensions), (6, Some(40 + length), 7));
        assert_eq!(found.pointer, 40 + length - 8);
        assert!(found.hop_by_hop);
        let fragment = Fragment { at: 88, named_at: 64, offset: 0, more: false, identification: 0 };
        assert_eq!(found.fragment, Some(fragment));
        assert!(found.fragment.unwrap().is_atomic());
    }

    #[test]
    fn esp_and_unknown_numbers_end_the_walk() {
        for number in [50, 59, 99, 139, 140, 255] {
            assert_eq!(walk(&chain(&[(60, 8)], number)).unwrap().protocol, number);
        }
    }

    #[test]
    fn at_most_eight() {
        assert_eq!(walk(&chain(&[(60, 8); 8], 6)).unwrap().extensions, 8);
        assert_eq!(walk(&chain(&[(60, 8); 9], 6)), Err(BadChain::TooMany { pointer: 40 + 64 }));
    }

    #[test]
    fn hop_by_hop_options_come_first_or_not_at_all() {
        assert_eq!(walk(&chain(&[(60, 8), (0, 8)], 6)), Err(BadChain::MisplacedHopByHop { pointer: 40 }));
    }

    #[test]
    fn headers_do_not_run_past_the_packet() {
        let whole = chain(&[(60, 8), (51, 16)], 6);
        for length in 40..48 {
            assert_eq!(walk(&whole[..length]), Err(BadChain::Truncated { pointer: 40, first_fragment: false }));
        }
        for length in 48..64 {
            assert_eq!(walk(&whole[..length]), Err(BadChain::Truncated { pointer: 48, first_fragment: false }));
        }
        assert_eq!(walk(&whole[..64]).unwrap().l4, Some(64));
    }

    #[test]
    fn a_later_fragment_has_no_headers() {
        let fragment = Fragment { at: 40, named_at: 6, offset: 1448, more: true, identification: 7 };
        let mut payload = fragment.emit(protocol::DESTINATION_OPTIONS).to_vec();
        payload.extend_from_slice(&[0xff; 16]);
        let found = walk(&packet(44, &payload)).unwrap();
        assert_eq!((found.protocol, found.l4, found.fragment), (60, None, Some(fragment)));
    }
}
