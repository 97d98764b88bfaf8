//! `ip4-nat-in`, `ip6-nat-in`: translate destinations before the route is looked up. `ip4-nat-out`, `ip6-nat-out`: translate
//! sources after it.
//!
//! A packet of a translation is given its addresses by the translation, whatever the rules say. The first packet of one is
//! given them by the first rule that matches it. Packets that weir originates are not translated, nor are packets to groups.
//!
//! A translation is a session: it is confirmed, ages and is bounded as the sessions of access lists are.

mod apply;
mod batch;
mod decide;
mod mss;
mod npt;
mod open;
mod owner;

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, Vector};
use weir_table::classify::NO_RULE;

use super::stage::{self, Stage};
use super::{Context, wire};
use crate::graph::flags::{NAT_NONE, TRANSLATED};
use crate::graph::record::{Fate, NatEffect};
use crate::graph::session::{Membership, NatEventKind, Session, Tuple, Way, identifier, set_translated, translated};
use crate::model::NatVerb;
use crate::reason::Reason;
use crate::root::family::Family;

pub(super) use apply::{addresses, keeps_source, whole};
use batch::{Batch, Member, gather};

/// Translates the destinations of packets that have come in.
pub(super) fn input<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut onward = Indices::new();
    let mut batch = gather::<K>(context, vector, frame, false, &mut onward);
    batch.find(context, vector, false);
    let found = batch.look_up(context, false);
    for (index, &place) in batch.places.places().iter().enumerate() {
        let packet = &mut vector[place];
        let member = batch.member(context, index, false).or_else(|reason| match (reason, found[index]) {
            (Some(reason), _) => Err(reason),
            (None, NO_RULE) => open::through::<K>(context, packet, &batch.fields[index], batch.tuples[index]),
            (None, rule) if is_keep(context, rule) => {
                keep(context, packet, rule);
                Ok(None)
            }
            (None, rule) if let Some(pair) = npt::prefixes(context.root, rule) => {
                npt::input(context, packet, rule, &pair).map(|()| None)
            }
            (None, rule) => {
                open::input::<K>(context, packet, &batch.fields[index], batch.tuples[index], rule).map(Some)
            }
        });
        match member {
            Ok(Some(member)) => {
                note::<K>(context, packet, member);
                lead::<K>(context, packet, member);
                let Some(session) = K::of(&*context.sessions).get(member.number) else {
                    refuse(context, packet, place, Reason::NatUntranslated, found[index]);
                    continue;
                };
                if apply::input(packet, session, member) {
                    packet.add_state(TRANSLATED);
                    let session = *session;
                    record(context, packet, &session, member, false);
                }
                onward.push(place);
            }
            Ok(None) => {
                packet.add_state(NAT_NONE);
                onward.push(place);
            }
            Err(reason) => {
                tell::<K>(context, batch.tuples[index].as_ref(), reason, found[index]);
                refuse(context, packet, place, reason, found[index]);
            }
        }
    }
    onward.sort();
    stage::onward(context, vector, &onward, None, Stage::Lookup, K::IS_V4);
}

/// Translates the sources of packets that leave.
pub(super) fn output<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut onward = Indices::new();
    let mut batch = gather::<K>(context, vector, frame, true, &mut onward);
    batch.find(context, vector, true);
    let found = batch.look_up(context, true);
    for (index, &place) in batch.places.places().iter().enumerate() {
        let packet = &mut vector[place];
        let egress = batch::egress(context, packet);
        let is_new = translated(packet).is_none();
        let has_passed = packet.state().contains(NAT_NONE);
        let member = batch.member(context, index, has_passed).or_else(|reason| match (reason, found[index]) {
            (Some(reason), _) => Err(reason),
            (None, NO_RULE) => Ok(None),
            (None, rule) if is_keep(context, rule) => {
                keep(context, packet, rule);
                Ok(None)
            }
            (None, rule) if let Some(pair) = npt::prefixes(context.root, rule) => {
                npt::output(context, packet, rule, &pair).map(|()| None)
            }
            (None, rule) => {
                open::output::<K>(context, packet, &batch.fields[index], batch.tuples[index], rule, egress).map(Some)
            }
        });
        let mut by_rule = None;
        let member = member.and_then(|member| match member {
            Some(member) => {
                let fields = &batch.fields[index];
                decide::source::<K>(context, (packet, member), fields, egress, &mut by_rule).map(|()| Some(member))
            }
            None => Ok(None),
        });
        match member {
            Ok(Some(member)) => {
                if is_new {
                    note::<K>(context, packet, member);
                }
                let Some(session) = K::of(&*context.sessions).get(member.number) else {
                    refuse(context, packet, place, Reason::NatUntranslated, found[index]);
                    continue;
                };
                if apply::output(packet, session, member) {
                    packet.add_state(TRANSLATED);
                    let session = *session;
                    record(context, packet, &session, member, true);
                }
                mss::clamp::<K>(context, packet, member);
                onward.push(place);
            }
            Ok(None) => onward.push(place),
            Err(reason) => {
                let of_session = || translated(packet).and_then(|member| rule_of::<K>(context, member));
                let rule = by_rule.or_else(of_session).unwrap_or(found[index]);
                tell::<K>(context, batch.tuples[index].as_ref(), reason, rule);
                refuse_by(context, packet, place, reason, rule);
            }
        }
    }
    onward.sort();
    stage::leave_translated(context, vector, &onward, K::IS_V4);
}

/// Gives a packet the addresses and ports back that it came in with, for an error about it.
#[cold]
pub(super) fn undo(context: &Context<'_>, packet: &mut Packet) {
    npt::undo(context.root, packet);
    apply::undo(context, packet);
}

fn is_keep(context: &Context<'_>, rule: u32) -> bool {
    context.root.nat.rules.get(rule as usize).is_some_and(|rule| rule.verb == NatVerb::Keep)
}

fn keep(context: &mut Context<'_>, packet: &Packet, rule: u32) {
    context.root.nat.count(context.worker, rule, wire::counts(packet));
    if context.recorder.is_on()
        && let Some(own) = context.root.nat.rules.get(rule as usize)
    {
        context.record(packet, Fate::Nat { list: own.list, place: own.place, effect: NatEffect::Kept });
    }
}

/// Has the destination of a packet looked up in the routing domain that has it: that of the translation's first packet for replies,
/// that of the rule for others.
fn lead<K: Family>(context: &Context<'_>, packet: &mut Packet, member: Membership) {
    if !context.root.nat.crosses {
        return;
    }
    let Some(session) = K::of(&*context.sessions).get(member.number) else { return };
    let Some(translation) = session.translation else { return };
    let from = batch::zone_of(context, packet.interface());
    let zone = match member.way {
        Way::Reply => session.tuple.zone,
        Way::Original if translation.input => {
            let rule = context.root.nat.rules.get(translation.rule as usize);
            rule.map_or(from, |rule| batch::zone_of(context, rule.interface))
        }
        Way::Original => from,
    };
    if let Some(way) = context.root.nat.way_into(zone, from) {
        packet.set_way(way);
    }
}

/// Notes the translation of a packet, and counts the packet for its rule.
fn note<K: Family>(context: &mut Context<'_>, packet: &mut Packet, member: Membership) {
    set_translated(packet, member);
    let translation = K::of(&*context.sessions).get(member.number).and_then(|session| session.translation);
    if let Some(translation) = translation {
        context.root.nat.count(context.worker, translation.rule, wire::counts(packet));
    }
}

/// Logs, once a minute at most for each rule, that a packet found no port, or that its source has as many translations as it may
/// have.
#[cold]
fn tell<K: Family>(context: &mut Context<'_>, tuple: Option<&Tuple<K>>, reason: Reason, rule: u32) {
    let kind = match reason {
        Reason::NatExhausted => NatEventKind::Exhausted,
        Reason::NatLimit => NatEventKind::Limited,
        _ => return,
    };
    let outside = K::of_mut(context.sessions).exhausted.take();
    let is_limit = kind == NatEventKind::Limited;
    if let Some(tuple) = tuple
        && context.root.nat.is_news(rule, is_limit, context.now)
    {
        K::of_mut(context.sessions).log_refusal(context.root, (tuple, outside), kind, rule);
    }
}

/// Drops a packet, and counts it for the rule of its translation, else for the rule that matches it.
#[cold]
fn refuse(context: &mut Context<'_>, packet: &mut Packet, place: u8, reason: Reason, rule: u32) {
    let of_session = translated(packet).and_then(|member| {
        let v4 = packet.flags().contains(ParseFlags::IP4);
        if v4 { rule_of::<u32>(context, member) } else { rule_of::<u128>(context, member) }
    });
    refuse_by(context, packet, place, reason, of_session.unwrap_or(rule));
}

/// Drops a packet, and counts it for a rule if no port is free, or its source has as many translations as it may have.
#[cold]
fn refuse_by(context: &mut Context<'_>, packet: &mut Packet, place: u8, reason: Reason, rule: u32) {
    let own = context.root.nat.rules.get(rule as usize);
    if let Some(counters) = context.root.nat.counters(context.worker, rule) {
        match reason {
            Reason::NatExhausted => counters.exhausted.add(wire::packets(packet)),
            Reason::NatLimit => counters.limited.add(wire::packets(packet)),
            _ => {}
        }
    }
    if let Some(own) = own {
        let vrf = context.root.interfaces.get(packet.interface() as usize).map_or(0, |interface| interface.vrf);
        context.record(packet, Fate::Nat { list: own.list, place: own.place, effect: NatEffect::Dropped { vrf } });
    }
    context.next.refuse(packet, place, reason);
}

/// Packets of a translation in this direction get their destination on their way in.
fn is_of_input<K: Family>(context: &Context<'_>, member: Membership) -> bool {
    let translation = K::of(&*context.sessions).get(member.number).and_then(|session| session.translation);
    member.way == Way::Reply || translation.is_some_and(|translation| translation.input)
}

fn rule_of<K: Family>(context: &Context<'_>, member: Membership) -> Option<u32> {
    Some(K::of(&*context.sessions).get(member.number)?.translation?.rule)
}

/// Records how a packet was translated.
fn record<K: Family>(
    context: &mut Context<'_>,
    packet: &Packet,
    session: &Session<K>,
    member: Membership,
    output: bool,
) {
    let Some(translation) = session.translation.filter(|_| context.recorder.is_on()) else { return };
    let source_rule = translation.source_by.filter(|_| output).and_then(|by| by.rule());
    let Some(rule) = context.root.nat.rules.get(source_rule.unwrap_or(translation.rule) as usize) else { return };
    let (list, place, reply) = (rule.list, rule.place, member.way == Way::Reply);
    let (source, destination) = apply::endpoints_of(packet);
    let is_query = session.tuple.query != 0 && !member.is_error;
    let identifier = if is_query { identifier(packet.parsed().transport(packet.data())) } else { None };
    let effect = NatEffect::To { output, reply, source, destination, identifier };
    context.record(packet, Fate::Nat { list, place, effect });
}

impl<K: Family> Batch<K> {
    /// The translation that a packet belongs to. An error without a reason: to none. `has_passed`: its destination was looked up
    /// as that of a packet without a translation.
    fn member(
        &self,
        context: &mut Context<'_>,
        index: usize,
        has_passed: bool,
    ) -> Result<Option<Membership>, Option<Reason>> {
        match self.members[index] {
            Member::Of(member) => batch::current::<K>(context, member).map(Some).ok_or(None),
            Member::Lost => Err(Some(Reason::NatUntranslated)),
            // A packet before it in the vector may have opened it.
            Member::None if K::of(&*context.sessions).has_opened() => {
                let found = self.tuples[index].and_then(|tuple| batch::find_one(context, &tuple, &self.fields[index]));
                match found {
                    // The way out is that of another destination.
                    Some(member) if has_passed && is_of_input::<K>(context, member) => {
                        Err(Some(Reason::NatUntranslated))
                    }
                    found => found.map(Some).ok_or(None),
                }
            }
            Member::None => Err(None),
        }
    }
}
