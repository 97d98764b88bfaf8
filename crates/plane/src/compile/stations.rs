//! Who is known on which link: what the configuration says, and what was learned.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_packet::wire::MacAddress;

use crate::model::{Gateway, Origin};

/// A neighbour that was learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learned {
    /// Its hardware address.
    pub mac: MacAddress,
    /// It was not confirmed lately: workers report its use.
    pub stale: bool,
}

/// Neighbours that were learned, by number of the interface and address.
#[derive(Debug, Clone, Default)]
pub(super) struct LearnedSet {
    stations: HashMap<(u32, IpAddr), Learned>,
    /// The same as (address, interface): who has an address on several links.
    places: BTreeSet<(IpAddr, u32)>,
}

impl LearnedSet {
    pub(super) fn set(&mut self, interface: u32, address: IpAddr, learned: Option<Learned>) {
        match learned {
            Some(learned) => {
                self.stations.insert((interface, address), learned);
                self.places.insert((address, interface));
            }
            None => {
                self.stations.remove(&(interface, address));
                self.places.remove(&(address, interface));
            }
        }
    }

    pub(super) fn get(&self, interface: u32, address: IpAddr) -> Option<Learned> {
        self.stations.get(&(interface, address)).copied()
    }

    /// Interfaces on which an address is known, ascending.
    pub(super) fn at(&self, address: IpAddr) -> impl Iterator<Item = u32> {
        self.places.range((address, 0)..=(address, u32::MAX)).map(|(_, interface)| *interface)
    }

    /// The addresses inside a prefix, each with an interface.
    pub(super) fn within(&self, prefix: IpNet) -> impl Iterator<Item = (u32, IpAddr)> {
        let (first, last) = (prefix.network(), prefix.broadcast());
        self.places.range((first, 0)..=(last, u32::MAX)).map(|&(address, interface)| (interface, address))
    }

    /// All of them, in an order that equal gateways share: it decides the numbers of adjacencies.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, IpAddr)> {
        self.places.iter().map(|&(address, interface)| (interface, address))
    }
}

/// Neighbours that are configured.
#[derive(Debug, Clone, Default)]
pub(super) struct Fixed {
    stations: HashMap<(u32, IpAddr), MacAddress>,
    /// By address, in the order of the configuration: numbers of interfaces, and where it says so.
    places: BTreeMap<IpAddr, Vec<(u32, Origin)>>,
}

impl Fixed {
    /// The neighbours of a model whose interfaces have these numbers.
    pub(super) fn new(gateway: &Gateway, interfaces: &[u32]) -> Fixed {
        let mut fixed = Fixed::default();
        for neighbor in &gateway.neighbors {
            let number = interfaces[neighbor.interface.0 as usize];
            fixed.stations.insert((number, neighbor.address), neighbor.mac);
            fixed.places.entry(neighbor.address).or_default().push((number, neighbor.origin));
        }
        fixed
    }

    pub(super) fn get(&self, interface: u32, address: IpAddr) -> Option<MacAddress> {
        self.stations.get(&(interface, address)).copied()
    }

    pub(super) fn at(&self, address: IpAddr) -> &[(u32, Origin)] {
        self.places.get(&address).map_or(&[], Vec::as_slice)
    }

    /// The addresses inside a prefix, each with an interface.
    pub(super) fn within(&self, prefix: IpNet) -> impl Iterator<Item = (u32, IpAddr)> {
        let own =
            |(&address, places): (&IpAddr, &Vec<(u32, Origin)>)| places.first().map(|&(number, _)| (number, address));
        self.places.range(prefix.network()..=prefix.broadcast()).filter_map(own)
    }
}
