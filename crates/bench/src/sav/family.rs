//! The differences of the families: addresses of the gateway under test, and its input frames.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_packet::wire::{MacAddress, ethernet, ipv4, ipv6, udp};
use weir_plane::family::Family;
use weir_table::lpm::Prefix;
use weir_table::lpm::sample::Draw;

use crate::frames;

/// Neighbours on each link; routes lead to them in turn.
pub(super) const NEIGHBORS: u32 = 64;
/// Prefixes that packets go to.
pub(super) const DESTINATIONS: u32 = 1000;

/// A family.
pub(super) trait Ip: Draw + Family {
    /// As reports name it.
    const NAME: &'static str;
    /// Octets of a frame, from the Ethernet header to the end of the payload.
    const SIZE: usize;
    /// The length of an IP header without extensions, in octets.
    const HEADER: usize;
    /// Parts of the address space that no source is in: special addresses, and what the gateway and the destinations have.
    fn taken() -> Vec<Prefix<Self>>;
    /// The first address of the link of an interface, and the length of its prefix: that of the gateway.
    fn link(interface: u32) -> (Self, u8);
    /// The address of a neighbour on the link of an interface.
    fn neighbor(interface: u32, number: u32) -> Self;
    /// A prefix that packets go to, of [`DESTINATIONS`].
    fn destination(number: u32) -> Prefix<Self>;
    /// The prefixes of a list that are of this family.
    fn of(prefixes: &crate::prefixes::Prefixes) -> &[Prefix<Self>];
    /// A datagram in a frame of [`Ip::SIZE`] octets.
    fn frame(to: MacAddress, source: Self, destination: Self, ports: (u16, u16)) -> Vec<u8> {
        let octets = Self::SIZE - ethernet::LENGTH - Self::HEADER - udp::LENGTH;
        frames::udp(to, (address(source), address(destination)), ports, octets)
    }
}

/// A prefix, as models have it.
pub(super) fn net<K: Ip>(prefix: &Prefix<K>) -> IpNet {
    IpNet::new(prefix.address().address(), prefix.len()).expect("a prefix is no longer than its addresses")
}

impl Ip for u32 {
    const NAME: &'static str = "ipv4";
    /// 64 with the frame check sequence.
    const SIZE: usize = 60;
    const HEADER: usize = ipv4::LENGTH;

    fn taken() -> Vec<Prefix<u32>> {
        let blocks = ["0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"];
        blocks.iter().map(|block| block.parse().expect("a constant prefix")).collect()
    }

    fn link(interface: u32) -> (u32, u8) {
        ((10 << 24) + (interface << 16) + 1, 16)
    }

    fn neighbor(interface: u32, number: u32) -> u32 {
        debug_assert!(number < NEIGHBORS);
        (10 << 24) + (interface << 16) + (1 << 8) + number
    }

    fn destination(number: u32) -> Prefix<u32> {
        Prefix::new((10 << 24) + (64 << 16) + (number << 12), 20).expect("20 bits are not too many")
    }

    fn of(prefixes: &crate::prefixes::Prefixes) -> &[Prefix<u32>] {
        &prefixes.v4
    }
}

impl Ip for u128 {
    const NAME: &'static str = "ipv6";
    /// As 3.2 of the draft has them.
    const SIZE: usize = 78;
    const HEADER: usize = ipv6::LENGTH;

    fn taken() -> Vec<Prefix<u128>> {
        vec!["2001:db8::/32".parse().expect("a constant prefix")]
    }

    fn link(interface: u32) -> (u128, u8) {
        ((0x2001_0db8 << 96) + (u128::from(interface) << 80) + 1, 64)
    }

    fn neighbor(interface: u32, number: u32) -> u128 {
        debug_assert!(number < NEIGHBORS);
        (0x2001_0db8 << 96) + (u128::from(interface) << 80) + (1 << 16) + u128::from(number)
    }

    fn destination(number: u32) -> Prefix<u128> {
        let address = (0x2001_0db8 << 96) + (0x8000 << 80) + (u128::from(number) << 80);
        Prefix::new(address, 48).expect("48 bits are not too many")
    }

    fn of(prefixes: &crate::prefixes::Prefixes) -> &[Prefix<u128>] {
        &prefixes.v6
    }
}

/// An address as packets have it.
pub(super) fn address<K: Ip>(key: K) -> IpAddr {
    key.address()
}
