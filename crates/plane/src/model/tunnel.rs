//! Tunnels, as they are wanted: the carrier, the outer addresses, and the fields of the outer header.

use std::net::IpAddr;

use weir_packet::tunnel::{Carrier, Id, Shape};

use super::index::VrfIndex;
use super::ipsec::{OuterDf, OuterDscp};
use super::mss::MssClamp;

/// A tunnel between two hosts, of which the gateway is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    /// The protocol that carries inner packets.
    pub carrier: Carrier,
    /// Its identifier between the two addresses.
    pub id: Id,
    /// The UDP port that packets go to, at both ends; 0 for a carrier that is not in UDP.
    pub port: u16,
    /// GUE: inner packets follow UDP at once (variant 1).
    pub direct: bool,
    /// GRE: packets are sent with a checksum.
    pub checksum: bool,
    /// IPv6: packets are sent with a UDP checksum of 0 (RFC 6935).
    pub zero_checksum: bool,
    /// The routing domain of the outer addresses.
    pub vrf: VrfIndex,
    /// The gateway's outer address.
    pub local: IpAddr,
    /// The outer address of the other end, of the same family.
    pub remote: IpAddr,
    /// The TTL or hop limit of the outer header.
    pub ttl: OuterTtl,
    /// The DSCP of the outer header.
    pub dscp: OuterDscp,
    /// Congestion notification passes between inner and outer header (RFC 6040); false: the outer one is Not-ECT.
    pub ecn: bool,
    /// The DF bit of an outer IPv4 header.
    pub df: OuterDf,
    /// The greatest segment size in SYN segments inside, in both directions; `None`: they stay as they are.
    pub mss_clamp: Option<MssClamp>,
}

impl Tunnel {
    /// Returns the carrier with its settings.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let Tunnel { carrier, id, port, direct, checksum, .. } = *self;
        Shape { carrier, id, port, direct, checksum }
    }

    /// Returns the octets in front of an inner packet of IP: the outer headers, and the Ethernet header of an inner frame.
    #[must_use]
    pub fn overhead(&self) -> u32 {
        let frame = if self.carrier.is_ethernet() { weir_packet::wire::ethernet::LENGTH } else { 0 };
        (self.shape().headers(self.local.is_ipv4()) + frame) as u32
    }
}

/// The TTL or hop limit of an outer header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OuterTtl {
    /// That of the inner packet; 64 for a frame without IP.
    Copy,
    /// This one, from 1.
    Fixed(u8),
}

impl Default for OuterTtl {
    fn default() -> OuterTtl {
        OuterTtl::Fixed(64)
    }
}
