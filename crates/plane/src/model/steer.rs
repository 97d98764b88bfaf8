//! Steer rules, as they are wanted: the first rule of a list that matches a packet acts on it, before the rest of the graph.

use std::ops::RangeInclusive;
use std::sync::Arc;

use weir_packet::identify::Identifier;
use weir_packet::wire::MacAddress;

use super::acl::AclRule;
use super::classify::ClassifyStart;
use super::origin::Origin;
use super::route::NextHop;

/// Index of a list in [`Gateway::steer`](super::Gateway::steer).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SteerIndex(pub u16);

/// A list of rules, for the interfaces that name it.
#[derive(Debug, Clone, PartialEq)]
pub struct SteerList {
    /// Its name, unique.
    pub name: String,
    /// In the order in which they are matched.
    pub rules: Arc<[SteerRule]>,
    /// Where it was declared.
    pub origin: Origin,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SteerRule {
    /// The rule says that it counts. Every rule does.
    pub count: bool,
    /// The mark that it gives to packets.
    pub mark: Option<u32>,
    /// Where packets go.
    pub way: SteerWay,
    /// Packets may pass by the checks of their interface.
    pub unchecked: bool,
    /// The VLAN identifiers of a tag that the frame has, if the rule names some.
    pub vlan: Option<RangeInclusive<u16>>,
    /// The identifiers of a kind that the packet has, if the rule names some.
    pub id: Option<(Identifier, RangeInclusive<u32>)>,
    /// The octets that the packet has, if the rule names some.
    pub octets: Option<SteerOctets>,
    /// The stations that the frame is from and to, if the rule names some.
    pub macs: SteerMacs,
    /// The packet inside, if the rule names one.
    pub inner: Option<Arc<SteerInner>>,
    /// The rule matches frames that are not IP. Then it matches no packets, and `matches` has no meaning.
    pub frame: Option<SteerFrame>,
    /// The addresses, protocol and fields that packets have. Its action has no meaning. It names neither interfaces nor a limit,
    /// and does not log.
    pub matches: AclRule,
    /// The rule itself names its family, not only its addresses or protocol.
    pub names_family: bool,
    /// Remarks of people.
    pub comment: Option<Arc<str>>,
}

/// Octets of a packet that a rule compares under a mask.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SteerOctets {
    /// The header from which octets are counted.
    pub start: ClassifyStart,
    /// The first octet that is compared, at most 127.
    pub at: u8,
    /// The octets, without bits that the mask has not.
    pub value: Arc<[u8]>,
    /// The bits that count, not all 0; as many octets as the value. They end within the first 128 octets.
    pub mask: Arc<[u8]>,
}

/// Stations by the first bits of their hardware addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SteerMac {
    /// The address.
    pub mac: MacAddress,
    /// The bits that count, 1 to 48.
    pub length: u8,
}

/// The stations of frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SteerMacs {
    /// The stations that send them.
    pub from: Option<SteerMac>,
    /// The stations or groups that they are for.
    pub to: Option<SteerMac>,
}

/// Frames that are not IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SteerFrame {
    /// Their ethertype behind tags, if the rule names one.
    pub ethertype: Option<u16>,
}

/// A packet inside of another one: in VXLAN if the rule names VNIs, in GTP-U if it names TEIDs, else straight behind the outer header.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SteerInner {
    /// Its addresses, protocol and fields, without groups.
    pub matches: AclRule,
    /// The rule itself names the family.
    pub names_family: bool,
}

/// Where packets that a rule matches go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SteerWay {
    /// On, as without the rule.
    On,
    /// Nowhere: they are dropped.
    Drop,
    /// Out by an interface, to their destinations on its link, or to a next hop there.
    To {
        /// The interface, and the address of the next hop.
        hop: NextHop,
        /// The name of the interface, if the rule names it.
        interface: Option<Arc<str>>,
    },
    /// To the worker of this number, and on as without the rule.
    Queue(u16),
    /// To a node.
    Node(SteerNode),
    /// Into the packet behind so many octets of the frame, which comes in by the same interface.
    Advance(u16, SteerHeader),
}

/// A node that takes packets from rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SteerNode {
    /// The lookup of IPv4.
    Ip4Lookup,
    /// The lookup of IPv6.
    Ip6Lookup,
    /// The node that takes packets out of tunnels.
    TunnelDecap,
}

impl SteerNode {
    /// All of them.
    pub const ALL: [SteerNode; 3] = [SteerNode::Ip4Lookup, SteerNode::Ip6Lookup, SteerNode::TunnelDecap];

    /// The name of the node.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SteerNode::Ip4Lookup => "ip4-lookup",
            SteerNode::Ip6Lookup => "ip6-lookup",
            SteerNode::TunnelDecap => "tunnel-decap",
        }
    }
}

/// The header at which a packet that was advanced begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SteerHeader {
    /// Ethernet.
    Ethernet,
    /// IPv4.
    Ip4,
    /// IPv6.
    Ip6,
}

impl SteerWay {
    /// Packets pass by the checks of their interface.
    #[must_use]
    pub fn skips_checks(&self) -> bool {
        matches!(self, SteerWay::To { .. } | SteerWay::Node(_) | SteerWay::Advance(..))
    }
}

impl SteerRule {
    /// Where it was declared.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.matches.origin
    }
}
