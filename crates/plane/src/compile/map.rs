//! Where the interfaces of a model stand, and the numbers of its objects.

use std::collections::{HashMap, HashSet};
use std::net::Ipv6Addr;

/// A port that an interface of the model stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortPlace {
    /// Its number.
    pub number: u32,
    /// The hardware address it came with.
    pub mac: Option<[u8; 6]>,
    /// The remote MAC of a link where addresses are not resolved.
    pub peer: Option<[u8; 6]>,
    /// Its link is down: nothing is routed there.
    pub down: bool,
}

/// Where a model's interfaces stand.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The port of every interface of kind `Port`, by the model's index.
    pub ports: HashMap<u32, PortPlace>,
    /// The number of the port that every punt device is, by the model's index of its interface.
    pub punts: HashMap<u32, u32>,
    /// Addresses of ours, with the number of their interface, that must not be used (yet).
    pub unusable: HashSet<(u32, Ipv6Addr)>,
}

/// Settings that the root takes over unchanged.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Number of workers.
    pub workers: usize,
    /// Unresolved neighbours get a made-up hardware address.
    pub invent_neighbors: bool,
    /// The keys of the hashes of MAC tables and classifier tables.
    pub secret: [u64; 4],
}

/// How a model's numbers relate to a root's.
#[derive(Debug, Clone, Default)]
pub struct Map {
    /// By the model's index of an interface: its number.
    pub interfaces: Vec<u32>,
    /// By the model's index of a VRF: its number.
    pub vrfs: Vec<u16>,
    /// By the model's index of a sampler: its number.
    pub samplers: Vec<u32>,
    /// By the model's index of a pair of SAs: its number.
    pub sas: Vec<u32>,
    /// By the model's index of an interface: the number of its zone.
    pub zones: Vec<u16>,
    /// By the model's index of a VRF: the number of the zone of its translations.
    pub nat_zones: Vec<u16>,
    /// By the model's index of a VRF: its group of linked VRFs.
    pub nat_groups: Vec<usize>,
}
