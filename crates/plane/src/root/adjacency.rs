//! Adjacencies: the next hops of routes as nodes use them.

use std::net::IpAddr;
use std::sync::Arc;

/// No interface, no port.
pub const NONE: u32 = u32::MAX;

/// The port of the interfaces of tunnels: what leaves by it goes to `tunnel-encap`.
pub const TUNNEL: u32 = u32::MAX - 1;

/// The port of the gateway's own stations on bridges: what leaves by it goes to `bridge-output`.
pub const BRIDGE: u32 = u32::MAX - 2;

/// The treatment of a packet that took a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Nothing covers its destination.
    NoRoute,
    /// Put on this link-layer header and send.
    Rewrite,
    /// As `Rewrite`, to a neighbour that was not confirmed lately: workers report to the control thread that it is in
    /// use.
    RewriteStale,
    /// The next hop's hardware address is not known: that of `next_hop`, or on a connected prefix the destination's.
    Neighbor,
    /// For the gateway itself.
    Local,
    /// Discard silently.
    Blackhole,
    /// Discard and say so.
    Unreachable,
    /// Discard and say that it is forbidden.
    Prohibit,
    /// For an address that may become the gateway's own.
    Tentative,
    /// A directed broadcast.
    Broadcast,
}

/// Longest link-layer header: Ethernet with two tags.
pub const MAX_L2: usize = 22;

/// The next hop of a route. One cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Adjacency {
    /// The treatment of the packet.
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

/// Adjacencies that stand in one piece: 64 KiB.
const NEAR: usize = 1024;
/// Adjacencies of a page.
const PAGE: usize = 256;

/// Adjacencies by number. The first stand in one piece, for that is where a gateway of few neighbours finds all of them
/// with one look; the others in pages that versions share. So to change one copies 64 KiB at most, not the table.
#[derive(Clone)]
pub struct Adjacencies {
    near: Arc<[Adjacency]>,
    far: Vec<Arc<[Adjacency; PAGE]>>,
}

impl Default for Adjacencies {
    fn default() -> Self {
        Adjacencies { near: Arc::new([]), far: Vec::new() }
    }
}

/// A look at them for many packets: where they stand is found once.
#[derive(Clone, Copy)]
pub struct View<'a> {
    near: &'a [Adjacency],
    all: &'a Adjacencies,
}

impl<'a> View<'a> {
    /// The adjacency of a number.
    #[inline(always)]
    pub fn get(self, number: u32) -> Option<&'a Adjacency> {
        match self.near.get(number as usize) {
            Some(near) => Some(near),
            None => self.all.far(number as usize),
        }
    }
}

impl Adjacencies {
    /// For a loop over packets.
    #[inline(always)]
    pub fn view(&self) -> View<'_> {
        View { near: &self.near, all: self }
    }

    /// The adjacency of a number.
    #[inline(always)]
    pub fn get(&self, number: usize) -> Option<&Adjacency> {
        match self.near.get(number) {
            Some(near) => Some(near),
            None => self.far(number),
        }
    }

    #[cold]
    #[inline(never)]
    fn far(&self, number: usize) -> Option<&Adjacency> {
        let number = number.checked_sub(NEAR)?;
        self.far.get(number / PAGE).map(|page| &page[number % PAGE])
    }

    /// All numbers that have an adjacency are below this.
    pub fn len(&self) -> usize {
        self.near.len() + self.far.len() * PAGE
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.near.is_empty()
    }

    /// Puts an adjacency at a number.
    pub fn set(&mut self, number: u32, adjacency: Adjacency) {
        let number = number as usize;
        self.grow(number);
        if self.get(number) == Some(&adjacency) {
            return;
        }
        match number.checked_sub(NEAR) {
            None => Arc::make_mut(&mut self.near)[number] = adjacency,
            Some(number) => Arc::make_mut(&mut self.far[number / PAGE])[number % PAGE] = adjacency,
        }
    }

    /// Makes room for a number.
    fn grow(&mut self, number: usize) {
        const NONE_YET: Adjacency = Adjacency::terminal(Kind::NoRoute);
        if self.near.len() <= number && self.near.len() < NEAR {
            let len = (number + 1).next_power_of_two().clamp(16, NEAR);
            let rest = std::iter::repeat_n(NONE_YET, len - self.near.len());
            self.near = self.near.iter().copied().chain(rest).collect();
        }
        while number >= NEAR + self.far.len() * PAGE {
            self.far.push(Arc::new([NONE_YET; PAGE]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_share_what_does_not_differ() {
        let mut now = Adjacencies::default();
        assert!(now.get(0).is_none());
        now.set(1600, Adjacency::terminal(Kind::Local));
        now.set(1100, Adjacency::terminal(Kind::Local));
        assert_eq!(now.get(1600).unwrap().kind, Kind::Local);
        assert_eq!((now.get(3).unwrap().kind, now.get(1023).unwrap().kind), (Kind::NoRoute, Kind::NoRoute));
        assert_eq!((now.get(1024).unwrap().kind, now.get(1792)), (Kind::NoRoute, None));
        let before = now.clone();
        now.set(5, Adjacency::terminal(Kind::Blackhole));
        now.set(1100, Adjacency::terminal(Kind::Blackhole));
        now.set(1600, Adjacency::terminal(Kind::Local));
        for (number, was, is) in [(5, Kind::NoRoute, Kind::Blackhole), (1100, Kind::Local, Kind::Blackhole)] {
            assert_eq!((before.get(number).unwrap().kind, now.get(number).unwrap().kind), (was, is));
        }
        let shared: Vec<bool> = before.far.iter().zip(&now.far).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!(shared, [false, true, true]);
    }

    #[test]
    fn a_few_take_little() {
        let mut few = Adjacencies::default();
        for (number, len) in [(0, 16), (15, 16), (16, 32), (600, 1024), (1023, 1024), (1024, 1024)] {
            few.set(number, Adjacency::terminal(Kind::Local));
            assert_eq!(few.near.len(), len);
            assert_eq!(few.get(number as usize).unwrap().kind, Kind::Local);
        }
        assert_eq!(few.far.len(), 1);
    }
}
