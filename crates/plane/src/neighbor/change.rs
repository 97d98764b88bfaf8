//! Changes of neighbours, for people who watch them.

use std::fmt;
use std::net::IpAddr;

use weir_packet::wire::MacAddress;

/// A neighbour that resolved, was not confirmed lately, or is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighborChange {
    /// The name of the interface.
    pub interface: String,
    /// The neighbour.
    pub address: IpAddr,
    /// Its hardware address; `None`: it is gone or unreachable.
    pub mac: Option<MacAddress>,
    /// It was not confirmed lately.
    pub stale: bool,
}

impl fmt::Display for NeighborChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NeighborChange { interface, address, mac, stale } = self;
        match mac {
            None => write!(f, "interface {interface}: neighbour {address} is gone"),
            Some(mac) if *stale => write!(f, "interface {interface}: neighbour {address} at {mac} is stale"),
            Some(mac) => write!(f, "interface {interface}: neighbour {address} at {mac} is reachable"),
        }
    }
}
