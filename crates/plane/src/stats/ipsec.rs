//! Pairs of SAs, and their counters.

use std::net::IpAddr;
use std::time::Duration;

use weir_crypto::Algorithm;

use crate::model::{Encapsulation, Lifetimes, SaMode};

/// A pair of SAs. Octets are those of inner packets from their IP header on.
#[derive(Debug, Clone, PartialEq)]
pub struct SaStats {
    /// Its name.
    pub name: String,
    /// The part of a packet that ESP protects.
    pub mode: SaMode,
    /// The gateway's outer address.
    pub local: IpAddr,
    /// The peer's outer address.
    pub remote: IpAddr,
    /// The routing domain of the outer addresses.
    pub vrf: String,
    /// Cipher and integrity.
    pub algorithm: Algorithm,
    /// Extended sequence numbers.
    pub esn: bool,
    /// The ports of ESP in UDP.
    pub encapsulation: Option<Encapsulation>,
    /// The interface that decrypted packets come in by.
    pub interface: Option<String>,
    /// From the gateway to the peer.
    pub outbound: Option<SaDirection>,
    /// From the peer to the gateway.
    pub inbound: Option<SaInbound>,
    /// Keepalives that were sent.
    pub keepalives: u64,
    /// The limits of its use.
    pub lifetimes: Lifetimes,
    /// Packets of either direction behind a hard lifetime.
    pub expired: u64,
    /// Where it was declared.
    pub origin: String,
}

/// The life of an SA so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SaLife {
    /// The time since it came into force.
    pub age: Duration,
    /// How far its lifetimes are over.
    pub phase: SaPhase,
}

/// A phase of the life of an SA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaPhase {
    /// No lifetime is over.
    Fresh,
    /// A soft one is, by this limit.
    Soft(&'static str),
    /// A hard one is, by this limit.
    Expired(&'static str),
}

/// An outbound SA.
#[derive(Debug, Clone, PartialEq)]
pub struct SaDirection {
    /// Its SPI.
    pub spi: u32,
    /// The engine that encrypts.
    pub engine: &'static str,
    /// Packets that it encrypted.
    pub packets: u64,
    /// Their octets.
    pub bytes: u64,
    /// The next sequence number.
    pub next: u64,
    /// The first sequence number that is not reserved; `None`: none needs to be.
    pub reserved: Option<u64>,
    /// Packets behind the last sequence number.
    pub exhausted: u64,
    /// Packets for which no sequence number was reserved.
    pub unreserved: u64,
    /// The MTU of its path, if errors about its packets reported one.
    pub path_mtu: Option<PathMtu>,
    /// Dummy packets that were sent.
    pub dummies: u64,
    /// Its age and the phase of its life; `None`: it has just come into force.
    pub life: Option<SaLife>,
}

/// The MTU of a path, as ICMP errors reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathMtu {
    /// The MTU, in octets.
    pub mtu: u16,
    /// The time for which it still counts.
    pub left: Duration,
}

/// An inbound SA.
#[derive(Debug, Clone, PartialEq)]
pub struct SaInbound {
    /// Its SPI.
    pub spi: u32,
    /// The engine that decrypts.
    pub engine: &'static str,
    /// Packets that it decrypted.
    pub packets: u64,
    /// Their octets.
    pub bytes: u64,
    /// The greatest sequence number that was accepted.
    pub highest: u64,
    /// Numbers of the anti-replay window; 0 for none.
    pub window: u32,
    /// Packets that were received before, or lay behind the window.
    pub replayed: u64,
    /// Sequence numbers that the window left behind and that never came.
    pub lost: u64,
    /// Packets whose integrity check value does not match.
    pub auth_failed: u64,
    /// Packets whose lengths, padding or protocol the SA does not allow.
    pub malformed: u64,
    /// Dummy packets.
    pub dummies: u64,
    /// Decrypted packets that fit no policy of the SA.
    pub selector: u64,
    /// Its age and the phase of its life; `None`: it has just come into force.
    pub life: Option<SaLife>,
}

impl SaStats {
    /// The same with the counters since an earlier reading of them.
    #[must_use]
    pub(crate) fn since(mut self, before: &SaStats) -> SaStats {
        let less = |value: &mut u64, before: u64| *value = value.saturating_sub(before);
        if let (Some(own), Some(before)) = (&mut self.outbound, &before.outbound) {
            less(&mut own.packets, before.packets);
            less(&mut own.bytes, before.bytes);
            less(&mut own.exhausted, before.exhausted);
            less(&mut own.unreserved, before.unreserved);
            less(&mut own.dummies, before.dummies);
        }
        if let (Some(own), Some(before)) = (&mut self.inbound, &before.inbound) {
            less(&mut own.packets, before.packets);
            less(&mut own.bytes, before.bytes);
            less(&mut own.replayed, before.replayed);
            less(&mut own.lost, before.lost);
            less(&mut own.auth_failed, before.auth_failed);
            less(&mut own.malformed, before.malformed);
            less(&mut own.dummies, before.dummies);
            less(&mut own.selector, before.selector);
        }
        less(&mut self.keepalives, before.keepalives);
        less(&mut self.expired, before.expired);
        self
    }
}
