//! The source of the first packet of a translation, when its way out is known.

use weir_packet::packet::Packet;
use weir_table::classify::Fields;

use super::super::Context;
use super::batch::zone_of;
use super::open;
use super::owner::is_own;
use crate::graph::session::{Membership, SourceBy, Tuple, Way, nat};
use crate::model::NatVerb;
use crate::reason::Reason;
use crate::root::family::Family;

/// Decides about the source of a packet, unless that was done for its translation: by the rules of the outside interface that it
/// leaves by. A packet from inside that goes back inside (a hairpin) is subject to those of the outside interface whose rule
/// gave it its destination, as if it left by that. `by_rule` is set to the rule that has no source for it.
pub(super) fn source<K: Family>(
    context: &mut Context<'_>,
    (packet, member): (&Packet, Membership),
    fields: &Fields<K>,
    egress: u32,
    by_rule: &mut Option<u32>,
) -> Result<(), Reason> {
    let Some(session) = K::of(&*context.sessions).get(member.number) else { return Err(Reason::NatUntranslated) };
    let Some(translation) = session.translation else { return Err(Reason::NatUntranslated) };
    if !translation.is_undecided || member.way == Way::Reply || member.is_error {
        return Ok(());
    }
    let rule = context.root.nat.rules.get(translation.rule as usize).ok_or(Reason::NatUntranslated)?;
    let (mut reply, mut source_by, mut is_drawn) = (translation.reply, None, false);
    if translation.input {
        // Replies come in by the zone that the packet leaves by.
        let (own, zone) = (session.tuple.zone, zone_of(context, egress));
        reply.zone = if context.root.nat.links(zone, own) { zone } else { own };
    }
    if translation.input {
        let interface = |number: u32| context.root.interfaces.get(number as usize).map(|own| own.nat);
        let is_outside = |number: u32| interface(number).is_some_and(|own| own.is_outside());
        let (by, is_hairpin) = if is_outside(egress) { (egress, false) } else { (rule.interface, true) };
        let seen = if is_hairpin { session.fields() } else { *fields };
        let chain = interface(by).map_or(crate::root::nat::NONE, |own| own.output);
        // A packet from outside keeps its source on its way in.
        let is_inwards = is_hairpin && is_outside(session.opener.interface);
        let translates =
            |number: &u32| context.root.nat.rules.get(*number as usize).is_some_and(|rule| rule.verb != NatVerb::Keep);
        let found = match rule.verb {
            NatVerb::Both => Some(translation.rule),
            _ if is_inwards => None,
            _ => nat::look_up(context.root, context.guard, chain, &seen).filter(translates),
        };
        if let Some(number) = found.filter(|_| rule.verb != NatVerb::Both) {
            let inside = Tuple { zone: session.tuple.zone, ..translation.out() };
            let drawn = open::drawn(context, packet, number, &inside, reply.zone);
            reply = drawn.inspect_err(|_| *by_rule = Some(number))?.reversed();
            is_drawn = true;
        }
        source_by = (!is_inwards).then_some(SourceBy::new(by, is_hairpin, found));
    }
    if reply.zone != translation.reply.zone && !is_drawn {
        let moved = moved(context, packet, member.number, reply);
        reply = moved.inspect_err(|_| *by_rule = Some(translation.rule))?;
    }
    if !K::of_mut(context.sessions).set_reply(context.root, member.number, reply, source_by) {
        return Err(Reason::SessionLimit);
    }
    if let Some(number) = source_by.and_then(|by| by.rule())
        && !open::count(K::of_mut(context.sessions), context.root, member.number, Some(number))
    {
        return Err(Reason::SessionLimit);
    }
    let own = K::of(&*context.sessions).get(member.number).is_some_and(|session| is_own(context, session, egress));
    if own { Ok(()) } else { Err(Reason::NatWorker) }
}

/// The tuple of replies that had no zone until now, or come in by another zone than the one that the first packet came in by. Another
/// translation may have the tuple there: then the rule gives another source if it gives one.
#[cold]
fn moved<K: Family>(
    context: &mut Context<'_>,
    packet: &Packet,
    number: u32,
    reply: Tuple<K>,
) -> Result<Tuple<K>, Reason> {
    let own = K::of(&*context.sessions);
    if own.is_free(&reply, context.sessions.bounds(), context.now) {
        return Ok(reply);
    }
    let session = own.get(number).ok_or(Reason::NatUntranslated)?;
    let rule = session.translation.ok_or(Reason::NatUntranslated)?.rule;
    let verb = context.root.nat.rules.get(rule as usize).map(|rule| rule.verb);
    if verb != Some(NatVerb::Both) {
        return Err(Reason::NatExhausted);
    }
    let (tuple, out) = (session.tuple, reply.reversed());
    let words = if tuple.query == 0 { [tuple.words[0], out.words[1]] } else { tuple.words };
    let inside = Tuple { destination: out.destination, words, ..tuple };
    Ok(open::drawn(context, packet, rule, &inside, reply.zone)?.reversed())
}
