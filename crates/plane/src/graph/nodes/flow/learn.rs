//! Learning decisions.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::protocol;
use weir_table::flow::Place;

use super::super::{Context, nat};
use super::tuple::{key, of_interface};
use super::{beside, crossing};
use crate::graph::flags::DECRYPTED;
use crate::graph::flow::{Decision, Unlearned};
use crate::graph::record::{Fate, Learning};
use crate::graph::session::{Carried, Membership, ZoneOf, translated};
use crate::root::Root;
use crate::root::family::Family;
use crate::root::nat::NONE;

/// Learns what was decided about packets that leave. They are not rewritten yet.
#[cold]
#[inline(never)]
pub(in crate::graph::nodes) fn learn<K: Family>(context: &mut Context<'_>, vector: &Vector, frame: &Indices) {
    let epoch = context.root.changes.count();
    let (mut decided, mut refused) = (0, 0);
    for &place in frame.places() {
        let packet = &vector[place];
        let is_noted = context.notes.is_wanted(place);
        let learning = match context.notes.take(place, epoch, packet.interface(), packet.forwarding()) {
            // An answer may lie where the packet was that it answers.
            Some((decision, at)) => Some(learn_one::<K>(context, packet, place, (decision, at))),
            None if is_noted => Some(Learning::Not(Unlearned::New)),
            None => context.notes.unlearned(place).map(|why| {
                explain::<K>(context, packet, why);
                Learning::Not(why)
            }),
        };
        decided += u64::from(learning == Some(Learning::Learned));
        refused += u64::from(learning == Some(Learning::Refused));
        if let Some(learning) = learning.filter(|_| context.recorder.is_on()) {
            context.record(packet, Fate::Learning { interface: packet.interface(), learning });
        }
    }
    context.counters.flows.decided.add(decided);
    context.counters.flows.refused.add(refused);
}

/// Learns what was decided about a packet.
#[cold]
fn learn_one<K: Family>(
    context: &mut Context<'_>,
    packet: &Packet,
    place: u8,
    (mut decision, at): (Decision, Place),
) -> Learning {
    // A session of another zone than that of the ingress is found for each packet, by the tuple that it came in with.
    if packet.flow_out() != 0 {
        if packet.state().contains(DECRYPTED) {
            explain::<K>(context, packet, Unlearned::Zones);
            return Learning::Not(Unlearned::Zones);
        }
        let permitted = context.notes.is_permitted(place, true);
        // The packet that opened the session was not decided about as others of it are.
        if crossing::permits::<K>(context, packet) != Some(permitted) {
            return Learning::Not(Unlearned::New);
        }
        let in_session = matches!(Carried::of(packet, ZoneOf::Egress), Carried::Session(_));
        decision.cross(in_session, permitted);
    }
    // Of a packet that came to its session on its way, not all was decided as for a packet of the session.
    if packet.flow() != context.notes.flow(place) {
        return Learning::Not(Unlearned::New);
    }
    // Decisions with a session are about packets that were in clear.
    let has_session =
        translated(packet).is_some() || matches!(Carried::of(packet, ZoneOf::Ingress), Carried::Session(_));
    if has_session && packet.state().contains(DECRYPTED) {
        return Learning::Excluded;
    }
    let learned = match (translated(packet), Carried::of(packet, ZoneOf::Ingress)) {
        // Packets of ESP have no ports to be found by.
        (Some(_), _) if packet.protocol() == protocol::ESP => return Learning::Excluded,
        // The session has the tuple that the packet came in with.
        // Rules of the ingress lists see it as it came in, those of the egress lists as it leaves.
        (Some(member), carried) if is_whole::<K>(context, packet, member) => {
            if !beside::note::<K>(context, packet, place, &mut decision) {
                return Learning::Not(Unlearned::New);
            }
            if let Carried::Session(beside) = carried {
                K::of_mut(context.sessions).note_unlearned(beside, Unlearned::Nat);
            }
            K::of_mut(context.sessions).learn(member, decision)
        }
        // Rules may translate later packets of its flow, or a translation of another flow may get its tuple.
        (Some(_), _) => return Learning::Not(Unlearned::New),
        (None, _) if nat_zone(context.root, packet.interface()) != NONE => {
            explain::<K>(context, packet, Unlearned::Translation);
            return Learning::Not(Unlearned::Translation);
        }
        (None, Carried::Session(member)) => K::of_mut(context.sessions).learn(member, decision),
        _ => {
            let Some(key) = key::<K>(context.root, packet, of_interface(packet.interface())) else {
                return Learning::Excluded;
            };
            K::of_mut(context.flows).learn(at, key, decision, context.now)
        }
    };
    if let Carried::Session(member) = Carried::of(packet, ZoneOf::Egress) {
        let why = match (translated(packet), Carried::of(packet, ZoneOf::Ingress)) {
            (Some(_), _) => Unlearned::Nat,
            (None, Carried::Session(_)) => Unlearned::Zones,
            (None, _) if learned => Unlearned::Flow,
            (None, _) => Unlearned::New,
        };
        K::of_mut(context.sessions).note_unlearned(member, why);
    }
    if learned { Learning::Learned } else { Learning::Refused }
}

/// Notes why no decision about a packet's direction of its session is learned.
#[cold]
fn explain<K: Family>(context: &mut Context<'_>, packet: &Packet, why: Unlearned) {
    if let Carried::Session(member) = Carried::of(packet, ZoneOf::Ingress) {
        K::of_mut(context.sessions).leave_unlearned(member, why);
    }
    // The packets of a session of the egress zone that go this way come in by the other zone.
    if let Carried::Session(member) = Carried::of(packet, ZoneOf::Egress) {
        K::of_mut(context.sessions).note_unlearned(member, why);
    }
}

/// The zone of an interface's translations.
fn nat_zone(root: &Root, interface: u32) -> u16 {
    root.interfaces.get(interface as usize).map_or(NONE, |interface| interface.nat.zone)
}

/// A packet leaves with all that its translation gives it: by an interface of the routing domain that it came in by or of a linked
/// one, where sources are translated if that has to be.
fn is_whole<K: Family>(context: &Context<'_>, packet: &Packet, member: Membership) -> bool {
    let root = context.root;
    let adjacency = root.adjacencies.get(packet.forwarding() as usize);
    let Some(egress) = adjacency.and_then(|own| root.interfaces.get(own.interface as usize)) else { return false };
    let Some(session) = K::of(&*context.sessions).get(member.number) else { return false };
    !member.is_error
        && root.nat.links(egress.nat.zone, nat_zone(root, packet.interface()))
        && (egress.nat.finds_out || nat::keeps_source(session, member.way))
}
