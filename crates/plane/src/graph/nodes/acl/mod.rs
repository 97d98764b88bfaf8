//! `ip4-acl-in`, `ip6-acl-in`, `ip4-acl-out`, `ip6-acl-out`: may a packet come in by its interface, and leave by the other?
//!
//! Packets are grouped by chain, not by interface: most gateways have the same lists on many interfaces, so that most
//! vectors are looked up as one. Packets of one interface keep their order.
//!
//! Egress lists apply to each packet once, also if it was held: the lookup sends here the packets that leave, and a held
//! packet passes the lookup again. Egress lists apply to packets that weir originates, too.

mod batch;
mod direction;
mod disposition;
pub(super) mod fragments;
mod session;

use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_table::classify::Consulted;

use super::stage::Stage;
use super::{Context, fields, wire};
use crate::graph::batch::{Batch, Batches, Kept};
use crate::graph::flow::Unlearned;
use crate::root::Root;
use crate::root::acl::{self, Action, Chain, Found, PAGE, Special};
use crate::root::family::Family;

use batch::look_up_some;
use direction::Direction;
pub(super) use direction::{Input, Output};
use fragments::At;

pub(super) fn run<K: Family, D: Direction>(
    context: &mut Context<'_>,
    batches: &mut Batches,
    vector: &mut Vector,
    frame: &Indices,
) {
    let kept = K::of_mut(batches);
    if !D::OUTPUT && fields::may_be_of_one(vector, frame) && of_one::<K, D>(context, kept, vector, frame) {
        return;
    }
    let mut others = group::<K, D>(context, kept, vector, frame);
    while !others.is_empty() {
        others = group::<K, D>(context, kept, vector, &others);
    }
}

/// The chain of an interface, [`acl::NONE`] without one.
#[inline]
fn number<K: Family, D: Direction>(root: &Root, interface: u32) -> u16 {
    root.interfaces.get(interface as usize).map_or(acl::NONE, |interface| *K::of(D::chains(interface)))
}

/// The lists that packets of a batch pass.
#[derive(Clone, Copy)]
struct Lists {
    /// The interface, where it is the same for all.
    interface: Option<u32>,
    /// The zone whose sessions permit packets; `None`: no rule of the zone opens any.
    zone: Option<u16>,
}

/// The zone of an interface, if rules of the zone open sessions.
#[inline]
fn zone(root: &Root, interface: u32) -> Option<u16> {
    let zone = root.interfaces.get(interface as usize)?.zone;
    root.acl.reflects(zone).then_some(zone)
}

/// The least chain and zone of a frame's packets. Where packets open sessions that others belong to, or rules limit packets of
/// several chains, groups have an order that does not depend on which packets are there.
#[cold]
fn least<K: Family, D: Direction>(root: &Root, vector: &Vector, frame: &Indices) -> (u16, Option<u16>) {
    let adjacencies = root.adjacencies.view();
    let interface = |place: u8| D::interface(adjacencies, &vector[place]);
    let runs = frame.places().chunk_by(|&one, &other| interface(one) == interface(other));
    let of = |run: &[u8]| (number::<K, D>(root, interface(run[0])), zone(root, interface(run[0])));
    runs.map(of).min().unwrap_or((acl::NONE, None))
}

/// Applies the lists of an interface to packets that all came by it; false, with nothing done: they did not.
#[inline(never)]
fn of_one<K: Family, D: Direction>(
    context: &mut Context<'_>,
    Kept { batch, found, .. }: &mut Kept<K>,
    vector: &mut Vector,
    frame: &Indices,
) -> bool {
    let root = context.root;
    batch.places.clone_from(frame);
    let common = fields::gather(vector, &batch.places, &mut batch.fields, &mut batch.octets);
    let Some(interface) = common.interface else { return false };
    let lists = Lists { interface: Some(interface), zone: zone(root, interface) };
    match K::of(&root.acl).get(usize::from(number::<K, D>(root, interface))) {
        Some(chain) => filter::<K, D>(context, vector, (batch, found), chain, (lists, common.flags)),
        None => pass::<K, D>(context, vector, batch, (lists, common.flags)),
    }
    true
}

/// Sends on packets that pass no list; they count for their sessions.
#[cold]
fn pass<K: Family, D: Direction>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    batch: &mut Batch<K>,
    (lists, flags): (Lists, ParseFlags),
) {
    D::onward(context, vector, &batch.places, lists.interface, K::IS_V4);
    let Some(zone) = lists.zone else { return };
    if flags.contains(ParseFlags::FRAGMENT) {
        // The ports of others are not known here.
        let places = std::mem::take(&mut batch.places);
        for (index, &place) in places.places().iter().enumerate() {
            if !vector[place].flags().contains(ParseFlags::LATER_FRAGMENT) {
                batch.fields[batch.places.len()] = batch.fields[index];
                batch.places.push(place);
            }
        }
    }
    session::find::<K, D>(context, vector, batch, zone);
}

/// Applies the lists to the packets that have the same chain and zone: those of the first packet, or the least where zones have
/// sessions or rules limit packets. Gives the others.
#[inline(never)]
fn group<K: Family, D: Direction>(
    context: &mut Context<'_>,
    Kept { batch, found, .. }: &mut Kept<K>,
    vector: &mut Vector,
    frame: &Indices,
) -> Indices {
    let root = context.root;
    let adjacencies = root.adjacencies.view();
    let (mut mine, mut others) = (Indices::new(), Indices::new());
    let Some(&first) = frame.places().first() else { return others };
    let own = |interface: u32| (number::<K, D>(root, interface), zone(root, interface));
    let lead = if root.acl.limits || root.acl.reflects_anywhere() {
        least::<K, D>(root, vector, frame)
    } else {
        own(D::interface(adjacencies, &vector[first]))
    };
    let (mut only, mut all) = (None, true);
    let runs = frame.places().chunk_by(|&one, &other| D::are_alike(adjacencies, &vector[one], &vector[other]));
    for run in runs {
        let by = D::interface(adjacencies, &vector[run[0]]);
        if own(by) == lead {
            all &= *only.get_or_insert(by) == by;
            mine.append(run);
        } else {
            others.append(run);
        }
    }
    let lists = Lists { interface: only.filter(|_| all), zone: lead.1 };
    batch.places = mine;
    let common = fields::gather(vector, &batch.places, &mut batch.fields, &mut batch.octets);
    match K::of(&root.acl).get(usize::from(lead.0)) {
        Some(chain) => filter::<K, D>(context, vector, (batch, found), chain, (lists, common.flags)),
        None => pass::<K, D>(context, vector, batch, (lists, common.flags)),
    }
    others
}

/// Applies the lists to a batch, whose packets have these flags.
#[inline(always)]
fn filter<K: Family, D: Direction>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    (batch, found): (&mut Batch<K>, &mut [u32; VECTOR]),
    chain: &Chain<K>,
    (lists, flags): (Lists, ParseFlags),
) {
    if flags.contains(ParseFlags::FRAGMENT) {
        take_fragments::<K, D>(context, vector, batch, chain, lists.zone);
    }
    apply::<K, D>(context, vector, (batch, found), chain, lists);
}

/// Gives fragments the fields that rules need. Fragments that wait, are dropped, or belong to another worker leave the batch.
#[cold]
#[inline(never)]
fn take_fragments<K: Family, D: Direction>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    batch: &mut Batch<K>,
    chain: &Chain<K>,
    zone_of: Option<u16>,
) {
    let (root, places) = (context.root, std::mem::take(&mut batch.places));
    for (index, &place) in places.places().iter().enumerate() {
        let mut own = batch.fields[index];
        if vector[place].flags().contains(ParseFlags::FRAGMENT) {
            let interface = D::interface(root.adjacencies.view(), &vector[place]);
            // A fragment that would wait for the SPD waits before lists count it.
            let for_spd = D::OUTPUT && root.spd.needs_transport::<K>(root.interfaces.get(interface as usize));
            let needs_transport = chain.needs_transport || zone_of.is_some() || for_spd;
            let stage = if D::OUTPUT { Stage::Lookup } else { Stage::Acl };
            let at = At { stage, output: D::OUTPUT, interface };
            match fragments::take(context, &mut vector[place], place, needs_transport, own, at) {
                Some(fields) => own = fields,
                None => continue,
            }
            if let Some(zone) = zone_of
                && session::hand_over::<K, D>(context, &mut vector[place], place, zone, &own)
            {
                continue;
            }
        }
        let to = batch.places.len();
        (batch.fields[to], batch.octets[to]) = (own, batch.octets[index]);
        batch.places.push(place);
    }
}

/// Looks up packets in a chain, counts the matches of its rules, and sends each packet on.
#[inline(always)]
fn apply<K: Family, D: Direction>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    (batch, found): (&mut Batch<K>, &mut [u32; VECTOR]),
    chain: &Chain<K>,
    lists: Lists,
) {
    if let Some(zone) = lists.zone {
        session::look_up::<K, D>(context, vector, batch, chain, zone, found);
    } else if context.notes.has_limited() {
        look_up_unknown(context, batch, chain, D::OUTPUT, found);
    } else {
        let count = batch.places.len();
        chain.lookup_each(K::of(&context.root.acl), context.guard, &batch.fields[..count], &mut found[..count]);
    }
    let count = batch.places.len();
    let found = &found[..count];
    if context.notes.is_on() {
        learn::<K, D>(context, vector, batch, chain, found);
    }
    let passes = tally(context, found, &batch.octets[..count]);
    wire::each_more(vector, &batch.places, |index, packets, octets| {
        if let Some(rule) = context.root.acl.pages.counter(context.worker, Found::of(found[index]).number()) {
            rule.packets.add(packets);
            rule.octets.add(octets);
        }
    });
    // In the usual case nothing else is looked at.
    if passes & !context.recorder.is_on() {
        D::onward(context, vector, &batch.places, lists.interface, K::IS_V4);
    } else {
        disposition::pass::<K, D>(context, vector, &batch.places, found);
    }
}

/// Looks up the packets of a batch that take no decision; the others have their rule in it.
#[cold]
#[inline(never)]
fn look_up_unknown<K: Family>(
    context: &Context<'_>,
    batch: &Batch<K>,
    chain: &Chain<K>,
    output: bool,
    found: &mut [u32; VECTOR],
) {
    let (mut rest, mut count) = ([0u8; VECTOR], 0);
    for (index, &place) in batch.places.places().iter().enumerate() {
        match context.notes.limited(place).and_then(|decision| decision.limited_by(output)) {
            Some(word) => found[index] = word,
            None => {
                rest[count] = index as u8;
                count += 1;
            }
        }
    }
    look_up_some(context, batch, chain, &rest[..count], found);
}

/// Notes what was found of flows that are to be learned: by rules that permit.
#[cold]
fn learn<K: Family, D: Direction>(
    context: &mut Context<'_>,
    vector: &Vector,
    batch: &Batch<K>,
    chain: &Chain<K>,
    found: &[u32],
) {
    let matched = chain.matched(K::of(&context.root.acl));
    for (&place, &word) in batch.places.places().iter().zip(found) {
        let found = Found::of(word);
        let special = if found.just_permits() { None } else { context.root.acl.pages.special(found) };
        match special {
            _ if found.action() != Action::Permit => context.notes.forget(place, Unlearned::New),
            _ if matched.contains(Consulted::MARK) && !context.notes.is_permitted(place, D::OUTPUT) => {
                context.notes.forget(place, Unlearned::Mark);
            }
            Some(Special { flow: Some(false), .. }) => {
                if context.notes.refuse(place) {
                    context.counters.flows.no_flow.add(wire::packets(&vector[place]));
                }
            }
            Some(special) => {
                // Decisions have a rule as special only if it acts on each packet.
                let own = Found::new(found.number(), Action::Permit, special.limits());
                context.notes.filtered(place, D::OUTPUT, own.identity(), matched);
                if special.flow == Some(true) {
                    context.notes.hasten(place);
                }
            }
            None => context.notes.filtered(place, D::OUTPUT, word, matched),
        }
    }
}

/// Counts what rules matched; whether all packets just pass.
#[inline(always)]
fn tally(context: &Context<'_>, found: &[u32], octets: &[u32]) -> bool {
    let Some(&first) = found.first() else { return true };
    let pages = &context.root.acl.pages;
    // In one look at a time, without a branch for each packet.
    let (mut differ, mut sum) = (0, 0);
    for (&found, &octets) in found.iter().zip(octets) {
        differ |= found ^ first;
        sum += u64::from(octets);
    }
    if differ == 0 {
        if let Some(rule) = pages.counter(context.worker, Found::of(first).number()) {
            rule.packets.add(found.len() as u64);
            rule.octets.add(sum);
        }
        return Found::of(first).just_permits();
    }
    let mut passes = true;
    let (mut number, mut page) = (usize::MAX, &[][..]);
    for (&found, &octets) in found.iter().zip(octets) {
        let found = Found::of(found);
        passes &= found.just_permits();
        let rule = found.number() as usize;
        if rule / PAGE != number {
            number = rule / PAGE;
            page = pages.of(context.worker, number);
        }
        if let Some(rule) = page.get(rule % PAGE) {
            rule.packets.add(1);
            rule.octets.add(u64::from(octets));
        }
    }
    passes
}
