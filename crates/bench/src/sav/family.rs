//! The differences of the families: addresses of the gateway under test, and its input frames.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_packet::checksum::{self, pseudo_v4, pseudo_v6};
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::{MacAddress, ethernet, ipv4, ipv6, protocol, udp};
use weir_plane::family::Family;
use weir_table::lpm::Prefix;
use weir_table::lpm::sample::Draw;

/// Neighbours on each link; routes lead to them in turn.
pub(super) const NEIGHBORS: u32 = 64;
/// Prefixes that packets go to.
pub(super) const DESTINATIONS: u32 = 1000;

/// The sender of the frames, which is not resolved.
pub(super) const SENDER: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

/// A family.
pub(super) trait Ip: Draw + Family {
    /// As reports name it.
    const NAME: &'static str;
    /// Octets of a frame, from the Ethernet header to the end of the payload.
    const SIZE: usize;
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
    fn frame(to: MacAddress, source: Self, destination: Self, ports: (u16, u16)) -> Vec<u8>;
}

/// A prefix, as models have it.
pub(super) fn net<K: Ip>(prefix: &Prefix<K>) -> IpNet {
    IpNet::new(prefix.address().address(), prefix.len()).expect("a prefix is no longer than its addresses")
}

impl Ip for u32 {
    const NAME: &'static str = "ipv4";
    /// 64 with the frame check sequence.
    const SIZE: usize = 60;

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

    fn frame(to: MacAddress, source: u32, destination: u32, ports: (u16, u16)) -> Vec<u8> {
        let length = (Self::SIZE - ethernet::LENGTH) as u16;
        let (source, destination) = (source.into(), destination.into());
        let header = ipv4::Fields {
            tos: 0,
            total_length: length,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: protocol::UDP,
            source,
            destination,
        };
        let length = length - ipv4::LENGTH as u16;
        let sum = pseudo_v4(source, destination, protocol::UDP, length);
        frame(to, ethertype::IPV4, &header.emit(), ports, length, sum)
    }
}

impl Ip for u128 {
    const NAME: &'static str = "ipv6";
    /// As 3.2 of the draft has them.
    const SIZE: usize = 78;

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

    fn frame(to: MacAddress, source: u128, destination: u128, ports: (u16, u16)) -> Vec<u8> {
        let length = (Self::SIZE - ethernet::LENGTH - ipv6::LENGTH) as u16;
        let (source, destination) = (source.into(), destination.into());
        let header = ipv6::Fields {
            traffic_class: 0,
            flow_label: 0,
            payload_length: length,
            next_header: protocol::UDP,
            hop_limit: 64,
            source,
            destination,
        };
        let sum = pseudo_v6(source, destination, protocol::UDP, u32::from(length));
        frame(to, ethertype::IPV6, &header.emit(), ports, length, sum)
    }
}

/// A frame of these headers, and a datagram of `length` octets of UDP.
fn frame(
    to: MacAddress,
    ethertype: u16,
    header: &[u8],
    (source, destination): (u16, u16),
    length: u16,
    pseudo: checksum::Sum,
) -> Vec<u8> {
    let mut datagram = udp::Fields { source, destination, length, checksum: 0 }.emit().to_vec();
    datagram.resize(usize::from(length), 0);
    let sum = checksum::udp(pseudo.bytes(&datagram).checksum());
    datagram[udp::CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
    let link = ethernet::Fields { destination: to, source: SENDER, ethertype }.emit();
    [&link[..], header, &datagram].concat()
}

/// An address as packets have it.
pub(super) fn address<K: Ip>(key: K) -> IpAddr {
    key.address()
}
