//! Packets that leave by another zone with sessions than they come in by, or translated: the session of that zone is found for each packet that
//! takes a decision.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};

use super::super::Context;
use super::beside;
use super::holding::holds_on;
use super::tuple::tuple;
use crate::changed::Changed;
use crate::graph::flow::Crossing;
use crate::graph::record::Miss;
use crate::graph::session::{Carried, Membership, Tuple, ZoneOf};
use crate::root::acl::Found;
use crate::root::family::Family;

/// Finds the session of the egress zone of a packet, and notes it with the packet.
///
/// # Errors
/// If the zone decides otherwise about the packet now, or may do so in this vector: the packet walks.
#[inline(never)]
pub(super) fn cross<K: Family>(
    context: &mut Context<'_>,
    packet: &mut Packet,
    (crossing, translation): (Crossing, Option<Membership>),
) -> Result<(), Miss> {
    let root = context.root;
    let egress = root.adjacencies.get(crossing.adjacency as usize);
    let egress =
        egress.and_then(|own| root.interfaces.get(own.interface as usize)).ok_or(Miss::Changed(Changed::NextHop))?;
    // A translated packet belongs to another session as it leaves than as it came in.
    let tuple = match translation {
        Some(member) => beside::leaves_as::<K>(context, member).map(|tuple| Tuple { zone: egress.zone, ..tuple }),
        None => tuple::<K>(packet, egress.zone),
    };
    let tuple = tuple.ok_or(Miss::Changed(Changed::Session))?;
    let member = K::of(&*context.sessions).find(&tuple, context.sessions.bounds(), context.now);
    if member.is_some_and(|member| !holds_on::<K>(context, member)) {
        return Err(Miss::Changed(Changed::Session));
    }
    let sessions = K::of(&*context.sessions);
    let session = member.and_then(|member| Some((member, sessions.get(member.number)?)));
    let permitted_by = match session {
        // It may end in this vector, for a newer one.
        Some((member, _)) if !context.sessions.has_room_for_vector() && sessions.is_half_open(member) => {
            return Err(Miss::New);
        }
        Some((member, session)) => session.permits(member.way, true).map(Found::identity),
        None => None,
    };
    // A packet of a session opens none, whatever rule permits it.
    if member.is_some() != crossing.in_session || permitted_by != crossing.permitted_by {
        return Err(Miss::Changed(Changed::Session));
    }
    member.map_or(Carried::None, Carried::Session).set(packet, ZoneOf::Egress);
    Ok(())
}

/// Whether a session of the egress zone permits a packet; `None`: its session has ended for a newer one, and the next packet opens
/// one again.
pub(super) fn permits<K: Family>(context: &Context<'_>, packet: &Packet) -> Option<bool> {
    let Carried::Session(member) = Carried::of(packet, ZoneOf::Egress) else { return Some(false) };
    let session = K::of(&*context.sessions).get(member.number)?;
    Some(session.permits(member.way, true).is_some())
}

/// Forgets the sessions of egress zones of packets that walk after all.
pub(super) fn forget(vector: &mut Vector, walk: &Indices) {
    walk.places().iter().for_each(|&place| vector[place].set_flow_out(0));
}
