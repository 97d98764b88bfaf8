//! Neighbours: who is on a link, and at which hardware address (RFC 826, RFC 4861).
//!
//! Workers answer questions about our own addresses and hold packets whose next hop is not resolved; they tell what they
//! saw as [`Event`]s. The table of neighbours belongs to the control side, which answers with [`Action`]s: frames to send,
//! and changes of adjacencies, which reach the workers with the next root.

mod entry;
mod eviction;
mod link;
mod own;
mod router;
mod table;
mod timers;

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv6Addr};

use weir_packet::wire::{MacAddress, arp, nd};

pub use entry::{Known, State};
pub use link::Link;
pub use table::Table;

/// What a worker saw.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A packet waits for this neighbour's hardware address, or went to one that has not been confirmed for long.
    Wanted {
        /// Number of the interface.
        interface: u32,
        /// The neighbour.
        address: IpAddr,
    },
    /// An ARP packet arrived, addressed to us or to all. Requests for our addresses have been answered.
    Arp {
        /// Number of the interface.
        interface: u32,
        /// What it says.
        packet: arp::Fields,
    },
    /// A neighbour discovery message arrived. Solicitations for our addresses have been answered.
    Nd {
        /// Number of the interface.
        interface: u32,
        /// Who sent it; the unspecified address in duplicate address detection.
        source: Ipv6Addr,
        /// What it says.
        packet: nd::Fields,
    },
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Send this frame by an interface, tags included.
    Send {
        /// Number of the interface.
        interface: u32,
        /// The frame.
        frame: Box<[u8]>,
    },
    /// A neighbour has this hardware address from now on.
    Resolved {
        /// Number of the interface.
        interface: u32,
        /// The neighbour.
        address: IpAddr,
        /// Its hardware address.
        mac: MacAddress,
        /// It was not confirmed lately: the next packet to it is to be told as [`Event::Wanted`].
        stale: bool,
    },
    /// A neighbour is gone or unreachable.
    Gone {
        /// Number of the interface.
        interface: u32,
        /// The neighbour.
        address: IpAddr,
    },
    /// Duplicate address detection has ended.
    Tentative {
        /// Number of the interface.
        interface: u32,
        /// Our address.
        address: Ipv6Addr,
        /// Another station has it: we must not use it.
        duplicate: bool,
    },
    /// Another station uses an address of ours. Told now and then while it goes on.
    Conflict {
        /// Number of the interface.
        interface: u32,
        /// Our address.
        address: IpAddr,
        /// The other's hardware address.
        mac: MacAddress,
    },
    /// The table is full: neighbours displace one another. Told now and then while it goes on.
    Full {
        /// Neighbours that it takes, beside those that are configured.
        limit: usize,
    },
}
