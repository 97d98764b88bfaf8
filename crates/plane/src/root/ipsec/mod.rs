//! Security associations, as workers read them.
//!
//! An SA has an immutable part, which belongs to a version of the root, and a part that outlives versions: the sequence
//! numbers of the outbound SA, and the window of the inbound one. Packets carry the number of an SA between nodes and between
//! workers, so numbers keep their meaning from version to version.

mod counters;
mod path;
mod sa;
mod sequence;
mod sharing;
mod spi;
mod upkeep;

use std::net::IpAddr;
use std::sync::Arc;

use weir_base::prefetch;

pub use counters::SaCounters;
pub use path::Paths;
pub use sa::{Inbound, Outbound, Sa};
pub use sequence::{Numbers, Sequence, Sequences, Taken, Windows};
pub use sharing::Sharing;
pub use spi::{Entry as SpiEntry, SpiTable};
pub use upkeep::Upkeep;
pub use weir_packet::esp::Window;

/// The SAs in force.
#[derive(Clone, Default)]
pub struct Ipsec {
    /// Pairs of SAs by number; `None`: the pair is gone.
    pub sas: Arc<[Option<Arc<Sa>>]>,
    /// The numbers of pairs that are gone, in ascending order, each with that of the pair that has its outbound SA now.
    pub successors: Arc<[(u32, u32)]>,
    /// The numbers of pairs by inbound SPI.
    pub spis: Arc<SpiTable>,
    /// The numbers of pairs by outbound SPI, with the peer's address.
    pub peers: Arc<SpiTable>,
    /// Whether the MTU of a path was learned.
    pub paths: Arc<Paths>,
    /// The gateway's UDP ports that ESP comes to, in their order (RFC 3948).
    pub ports: Arc<[u16]>,
    /// The least MTU of any interface, in octets: shorter packets fit whatever their route.
    pub least_mtu: u32,
    /// Decrypted packets are not checked against the policies: for tests and measurements of SAs alone.
    pub unchecked: bool,
}

impl Ipsec {
    /// There are SAs.
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        !self.sas.is_empty()
    }

    /// The pair of a number.
    #[inline(always)]
    pub fn sa(&self, number: u32) -> Option<&Sa> {
        self.sas.get(number as usize)?.as_deref()
    }

    /// Finds the pair that has the outbound SA of a pair that is gone, such as at the end of a rekey; returns its number, too. Packets on
    /// their way between workers name the pair that is gone.
    #[cold]
    pub fn successor(&self, number: u32) -> Option<(u32, &Sa)> {
        let at = self.successors.binary_search_by_key(&number, |&(gone, _)| gone).ok()?;
        let (_, number) = *self.successors.get(at)?;
        Some((number, self.sa(number)?))
    }

    /// Prefetches the place of a pair.
    #[inline(always)]
    pub fn prefetch(&self, number: u32) {
        prefetch::read(self.sas.as_ptr().wrapping_add(number as usize));
    }

    /// Finds the pair whose inbound SA has this SPI and destination, in a routing domain by number; returns its number, too.
    #[inline]
    pub fn inbound(&self, vrf: u16, destination: IpAddr, spi: u32) -> Option<(u32, &Sa)> {
        let number = self.spis.find(vrf, destination, spi, |number| {
            self.sa(number).is_some_and(|sa| sa.vrf == vrf && sa.local == destination)
        })?;
        Some((number, self.sa(number)?))
    }

    /// Finds the pair whose outbound SA has this SPI between two addresses, in a routing domain by number.
    pub fn outbound(&self, vrf: u16, (source, destination): (IpAddr, IpAddr), spi: u32) -> Option<&Sa> {
        let number = self.peers.find(vrf, destination, spi, |number| {
            self.sa(number).is_some_and(|sa| (sa.vrf, sa.local, sa.remote) == (vrf, source, destination))
        })?;
        self.sa(number)
    }

    /// ESP comes to this UDP port of the gateway.
    #[inline]
    pub fn has_port(&self, port: u16) -> bool {
        !self.ports.is_empty() && self.ports.binary_search(&port).is_ok()
    }
}
