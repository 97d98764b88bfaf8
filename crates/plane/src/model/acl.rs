//! Access control, as it is wanted: ordered lists of rules on packets' fields, of which the first that matches decides; groups
//! that rules name; allowlists of sources; and bindings of hardware addresses to those of IP.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::{IpNet, Ipv6Net};

use super::index::{InterfaceIndex, VrfIndex};
use super::origin::Origin;
use super::rate::RateUnit;
use super::sample::Sampling;

/// Index of a list in [`Gateway::acls`](super::Gateway::acls).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AclIndex(pub u16);

/// Index of an allowlist in [`Gateway::allowlists`](super::Gateway::allowlists).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AllowlistIndex(pub u16);

/// Index of bindings in [`Gateway::bindings`](super::Gateway::bindings).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BindingsIndex(pub u16);

/// An ordered list of rules.
#[derive(Debug, Clone, PartialEq)]
pub struct AclList {
    /// Its name, unique.
    pub name: String,
    /// In the order of the configuration.
    pub rules: Arc<[AclRule]>,
    /// The action for packets that no rule matches.
    pub default: AclDefault,
    /// The sampler of rules that log. It is present if a rule logs.
    pub sample: Option<Sampling>,
    /// Where it was declared.
    pub origin: Origin,
}

/// The action for packets that no rule of a list matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AclDefault {
    /// The next list of the interface decides; behind the last one they are denied.
    #[default]
    Next,
    /// It decides as a rule would that matches all packets.
    Action(AclAction),
}

/// The action of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AclAction {
    /// They go on.
    Permit,
    /// They go on, and each opens a session that permits the packets behind it, in both directions.
    Reflect,
    /// They are dropped.
    Deny,
    /// Drops the packet and reports the rejection to its source.
    Reject(Rejection),
}

/// The report to the source of a rejected packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// TCP by a reset, all else by ICMP.
    Usual,
    /// By a reset: of TCP only.
    Reset,
    /// By ICMP: administratively prohibited.
    Icmp,
}

/// How many of the packets go on that a rule permits; the rest is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AclLimit {
    /// The unit that is counted.
    pub unit: RateUnit,
    /// So much in a second, 1 or more.
    pub rate: u64,
    /// So much at once, 1 or more; where bits are counted at least those of the longest packet.
    pub burst: u64,
}

/// A rule. A field that the rule does not name matches any value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AclRule {
    /// The action for packets that the rule matches.
    pub action: AclAction,
    /// The family that it is about, where addresses do not say; `None`: both.
    pub family: Option<IpFamily>,
    /// Source addresses.
    pub from: Addresses,
    /// Destination addresses, of the same family unless they are groups: these may have both.
    pub to: Addresses,
    /// The protocol and the conditions on its header.
    pub transport: Transport,
    /// Whether it is about fragments that are not the first of their packet, or about all others; `None`: about any.
    pub fragment: Option<bool>,
    /// The differentiated services code point, 0 ..= 63.
    pub dscp: Option<u8>,
    /// The mark that packets have, at most [`MOST_MARK`](weir_table::classify::MOST_MARK).
    pub mark: Option<u32>,
    /// The interfaces that packets came in by; `None`: any. Packets of our own came in by none.
    pub received_on: Option<Interfaces>,
    /// Packets that it matches go to the list's sampler.
    pub log: bool,
    /// How many of them it permits.
    pub limit: Option<AclLimit>,
    /// Whether its flows are learned from their first packet on, or never; `None`: as the flow table says.
    pub flow: Option<bool>,
    /// The operator's comment.
    pub comment: Option<Arc<str>>,
    /// Where it was declared.
    pub origin: Origin,
}

impl AclRule {
    /// The rule that does this with all packets of both families.
    pub fn all(action: AclAction, origin: Origin) -> AclRule {
        AclRule {
            action,
            family: None,
            from: Addresses::Any,
            to: Addresses::Any,
            transport: Transport::Any,
            fragment: None,
            dscp: None,
            mark: None,
            received_on: None,
            log: false,
            limit: None,
            flow: None,
            comment: None,
            origin,
        }
    }
}

/// Something that has a name, and is shared by all that use it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group<T> {
    /// Its name.
    pub name: Arc<str>,
    /// The members of the group and of the groups that it names, without duplicates; not empty.
    pub members: Arc<[T]>,
}

/// The groups that rules may name, whether some rule does or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Groups {
    /// Of addresses: `Net` and `Range` only.
    pub addresses: Vec<Group<Addresses>>,
    /// Of ports.
    pub ports: Vec<Group<RangeInclusive<u16>>>,
    /// Of interfaces.
    pub interfaces: Vec<Group<InterfaceIndex>>,
    /// The members that are groups.
    pub nested: Vec<Nested>,
}

/// A group that names others: its members are its own, and behind them those of the groups that it names, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nested {
    /// Its name.
    pub name: Arc<str>,
    /// How many of its members, the first ones, are its own.
    pub own: usize,
    /// The groups of its kind that it names, one or more.
    pub groups: Arc<[Arc<str>]>,
}

/// Interfaces of a rule, as they were named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Interfaces {
    /// These; not empty.
    List(Arc<[InterfaceIndex]>),
    /// The interfaces of a group.
    Group(Group<InterfaceIndex>),
}

impl Interfaces {
    /// The interfaces.
    pub fn members(&self) -> &[InterfaceIndex] {
        match self {
            Interfaces::List(members) | Interfaces::Group(Group { members, .. }) => members,
        }
    }
}

/// A list of source prefixes. An interface that uses the list drops packets with other sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowlist {
    /// Its name, unique.
    pub name: String,
    /// The sources in the list.
    pub sources: AllowedSources,
    /// Where it was declared.
    pub origin: Origin,
}

/// The sources of an allowlist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedSources {
    /// These prefixes, host bits clear, each with the place where it was declared.
    Prefixes(Arc<[(IpNet, Origin)]>),
    /// Whatever this routing domain has a route for that is no `blackhole`, `unreachable` or `prohibit`.
    Vrf(VrfIndex),
}

/// Which hardware addresses may use which addresses of IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bindings {
    /// Its name, unique.
    pub name: String,
    /// The first that matches decides; what none matches is dropped.
    pub rules: Arc<[Binding]>,
    /// Bindings that are learned, beside the rules; `None`: none are.
    pub learn: Option<Learn>,
    /// Prefixes of the link, of which addresses are learned by first use, beside link-local ones; none: addresses of all prefixes are.
    pub prefixes: Arc<[Ipv6Net]>,
    /// Where it was declared.
    pub origin: Origin,
}

/// Bindings that are learned. They let pass what no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learn {
    /// Learned bindings of the list, at most.
    pub limit: u32,
    /// Bindings are learned from DHCP for IPv4 and IPv6.
    pub dhcp: bool,
    /// Addresses of IPv6 belong to the station that uses them first (RFC 6620); `None`: they do not.
    pub slaac: Option<Slaac>,
}

impl Learn {
    /// Learns from DHCP alone.
    pub const DHCP: Learn = Learn { limit: 4096, dhcp: true, slaac: None };
}

/// How addresses that stations give themselves are bound (RFC 6620).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slaac {
    /// Such bindings of an interface, at most.
    pub limit: u32,
    /// Seconds without packets after which a station is probed for an address.
    pub lifetime: u32,
}

impl Default for Slaac {
    fn default() -> Slaac {
        Slaac { limit: 256, lifetime: 300 }
    }
}

/// A rule of [`Bindings`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Whether packets that it matches go on.
    pub permit: bool,
    /// The source hardware address: bits beyond `mac_length` are clear.
    pub mac: [u8; 6],
    /// How many of its bits count, 0 (any) ..= 48; 24 for all of a vendor.
    pub mac_length: u8,
    /// The source addresses; `None`: any of both families.
    pub from: Option<IpNet>,
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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// All.
    Any,
    /// The addresses of a prefix, whose host bits are clear.
    Net(IpNet),
    /// From the first to the second, both included and of one family.
    Range(IpAddr, IpAddr),
    /// The addresses of a group: `Net` and `Range` only, of either family.
    Group(Group<Addresses>),
}

/// Ports that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ports {
    /// The rule does not name a port.
    Any,
    /// From the first to the last.
    Range(RangeInclusive<u16>),
    /// The ports of a group.
    Group(Group<RangeInclusive<u16>>),
}

impl Ports {
    /// The rule does not name a port.
    pub const ALL: Ports = Ports::Any;

    /// The ranges that they are.
    pub fn ranges(&self) -> &[RangeInclusive<u16>] {
        match self {
            Ports::Any => &[0..=u16::MAX],
            Ports::Range(range) => std::slice::from_ref(range),
            Ports::Group(group) => &group.members,
        }
    }

    /// Whether any port matches: a whole range matches as a rule does that names no port.
    pub fn is_all(&self) -> bool {
        matches!(self, Ports::Any) || *self == Ports::Range(0..=u16::MAX)
    }
}

impl From<RangeInclusive<u16>> for Ports {
    fn from(range: RangeInclusive<u16>) -> Ports {
        Ports::Range(range)
    }
}

/// The conditions of a rule on the header behind the IP header. Only the first fragment of a packet has ports, types
/// and flags.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
        source: Ports,
        /// The destination port.
        destination: Ports,
        /// TCP's flags: what they are, where the mask has a bit.
        flags: Option<TcpFlags>,
    },
    /// ICMP for IPv4, or for IPv6.
    Icmp {
        /// 1 or 58.
        protocol: u8,
        /// The type; `None`: the rule does not name one.
        icmp_type: Option<RangeInclusive<u8>>,
        /// The code; `None`: the rule does not name one.
        code: Option<RangeInclusive<u8>>,
    },
}

impl Transport {
    /// That of packets in the other direction: with source and destination ports exchanged.
    #[must_use]
    pub(crate) fn exchanged(&self) -> Transport {
        match self {
            Transport::Ports { protocol, source, destination, flags } => Transport::Ports {
                protocol: *protocol,
                source: destination.clone(),
                destination: source.clone(),
                flags: *flags,
            },
            other => other.clone(),
        }
    }
}

/// Flags of TCP, as in the fourteenth octet of its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TcpFlags {
    /// The values of the flags.
    pub value: u8,
    /// The flags that are compared.
    pub mask: u8,
}
