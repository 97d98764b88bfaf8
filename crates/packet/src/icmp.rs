//! ICMP and ICMPv6 messages that a gateway sends: errors about packets it refuses, and echo replies.
//!
//! Three questions are kept apart: *may* an error be sent about this packet ([`may_answer_v4`], [`may_answer_v6`]),
//! what does it look like ([`error_v4`], [`error_v6`]), and is there a token left to send it (the caller's limiter).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum;
use crate::delivery::{self, Undeliverable};
use crate::parse::{Malformed, ParseFlags, Parsed, martian};
use crate::wire::{icmpv4, icmpv6, ipv4, ipv6, protocol};

/// TTL and hop limit of what we send (RFC 1812 section 4.3.2.4 leaves it to us; IANA's default).
pub const TTL: u8 = 64;

/// The longest ICMP error that we send over IPv4, in octets with its IP header (RFC 1812 section 4.3.2.3).
pub const MAX_ERROR_V4: usize = 576;

/// The longest ICMPv6 error that we send, in octets with its IP header (RFC 4443 section 2.4(c)).
pub const MAX_ERROR_V6: usize = ipv6::MIN_MTU;

/// Type of service of ICMP errors: precedence 6, internetwork control (RFC 1812 section 4.3.2.5).
pub const ERROR_TOS: u8 = 0xc0;

/// An ICMP error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorV4 {
    /// Time exceeded: see [`icmpv4::time_exceeded`].
    TimeExceeded {
        /// In transit, or in reassembly.
        code: u8,
    },
    /// Destination unreachable: see [`icmpv4::unreachable`].
    Unreachable {
        /// Why.
        code: u8,
    },
    /// Destination unreachable because the packet is longer than the next link takes (RFC 1191).
    FragmentationNeeded {
        /// The MTU of that link in octets; larger values are sent as 65,535.
        mtu: u32,
    },
    /// A field is wrong.
    ParameterProblem {
        /// Which octet, from the start of the IP header.
        pointer: u8,
    },
}

impl ErrorV4 {
    /// Type, code, and the four octets behind the checksum.
    fn header(self) -> (u8, u8, u32) {
        use icmpv4::{kind, unreachable};
        match self {
            ErrorV4::TimeExceeded { code } => (kind::TIME_EXCEEDED, code, 0),
            ErrorV4::Unreachable { code } => (kind::UNREACHABLE, code, 0),
            ErrorV4::FragmentationNeeded { mtu } => {
                (kind::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED, mtu.min(u32::from(u16::MAX)))
            }
            ErrorV4::ParameterProblem { pointer } => (kind::PARAMETER_PROBLEM, 0, u32::from(pointer) << 24),
        }
    }
}

/// An ICMPv6 error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorV6 {
    /// Time exceeded: see [`icmpv6::time_exceeded`].
    TimeExceeded {
        /// In transit, or in reassembly.
        code: u8,
    },
    /// Destination unreachable: see [`icmpv6::unreachable`].
    Unreachable {
        /// Why.
        code: u8,
    },
    /// The packet is longer than the next link takes.
    PacketTooBig {
        /// The MTU of that link in octets.
        mtu: u32,
    },
    /// A field, a next header or an option is wrong: see [`icmpv6::parameter_problem`].
    ParameterProblem {
        /// Which of them.
        code: u8,
        /// Which octet, from the start of the IPv6 header.
        pointer: u32,
    },
}

impl ErrorV6 {
    /// Returns the error for the sender of a packet to this node that nothing here serves (RFC 8200 section 4, RFC 4443
    /// section 3): a parameter problem of its extension headers, an unrecognised next header, a port without a
    /// listener. `packet` starts with an IPv6 header that has passed [`crate::parse::ipv6`]. Returns `None` where no
    /// error is due: TCP is refused by resets, unknown ICMPv6 messages and packets without a payload are ignored.
    pub fn of_unserved(packet: &[u8]) -> Option<ErrorV6> {
        match delivery::payload(packet) {
            Err(Undeliverable::Problem { code, pointer }) => Some(ErrorV6::ParameterProblem { code, pointer }),
            Err(Undeliverable::Silent) => None,
            Ok(payload) => match payload.protocol {
                protocol::TCP | protocol::ICMPV6 | protocol::NO_NEXT_HEADER => None,
                protocol::UDP | protocol::UDP_LITE => Some(ErrorV6::Unreachable { code: icmpv6::unreachable::PORT }),
                _ => Some(ErrorV6::ParameterProblem {
                    code: icmpv6::parameter_problem::UNRECOGNIZED_NEXT_HEADER,
                    // Below 2^17: a payload has at most 65,535 octets.
                    pointer: payload.named_at as u32,
                }),
            },
        }
    }

    /// Returns the parameter problem for the sender of a malformed packet; `None` where no error is due.
    pub fn of_malformed(malformed: Malformed) -> Option<ErrorV6> {
        malformed.parameter_problem().map(|(code, pointer)| ErrorV6::ParameterProblem { code, pointer })
    }

    /// Type, code, and the four octets behind the checksum.
    fn header(self) -> (u8, u8, u32) {
        use icmpv6::kind;
        match self {
            ErrorV6::TimeExceeded { code } => (kind::TIME_EXCEEDED, code, 0),
            ErrorV6::Unreachable { code } => (kind::UNREACHABLE, code, 0),
            ErrorV6::PacketTooBig { mtu } => (kind::PACKET_TOO_BIG, 0, mtu),
            ErrorV6::ParameterProblem { code, pointer } => (kind::PARAMETER_PROBLEM, code, pointer),
        }
    }

    /// Whether it may be sent about packets to a group (RFC 4443 section 2.4(e.3)).
    fn reaches_groups(self) -> bool {
        use icmpv6::parameter_problem::UNRECOGNIZED_OPTION;
        matches!(self, ErrorV6::PacketTooBig { .. } | ErrorV6::ParameterProblem { code: UNRECOGNIZED_OPTION, .. })
    }
}

/// Builds an ICMP error with its IP header at the start of `out`, and returns its length in octets, 48 to
/// [`MAX_ERROR_V4`] for any whole packet. `source` is an address of ours; `offending` starts with the IPv4 header of
/// the packet that it is about, goes back to its source, and is quoted as far as the error's length allows (RFC 1812
/// section 4.3.2.3), without what follows its total length.
///
/// The datagram is atomic (RFC 6864): it may not be fragmented, so its identification means nothing and is zero.
///
/// `None`, with nothing written, if `offending` is no whole header or `out` is too short; [`MAX_ERROR_V4`] is enough.
pub fn error_v4(out: &mut [u8], error: ErrorV4, source: Ipv4Addr, offending: &[u8]) -> Option<usize> {
    const HEADERS: usize = ipv4::LENGTH + icmpv4::LENGTH;
    let header = ipv4::Header::new(offending).ok()?;
    let total = usize::from(header.total_length()).max(ipv4::LENGTH);
    let quoted = &offending[..offending.len().min(total).min(MAX_ERROR_V4 - HEADERS)];
    let length = HEADERS + quoted.len();
    let out = out.get_mut(..length)?;
    let fields = ipv4::Fields {
        tos: ERROR_TOS,
        // At most 576.
        total_length: length as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: TTL,
        protocol: protocol::ICMP,
        source,
        destination: header.source(),
    };
    let (ip, message) = out.split_at_mut(ipv4::LENGTH);
    ip.copy_from_slice(&fields.emit());
    emit_message(message, error.header(), quoted, checksum::Sum::new());
    Some(length)
}

/// Builds an ICMPv6 error with its IP header at the start of `out`, and returns its length in octets, at most
/// [`MAX_ERROR_V6`]. `source` is an address of ours; `offending` starts with the IPv6 header of the packet that it is
/// about, goes back to its source, and is quoted as far as the error's length allows (RFC 4443 section 2.4(c)),
/// without what follows its payload length.
///
/// `None`, with nothing written, if `offending` is no whole header or `out` is too short; [`MAX_ERROR_V6`] is enough.
pub fn error_v6(out: &mut [u8], error: ErrorV6, source: Ipv6Addr, offending: &[u8]) -> Option<usize> {
    const HEADERS: usize = ipv6::LENGTH + icmpv6::LENGTH;
    let header = ipv6::Header::new(offending).ok()?;
    let total = ipv6::LENGTH + usize::from(header.payload_length());
    let quoted = &offending[..offending.len().min(total).min(MAX_ERROR_V6 - HEADERS)];
    let length = HEADERS + quoted.len();
    let out = out.get_mut(..length)?;
    let message_length = length - ipv6::LENGTH;
    let fields = ipv6::Fields {
        traffic_class: 0,
        flow_label: 0,
        // At most 1240.
        payload_length: message_length as u16,
        next_header: protocol::ICMPV6,
        hop_limit: TTL,
        source,
        destination: header.source(),
    };
    let (ip, message) = out.split_at_mut(ipv6::LENGTH);
    ip.copy_from_slice(&fields.emit());
    let pseudo = checksum::pseudo_v6(source, fields.destination, protocol::ICMPV6, message_length as u32);
    emit_message(message, error.header(), quoted, pseudo);
    Some(length)
}

/// Writes header and quotation over the whole of `message`, which has their length.
fn emit_message(message: &mut [u8], (kind, code, rest): (u8, u8, u32), quoted: &[u8], pseudo: checksum::Sum) {
    let mut fields = icmpv4::Fields { kind, code, checksum: 0, rest };
    fields.checksum = pseudo.bytes(&fields.emit()).bytes(quoted).checksum();
    let (header, body) = message.split_at_mut(icmpv4::LENGTH);
    header.copy_from_slice(&fields.emit());
    body.copy_from_slice(quoted);
}

/// Why no ICMP error is sent about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Silence {
    /// It is an ICMP error itself, or may be one.
    #[error("the packet is an ICMP error, or may be one")]
    Error,
    /// It is a fragment other than the first.
    #[error("the packet is a later fragment")]
    LaterFragment,
    /// It went to more than one host.
    #[error("the packet went to a multicast or broadcast address")]
    GroupDestination,
    /// Its frame went to more than one station.
    #[error("the frame went to a multicast or broadcast address of the link")]
    GroupLink,
    /// Its source names no single host.
    #[error("the source address names no single host")]
    Source,
    /// It is a message of neighbour discovery, which stays on its link.
    #[error("the packet is a message of neighbour discovery")]
    NeighborDiscovery,
}

/// Whether an ICMP error may be sent about a packet that [`crate::parse::ipv4`] passed: not about ICMP errors, later
/// fragments, packets to groups of hosts or stations, or from sources that are no single host (RFC 1122 section 3.2.2,
/// RFC 1812 section 4.3.2.7). The broadcast addresses of our own links are for the caller to know.
///
/// # Errors
/// Why not.
pub fn may_answer_v4(parsed: &Parsed, frame: &[u8]) -> Result<(), Silence> {
    let Ok(header) = ipv4::Header::new(parsed.packet(frame)) else { return Err(Silence::Source) };
    let destination = header.destination();
    if parsed.flags.intersects(ParseFlags::LATER_FRAGMENT) {
        Err(Silence::LaterFragment)
    } else if parsed.flags.intersects(ParseFlags::L2_GROUP) {
        Err(Silence::GroupLink)
    } else if destination.is_multicast() || destination.is_broadcast() {
        Err(Silence::GroupDestination)
    } else if martian::source_v4(header.source()) {
        Err(Silence::Source)
    } else if parsed.protocol == protocol::ICMP && parsed.icmp(frame).is_none_or(|(kind, _)| icmpv4::is_error(kind)) {
        // A type that is not there may have been that of an error.
        Err(Silence::Error)
    } else {
        Ok(())
    }
}

/// Whether `error` may be sent about a packet that [`crate::parse::ipv6`] passed: not about ICMPv6 errors and
/// redirects, packets to groups of hosts or stations (packet too big and unrecognised options excepted), or from
/// sources that are no single host (RFC 4443 section 2.4(e)). Later fragments may be answered in IPv6, unless what
/// they belong to may be an ICMPv6 error. Nor about other messages of neighbour discovery: none is to leave its link, and
/// one that fails its checks is to be discarded in silence (RFC 4861 sections 6.1 and 7.1).
///
/// # Errors
/// Why not.
pub fn may_answer_v6(parsed: &Parsed, frame: &[u8], error: ErrorV6) -> Result<(), Silence> {
    let Ok(header) = ipv6::Header::new(parsed.packet(frame)) else { return Err(Silence::Source) };
    let later = parsed.flags.intersects(ParseFlags::LATER_FRAGMENT);
    if later && (parsed.protocol == protocol::ICMPV6 || protocol::is_extension(parsed.protocol)) {
        Err(Silence::LaterFragment)
    } else if parsed.flags.intersects(ParseFlags::L2_GROUP) && !error.reaches_groups() {
        Err(Silence::GroupLink)
    } else if header.destination().is_multicast() && !error.reaches_groups() {
        Err(Silence::GroupDestination)
    } else if martian::source_v6(header.source()) {
        Err(Silence::Source)
    } else if parsed.protocol == protocol::ICMPV6 && parsed.icmp(frame).is_none_or(|(kind, _)| icmpv6::is_error(kind)) {
        Err(Silence::Error)
    } else if parsed.protocol == protocol::ICMPV6 && parsed.icmp(frame).is_some_and(|(kind, _)| is_discovery(kind)) {
        Err(Silence::NeighborDiscovery)
    } else {
        Ok(())
    }
}

/// Solicitations and advertisements of routers and neighbours; redirects count as errors (RFC 4443 section 2.4(e.2)).
fn is_discovery(kind: u8) -> bool {
    use icmpv6::kind::{NEIGHBOR_ADVERTISEMENT, ROUTER_SOLICITATION};
    (ROUTER_SOLICITATION..=NEIGHBOR_ADVERTISEMENT).contains(&kind)
}

/// As [`may_answer_v6`], about a packet that [`crate::parse::ipv6`] refused for its extension headers, so that its
/// protocol is not known. `l3` is where its IPv6 header starts in `frame`, `link` the flags of the link layer.
///
/// # Errors
/// Why not.
pub fn may_answer_malformed_v6(frame: &[u8], l3: u16, link: ParseFlags, error: ErrorV6) -> Result<(), Silence> {
    let length = frame.len().saturating_sub(usize::from(l3));
    let parsed = Parsed {
        l3,
        l4: 0,
        protocol: protocol::NO_NEXT_HEADER,
        flags: ParseFlags::IP6 | link,
        l3_length: u32::try_from(length).unwrap_or(u32::MAX),
    };
    may_answer_v6(&parsed, frame, error)
}

/// Why a packet does not become an echo reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotAnswered {
    /// It is not an echo request, or not a whole one.
    #[error("not a whole ICMP echo request")]
    NotEcho,
    /// It is a fragment.
    #[error("a fragment of an ICMP echo request")]
    Fragment,
    /// It has IP options, which a reply would have to reverse (RFC 1122 section 3.2.2.6), or extension headers that end its
    /// delivery.
    #[error("an ICMP echo request with IP options, or with extension headers that end its delivery")]
    Options,
    /// One of its addresses names no single host.
    #[error("an ICMP echo request from or to an address that is no single host")]
    Address,
    /// Its ICMP checksum is wrong.
    #[error("an ICMP echo request with a wrong checksum")]
    BadChecksum,
}

/// Turns an ICMP echo request into its reply, in place. `packet` starts with an IPv4 header that has passed
/// [`crate::parse::ipv4`], and may go on after the datagram's end. Addresses change places, the TTL becomes [`TTL`];
/// type of service, identification and data stay (RFC 1122 section 3.2.2.6).
///
/// # Errors
/// Why not; the packet is as it was.
pub fn echo_reply_v4(packet: &mut [u8]) -> Result<(), NotAnswered> {
    let header = ipv4::Fields::parse(packet).map_err(|_| NotAnswered::NotEcho)?;
    if packet[ipv4::VERSION_IHL] != 0x45 {
        return Err(NotAnswered::Options);
    }
    if header.protocol != protocol::ICMP {
        return Err(NotAnswered::NotEcho);
    }
    if header.more_fragments || header.fragment_offset != 0 {
        return Err(NotAnswered::Fragment);
    }
    let packet = packet.get_mut(..usize::from(header.total_length)).ok_or(NotAnswered::NotEcho)?;
    let (ip, message) = packet.split_at_mut_checked(ipv4::LENGTH).ok_or(NotAnswered::NotEcho)?;
    let reply = ipv4::Fields { ttl: TTL, source: header.destination, destination: header.source, ..header };
    if martian::source_v4(reply.source) || martian::source_v4(reply.destination) {
        return Err(NotAnswered::Address);
    }
    answer(message, icmpv4::kind::ECHO_REQUEST, icmpv4::kind::ECHO_REPLY, checksum::Sum::new())?;
    ip.copy_from_slice(&reply.emit());
    Ok(())
}

/// Turns an ICMPv6 echo request into its reply, in place, and returns the octet at which the reply starts. `packet` starts
/// with an IPv6 header that has passed [`crate::parse::ipv6`], and may go on after the packet's end. Addresses change
/// places, the hop limit becomes [`TTL`]; traffic class, flow label and data stay. Extension headers are processed as
/// [`delivery`] has it, and the reply has none.
///
/// # Errors
/// Why not; the packet is as it was.
pub fn echo_reply_v6(packet: &mut [u8]) -> Result<usize, NotAnswered> {
    let header = ipv6::Fields::parse(packet).map_err(|_| NotAnswered::NotEcho)?;
    let end = ipv6::LENGTH + usize::from(header.payload_length);
    let packet = packet.get_mut(..end).ok_or(NotAnswered::NotEcho)?;
    let payload = delivery::payload(packet).map_err(|_| NotAnswered::Options)?;
    if payload.protocol != protocol::ICMPV6 {
        return Err(NotAnswered::NotEcho);
    }
    let (headers, message) = packet.split_at_mut(payload.at);
    // No longer than the payload that it is part of.
    let payload_length = message.len() as u16;
    let reply = ipv6::Fields {
        payload_length,
        next_header: protocol::ICMPV6,
        hop_limit: TTL,
        source: header.destination,
        destination: header.source,
        ..header
    };
    if martian::source_v6(reply.source) || martian::source_v6(reply.destination) {
        return Err(NotAnswered::Address);
    }
    let pseudo = checksum::pseudo_v6(header.source, header.destination, protocol::ICMPV6, payload_length.into());
    answer(message, icmpv6::kind::ECHO_REQUEST, icmpv6::kind::ECHO_REPLY, pseudo)?;
    let start = headers.len() - ipv6::LENGTH;
    headers[start..].copy_from_slice(&reply.emit());
    Ok(start)
}

/// Gives an ICMPv6 message without extension headers, whose checksum is right, another source.
pub fn set_source_v6(packet: &mut [u8], source: Ipv6Addr) {
    let field = ipv6::SOURCE..ipv6::SOURCE + 16;
    let sum = ipv6::LENGTH + icmpv6::CHECKSUM..ipv6::LENGTH + icmpv6::CHECKSUM + 2;
    let Some(before) = packet.get(field.clone()).and_then(|octets| octets.first_chunk::<16>()).copied() else { return };
    let Some(old) = packet.get(sum.clone()).and_then(|octets| octets.first_chunk::<2>()).copied() else { return };
    let delta = checksum::Delta::wide(u128::from_be_bytes(before), source.to_bits());
    packet[field].copy_from_slice(&source.octets());
    packet[sum].copy_from_slice(&delta.apply(u16::from_be_bytes(old)).to_be_bytes());
}

/// Turns the message, if it is of type `request` and right, into one of type `reply`.
fn answer(message: &mut [u8], request: u8, reply: u8, pseudo: checksum::Sum) -> Result<(), NotAnswered> {
    let header = icmpv4::Header::new(message).map_err(|_| NotAnswered::NotEcho)?;
    if header.kind() != request {
        return Err(NotAnswered::NotEcho);
    }
    if !pseudo.bytes(message).is_valid() {
        return Err(NotAnswered::BadChecksum);
    }
    let delta = checksum::Delta::word(u16::from(request) << 8, u16::from(reply) << 8);
    let mut updated = delta.apply(header.checksum());
    message[0] = reply;
    let checksum = icmpv4::CHECKSUM..icmpv4::CHECKSUM + 2;
    if updated == 0 {
        // ICMP of IPv4 has no pseudo-header: a reply to id 0, sequence 0, without data, is all zeros, and its checksum
        // is the other zero.
        message[checksum.clone()].fill(0);
        updated = pseudo.bytes(message).checksum();
    }
    message[checksum].copy_from_slice(&updated.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parse;
    use crate::text::{Macs, PacketText, summary};
    use crate::wire::MacAddress;

    fn frame(text: &str) -> Vec<u8> {
        let macs = Macs { from: MacAddress([2, 0, 0, 0, 0, 1]), to: MacAddress([2, 0, 0, 0, 0, 2]) };
        text.parse::<PacketText>().unwrap_or_else(|error| panic!("{text}: {error}")).frame(macs)
    }

    fn packet(text: &str) -> Vec<u8> {
        frame(text)[14..].to_vec()
    }

    const US: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const US6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

    #[test]
    fn errors_over_ipv4() {
        let offending = packet("udp from 10.0.0.1 port 1000 to 198.51.100.9 port 53 length 100");
        let mut out = [0xaa; MAX_ERROR_V4];
        for (error, kind, code, rest) in [
            (ErrorV4::TimeExceeded { code: 0 }, 11, 0, 0),
            (ErrorV4::Unreachable { code: 13 }, 3, 13, 0),
            (ErrorV4::FragmentationNeeded { mtu: 1400 }, 3, 4, 1400),
            (ErrorV4::FragmentationNeeded { mtu: 70_000 }, 3, 4, 65_535),
            (ErrorV4::ParameterProblem { pointer: 21 }, 12, 0, 21 << 24),
        ] {
            let length = error_v4(&mut out, error, US, &offending).unwrap();
            assert_eq!(length, 128);
            let parsed = parse::ipv4(&out[..length], 0).unwrap();
            assert_eq!((parsed.l3_length, parsed.icmp(&out)), (128, Some((kind, code))));
            let fields = ipv4::Fields::parse(&out).unwrap();
            assert_eq!((fields.source, fields.destination.to_string().as_str()), (US, "10.0.0.1"));
            assert_eq!((fields.tos, fields.ttl, fields.dont_fragment), (0xc0, 64, true));
            assert!(checksum::is_valid(&out[20..length]));
            assert_eq!(icmpv4::Header::new(&out[20..]).unwrap().rest(), rest);
            assert_eq!(out[28..length], offending);
            assert_eq!(may_answer_v4(&parsed, &out), Err(Silence::Error));
            let theirs = etherparse::SlicedPacket::from_ip(&out[..length]).unwrap();
            assert!(matches!(theirs.transport, Some(etherparse::TransportSlice::Icmpv4(_))));
        }
    }

    #[test]
    fn quotations_over_ipv4_end_somewhere() {
        let mut out = [0; 2000];
        for (length, expected) in [(28, 56), (548, 576), (549, 576), (1500, 576)] {
            let offending = packet(&format!("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 length {length}"));
            assert_eq!(error_v4(&mut out, ErrorV4::TimeExceeded { code: 0 }, US, &offending), Some(expected));
            assert_eq!(out[28..expected], offending[..expected - 28]);
            assert!(checksum::is_valid(&out[20..expected]));
        }
        // Padding of the link is not quoted; what is not there cannot be.
        let mut padded = packet("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2");
        padded.resize(46, 0xee);
        assert_eq!(error_v4(&mut out, ErrorV4::TimeExceeded { code: 0 }, US, &padded), Some(56));
        assert_eq!(error_v4(&mut out, ErrorV4::TimeExceeded { code: 0 }, US, &padded[..24]), Some(52));
        assert_eq!(error_v4(&mut out, ErrorV4::TimeExceeded { code: 0 }, US, &padded[..19]), None);
        assert_eq!(error_v4(&mut out[..55], ErrorV4::TimeExceeded { code: 0 }, US, &padded), None);
    }

    #[test]
    fn errors_over_ipv6() {
        let mut out = [0; 2000];
        for (error, kind, code, rest) in [
            (ErrorV6::TimeExceeded { code: 1 }, 3, 1, 0),
            (ErrorV6::Unreachable { code: 5 }, 1, 5, 0),
            (ErrorV6::PacketTooBig { mtu: 1400 }, 2, 0, 1400),
            (ErrorV6::ParameterProblem { code: 1, pointer: 40 }, 4, 1, 40),
        ] {
            for (length, expected) in [(48, 96), (1232, 1280), (1233, 1280), (1500, 1280)] {
                let text = format!("udp from 2001:db8::9 port 1 to 2001:db8::8 port 2 length {length}");
                let offending = packet(&text);
                assert_eq!(error_v6(&mut out, error, US6, &offending), Some(expected));
                let parsed = parse::ipv6(&out[..expected], 0).unwrap();
                assert_eq!((parsed.l3_length as usize, parsed.icmp(&out)), (expected, Some((kind, code))));
                assert_eq!(icmpv6::Header::new(&out[40..]).unwrap().rest(), rest);
                assert_eq!(out[48..expected], offending[..expected - 48]);
                let theirs = etherparse::SlicedPacket::from_ip(&out[..expected]).unwrap();
                let Some(etherparse::TransportSlice::Icmpv6(icmp)) = theirs.transport else { panic!() };
                let destination: Ipv6Addr = "2001:db8::9".parse().unwrap();
                assert!(icmp.is_checksum_valid(US6.octets(), destination.octets()));
                assert_eq!(may_answer_v6(&parsed, &out, error), Err(Silence::Error));
            }
        }
        let offending = packet("udp from 2001:db8::9 port 1 to 2001:db8::8 port 2");
        let error = ErrorV6::TimeExceeded { code: 0 };
        assert_eq!(error_v6(&mut out, error, US6, &offending[..39]), None);
        assert_eq!(error_v6(&mut out[..95], error, US6, &offending), None);
    }

    #[test]
    fn never_about_an_error_over_ipv4() {
        use Silence::*;
        for (text, answer) in [
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2", Ok(())),
            ("tcp from 10.0.0.1 port 1 to 10.0.0.2 port 2 fragment 0+", Ok(())),
            ("udp from 10.0.0.1 to 10.0.0.2 fragment 8", Err(LaterFragment)),
            ("icmp from 10.0.0.1 to 10.0.0.2 fragment 8", Err(LaterFragment)),
            ("icmp from 10.0.0.1 to 10.0.0.2 type echo-request", Ok(())),
            ("icmp from 10.0.0.1 to 10.0.0.2 type echo-reply", Ok(())),
            ("icmp from 10.0.0.1 to 10.0.0.2 type unreachable code 3", Err(Error)),
            ("icmp from 10.0.0.1 to 10.0.0.2 type redirect", Err(Error)),
            ("icmp from 10.0.0.1 to 10.0.0.2 type time-exceeded", Err(Error)),
            ("icmp from 10.0.0.1 to 10.0.0.2 type parameter-problem", Err(Error)),
            ("icmp from 10.0.0.1 to 10.0.0.2 type source-quench", Err(Error)),
            ("udp from 10.0.0.1 port 1 to 224.0.0.1 port 2", Err(GroupDestination)),
            ("udp from 10.0.0.1 port 1 to 255.255.255.255 port 2", Err(GroupDestination)),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 mac-to ff:ff:ff:ff:ff:ff", Err(GroupLink)),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 mac-to 01:00:5e:00:00:01", Err(GroupLink)),
            ("udp from 0.0.0.0 port 1 to 10.0.0.2 port 2", Err(Source)),
            ("udp from 127.0.0.1 port 1 to 10.0.0.2 port 2", Err(Source)),
            ("udp from 224.0.0.1 port 1 to 10.0.0.2 port 2", Err(Source)),
            ("udp from 255.255.255.255 port 1 to 10.0.0.2 port 2", Err(Source)),
            ("udp from 240.0.0.1 port 1 to 10.0.0.2 port 2", Err(Source)),
        ] {
            let frame = frame(text);
            let mut parsed = parse::ipv4(&frame, 14).unwrap();
            parsed.flags |= parse::ethernet(&frame).unwrap().flags;
            assert_eq!(may_answer_v4(&parsed, &frame), answer, "{text}");
        }
        // An ICMP message that is cut off before its type may be an error.
        let mut cut = frame("254 from 10.0.0.1 to 10.0.0.2");
        cut[14 + 9] = protocol::ICMP;
        cut[14 + 10..14 + 12].fill(0);
        let checksum = checksum::of(&cut[14..34]);
        cut[14 + 10..14 + 12].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(may_answer_v4(&parse::ipv4(&cut, 14).unwrap(), &cut), Err(Error));
        assert_eq!(may_answer_v4(&Parsed::default(), &[]), Err(Source));
    }

    #[test]
    fn never_about_an_error_over_ipv6() {
        use Silence::*;
        let unreachable = ErrorV6::Unreachable { code: 0 };
        let too_big = ErrorV6::PacketTooBig { mtu: 1280 };
        let option = ErrorV6::ParameterProblem { code: 2, pointer: 42 };
        let header = ErrorV6::ParameterProblem { code: 1, pointer: 6 };
        let udp = |rest: &str| format!("udp from 2001:db8::1 port 1 to 2001:db8::2 port 2{rest}");
        let icmp = |rest: &str| format!("icmp6 from 2001:db8::1 to 2001:db8::2{rest}");
        for (text, error, answer) in [
            (udp(""), unreachable, Ok(())),
            (udp(" fragment 0+"), unreachable, Ok(())),
            ("udp from 2001:db8::1 to 2001:db8::2 fragment 8".to_owned(), too_big, Ok(())),
            (icmp(" fragment 8"), too_big, Err(LaterFragment)),
            (icmp(" type echo-request"), unreachable, Ok(())),
            (icmp(" type neighbor-solicitation"), unreachable, Err(NeighborDiscovery)),
            (icmp(" type router-solicitation"), too_big, Err(NeighborDiscovery)),
            (icmp(" type echo-reply"), unreachable, Ok(())),
            (icmp(" type 138"), unreachable, Ok(())),
            (icmp(" type unreachable"), too_big, Err(Error)),
            (icmp(" type 127"), too_big, Err(Error)),
            (icmp(" type redirect"), too_big, Err(Error)),
            ("udp from 2001:db8::1 port 1 to ff02::1 port 2".to_owned(), unreachable, Err(GroupDestination)),
            ("udp from 2001:db8::1 port 1 to ff02::1 port 2".to_owned(), header, Err(GroupDestination)),
            ("udp from 2001:db8::1 port 1 to ff02::1 port 2".to_owned(), too_big, Ok(())),
            ("udp from 2001:db8::1 port 1 to ff02::1 port 2".to_owned(), option, Ok(())),
            (udp(" mac-to 33:33:00:00:00:01"), unreachable, Err(GroupLink)),
            (udp(" mac-to ff:ff:ff:ff:ff:ff"), unreachable, Err(GroupLink)),
            (udp(" mac-to ff:ff:ff:ff:ff:ff"), too_big, Ok(())),
            ("udp from :: port 1 to 2001:db8::2 port 2".to_owned(), too_big, Err(Source)),
            ("udp from ff02::1 port 1 to 2001:db8::2 port 2".to_owned(), too_big, Err(Source)),
        ] {
            let frame = frame(&text);
            let mut parsed = parse::ipv6(&frame, 14).unwrap();
            parsed.flags |= parse::ethernet(&frame).unwrap().flags;
            assert_eq!(may_answer_v6(&parsed, &frame, error), answer, "{text} {error:?}");
        }
    }

    #[test]
    fn a_broken_chain_of_headers_is_answered() {
        let mut broken = frame("254 from 2001:db8::1 to 2001:db8::2 length 48");
        broken[20] = protocol::DESTINATION_OPTIONS;
        broken[55] = 9;
        let malformed = parse::ipv6(&broken, 14).unwrap_err();
        let error = ErrorV6::of_malformed(malformed).unwrap();
        assert_eq!(error, ErrorV6::ParameterProblem { code: 0, pointer: 41 });
        assert_eq!(may_answer_malformed_v6(&broken, 14, ParseFlags::empty(), error), Ok(()));
        let answer = may_answer_malformed_v6(&broken, 14, ParseFlags::L2_BROADCAST, error);
        assert_eq!(answer, Err(Silence::GroupLink));
        assert_eq!(may_answer_malformed_v6(&[], 14, ParseFlags::empty(), error), Err(Silence::Source));
        assert_eq!(ErrorV6::of_malformed(Malformed::BadVersion), None);
    }

    #[test]
    fn echoes_come_back() {
        let mut echo = frame("icmp from 10.0.0.1 to 192.0.2.1 ttl 9 dscp 3 length 100");
        echo[14 + 24] = 0x12;
        echo[14 + 22..14 + 24].fill(0);
        let checksum = checksum::of(&echo[34..]);
        echo[14 + 22..14 + 24].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(echo_reply_v4(&mut echo[14..]), Ok(()));
        let line = "IP4 192.0.2.1 > 10.0.0.1 icmp echo-reply ttl 64 length 100 dscp 3";
        assert_eq!(summary(&echo).to_string(), line);
        assert!(checksum::is_valid(&echo[34..]));
        assert_eq!(echo[14 + 24], 0x12);

        let mut echo = frame("icmp6 from 2001:db8::9 to 2001:db8::1 ttl 9 length 100");
        assert_eq!(echo_reply_v6(&mut echo[14..]), Ok(0));
        // From another address of ours its checksum is right, too.
        let (mut other, source) = (echo.clone(), "2001:db8:77::1".parse().unwrap());
        set_source_v6(&mut other[14..], source);
        let header = ipv6::Fields::parse(&other[14..]).unwrap();
        let length = u32::from(header.payload_length);
        let pseudo = checksum::pseudo_v6(header.source, header.destination, protocol::ICMPV6, length);
        assert!(header.source == source && pseudo.bytes(&other[14 + ipv6::LENGTH..]).is_valid());
        let line = "IP6 2001:db8::1 > 2001:db8::9 icmp6 echo-reply ttl 64 length 100";
        assert_eq!(summary(&echo).to_string(), line);
        let theirs = etherparse::SlicedPacket::from_ethernet(&echo).unwrap();
        let Some(etherparse::TransportSlice::Icmpv6(icmp)) = theirs.transport else { panic!() };
        let destination: Ipv6Addr = "2001:db8::9".parse().unwrap();
        assert!(icmp.is_checksum_valid(US6.octets(), destination.octets()));
    }

    #[test]
    fn replies_have_no_extension_headers() {
        let plain = packet("icmp6 from 2001:db8::9 to 2001:db8::1 ttl 9 length 100");
        let mut expected = plain.clone();
        assert_eq!(echo_reply_v6(&mut expected), Ok(0));
        // An atomic fragment (RFC 6946) behind destination options, and what follows the packet's end.
        let headers = [44, 0, 1, 4, 0, 0, 0, 0, 58, 0, 0, 0, 1, 2, 3, 4];
        let mut request = [&plain[..40], &headers, &plain[40..], &[0xee; 7]].concat();
        request[ipv6::NEXT_HEADER] = 60;
        request[ipv6::PAYLOAD_LENGTH + 1] += 16;
        assert_eq!(echo_reply_v6(&mut request), Ok(16));
        assert_eq!(request[16..16 + 100], expected);
        // An option that has the packet discarded.
        let mut refused = [&plain[..40], &[58, 0, 0x80, 4, 0, 0, 0, 0], &plain[40..]].concat();
        refused[ipv6::NEXT_HEADER] = 60;
        refused[ipv6::PAYLOAD_LENGTH + 1] += 8;
        let before = refused.clone();
        assert_eq!(echo_reply_v6(&mut refused), Err(NotAnswered::Options));
        assert_eq!(refused, before);
    }

    #[test]
    fn an_empty_echo_has_the_other_zero() {
        let mut echo = packet("icmp from 10.0.0.1 to 192.0.2.1");
        assert_eq!(echo_reply_v4(&mut echo), Ok(()));
        assert_eq!(echo[20..], [0, 0, 0xff, 0xff, 0, 0, 0, 0]);
        assert!(checksum::is_valid(&echo[20..]));
    }

    #[test]
    fn what_is_no_echo_is_left_alone() {
        use NotAnswered::*;
        for (text, answer) in [
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2", NotEcho),
            ("icmp from 10.0.0.1 to 10.0.0.2 type echo-reply", NotEcho),
            ("icmp from 10.0.0.1 to 10.0.0.2 fragment 0+", Fragment),
            ("icmp from 10.0.0.1 to 10.0.0.2 fragment 8", Fragment),
            ("icmp from 0.0.0.0 to 10.0.0.2", Address),
            ("icmp from 10.0.0.1 to 224.0.0.1", Address),
            ("icmp from 10.0.0.1 to 255.255.255.255", Address),
            ("udp from 2001:db8::1 port 1 to 2001:db8::2 port 2", NotEcho),
            ("icmp6 from 2001:db8::1 to 2001:db8::2 type echo-reply", NotEcho),
            ("icmp6 from 2001:db8::1 to 2001:db8::2 fragment 0+", Options),
            ("icmp6 from :: to 2001:db8::2", Address),
            ("icmp6 from 2001:db8::1 to ff02::1", Address),
        ] {
            let mut bytes = packet(text);
            let before = bytes.clone();
            let got = if bytes[0] == 0x45 { echo_reply_v4(&mut bytes) } else { echo_reply_v6(&mut bytes).map(drop) };
            assert_eq!(got, Err(answer), "{text}");
            assert_eq!(bytes, before);
        }
    }

    proptest! {
        #[test]
        fn damaged_echoes(
            text in prop_oneof![
                Just("icmp from 10.0.0.1 to 10.0.0.2 length 60"),
                Just("icmp6 from ::5 to ::6 length 80"),
            ],
            bit in 0usize..320,
            cut in 0usize..81,
        ) {
            let whole = packet(text);
            let v4 = whole[0] == 0x45;
            let reply = |bytes: &mut [u8]| if v4 { echo_reply_v4(bytes) } else { echo_reply_v6(bytes).map(drop) };
            // A flipped bit in the message is seen by its checksum, whatever else it may look like.
            let header = if v4 { 20 } else { 40 };
            let mut flipped = whole.clone();
            flipped[header + bit / 8] ^= 1 << (bit % 8);
            prop_assert!(reply(&mut flipped).is_err());
            let cut = cut.min(whole.len() - 1);
            prop_assert_eq!(reply(&mut whole[..cut].to_vec()), Err(NotAnswered::NotEcho));
        }

        #[test]
        fn arbitrary_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            room in 0usize..1300,
            code in any::<u8>(),
        ) {
            let mut out = vec![0; room];
            for length in [
                error_v4(&mut out, ErrorV4::Unreachable { code }, US, &bytes),
                error_v6(&mut out, ErrorV6::Unreachable { code }, US6, &bytes),
            ] {
                prop_assert!(length.is_none_or(|length| length <= room.min(MAX_ERROR_V6)));
            }
            let mut copy = bytes.clone();
            let _ = echo_reply_v4(&mut copy);
            let _ = echo_reply_v6(&mut copy);
        }
    }
}
