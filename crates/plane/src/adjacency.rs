//! What routes lead to.

use std::net::IpAddr;
use std::sync::Arc;

use crate::root::NONE;

/// What happens to a packet that took a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Nothing covers its destination.
    NoRoute,
    /// Put on this link-layer header and send.
    Rewrite,
    /// As `Rewrite`, to a neighbour that was not confirmed lately: the control side is told that it is in use.
    RewriteStale,
    /// The next hop's hardware address is not known: that of `next_hop`, or on a connected prefix the destination's.
    Neighbor,
    /// For the gateway itself.
    Local,
    /// Discard silently.
    Blackhole,
    /// Discard and say so.
    Unreachable,
    /// For an address that may become the gateway's own.
    Tentative,
    /// A directed broadcast.
    Broadcast,
}

/// Longest link-layer header: Ethernet with two tags.
pub const MAX_L2: usize = 22;

/// What a route leads to. One cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Adjacency {
    /// What happens.
    pub kind: Kind,
    /// Octets of `l2` in use.
    pub l2_len: u8,
    /// The link-layer header, up to and including the ethertype, which is that of IPv4: byte 1 of it differs for IPv6.
    pub l2: [u8; MAX_L2],
    /// Egress port.
    pub port: u32,
    /// Egress interface.
    pub interface: u32,
    /// Largest IP packet, in octets.
    pub mtu: u32,
    /// The gateway's address, if there is one.
    pub next_hop: Option<IpAddr>,
}

const _: () = assert!(size_of::<Adjacency>() == 64);

impl Adjacency {
    /// The adjacency of destinations without a route: number 0, which is what the tables answer then.
    pub const NO_ROUTE: u32 = 0;

    /// An adjacency that sends nothing.
    pub const fn terminal(kind: Kind) -> Self {
        Adjacency { kind, l2_len: 0, l2: [0; MAX_L2], port: NONE, interface: NONE, mtu: 0, next_hop: None }
    }
}

/// Adjacencies of a page.
const PAGE: usize = 256;

/// Adjacencies by number, in pages that versions share: to change one copies its page (16 KiB), not the table.
#[derive(Clone, Default)]
pub struct Adjacencies {
    pages: Vec<Arc<[Adjacency; PAGE]>>,
}

impl Adjacencies {
    /// The adjacency of a number.
    #[inline(always)]
    pub fn get(&self, number: usize) -> Option<&Adjacency> {
        self.pages.get(number / PAGE).map(|page| &page[number % PAGE])
    }

    /// Puts an adjacency at a number.
    pub fn set(&mut self, number: u32, adjacency: Adjacency) {
        let number = number as usize;
        while self.pages.len() <= number / PAGE {
            self.pages.push(Arc::new([Adjacency::terminal(Kind::NoRoute); PAGE]));
        }
        if self.get(number) != Some(&adjacency) {
            Arc::make_mut(&mut self.pages[number / PAGE])[number % PAGE] = adjacency;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_share_the_pages_that_do_not_differ() {
        let mut now = Adjacencies::default();
        assert!(now.get(0).is_none());
        now.set(600, Adjacency::terminal(Kind::Local));
        assert_eq!(now.get(600).unwrap().kind, Kind::Local);
        assert_eq!((now.get(3).unwrap().kind, now.get(768)), (Kind::NoRoute, None));
        let before = now.clone();
        now.set(5, Adjacency::terminal(Kind::Blackhole));
        now.set(600, Adjacency::terminal(Kind::Local));
        assert_eq!((before.get(5).unwrap().kind, now.get(5).unwrap().kind), (Kind::NoRoute, Kind::Blackhole));
        let shared: Vec<bool> = before.pages.iter().zip(&now.pages).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!(shared, [false, true, true]);
    }
}
