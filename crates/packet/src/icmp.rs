//! ICMP and ICMPv6 messages that a gateway sends: errors about packets it refuses, and echo replies.
//!
//! Three questions are kept apart: *may* an error be sent about this packet ([`may_answer_v4`], [`may_answer_v6`]), what
//! does it look like ([`error_v4`], [`error_v6`]), and is there a token left to send it (the caller's limiter).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum;
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
        /// What that link takes, in octets; told as 65,535 from there on.
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
        /// What that link takes, in octets.
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
    /// The parameter problem that tells the sender of a malformed packet; `None` where silence is due.
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

/// Builds an ICMP error with its IP header at the start of `out`, and returns its length in octets, 56 to
/// [`MAX_ERROR_V4`] for any whole packet. `source` is an address of ours; `offending` starts with the IPv4 header of the packet that it is
/// about, goes back to its source, and is quoted as far as the error's length allows (RFC 1812 section 4.3.2.3), without
/// what follows its total length.
///
/// The datagram is atomic (RFC 6864): it may not be fragmented, so its identification means nothing and is zero.
///
/// `None`, with nothing written, if `offending` is no whole header or `out` is too short; [`MAX_ERROR_V4`] is enough.
pub fn error_v4(out: &mut [u8], error: ErrorV4, source: Ipv4Addr, offending: &[u8]) -> Option<usize> {
    const HEADERS: usize = ipv4::LENGTH + icmpv4::LENGTH;
    let header = ipv4::Header::new(offending).ok()?;
    let total = usize::from(header.total_length()).max(ipv4::LENGTH);
    let quoted = offending.get(..total.min(MAX_ERROR_V4 - HEADERS)).unwrap_or(offending);
    let quoted = &quoted[..quoted.len().min(MAX_ERROR_V4 - HEADERS)];
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
/// [`MAX_ERROR_V6`]. `source` is an address of ours; `offending` starts with the IPv6 header of the packet that it is about,
/// goes back to its source, and is quoted as far as the error's length allows (RFC 4443 section 2.4(c)), without what
/// follows its payload length.
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
}

/// Whether an ICMP error may be sent about a packet that [`crate::parse::ipv4`] passed: not about ICMP errors, later
/// fragments, packets to groups of hosts or stations, or from sources that are no single host (RFC 1122 section 3.2.2, RFC 1812
/// section 4.3.2.7). The broadcast addresses of our own links are for the caller to know.
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

/// Whether `error` may be sent about a packet that [`crate::parse::ipv6`] passed: not about ICMPv6 errors and redirects, packets to
/// groups of hosts or stations (packet too big and unrecognised options excepted), or from sources that are no single
/// host (RFC 4443 section 2.4(e)). Later fragments may be answered in IPv6, unless what they belong to may be an ICMPv6 error.
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
    } else {
        Ok(())
    }
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
    /// It has IP options or extension headers, which a reply would have to reverse (RFC 1122 section 3.2.2.6).
    #[error("an ICMP echo request with IP options or extension headers")]
    Options,
    /// One of its addresses names no single host.
    #[error("an ICMP echo request from or to an address that is no single host")]
    Address,
    /// Its ICMP checksum is wrong.
    #[error("an ICMP echo request with a wrong checksum")]
    BadChecksum,
}

/// Turns an ICMP echo request into its reply, in place. `packet` starts with an IPv4 header that has passed
/// [`crate::parse::ipv4`], and may go on after the datagram's end. Addresses change places, the TTL becomes [`TTL`]; type of
/// service, identification and data stay (RFC 1122 section 3.2.2.6).
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

/// Turns an ICMPv6 echo request into its reply, in place. `packet` starts with an IPv6 header that has passed
/// [`crate::parse::ipv6`], and may go on after the packet's end. Addresses change places, the hop limit becomes [`TTL`]; traffic class,
/// flow label and data stay.
///
/// # Errors
/// Why not; the packet is as it was.
pub fn echo_reply_v6(packet: &mut [u8]) -> Result<(), NotAnswered> {
    let header = ipv6::Fields::parse(packet).map_err(|_| NotAnswered::NotEcho)?;
    if header.next_header != protocol::ICMPV6 {
        let extended = protocol::is_extension(header.next_header);
        return Err(if extended { NotAnswered::Options } else { NotAnswered::NotEcho });
    }
    let (ip, rest) = packet.split_at_mut(ipv6::LENGTH);
    let message = rest.get_mut(..usize::from(header.payload_length)).ok_or(NotAnswered::NotEcho)?;
    let reply = ipv6::Fields { hop_limit: TTL, source: header.destination, destination: header.source, ..header };
    if martian::source_v6(reply.source) || martian::source_v6(reply.destination) {
        return Err(NotAnswered::Address);
    }
    let length = u32::from(header.payload_length);
    let pseudo = checksum::pseudo_v6(header.source, header.destination, protocol::ICMPV6, length);
    answer(message, icmpv6::kind::ECHO_REQUEST, icmpv6::kind::ECHO_REPLY, pseudo)?;
    ip.copy_from_slice(&reply.emit());
    Ok(())
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
