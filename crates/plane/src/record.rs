//! What became of single packets: kept where packets are few and each one's fate matters, in replays, `explain` and
//! tests. A live gateway keeps none.

use std::net::IpAddr;

use crate::reason::Reason;

/// Something that happened to the packet with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// A route was looked up for it: in this VRF, for this destination.
    LookedUp {
        /// VRF number.
        vrf: u16,
        /// Destination.
        destination: IpAddr,
        /// The adjacency it was given.
        adjacency: u32,
    },
    /// It, or a packet made from it, left by this interface.
    Transmitted {
        /// Interface number.
        interface: u32,
        /// weir made the packet: an ICMP message or an answer.
        created: bool,
    },
    /// It was delivered to the gateway itself.
    Local,
    /// It was dropped.
    Dropped {
        /// Why.
        reason: Reason,
        /// weir had made the packet.
        created: bool,
    },
}

/// Fates in the order in which they came, each with the number of the input packet.
#[derive(Debug, Default)]
pub struct Recorder {
    /// (number, fate).
    pub fates: Vec<(u32, Fate)>,
}

impl Recorder {
    /// Adds one.
    pub fn add(&mut self, ordinal: u32, fate: Fate) {
        self.fates.push((ordinal, fate));
    }
}
