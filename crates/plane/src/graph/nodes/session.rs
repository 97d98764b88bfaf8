//! The ends of packets' ways, where their sessions learn that they have passed.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;

use super::Context;
use crate::graph::flags::{COUNTED, NAT_HELD, NPT_DESTINATION, NPT_SOURCE, TRANSLATED};
use crate::graph::record::Role;
use crate::graph::session::{Carried, Membership, Way, ZoneOf, translated};
use crate::root::Root;
use crate::root::acl::Found;
use crate::root::family::Family;

/// A packet leaves, or has arrived.
#[inline(always)]
pub(super) fn pass(context: &mut Context<'_>, packet: &Packet) {
    if packet.translation() > 0 || packet.flow().max(packet.flow_out()) > 1 {
        pass_sessions(context, packet);
    }
}

/// The same for a packet that is translated, or counts for a session.
#[inline(never)]
fn pass_sessions(context: &mut Context<'_>, packet: &Packet) {
    if let Some(member) = translated(packet)
        && !packet.state().contains(NAT_HELD)
    {
        match packet.flags().contains(ParseFlags::IP4) {
            true => context.sessions.pass_translated::<u32>(packet, member, context.now),
            false => context.sessions.pass_translated::<u128>(packet, member, context.now),
        }
    }
    if packet.flow().max(packet.flow_out()) <= 1 {
        return;
    }
    // A packet that was held counts for its session already; not for one of the zone that it leaves by.
    let zones =
        if packet.state().contains(COUNTED) { &[ZoneOf::Egress][..] } else { &[ZoneOf::Ingress, ZoneOf::Egress] };
    if packet.flags().contains(ParseFlags::IP4) {
        context.sessions.pass::<u32>(packet, zones, context.now);
    } else {
        context.sessions.pass::<u128>(packet, zones, context.now);
    }
}

/// The session of a packet in the zone of the interface that it leaves by is the one that it came in with: it came in by this zone, with the
/// addresses and ports that it has.
#[inline(always)]
pub(super) fn is_of_ingress(root: &Root, packet: &Packet, zone: u16) -> bool {
    !packet.state().intersects(TRANSLATED | NPT_SOURCE | NPT_DESTINATION)
        && root.interfaces.get(packet.interface() as usize).is_some_and(|own| own.zone == zone)
}

/// A packet is held: it counts for its session now, and looks for it again when it goes on.
#[cold]
pub(super) fn hold(context: &mut Context<'_>, packet: &mut Packet) {
    pass(context, packet);
    has_passed(packet);
}

/// A packet that has passed goes on: what it counts for already does not count it again.
#[cold]
pub(super) fn has_passed(packet: &mut Packet) {
    if packet.flow() > 1 {
        packet.add_state(COUNTED);
    }
    if packet.translation() > 0 {
        packet.add_state(NAT_HELD);
    }
    Carried::clear(packet);
}

/// The part of a packet in the session by which it passed lists, if it did.
#[cold]
pub(super) fn role(context: &Context<'_>, packet: &Packet, output: bool, found: Found) -> Option<Role> {
    if packet.flags().contains(ParseFlags::IP4) {
        role_in::<u32>(context, packet, output, found)
    } else {
        role_in::<u128>(context, packet, output, found)
    }
}

fn role_in<K: Family>(context: &Context<'_>, packet: &Packet, output: bool, found: Found) -> Option<Role> {
    let zone = if output && packet.flow_out() != 0 { ZoneOf::Egress } else { ZoneOf::Ingress };
    let Carried::Session(Membership { number, way, is_error }) = Carried::of(packet, zone) else { return None };
    let session = K::of(&*context.sessions).get(number).filter(|own| own.permits(way, output) == Some(found))?;
    Some(match way {
        _ if is_error => Role::Error,
        Way::Reply => Role::Reply,
        Way::Original if session.is_unconfirmed() => Role::Opens,
        Way::Original => Role::Original,
    })
}
