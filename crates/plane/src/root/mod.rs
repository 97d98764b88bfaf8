//! The root: one immutable version of everything that the nodes read, published by the control thread and looked at
//! once per vector.
//!
//! Numbers that packets carry (interfaces, adjacencies, VRFs, ports) keep their meaning from version to version: an
//! interface that goes away leaves a hole. What did not change between two versions is shared by them.

pub mod acl;
mod adjacency;
pub mod allow;
pub mod bindings;
pub mod bridge;
mod changes;
pub mod classify;
pub mod counters;
pub mod ecmp;
pub mod family;
mod forwarding;
mod interface;
pub mod ipsec;
pub mod nat;
pub mod nat_limit;
pub mod path_mtu;
mod pending;
pub mod sampler;
pub mod sav;
pub mod segments;
pub mod spd;
pub mod steer;
pub mod tunnel;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use weir_packet::wire::MacAddress;

use crate::model::{self, FlowTable, IcmpLimits};

pub use adjacency::{Adjacencies, Adjacency, BRIDGE, Kind, MAX_L2, NONE, TUNNEL, View};
use allow::Allowlists;
use bindings::Bindings;
pub use changes::Changes;
pub(crate) use changes::{Decided, is_after};
use classify::Classifiers;
pub use forwarding::{Forwarding, Tables};
pub use interface::{Interface, InterfaceCounters, LinkLocals};
pub use pending::Pending;
pub(crate) use pending::Station;
use sampler::Sampler;
use sav::{Routes, Validators};

/// A version of everything.
#[derive(Clone)]
pub struct Root {
    /// Counts the versions, from 1.
    pub generation: u64,
    /// Counts the models that were compiled, from 1: what is learned makes a new version of the same.
    pub model: u64,
    /// Interfaces, by number.
    pub interfaces: Arc<[Interface]>,
    /// The interfaces of each port's frames, by port number.
    pub ports: Arc<[Demux]>,
    /// Forwarding tables, by VRF number.
    pub vrfs: Vec<Tables>,
    /// The targets of routes, by adjacency number.
    pub adjacencies: Adjacencies,
    /// Neighbours that were learned and that no table leads to yet.
    pub pending: Pending,
    /// Buckets of multipath sets: [`crate::root::ecmp::BUCKETS`] adjacency numbers each.
    pub buckets: Arc<[u32]>,
    /// The SAV policies.
    pub sav: Validators,
    /// The access lists.
    pub acl: acl::Access,
    /// The allowlists.
    pub allow: Allowlists,
    /// The bindings.
    pub bindings: Bindings,
    /// The classifier tables.
    pub classify: Classifiers,
    /// Rules that translate addresses.
    pub nat: nat::Translators,
    /// Security policy databases.
    pub spd: spd::Spds,
    /// Lists of steer rules.
    pub steer: steer::Steers,
    /// SAs.
    pub ipsec: ipsec::Ipsec,
    /// Bridges.
    pub bridges: bridge::Bridges,
    /// Tunnels.
    pub tunnels: tunnel::Tunnels,
    /// Some interface says which ethertypes may leave.
    pub ethertypes_out: bool,
    /// Some interface merges all packets of a flow.
    pub merges_all: bool,
    /// Policies that may match some segments of a super-packet, and others not.
    pub per_segment: segments::PerSegment,
    /// The samplers, by number.
    pub samplers: Arc<[Sampler]>,
    /// Limits of what we originate, over all workers.
    pub icmp: IcmpLimits,
    /// Bounds and timeouts of sessions.
    pub flow_table: FlowTable,
    /// Unresolved neighbours get a made-up hardware address (replay).
    pub invent_neighbors: bool,
    /// The flows that changes up to this version concerned.
    pub changes: Changes,
}

/// Which interface a port's frames belong to.
#[derive(Clone)]
pub struct Demux {
    /// Interface of untagged and priority-tagged frames; [`NONE`] when the port is gone.
    pub untagged: u32,
    /// The interface for which the host sends by this port, when it is a punt device; else [`NONE`].
    pub host: u32,
    /// Interfaces of tagged frames, by (outer TPID, outer VLAN id, inner VLAN id or 0).
    pub tagged: Arc<HashMap<(u16, u16, u16), u32>>,
}

/// The hardware address that a replay makes up for a neighbour: locally administered, and the same in every run.
pub fn invented_mac(address: IpAddr) -> MacAddress {
    let word = match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    let folded = (word ^ (word >> 64)) as u64;
    let [_, _, _, a, b, c, d, e] = (folded ^ (folded >> 40)).to_be_bytes();
    MacAddress([0x02, a, b, c, d, e])
}

/// The hardware address of an interface that was given none: locally administered, derived from its name (FNV-1a).
pub fn derived_mac(name: &str) -> MacAddress {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let [_, _, _, a, b, c, d, e] = hash.to_be_bytes();
    MacAddress([0x02, a, b, c, d, e])
}

/// The hardware address of the gateway's own station on a bridge that was given none: derived from its name and its first address, as
/// two gateways with interfaces of one name may be on one link.
pub(crate) fn station_mac(interface: &model::Interface) -> MacAddress {
    match interface.addresses.first() {
        Some(own) => derived_mac(&format!("{} {}", interface.name, own.net.addr())),
        None => derived_mac(&interface.name),
    }
}

impl Root {
    /// The routes, as validators and allowlists look sources up in them.
    #[inline(always)]
    pub fn routes(&self) -> Routes<'_> {
        Routes { vrfs: &self.vrfs, adjacencies: &self.adjacencies, reverse: &self.sav.reverse }
    }

    /// The number of the adjacency by which a neighbour is reached that no route leads to yet.
    #[inline]
    pub(crate) fn resolved(&self, interface: u32, address: IpAddr) -> Option<u32> {
        let number = self.pending.get(interface, address)?;
        let adjacency = self.adjacencies.get(number as usize)?;
        matches!(adjacency.kind, Kind::Rewrite | Kind::RewriteStale).then_some(number)
    }

    /// An adjacency in words: `via 198.51.100.254 on wan`.
    pub fn describe(&self, adjacency: &Adjacency) -> String {
        let interface = self.interfaces.get(adjacency.interface as usize).map_or("?", |interface| &interface.name);
        match (adjacency.kind, adjacency.next_hop) {
            (Kind::Rewrite | Kind::RewriteStale | Kind::Neighbor, Some(next_hop)) => {
                format!("via {next_hop} on {interface}")
            }
            (Kind::Rewrite | Kind::RewriteStale | Kind::Neighbor, None) => format!("on {interface}"),
            (Kind::NoRoute, _) => "no route".into(),
            (Kind::Local, _) => "local".into(),
            (Kind::Blackhole, _) => "blackhole".into(),
            (Kind::Tentative, _) => "tentative".into(),
            (Kind::Unreachable, _) => "unreachable".into(),
            (Kind::Prohibit, _) => "prohibit".into(),
            (Kind::Broadcast, _) => "broadcast".into(),
        }
    }
}
