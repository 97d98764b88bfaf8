//! The first packet of a translation.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_table::classify::Fields;

use super::super::{Context, wire};
use super::batch::zone_of;
use crate::graph::session::nat::{self, Draw};
use crate::graph::session::{
    Admission, MOST_NOTED, Mapping, Membership, NatEventKind, OfFamily, Opener, Progress, Translation, Tuple, Way,
};
use crate::model::NatVerb;
use crate::reason::Reason;
use crate::root::Root;
use crate::root::family::Family;
use crate::root::nat::NONE;
use crate::root::nat_limit::SharedLimit;

/// Opens the translation that a rule gives a packet which has come in.
pub(super) fn input<K: Family>(
    context: &mut Context<'_>,
    packet: &Packet,
    fields: &Fields<K>,
    tuple: Option<Tuple<K>>,
    number: u32,
) -> Result<Membership, Reason> {
    let (tuple, opener, progress) = admit(context, packet, fields, tuple, number)?;
    let rule = context.root.nat.rules.get(number as usize).ok_or(Reason::NatUntranslated)?;
    let wanted = nat::destination(rule, &tuple).ok_or(Reason::NatExhausted)?;
    let reply = match rule.verb {
        NatVerb::Both => drawn(context, packet, number, &wanted, wanted.zone)?.reversed(),
        _ => halfway(context, &wanted)?,
    };
    let begun = Translation::begun(reply, (number, rule), packet.interface());
    let translation = Translation { input: true, ..begun };
    open(context, packet, tuple, translation, progress, opener)
}

/// Opens a translation for a packet which has come in for the outside endpoint of a mapping; `None`: the packet is for none,
/// or the mapping does not let it in.
pub(super) fn through<K: Family>(
    context: &mut Context<'_>,
    packet: &Packet,
    fields: &Fields<K>,
    tuple: Option<Tuple<K>>,
) -> Result<Option<Membership>, Reason> {
    let Some(mapped) = tuple.filter(|tuple| tuple.query == 0) else { return Ok(None) };
    let Some(&Mapping { inside, interface, number: mapping, .. }) = K::of(&*context.sessions).mapping_of(&mapped)
    else {
        return Ok(None);
    };
    let at = (context.root, context.guard);
    let Some((number, wanted)) = nat::through(at, &Opener::of(fields), &mapped, interface, inside) else {
        return Ok(None);
    };
    let Some(rule) = context.root.nat.rules.get(number as usize) else { return Ok(None) };
    // A rule with another target gives the answers another mapping: the endpoint would get that one's number.
    if rule.mapping.is_none_or(|by| by.number.get() != mapping) {
        return Ok(None);
    }
    let (tuple, opener, progress) = admit(context, packet, fields, tuple, number)?;
    let begun = Translation::begun(halfway(context, &wanted)?, (number, rule), interface);
    let translation = Translation { input: true, through: true, ..begun };
    open(context, packet, tuple, translation, progress, opener).map(Some)
}

/// The tuple of replies until the source of a packet is decided. If another translation has it, it is in no zone: the source may be
/// translated, too, so that packets to two outside addresses of a server meet only here.
fn halfway<K: Family>(context: &Context<'_>, wanted: &Tuple<K>) -> Result<Tuple<K>, Reason> {
    let reply = wanted.reversed();
    let is_free = |reply: &Tuple<K>| K::of(&*context.sessions).is_free(reply, context.sessions.bounds(), context.now);
    [reply, Tuple { zone: NONE, ..reply }].into_iter().find(is_free).ok_or(Reason::NatExhausted)
}

/// Opens the translation that a rule gives a packet which leaves.
pub(super) fn output<K: Family>(
    context: &mut Context<'_>,
    packet: &Packet,
    fields: &Fields<K>,
    tuple: Option<Tuple<K>>,
    number: u32,
    egress: u32,
) -> Result<Membership, Reason> {
    let (tuple, opener, progress) = admit(context, packet, fields, tuple, number)?;
    let rule = context.root.nat.rules.get(number as usize).ok_or(Reason::NatUntranslated)?;
    let out = drawn(context, packet, number, &tuple, zone_of(context, egress))?;
    let translation = Translation::begun(out.reversed(), (number, rule), egress);
    open(context, packet, tuple, translation, progress, opener)
}

/// The tuple with a source that a rule gives, in the zone that its packets leave by.
pub(super) fn drawn<K: Family>(
    context: &mut Context<'_>,
    packet: &Packet,
    number: u32,
    tuple: &Tuple<K>,
    zone: u16,
) -> Result<Tuple<K>, Reason> {
    let rule = context.root.nat.rules.get(number as usize).ok_or(Reason::NatUntranslated)?;
    let own = K::of(&*context.sessions);
    if rule.limit.as_ref().is_some_and(|limit| own.is_at_limit(limit, tuple)) {
        return Err(Reason::NatLimit);
    }
    let sessions = (own, context.sessions.bounds(), context.now);
    match nat::draw(sessions, (context.seed, context.random), rule, (tuple, zone)) {
        Draw::Found(tuple) => Ok(tuple),
        Draw::Exhausted(address) => {
            K::of_mut(context.sessions).exhausted = address;
            let target = rule.source.as_ref().zip(address);
            if let (Some((target, address)), Some(counters)) = (target, rule.counters.get(context.worker)) {
                let packets = wire::packets(packet);
                counters.exhausted_by.count(&target.spans, address.address(), tuple.protocol, packets);
            }
            Err(Reason::NatExhausted)
        }
    }
}

/// Whether a packet may open a translation by a rule.
fn admit<K: Family>(
    context: &mut Context<'_>,
    packet: &Packet,
    fields: &Fields<K>,
    tuple: Option<Tuple<K>>,
    rule: u32,
) -> Result<(Tuple<K>, Opener, Progress), Reason> {
    let tuple = tuple.filter(|_| !packet.flags().contains(ParseFlags::LATER_FRAGMENT));
    let tuple = tuple.ok_or(Reason::NatUntranslated)?;
    let opener = Opener::of(fields);
    let progress = match OfFamily::admit(&tuple, &opener, context.sessions.bounds()) {
        Ok(progress) => progress,
        Err(Admission::MidStream) => return Err(Reason::SessionPickup),
        Err(_) => return Err(Reason::NatUntranslated),
    };
    // A SYN from the other side of a translation that ends, and which it is no packet of: a SYN is easily forged, and ends none.
    if K::of(&*context.sessions).find(&tuple, context.sessions.bounds(), context.now).is_some() {
        return Err(Reason::NatExhausted);
    }
    K::of_mut(context.sessions).end_tuple(&tuple);
    let limits = [
        (Reason::NatVrfLimit, context.root.nat.vrf_limit(tuple.zone)),
        (Reason::NatListLimit, of_list(context.root, rule)),
    ];
    for (reason, limit) in limits {
        if limit.is_some_and(SharedLimit::is_reached) {
            refuse_for(context, packet, &tuple, reason, rule);
            return Err(reason);
        }
    }
    Ok((tuple, opener, progress))
}

/// The limit on the translations of a rule's list.
fn of_list(root: &Root, rule: u32) -> Option<&SharedLimit> {
    root.nat.list_limit(root.nat.rules.get(rule as usize)?.id.list)
}

/// Counts a packet that is beyond the limit of its routing domain or list, and logs it once a minute at most.
#[cold]
fn refuse_for<K: Family>(context: &mut Context<'_>, packet: &Packet, tuple: &Tuple<K>, reason: Reason, rule: u32) {
    let (limit, kind) = match reason {
        Reason::NatVrfLimit => (context.root.nat.vrf_limit(tuple.zone), NatEventKind::VrfLimited),
        Reason::NatListLimit => (of_list(context.root, rule), NatEventKind::ListLimited),
        _ => return,
    };
    let Some(SharedLimit { counters, .. }) = limit else { return };
    if let Some(limited) = counters.limited.get(context.worker) {
        limited.add(wire::packets(packet));
    }
    if counters.is_news(context.now) {
        K::of_mut(context.sessions).log_refusal(context.root, (tuple, None), kind, rule);
    }
}

fn open<K: Family>(
    context: &mut Context<'_>,
    packet: &Packet,
    tuple: Tuple<K>,
    translation: Translation<K>,
    progress: Progress,
    opener: Opener,
) -> Result<Membership, Reason> {
    let rule = translation.rule;
    let Context { root, guard, sessions, counters, now, rules, .. } = context;
    if !sessions.make_room((root, guard), *rules, *now) {
        return Err(Reason::SessionLimit);
    }
    let at = (root.nat.version, *now);
    match K::of_mut(*sessions).open_translation(tuple, translation, progress, opener, at) {
        Ok(number) if number < MOST_NOTED && count(K::of_mut(*sessions), root, number, translation.source_rule()) => {
            counters.sessions.opened.add(1);
            if let Some(counters) = root.nat.counters(context.worker, rule) {
                counters.opened.add(1);
            }
            Ok(Membership { number, way: Way::Original, is_error: false })
        }
        Ok(number) => {
            K::of_mut(*sessions).withdraw(number);
            Err(Reason::SessionLimit)
        }
        // Other workers have reached a limit since the packet was admitted.
        Err(reason) => {
            refuse_for(context, packet, &tuple, reason, rule);
            Err(reason)
        }
    }
}

/// Counts a translation for the limit of the rule that gave its source, if it has one, and holds its mappings. False if there
/// is no room.
pub(super) fn count<K: Family>(own: &mut OfFamily<K>, root: &Root, number: u32, rule: Option<u32>) -> bool {
    let limit = rule.and_then(|rule| root.nat.rules.get(rule as usize)?.limit);
    let Some(by) = own.get(number).and_then(|session| session.translation).map(|of| of.mapped_by(root)) else {
        return false;
    };
    own.hold_mappings(number, by) && limit.is_none_or(|limit| own.count_for(number, Some(limit.number)))
}
