//! A pair of SAs.

use std::mem::offset_of;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::prefetch;
use weir_crypto::Key;
use weir_packet::esp::{Envelope, Layout, Outer, Window};

use super::{SaCounters, Sequence, Sharing, Upkeep};
use crate::model::{Encapsulation, MssClamp, OuterDf, OuterDscp, OuterLabel, SaMode};
use crate::root::path_mtu::PathMtu;

/// A pair of SAs, immutable but for its counters, its sequence numbers and its window.
// Fields lie in the order of their use: packets in either direction read the first line, outbound ones the next two, inbound
// ones the fourth, and usual packets no other.
#[repr(C, align(64))]
pub struct Sa {
    /// Its counters, by worker.
    pub counters: Arc<[SaCounters]>,
    /// The number of the interface that decrypted packets come in by; [`NONE`](crate::root::NONE): that of the ESP packet.
    pub interface: u32,
    /// The number of an interface in the routing domain of the outer addresses; [`NONE`](crate::root::NONE) without one.
    pub home: u32,
    /// The number of the routing domain of the outer addresses.
    pub vrf: u16,
    /// The ports of ESP in UDP: the gateway's, and the peer's.
    pub udp: Option<(u16, u16)>,
    /// Lengths of its packets.
    pub layout: Layout,
    /// The part of a packet that ESP protects.
    pub mode: SaMode,
    /// Extended sequence numbers.
    pub esn: bool,
    /// The IV has to be unpredictable.
    pub random_iv: bool,
    /// It has an `mss_clamp`.
    pub clamps: bool,
    /// Octets that shorter inner packets are padded to, in tunnel mode; 0: they are not.
    pub tfc: u16,
    /// The DSCP of the outer header.
    pub dscp: OuterDscp,
    /// Congestion notification passes.
    pub ecn: bool,
    /// The DF bit of an outer IPv4 header.
    pub df: OuterDf,
    /// The flow label of an outer IPv6 header.
    pub flow_label: OuterLabel,
    /// The gateway's outer address.
    pub local: IpAddr,
    /// From the gateway to the peer.
    pub outbound: Option<Outbound>,
    /// The headers in front of its packets.
    pub outer: Outer,
    /// From the peer to the gateway.
    pub inbound: Option<Inbound>,
    /// The peer's outer address.
    pub remote: IpAddr,
    /// The ports of ESP in UDP, and keepalives.
    pub encapsulation: Option<Encapsulation>,
    /// The greatest segment size in SYN segments, in both directions.
    pub mss_clamp: Option<MssClamp>,
    /// Its name.
    pub name: Arc<str>,
    /// The numbers of workers, if several share its outbound SA.
    pub sharing: Option<Arc<Sharing>>,
    /// The work of the control side for it.
    pub upkeep: Box<Upkeep>,
}

/// Octets of a cache line.
const LINE: usize = 64;

const _: () = assert!(
    offset_of!(Sa, local) + size_of::<IpAddr>() <= LINE
        && offset_of!(Sa, outer) + size_of::<Outer>() <= 3 * LINE
        && offset_of!(Sa, inbound) == 3 * LINE
        && size_of::<Option<Inbound>>() <= LINE
);

/// An outbound SA.
#[repr(C)]
pub struct Outbound {
    /// Its key.
    pub key: Key,
    /// Its sequence numbers.
    pub sequence: Arc<Sequence>,
    /// The MTU of its path, as far as errors reported it.
    pub path: Arc<PathMtu>,
    /// Its SPI.
    pub spi: u32,
    /// The digest of its cipher's key, to which its sequence numbers belong.
    pub stream: [u8; 16],
    /// Several workers seal its packets.
    pub is_shared: bool,
}

/// An inbound SA. It begins with a line of its own.
#[repr(C, align(64))]
pub struct Inbound {
    /// Its key.
    pub key: Key,
    /// Its anti-replay window.
    pub window: Arc<Window>,
    /// Its SPI.
    pub spi: u32,
    /// A digest of the key.
    pub fingerprint: [u8; 16],
}

impl Outbound {
    /// Returns the identity of this SA: a digest of the cipher's key, with the SPI.
    #[must_use]
    pub fn identity(&self) -> [u8; 16] {
        (u128::from_be_bytes(self.stream) ^ u128::from(self.spi)).to_be_bytes()
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
    /// Prefetches the lines that outbound packets read.
    #[inline(always)]
    pub fn prefetch_outbound(&self) {
        self.prefetch([0, 1, 2]);
    }

    /// Prefetches the lines that inbound packets read.
    #[inline(always)]
    pub fn prefetch_inbound(&self) {
        self.prefetch([0, 3]);
    }

    #[inline(always)]
    fn prefetch<const N: usize>(&self, lines: [usize; N]) {
        lines.into_iter().for_each(|line| prefetch::read((&raw const *self).cast::<u8>().wrapping_add(line * LINE)));
    }

    /// The octets around packets that it protects, of which the first `kept` stay in front in transport mode.
    #[must_use]
    pub fn envelope(&self, kept: usize) -> Envelope {
        match self.mode {
            SaMode::Tunnel => Envelope::tunnel(self.layout, self.outer.length()),
            SaMode::Transport => Envelope::transport(self.layout, kept, self.outer.length() - self.outer.ip_length()),
        }
    }

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
        self.udp.map(|(own, peer)| (peer, own))
    }
}
