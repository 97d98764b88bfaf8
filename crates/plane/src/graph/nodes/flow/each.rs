//! Packets of flows without sessions, where no fates are recorded, and nothing is translated or merged: the usual case.
//!
//! A vector is dealt with in turns of a few packets, each in three passes: the keys of its packets are sought; their tags are
//! compared; those whose decisions are in force take them and are rewritten. Between the passes of a turn lie those of others, so that
//! memory has time to come. Packets that are not usual are left to another loop.

use weir_base::reclaim::Guard;
use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};
use weir_table::flow::{HALF, Lines, Lookup, Place, Slot};

use super::super::{Context, plain, wire};
use super::check::check;
use super::ends::{leave, walk_on};
use super::limited;
use super::own::Own;
use super::tally::{Rules, Sum, Tally, octets};
use super::tuple::{is_behind_validation, key_into, of_interface, varying};
use crate::graph::flow::{Decision, Kept, NotLearned, Notes, units};
use crate::graph::record::Miss;
use crate::root::family::Family;
use crate::root::{NONE, Root, View};

/// A lookup of decisions.
type Decisions<'t, K> = Lookup<'t, <K as Family>::FlowKey, Kept, Lines>;

/// Packets that are dealt with together: their places, in the slots from the first on.
#[derive(Clone, Copy)]
struct Turn {
    places: [u8; HALF],
    first: usize,
    count: usize,
}

impl Turn {
    const NONE: Turn = Turn { places: [0; HALF], first: 0, count: 0 };
}

/// The root, the time and the number of changes, which all packets of a vector share.
#[derive(Clone, Copy)]
struct Moment<'r> {
    root: &'r Root,
    guard: &'r Guard<'r>,
    adjacencies: View<'r>,
    epoch: u32,
    now: u32,
}

/// Packets by where they go.
struct Sorted {
    out: Indices,
    unusual: Indices,
    encrypt: Indices,
    limited: Indices,
    walk: Indices,
}

impl Sorted {
    fn new() -> Sorted {
        let none = Indices::new;
        Sorted { out: none(), unusual: none(), encrypt: none(), limited: none(), walk: none() }
    }
}

/// Counts packets with decisions: runs with the same rules.
struct Runs<'r, K: Family> {
    tally: Tally<'r, K>,
    rules: Rules,
    sum: Sum,
}

impl<K: Family> Runs<'_, K> {
    /// Ends the run.
    #[inline(always)]
    fn end(&mut self) {
        self.tally.add(self.rules, std::mem::take(&mut self.sum));
    }
}

/// Packets of flows without a decision, and the notes about those whose flow is to be learned.
struct Misses<'n, 's> {
    notes: &'n mut Notes,
    not_learned: NotLearned<'s>,
    /// Packets whose flows are counted with the next turn.
    fresh: [(u8, Slot); HALF],
    count: usize,
    /// A rule may have a flow learned that is not due.
    hastens: bool,
}

impl Misses<'_, '_> {
    /// Finds where the packets of a flow are counted.
    #[inline(always)]
    fn push(&mut self, place: u8, hash: u64) {
        let slot = self.not_learned.find(hash);
        if let Some(own) = self.fresh.get_mut(self.count) {
            *own = (place, slot);
            self.count += 1;
        }
    }

    /// Counts packets, and begins the notes of those whose flow is to be learned.
    #[inline(always)]
    fn count<K: Family>(&mut self, vector: &Vector) {
        for &(place, slot) in &self.fresh[..std::mem::take(&mut self.count).min(HALF)] {
            let (packet, is_due) = (&vector[place], self.not_learned.is_due(slot));
            if is_due || self.hastens {
                self.notes.begin(place, varying::<K>(packet), (packet.flow(), Place::NONE), is_due);
                self.notes.is_new(place);
            }
        }
    }
}

/// Lets packets take decisions and rewrites them; sends on the others.
#[inline(never)]
pub(super) fn take<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let (root, guard) = (context.root, context.guard);
    let (adjacencies, epoch) = (root.adjacencies.view(), root.changes.count());
    let moment = Moment { root, guard, adjacencies, epoch, now: units(context.now) };
    let mut sorted = Sorted::new();
    let mut excluded = 0;
    let mut own = Own::<K>::of(root, NONE);
    let mut runs = Runs { tally: Tally::<K>::new(context), rules: Rules::NONE, sum: Sum::default() };
    let (mut lookup, not_learned) = K::of_mut(context.flows).lookup();
    let (fresh, hastens) = ([Default::default(); HALF], root.acl.hastens);
    let mut misses = Misses { notes: &mut *context.notes, not_learned, fresh, count: 0, hastens };
    let mut chunks = frame.places().chunks(HALF);
    // Packets whose decisions were fetched with the turn before.
    let mut ready = Turn::NONE;
    loop {
        let chunk = chunks.next();
        let mut coming = Turn::NONE;
        if let Some(chunk) = chunk {
            excluded += seek(&mut own, (root, vector, chunk), &mut lookup, &mut coming, &mut sorted.walk);
        }
        // The slots of these were fetched with the turn before.
        misses.count::<K>(vector);
        let others = take_usual(&moment, vector, &ready, &mut lookup, &mut runs, &mut sorted.out);
        if others != 0 {
            take_others(&moment, vector, (&ready, others), &mut lookup, &mut runs, &mut sorted, &mut misses);
        }
        if chunk.is_none() {
            break;
        }
        coming.first = lookup.compare_half();
        ready = coming;
    }
    misses.count::<K>(vector);
    runs.end();
    context.counters.flows.excluded.add(excluded);
    let Sorted { mut out, unusual, encrypt, limited, mut walk } = sorted;
    runs.tally.end(context, out.len() + unusual.len() + encrypt.len() + limited.len());
    out.sort();
    leave::<K>(context, &out, &unusual, &encrypt);
    if !limited.is_empty() {
        limited::begin::<K>(context, vector, &limited);
    }
    if !walk.is_empty() {
        walk.sort();
        walk_on(context, vector, &walk, K::IS_V4);
    }
}

/// Seeks the keys of packets that may take decisions; the others walk. Gives how many of these are of interfaces whose flows are
/// learned.
#[inline(never)]
fn seek<'r, K: Family>(
    own: &mut Own<'r, K>,
    (root, vector, places): (&'r Root, &Vector, &[u8]),
    lookup: &mut Decisions<'_, K>,
    coming: &mut Turn,
    walk: &mut Indices,
) -> u64 {
    let (mut excluded, mut count) = (0, 0);
    let keys = lookup.next_keys();
    for &place in places {
        let packet = &vector[place];
        if packet.interface() != own.number {
            *own = Own::of(root, packet.interface());
        }
        let at = count % HALF;
        coming.places[at] = place;
        if own.is_learned && key_into::<K>(root, packet, of_interface(own.number), &mut keys[at]) {
            count += 1;
        } else {
            walk.push(place);
            excluded += wire::packets(packet) * u64::from(own.is_learned);
        }
    }
    coming.count = count;
    lookup.seek_each(count);
    excluded
}

/// Lets packets take decisions that are in force for any packet of their flow, and rewrites them. Gives the others, as bits of their
/// turn.
#[inline(never)]
fn take_usual<K: Family>(
    moment: &Moment<'_>,
    vector: &mut Vector,
    turn: &Turn,
    lookup: &mut Decisions<'_, K>,
    runs: &mut Runs<'_, K>,
    out: &mut Indices,
) -> u32 {
    let Moment { adjacencies, epoch, now, .. } = *moment;
    let (mut rules, mut sum, mut others) = (runs.rules, runs.sum, 0);
    lookup.each_usual(turn.first, turn.count, |at, kept| {
        let place = turn.places[at % HALF];
        let packet = &mut vector[place];
        let decision = kept.map(|kept| &*kept.take(now)).filter(|own| own.is_plain(epoch, packet.interface()));
        let decision = decision.and_then(|own| Some((own, adjacencies.get(own.adjacency)?)));
        let Some((decision, adjacency)) = decision else { return others |= 1 << at };
        if !plain::rewrite::<K>(packet, adjacency) {
            return others |= 1 << at;
        }
        packet.set_forwarding(decision.adjacency);
        let own = Rules::of(decision, packet);
        if !own.is(&rules) {
            runs.tally.add(rules, std::mem::take(&mut sum));
            rules = own;
        }
        sum.add(octets(packet));
        out.push(place);
    });
    (runs.rules, runs.sum) = (rules, sum);
    others
}

/// Lets other packets of a turn take decisions, or has them walk.
#[inline(never)]
fn take_others<K: Family>(
    moment: &Moment<'_>,
    vector: &mut Vector,
    (turn, others): (&Turn, u32),
    lookup: &mut Decisions<'_, K>,
    runs: &mut Runs<'_, K>,
    sorted: &mut Sorted,
    misses: &mut Misses<'_, '_>,
) {
    let mut left = others;
    while left != 0 {
        let at = left.trailing_zeros() as usize;
        left &= left - 1;
        let (slot, place) = (turn.first + at, turn.places[at % HALF]);
        let packet = &mut vector[place];
        let missed = match lookup.value(slot) {
            None => Miss::New,
            Some(kept) => match take_one(moment, (packet, place), kept.take(moment.now), runs, sorted, misses.notes) {
                Ok(()) => continue,
                Err(miss) => miss,
            },
        };
        runs.tally.misses[missed.place()] += wire::packets(packet);
        sorted.walk.push(place);
        match (missed, lookup.hash(slot)) {
            (Miss::New, Some(hash)) => misses.push(place, hash),
            _ => misses.notes.begin(place, varying::<K>(packet), (packet.flow(), lookup.place(slot)), true),
        }
    }
}

/// Lets a packet take a decision, and sends it where it is to go.
///
/// # Errors
/// If it does not take it.
fn take_one<K: Family>(
    moment: &Moment<'_>,
    (packet, place): (&mut Packet, u8),
    decision: &mut Decision,
    runs: &mut Runs<'_, K>,
    sorted: &mut Sorted,
    notes: &mut Notes,
) -> Result<(), Miss> {
    let Moment { root, guard, adjacencies, .. } = *moment;
    let (adjacency, sa) = check::<K>(root, guard, adjacencies, decision, packet, None)?;
    if decision.is_limited() {
        packet.set_forwarding(decision.adjacency);
        notes.begin_limited(place, *decision);
        runs.tally.more += wire::packets(packet) - 1;
        sorted.limited.push(place);
        return Ok(());
    }
    let is_out = sa.is_none() && plain::rewrite::<K>(packet, adjacency);
    packet.set_forwarding(sa.unwrap_or(decision.adjacency));
    runs.tally.more += wire::packets(packet) - 1;
    if is_behind_validation(packet) {
        runs.tally.add_inside(packet, decision);
    } else {
        let own = Rules::of(decision, packet);
        if !own.is(&runs.rules) {
            runs.end();
            runs.rules = own;
        }
        runs.sum.add_all(wire::counts(packet));
    }
    if decision.has_more() {
        runs.tally.add_others(packet, decision);
    }
    match sa {
        Some(_) => sorted.encrypt.push(place),
        None if is_out => sorted.out.push(place),
        None => sorted.unusual.push(place),
    }
    Ok(())
}
