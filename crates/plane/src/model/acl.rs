//! Rules on packets' fields, as they are wanted: the first of a list decides that a packet matches.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::Origin;

/// A rule. What it does not name it does not ask about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclRule {
    /// What becomes of packets that it matches.
    pub permit: bool,
    /// The family that it is about, where addresses do not say; `None`: both.
    pub family: Option<IpFamily>,
    /// Source addresses.
    pub from: Addresses,
    /// Destination addresses, of the same family.
    pub to: Addresses,
    /// The protocol, and what is asked of its header.
    pub transport: Transport,
    /// Whether it is about fragments that are not the first of their packet, or about all others; `None`: about any.
    pub fragment: Option<bool>,
    /// The differentiated services code point, 0 ..= 63.
    pub dscp: Option<u8>,
    /// Where it was declared.
    pub origin: Origin,
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Addresses that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addresses {
    /// All.
    Any,
    /// Those of a prefix, whose host bits are clear.
    Net(IpNet),
    /// From the first to the second, both included and of one family.
    Range(IpAddr, IpAddr),
}

/// What a rule asks of what is behind the IP header. Ports, types and flags are in the first fragment of a packet only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Nothing.
    Any,
    /// The protocol.
    Protocol(u8),
    /// A protocol with ports: TCP, UDP, SCTP or DCCP.
    Ports {
        /// The protocol.
        protocol: u8,
        /// The source port.
        source: RangeInclusive<u16>,
        /// The destination port.
        destination: RangeInclusive<u16>,
        /// TCP's flags: what they are, where the mask has a bit.
        flags: Option<TcpFlags>,
    },
    /// ICMP for IPv4, or for IPv6.
    Icmp {
        /// 1 or 58.
        protocol: u8,
        /// The type.
        icmp_type: RangeInclusive<u8>,
        /// The code.
        code: RangeInclusive<u8>,
    },
}

/// Flags of TCP, as in the fourteenth octet of its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TcpFlags {
    /// What the flags are.
    pub value: u8,
    /// Those that are asked about.
    pub mask: u8,
}
