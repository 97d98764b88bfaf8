//! The carriers of tunnels, their identifiers, and the first headers of inner packets.

use crate::wire::{geneve, gue, protocol, vxlan};

/// The protocol that carries inner packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Carrier {
    /// VXLAN, in UDP.
    Vxlan,
    /// Geneve, in UDP.
    Geneve,
    /// Generic UDP encapsulation.
    Gue,
    /// Generic routing encapsulation.
    Gre,
    /// IP itself.
    Ip,
}

impl Carrier {
    /// All of them.
    pub const ALL: [Carrier; 5] = [Carrier::Vxlan, Carrier::Geneve, Carrier::Gue, Carrier::Gre, Carrier::Ip];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Carrier::Vxlan => "vxlan",
            Carrier::Geneve => "geneve",
            Carrier::Gue => "gue",
            Carrier::Gre => "gre",
            Carrier::Ip => "ipip",
        }
    }

    /// Returns the UDP port that IANA gave; `None`: it is not in UDP.
    #[must_use]
    pub const fn port(self) -> Option<u16> {
        match self {
            Carrier::Vxlan => Some(vxlan::PORT),
            Carrier::Geneve => Some(geneve::PORT),
            Carrier::Gue => Some(gue::PORT),
            Carrier::Gre | Carrier::Ip => None,
        }
    }

    /// Returns whether inner packets are frames of Ethernet.
    #[must_use]
    pub const fn is_ethernet(self) -> bool {
        matches!(self, Carrier::Vxlan | Carrier::Geneve)
    }

    /// Returns the carrier of a protocol of IP, but for those in UDP.
    #[inline]
    #[must_use]
    pub const fn of_protocol(number: u8) -> Option<Carrier> {
        match number {
            protocol::GRE => Some(Carrier::Gre),
            protocol::IPIP | protocol::IPV6 => Some(Carrier::Ip),
            _ => None,
        }
    }
}

/// The identifier of a tunnel between two hosts: of a network, or a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Id(pub u64);

impl Id {
    /// No identifier.
    pub const NONE: Id = Id(0);

    /// Returns the identifier of a network, 24 bits.
    #[inline]
    #[must_use]
    pub const fn network(vni: u32) -> Id {
        Id(vni as u64)
    }

    /// Returns a key of GRE: no key differs from a key of 0.
    #[inline]
    #[must_use]
    pub const fn key(key: Option<u32>) -> Id {
        match key {
            Some(key) => Id(1 << 32 | key as u64),
            None => Id::NONE,
        }
    }
}

/// The first header of an inner packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inner {
    /// A header of Ethernet.
    Ethernet,
    /// A header of IPv4.
    V4,
    /// A header of IPv6.
    V6,
}
