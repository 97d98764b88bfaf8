//! ICMPv6 (RFC 4443). Its header has the shape of ICMP's.

pub use super::icmpv4::{CHECKSUM, Fields, Header, LENGTH};
use super::names::Names;

/// Types of requests with an identifier, each with the type of its reply (RFC 4443). Node information (RFC 4620) has none.
pub const QUERIES: [(u8, u8); 1] = [(kind::ECHO_REQUEST, kind::ECHO_REPLY)];

/// Message types; errors are below 128.
pub mod kind {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Multicast listener query (RFC 2710).
    pub const LISTENER_QUERY: u8 = 130;
    /// Multicast listener report (RFC 2710).
    pub const LISTENER_REPORT: u8 = 131;
    /// Multicast listener done (RFC 2710).
    pub const LISTENER_DONE: u8 = 132;
    /// Router solicitation (RFC 4861).
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Router advertisement (RFC 4861).
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Neighbour solicitation (RFC 4861).
    pub const NEIGHBOR_SOLICITATION: u8 = 135;
    /// Neighbour advertisement (RFC 4861).
    pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
    /// Redirect (RFC 4861).
    pub const REDIRECT: u8 = 137;
    /// Multicast listener report, version 2 (RFC 3810).
    pub const LISTENER_REPORT_V2: u8 = 143;
}

/// Codes of destination unreachable (RFC 4443 section 3.1).
pub mod unreachable {
    /// No route.
    pub const NO_ROUTE: u8 = 0;
    /// Administratively prohibited.
    pub const PROHIBITED: u8 = 1;
    /// Beyond the scope of the source address.
    pub const BEYOND_SCOPE: u8 = 2;
    /// The host does not answer.
    pub const ADDRESS: u8 = 3;
    /// No program listens on the port.
    pub const PORT: u8 = 4;
    /// The source address failed an ingress or egress policy.
    pub const SOURCE_POLICY: u8 = 5;
    /// The route says to reject.
    pub const REJECT_ROUTE: u8 = 6;
}

/// Codes of time exceeded.
pub mod time_exceeded {
    /// The hop limit ran out in transit.
    pub const TRANSIT: u8 = 0;
    /// Fragments did not all arrive in time.
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of parameter problem.
pub mod parameter_problem {
    /// A field is wrong.
    pub const ERRONEOUS_FIELD: u8 = 0;
    /// A next header is not known.
    pub const UNRECOGNIZED_NEXT_HEADER: u8 = 1;
    /// An option is not known.
    pub const UNRECOGNIZED_OPTION: u8 = 2;
    /// A first fragment does not hold all headers (RFC 7112).
    pub const INCOMPLETE_CHAIN: u8 = 3;
    /// There are too many extension headers (RFC 8883).
    pub const TOO_MANY_EXTENSIONS: u8 = 8;
}

/// The words for message types, in rules and in packets' text: those of IANA's registry "ICMPv6 type Numbers", lower case
/// and with hyphens.
pub static NAMES: Names = Names::new(
    &[
        (kind::UNREACHABLE, "destination-unreachable"),
        (kind::PACKET_TOO_BIG, "packet-too-big"),
        (kind::TIME_EXCEEDED, "time-exceeded"),
        (kind::PARAMETER_PROBLEM, "parameter-problem"),
        (kind::ECHO_REQUEST, "echo-request"),
        (kind::ECHO_REPLY, "echo-reply"),
        (kind::LISTENER_QUERY, "multicast-listener-query"),
        (kind::LISTENER_REPORT, "multicast-listener-report"),
        (kind::LISTENER_DONE, "multicast-listener-done"),
        (kind::ROUTER_SOLICITATION, "router-solicitation"),
        (kind::ROUTER_ADVERTISEMENT, "router-advertisement"),
        (kind::NEIGHBOR_SOLICITATION, "neighbor-solicitation"),
        (kind::NEIGHBOR_ADVERTISEMENT, "neighbor-advertisement"),
        (kind::REDIRECT, "redirect"),
        (kind::LISTENER_REPORT_V2, "multicast-listener-report-v2"),
        (160, "extended-echo-request"),
        (161, "extended-echo-reply"),
    ],
    &[
        (kind::UNREACHABLE, "unreachable"),
        (kind::TIME_EXCEEDED, "ttl-exceeded"),
        (kind::ECHO_REQUEST, "ping"),
        (kind::ECHO_REPLY, "pong"),
        (kind::LISTENER_QUERY, "listener-query"),
        (kind::LISTENER_QUERY, "mld-listener-query"),
        (kind::LISTENER_REPORT, "listener-report"),
        (kind::LISTENER_REPORT, "mld-listener-report"),
        (kind::LISTENER_DONE, "listener-done"),
        (kind::LISTENER_DONE, "mld-listener-done"),
        (kind::ROUTER_SOLICITATION, "nd-router-solicit"),
        (kind::ROUTER_ADVERTISEMENT, "nd-router-advert"),
        (kind::NEIGHBOR_SOLICITATION, "neighbour-solicitation"),
        (kind::NEIGHBOR_SOLICITATION, "nd-neighbor-solicit"),
        (kind::NEIGHBOR_ADVERTISEMENT, "neighbour-advertisement"),
        (kind::NEIGHBOR_ADVERTISEMENT, "nd-neighbor-advert"),
        (kind::REDIRECT, "nd-redirect"),
        (kind::LISTENER_REPORT_V2, "listener-report-v2"),
        (kind::LISTENER_REPORT_V2, "mld2-listener-report"),
    ],
);

/// Whether no error is sent about a message of this type: ICMPv6 errors and redirects (RFC 4443 section 2.4(e)).
#[inline]
pub const fn is_error(kind: u8) -> bool {
    kind < 128 || kind == kind::REDIRECT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_from_information() {
        assert!((0..128).all(is_error));
        assert_eq!((128..=255).filter(|kind| is_error(*kind)).collect::<Vec<_>>(), [137]);
    }
}
