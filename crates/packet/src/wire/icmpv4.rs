//! ICMP (RFC 792).

use super::names::Names;
use super::{Truncated, be16, be32, chunk};

/// Length of the header in octets: type, code, checksum, and four octets that each type uses in its own way.
pub const LENGTH: usize = 8;
/// Place of the checksum, 2 octets.
pub const CHECKSUM: usize = 2;

/// Types of requests, each with the type of its reply (RFC 792, RFC 950).
pub const QUERIES: [(u8, u8); 4] = [(kind::ECHO_REQUEST, kind::ECHO_REPLY), (13, 14), (15, 16), (17, 18)];

/// Message types.
pub mod kind {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Source quench (deprecated by RFC 6633).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Router advertisement (RFC 1256).
    pub const ROUTER_ADVERTISEMENT: u8 = 9;
    /// Router solicitation (RFC 1256).
    pub const ROUTER_SOLICITATION: u8 = 10;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// Timestamp request.
    pub const TIMESTAMP_REQUEST: u8 = 13;
    /// Timestamp reply.
    pub const TIMESTAMP_REPLY: u8 = 14;
}

/// Codes of destination unreachable (RFC 792, RFC 1812 section 5.2.7.1).
pub mod unreachable {
    /// No route to the network.
    pub const NETWORK: u8 = 0;
    /// The host does not answer.
    pub const HOST: u8 = 1;
    /// The host does not speak the protocol.
    pub const PROTOCOL: u8 = 2;
    /// No program listens on the port.
    pub const PORT: u8 = 3;
    /// Too big, and not to be fragmented.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// A source route failed.
    pub const SOURCE_ROUTE_FAILED: u8 = 5;
    /// The network is administratively prohibited.
    pub const NETWORK_PROHIBITED: u8 = 9;
    /// The host is administratively prohibited.
    pub const HOST_PROHIBITED: u8 = 10;
    /// A filter forbids it.
    pub const PROHIBITED: u8 = 13;
}

/// Codes of time exceeded.
pub mod time_exceeded {
    /// The TTL ran out in transit.
    pub const TRANSIT: u8 = 0;
    /// Fragments did not all arrive in time.
    pub const REASSEMBLY: u8 = 1;
}

/// The words for message types, in rules and in packets' text: those of IANA's registry "ICMP Type Numbers", which
/// iptables and nftables share, lower case and with hyphens.
pub static NAMES: Names = Names::new(
    &[
        (kind::ECHO_REPLY, "echo-reply"),
        (kind::UNREACHABLE, "destination-unreachable"),
        (kind::SOURCE_QUENCH, "source-quench"),
        (kind::REDIRECT, "redirect"),
        (kind::ECHO_REQUEST, "echo-request"),
        (kind::ROUTER_ADVERTISEMENT, "router-advertisement"),
        (kind::ROUTER_SOLICITATION, "router-solicitation"),
        (kind::TIME_EXCEEDED, "time-exceeded"),
        (kind::PARAMETER_PROBLEM, "parameter-problem"),
        (kind::TIMESTAMP_REQUEST, "timestamp-request"),
        (kind::TIMESTAMP_REPLY, "timestamp-reply"),
        (17, "address-mask-request"),
        (18, "address-mask-reply"),
        (42, "extended-echo-request"),
        (43, "extended-echo-reply"),
    ],
    &[
        (kind::ECHO_REPLY, "pong"),
        (kind::UNREACHABLE, "unreachable"),
        (kind::ECHO_REQUEST, "ping"),
        (kind::TIME_EXCEEDED, "ttl-exceeded"),
    ],
);

/// Whether a message of this type is an ICMP error, about which no other error is sent (RFC 1122 section 3.2.2).
#[inline]
pub const fn is_error(kind: u8) -> bool {
    use kind::*;
    matches!(kind, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// A view of a header.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a>(&'a [u8; LENGTH]);

impl<'a> Header<'a> {
    /// The header at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Header<'a>, Truncated> {
        chunk(bytes, "icmp").map(Header)
    }

    /// Message type: see [`mod@kind`].
    #[inline]
    pub fn kind(self) -> u8 {
        self.0[0]
    }

    /// Code within the type.
    #[inline]
    pub fn code(self) -> u8 {
        self.0[1]
    }

    /// Checksum over the whole message.
    #[inline]
    pub fn checksum(self) -> u16 {
        be16(self.0, CHECKSUM)
    }

    /// The four octets that each type uses in its own way.
    #[inline]
    pub fn rest(self) -> u32 {
        be32(self.0, 4)
    }

    /// Identifier of an echo request or reply.
    #[inline]
    pub fn identifier(self) -> u16 {
        be16(self.0, 4)
    }
}

/// The header as a value; ICMPv6 has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// Message type.
    pub kind: u8,
    /// Code within the type.
    pub code: u8,
    /// Checksum over the whole message (with a pseudo-header in ICMPv6).
    pub checksum: u16,
    /// The four octets that each type uses in its own way.
    pub rest: u32,
}

impl Fields {
    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Fields, Truncated> {
        let header = Header::new(bytes)?;
        Ok(Fields { kind: header.kind(), code: header.code(), checksum: header.checksum(), rest: header.rest() })
    }

    /// The header's bytes.
    #[inline]
    pub fn emit(&self) -> [u8; LENGTH] {
        let [a, b] = self.checksum.to_be_bytes();
        let [c, d, e, f] = self.rest.to_be_bytes();
        [self.kind, self.code, a, b, c, d, e, f]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_survives_the_wire() {
        let fields = Fields { kind: 8, code: 1, checksum: 0xbeef, rest: 0x0102_0304 };
        assert_eq!(Fields::parse(&fields.emit()), Ok(fields));
        assert_eq!(Header::new(&fields.emit()).unwrap().identifier(), 0x0102);
        assert!(Fields::parse(&fields.emit()[..7]).is_err());
    }

    #[test]
    fn errors_are_told_from_queries() {
        let errors: Vec<u8> = (0..=255).filter(|kind| is_error(*kind)).collect();
        assert_eq!(errors, [3, 4, 5, 11, 12]);
    }
}
