//! Fragments, where rules match transport headers: later fragments get the fields of their first fragment, and are held
//! until it arrives ([`crate::graph::fragments`]).

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::reassembly::Piece;
use weir_packet::wire::{protocol, tcp};
use weir_table::classify::{Address, Fields, Fragment};

use super::super::Context;
use super::super::scope::scoped;
use super::super::stage::Stage;
use crate::graph::flags::ORIGINATED;
use crate::graph::fragments::{First, Later, Upper};
use crate::graph::record::{Fate, Fragmented};
use crate::graph::session;
use crate::reason::Reason;
use crate::root::family::Family;

/// The treatment of a fragment.
pub(super) enum Way {
    /// Rules see it as it is.
    Ask,
    /// Rules see it with what the first fragment of its datagram says.
    Given(First),
    /// It waits for the first fragment of its datagram, which this is about.
    Wait(Piece),
    /// It is dropped.
    Refuse,
}

/// Where rules look at a fragment.
#[derive(Clone, Copy)]
pub(in crate::graph::nodes) struct At {
    /// The stage at which it goes on if it has to wait. Policies before that decide once, not again after the wait.
    pub(in crate::graph::nodes) stage: Stage,
    /// It is leaving.
    pub(in crate::graph::nodes) output: bool,
    /// The number of the interface whose rules look at it.
    pub(in crate::graph::nodes) interface: u32,
}

/// Returns the fields of a fragment for rules; `None` if it is held or dropped.
#[cold]
#[inline(never)]
pub(in crate::graph::nodes) fn take<K: Family>(
    context: &mut Context<'_>,
    packet: &mut Packet,
    place: u8,
    needs_transport: bool,
    fields: Fields<K>,
    at: At,
) -> Option<Fields<K>> {
    let way = way(context, packet, needs_transport, fields);
    note::<K>(context, packet, at, &way);
    match way {
        Way::Ask => return Some(fields),
        Way::Given(first) => {
            packet.set_shown(first.shown());
            return Some(given(fields, first));
        }
        Way::Refuse => context.next.refuse(packet, place, Reason::AclFragment),
        Way::Wait(piece) => {
            at.stage.resumes(packet);
            match context.fragments.wait(piece.key, packet.take(), context.now) {
                Ok(()) => context.counters.held_fragments.add(1),
                Err(refused) => {
                    *packet = refused;
                    record::<K>(context, packet, at, Fragmented::NoRoom);
                    context.next.refuse(packet, place, Reason::AclFragment);
                }
            }
        }
    }
    None
}

/// Refuses the other fragments of the datagram of a packet that a list drops though its rule permits it.
#[cold]
pub(super) fn refuse(context: &mut Context<'_>, packet: &Packet) {
    let flags = packet.flags();
    if flags.contains(ParseFlags::FRAGMENT)
        && !flags.contains(ParseFlags::LATER_FRAGMENT)
        && let Ok(piece) = Piece::new(&packet.parsed(), packet.l3())
    {
        let piece = scoped(context, packet, piece);
        context.fragments.refuse(&piece.key);
    }
}

fn note<K: Family>(context: &mut Context<'_>, packet: &Packet, at: At, way: &Way) {
    let fragmented = match way {
        Way::Ask => return,
        Way::Given(first) => Fragmented::Given(first.protocol, first.upper),
        Way::Wait(_) => Fragmented::Waits,
        Way::Refuse => Fragmented::Refused,
    };
    record::<K>(context, packet, at, fragmented);
}

fn record<K: Family>(context: &mut Context<'_>, packet: &Packet, at: At, fragmented: Fragmented) {
    // The record of a packet does not continue with the gateway's answer to it.
    if context.recorder.is_on() && !packet.state().contains(ORIGINATED) {
        let At { interface, output, .. } = at;
        context.record(packet, Fate::Fragment { interface, output, v4: K::IS_V4, fragmented });
    }
}

/// Decides the treatment of a fragment.
fn way<K: Address>(context: &mut Context<'_>, packet: &Packet, needs_transport: bool, fields: Fields<K>) -> Way {
    let is_later = packet.flags().contains(ParseFlags::LATER_FRAGMENT);
    if let Some(first) = First::of_shown(packet.shown()) {
        // It was given before: by another direction's lists, or by the worker that it came from.
        return if is_later { Way::Given(first) } else { Way::Ask };
    }
    let piece = Piece::new(&packet.parsed(), packet.l3());
    // In IPv6 a later fragment may not even know its protocol.
    let hidden = piece.as_ref().is_ok_and(|piece| !piece.is_v4() && protocol::is_extension(piece.protocol));
    if !needs_transport && !hidden {
        return Way::Ask;
    }
    let Ok(piece) = piece else { return Way::Refuse };
    let piece = scoped(context, packet, piece);
    if !is_later {
        let first = first(packet, &piece, fields);
        let taken = first.and_then(|first| context.fragments.first(piece.key, first, context.now).ok());
        return taken.map_or(Way::Refuse, |()| Way::Ask);
    }
    match context.fragments.later(&piece.key, piece.offset, context.now) {
        Later::Of(first) => Way::Given(first),
        Later::Wait => Way::Wait(piece),
        Later::Refuse => Way::Refuse,
    }
}

/// Returns the fields of a first fragment; `None` if the header that rules match is not complete. The rest of it would
/// come where no rule looks (RFC 1858, 3).
fn first<K: Address>(packet: &Packet, piece: &Piece, fields: Fields<K>) -> Option<First> {
    let flags = packet.flags();
    let upper = if let Some((from, to)) = fields.ports() {
        Upper::Ports(from, to, fields.flags().map(|flags| flags as u8)) // they were given as an octet
    } else if let Some((kind, code)) = fields.icmp() {
        Upper::Icmp(kind, code)
    } else {
        Upper::Bare
    };
    let (needed, there) = match packet.protocol() {
        protocol::TCP => (tcp::LENGTH, flags.contains(ParseFlags::L4_HEADER)),
        other if protocol::has_ports(other) => (4, flags.contains(ParseFlags::L4)),
        protocol::ICMP if piece.is_v4() => (2, flags.contains(ParseFlags::L4)),
        protocol::ICMPV6 if !piece.is_v4() => (2, flags.contains(ParseFlags::L4)),
        _ => (0, true),
    };
    let data = packet.l3_offset() + usize::from(piece.headers);
    let end = packet.l4_offset().checked_sub(data).map_or(0, |at| at + needed);
    // Headers lie within the packet.
    let message = packet.parsed();
    let identifier = session::identifier(message.transport(packet.data())).unwrap_or(0);
    there.then_some(First { protocol: packet.protocol(), upper, identifier, end: end as u16 })
}

/// A later fragment as rules see it, with what the first says.
fn given<K: Address>(fields: Fields<K>, first: First) -> Fields<K> {
    let own = Fields::new(fields.source(), fields.destination(), first.protocol)
        .with_interface(fields.interface())
        .with_dscp(fields.dscp())
        .with_mark(fields.mark())
        .with_fragment(Fragment::Later);
    match first.upper {
        Upper::Ports(from, to, None) => own.with_ports(from, to),
        Upper::Ports(from, to, Some(flags)) => own.with_ports(from, to).with_flags(flags.into()),
        Upper::Icmp(kind, code) => own.with_icmp(kind, code),
        Upper::Bare => own,
    }
}
