//! Tunnels, as workers read them. A tunnel is an interface: its number is that of the interface.
//!
//! A tunnel has an immutable part, which belongs to a version of the root, and a part that outlives versions: the path MTU that was
//! learned, and the counters.

mod counters;
mod table;

use std::net::IpAddr;
use std::sync::Arc;

use weir_packet::tunnel::{Carrier, Outer};
use weir_packet::wire::ethernet;

pub use counters::TunnelCounters;
pub use table::{Key, TunnelTable};

use crate::model;
use crate::root::path_mtu::PathMtu;

/// The tunnels in force.
#[derive(Clone, Default)]
pub struct Tunnels {
    /// By number of the interface; `None`: the interface is no tunnel.
    pub list: Arc<[Option<Arc<Tunnel>>]>,
    /// The numbers of tunnels by addresses, carrier and identifier.
    pub table: Arc<TunnelTable>,
    /// The UDP ports of tunnels with their carriers, in their order.
    pub ports: Arc<[(u16, Carrier)]>,
    /// The two ends of each tunnel without its identifier, in their order.
    pub ends: Arc<[Ends]>,
}

/// The ends of a tunnel: routing domain, outer addresses, carrier and UDP port.
pub type Ends = (u16, IpAddr, IpAddr, Carrier, u16);

/// A tunnel, immutable but for its counters and its path MTU.
pub struct Tunnel {
    /// The headers in front of its packets.
    pub outer: Outer,
    /// The number of its interface.
    pub interface: u32,
    /// The number of the routing domain of the outer addresses.
    pub vrf: u16,
    /// The tunnel of the model.
    pub wanted: model::Tunnel,
    /// The number of an interface in the routing domain of the outer addresses; [`NONE`](crate::root::NONE) without one.
    pub home: u32,
    /// The path MTU that was learned.
    pub path: Arc<PathMtu>,
    /// Its counters, by worker.
    pub counters: Arc<[TunnelCounters]>,
}

impl Tunnel {
    /// Returns what packets of the tunnel are found by.
    #[must_use]
    pub fn key(&self) -> Key {
        let model::Tunnel { local, remote, carrier, port, id, .. } = self.wanted;
        Key { vrf: self.vrf, local, remote, carrier, port, id }
    }

    /// Returns the longest inner packet of an outer one, both in octets from the IP header on.
    #[must_use]
    pub fn inner(&self, mtu: usize) -> usize {
        let link = if self.wanted.carrier.is_ethernet() { ethernet::LENGTH } else { 0 };
        mtu.saturating_sub(self.outer.length() + link)
    }
}

impl Tunnels {
    /// There are tunnels.
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        !self.list.is_empty()
    }

    /// The tunnel that an interface is.
    #[inline(always)]
    pub fn of(&self, interface: u32) -> Option<&Tunnel> {
        self.list.get(interface as usize)?.as_deref()
    }

    /// Finds the tunnel of a key.
    #[inline]
    pub fn find(&self, key: &Key) -> Option<&Tunnel> {
        self.of(self.table.find(key, |number| self.of(number).is_some_and(|tunnel| tunnel.key() == *key))?)
    }

    /// The carrier whose packets come to a UDP port.
    #[inline]
    pub fn carrier_of(&self, port: u16) -> Option<Carrier> {
        let at = self.ports.binary_search_by_key(&port, |own| own.0).ok()?;
        self.ports.get(at).map(|own| own.1)
    }

    /// There is a tunnel between the addresses of a key, whatever its identifier.
    #[must_use]
    pub fn has_ends(&self, key: &Key) -> bool {
        self.ends.binary_search(&(key.vrf, key.local, key.remote, key.carrier, key.port)).is_ok()
    }
}
