//! The two address families. What is the same for both is generic over [`Family`], which an address as a number implements:
//! `u32` for IPv4, `u128` for IPv6.

use std::net::IpAddr;

use weir_packet::checksum;
use weir_packet::packet::Packet;
use weir_packet::parse::{self, Seed};
use weir_packet::translate::Change;
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::{ipv4, ipv6};
use weir_table::classify::Address;
use weir_table::flow;
use weir_table::lpm::{AsKey, Key};
use weir_table::recent::Zeroed;

use crate::model::{IpFamily, PerFamily};

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u128 {}
}

/// A value with a part for each family.
pub trait Both {
    /// The part of a family.
    type Part<K: Family>;
    /// The part of IPv4.
    fn v4(&self) -> &Self::Part<u32>;
    /// The part of IPv6.
    fn v6(&self) -> &Self::Part<u128>;
}

/// A value with a part for each family that can be changed.
pub trait BothMut: Both {
    /// The part of IPv4.
    fn v4_mut(&mut self) -> &mut Self::Part<u32>;
    /// The part of IPv6.
    fn v6_mut(&mut self) -> &mut Self::Part<u128>;
}

impl<T> Both for PerFamily<T> {
    type Part<K: Family> = T;

    #[inline(always)]
    fn v4(&self) -> &T {
        &self.v4
    }

    #[inline(always)]
    fn v6(&self) -> &T {
        &self.v6
    }
}

/// The fields of an IP header that policies match.
#[derive(Debug, Clone, Copy)]
pub struct Header<K> {
    /// Source address.
    pub source: K,
    /// Destination address.
    pub destination: K,
    /// Differentiated services code point (RFC 2474, 3).
    pub dscp: u8,
}

/// An address family.
pub trait Family: sealed::Sealed + Key + Address + From<u32> + Into<u128> {
    /// An address as it stands in a packet.
    type Octets: Copy + AsKey<Self> + Into<IpAddr>;
    /// A key of the flow table.
    type FlowKey: flow::Key + Zeroed;
    /// The unspecified address.
    const ZERO_OCTETS: Self::Octets;
    /// The family's name.
    const FAMILY: IpFamily;
    /// The family is IPv4.
    const IS_V4: bool;
    /// The ethertype of the family's packets.
    const ETHERTYPE: u16;
    /// Where the TTL or the hop limit stands in the IP header, in octets.
    const TTL: usize;

    /// The part of this family.
    fn of<B: Both>(both: &B) -> &B::Part<Self>;
    /// The part of this family.
    fn of_mut<B: BothMut>(both: &mut B) -> &mut B::Part<Self>;
    /// Addresses and 64 bits more, as a key of the flow table.
    fn flow_key(source: Self, destination: Self, rest: u64) -> Self::FlowKey;
    /// The key of the flow table with the addresses and the ports of a packet, above 32 bits more. `None` if the headers are not
    /// whole, or the transport header does not follow behind the IP header.
    fn flow_of(packet: &Packet, rest: u32) -> Option<Self::FlowKey>;
    /// Source and destination of a packet that begins with its IP header, if the header is whole.
    fn endpoints(packet: &[u8]) -> Option<(Self, Self)>;
    /// The hash that names the owner of a flow between two endpoints; see [`parse::symmetric_hash`].
    fn owner_hash(seed: &Seed, protocol: u8, a: (Self, u16), b: (Self, u16)) -> u32;
    /// The address is of a group, or the broadcast address of any link.
    fn is_group(self) -> bool;
    /// The number as an address.
    fn address(self) -> IpAddr;
    /// The address with this number, if there is one.
    fn of_number(number: u128) -> Option<Self>;
    /// The address as a number, if it is of this family.
    fn of_address(address: IpAddr) -> Option<Self>;
    /// The source of a parsed packet, whose header is whole.
    fn source(packet: &Packet) -> &Self::Octets;
    /// The matched fields of a parsed packet's header; `None` for any other packet.
    fn matched(packet: &Packet) -> Option<Header<Self>>;
    /// The same, and the ports of a transport header that has them and lies behind the IP header. `None` where not both are whole.
    fn matched_with_ports(packet: &Packet) -> Option<(Header<Self>, [u8; 4])>;
    /// The addresses that are beside a learned decision, if they fit there.
    type Beside: Copy + std::fmt::Debug;
    /// Source and destination, as they are beside a learned decision.
    fn beside(addresses: [Self; 2]) -> Self::Beside;
    /// Changes the endpoints of a packet; see [`Change::apply_v4`]. `addresses` gives addresses that do not fit beside the decision.
    fn change(
        packet: &mut Packet,
        change: &Change,
        beside: Self::Beside,
        addresses: impl FnOnce() -> [Self; 2],
    ) -> bool;
    /// Decrements the TTL or hop limit. False, with nothing changed, if it is 1 or 0.
    fn decrement_above_one(packet: &mut Packet) -> bool;
}

impl Family for u32 {
    type Octets = [u8; 4];
    type FlowKey = [u64; 2];
    const ZERO_OCTETS: [u8; 4] = [0; 4];
    const FAMILY: IpFamily = IpFamily::V4;
    const IS_V4: bool = true;
    const ETHERTYPE: u16 = ethertype::IPV4;
    const TTL: usize = ipv4::TTL;
    /// As they stand in a packet.
    type Beside = [u8; 8];

    #[inline(always)]
    fn beside([source, destination]: [u32; 2]) -> [u8; 8] {
        (u64::from(source) << 32 | u64::from(destination)).to_be_bytes()
    }

    #[inline(always)]
    fn change(packet: &mut Packet, change: &Change, beside: [u8; 8], _: impl FnOnce() -> [u32; 2]) -> bool {
        change.apply_v4(packet, beside)
    }

    #[inline(always)]
    fn of<B: Both>(both: &B) -> &B::Part<u32> {
        both.v4()
    }

    #[inline(always)]
    fn of_mut<B: BothMut>(both: &mut B) -> &mut B::Part<u32> {
        both.v4_mut()
    }

    #[inline(always)]
    fn flow_key(source: u32, destination: u32, rest: u64) -> [u64; 2] {
        [u64::from(source) << 32 | u64::from(destination), rest]
    }

    #[inline(always)]
    fn flow_of(packet: &Packet, rest: u32) -> Option<[u64; 2]> {
        let (header, ports) = packet.headers::<{ ipv4::LENGTH }, 4>()?;
        let addresses = header.last_chunk::<8>()?;
        Some([u64::from_be_bytes(*addresses), u64::from(u32::from_be_bytes(*ports)) << 32 | u64::from(rest)])
    }

    fn endpoints(packet: &[u8]) -> Option<(u32, u32)> {
        let [.., a, b, c, d, e, f, g, h] = *packet.first_chunk::<{ ipv4::LENGTH }>()?;
        Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])))
    }

    fn owner_hash(seed: &Seed, protocol: u8, a: (u32, u16), b: (u32, u16)) -> u32 {
        parse::symmetric_hash_v4(seed, protocol, (a.0.into(), a.1), (b.0.into(), b.1))
    }

    #[inline]
    fn is_group(self) -> bool {
        self >= 0xe000_0000
    }

    fn address(self) -> IpAddr {
        IpAddr::V4(self.into())
    }

    fn of_number(number: u128) -> Option<u32> {
        number.try_into().ok()
    }

    fn of_address(address: IpAddr) -> Option<u32> {
        if let IpAddr::V4(address) = address { Some(address.to_bits()) } else { None }
    }

    #[inline(always)]
    fn source(packet: &Packet) -> &[u8; 4] {
        address_at::<4, { ipv4::LENGTH }>(packet, ipv4::SOURCE)
    }

    #[inline(always)]
    fn matched(packet: &Packet) -> Option<Header<u32>> {
        packet.l3_header().map(matched_v4)
    }

    #[inline(always)]
    fn matched_with_ports(packet: &Packet) -> Option<(Header<u32>, [u8; 4])> {
        packet.headers().map(|(header, ports)| (matched_v4(header), *ports))
    }

    #[inline(always)]
    fn decrement_above_one(packet: &mut Packet) -> bool {
        let Some(header) = packet.l3_header_mut::<{ ipv4::LENGTH }>() else { return false };
        header[ipv4::TTL] > 1 && checksum::decrement_ttl(header).is_some()
    }
}

impl Family for u128 {
    type Octets = [u8; 16];
    type FlowKey = [u64; 5];
    const ZERO_OCTETS: [u8; 16] = [0; 16];
    const FAMILY: IpFamily = IpFamily::V6;
    const IS_V4: bool = false;
    const ETHERTYPE: u16 = ethertype::IPV6;
    const TTL: usize = ipv6::HOP_LIMIT;
    type Beside = ();

    #[inline(always)]
    fn beside(_: [u128; 2]) {}

    #[inline(always)]
    fn change(packet: &mut Packet, change: &Change, (): (), addresses: impl FnOnce() -> [u128; 2]) -> bool {
        let [source, destination] = addresses();
        change.apply_v6(packet, source, destination)
    }

    #[inline(always)]
    fn of<B: Both>(both: &B) -> &B::Part<u128> {
        both.v6()
    }

    #[inline(always)]
    fn of_mut<B: BothMut>(both: &mut B) -> &mut B::Part<u128> {
        both.v6_mut()
    }

    #[inline(always)]
    fn flow_key(source: u128, destination: u128, rest: u64) -> [u64; 5] {
        [(source >> 64) as u64, source as u64, (destination >> 64) as u64, destination as u64, rest]
    }

    #[inline(always)]
    fn flow_of(packet: &Packet, rest: u32) -> Option<[u64; 5]> {
        let (header, ports) = packet.headers::<{ ipv6::LENGTH }, 4>()?;
        let word =
            |at: usize| header[ipv6::SOURCE + at..].first_chunk().map_or(0, |octets| u64::from_be_bytes(*octets));
        let rest = u64::from(u32::from_be_bytes(*ports)) << 32 | u64::from(rest);
        Some([word(0), word(8), word(16), word(24), rest])
    }

    fn endpoints(packet: &[u8]) -> Option<(u128, u128)> {
        let header = packet.first_chunk::<{ ipv6::LENGTH }>()?;
        let at = |at: usize| header[at..].first_chunk::<16>().map(|octets| u128::from_be_bytes(*octets));
        Some((at(ipv6::SOURCE)?, at(ipv6::DESTINATION)?))
    }

    fn owner_hash(seed: &Seed, protocol: u8, a: (u128, u16), b: (u128, u16)) -> u32 {
        parse::symmetric_hash_v6(seed, protocol, (a.0.into(), a.1), (b.0.into(), b.1))
    }

    #[inline]
    fn is_group(self) -> bool {
        self >> 120 == 0xff
    }

    fn address(self) -> IpAddr {
        IpAddr::V6(self.into())
    }

    fn of_number(number: u128) -> Option<u128> {
        Some(number)
    }

    fn of_address(address: IpAddr) -> Option<u128> {
        if let IpAddr::V6(address) = address { Some(address.to_bits()) } else { None }
    }

    #[inline(always)]
    fn source(packet: &Packet) -> &[u8; 16] {
        address_at::<16, { ipv6::LENGTH }>(packet, ipv6::SOURCE)
    }

    #[inline(always)]
    fn matched(packet: &Packet) -> Option<Header<u128>> {
        packet.l3_header().map(matched_v6)
    }

    #[inline(always)]
    fn matched_with_ports(packet: &Packet) -> Option<(Header<u128>, [u8; 4])> {
        packet.headers().map(|(header, ports)| (matched_v6(header), *ports))
    }

    #[inline(always)]
    fn decrement_above_one(packet: &mut Packet) -> bool {
        let Some(header) = packet.l3_header_mut::<{ ipv6::LENGTH }>() else { return false };
        header[ipv6::HOP_LIMIT] > 1 && checksum::decrement_hop_limit(header).is_some()
    }
}

#[inline(always)]
fn matched_v4(header: &[u8; ipv4::LENGTH]) -> Header<u32> {
    let [_, tos, .., a, b, c, d, e, f, g, h] = *header;
    let addresses = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    Header { source: (addresses >> 32) as u32, destination: addresses as u32, dscp: tos >> 2 }
}

#[inline(always)]
fn matched_v6(header: &[u8; ipv6::LENGTH]) -> Header<u128> {
    let at = |at: usize| header[at..].first_chunk::<16>().map_or(0, |octets| u128::from_be_bytes(*octets));
    // Version, eight bits of traffic class of which the upper six count, flow label.
    let dscp = (header[0] << 4 | header[1] >> 4) >> 2;
    Header { source: at(ipv6::SOURCE), destination: at(ipv6::DESTINATION), dscp }
}

/// `N` octets at a place of an IP header of `HEADER` octets; zeros where there is no whole header.
#[inline(always)]
fn address_at<const N: usize, const HEADER: usize>(packet: &Packet, at: usize) -> &[u8; N] {
    let header = packet.l3_header::<HEADER>();
    header.and_then(|header| header.get(at..)?.first_chunk()).unwrap_or(&[0; N])
}
