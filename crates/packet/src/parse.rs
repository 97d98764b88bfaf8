//! The one pass over a header stack: the checks of every packet, and the results that later steps read.
//!
//! [`ethernet()`] reads addresses, tags and the type; [`ipv4()`] and [`ipv6()`] check an IP header and find the
//! transport header. A packet that passes has a [`Parsed`]: where its headers start, its protocol, and [`ParseFlags`].
//! A part that the flags report as present is present, wholly, within both the bytes and the length that the IP header
//! gives: no later step has to check again, and none can read past the end.
//!
//! Nothing here allocates or panics, whatever the bytes. The three functions are always inlined: a [`Parsed`] that went
//! through memory would be written field by field and read as a whole, which stalls the CPU for longer than the
//! parsing takes.

mod hash;
pub mod martian;
mod parsed;

pub use hash::{Seed, flow_hash, quoted, spi_hash, symmetric_hash, symmetric_hash_v4, symmetric_hash_v6};
pub use parsed::{ParseFlags, Parsed};

use crate::checksum;
use crate::wire::icmpv6::parameter_problem;
use crate::wire::ipv6::BadChain;
use crate::wire::vlan::{self, Tag, Tags};
use crate::wire::{MacAddress, be16, ethernet, icmpv4, ipv4, ipv6, protocol, tcp, udp};

/// Why a packet is refused by the parser. Pointers count in octets from the start of the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// The frame ends within the Ethernet header or a tag.
    #[error("the frame ends within the Ethernet header or a VLAN tag")]
    TruncatedEthernet,
    /// The frame ends within the IPv4 header.
    #[error("the frame ends within the IPv4 header")]
    TruncatedIpv4,
    /// The version is not the one that the Ethernet type announced.
    #[error("the IP version is not the one that the Ethernet type announces")]
    BadVersion,
    /// The IPv4 header says that it is shorter than 20 octets.
    #[error("the IPv4 header length is less than 20 octets")]
    BadIhl,
    /// The IPv4 total length is less than the header, or more than there are bytes.
    #[error("the IPv4 total length is less than the header or more than the frame holds")]
    BadTotalLength,
    /// The IPv4 header checksum is wrong.
    #[error("the IPv4 header checksum is wrong")]
    BadChecksum,
    /// The frame ends within the IPv6 header.
    #[error("the frame ends within the IPv6 header")]
    TruncatedIpv6,
    /// The IPv6 payload length is more than there are bytes.
    #[error("the IPv6 payload length is more than the frame holds")]
    BadPayloadLength,
    /// A payload length of zero in front of hop-by-hop options: a jumbogram (RFC 2675), which no path of ours carries.
    #[error("an IPv6 payload length of zero in front of hop-by-hop options (a jumbogram)")]
    Jumbogram,
    /// An IPv6 extension header runs past the end of the packet.
    #[error("an IPv6 extension header runs past the end of the packet")]
    TruncatedExtensionHeader {
        /// Where that header starts.
        pointer: u16,
        /// Whether the packet is a first fragment, whose chain of headers must be complete (RFC 7112).
        first_fragment: bool,
    },
    /// There are more than [`ipv6::MAX_EXTENSIONS`] IPv6 extension headers.
    #[error("there are more than {max} IPv6 extension headers", max = ipv6::MAX_EXTENSIONS)]
    TooManyExtensionHeaders {
        /// Where the first header beyond the limit starts.
        pointer: u16,
    },
    /// IPv6 hop-by-hop options that do not come first.
    #[error("IPv6 hop-by-hop options that do not follow the IPv6 header")]
    MisplacedHopByHop {
        /// Where the octet lies that names them.
        pointer: u16,
    },
}

impl Malformed {
    /// One of each, in order; pointers are zero.
    pub const ALL: [Malformed; 12] = [
        Malformed::TruncatedEthernet,
        Malformed::TruncatedIpv4,
        Malformed::BadVersion,
        Malformed::BadIhl,
        Malformed::BadTotalLength,
        Malformed::BadChecksum,
        Malformed::TruncatedIpv6,
        Malformed::BadPayloadLength,
        Malformed::Jumbogram,
        Malformed::TruncatedExtensionHeader { pointer: 0, first_fragment: false },
        Malformed::TooManyExtensionHeaders { pointer: 0 },
        Malformed::MisplacedHopByHop { pointer: 0 },
    ];

    /// The name of the reason in kebab-case, as counters and `show errors` spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Malformed::TruncatedEthernet => "truncated-ethernet",
            Malformed::TruncatedIpv4 => "truncated-ipv4",
            Malformed::BadVersion => "bad-version",
            Malformed::BadIhl => "bad-ihl",
            Malformed::BadTotalLength => "bad-total-length",
            Malformed::BadChecksum => "bad-checksum",
            Malformed::TruncatedIpv6 => "truncated-ipv6",
            Malformed::BadPayloadLength => "bad-payload-length",
            Malformed::Jumbogram => "jumbogram",
            Malformed::TruncatedExtensionHeader { .. } => "truncated-extension-header",
            Malformed::TooManyExtensionHeaders { .. } => "too-many-extension-headers",
            Malformed::MisplacedHopByHop { .. } => "misplaced-hop-by-hop",
        }
    }

    /// Returns code and pointer of the ICMPv6 parameter problem for the sender; `None`: the packet is dropped without
    /// an error. RFC 1812 section 5.2.2 wants this for all of IPv4; it also suits a header whose addresses are in
    /// doubt.
    pub const fn parameter_problem(self) -> Option<(u8, u32)> {
        match self {
            // RFC 7112 section 5 requires pointer 0.
            Malformed::TruncatedExtensionHeader { first_fragment: true, .. } => {
                Some((parameter_problem::INCOMPLETE_CHAIN, 0))
            }
            // The octet at fault is that header's length, behind its next header.
            Malformed::TruncatedExtensionHeader { pointer, .. } => {
                Some((parameter_problem::ERRONEOUS_FIELD, pointer as u32 + 1))
            }
            Malformed::TooManyExtensionHeaders { pointer } => {
                Some((parameter_problem::TOO_MANY_EXTENSIONS, pointer as u32))
            }
            Malformed::MisplacedHopByHop { pointer } => {
                Some((parameter_problem::UNRECOGNIZED_NEXT_HEADER, pointer as u32))
            }
            _ => None,
        }
    }
}

/// The link-layer fields of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct L2 {
    /// The destination.
    pub destination: MacAddress,
    /// The source.
    pub source: MacAddress,
    /// The type behind at most two tags. With a third tag, the type is that of the tag.
    pub ethertype: u16,
    /// The tags.
    pub tags: Tags,
    /// Where the payload starts, in octets from the start of the frame: 14, 18 or 22.
    pub l3: u16,
    /// [`ParseFlags::L2_MULTICAST`] or [`ParseFlags::L2_BROADCAST`], if either.
    pub flags: ParseFlags,
}

/// Parses the Ethernet header and at most two tags.
///
/// # Errors
/// [`Malformed::TruncatedEthernet`] if the frame ends within them.
#[inline(always)]
pub fn ethernet(frame: &[u8]) -> Result<L2, Malformed> {
    let header = ethernet::Header::new(frame).map_err(|_| Malformed::TruncatedEthernet)?;
    let destination = header.destination();
    let mut l2 = L2 {
        destination,
        source: header.source(),
        ethertype: header.ethertype(),
        tags: Tags::default(),
        l3: ethernet::LENGTH as u16,
        flags: if destination.is_group() { group_flags(destination) } else { ParseFlags::empty() },
    };
    if vlan::is_tag(l2.ethertype) {
        tags(frame, &mut l2)?;
    }
    Ok(l2)
}

/// Which kind of group a frame went to.
fn group_flags(destination: MacAddress) -> ParseFlags {
    if destination.is_broadcast() { ParseFlags::L2_BROADCAST } else { ParseFlags::L2_MULTICAST }
}

/// Takes up to two tags off.
fn tags(frame: &[u8], l2: &mut L2) -> Result<(), Malformed> {
    for at in [ethernet::LENGTH, ethernet::LENGTH + vlan::LENGTH] {
        if !vlan::is_tag(l2.ethertype) {
            break;
        }
        let rest = frame.get(at..).and_then(<[u8]>::first_chunk::<4>).ok_or(Malformed::TruncatedEthernet)?;
        let tag = Some(Tag { tpid: l2.ethertype, tci: be16(rest, 0) });
        if l2.tags.outer.is_none() {
            l2.tags.outer = tag;
        } else {
            l2.tags.inner = tag;
        }
        l2.ethertype = be16(rest, 2);
        l2.l3 += vlan::LENGTH as u16;
    }
    Ok(())
}

/// The octets of a transport header that have to be present for [`ParseFlags::L4`] and [`ParseFlags::L4_HEADER`]; 255
/// if the protocol has neither. One load serves all protocols, without a branch.
type Needs = [[u8; 2]; 256];

const NEEDS_V4: Needs = needs(protocol::ICMP);
const NEEDS_V6: Needs = needs(protocol::ICMPV6);

/// The table of a family. The other family's ICMP means nothing in it.
const fn needs(icmp: u8) -> Needs {
    let mut needs = [[u8::MAX; 2]; 256];
    needs[protocol::TCP as usize] = [4, tcp::LENGTH as u8];
    needs[protocol::UDP as usize] = [4, udp::LENGTH as u8];
    needs[protocol::UDP_LITE as usize] = [4, 8];
    needs[protocol::SCTP as usize] = [4, 12];
    needs[protocol::DCCP as usize] = [4, 12];
    needs[icmp as usize] = [2, icmpv4::LENGTH as u8];
    needs
}

/// The flags of a transport header of which `present` octets are within the packet.
#[inline(always)]
fn l4_flags(needs: &Needs, protocol: u8, present: usize) -> ParseFlags {
    let [fields, header] = needs[usize::from(protocol)];
    let present = present.min(254) as u8;
    ParseFlags::L4.when(present >= fields) | ParseFlags::L4_HEADER.when(present >= header)
}

/// Checks an IPv4 header (RFC 1812 section 5.2.2) and finds the transport header. `l3` is where the header starts, in
/// octets from the start of `frame`; bytes after the packet are padding.
///
/// Options are not looked at: [`ParseFlags::OPTIONS`] says that there are some, and [`ipv4::options`] walks them.
///
/// # Errors
/// The first check that fails, in the order of the RFC. All of them mean a silent drop.
#[inline(always)]
pub fn ipv4(frame: &[u8], l3: usize) -> Result<Parsed, Malformed> {
    let packet = frame.get(l3..).unwrap_or(&[]);
    let Some(header) = packet.first_chunk::<{ ipv4::LENGTH }>() else { return Err(Malformed::TruncatedIpv4) };
    let (header_length, options) = if header[ipv4::VERSION_IHL] == 0x45 {
        if !checksum::is_valid_ipv4(header) {
            return Err(Malformed::BadChecksum);
        }
        (ipv4::LENGTH, ParseFlags::empty())
    } else {
        (long_header(packet, header)?, ParseFlags::OPTIONS)
    };
    let total = usize::from(be16(header, ipv4::TOTAL_LENGTH));
    // Offsets have to fit 16 bits; they do in every frame that a buffer can hold.
    if total < header_length || total > packet.len() || l3 + header_length > usize::from(u16::MAX) {
        return Err(Malformed::BadTotalLength);
    }
    let protocol = header[ipv4::PROTOCOL];
    let fragment = be16(header, ipv4::FRAGMENT);
    let (l4, flags) = if fragment & ipv4::OFFSET_MASK == 0 {
        let flags = l4_flags(&NEEDS_V4, protocol, total - header_length);
        (l3 + header_length, flags | ParseFlags::FRAGMENT.when(fragment & ipv4::MORE_FRAGMENTS != 0))
    } else {
        (0, ParseFlags::FRAGMENT | ParseFlags::LATER_FRAGMENT)
    };
    Ok(Parsed {
        l3: l3 as u16,
        l4: l4 as u16,
        protocol,
        flags: flags | options | ParseFlags::IP4,
        l3_length: total as u32,
    })
}

/// Returns the result of [`ipv4()`] for the usual packet: TCP or UDP, whole and with its header, no options, behind an
/// Ethernet header without tags. Returns `None` for any other packet, good or bad: call [`ipv4()`]. It takes a third of
/// the work, most of the time.
#[inline(always)]
pub fn usual_ipv4(frame: &[u8]) -> Option<Parsed> {
    const L4: usize = ethernet::LENGTH + ipv4::LENGTH;
    let header = frame.first_chunk::<L4>()?[ethernet::LENGTH..].first_chunk::<{ ipv4::LENGTH }>()?;
    let total = usize::from(be16(header, ipv4::TOTAL_LENGTH));
    let fragment = be16(header, ipv4::FRAGMENT) & (ipv4::OFFSET_MASK | ipv4::MORE_FRAGMENTS);
    let protocol = header[ipv4::PROTOCOL];
    let needed = usual_transport(protocol)?;
    let usual = (header[ipv4::VERSION_IHL] == 0x45)
        & (fragment == 0)
        & (total >= ipv4::LENGTH + needed)
        & (total <= frame.len() - ethernet::LENGTH)
        & checksum::is_valid_ipv4(header);
    let flags = ParseFlags(ParseFlags::IP4.0 | ParseFlags::L4.0 | ParseFlags::L4_HEADER.0);
    usual.then_some(Parsed { l3: ethernet::LENGTH as u16, l4: L4 as u16, protocol, flags, l3_length: total as u32 })
}

/// Returns the result of [`ipv6()`] for the usual packet, as [`usual_ipv4`] does.
#[inline(always)]
pub fn usual_ipv6(frame: &[u8]) -> Option<Parsed> {
    const L4: usize = ethernet::LENGTH + ipv6::LENGTH;
    let header = frame.first_chunk::<L4>()?[ethernet::LENGTH..].first_chunk::<{ ipv6::LENGTH }>()?;
    let payload = usize::from(be16(header, ipv6::PAYLOAD_LENGTH));
    let protocol = header[ipv6::NEXT_HEADER];
    let needed = usual_transport(protocol)?;
    let usual = (header[0] >> 4 == 6) & (payload >= needed) & (payload <= frame.len() - L4);
    let flags = ParseFlags(ParseFlags::IP6.0 | ParseFlags::L4.0 | ParseFlags::L4_HEADER.0);
    let l3_length = (ipv6::LENGTH + payload) as u32;
    usual.then_some(Parsed { l3: ethernet::LENGTH as u16, l4: L4 as u16, protocol, flags, l3_length })
}

/// Octets of the transport header of the protocols that most packets have.
#[inline(always)]
fn usual_transport(protocol: u8) -> Option<usize> {
    match protocol {
        protocol::TCP => Some(tcp::LENGTH),
        protocol::UDP => Some(udp::LENGTH),
        _ => None,
    }
}

/// The length of a header that is not the usual 20 octets of version 4, after checking its version, length and
/// checksum.
#[cold]
fn long_header(packet: &[u8], header: &[u8; ipv4::LENGTH]) -> Result<usize, Malformed> {
    if header[0] >> 4 != 4 {
        return Err(Malformed::BadVersion);
    }
    let length = usize::from(header[0] & 0xf) * 4;
    if length < ipv4::LENGTH {
        return Err(Malformed::BadIhl);
    }
    let header = packet.get(..length).ok_or(Malformed::TruncatedIpv4)?;
    if checksum::is_valid(header) { Ok(length) } else { Err(Malformed::BadChecksum) }
}

/// Checks an IPv6 header (RFC 8200) and walks its extension headers to the transport header. `l3` is where the header
/// starts, in octets from the start of `frame`; bytes after the packet are padding.
///
/// # Errors
/// The first check that fails; [`Malformed::parameter_problem`] gives the error for the sender.
#[inline(always)]
pub fn ipv6(frame: &[u8], l3: usize) -> Result<Parsed, Malformed> {
    let packet = frame.get(l3..).unwrap_or(&[]);
    let Some(header) = packet.first_chunk::<{ ipv6::LENGTH }>() else { return Err(Malformed::TruncatedIpv6) };
    if header[0] >> 4 != 6 {
        return Err(Malformed::BadVersion);
    }
    let payload = usize::from(be16(header, ipv6::PAYLOAD_LENGTH));
    let total = ipv6::LENGTH + payload;
    // Offsets have to fit 16 bits; they do in every frame that a buffer can hold.
    if total > packet.len() || l3 + ipv6::LENGTH > usize::from(u16::MAX) {
        return Err(Malformed::BadPayloadLength);
    }
    let protocol = header[ipv6::NEXT_HEADER];
    if protocol::is_extension(protocol) || protocol == protocol::NO_NEXT_HEADER {
        return extended(&packet[..total], l3);
    }
    Ok(Parsed {
        l3: l3 as u16,
        l4: (l3 + ipv6::LENGTH) as u16,
        protocol,
        flags: l4_flags(&NEEDS_V6, protocol, payload) | ParseFlags::IP6,
        l3_length: total as u32,
    })
}

/// A pointer in 16 bits. Only the last 40 octets of the longest packet are beyond them, and no header starts there that
/// the limit of eight, at 2 KiB each, leaves reachable.
fn clamp(pointer: usize) -> u16 {
    u16::try_from(pointer).unwrap_or(u16::MAX)
}

/// The rest of [`ipv6()`] for a packet with extension headers, or with nothing behind its header.
#[cold]
fn extended(packet: &[u8], l3: usize) -> Result<Parsed, Malformed> {
    let hop_by_hop = packet.get(ipv6::NEXT_HEADER) == Some(&protocol::HOP_BY_HOP);
    if hop_by_hop && packet.len() == ipv6::LENGTH {
        return Err(Malformed::Jumbogram);
    }
    let walk = ipv6::walk(packet).map_err(|bad| match bad {
        BadChain::Truncated { pointer, first_fragment } => {
            Malformed::TruncatedExtensionHeader { pointer: clamp(pointer), first_fragment }
        }
        BadChain::TooMany { pointer } => Malformed::TooManyExtensionHeaders { pointer: clamp(pointer) },
        BadChain::MisplacedHopByHop { pointer } => Malformed::MisplacedHopByHop { pointer: clamp(pointer) },
    })?;
    let mut flags = ParseFlags::IP6 | ParseFlags::OPTIONS.when(walk.hop_by_hop);
    if let Some(fragment) = walk.fragment.filter(|fragment| !fragment.is_atomic()) {
        flags |= ParseFlags::FRAGMENT | ParseFlags::LATER_FRAGMENT.when(fragment.offset != 0);
    }
    let mut l4 = 0;
    if let Some(at) = walk.l4 {
        let beyond = Malformed::TruncatedExtensionHeader { pointer: clamp(walk.pointer), first_fragment: false };
        l4 = u16::try_from(l3 + at).map_err(|_| beyond)?;
        flags |= l4_flags(&NEEDS_V6, walk.protocol, packet.len() - at);
    }
    Ok(Parsed { l3: l3 as u16, l4, protocol: walk.protocol, flags, l3_length: packet.len() as u32 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::arbitrary::texts;
    use crate::text::{Macs, PacketText};
    use crate::wire::ethernet::ethertype;

    fn frame(text: &str) -> Vec<u8> {
        let macs = Macs { from: MacAddress([2, 0, 0, 0, 0, 1]), to: MacAddress([2, 0, 0, 0, 0, 2]) };
        text.parse::<PacketText>().unwrap().frame(macs)
    }

    fn ip(frame: &[u8]) -> Result<Parsed, Malformed> {
        let l2 = ethernet(frame)?;
        match l2.ethertype {
            ethertype::IPV4 => ipv4(frame, l2.l3.into()),
            _ => ipv6(frame, l2.l3.into()),
        }
    }

    /// Makes the header checksum right again.
    fn mend(frame: &mut [u8], l3: usize) {
        let length = usize::from(frame[l3] & 0xf) * 4;
        frame[l3 + 10..l3 + 12].fill(0);
        let checksum = checksum::of(&frame[l3..l3 + length]);
        frame[l3 + 10..l3 + 12].copy_from_slice(&checksum.to_be_bytes());
    }

    const UDP4: &str = "udp from 10.0.0.1 port 1000 to 192.0.2.9 port 53";
    const UDP6: &str = "udp from 2001:db8::1 port 1000 to 2001:db8::2 port 53";

    #[test]
    fn the_common_case() {
        let bytes = frame(UDP4);
        let parsed = ip(&bytes).unwrap();
        let flags = ParseFlags::IP4 | ParseFlags::L4 | ParseFlags::L4_HEADER;
        assert_eq!(parsed, Parsed { l3: 14, l4: 34, protocol: 17, flags, l3_length: 28 });
        assert_eq!(parsed.ports(&bytes), Some((1000, 53)));
        let bytes = frame(UDP6);
        let parsed = ip(&bytes).unwrap();
        let flags = ParseFlags::IP6 | ParseFlags::L4 | ParseFlags::L4_HEADER;
        assert_eq!(parsed, Parsed { l3: 14, l4: 54, protocol: 17, flags, l3_length: 48 });
        assert_eq!(parsed.ports(&bytes), Some((1000, 53)));
    }

    #[test]
    fn the_link_layer() {
        let l2 = ethernet(&frame(&format!("{UDP4} vlan 7 inner 9 mac-to ff:ff:ff:ff:ff:ff"))).unwrap();
        assert_eq!((l2.l3, l2.ethertype, l2.flags), (22, ethertype::IPV4, ParseFlags::L2_BROADCAST));
        assert_eq!(l2.tags.outer, Some(Tag { tpid: ethertype::QINQ, tci: 7 }));
        assert_eq!(l2.tags.inner, Some(Tag { tpid: ethertype::VLAN, tci: 9 }));
        let l2 = ethernet(&frame(&format!("{UDP4} vlan 7 mac-to 01:00:5e:00:00:01"))).unwrap();
        assert_eq!((l2.l3, l2.flags, l2.tags.inner), (18, ParseFlags::L2_MULTICAST, None));
        assert!(l2.flags.intersects(ParseFlags::L2_GROUP) && !l2.flags.contains(ParseFlags::L2_GROUP));

        let tagged = frame(&format!("{UDP4} vlan 7 inner 9"));
        for length in 0..22 {
            assert_eq!(ethernet(&tagged[..length]), Err(Malformed::TruncatedEthernet), "{length}");
        }
        let mut three = tagged.clone();
        three[20..22].copy_from_slice(&[0x81, 0]);
        let l2 = ethernet(&three).unwrap();
        assert_eq!((l2.ethertype, l2.l3), (ethertype::VLAN, 22), "a third tag is left alone");
    }

    #[test]
    fn every_reason_to_refuse_ipv4() {
        let whole = frame(&format!("{UDP4} length 60"));
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = whole.clone();
            change(&mut bytes);
            ipv4(&bytes, 14)
        };
        let set = |at: usize, value: u8| {
            move |bytes: &mut Vec<u8>| {
                bytes[14 + at] = value;
                mend(bytes, 14);
            }
        };
        assert!(with(&|_| ()).is_ok());
        assert_eq!(with(&|bytes| bytes.truncate(33)), Err(Malformed::TruncatedIpv4));
        assert_eq!(with(&set(0, 0x65)), Err(Malformed::BadVersion));
        assert_eq!(with(&|bytes| bytes[14] = 0x44), Err(Malformed::BadIhl));
        assert_eq!(with(&set(3, 19)), Err(Malformed::BadTotalLength));
        assert_eq!(with(&set(3, 61)), Err(Malformed::BadTotalLength));
        assert_eq!(with(&|bytes| bytes[22] ^= 1), Err(Malformed::BadChecksum));
        assert_eq!(with(&set(0, 0x46)).map(|p| (p.l4, p.flags.contains(ParseFlags::OPTIONS))), Ok((38, true)));
        assert_eq!(with(&|bytes| bytes[14] = 0x46), Err(Malformed::BadChecksum));
        assert_eq!(
            with(&|bytes| {
                bytes[14] = 0x4f;
                bytes.truncate(70);
            }),
            Err(Malformed::TruncatedIpv4)
        );
        assert_eq!(
            with(&|bytes| {
                set(0, 0x4f)(bytes);
                set(3, 59)(bytes);
            }),
            Err(Malformed::BadTotalLength)
        );
        assert_eq!(ipv4(&whole, whole.len() + 1), Err(Malformed::TruncatedIpv4));
        assert_eq!(ipv4(&whole, usize::MAX), Err(Malformed::TruncatedIpv4));
    }

    #[test]
    fn every_reason_to_refuse_ipv6() {
        let packet = |next: u8, payload: &[u8]| {
            let mut bytes = frame("59 from 2001:db8::1 to 2001:db8::2");
            bytes[20] = next;
            bytes[19] = payload.len() as u8;
            bytes.extend_from_slice(payload);
            ipv6(&bytes, 14)
        };
        let mut bytes = frame(UDP6);
        assert_eq!(ipv6(&bytes[..53], 14), Err(Malformed::TruncatedIpv6));
        assert_eq!(ipv6(&bytes[..61], 14), Err(Malformed::BadPayloadLength));
        bytes[14] = 0x45;
        assert_eq!(ipv6(&bytes, 14), Err(Malformed::BadVersion));
        assert_eq!(ipv6(&bytes, usize::MAX), Err(Malformed::TruncatedIpv6));

        let nothing = packet(59, &[]).unwrap();
        assert_eq!((nothing.l4, nothing.protocol, nothing.flags), (0, 59, ParseFlags::IP6));
        assert_eq!(packet(0, &[]), Err(Malformed::Jumbogram));
        let options = packet(0, &[17, 0, 1, 4, 0, 0, 0, 0, 0, 1, 0, 2]).unwrap();
        assert_eq!((options.l4, options.flags), (62, ParseFlags::IP6 | ParseFlags::OPTIONS | ParseFlags::L4));
        let truncated = |pointer, first_fragment| Malformed::TruncatedExtensionHeader { pointer, first_fragment };
        assert_eq!(packet(60, &[17, 1, 0, 0, 0, 0, 0, 0]), Err(truncated(40, false)));
        assert_eq!(packet(44, &[60, 0, 0, 1, 0, 0, 0, 0, 17, 1]), Err(truncated(48, true)));
        assert_eq!(truncated(48, true).parameter_problem(), Some((3, 0)));
        assert_eq!(truncated(48, false).parameter_problem(), Some((0, 49)));
        let misplaced = Malformed::MisplacedHopByHop { pointer: 40 };
        assert_eq!(packet(60, &[0, 0, 0, 0, 0, 0, 0, 0]), Err(misplaced));
        assert_eq!(misplaced.parameter_problem(), Some((1, 40)));
        let many = Malformed::TooManyExtensionHeaders { pointer: 104 };
        assert_eq!(packet(60, &[60, 0, 0, 0, 0, 0, 0, 0].repeat(9)), Err(many));
        assert_eq!(many.parameter_problem(), Some((8, 104)));
    }

    #[test]
    fn fragments_are_told_apart() {
        let fragment = ParseFlags::FRAGMENT;
        let later = fragment | ParseFlags::LATER_FRAGMENT;
        for (base, l4, family) in [(UDP4, 34, ParseFlags::IP4), (UDP6, 62, ParseFlags::IP6)] {
            let first = ip(&frame(&format!("{base} fragment 0+"))).unwrap();
            assert_eq!((first.l4, first.flags), (l4, family | fragment | ParseFlags::L4 | ParseFlags::L4_HEADER));
            for part in ["8+", "1480"] {
                let portless = base.replace(" port 1000", "").replace(" port 53", "");
                let bytes = frame(&format!("{portless} fragment {part}"));
                let parsed = ip(&bytes).unwrap();
                assert_eq!((parsed.l4, parsed.flags, parsed.protocol), (0, family | later, 17));
                assert_eq!(parsed.ports(&bytes), None);
                assert!(parsed.transport(&bytes).is_empty());
            }
        }
        let atomic = ip(&frame(&format!("{UDP6} fragment 0"))).unwrap();
        assert!(!atomic.flags.intersects(fragment) && atomic.flags.contains(ParseFlags::L4));
    }

    #[test]
    fn what_is_cut_off_is_not_there() {
        // (protocol, octets for the fields, octets for the header)
        for (number, fields, header) in
            [(6, 4, 20), (17, 4, 8), (132, 4, 12), (33, 4, 12), (136, 4, 8), (1, 2, 8), (58, 2, 8)]
        {
            for present in 0..24u8 {
                for v4 in [true, false] {
                    let mut bytes = frame(if v4 {
                        "254 from 10.0.0.1 to 10.0.0.2 length 60"
                    } else {
                        "254 from ::2 to ::3 length 80"
                    });
                    if v4 {
                        bytes[14 + 9] = number;
                        bytes[14 + 3] = 20 + present;
                        mend(&mut bytes, 14);
                    } else {
                        bytes[14 + 6] = number;
                        bytes[14 + 5] = present;
                    }
                    let parsed = ip(&bytes).unwrap();
                    let foreign = number == if v4 { 58 } else { 1 };
                    assert_eq!(
                        parsed.flags.contains(ParseFlags::L4),
                        !foreign && present >= fields,
                        "{number} {present}"
                    );
                    assert_eq!(
                        parsed.flags.contains(ParseFlags::L4_HEADER),
                        !foreign && present >= header,
                        "{number} {present}"
                    );
                    let ports = !foreign && present >= 4 && fields == 4;
                    assert_eq!(parsed.ports(&bytes).is_some(), ports);
                    assert_eq!(parsed.icmp(&bytes).is_some(), !foreign && present >= 2 && fields == 2);
                    assert_eq!(parsed.tcp_flags(&bytes).is_some(), number == 6 && present >= 20);
                }
            }
        }
    }

    #[test]
    fn reasons_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = Malformed::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Malformed::ALL.len());
        assert!(
            names.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))
        );
    }

    /// Checks the guarantees of every successful parse.
    fn promises(frame: &[u8], parsed: &Parsed) -> Result<(), TestCaseError> {
        let (start, end) = (usize::from(parsed.l3), usize::from(parsed.l3) + parsed.l3_length as usize);
        prop_assert!(end <= frame.len());
        prop_assert_eq!(parsed.packet(frame), &frame[start..end]);
        let l4 = usize::from(parsed.l4);
        prop_assert!(l4 == 0 || (start + 20..=end).contains(&l4));
        let has = |flag| parsed.flags.contains(flag);
        prop_assert!(has(ParseFlags::IP4) != has(ParseFlags::IP6));
        prop_assert!(!has(ParseFlags::LATER_FRAGMENT) || (has(ParseFlags::FRAGMENT) && l4 == 0));
        prop_assert!(!has(ParseFlags::L4_HEADER) || has(ParseFlags::L4));
        if has(ParseFlags::L4) {
            let needs = if has(ParseFlags::IP4) { &NEEDS_V4 } else { &NEEDS_V6 };
            let [fields, header] = needs[usize::from(parsed.protocol)];
            prop_assert!(l4 != 0 && l4 + usize::from(fields) <= end);
            prop_assert!(!has(ParseFlags::L4_HEADER) || l4 + usize::from(header) <= end);
        }
        Ok(())
    }

    #[test]
    fn usual_packets_are_usual() {
        let (v4, v6) = (frame(UDP4), frame(UDP6));
        assert_eq!(usual_ipv4(&v4), ipv4(&v4, 14).ok());
        assert_eq!(usual_ipv6(&v6), ipv6(&v6, 14).ok());
        assert!(usual_ipv4(&v4).is_some() && usual_ipv6(&v6).is_some());
        assert!(usual_ipv4(&v6).is_none() && usual_ipv6(&v4).is_none());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..120), l3 in 0usize..130) {
            let _ = ethernet(&bytes);
            for parsed in [ipv4(&bytes, l3), ipv6(&bytes, l3)].into_iter().flatten() {
                promises(&bytes, &parsed)?;
            }
        }

        #[test]
        fn the_usual_case_says_what_the_general_one_says(
            text in texts(),
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
            mended: bool,
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = frame(&text);
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if mended && bytes[14] == 0x45 {
                mend(&mut bytes, 14);
            }
            bytes.truncate(14 + cut.index(200));
            if let Some(parsed) = usual_ipv4(&bytes) {
                prop_assert_eq!(ipv4(&bytes, 14), Ok(parsed));
            }
            if let Some(parsed) = usual_ipv6(&bytes) {
                prop_assert_eq!(ipv6(&bytes, 14), Ok(parsed));
            }
        }

        #[test]
        fn damaged_packets(
            text in texts(),
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = frame(&text);
            let l3 = usize::from(ethernet(&bytes).unwrap().l3);
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(bytes.len().min(l3 + cut.index(2000)));
            if bytes.len() >= l3 + 20 && bytes[l3] == 0x45 {
                mend(&mut bytes, l3);
            }
            for parsed in [ipv4(&bytes, l3), ipv6(&bytes, l3)].into_iter().flatten() {
                promises(&bytes, &parsed)?;
            }
        }

        #[test]
        fn agrees_with_another_parser(text in texts()) {
            let bytes = frame(&text);
            let ours = ip(&bytes).unwrap();
            promises(&bytes, &ours)?;
            let Ok(theirs) = etherparse::SlicedPacket::from_ethernet(&bytes) else {
                // It reads an authentication header where a later fragment has none, and wants ICMP's timestamps whole.
                let fragment = ours.protocol == protocol::AH && ours.flags.contains(ParseFlags::FRAGMENT);
                let timestamp = matches!(ours.icmp(&bytes), Some((13 | 14, _)));
                prop_assert!(fragment || (timestamp && ours.protocol == protocol::ICMP));
                return Ok(());
            };
            prop_assert_eq!(theirs.is_ip_payload_fragmented(), ours.flags.contains(ParseFlags::FRAGMENT));
            if ours.flags.contains(ParseFlags::FRAGMENT) {
                return Ok(());
            }
            use etherparse::TransportSlice::*;
            match theirs.transport {
                Some(Tcp(tcp)) => {
                    prop_assert_eq!(ours.ports(&bytes), Some((tcp.source_port(), tcp.destination_port())));
                    prop_assert_eq!(ours.tcp_flags(&bytes).unwrap().contains(tcp::Flags::SYN), tcp.syn());
                }
                Some(Udp(udp)) => {
                    prop_assert_eq!(ours.ports(&bytes), Some((udp.source_port(), udp.destination_port())));
                }
                Some(Icmpv4(icmp)) => prop_assert_eq!(ours.icmp(&bytes), Some((icmp.type_u8(), icmp.code_u8()))),
                Some(Icmpv6(icmp)) => prop_assert_eq!(ours.icmp(&bytes), Some((icmp.type_u8(), icmp.code_u8()))),
                None => {}
            }
        }
    }
}
