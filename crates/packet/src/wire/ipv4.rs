//! IPv4 (RFC 791).

use std::net::Ipv4Addr;

use super::{Truncated, array, be16, chunk};

/// Length of the header in octets, without options.
pub const LENGTH: usize = 20;
/// The longest header, with options.
pub const MAX_LENGTH: usize = 60;
/// The longest datagram in octets.
pub const MAX_DATAGRAM: usize = 65_535;

/// Place of version and header length, 1 octet.
pub const VERSION_IHL: usize = 0;
/// Place of the type of service: DSCP (6 bits) and ECN (2), 1 octet.
pub const TOS: usize = 1;
/// Place of the total length, 2 octets.
pub const TOTAL_LENGTH: usize = 2;
/// Place of the identification, 2 octets.
pub const IDENTIFICATION: usize = 4;
/// Place of the fragment flags and offset, 2 octets.
pub const FRAGMENT: usize = 6;
/// Place of the time to live, 1 octet.
pub const TTL: usize = 8;
/// Place of the protocol, 1 octet.
pub const PROTOCOL: usize = 9;
/// Place of the header checksum, 2 octets.
pub const CHECKSUM: usize = 10;
/// Place of the source address, 4 octets.
pub const SOURCE: usize = 12;
/// Place of the destination address, 4 octets.
pub const DESTINATION: usize = 16;

/// In the field at [`FRAGMENT`]: do not fragment.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// In the field at [`FRAGMENT`]: more fragments follow.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// In the field at [`FRAGMENT`]: the offset, in units of 8 octets.
pub const OFFSET_MASK: u16 = 0x1fff;

/// A view of a header, without its options. Nothing but its presence is checked: see [`crate::parse::ipv4`].
#[derive(Debug, Clone, Copy)]
pub struct Header<'a>(&'a [u8; LENGTH]);

impl<'a> Header<'a> {
    /// The header at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Header<'a>, Truncated> {
        chunk(bytes, "ipv4").map(Header)
    }

    /// The bytes of the header.
    #[inline]
    pub fn bytes(self) -> &'a [u8; LENGTH] {
        self.0
    }

    /// 4 in a valid header.
    #[inline]
    pub fn version(self) -> u8 {
        self.0[VERSION_IHL] >> 4
    }

    /// Length with options in octets as the header says, a multiple of 4 from 0 to 60; valid from 20 on.
    #[inline]
    pub fn header_length(self) -> usize {
        usize::from(self.0[VERSION_IHL] & 0xf) * 4
    }

    /// Differentiated services code point (RFC 2474), 0 ..= 63.
    #[inline]
    pub fn dscp(self) -> u8 {
        self.0[TOS] >> 2
    }

    /// Explicit congestion notification (RFC 3168), 0 ..= 3.
    #[inline]
    pub fn ecn(self) -> u8 {
        self.0[TOS] & 3
    }

    /// Length of header and payload in octets, as the header says.
    #[inline]
    pub fn total_length(self) -> u16 {
        be16(self.0, TOTAL_LENGTH)
    }

    /// Returns the identification, which the fragments of one datagram share.
    #[inline]
    pub fn identification(self) -> u16 {
        be16(self.0, IDENTIFICATION)
    }

    /// Whether the datagram must not be fragmented.
    #[inline]
    pub fn dont_fragment(self) -> bool {
        be16(self.0, FRAGMENT) & DONT_FRAGMENT != 0
    }

    /// Whether more fragments follow this one.
    #[inline]
    pub fn more_fragments(self) -> bool {
        be16(self.0, FRAGMENT) & MORE_FRAGMENTS != 0
    }

    /// Where this fragment's payload starts in that of the datagram, in octets, 0 ..= 65,528.
    #[inline]
    pub fn fragment_offset(self) -> u16 {
        (be16(self.0, FRAGMENT) & OFFSET_MASK) * 8
    }

    /// Whether this is a fragment, the first included.
    #[inline]
    pub fn is_fragment(self) -> bool {
        be16(self.0, FRAGMENT) & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Time to live, in hops.
    #[inline]
    pub fn ttl(self) -> u8 {
        self.0[TTL]
    }

    /// Returns the protocol of the payload: see [`super::protocol`].
    #[inline]
    pub fn protocol(self) -> u8 {
        self.0[PROTOCOL]
    }

    /// Checksum of the header.
    #[inline]
    pub fn checksum(self) -> u16 {
        be16(self.0, CHECKSUM)
    }

    /// Returns the source.
    #[inline]
    pub fn source(self) -> Ipv4Addr {
        Ipv4Addr::from(array(self.0, SOURCE))
    }

    /// Returns the destination.
    #[inline]
    pub fn destination(self) -> Ipv4Addr {
        Ipv4Addr::from(array(self.0, DESTINATION))
    }
}

/// A header without options as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// Type of service: DSCP in the upper six bits, ECN in the lower two.
    pub tos: u8,
    /// Length of header and payload in octets.
    pub total_length: u16,
    /// The identification, which the fragments of one datagram share.
    pub identification: u16,
    /// Whether the datagram must not be fragmented.
    pub dont_fragment: bool,
    /// Whether more fragments follow this one.
    pub more_fragments: bool,
    /// Where the payload starts in that of the datagram, in octets; a multiple of 8.
    pub fragment_offset: u16,
    /// Time to live, in hops.
    pub ttl: u8,
    /// The protocol of the payload: see [`super::protocol`].
    pub protocol: u8,
    /// The source.
    pub source: Ipv4Addr,
    /// The destination.
    pub destination: Ipv4Addr,
}

impl Fields {
    /// Reads the header at the start of `bytes`. Options and the checksum are not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Fields, Truncated> {
        let header = Header::new(bytes)?;
        Ok(Fields {
            tos: header.0[TOS],
            total_length: header.total_length(),
            identification: header.identification(),
            dont_fragment: header.dont_fragment(),
            more_fragments: header.more_fragments(),
            fragment_offset: header.fragment_offset(),
            ttl: header.ttl(),
            protocol: header.protocol(),
            source: header.source(),
            destination: header.destination(),
        })
    }

    /// The header's bytes, with their checksum.
    #[inline]
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        self.emit_into(&mut out);
        out
    }

    /// Writes the header with its checksum. Its words are put together in registers.
    #[inline(always)]
    pub fn emit_into(&self, out: &mut [u8; LENGTH]) {
        let word = |upper: u16, lower: u16| u32::from(upper) << 16 | u32::from(lower);
        let dont = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        let more = if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        let mut words = [
            word(u16::from_be_bytes([0x45, self.tos]), self.total_length),
            word(self.identification, dont | more | (self.fragment_offset / 8)),
            word(u16::from_be_bytes([self.ttl, self.protocol]), 0),
            self.source.to_bits(),
            self.destination.to_bits(),
        ];
        // Ten halves, whose carries are at most nine.
        let sum: u32 = words.iter().map(|word| (word >> 16) + (word & 0xffff)).sum();
        let sum = (sum >> 16) + (sum & 0xffff);
        words[2] |= u32::from(!((sum >> 16) + sum) as u16);
        for (octets, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *octets = word.to_be_bytes();
        }
    }
}

/// Option types (RFC 791 section 3.1): the upper bit says whether fragments copy the option.
pub mod option {
    /// End of the option list; a single octet.
    pub const END: u8 = 0;
    /// No operation; a single octet.
    pub const NOP: u8 = 1;
    /// Record route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Timestamp.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source and record route.
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Strict source and record route.
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// Router alert (RFC 2113).
    pub const ROUTER_ALERT: u8 = 148;
    /// In the type: every fragment carries the option, not only the first.
    pub const COPIED: u8 = 0x80;
}

/// One option, END and NOP included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionView<'a> {
    /// Where it starts, in octets from the start of the IP header, 20 ..= 59: what a Parameter Problem points at.
    pub pointer: u8,
    /// The whole option: its type, then, unless it is END or NOP, its length and data.
    pub bytes: &'a [u8],
}

impl OptionView<'_> {
    /// Its type: see [`option`].
    #[inline]
    pub fn kind(&self) -> u8 {
        self.bytes.first().copied().unwrap_or(option::END)
    }

    /// Whether later fragments carry it too.
    #[inline]
    pub fn is_copied(&self) -> bool {
        self.kind() & option::COPIED != 0
    }
}

/// An option whose length does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("IPv4 option with a bad length, at octet {pointer} of the header")]
pub struct BadOption {
    /// The offset of the offending octet from the start of the IP header, 20 ..= 60, as a Parameter Problem (RFC 792)
    /// has it: at the length, or one past the header where the length is missing.
    pub pointer: u8,
}

/// Walks over the options of a header, which is `header` as a whole: 20 to 60 octets. Ends after END, at the end, or
/// after the first error.
#[inline]
pub fn options(header: &[u8]) -> Options<'_> {
    Options { rest: header.get(LENGTH..).unwrap_or(&[]), pointer: LENGTH as u8 }
}

/// See [`options`].
#[derive(Debug, Clone)]
pub struct Options<'a> {
    rest: &'a [u8],
    /// Where `rest` starts in the header. Headers have at most 60 octets; what is longer is no header, and saturates.
    pointer: u8,
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<OptionView<'a>, BadOption>;

    fn next(&mut self) -> Option<Self::Item> {
        let pointer = self.pointer;
        let bad = |at: u8| Some(Err(BadOption { pointer: at }));
        let rest = std::mem::take(&mut self.rest);
        let kind = *rest.first()?;
        let length = match kind {
            option::END | option::NOP => 1,
            _ => match rest.get(1) {
                Some(&length) if length >= 2 => usize::from(length),
                _ => return bad(pointer.saturating_add(1)),
            },
        };
        let Some((bytes, after)) = rest.split_at_checked(length) else { return bad(pointer.saturating_add(1)) };
        if kind != option::END {
            self.rest = after;
            self.pointer = pointer.saturating_add(length as u8);
        }
        Some(Ok(OptionView { pointer, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        Fields {
            tos: 0xc1,
            total_length: 120,
            identification: 0xbeef,
            dont_fragment: false,
            more_fragments: true,
            fragment_offset: 1480,
            ttl: 63,
            protocol: 17,
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(192, 0, 2, 9),
        }
    }

    #[test]
    fn a_value_survives_the_wire() {
        let bytes = fields().emit();
        assert_eq!(Fields::parse(&bytes), Ok(fields()));
        let theirs = etherparse::Ipv4HeaderSlice::from_slice(&bytes).unwrap();
        assert_eq!(theirs.to_header().calc_header_checksum(), theirs.header_checksum());
        assert_eq!(theirs.identification(), 0xbeef);
        assert!(theirs.more_fragments() && !theirs.dont_fragment());
        assert_eq!(theirs.fragments_offset().byte_offset(), 1480);
        assert_eq!((theirs.dcp().value(), theirs.ecn().value(), theirs.ttl()), (0x30, 1, 63));
        for length in 0..LENGTH {
            assert!(Fields::parse(&bytes[..length]).is_err());
        }
    }

    fn walk(options_bytes: &[u8]) -> Vec<Result<(u8, u8), u8>> {
        let mut header = fields().emit().to_vec();
        header.extend_from_slice(options_bytes);
        options(&header).map(|o| o.map(|o| (o.pointer, o.kind())).map_err(|e| e.pointer)).collect()
    }

    #[test]
    fn options_are_walked() {
        assert_eq!(walk(&[]), []);
        assert_eq!(walk(&[1, 1, 148, 4, 0, 0, 0, 0]), [Ok((20, 1)), Ok((21, 1)), Ok((22, 148)), Ok((26, 0))]);
    }

    #[test]
    fn the_pointer_names_the_bad_octet() {
        assert_eq!(walk(&[1, 7]), [Ok((20, 1)), Err(22)], "the length is missing");
        assert_eq!(walk(&[1, 7, 1, 0]), [Ok((20, 1)), Err(22)], "a length below 2");
        assert_eq!(walk(&[7, 0, 0, 0]), [Err(21)], "a length of 0 must not loop");
        assert_eq!(walk(&[7, 5, 0, 0]), [Err(21)], "longer than the header");
        assert_eq!(walk(&[0, 7, 0, 0]), [Ok((20, 0))], "nothing after END is an option");
    }
}
