//! Numbers of the protocols that IP carries (the IANA registry of that name), shared by both families.

use super::names::Names;

/// IPv6 hop-by-hop options (RFC 8200 section 4.3).
pub const HOP_BY_HOP: u8 = 0;
/// ICMP (RFC 792).
pub const ICMP: u8 = 1;
/// IGMP (RFC 3376).
pub const IGMP: u8 = 2;
/// IPv4 in IP (RFC 2003).
pub const IPIP: u8 = 4;
/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// DCCP (RFC 4340).
pub const DCCP: u8 = 33;
/// IPv6 in IP (RFC 2473).
pub const IPV6: u8 = 41;
/// IPv6 routing header (RFC 8200 section 4.4).
pub const ROUTING: u8 = 43;
/// IPv6 fragment header (RFC 8200 section 4.5).
pub const FRAGMENT: u8 = 44;
/// GRE (RFC 2784).
pub const GRE: u8 = 47;
/// ESP (RFC 4303).
pub const ESP: u8 = 50;
/// AH (RFC 4302).
pub const AH: u8 = 51;
/// ICMPv6 (RFC 4443).
pub const ICMPV6: u8 = 58;
/// Nothing follows (RFC 8200 section 4.7).
pub const NO_NEXT_HEADER: u8 = 59;
/// IPv6 destination options (RFC 8200 section 4.6).
pub const DESTINATION_OPTIONS: u8 = 60;
/// OSPF (RFC 2328, RFC 5340).
pub const OSPF: u8 = 89;
/// PIM (RFC 7761).
pub const PIM: u8 = 103;
/// VRRP (RFC 9568).
pub const VRRP: u8 = 112;
/// L2TP version 3 (RFC 3931).
pub const L2TP: u8 = 115;
/// SCTP (RFC 9260).
pub const SCTP: u8 = 132;
/// IPv6 mobility header (RFC 6275).
pub const MOBILITY: u8 = 135;
/// UDP-Lite (RFC 3828).
pub const UDP_LITE: u8 = 136;

/// The words for protocols, in rules and in packets' text: the names of protocols in use in IANA's registry "Assigned
/// Internet Protocol Numbers", lower case and with hyphens, and `icmp6` for IPv6-ICMP.
pub static NAMES: Names = Names::new(
    &[
        (ICMP, "icmp"),
        (IGMP, "igmp"),
        (IPIP, "ipv4"),
        (TCP, "tcp"),
        (UDP, "udp"),
        (DCCP, "dccp"),
        (IPV6, "ipv6"),
        (46, "rsvp"),
        (GRE, "gre"),
        (ESP, "esp"),
        (AH, "ah"),
        (ICMPV6, "icmp6"),
        (88, "eigrp"),
        (OSPF, "ospf"),
        (97, "etherip"),
        (PIM, "pim"),
        (VRRP, "vrrp"),
        (L2TP, "l2tp"),
        (SCTP, "sctp"),
        (UDP_LITE, "udplite"),
        (137, "mpls-in-ip"),
    ],
    &[(IPIP, "ipip"), (ICMPV6, "icmpv6"), (ICMPV6, "ipv6-icmp")],
);

/// Whether the first four octets of this protocol's header are a source and a destination port.
#[inline]
pub const fn has_ports(number: u8) -> bool {
    matches!(number, TCP | UDP | DCCP | SCTP | UDP_LITE)
}

/// Whether this is an IPv6 extension header that is walked through (see [`super::ipv6::walk`]).
#[inline]
pub const fn is_extension(number: u8) -> bool {
    matches!(number, HOP_BY_HOP | ROUTING | FRAGMENT | AH | DESTINATION_OPTIONS | MOBILITY)
}
