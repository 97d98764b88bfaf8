//! The result of parsing: flags, and where headers are.

use std::ops::{BitOr, BitOrAssign};

use crate::wire::{be16, protocol, tcp};

/// The properties of a packet after parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct ParseFlags(pub(super) u16);

impl ParseFlags {
    /// The packet is IPv4.
    pub const IP4: ParseFlags = ParseFlags(1 << 0);
    /// The packet is IPv6.
    pub const IP6: ParseFlags = ParseFlags(1 << 1);
    /// The packet is a fragment, the first included. An atomic IPv6 fragment (RFC 6946) is a whole packet, and none.
    pub const FRAGMENT: ParseFlags = ParseFlags(1 << 2);
    /// The packet is a fragment other than the first: it has no transport header.
    pub const LATER_FRAGMENT: ParseFlags = ParseFlags(1 << 3);
    /// The packet has IPv4 options or IPv6 hop-by-hop options. IPv4 options have not been looked at.
    pub const OPTIONS: ParseFlags = ParseFlags(1 << 4);
    /// The ports (TCP, UDP, UDP-Lite, SCTP, DCCP), or type and code (ICMP in its family), are wholly present.
    pub const L4: ParseFlags = ParseFlags(1 << 5);
    /// The fixed transport header of one of these protocols is wholly present: TCP's 20 octets, and with them its
    /// flags, UDP's 8, ICMP's 8, SCTP's 12, DCCP's 12. Never without [`L4`](Self::L4).
    pub const L4_HEADER: ParseFlags = ParseFlags(1 << 6);
    /// The frame was sent to a group of stations, but not to all.
    pub const L2_MULTICAST: ParseFlags = ParseFlags(1 << 7);
    /// The frame was sent to all stations.
    pub const L2_BROADCAST: ParseFlags = ParseFlags(1 << 8);
    /// The frame was not sent to a single station: for [`intersects`](Self::intersects).
    pub const L2_GROUP: ParseFlags = ParseFlags(Self::L2_MULTICAST.0 | Self::L2_BROADCAST.0);

    /// No flag.
    #[inline]
    pub const fn empty() -> ParseFlags {
        ParseFlags(0)
    }

    /// The flags as a number, for storage.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The flags of a number that [`bits`](Self::bits) returned.
    #[inline]
    pub const fn from_bits(bits: u16) -> ParseFlags {
        ParseFlags(bits)
    }

    /// Whether all of `other` are set.
    #[inline]
    pub const fn contains(self, other: ParseFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is set.
    #[inline]
    pub const fn intersects(self, other: ParseFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// These flags but for those of `other`.
    #[inline]
    pub const fn without(self, other: ParseFlags) -> ParseFlags {
        ParseFlags(self.0 & !other.0)
    }

    /// These flags if `condition`, else none; without a branch.
    #[inline]
    pub const fn when(self, condition: bool) -> ParseFlags {
        ParseFlags(self.0 * condition as u16)
    }
}

impl BitOr for ParseFlags {
    type Output = ParseFlags;

    #[inline]
    fn bitor(self, other: ParseFlags) -> ParseFlags {
        ParseFlags(self.0 | other.0)
    }
}

impl BitOrAssign for ParseFlags {
    #[inline]
    fn bitor_assign(&mut self, other: ParseFlags) {
        self.0 |= other.0;
    }
}

/// Where the headers of a packet are. Offsets count from the start of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parsed {
    /// Where the IP header starts.
    pub l3: u16,
    /// Where the transport header starts, at most at the packet's end; 0: there is none (a later fragment, or an IPv6
    /// packet that ends its headers with "no next header").
    pub l4: u16,
    /// The protocol behind the IP header and, in IPv6, behind its extension headers. In a later IPv6 fragment, what
    /// the fragment header names, which may be an extension header.
    pub protocol: u8,
    /// The properties of the packet. The link-layer flags come from [`ethernet()`](super::ethernet()): join them with
    /// `|=`.
    pub flags: ParseFlags,
    /// Length of the packet from the IP header on, in octets, as that header says; never more than there are.
    pub l3_length: u32,
}

impl Parsed {
    /// The packet without link-layer header and padding; empty if `frame` is not the one that was parsed.
    #[inline]
    pub fn packet<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let start = usize::from(self.l3);
        frame.get(start..start + self.l3_length as usize).unwrap_or(&[])
    }

    /// The transport header and what follows, up to the packet's end; empty where there is none.
    #[inline]
    pub fn transport<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let end = usize::from(self.l3) + self.l3_length as usize;
        if self.l4 == 0 { &[] } else { frame.get(usize::from(self.l4)..end).unwrap_or(&[]) }
    }

    /// Source and destination port; `None` unless the protocol has ports and they are present.
    #[inline]
    pub fn ports(&self, frame: &[u8]) -> Option<(u16, u16)> {
        let bytes = self.transport(frame).first_chunk::<4>()?;
        let present = self.flags.contains(ParseFlags::L4) && protocol::has_ports(self.protocol);
        present.then(|| (be16(bytes, 0), be16(bytes, 2)))
    }

    /// TCP flags; `None` unless the protocol is TCP and its header is present.
    #[inline]
    pub fn tcp_flags(&self, frame: &[u8]) -> Option<tcp::Flags> {
        let header = tcp::Header::new(self.transport(frame)).ok()?;
        let present = self.flags.contains(ParseFlags::L4_HEADER) && self.protocol == protocol::TCP;
        present.then(|| header.flags())
    }

    /// ICMP type and code; `None` unless the protocol is the family's ICMP and they are present.
    #[inline]
    pub fn icmp(&self, frame: &[u8]) -> Option<(u8, u8)> {
        let bytes = self.transport(frame).first_chunk::<2>()?;
        let present = self.flags.contains(ParseFlags::L4) && matches!(self.protocol, protocol::ICMP | protocol::ICMPV6);
        present.then_some((bytes[0], bytes[1]))
    }
}
