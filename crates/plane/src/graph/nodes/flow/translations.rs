//! Translations of packets that may take decisions, and of packets that walk beside them.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::{protocol, tcp};

use super::super::Context;
use super::super::nat;
use crate::changed::Changed;
use crate::graph::flags::TRANSLATED;
use crate::graph::flow::Decision;
use crate::graph::record::Miss;
use crate::graph::session::{Membership, set_translated};
use crate::root::Root;
use crate::root::family::Family;
use crate::root::nat::NONE;

/// The translations of a vector's packets, as they came in, and the sessions of others that are settled.
pub(super) struct Translations {
    /// By place: the value of the table of tuples, where `kinds` says that there is one.
    values: [u32; VECTOR],
    kinds: [u8; VECTOR],
    /// Packets that are settled.
    count: usize,
    /// A packet walks whose translation is not known: a fragment.
    pub(super) is_partial: bool,
}

/// The value is that of a translation.
const TRANSLATION: u8 = 1;
/// The learned decision is in force, and any packet of the translation or session may take it.
const SETTLED: u8 = 2;

impl Translations {
    pub(super) fn new() -> Self {
        Translations { values: [0; VECTOR], kinds: [0; VECTOR], count: 0, is_partial: false }
    }

    /// Notes the translation or session of a packet by its value in the table of tuples, and whether the packet takes the learned decision
    /// if nothing else of its vector concerns it. Once for each packet.
    #[inline(always)]
    pub(super) fn note(&mut self, place: u8, value: u32, translates: bool, is_settled: bool) {
        let kind = (u8::from(translates) * TRANSLATION) | (u8::from(is_settled) * SETTLED);
        (self.values[usize::from(place)], self.kinds[usize::from(place)]) = (value, kind);
        self.count += usize::from(is_settled);
    }

    /// Notes the translation of a packet that was noted with a session before: what is learned about it is learned with the translation.
    #[inline]
    pub(super) fn set(&mut self, place: u8, member: Membership) {
        let index = usize::from(place);
        self.count -= usize::from(self.kinds[index] & SETTLED != 0);
        (self.values[index], self.kinds[index]) = (member.value(), TRANSLATION);
    }

    /// Packets that do.
    #[inline]
    pub(super) fn settled(&self) -> usize {
        self.count
    }

    /// The learned decision about a packet is in force, and any packet of the translation or session may take it.
    #[inline(always)]
    pub(super) fn is_settled(&self, place: u8) -> bool {
        self.kinds[usize::from(place)] & SETTLED != 0
    }

    /// The translation or session of a settled packet, and whether it is a translation.
    #[inline(always)]
    pub(super) fn settled_by(&self, place: u8) -> (Membership, bool) {
        let (value, kind) = (self.values[usize::from(place)], self.kinds[usize::from(place)]);
        (Membership::of_value(value), kind & TRANSLATION != 0)
    }

    /// The translation of a packet.
    #[inline]
    pub(super) fn of(&self, place: u8) -> Option<Membership> {
        let is_translation = self.kinds[usize::from(place)] & TRANSLATION != 0;
        is_translation.then(|| Membership::of_value(self.values[usize::from(place)]))
    }
}

/// Some packet comes in by an interface of a routing domain with translation.
#[inline]
pub(super) fn concern(root: &Root, vector: &Vector, frame: &Indices) -> bool {
    let translates = |place: &u8| {
        let interface = root.interfaces.get(vector[*place].interface() as usize);
        interface.is_some_and(|interface| interface.nat.zone != NONE)
    };
    root.nat.is_active() && frame.places().iter().any(translates)
}

/// The decision about packets of a translation, which a packet may take if it holds, and the addresses that the packet gets.
pub(super) fn decision_to_check<'c, K: Family>(
    context: &'c mut Context<'_>,
    packet: &Packet,
    member: Membership,
) -> Result<(&'c mut Decision, [K; 2]), Miss> {
    let has_room = context.sessions.has_room_for_vector();
    let version = context.root.nat.version;
    let sessions = K::of_mut(context.sessions);
    let session = sessions.get(member.number).ok_or(Miss::New)?;
    // It may end in this vector, for a newer one.
    if !has_room && sessions.is_half_open(member) {
        return Err(Miss::New);
    }
    let is_tcp = packet.protocol() == protocol::TCP;
    let flags = packet.l4_header::<{ tcp::LENGTH }>().filter(|_| is_tcp).map(|header| header[tcp::FLAGS]);
    if !session.progress.has(member.way, flags) {
        return Err(Miss::New);
    }
    // The rules have changed: the node that translates matches the translation's opener again.
    if session.version != version {
        return Err(Miss::Changed(Changed::Session));
    }
    let after = nat::addresses(session, member.way);
    sessions.learned_mut(member).map(|decision| (decision, after)).ok_or(Miss::New)
}

/// Notes the translation of a packet that was translated by its learned decision, and is to be rewritten by another node.
#[cold]
pub(super) fn note(packet: &mut Packet, member: Membership) {
    set_translated(packet, member);
    packet.add_state(TRANSLATED);
}

/// Translates a packet that takes a decision, and counts it for the rule; `false` if the translation has ended.
pub(super) fn take<K: Family>(
    context: &Context<'_>,
    packet: &mut Packet,
    member: Membership,
    counts: (u64, u64),
) -> bool {
    let Some(session) = K::of(&*context.sessions).get(member.number) else { return false };
    set_translated(packet, member);
    if let Some(translation) = &session.translation {
        context.root.nat.count(context.worker, translation.rule, counts);
    }
    nat::whole(packet, session, member);
    true
}
