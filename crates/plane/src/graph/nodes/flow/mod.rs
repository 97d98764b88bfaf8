//! `ip4-flow`, `ip6-flow`: packets of flows that were decided before take the decision, and leave; others walk.
//!
//! A packet that takes a decision counts for everything that the nodes would have counted it for, in the same order, and is
//! rewritten here. Where its TTL, its length or its adjacency is not the usual one, it goes to the rewrite. Only whole
//! packets take decisions: fragments, packets with options, TCP packets without ACK or with SYN, FIN or RST, and ICMP messages
//! other than requests and replies walk, each for itself.
//!
//! Where a zone has sessions, the nodes find the session of each packet, also of one that walks. So the packets of a session keep
//! it alive on all interfaces of its zone, with lists or without.

mod beside;
mod candidates;
mod check;
mod crossing;
mod each;
mod egress;
mod ends;
mod finding;
mod holding;
mod joining;
mod learn;
mod limited;
mod own;
mod policies;
mod settled;
mod tally;
mod translations;
mod tuple;
mod walking;

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_table::flow::{Place, Slot};

use super::{Context, plain, wire};
use crate::changed::Changed;
use crate::graph::flow::Decision;
use crate::graph::record::{Fate, Learning, Miss};
use crate::graph::session::{Carried, Membership, ZoneOf, set_translated};
use crate::root::family::Family;
use crate::root::{NONE, Root};

use candidates::Candidates;
use check::check;
use ends::{leave, walk_on};
use finding::find_sessions;
use holding::holds_on;
pub(super) use learn::learn;
pub(super) use limited::go_on;
use own::Own;
use policies::protection;
use tally::{Rules, Sum, Tally};
use translations::Translations;
use tuple::{is_behind_validation, key, of_interface, varying};
use walking::part;

pub(super) fn run<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let root = context.root;
    if root.acl.reflects_anywhere()
        || context.recorder.is_on()
        || translations::concern(root, vector, frame)
        || joining::may_join(context, vector, frame)
    {
        return choose::<K>(context, vector, frame);
    }
    each::take::<K>(context, vector, frame);
}

/// Whether the flow of a packet that found no decision is to be learned. `slot` counts the packets of a flow
/// that was looked up as one without a session.
#[inline]
fn is_due<K: Family>(
    context: &mut Context<'_>,
    packet: &Packet,
    translation: Option<Membership>,
    slot: Option<Slot>,
) -> bool {
    let packets = context.root.flow_table.packets;
    let member = translation.or(match Carried::of(packet, ZoneOf::Ingress) {
        Carried::Session(member) => Some(member),
        _ => None,
    });
    match member {
        Some(member) => {
            K::of(&*context.sessions).get(member.number).is_some_and(|session| session.is_due(member.way, packets))
        }
        None => {
            let flows = K::of_mut(context.flows);
            // A packet that is to be translated was looked up as one of a translation alone.
            let slot = slot.or_else(|| {
                let key = key::<K>(context.root, packet, of_interface(packet.interface()))?;
                Some(flows.find_slot(&key))
            });
            slot.is_some_and(|slot| flows.is_due(slot))
        }
    }
}

/// Finds the flows of packets that may take decisions; the others walk. Gives how many of these are of interfaces whose flows are
/// learned.
#[cold]
fn gather<K: Family>(
    root: &Root,
    vector: &Vector,
    frame: &Indices,
    of_flows: &mut Candidates<K>,
    walk: &mut Indices,
) -> u64 {
    let mut excluded = 0;
    let mut own = Own::<K>::of(root, NONE);
    for &place in frame.places() {
        let packet = &vector[place];
        if packet.interface() != own.number {
            own = Own::of(root, packet.interface());
        }
        match key::<K>(root, packet, of_interface(own.number)) {
            Some(key) if own.is_learned => of_flows.push(place, key),
            _ => {
                walk.push(place);
                excluded += wire::packets(packet) * u64::from(own.is_learned);
            }
        }
    }
    excluded
}

/// The decision that was found for a packet, which may take it if it holds.
///
/// # Errors
/// If there is none, or the lists permit the session of the packet otherwise now.
#[inline(always)]
fn decision_to_check<'c, K: Family>(
    context: &'c mut Context<'_>,
    packet: &Packet,
    at: Place,
) -> Result<&'c mut Decision, Miss> {
    let found = match Carried::of(packet, ZoneOf::Ingress) {
        Carried::Session(member) => {
            // It may end in this vector, for a newer one.
            let has_room = context.sessions.has_room_for_vector();
            let may_end = !has_room && K::of(&*context.sessions).is_half_open(member);
            if may_end || K::of(&*context.sessions).learned(member).is_none() {
                return Err(Miss::New);
            }
            if !holds_on::<K>(context, member) {
                return Err(Miss::Changed(Changed::Session));
            }
            K::of_mut(context.sessions).learned_mut(member)
        }
        _ => K::of_mut(context.flows).at_mut(at),
    };
    found.ok_or(Miss::New)
}

/// The decision that a packet takes.
#[inline(always)]
fn decision_of<'c, K: Family>(context: &'c Context<'_>, packet: &Packet, at: Place) -> Option<&'c Decision> {
    match Carried::of(packet, ZoneOf::Ingress) {
        Carried::Session(member) => K::of(&*context.sessions).learned(member),
        _ => K::of(&*context.flows).at(at),
    }
}

/// Lets packets take decisions where zones have sessions, or fates are recorded; sends on the others.
#[inline(never)]
fn choose<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let (root, recording) = (context.root, context.recorder.is_on());
    let adjacencies = root.adjacencies.view();
    // Alone, as a pair of them would be copied: it has ten kilooctets.
    let mut of_flows = Candidates::<K>::new();
    let mut excluded = Indices::new();
    let mut translations = Translations::new();
    let has_sessions = root.acl.reflects_anywhere() || root.nat.is_active();
    let count = match has_sessions {
        true => find_sessions::<K>(context, vector, frame, (&mut of_flows, &mut translations), &mut excluded),
        false => gather(root, vector, frame, &mut of_flows, &mut excluded),
    };
    context.counters.flows.excluded.add(count);
    if root.nat.is_active() && root.acl.reflects_anywhere() {
        beside::find::<K>(context, vector, frame, &mut translations);
    }
    let is_usual = !recording && !root.flow_table.merges && !context.notes.is_bypassed();
    if is_usual && translations.settled() == frame.len() {
        let rest = settled::take::<K>(context, vector, frame, &translations);
        if !rest.is_empty() {
            take_hits::<K>(context, vector, &rest, &translations, (&[Place::NONE; VECTOR], [0; Miss::COUNT]));
        }
        return;
    }
    let mut found = [Place::NONE; VECTOR];
    K::of(&*context.flows).find_each(of_flows.keys(), &mut found[..of_flows.count]);
    let mut counted = [Slot::default(); VECTOR];
    K::of_mut(context.flows).find_slots(of_flows.keys(), &found, &mut counted);
    let (mut at, mut walks) = ([Place::NONE; VECTOR], [false; VECTOR]);
    let mut slots = [None; VECTOR];
    excluded.places().iter().for_each(|&place| walks[usize::from(place)] = true);
    for ((&place, &found), &slot) in of_flows.places().iter().zip(&found).zip(&counted) {
        at[usize::from(place)] = found;
        slots[usize::from(place)] = Some(slot);
    }
    let (mut hits, mut walk) = (Indices::new(), Indices::new());
    let (mut misses, mut crosses) = ([0u64; Miss::COUNT], false);
    for &place in frame.places() {
        let (packet, index) = (&mut vector[place], usize::from(place));
        if !recording && translations.is_settled(place) {
            hits.push(place);
            continue;
        }
        if !walks[index] {
            let guard = context.guard;
            let found = match translations.of(place) {
                Some(member) => translations::decision_to_check::<K>(context, packet, member)
                    .map(|(decision, addresses)| (decision, Some(addresses))),
                None => {
                    let found = decision_to_check::<K>(context, packet, at[index]);
                    found.map(|decision| (decision, None))
                }
            };
            let checked = found.and_then(|(decision, translated)| {
                check::<K>(root, guard, adjacencies, decision, packet, translated)?;
                Ok((decision.crossing(), decision.beside()))
            });
            let checked = checked.and_then(|(crossing, beside)| {
                let member = translations.of(place);
                if member.is_some() {
                    beside::check::<K>(context, packet, beside)?;
                }
                crosses |= crossing.is_some();
                crossing.map_or(Ok(()), |crossing| crossing::cross::<K>(context, packet, (crossing, member)))
            });
            if recording {
                let interface = packet.interface();
                context.record(packet, Fate::Flow { interface, miss: checked.err() });
            }
            match checked {
                // A packet whose fate is recorded walks, so that its record names what decides.
                Ok(()) if !recording => {
                    hits.push(place);
                    continue;
                }
                Ok(()) => {}
                Err(miss) => {
                    misses[miss.place()] += wire::packets(packet);
                    let is_due =
                        miss != Miss::New || is_due::<K>(context, packet, translations.of(place), slots[index]);
                    if is_due || root.acl.hastens || recording {
                        context.notes.begin(place, varying::<K>(packet), (packet.flow(), at[index]), is_due);
                        if miss == Miss::New {
                            context.notes.is_new(place);
                        }
                    }
                }
            }
        } else if recording && Own::<K>::of(root, packet.interface()).is_learned {
            let interface = packet.interface();
            context.record(packet, Fate::Learning { interface, learning: Learning::Excluded });
        }
        walk.push(place);
    }
    let is_bypassed = context.notes.is_bypassed();
    if (!walk.is_empty() || is_bypassed) && !hits.is_empty() && has_sessions {
        (hits, walk) = part::<K>(context, vector, frame, (&hits, &translations), is_bypassed);
    }
    if crosses {
        crossing::forget(vector, &walk);
    }
    if !recording && joining::may_join(context, vector, &hits) {
        hits = joining::join::<K>(context, vector, hits, |context, packet, place| {
            let learned = match translations.of(place) {
                Some(member) => K::of(&*context.sessions).learned(member),
                None => decision_of::<K>(context, packet, at[usize::from(place)]),
            };
            learned.copied()
        });
    }
    if has_sessions && !hits.is_empty() {
        let (settled, mut others) = settled::split(&hits, &translations);
        others.extend(&settled::take::<K>(context, vector, &settled, &translations));
        others.sort();
        hits = others;
    }
    take_hits::<K>(context, vector, &hits, &translations, (&at, misses));
    walk_on(context, vector, &walk, K::IS_V4);
}

/// Lets packets take the decisions that were found for them. `at` has where those of flows without sessions lie.
#[inline(never)]
fn take_hits<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    hits: &Indices,
    translations: &Translations,
    (at, misses): (&[Place; VECTOR], [u64; Miss::COUNT]),
) {
    let root = context.root;
    let adjacencies = root.adjacencies.view();
    let mut tally = Tally::<K>::new(context);
    tally.misses = misses;
    let (mut rules, mut sum) = (Rules::NONE, Sum::default());
    let (mut out, mut unusual, mut encrypt) = (Indices::new(), Indices::new(), Indices::new());
    let mut limited = Indices::new();
    for &place in hits.places() {
        let (packet, index) = (&mut vector[place], usize::from(place));
        let member = translations.of(place);
        let counts = wire::counts(packet);
        let decision = match member {
            Some(member) => K::of(&*context.sessions).learned(member),
            None => decision_of::<K>(context, packet, at[index]),
        };
        let Some(decision) = decision else { continue };
        if decision.is_limited() {
            packet.set_forwarding(decision.adjacency);
            let decision = *decision;
            context.notes.begin_limited(place, decision);
            // It gets its tuple behind the ingress lists.
            member.into_iter().for_each(|member| set_translated(packet, member));
            tally.more += counts.0 - 1;
            limited.push(place);
            K::of_mut(context.flows).touch(at[index], context.now);
            continue;
        }
        let adjacency = adjacencies.get(decision.adjacency);
        // It was found a moment ago.
        let sa = adjacency.and_then(|own| protection(root, decision, packet, own).ok()?);
        packet.set_forwarding(sa.unwrap_or(decision.adjacency));
        if is_behind_validation(packet) {
            tally.add_inside(packet, decision);
        } else {
            let own = Rules::of(decision, packet);
            if !own.is(&rules) {
                tally.add(rules, std::mem::take(&mut sum));
                rules = own;
            }
            sum.add_all(counts);
        }
        tally.more += counts.0 - 1;
        if decision.has_more() {
            tally.add_others(packet, decision);
        }
        if let Some(member) = member {
            translations::take::<K>(context, packet, member, counts);
        }
        if sa.is_some() {
            encrypt.push(place);
        } else if adjacency.is_some_and(|own| plain::rewrite::<K>(packet, own)) {
            out.push(place);
        } else {
            unusual.push(place);
        }
        K::of_mut(context.flows).touch(at[index], context.now);
    }
    tally.add(rules, sum);
    tally.end(context, hits.len());
    leave::<K>(context, &out, &unusual, &encrypt);
    if !limited.is_empty() {
        limited::begin::<K>(context, vector, &limited);
    }
}
