//! Translated packets that come in by a zone with sessions of access lists. The zone's lookup finds the session, and this the translation,
//! which has the learned decision. A packet takes it if the session decides as it did when that was learned.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::protocol;
use weir_table::flow::Place;

use super::super::Context;
use super::holding::holds_on;
use super::translations::Translations;
use super::tuple::{any_tuple, tuple};
use crate::changed::Changed;
use crate::graph::flags::DECRYPTED;
use crate::graph::flow::{Beside, Decision};
use crate::graph::record::Miss;
use crate::graph::session::{Carried, Membership, Tuple, ZoneOf};
use crate::root::acl::Found;
use crate::root::family::Family;
use crate::root::{NONE, Root, nat};

/// The zone of translations of an interface whose zone of access lists has sessions.
#[inline]
fn zone(root: &Root, interface: u32) -> Option<u16> {
    let own = root.interfaces.get(interface as usize)?;
    Some(own.nat.zone).filter(|&zone| zone != nat::NONE && root.acl.reflects(own.zone))
}

/// Whether a packet comes in by such an interface. Most packets of a vector have the interface of the packet before them.
#[inline]
fn concern(root: &Root, vector: &Vector, frame: &Indices) -> bool {
    let mut last = NONE;
    frame.places().iter().any(|&place| {
        let interface = vector[place].interface();
        interface != std::mem::replace(&mut last, interface) && zone(root, interface).is_some()
    })
}

/// Finds the translations of packets that come in by zones with sessions, whether they may take decisions or walk.
#[inline]
pub(super) fn find<K: Family>(
    context: &Context<'_>,
    vector: &Vector,
    frame: &Indices,
    translations: &mut Translations,
) {
    // The keys of a vector are kilooctets.
    if concern(context.root, vector, frame) {
        find_all::<K>(context, vector, frame, translations);
    }
}

#[inline(never)]
fn find_all<K: Family>(context: &Context<'_>, vector: &Vector, frame: &Indices, translations: &mut Translations) {
    let (mut keys, mut of, mut count) = ([K::FlowKey::default(); VECTOR], [0u8; VECTOR], 0);
    for &place in frame.places() {
        let packet = &vector[place];
        let Some(zone) = zone(context.root, packet.interface()) else { continue };
        if packet.flags().contains(ParseFlags::FRAGMENT) {
            translations.is_partial = true;
            continue;
        }
        // A translation has no SPI, and no bit of the way in.
        let is_usual = packet.protocol() != protocol::ESP && !packet.state().contains(DECRYPTED);
        let usual = if is_usual { tuple::<K>(packet, zone) } else { None };
        if let Some(tuple) = usual.or_else(|| any_tuple::<K>(packet)) {
            (keys[count], of[count]) = (Tuple { zone, ..tuple }.key(), place);
            count += 1;
        }
    }
    let mut found = [Place::NONE; VECTOR];
    let sessions = K::of(&*context.sessions);
    sessions.find_each(&keys[..count], &mut found[..count]);
    for (&place, &at) in of[..count].iter().zip(&found) {
        if let Some(member) = sessions.membership(at, context.sessions.bounds(), context.now) {
            translations.set(place, member);
        }
    }
}

/// Checks that the session with which a translated packet is noted decides as it did when the decision was learned.
///
/// # Errors
/// If it decides otherwise now, or may do so in this vector: the packet walks.
pub(super) fn check<K: Family>(context: &mut Context<'_>, packet: &Packet, beside: Option<Beside>) -> Result<(), Miss> {
    let carried = Carried::of(packet, ZoneOf::Ingress);
    let Some(beside) = beside else {
        return if carried == Carried::Unknown { Ok(()) } else { Err(Miss::Changed(Changed::Session)) };
    };
    let sessions = K::of(&*context.sessions);
    let session = match carried {
        Carried::Unknown => return Err(Miss::Changed(Changed::Session)),
        Carried::None => None,
        Carried::Session(member) => sessions.get(member.number).map(|session| (member, session)),
    };
    // It may end in this vector, for a newer one.
    if session.is_some_and(|(member, _)| !context.sessions.has_room_for_vector() && sessions.is_half_open(member)) {
        return Err(Miss::New);
    }
    if !beside.is_asked {
        return Ok(());
    }
    let permitted_by = session.and_then(|(member, session)| session.permits(member.way, false)).map(Found::identity);
    let decides_so = session.is_some() == beside.in_session && permitted_by == beside.permitted_by;
    let member = session.map(|(member, _)| member);
    if decides_so && member.is_none_or(|member| holds_on::<K>(context, member)) {
        Ok(())
    } else {
        Err(Miss::Changed(Changed::Session))
    }
}

/// Notes the session of the ingress zone in the decision about a translated packet that leaves; `false` if the session decides otherwise
/// about packets behind this one, such as the one that opened it.
pub(super) fn note<K: Family>(context: &Context<'_>, packet: &Packet, place: u8, decision: &mut Decision) -> bool {
    let carried = Carried::of(packet, ZoneOf::Ingress);
    let permits = match carried {
        Carried::Unknown => return true,
        Carried::None => None,
        Carried::Session(member) => {
            let Some(session) = K::of(&*context.sessions).get(member.number) else { return false };
            session.permits(member.way, false).map(Found::identity)
        }
    };
    let permitted = context.notes.is_permitted(place, false);
    decision.come_beside(carried != Carried::None, permitted);
    decision.beside().is_none_or(|beside| !beside.is_asked || beside.permitted_by == permits)
}

/// The tuple that a packet of a translation leaves with.
pub(super) fn leaves_as<K: Family>(context: &Context<'_>, member: Membership) -> Option<Tuple<K>> {
    K::of(&*context.sessions).get(member.number).map(|session| session.ends(member.way).1)
}
