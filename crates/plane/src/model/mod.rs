//! The validated model: what a configuration means, as plain values. The configuration parses into it, the plane
//! compiles it into tables. Whatever can be wrong has been refused before a value of these types exists:
//! indices are in range, names unique, families consistent.

mod acl;
mod bridge;
mod classify;
mod empty;
mod flow_table;
mod index;
mod ipsec;
mod mss;
mod nat;
mod origin;
mod rate;
mod route;
mod sample;
mod sav;
mod spd;
mod steer;
mod tunnel;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use weir_packet::wire::MacAddress;
use weir_port::spec::{Middleware, PortSpec, TapSpec};

pub use acl::{
    AclAction, AclDefault, AclIndex, AclLimit, AclList, AclRule, Addresses, AllowedSources, Allowlist, AllowlistIndex,
    Binding, Bindings, BindingsIndex, Group, Groups, Interfaces, IpFamily, Learn, Nested, Ports, Rejection, Slaac,
    TcpFlags, Transport,
};
pub use bridge::{Bridge, BridgeIndex, BridgePort, BridgeStation, Floods};
pub use classify::{
    ClassifyAction, ClassifyIndex, ClassifySession, ClassifyStart, ClassifyTable, META_INTERFACE, META_NAME, META_VRF,
};
pub use flow_table::{FastPath, FlowTable, SessionState, Timeouts};
pub use index::{InterfaceIndex, VrfIndex};
pub use ipsec::{
    Encapsulation, Ipsec, Lifetime, Lifetimes, OuterDf, OuterDscp, OuterLabel, Sa, SaIndex, SaKey, SaMode, Tfc,
};
pub use mss::MssClamp;
pub use nat::{NatFiltering, NatIndex, NatList, NatMapping, NatRule, NatTarget, NatVerb};
pub use origin::{Origin, Origins, Place, SourceIndex};
pub use rate::{RateLimit, RatePer, RateUnit};
pub use route::{NextHop, Route, RouteTarget};
pub use sample::{SampleFiles, Sampler, SamplerIndex, Sampling};
pub use sav::{
    Alarm, LineCard, LinkCheck, Match, Mechanism, Mode, Order, PerFamily, SavAction, SavIndex, SavLayout, SavPolicy,
    SavRule, SavRules, Scope, SpecialAction, SpecialSources, Urpf, UrpfMode,
};
pub use spd::{Spd, SpdAction, SpdCache, SpdIndex, SpdRule};
pub use steer::{
    SteerFrame, SteerHeader, SteerIndex, SteerInner, SteerList, SteerMac, SteerMacs, SteerNode, SteerOctets, SteerRule,
    SteerWay,
};
pub use tunnel::{OuterTtl, Tunnel};

/// A whole gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct Gateway {
    /// Routing domains; the first is `default`.
    pub vrfs: Vec<Vrf>,
    /// Interfaces; a VLAN interface stands after its parent.
    pub interfaces: Vec<Interface>,
    /// Bridges.
    pub bridges: Vec<Bridge>,
    /// Static routes.
    pub routes: Vec<Route>,
    /// Static neighbours.
    pub neighbors: Vec<Neighbor>,
    /// Policies of source address validation.
    pub sav: Vec<SavPolicy>,
    /// The groups that rules of access lists and exemptions may name. Names are unique over all kinds of groups.
    pub groups: Groups,
    /// Access lists.
    pub acls: Vec<AclList>,
    /// Allowlists of sources.
    pub allowlists: Vec<Allowlist>,
    /// Bindings of hardware addresses to those of IP.
    pub bindings: Vec<Bindings>,
    /// Classifier tables.
    pub classify: Vec<ClassifyTable>,
    /// Lists of rules that translate addresses.
    pub nat: Vec<NatList>,
    /// Security policy databases.
    pub spds: Vec<Spd>,
    /// Lists of steer rules.
    pub steer: Vec<SteerList>,
    /// Pairs of SAs.
    pub sas: Vec<Sa>,
    /// Settings of IPsec.
    pub ipsec: Ipsec,
    /// Where samples of packets go.
    pub samplers: Vec<Sampler>,
    /// Line cards, for policies whose tables are laid out by them.
    pub line_cards: Vec<LineCard>,
    /// Worker threads.
    pub workers: Workers,
    /// Packet buffers.
    pub buffers: Buffers,
    /// Limits of the control messages we originate.
    pub icmp: IcmpLimits,
    /// How neighbours are found and kept.
    pub neighbor_discovery: NeighborDiscovery,
    /// Bounds of tables.
    pub limits: Limits,
    /// Sessions.
    pub flow_table: FlowTable,
    /// The text behind every origin of the model.
    pub origins: Origins,
}

impl Gateway {
    /// Returns the names of the access lists of an interface and direction, in their order.
    pub fn lists_of<'g>(&'g self, interface: &'g Interface, output: bool) -> Vec<&'g str> {
        let Access { acl_in, acl_out, live_lists, .. } = &interface.access;
        match &live_lists[usize::from(output)] {
            Some(names) => names.iter().map(|name| &**name).collect(),
            None => {
                let lists = if output { acl_out } else { acl_in };
                lists.iter().map(|list| self.acls[usize::from(list.0)].name.as_str()).collect()
            }
        }
    }
}

/// A routing domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vrf {
    /// Its name.
    pub name: String,
    /// Translations at most whose first packets come in by it.
    pub nat_limit: Option<u32>,
    /// Where that number was declared.
    pub limit_origin: Origin,
    /// Where it was declared.
    pub origin: Origin,
}

impl Vrf {
    /// A routing domain of this name, without a limit, that no line declares.
    #[must_use]
    pub fn named(name: &str) -> Vrf {
        Vrf { name: name.to_owned(), nat_limit: None, limit_origin: Origin::default(), origin: Origin::default() }
    }
}

/// Packets of one vector that leave an interface as super-packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Merge {
    /// None.
    Off,
    /// Packets that were taken out of ESP or a tunnel.
    #[default]
    Tunnelled,
    /// Any.
    All,
}

/// The properties that an interface and its punt device take over from each other while the gateway runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follow {
    /// The device has no carrier while the link of the interface is down.
    pub carrier: bool,
    /// The interface has the MTU that the host gives the device, if it is smaller.
    pub mtu: bool,
    /// The interface has the addresses that the host gives the device.
    pub addresses: bool,
    /// The interface has the neighbours that the host sets or resolves on the device.
    pub neighbors: bool,
}

impl Default for Follow {
    fn default() -> Follow {
        Follow { carrier: true, mtu: false, addresses: false, neighbors: false }
    }
}

/// An interface: a port, or a VLAN on one.
#[derive(Debug, Clone, PartialEq)]
pub struct Interface {
    /// Its name, unique.
    pub name: String,
    /// A port or a VLAN.
    pub kind: InterfaceKind,
    /// Hardware address; `None`: the port's own, or a locally administered one derived from the name.
    pub mac: Option<MacAddress>,
    /// Largest IP packet, in octets, 68 ..= 65,535 (1,280 at least where it has IPv6 addresses).
    pub mtu: u32,
    /// Our addresses with the length of the connected prefix; the first of a family is primary.
    pub addresses: Vec<Address>,
    /// Its routing domain.
    pub vrf: VrfIndex,
    /// The zone whose sessions pass its access lists; `None`: that of its routing domain.
    pub zone: Option<String>,
    /// Flows of packets that come in by it are learned.
    pub fast_path: bool,
    /// The packets that leave by it as super-packets, where its port takes these.
    pub merge: Merge,
    /// The punt device: local packets that weir does not answer go to it, and packets that the host sends by it leave
    /// here.
    pub punt: Option<TapSpec>,
    /// The interface and its punt device follow each other.
    pub follow: Follow,
    /// Router advertisements (RFC 4861, 6.2); `None`: none are sent.
    pub router_advertisement: Option<RouterAdvertisement>,
    /// The SAV policy of each family for packets that enter by the interface.
    pub sav: PerFamily<Option<SavIndex>>,
    /// The lists that apply to packets that enter or leave by the interface.
    pub access: Access,
    /// The rules that translate packets between it, as the outside, and the other interfaces of its routing domain.
    pub nat: Option<NatIndex>,
    /// The SPD that packets match which come in and leave here in clear; `None`: they match none.
    pub spd: Option<SpdIndex>,
    /// The steer rules of packets that come in; `None`: there are none.
    pub steer: Option<SteerIndex>,
    /// Where it was declared.
    pub origin: Origin,
}

/// The lists that apply to the packets of an interface. By default there is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// Ingress access lists in order. An empty list permits all packets.
    pub acl_in: Vec<AclIndex>,
    /// Lists for what leaves, in their order; empty: all may.
    pub acl_out: Vec<AclIndex>,
    /// The names of the ingress and egress lists, by live edits; `None`: the lists above. They may name lists that
    /// commands created.
    pub live_lists: [Option<Arc<[Arc<str>]>>; 2],
    /// Allowlists that each source has to be in; empty: any may come.
    pub allow: PerFamily<Vec<AllowlistIndex>>,
    /// Which hardware addresses may use which addresses of IP.
    pub bindings: Option<BindingsIndex>,
    /// Answers of DHCP servers are believed.
    pub dhcp_trusted: bool,
    /// Stations behind it are believed to have the addresses that they claim by neighbour discovery.
    pub slaac_trusted: bool,
    /// The first classifier table of packets that come in.
    pub classify_in: Option<ClassifyIndex>,
    /// The first classifier table of packets that leave.
    pub classify_out: Option<ClassifyIndex>,
    /// The ethertypes that may come in; `None`: any.
    pub ethertypes_in: Option<Ethertypes>,
    /// The ethertypes that may leave; `None`: any.
    pub ethertypes_out: Option<Ethertypes>,
}

/// The ethertypes that an interface lets pass in a direction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ethertypes {
    /// Each of them, those behind VLAN tags.
    pub types: Vec<u16>,
    /// Where they were declared.
    pub origin: Origin,
}

/// The contents of the router advertisements that the gateway sends on a link (RFC 4861, 6.2.1). Connected prefixes of
/// 64 bits are advertised as on-link and, if `autonomous`, for address configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouterAdvertisement {
    /// Seconds between two unsolicited ones at most, 4 ..= 1800; at least a third of it.
    pub interval: u16,
    /// Seconds for which we may be a default router, 0 (not at all) or `interval` ..= 9000.
    pub lifetime: u16,
    /// Hosts form addresses of the prefixes.
    pub autonomous: bool,
    /// Seconds for which prefixes are valid.
    pub valid_lifetime: u32,
    /// Seconds for which addresses of the prefixes are preferred, at most `valid_lifetime`.
    pub preferred_lifetime: u32,
    /// Hosts get addresses by DHCPv6.
    pub managed: bool,
    /// Hosts get other configuration by DHCPv6.
    pub other: bool,
}

/// One of our own addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address (host bits kept) and the prefix that is connected.
    pub net: IpNet,
    /// Where it was declared.
    pub origin: Origin,
}

/// The kind of an interface.
#[derive(Debug, Clone, PartialEq)]
pub enum InterfaceKind {
    /// A port of its own.
    Port {
        /// The kind of port.
        port: PortSpec,
        /// The middleware around the port.
        middleware: Middleware,
        /// Receive queues, 1 ..= 16.
        queues: u16,
    },
    /// A VLAN of another interface.
    Vlan {
        /// The interface of kind `Port` that carries it.
        parent: InterfaceIndex,
        /// Outer tag.
        outer: Tag,
        /// Inner tag (QinQ), always 802.1Q.
        inner: Option<u16>,
    },
    /// The way in of packets that SAs decrypted: no port, and no packet leaves by it.
    Ipsec,
    /// A tunnel to another host: no port, but packets of others.
    Tunnel(Tunnel),
    /// The gateway's own station on a bridge: no port, but frames of the bridge.
    Bridge(BridgeIndex),
}

impl InterfaceKind {
    /// The tunnel, if it is one.
    #[must_use]
    pub fn tunnel(&self) -> Option<&Tunnel> {
        match self {
            InterfaceKind::Tunnel(tunnel) => Some(tunnel),
            _ => None,
        }
    }

    /// Packets have no link-layer header, and leave: it is a tunnel of packets of IP.
    #[must_use]
    pub fn is_linkless(&self) -> bool {
        matches!(self, InterfaceKind::Tunnel(tunnel) if !tunnel.carrier.is_ethernet())
    }

    /// No port of its own or of another interface carries the packets.
    #[must_use]
    pub fn is_portless(&self) -> bool {
        matches!(self, InterfaceKind::Ipsec | InterfaceKind::Tunnel(_) | InterfaceKind::Bridge(_))
    }
}

/// A VLAN tag to match and to put on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    /// 0x8100 (802.1Q) or 0x88a8 (802.1ad).
    pub tpid: u16,
    /// 1 ..= 4094.
    pub vid: u16,
}

/// A static neighbour: an address on a link, and its hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbor {
    /// The link.
    pub interface: InterfaceIndex,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: MacAddress,
    /// Where it was declared.
    pub origin: Origin,
}

/// Worker threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workers {
    /// How many, 1 ..= 16.
    pub count: u16,
    /// The CPU each is pinned to; empty: chosen from those the process may use.
    pub cores: Vec<u16>,
    /// The longest time that a packet waits while a worker under load pauses to take more at once; zero: it never pauses.
    pub max_latency: Duration,
}

/// Packet buffers, all allocated at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffers {
    /// Buffers of 2 KiB.
    pub small: u32,
    /// Buffers that hold a packet of 64 KiB.
    pub large: u32,
    /// The file does not say how many of these: a reload keeps the present ones.
    pub large_is_default: bool,
}

/// Token buckets of the ICMP messages we originate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpLimits {
    /// Errors per second over all workers; 0: none are sent (the burst is 0, too).
    pub error_rate: u32,
    /// Errors that may leave at once.
    pub error_burst: u32,
    /// Echo replies per second over all workers; 0: none are sent (the burst is 0, too).
    pub echo_rate: u32,
    /// Echo replies that may leave at once.
    pub echo_burst: u32,
}

/// How neighbours are found and kept, in both families (RFC 4861, 10; RFC 1122, 2.3.2). Times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighborDiscovery {
    /// For how long a neighbour counts as reachable after it was confirmed, on average.
    pub reachable_time: u32,
    /// Between two questions.
    pub retransmit_time: u32,
    /// Questions before a neighbour counts as unreachable.
    pub probes: u8,
    /// Between the first packet to a neighbour that has not been confirmed for long and the question whether it is there.
    pub delay_first_probe: u32,
    /// After which an unused neighbour is forgotten.
    pub stale_time: u32,
    /// Packets that wait for one neighbour's address, at most.
    pub hold: u16,
    /// Packets that wait in all, per worker, at most.
    pub hold_total: u16,
    /// Questions and announcements that we send on each link per second at most; and answers.
    pub rate: u32,
}

impl Default for NeighborDiscovery {
    fn default() -> Self {
        NeighborDiscovery {
            reachable_time: 30_000,
            retransmit_time: 1000,
            probes: 3,
            delay_first_probe: 5000,
            stale_time: 600_000,
            hold: 32,
            hold_total: 1024,
            rate: 1000,
        }
    }
}

/// Bounds of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Routes per VRF and family.
    pub routes: u32,
    /// Neighbours in all.
    pub neighbors: u32,
    /// Source prefixes per policy of source address validation and family.
    pub sav_prefixes: u32,
    /// Different sets of interfaces per policy of source address validation and family.
    pub sav_sets: u32,
    /// Rules of access lists in all; and, per sequence of lists that interfaces name and per family, what rules come to when
    /// each member of their groups counts.
    pub acl_rules: u32,
    /// Prefixes per allowlist.
    pub allowed_prefixes: u32,
}

impl Workers {
    /// The usual bound.
    pub const MAX_LATENCY: Duration = Duration::from_micros(50);
}

impl Default for Workers {
    fn default() -> Self {
        Workers { count: 1, cores: Vec::new(), max_latency: Workers::MAX_LATENCY }
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Buffers { small: 8192, large: 64, large_is_default: true }
    }
}

impl Default for IcmpLimits {
    fn default() -> Self {
        IcmpLimits { error_rate: 1000, error_burst: 100, echo_rate: 10_000, echo_burst: 1000 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            routes: 2_000_000,
            neighbors: 65_536,
            sav_prefixes: 2_000_000,
            sav_sets: 16_384,
            acl_rules: 500_000,
            allowed_prefixes: 1_000_000,
        }
    }
}
