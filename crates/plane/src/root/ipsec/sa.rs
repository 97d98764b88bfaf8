//! A pair of SAs.

use std::net::IpAddr;
use std::sync::Arc;

use weir_crypto::Key;
use weir_packet::esp::{Layout, Outer, Window};

use super::{SaCounters, Sequence, Upkeep};
use crate::model::{Encapsulation, OuterDf, OuterDscp, OuterLabel, SaMode};

/// A pair of SAs, immutable but for its counters, its sequence numbers and its window.
// Its lines are prefetched together.
#[repr(align(64))]
pub struct Sa {
    /// Its name.
    pub name: Arc<str>,
    /// The part of a packet that ESP protects.
    pub mode: SaMode,
    /// The number of the routing domain of the outer addresses.
    pub vrf: u16,
    /// The gateway's outer address.
    pub local: IpAddr,
    /// The peer's outer address.
    pub remote: IpAddr,
    /// Extended sequence numbers.
    pub esn: bool,
    /// Lengths of its packets.
    pub layout: Layout,
    /// The IV has to be unpredictable.
    pub random_iv: bool,
    /// Octets that shorter inner packets are padded to, in tunnel mode; 0: they are not.
    pub tfc: u16,
    /// The headers in front of its packets.
    pub outer: Outer,
    /// The ports of ESP in UDP.
    pub encapsulation: Option<Encapsulation>,
    /// The DSCP of the outer header.
    pub dscp: OuterDscp,
    /// Congestion notification passes.
    pub ecn: bool,
    /// The DF bit of an outer IPv4 header.
    pub df: OuterDf,
    /// The flow label of an outer IPv6 header.
    pub flow_label: OuterLabel,
    /// The number of the interface that decrypted packets come in by; [`NONE`](crate::root::NONE): that of the ESP packet.
    pub interface: u32,
    /// The number of an interface in the routing domain of the outer addresses; [`NONE`](crate::root::NONE) without one.
    pub home: u32,
    /// From the gateway to the peer.
    pub outbound: Option<Outbound>,
    /// From the peer to the gateway.
    pub inbound: Option<Inbound>,
    /// Settings of its upkeep by the control side.
    pub upkeep: Box<Upkeep>,
    /// Its counters, by worker.
    pub counters: Arc<[SaCounters]>,
}

/// An outbound SA.
pub struct Outbound {
    /// Its SPI.
    pub spi: u32,
    /// Its key.
    pub key: Arc<Key>,
    /// The digest of its secret.
    pub fingerprint: [u8; 16],
    /// Its sequence numbers.
    pub sequence: Arc<Sequence>,
}

/// An inbound SA.
pub struct Inbound {
    /// A digest of the key.
    pub fingerprint: [u8; 16],
    /// Its SPI.
    pub spi: u32,
    /// Its key.
    pub key: Arc<Key>,
    /// Its anti-replay window.
    pub window: Arc<Window>,
}

impl Outbound {
    /// Returns the identity of this SA: a digest of the key, with the SPI.
    #[must_use]
    pub fn identity(&self) -> [u8; 16] {
        (u128::from_be_bytes(self.fingerprint) ^ u128::from(self.spi)).to_be_bytes()
    }
}

impl Inbound {
    /// Returns the identity of this SA in the files of a gateway: a digest of the key, with the SPI.
    #[must_use]
    pub fn identity(&self) -> [u8; 16] {
        (u128::from_be_bytes(self.fingerprint) ^ u128::from(self.spi)).to_be_bytes()
    }
}

impl Sa {
    /// The last sequence number of an outbound SA: none wraps (RFC 4303, 3.3.3).
    #[inline(always)]
    #[must_use]
    pub fn last(&self) -> u64 {
        if self.esn { u64::MAX } else { u32::MAX as u64 }
    }

    /// The ports of ESP in UDP, from the peer to the gateway.
    #[inline(always)]
    #[must_use]
    pub fn ports(&self) -> Option<(u16, u16)> {
        self.encapsulation.map(|own| (own.remote_port, own.local_port))
    }
}
