//! The tuples of packets that may take decisions, and of packets that walk.

use weir_packet::packet::{Packet, State};
use weir_packet::parse::ParseFlags;
use weir_packet::wire::tcp::{self, Flags};
use weir_packet::wire::{ethernet, protocol};
use weir_table::classify::Fields;

use super::super::stage::Stage;
use super::super::{esp, fields};
use crate::graph::flags::DECRYPTED;
use crate::graph::flow::Varying;
use crate::graph::session::{self, Tuple};
use crate::root::Root;
use crate::root::family::Family;

/// Flags of packets that walk.
const UNUSUAL: ParseFlags =
    ParseFlags::from_bits(ParseFlags::FRAGMENT.bits() | ParseFlags::OPTIONS.bits() | ParseFlags::L2_GROUP.bits());
/// The same, and the flag of a transport header.
const UNUSUAL_OR_L4: ParseFlags = ParseFlags::from_bits(UNUSUAL.bits() | ParseFlags::L4_HEADER.bits());

/// The flags of TCP that decide whether a packet walks.
const SYN_FIN_RST_ACK: u8 = Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0 | Flags::ACK.0;

/// A packet may take a decision, as far as its flags and notes say, except for its transport header.
#[inline(always)]
fn is_whole(packet: &Packet) -> bool {
    !packet.flags().intersects(UNUSUAL) & (packet.state() == State::EMPTY) & (packet.l3_offset() >= ethernet::LENGTH)
}

/// The same with a transport header.
#[inline(always)]
fn is_usual(packet: &Packet) -> bool {
    let flags = packet.flags().bits() & UNUSUAL_OR_L4.bits();
    (flags == ParseFlags::L4_HEADER.bits())
        & (packet.state() == State::EMPTY)
        & (packet.l3_offset() >= ethernet::LENGTH)
}

/// A packet that was decrypted may take a decision, as far as its flags and notes say, except for its transport header.
#[inline]
fn is_whole_inside(packet: &Packet) -> bool {
    !packet.flags().intersects(UNUSUAL) && packet.state() == DECRYPTED
}

/// Bits beside the query, in the tuple of a flow of decrypted packets: they enter by the interface of their SA, or by that of the
/// packet of ESP and behind validation. Which SA it was makes no difference: a flow keeps its decision when its SA is replaced.
const INSIDE: u8 = 1 << 6;
const BEHIND_VALIDATION: u8 = 1 << 7;

/// The bits of a packet's way in.
#[inline]
fn way_in(packet: &Packet) -> u8 {
    if !packet.state().contains(DECRYPTED) {
        return 0;
    }
    if Stage::of(packet) == Stage::Acl { BEHIND_VALIDATION } else { INSIDE }
}

/// A packet came in behind validation: it was decrypted, and its SA has no interface.
#[inline(always)]
pub(super) fn is_behind_validation(packet: &Packet) -> bool {
    Stage::of(packet) == Stage::Acl
}

/// The tuple of a packet that may take a decision. `None`: it walks.
#[inline(always)]
pub(super) fn tuple<K: Family>(packet: &Packet, zone: u16) -> Option<Tuple<K>> {
    if !is_whole(packet) && !is_whole_inside(packet) {
        return None;
    }
    let header = K::matched(packet)?;
    let protocol = packet.protocol();
    if protocol == protocol::TCP && !is_between(packet) {
        return None;
    }
    let (words, query) = if protocol::has_ports(protocol) {
        let &[a, b, c, d] = packet.l4_header().filter(|_| packet.flags().contains(ParseFlags::L4_HEADER))?;
        ([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])], 0)
    } else {
        portless::<K>(packet, protocol)?
    };
    let (source, destination) = (header.source, header.destination);
    Some(Tuple { source, destination, words, protocol, query: query | way_in(packet), zone })
}

/// A packet of TCP neither begins nor ends a connection.
#[inline(always)]
fn is_between(packet: &Packet) -> bool {
    let header = packet.l4_header::<{ tcp::LENGTH }>();
    header.is_some_and(|header| header[tcp::FLAGS] & SYN_FIN_RST_ACK == Flags::ACK.0)
}

/// The key of the tuple of a packet that may take a decision. `None`: it walks.
#[inline(always)]
pub(super) fn key<K: Family>(root: &Root, packet: &Packet, zone: u16) -> Option<K::FlowKey> {
    let mut key = K::FlowKey::default();
    key_into::<K>(root, packet, zone, &mut key).then_some(key)
}

/// The key of the tuple of a usual packet of UDP or TCP, which was not decrypted and may take a decision. `None`: [`key_into`] may
/// give one.
#[inline(always)]
pub(super) fn usual_key<K: Family>(packet: &Packet, zone: u16) -> Option<K::FlowKey> {
    let protocol = packet.protocol();
    let is_plain = protocol == protocol::UDP || protocol == protocol::TCP && is_between(packet);
    let usual = match is_plain && is_usual(packet) {
        true => K::flow_of(packet, u32::from(zone) << 16 | u32::from(protocol) << 8)?,
        false => return None,
    };
    debug_assert!(Some(usual) == tuple::<K>(packet, zone).map(|tuple| tuple.key()), "two keys of one packet");
    Some(usual)
}

/// Writes the key of the tuple of a packet that may take a decision; gives whether there is one.
#[inline(always)]
pub(super) fn key_into<K: Family>(root: &Root, packet: &Packet, zone: u16, key: &mut K::FlowKey) -> bool {
    let Some(usual) = usual_key::<K>(packet, zone) else { return key_of_any::<K>(root, packet, zone, key) };
    *key = usual;
    true
}

#[cold]
#[inline(never)]
fn key_of_any<K: Family>(root: &Root, packet: &Packet, zone: u16, key: &mut K::FlowKey) -> bool {
    // Packets of ESP for the gateway arrive, whatever is known of their flow.
    if packet.protocol() == protocol::ESP && esp::is_for_gateway(root, packet) {
        return false;
    }
    let Some(tuple) = tuple::<K>(packet, zone) else { return false };
    *key = tuple.key();
    true
}

/// The interface in the place of the zone, in the key of a flow without a session. Interfaces whose numbers differ by 2^16 share
/// entries, which name the whole number.
#[inline(always)]
pub(super) fn of_interface(interface: u32) -> u16 {
    interface as u16
}

/// The fields of a packet that may take a decision which vary.
#[inline(always)]
pub(super) fn varying<K: Family>(packet: &Packet) -> Varying {
    let dscp = K::matched(packet).map_or(0, |header| header.dscp);
    Varying::of_packet(packet, packet.protocol() == protocol::TCP, dscp)
}

/// Words and query of a packet without ports that may take a decision; `None`: it walks. ESP has the SPI in place of ports, ICMP
/// the identifier; packets of other protocols are of one flow if their addresses are.
#[cold]
fn portless<K: Family>(packet: &Packet, protocol: u8) -> Option<([u16; 2], u8)> {
    let parsed = packet.parsed();
    let message = parsed.transport(packet.data());
    if protocol == protocol::ESP {
        let &[a, b, c, d] = message.first_chunk::<4>()?;
        return Some(([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])], 0));
    }
    // Codes are no part of a tuple, and others than 0 are rare.
    let read = || match message {
        &[kind, 0, ..] if packet.flags().contains(ParseFlags::L4_HEADER) => Some((kind, session::identifier(message)?)),
        _ => None,
    };
    session::query::<K>(protocol, read)
}

/// The tuple of a packet, whether it may take a decision or walks.
#[cold]
pub(super) fn any_tuple<K: Family>(packet: &Packet) -> Option<Tuple<K>> {
    if packet.flags().contains(ParseFlags::LATER_FRAGMENT) {
        return None;
    }
    let mut own = Fields::default();
    fields::of::<K>(packet, &mut own);
    Tuple::of(packet, &own, 0)
}
