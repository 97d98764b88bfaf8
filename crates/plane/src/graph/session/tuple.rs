//! The tuple of a session: what its packets have in common.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::translate::Endpoints;
use weir_packet::wire::{icmpv4, icmpv6, protocol};
use weir_table::classify::Fields;

use crate::root::family::Family;

/// Addresses, ports or identifier, protocol and zone of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tuple<K> {
    pub(crate) source: K,
    pub(crate) destination: K,
    /// Source and destination port; the identifier of an ICMP request, twice; 0 without either.
    pub(crate) words: [u16; 2],
    pub(crate) protocol: u8,
    /// 0, or for ICMP: the place of the request's type among the types, from 1, doubled; odd for replies.
    pub(crate) query: u8,
    pub(crate) zone: u16,
}

impl<K: Family> Tuple<K> {
    /// The tuple of a packet with these fields. `None` for a packet that cannot belong to a session: its ports or identifier
    /// are missing, or replies to it have another tuple.
    #[inline]
    pub(crate) fn of(packet: &Packet, fields: &Fields<K>, zone: u16) -> Option<Tuple<K>> {
        let protocol = fields.protocol();
        let (words, query) = match fields.ports() {
            Some((source, destination)) => ([source, destination], 0),
            None => portless::<K>(packet, fields)?,
        };
        let (source, destination) = (fields.source(), fields.destination());
        Some(Tuple { source, destination, words, protocol, query, zone })
    }

    /// The tuple of packets in the other direction.
    #[inline]
    pub(crate) fn reversed(self) -> Tuple<K> {
        let Tuple { source, destination, words: [first, second], query, .. } = self;
        let query = if query == 0 { 0 } else { query ^ 1 };
        Tuple { source: destination, destination: source, words: [second, first], query, ..self }
    }

    /// The tuple as a key of the table.
    #[inline(always)]
    pub(crate) fn key(&self) -> K::FlowKey {
        let [first, second] = self.words.map(u64::from);
        let rest = first << 48 | second << 32 | u64::from(self.zone) << 16 | u64::from(self.protocol) << 8;
        K::flow_key(self.source, self.destination, rest | u64::from(self.query))
    }

    /// The endpoints of packets.
    pub(crate) fn endpoints(&self) -> Endpoints {
        Endpoints { source: self.source.address(), destination: self.destination.address(), ports: self.words }
    }

    /// The type of the ICMP request, if it is one that opened the session.
    pub(crate) fn request_type(&self) -> Option<u8> {
        let place = usize::from(self.query / 2).checked_sub(1)?;
        queries::<K>().get(place).map(|&(request, _)| request)
    }

    /// The tuple is that of an ICMP reply, which opens no session.
    #[inline]
    pub(crate) fn is_reply(&self) -> bool {
        self.query & 1 != 0
    }
}

fn queries<K: Family>() -> &'static [(u8, u8)] {
    if K::IS_V4 { &icmpv4::QUERIES } else { &icmpv6::QUERIES }
}

/// Words and query of a packet without ports.
#[cold]
fn portless<K: Family>(packet: &Packet, fields: &Fields<K>) -> Option<([u16; 2], u8)> {
    query::<K>(fields.protocol(), || {
        let (kind, _) = fields.icmp()?;
        let identifier = match packet.flags().contains(ParseFlags::LATER_FRAGMENT) {
            true => packet.shown().words[1],
            false => identifier(packet.parsed().transport(packet.data()))?,
        };
        Some((kind, identifier))
    })
}

/// The identifier of an ICMP request or reply.
pub(crate) fn identifier(message: &[u8]) -> Option<u16> {
    message.get(4..6).map(|octets| u16::from_be_bytes([octets[0], octets[1]]))
}

/// Words and query of a packet without ports. `message` gives type and identifier of its ICMP message.
pub(crate) fn query<K: Family>(protocol: u8, message: impl FnOnce() -> Option<(u8, u16)>) -> Option<([u16; 2], u8)> {
    if protocol::has_ports(protocol) || protocol == protocol::ESP || protocol::is_extension(protocol) {
        return None;
    }
    if protocol != if K::IS_V4 { protocol::ICMP } else { protocol::ICMPV6 } {
        return Some(([0; 2], 0));
    }
    let (kind, identifier) = message()?;
    let find = |(place, &(request, reply)): (u8, &(u8, u8))| {
        let place = place * 2;
        if kind == request { Some(place) } else { (kind == reply).then_some(place | 1) }
    };
    let query = (1..).zip(queries::<K>()).find_map(find)?;
    Some(([identifier; 2], query))
}
