//! `ip4-classify`, `ip6-classify`, `ip4-classify-out`, `ip6-classify-out`: what do the sessions of classifier tables say of a
//! packet?
//!
//! Packets of interfaces with the same first table are looked up together. A packet that matches no session of a table goes to the
//! next table. Its octets from the start of a mask on are matched as they are: a packet that ends before the mask does, or that has
//! no such header, matches no session.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_table::masked::NO_ENTRY;

use super::stage::{self, Stage};
use super::{Context, fields, limit, wire};
use crate::graph::flags::ORIGINATED;
use crate::graph::flow::Unlearned;
use crate::graph::record::Fate;
use crate::graph::sample::{About, Cause, Treatment};
use crate::model::ClassifyStart;
use crate::reason::Reason;
use crate::root::classify::{Action, META_LENGTH, MetaKey, NONE, Table};
use crate::root::family::Family;
use crate::root::{self, Root};

pub(super) fn run<K: Family, const OUTPUT: bool>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut others = part::<K, OUTPUT>(context, vector, frame);
    while !others.is_empty() {
        others = part::<K, OUTPUT>(context, vector, &others);
    }
}

/// The interface whose tables a packet passes.
#[inline(always)]
fn interface<const OUTPUT: bool>(root: &Root, packet: &Packet) -> u32 {
    match OUTPUT {
        false => packet.interface(),
        true => root.adjacencies.get(packet.forwarding() as usize).map_or(root::NONE, |own| own.interface),
    }
}

/// The place of an interface's first table.
#[inline]
fn first<const OUTPUT: bool>(root: &Root, number: u32) -> u16 {
    let own = root.interfaces.get(number as usize);
    own.map_or(NONE, |own| if OUTPUT { own.classify_out } else { own.classify_in })
}

/// Matches the packets that share the first one's table; returns the rest.
#[inline(always)]
fn part<K: Family, const OUTPUT: bool>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) -> Indices {
    let root = context.root;
    let (mut mine, mut others) = (Indices::new(), Indices::new());
    let Some(&lead) = frame.places().first() else { return others };
    let mut own = interface::<OUTPUT>(root, &vector[lead]);
    let wanted = first::<OUTPUT>(root, own);
    let mut is_mine = true;
    for &place in frame.places() {
        let number = interface::<OUTPUT>(root, &vector[place]);
        if number != own {
            own = number;
            is_mine = first::<OUTPUT>(root, own) == wanted;
        }
        if is_mine { mine.push(place) } else { others.push(place) }
    }
    if OUTPUT && context.notes.is_on() {
        mine.places().iter().for_each(|&place| context.notes.forget(place, Unlearned::Classify));
    }
    walk::<K, OUTPUT>(context, vector, mine, wanted);
    others
}

/// Matches packets against a table and the tables behind it, and sends on the packets that pass.
#[inline(always)]
fn walk<K: Family, const OUTPUT: bool>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    mut waiting: Indices,
    first: u16,
) {
    let root = context.root;
    let mut passed = Indices::new();
    let mut place = first;
    let mut tables = 0;
    while let Some(table) = root.classify.tables.get(usize::from(place)) {
        let missed = match_one::<K, OUTPUT>(context, vector, &waiting, (place, table), &mut passed);
        tables += 1;
        if table.next == NONE || missed.is_empty() {
            leftover::<OUTPUT>(context, vector, &missed, (place, table), &mut passed);
            waiting = Indices::new();
            break;
        }
        (waiting, place) = (missed, table.next);
    }
    // Without a table, all pass.
    passed.extend(&waiting);
    if tables > 1 {
        passed.sort();
    }
    match OUTPUT {
        false => stage::onward(context, vector, &passed, None, Stage::Spd, K::IS_V4),
        true => stage::leave_classified(context, vector, &passed, K::IS_V4),
    }
}

/// The octets of a packet that a table's mask begins at; none, if it has no such header or is of another family.
#[inline(always)]
fn octets<'p, K: Family>(table: &Table, packet: &'p Packet) -> &'p [u8] {
    if table.family.is_some_and(|family| family != K::FAMILY) {
        return &[];
    }
    match table.start {
        ClassifyStart::Network => packet.l3(),
        ClassifyStart::Link if packet.l3_offset() > 0 => packet.data(),
        ClassifyStart::Transport if packet.l4_offset() > 0 => packet.data().get(packet.l4_offset()..).unwrap_or(&[]),
        ClassifyStart::Link | ClassifyStart::Transport | ClassifyStart::Meta => &[],
    }
}

/// Finds the sessions of marks, interfaces and VRFs. Packets without a mark match none if marks count. Packets that the gateway
/// made itself match none if interfaces or VRFs count.
#[inline(never)]
fn match_meta(context: &Context<'_>, vector: &Vector, places: &[u8], table: &Table, found: &mut [u32]) {
    let [has_mark, has_source] = table.compared;
    let mut keys = [[0; META_LENGTH]; VECTOR];
    let mut lengths = [0; VECTOR];
    let mut last = (root::NONE, 0);
    for ((own, length), &place) in keys.iter_mut().zip(&mut lengths).zip(places) {
        let packet = &vector[place];
        let (mark, interface) = (packet.mark(), fields::came_by(packet));
        if interface != last.0 {
            last = (interface, context.root.interfaces.get(interface as usize).map_or(0, |own| own.vrf.into()));
        }
        if !(has_mark && mark.is_none() || has_source && interface == root::NONE) {
            let key = MetaKey { mark: mark.unwrap_or(0), interface, vrf: last.1 };
            (*own, *length) = (key.octets(), META_LENGTH);
        }
    }
    table.keys.look_up(context.guard, |index| &keys[index][..lengths[index]], found);
}

/// Matches packets against one table. Adds permitted packets to `passed`, and returns packets without a session.
#[inline(always)]
fn match_one<K: Family, const OUTPUT: bool>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    (place, table): (u16, &Table),
    passed: &mut Indices,
) -> Indices {
    let places = frame.places();
    let mut found = [NO_ENTRY; VECTOR];
    let found = &mut found[..places.len()];
    match table.start {
        ClassifyStart::Meta => match_meta(context, vector, places, table, found),
        _ => table.keys.look_up(context.guard, |index| octets::<K>(table, &vector[places[index]]), found),
    }
    let worker = context.worker;
    found.iter().filter(|&&session| session != NO_ENTRY).for_each(|&session| table.fetch(worker, session));
    let is_recording = context.recorder.is_on();
    let mut missed = Indices::new();
    for (&at, &session) in places.iter().zip(&*found) {
        let action = if session == NO_ENTRY { None } else { table.action(session) };
        let Some(action) = action else {
            missed.push(at);
            continue;
        };
        let packet = &mut vector[at];
        table.count(worker, session, wire::counts(packet), context.now);
        if is_recording {
            note::<OUTPUT>(context, packet, place, Some(session), action.permit);
        }
        if action.is_plain {
            passed.push(at);
            continue;
        }
        match apply::<OUTPUT>(context, packet, (place, session), action) {
            None => passed.push(at),
            Some(reason) => context.next.refuse(&mut vector[at], at, reason),
        }
    }
    missed
}

/// Counts packets that match no session of a table without a next one, and sends them on or drops them.
#[inline]
fn leftover<const OUTPUT: bool>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    missed: &Indices,
    (place, table): (u16, &Table),
    passed: &mut Indices,
) {
    if missed.is_empty() {
        return;
    }
    if let Some(counter) = table.missed.get(context.worker) {
        counter.packets.add(missed.len() as u64 + wire::more(vector, missed));
    }
    if context.recorder.is_on() {
        let permit = table.permits_misses;
        missed.places().iter().for_each(|&at| note::<OUTPUT>(context, &vector[at], place, None, permit));
    }
    if table.permits_misses {
        passed.extend(missed);
    } else {
        missed.places().iter().for_each(|&at| context.next.refuse(&mut vector[at], at, Reason::ClassifyDeny));
    }
}

/// Applies an action that does more than let packets pass. Returns why the packet is dropped, if it is.
#[inline(never)]
fn apply<const OUTPUT: bool>(
    context: &mut Context<'_>,
    packet: &mut Packet,
    (table, session): (u16, u32),
    action: &Action,
) -> Option<Reason> {
    let refused = if !action.permit {
        Some(Reason::ClassifyDeny)
    } else {
        action.meter.as_ref().and_then(|meter| limit::packet(context, packet, (meter, 0), Reason::ClassifyRateLimit))
    };
    if let Some(way) = action.way
        && !OUTPUT
        && refused.is_none()
    {
        packet.set_way(way);
    }
    if let Some(mark) = action.mark
        && refused.is_none()
    {
        packet.set_mark(mark);
    }
    // What the gateway makes itself is no frame yet that could be shown.
    if let Some(choice) = action.sample
        && packet.l3_offset() > 0
    {
        let treatment = match refused {
            None => Treatment::Passed,
            Some(Reason::ClassifyRateLimit) => Treatment::RateLimited,
            Some(_) => Treatment::Dropped,
        };
        let about = About { cause: Cause::Classified { table, session, output: OUTPUT }, treatment };
        context.samples.offer(context.root, context.now, packet, choice, about);
    }
    refused
}

/// Records the decision of a table. The record of a packet does not continue with the gateway's answer to it.
#[cold]
fn note<const OUTPUT: bool>(
    context: &mut Context<'_>,
    packet: &Packet,
    table: u16,
    session: Option<u32>,
    permit: bool,
) {
    if !packet.state().contains(ORIGINATED) {
        let interface = interface::<OUTPUT>(context.root, packet);
        let table = context.root.classify.tables[usize::from(table)].id;
        context.record(packet, Fate::Classified { interface, output: OUTPUT, table, session, permit });
    }
}
