//! Interfaces, as nodes read them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;

use crate::model::{Address, Merge, PerFamily};
use crate::root::bridge;
use crate::root::counters::{Counter, TrafficCounter};
use crate::root::nat;
use crate::root::sav::{Broadcasts, SavCounters};

/// An interface.
#[derive(Clone)]
pub struct Interface {
    /// It exists in this version.
    pub present: bool,
    /// Its name.
    pub name: Arc<str>,
    /// Its port's number.
    pub port: u32,
    /// The remote MAC of a link where addresses are not resolved.
    pub peer: Option<[u8; 6]>,
    /// Its packets have no link-layer header, and its link leads to one station: it is a tunnel of packets of IP.
    pub is_linkless: bool,
    /// Its link is down: nothing is routed there.
    pub down: bool,
    /// Its VRF's number.
    pub vrf: u16,
    /// The number of the zone whose sessions pass its access lists.
    pub zone: u16,
    /// Flows of packets that come in by it are learned.
    pub fast_path: bool,
    /// The packets that leave by it as super-packets.
    pub merge: Merge,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Largest IP packet, in octets.
    pub mtu: u32,
    /// Our addresses on it.
    pub addresses: Arc<[Address]>,
    /// Tentative addresses: duplicate address detection has not ended, or has found another station (RFC 4862, 5.4).
    pub tentative: Arc<[Address]>,
    /// The port of the device that gives the host what is for it; [`NONE`](crate::root::NONE) without one.
    pub punt: u32,
    /// The adjacency of addresses on the link that have no adjacency of their own.
    pub on_link: u32,
    /// The adjacencies of known neighbours with link-local addresses, which no table has.
    pub link_local: LinkLocals,
    /// Which of the root's validators its packets' sources pass; [`crate::root::sav::NONE`] without one.
    pub sav: PerFamily<u16>,
    /// Which of the root's chains of rules packets pass that come in; [`acl::NONE`](crate::root::acl::NONE) without one.
    pub acl_in: PerFamily<u16>,
    /// Which they pass that leave.
    pub acl_out: PerFamily<u16>,
    /// Which of the root's sequences of allowlists contain its packets' sources; [`crate::root::allow::NONE`] without one.
    pub allow: PerFamily<u16>,
    /// Which of the root's bindings its packets' hardware addresses pass; [`crate::root::bindings::NONE`] without one.
    pub bindings: u16,
    /// Answers of DHCP servers that come in by it are believed.
    pub dhcp_trusted: bool,
    /// Stations behind it are believed to have the addresses that they claim by neighbour discovery.
    pub slaac_trusted: bool,
    /// Its part in a bridge.
    pub bridge: bridge::OfInterface,
    /// The place of the first classifier table of packets that come in; [`crate::root::classify::NONE`] without one.
    pub classify_in: u16,
    /// The same of packets that leave.
    pub classify_out: u16,
    /// Its part in translation.
    pub nat: nat::OfInterface,
    /// The SPD of its packets; [`crate::root::spd::NONE`] without one.
    pub spd: u16,
    /// The steer rules of packets that come in; [`crate::root::steer::NONE`] without any.
    pub steer: u16,
    /// The ethertypes of what may come in, those behind VLAN tags; `None`: any.
    pub ethertypes_in: Option<Arc<[u16]>>,
    /// The EtherTypes that may leave.
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

    /// Returns the interface's primary IPv6 address for destinations off the link: never a link-local one.
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

/// The counters of an interface on one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct InterfaceCounters {
    /// Received.
    pub rx: TrafficCounter,
    /// Transmitted; a super-packet counts as its segments.
    pub tx: TrafficCounter,
    /// Super-packets that were made here, and the packets that went into them.
    pub merged: (Counter, Counter),
    /// Super-packets that were cut here, as the port takes none, and the segments they gave.
    pub cut: (Counter, Counter),
    /// Dropped after being received here.
    pub dropped: TrafficCounter,
    /// Given to the host after being received here.
    pub punt: TrafficCounter,
    /// Dropped for their ethertype: what came in, and what was to leave.
    pub ethertypes: (Counter, Counter),
    /// Of source address validation.
    pub sav: PerFamily<SavCounters>,
}
