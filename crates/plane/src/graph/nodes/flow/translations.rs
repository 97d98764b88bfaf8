//! Translations of packets that may take decisions, and of packets that walk beside them.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::{protocol, tcp};

use super::super::Context;
use super::super::nat;
use super::tally::Sum;
use crate::graph::flags::TRANSLATED;
use crate::graph::flow::Decision;
use crate::graph::record::Miss;
use crate::graph::session::{Membership, set_translated};
use crate::root::Root;
use crate::root::family::Family;
use crate::root::nat::NONE;

/// The translations of a vector's packets, as they came in.
pub(super) struct Translations {
    members: [Option<Membership>; VECTOR],
    /// By place: the learned decision is in force, and any packet of the translation or session may take it.
    settled: [bool; VECTOR],
    count: usize,
    /// A packet walks whose translation is not known: a fragment.
    pub(super) is_partial: bool,
}

impl Translations {
    pub(super) fn new() -> Self {
        Translations { members: [None; VECTOR], settled: [false; VECTOR], count: 0, is_partial: false }
    }

    /// Notes the translation of a packet.
    #[inline]
    pub(super) fn set(&mut self, place: u8, member: Option<Membership>) {
        self.members[usize::from(place)] = member;
    }

    /// Notes that a packet takes the learned decision of its translation or session, if nothing else of its vector concerns it. Once for
    /// each packet.
    #[inline(always)]
    pub(super) fn settle(&mut self, place: u8, is_settled: bool) {
        self.settled[usize::from(place)] = is_settled;
        self.count += usize::from(is_settled);
    }

    /// Packets that do.
    #[inline]
    pub(super) fn settled(&self) -> usize {
        self.count
    }

    /// The learned decision about a packet is in force, and any packet of the translation or session may take it.
    #[inline(always)]
    pub(super) fn is_settled(&self, place: u8) -> bool {
        self.settled[usize::from(place)]
    }

    /// The translation of a packet.
    #[inline]
    pub(super) fn of(&self, place: u8) -> Option<Membership> {
        self.members[usize::from(place)]
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
        return Err(Miss::Changed);
    }
    let after = nat::addresses(session, member.way);
    sessions.learned_mut(member).map(|decision| (decision, after)).ok_or(Miss::New)
}

/// Packets in a row that one rule translates.
pub(super) struct Run {
    rule: u32,
    sum: Sum,
}

impl Run {
    pub(super) fn new() -> Run {
        Run { rule: 0, sum: Sum::default() }
    }

    /// Counts a packet.
    #[inline(always)]
    pub(super) fn add(&mut self, context: &Context<'_>, rule: u32, counts: (u64, u64)) {
        if rule != self.rule {
            self.end(context);
            self.rule = rule;
        }
        self.sum.add_all(counts);
    }

    /// Adds the packets to the counters of their rule.
    #[inline(never)]
    pub(super) fn end(&mut self, context: &Context<'_>) {
        let Sum { packets, octets } = std::mem::take(&mut self.sum);
        if let Some(counters) = context.root.nat.counters(context.worker, self.rule).filter(|_| packets > 0) {
            counters.packets.add(packets);
            counters.octets.add(octets);
        }
    }
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
