//! What rules on fields ask of a parsed packet.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::wire::{ipv4, ipv6, protocol, tcp};
use weir_table::classify::{Address, Fields, Fragment};

/// The fields of an IPv4 packet. Fragments other than the first have neither ports nor types nor flags.
#[inline(always)]
pub(super) fn ipv4(packet: &Packet) -> Fields<u32> {
    // Parsed packets have a whole header.
    let Some(header) = packet.l3_header::<{ ipv4::LENGTH }>() else { return Fields::default() };
    let [_, tos, .., a, b, c, d, e, f, g, h] = *header;
    let addresses = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let fields = Fields::new((addresses >> 32) as u32, addresses as u32, packet.protocol()).with_dscp(tos >> 2);
    rest(packet, fields)
}

/// As of IPv4.
#[inline(always)]
pub(super) fn ipv6(packet: &Packet) -> Fields<u128> {
    let Some(header) = packet.l3_header::<{ ipv6::LENGTH }>() else { return Fields::default() };
    let at = |at: usize| header[at..].first_chunk::<16>().map_or(0, |octets| u128::from_be_bytes(*octets));
    // Version, eight bits of traffic class of which the upper six count, flow label.
    let dscp = (header[0] << 4 | header[1] >> 4) >> 2;
    let fields = Fields::new(at(ipv6::SOURCE), at(ipv6::DESTINATION), packet.protocol()).with_dscp(dscp);
    rest(packet, fields)
}

/// With the interface, and what the transport header has.
#[inline(always)]
fn rest<K: Address>(packet: &Packet, fields: Fields<K>) -> Fields<K> {
    let fields = fields.with_interface(packet.interface());
    let (flags, protocol) = (packet.flags(), packet.protocol());
    let whole = flags.contains(ParseFlags::L4_HEADER) && !flags.contains(ParseFlags::FRAGMENT);
    if whole
        && (protocol == protocol::TCP || protocol == protocol::UDP)
        && let Some(ports) = packet.l4_header::<4>()
    {
        // Without a branch on the protocol, which no CPU can guess where both are mixed.
        let own = packet.l4_header::<{ tcp::LENGTH }>().map_or(0, |header| header[tcp::FLAGS]);
        let fields = of_ports(fields, *ports);
        let with = fields.with_flags(own.into());
        return if protocol == protocol::TCP { with } else { fields };
    }
    unusual(packet, fields)
}

#[inline(always)]
fn of_ports<K: Address>(fields: Fields<K>, [a, b, c, d]: [u8; 4]) -> Fields<K> {
    fields.with_ports(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

/// The same of any packet.
#[cold]
#[inline(never)]
fn unusual<K: Address>(packet: &Packet, mut fields: Fields<K>) -> Fields<K> {
    let (parsed, frame) = (packet.parsed(), packet.data());
    if let Some((from, to)) = parsed.ports(frame) {
        fields = fields.with_ports(from, to);
        if let Some(flags) = parsed.tcp_flags(frame) {
            fields = fields.with_flags(flags.0.into());
        }
    } else if let Some((kind, code)) = parsed.icmp(frame) {
        fields = fields.with_icmp(kind, code);
    }
    if parsed.flags.contains(ParseFlags::LATER_FRAGMENT) {
        fields.with_fragment(Fragment::Later)
    } else if parsed.flags.contains(ParseFlags::FRAGMENT) {
        fields.with_fragment(Fragment::First)
    } else {
        fields
    }
}
