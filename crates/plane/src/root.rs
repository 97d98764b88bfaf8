//! The root: one immutable version of everything that the nodes read, published by the control thread and looked at
//! once per vector.
//!
//! Numbers that packets carry (interfaces, adjacencies, VRFs, ports) keep their meaning from version to version: an
//! interface that goes away leaves a hole. What did not change between two versions is shared by them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use weir_packet::wire::MacAddress;
use weir_table::lpm::Table;

use crate::acl;
pub use crate::adjacency::{Adjacencies, Adjacency, Kind, MAX_L2};
use crate::allow::Allowlists;
use crate::bindings::Bindings;
use crate::counters::InterfaceCounters;
use crate::model::{Address, IcmpLimits, PerFamily};
pub use crate::pending::Pending;
use crate::sample::Sampler;
use crate::sav::{Broadcasts, Validators};

/// No interface, no port.
pub const NONE: u32 = u32::MAX;

/// A version of everything.
#[derive(Clone)]
pub struct Root {
    /// Counts the versions, from 1.
    pub generation: u64,
    /// Counts the models that were compiled, from 1: what is learned makes a new version of the same.
    pub model: u64,
    /// Interfaces, by number.
    pub interfaces: Arc<[Interface]>,
    /// What each port's frames belong to, by port number.
    pub ports: Arc<[Demux]>,
    /// Forwarding tables, by VRF number.
    pub vrfs: Vec<Tables>,
    /// What routes lead to, by adjacency number.
    pub adjacencies: Adjacencies,
    /// Neighbours that were learned and that no table leads to yet.
    pub pending: Pending,
    /// Buckets of multipath sets: [`crate::ecmp::BUCKETS`] adjacency numbers each.
    pub buckets: Arc<[u32]>,
    /// What interfaces ask of sources.
    pub sav: Validators,
    /// What interfaces ask of packets by lists of rules.
    pub acl: acl::Access,
    /// What they ask of sources by allowlists.
    pub allow: Allowlists,
    /// What they ask of hardware addresses.
    pub bindings: Bindings,
    /// Some interface says which ethertypes may leave.
    pub ethertypes_out: bool,
    /// Who takes samples, by number.
    pub samplers: Arc<[Sampler]>,
    /// Limits of what we originate, over all workers.
    pub icmp: IcmpLimits,
    /// Unresolved neighbours get a made-up hardware address (replay).
    pub invent_neighbors: bool,
}

/// An interface.
#[derive(Clone)]
pub struct Interface {
    /// It exists in this version.
    pub present: bool,
    /// Its name.
    pub name: Arc<str>,
    /// Its port's number.
    pub port: u32,
    /// The hardware address of the one station at the other end of its link, where nobody is to be asked for it.
    pub peer: Option<[u8; 6]>,
    /// Its link is down: nothing is routed there.
    pub down: bool,
    /// Its VRF's number.
    pub vrf: u16,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Largest IP packet, in octets.
    pub mtu: u32,
    /// Our addresses on it.
    pub addresses: Arc<[Address]>,
    /// Addresses that may become ours: nobody has been asked yet whether he has them, or somebody has (RFC 4862, 5.4).
    pub tentative: Arc<[Address]>,
    /// The port of the device that gives the host what is for it; [`NONE`] without one.
    pub punt: u32,
    /// The adjacency of whoever is on its link and has none of his own.
    pub on_link: u32,
    /// The adjacencies of known neighbours with link-local addresses, which no table has.
    pub link_local: LinkLocals,
    /// Which of the root's validators its packets' sources pass; [`crate::sav::NONE`] without one.
    pub sav: PerFamily<u16>,
    /// Which of the root's chains of rules packets pass that come in; [`acl::NONE`] without one.
    pub acl_in: PerFamily<u16>,
    /// Which they pass that leave.
    pub acl_out: PerFamily<u16>,
    /// Which of the root's sequences of allowlists contain its packets' sources; [`crate::allow::NONE`] without one.
    pub allow: PerFamily<u16>,
    /// Which of the root's bindings its packets' hardware addresses pass; [`crate::bindings::NONE`] without one.
    pub bindings: u16,
    /// The ethertypes of what may come in, those behind VLAN tags; `None`: any.
    pub ethertypes_in: Option<Arc<[u16]>>,
    /// Those of what may leave.
    pub ethertypes_out: Option<Arc<[u16]>>,
    /// The broadcast addresses of its link.
    pub broadcasts: Arc<Broadcasts>,
    /// Its counters, by worker.
    pub counters: Arc<[InterfaceCounters]>,
}

impl Interface {
    /// Our primary IPv4 address here.
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        self.addresses.iter().find_map(|address| match address.net.addr() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })
    }

    /// Our primary IPv6 address here for whoever is not on the link: none that is link-local.
    pub fn ipv6(&self) -> Option<Ipv6Addr> {
        self.addresses_v6().find(|address| !address.is_unicast_link_local())
    }

    /// The IPv6 address that we answer from to link-local ones here.
    pub fn ipv6_on_link(&self) -> Option<Ipv6Addr> {
        self.addresses_v6().find(Ipv6Addr::is_unicast_link_local).or_else(|| self.ipv6())
    }

    fn addresses_v6(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.addresses.iter().filter_map(|address| match address.net.addr() {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        })
    }

    /// This address is one of ours here.
    pub fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.net.addr() == address)
    }

    /// An address of this kind is on the link: it is in one of the connected prefixes.
    pub fn is_on_link(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.net.contains(&address))
    }

    /// The address is the one that all routers of a connected prefix share (RFC 4291, 2.6.1); there is none where two
    /// routers are all that there is (RFC 6164).
    pub fn is_anycast(&self, address: Ipv6Addr) -> bool {
        self.addresses.iter().any(|own| match own.net {
            IpNet::V6(net) => net.prefix_len() < 127 && !net.addr().is_unicast_link_local() && net.network() == address,
            IpNet::V4(_) => false,
        })
    }

    /// The adjacency of a neighbour with a link-local address.
    pub fn neighbor(&self, address: Ipv6Addr) -> u32 {
        self.link_local.get(address).unwrap_or(self.on_link)
    }

    /// This address may become one of ours here.
    pub fn is_tentative(&self, address: Ipv6Addr) -> bool {
        self.tentative.iter().any(|own| own.net.addr() == IpAddr::V6(address))
    }
}

/// Parts of [`LinkLocals`].
const PARTS: usize = 64;

/// The adjacencies of neighbours with link-local addresses: a map in parts that versions share, so that to add one copies
/// a small part of a large link.
#[derive(Clone)]
pub struct LinkLocals(Arc<[Arc<HashMap<Ipv6Addr, u32>>; PARTS]>);

impl Default for LinkLocals {
    fn default() -> Self {
        let part = Arc::default();
        LinkLocals(Arc::new(std::array::from_fn(|_| Arc::clone(&part))))
    }
}

impl LinkLocals {
    fn part(address: Ipv6Addr) -> usize {
        let word = address.to_bits() as u64;
        (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
    }

    /// The adjacency of a neighbour.
    #[inline]
    pub fn get(&self, address: Ipv6Addr) -> Option<u32> {
        self.0[Self::part(address)].get(&address).copied()
    }

    /// Sets the adjacency of a neighbour, or takes it out.
    pub fn set(&mut self, address: Ipv6Addr, adjacency: Option<u32>) {
        let part = Arc::make_mut(&mut Arc::make_mut(&mut self.0)[Self::part(address)]);
        match adjacency {
            Some(number) => part.insert(address, number),
            None => part.remove(&address),
        };
    }
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

/// A VRF's forwarding tables. Their values are [`Forwarding`] words.
#[derive(Clone)]
pub struct Tables {
    /// IPv4.
    pub v4: Arc<Table<u32>>,
    /// IPv6.
    pub v6: Arc<Table<u128>>,
}

/// What a route leads to, as the forwarding tables hold it: an adjacency, or a set of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forwarding(pub u32);

impl Forwarding {
    const MULTIPATH: u32 = 1 << 30;

    /// A single adjacency.
    pub const fn adjacency(number: u32) -> Self {
        Forwarding(number)
    }

    /// A multipath set.
    pub const fn multipath(set: u32) -> Self {
        Forwarding(set | Self::MULTIPATH)
    }

    /// The adjacency for a flow of this hash.
    #[inline(always)]
    pub fn resolve(self, hash: impl FnOnce() -> u32, buckets: &[u32]) -> u32 {
        if self.0 & Self::MULTIPATH == 0 {
            return self.0;
        }
        let set = (self.0 & !Self::MULTIPATH) as usize;
        let bucket = set * crate::ecmp::BUCKETS + (hash() as usize & (crate::ecmp::BUCKETS - 1));
        buckets.get(bucket).copied().unwrap_or(Adjacency::NO_ROUTE)
    }

    /// The number of the multipath set, if it is one.
    pub fn set(self) -> Option<u32> {
        (self.0 & Self::MULTIPATH != 0).then_some(self.0 & !Self::MULTIPATH)
    }
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

impl Root {
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
            (Kind::Broadcast, _) => "broadcast".into(),
        }
    }
}
