//! Actions of the neighbour table: frames to send, changes of adjacencies, and notices.

use std::net::{IpAddr, Ipv6Addr};

use weir_packet::wire::MacAddress;

/// An effect of the neighbour table that its caller carries out.
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
        /// The neighbour was not confirmed lately: workers report the next packet to it as
        /// [`Event::Wanted`](super::Event::Wanted).
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
    /// Another station uses an address of the gateway. Repeated at intervals while the conflict lasts.
    Conflict {
        /// Number of the interface.
        interface: u32,
        /// Our address.
        address: IpAddr,
        /// The other's hardware address.
        mac: MacAddress,
    },
    /// The table is full: neighbours displace one another. Repeated at intervals while the table is full.
    Full {
        /// The limit on learned neighbours; configured neighbours are not counted.
        limit: usize,
    },
}
