//! The fields of a parsed packet that rules match.
//!
//! Fields are written where they are to be, each from a register. What is built elsewhere and moved there is read back as a
//! whole right after it was written in parts, which stalls the CPU: that cost 20 ticks a packet.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::wire::{protocol, tcp};
use weir_table::classify::{Address, Fields, Fragment, Rule};

use crate::graph::flags::{ENCAPSULATED, ORIGINATED};
use crate::graph::trace::Filter;
use crate::root::NONE;
use crate::root::family::{Family, Header};

/// Returns whether one of the rules of a filter matches a packet. Packets that are no parsed packets of IP match none.
#[cold]
pub(crate) fn matches(filter: &Filter, packet: &Packet) -> bool {
    fn any<K: Family>(rules: &[Rule<K>], packet: &Packet) -> bool {
        let mut fields = Fields::default();
        of::<K>(packet, &mut fields);
        rules.iter().any(|rule| rule.matches(&fields))
    }
    let flags = packet.flags();
    flags.contains(ParseFlags::IP4) && any(&filter.v4, packet)
        || flags.contains(ParseFlags::IP6) && any(&filter.v6, packet)
}

/// Writes the fields of a parsed packet. Fragments other than the first have neither ports nor types nor flags.
#[inline(always)]
pub(super) fn of<K: Family>(packet: &Packet, fields: &mut Fields<K>) {
    // Parsed packets have a whole header.
    let Some(Header { source, destination, dscp }) = K::matched(packet) else { return *fields = Fields::default() };
    write(packet, source, destination, dscp, fields);
}

/// The interface that a packet came by. What the gateway made itself came by none, whichever packet it answers. Without a
/// branch, as answers and others are mixed on their way out.
#[inline(always)]
fn came_by(packet: &Packet) -> u32 {
    const { assert!(NONE == u32::MAX) };
    let own = packet.state().intersects(ORIGINATED | ENCAPSULATED);
    packet.interface() | 0u32.wrapping_sub(own.into())
}

/// All of them.
#[inline(always)]
fn write<K: Address>(packet: &Packet, source: K, destination: K, dscp: u8, fields: &mut Fields<K>) {
    let (flags, protocol) = (packet.flags(), packet.protocol());
    let whole = flags.contains(ParseFlags::L4_HEADER) && !flags.contains(ParseFlags::FRAGMENT);
    let is_tcp = protocol == protocol::TCP;
    if whole
        && (is_tcp || protocol == protocol::UDP)
        && let Some(&[a, b, c, d]) = packet.l4_header()
    {
        // Without a branch on the protocol, which no CPU can guess where both are mixed.
        let own = packet.l4_header::<{ tcp::LENGTH }>().map_or(0, |header| header[tcp::FLAGS]);
        *fields = Fields::new(source, destination, protocol)
            .with_interface(came_by(packet))
            .with_dscp(dscp)
            .with_mark(packet.mark())
            .with_ports(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
            .with_flags_if(is_tcp, own.into());
    } else {
        unusual(packet, source, destination, dscp, fields);
    }
}

/// The same of any packet.
#[cold]
#[inline(never)]
fn unusual<K: Address>(packet: &Packet, source: K, destination: K, dscp: u8, fields: &mut Fields<K>) {
    let (parsed, frame) = (packet.parsed(), packet.data());
    let mut own = Fields::new(source, destination, packet.protocol())
        .with_interface(came_by(packet))
        .with_dscp(dscp)
        .with_mark(packet.mark());
    if let Some((from, to)) = parsed.ports(frame) {
        own = own.with_ports(from, to);
        if let Some(flags) = parsed.tcp_flags(frame) {
            own = own.with_flags(flags.0.into());
        }
    } else if let Some((kind, code)) = parsed.icmp(frame) {
        own = own.with_icmp(kind, code);
    }
    if parsed.flags.contains(ParseFlags::LATER_FRAGMENT) {
        own = own.with_fragment(Fragment::Later);
    } else if parsed.flags.contains(ParseFlags::FRAGMENT) {
        own = own.with_fragment(Fragment::First);
    }
    *fields = own;
}
