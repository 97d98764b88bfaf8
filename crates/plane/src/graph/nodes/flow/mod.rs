//! `ip4-flow`, `ip6-flow`: packets of flows that were decided before take the decision, and leave; others walk.
//!
//! A packet that takes a decision counts for everything that the nodes would have counted it for, in the same order. It goes
//! to the rewrite, which looks at its TTL and its length as at any other's. Only whole packets take decisions: fragments,
//! packets with options, TCP packets without ACK or with SYN, FIN or RST, and ICMP messages other than echo walk, each for
//! itself.
//!
//! Where a zone has sessions, the nodes find the session of each packet, also of one that walks. So the packets of a session keep
//! it alive on all interfaces of its zone, with lists or without.

mod candidates;
mod learn;
mod own;
mod tally;
mod tuple;
mod walking;

use weir_base::reclaim::Guard;
use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_table::flow::Place;

use super::Context;
use super::stage::{self, Stage};
use crate::graph::flow::Decision;
use crate::graph::record::{Fate, Miss};
use crate::graph::session::{Carried, Tuple, ZoneOf};
use crate::node::Node;
use crate::root::family::Family;
use crate::root::{Decided, Kind, Root};

use candidates::Candidates;
pub(super) use learn::learn;
use own::Own;
use tally::Tally;
use tuple::{any_tuple, key_of, tuple, varying};
use walking::part;

/// Sessions that a cache holds: to fetch them before they are looked at costs more than it saves.
const NEAR: usize = 20_000;

pub(super) fn run<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let root = context.root;
    let mut walk = Indices::new();
    let mut excluded = 0;
    let mut of_flows = Candidates::<K>::new();
    if root.acl.reflects_anywhere() {
        excluded += find_sessions::<K>(context, vector, frame, &mut of_flows, &mut walk);
    } else {
        let mut own = Own::<K>::of(root, crate::root::NONE);
        for &place in frame.places() {
            let packet = &vector[place];
            if packet.interface() != own.number {
                own = Own::of(root, packet.interface());
            }
            match tuple::<K>(packet, 0) {
                Some(tuple) if own.is_learned => of_flows.push(place, key_of(tuple, own.number)),
                _ => {
                    walk.push(place);
                    excluded += u64::from(own.is_learned);
                }
            }
        }
    }
    context.counters.flows.excluded.add(excluded);
    let mut found = [Place::NONE; VECTOR];
    K::of(&*context.flows).find_each(of_flows.keys(), &mut found[..of_flows.count]);
    if root.acl.reflects_anywhere() || context.recorder.is_on() {
        return choose::<K>(context, vector, frame, &of_flows, &found, walk);
    }
    // In the usual case all packets are flows without sessions, and one pass does all.
    let (guard, epoch) = (context.guard, root.changes.count());
    let mut hits = Indices::new();
    let mut tally = Tally::<K>::new(context);
    for (&place, &at) in of_flows.places().iter().zip(&found) {
        let packet = &mut vector[place];
        let missed = match K::of_mut(context.flows).take(at, context.now) {
            None => Miss::New,
            Some(decision) => match check::<K>(root, guard, decision, epoch, packet) {
                Ok(()) => {
                    tally.add(packet, decision);
                    packet.set_forwarding(decision.adjacency);
                    hits.push(place);
                    continue;
                }
                Err(miss) => miss,
            },
        };
        tally.misses[missed as usize] += 1;
        context.notes.begin(place, varying::<K>(packet), packet.flow(), at);
        walk.push(place);
    }
    tally.end(context, hits.len());
    context.next.extend(if K::IS_V4 { Node::Ip4Rewrite } else { Node::Ip6Rewrite }, &hits);
    if !walk.is_empty() {
        walk.sort();
        stage::onward(context, vector, &walk, None, Stage::Sav, K::IS_V4);
    }
}

/// Finds the sessions of all packets, and notes them. Packets without a session that may take decisions are flows to be looked
/// up; other packets that can take none walk. Gives how many of these are of interfaces whose flows are learned.
#[inline(never)]
fn find_sessions<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    of_flows: &mut Candidates<K>,
    walk: &mut Indices,
) -> u64 {
    let root = context.root;
    let mut of_sessions = Candidates::<K>::new();
    let mut may_take = [false; VECTOR];
    let mut excluded = 0;
    let mut own = Own::<K>::of(root, crate::root::NONE);
    for &place in frame.places() {
        let packet = &vector[place];
        if packet.interface() != own.number {
            own = Own::of(root, packet.interface());
        }
        match (tuple::<K>(packet, own.zone.unwrap_or(0)).filter(|_| own.is_learned), own.zone) {
            (Some(tuple), Some(_)) => {
                may_take[usize::from(place)] = true;
                of_sessions.push(place, tuple.key());
            }
            (Some(tuple), None) => of_flows.push(place, key_of(tuple, own.number)),
            (None, zone) => {
                walk.push(place);
                excluded += u64::from(own.is_learned);
                // Access lists look for the sessions of fragments.
                if let Some(zone) = zone.filter(|_| !packet.flags().contains(ParseFlags::FRAGMENT))
                    && let Some(tuple) = any_tuple::<K>(packet)
                {
                    of_sessions.push(place, Tuple { zone, ..tuple }.key());
                }
            }
        }
    }
    let mut found = [Place::NONE; VECTOR];
    let sessions = K::of(&*context.sessions);
    sessions.find_each(of_sessions.keys(), &mut found[..of_sessions.count]);
    if sessions.len() > NEAR {
        found[..of_sessions.count].iter().for_each(|&found| sessions.prefetch(found));
    }
    for (&place, &found) in of_sessions.places().iter().zip(&found) {
        let packet = &mut vector[place];
        match sessions.membership(found, context.sessions.bounds(), context.now) {
            Some(member) => Carried::Session(member).set(packet, ZoneOf::Ingress),
            None => {
                Carried::None.set(packet, ZoneOf::Ingress);
                if may_take[usize::from(place)]
                    && let Some(tuple) = tuple::<K>(packet, 0)
                {
                    of_flows.push(place, key_of(tuple, packet.interface()));
                }
            }
        }
    }
    excluded
}

/// Whether a packet may take a decision.
#[inline(always)]
fn check<K: Family>(
    root: &Root,
    guard: &Guard<'_>,
    decision: &mut Decision,
    epoch: u32,
    packet: &Packet,
) -> Result<(), Miss> {
    match decision.check(epoch, packet.interface(), || varying::<K>(packet)) {
        Err(Miss::Changed) if holds_on::<K>(root, guard, decision, packet) => decision.hold_on(epoch),
        checked => checked?,
    }
    match root.adjacencies.view().get(decision.adjacency).map(|adjacency| adjacency.kind) {
        Some(Kind::Rewrite | Kind::RewriteStale) => Ok(()),
        Some(Kind::Neighbor) if root.invent_neighbors => Ok(()),
        _ => Err(Miss::Changed),
    }
}

/// Whether no change since a decision was made concerns its flow.
#[inline(never)]
fn holds_on<K: Family>(root: &Root, guard: &Guard<'_>, decision: &Decision, packet: &Packet) -> bool {
    let adjacency = root.adjacencies.view().get(decision.adjacency);
    let Some((adjacency, header)) = adjacency.zip(K::matched(packet)) else { return false };
    let interfaces = [packet.interface(), adjacency.interface];
    let addresses = [header.source, header.destination];
    !root.changes.concern::<K>(guard, Decided { at: decision.epoch(), interfaces, addresses })
}

/// The decision that was found for a packet, which may take it if it holds.
#[inline(always)]
fn decision_to_check<'c, K: Family>(
    context: &'c mut Context<'_>,
    packet: &Packet,
    at: Place,
) -> Option<&'c mut Decision> {
    match Carried::of(packet, ZoneOf::Ingress) {
        Carried::Session(member) => {
            let has_room = context.sessions.has_room_for_vector();
            let sessions = K::of_mut(context.sessions);
            // It may end in this vector, for a newer one.
            let may_end = !has_room && sessions.is_half_open(member);
            if may_end { None } else { sessions.learned_mut(member) }
        }
        _ => K::of_mut(context.flows).at_mut(at),
    }
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
fn choose<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    of_flows: &Candidates<K>,
    found: &[Place; VECTOR],
    excluded: Indices,
) {
    let (root, recording) = (context.root, context.recorder.is_on());
    let epoch = root.changes.count();
    let (mut at, mut walks) = ([Place::NONE; VECTOR], [false; VECTOR]);
    excluded.places().iter().for_each(|&place| walks[usize::from(place)] = true);
    for (&place, &found) in of_flows.places().iter().zip(found) {
        at[usize::from(place)] = found;
    }
    let (mut hits, mut walk) = (Indices::new(), Indices::new());
    let mut misses = [0u64; 3];
    for &place in frame.places() {
        let (packet, index) = (&mut vector[place], usize::from(place));
        if !walks[index] {
            let guard = context.guard;
            let checked = match decision_to_check::<K>(context, packet, at[index]) {
                None => Err(Miss::New),
                Some(decision) => check::<K>(root, guard, decision, epoch, packet),
            };
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
                    misses[miss as usize] += 1;
                    context.notes.begin(place, varying::<K>(packet), packet.flow(), at[index]);
                }
            }
        }
        walk.push(place);
    }
    let is_bypassed = context.notes.is_bypassed();
    if (!walk.is_empty() || is_bypassed) && !hits.is_empty() && root.acl.reflects_anywhere() {
        (hits, walk) = part::<K>(vector, frame, &hits, is_bypassed);
    }
    let mut tally = Tally::<K>::new(context);
    tally.misses = misses;
    for &place in hits.places() {
        let (packet, index) = (&mut vector[place], usize::from(place));
        if let Some(decision) = decision_of::<K>(context, packet, at[index]) {
            tally.add(packet, decision);
            packet.set_forwarding(decision.adjacency);
        }
        K::of_mut(context.flows).take(at[index], context.now);
    }
    tally.end(context, hits.len());
    context.next.extend(if K::IS_V4 { Node::Ip4Rewrite } else { Node::Ip6Rewrite }, &hits);
    stage::onward(context, vector, &walk, None, Stage::Sav, K::IS_V4);
}
