//! The fields of a parsed packet that rules match.
//!
//! Fields are written where they are to be, each from a register. What is built elsewhere and moved there is read back as a
//! whole right after it was written in parts, which stalls the CPU: that cost 20 ticks a packet.

use weir_packet::packet::{Packet, State};
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::{protocol, tcp};
use weir_table::classify::{Fields, Fragment, Rule};

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

/// Properties that some packet of a batch has.
pub(super) struct Common {
    /// Parser flags that some packet has.
    pub(super) flags: ParseFlags,
    /// Some packet has state of the graph, was in a tunnel, or goes on at a later stage.
    pub(super) is_odd: bool,
    /// The interface that all packets came by, if it is one.
    pub(super) interface: Option<u32>,
}

/// Writes the fields of parsed packets, and the octets from the IP header on.
// A function of its own: inside of a node's loop, its values do not fit into the registers.
#[inline(never)]
pub(super) fn gather<K: Family>(
    vector: &Vector,
    places: &Indices,
    fields: &mut [Fields<K>; VECTOR],
    octets: &mut [u32; VECTOR],
) -> Common {
    let (mut flags, mut is_odd) = (ParseFlags::empty(), false);
    let interface = places.places().first().map_or(NONE, |&first| vector[first].interface());
    let mut differs = 0;
    for ((&place, fields), octets) in places.places().iter().zip(fields).zip(octets) {
        let packet = &vector[place];
        flags |= packet.flags();
        differs |= packet.interface() ^ interface;
        is_odd |= (packet.resume() | packet.nesting() != 0) | (packet.state() != State::EMPTY);
        *octets = (packet.len() - packet.l3_offset()) as u32;
        of::<K>(packet, fields);
    }
    Common { flags, is_odd, interface: (differs == 0).then_some(interface) }
}

/// Returns whether all packets may have come by one interface: the first and the last did. Most vectors have packets of one, and no
/// others have to be sorted out.
#[inline(always)]
pub(super) fn may_be_of_one(vector: &Vector, places: &Indices) -> bool {
    match places.places() {
        [first, .., last] => vector[*first].interface() == vector[*last].interface(),
        _ => true,
    }
}

/// Writes the sources of parsed packets. Returns whether all of them came by an interface.
#[inline(never)]
pub(super) fn sources<K: Family>(
    vector: &Vector,
    places: &Indices,
    interface: u32,
    sources: &mut [K::Octets; VECTOR],
) -> bool {
    let mut differs = 0;
    for (&place, source) in places.places().iter().zip(sources) {
        let packet = &vector[place];
        differs |= packet.interface() ^ interface;
        *source = *K::source(packet);
    }
    differs == 0
}

/// Writes the fields of a parsed packet. Fragments other than the first have neither ports nor types nor flags.
#[inline(always)]
pub(super) fn of<K: Family>(packet: &Packet, fields: &mut Fields<K>) {
    let (flags, protocol) = (packet.flags(), packet.protocol());
    let is_whole = flags.contains(ParseFlags::L4_HEADER) & !flags.contains(ParseFlags::FRAGMENT);
    let is_tcp = protocol == protocol::TCP;
    if is_whole & (is_tcp | (protocol == protocol::UDP))
        && let Some((header, [a, b, c, d])) = K::matched_with_ports(packet)
    {
        let Header { source, destination, dscp } = header;
        // Without a branch on the protocol, which no CPU can guess where both are mixed.
        let own = packet.l4_header::<{ tcp::LENGTH }>().map_or(0, |header| header[tcp::FLAGS]);
        *fields = Fields::new(source, destination, protocol)
            .with_interface(came_by(packet))
            .with_dscp(dscp)
            .with_mark(if packet.is_marked() { packet.mark() } else { None })
            .with_ports(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
            .with_flags_if(is_tcp, own.into());
    } else {
        unusual(packet, fields);
    }
}

/// The interface that a packet came by. What the gateway made itself came by none, whichever packet it answers. Without a
/// branch, as answers and others are mixed on their way out.
#[inline(always)]
pub(super) fn came_by(packet: &Packet) -> u32 {
    const { assert!(NONE == u32::MAX) };
    let own = packet.state().intersects(ORIGINATED | ENCAPSULATED);
    packet.interface() | 0u32.wrapping_sub(own.into())
}

/// The same of any packet.
#[cold]
#[inline(never)]
fn unusual<K: Family>(packet: &Packet, fields: &mut Fields<K>) {
    // Parsed packets have a whole header.
    let Some(Header { source, destination, dscp }) = K::matched(packet) else { return *fields = Fields::default() };
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
