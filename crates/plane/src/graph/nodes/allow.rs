//! `ip4-allow`, `ip6-allow`: is a packet's source in each of the allowlists of the interface that it came in by?
//!
//! Packets whose interfaces name the same lists are looked up together. Allowlists do not apply to ARP and neighbour
//! discovery, which other nodes handle, to originated packets, and to released packets that passed before.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_table::lpm::AsKey;

use super::stage::{self, Stage};
use super::{Context, fields, wire};
use crate::graph::batch::{Batches, Kept};
use crate::graph::record::Fate;
use crate::model::PerFamily;
use crate::reason::Reason;
use crate::root::allow::{self, Sequence};
use crate::root::family::Family;
use crate::root::{NONE, Root};

pub(super) fn run<K: Family>(context: &mut Context<'_>, batches: &mut Batches, vector: &mut Vector, frame: &Indices) {
    let kept = K::of_mut(batches);
    if fields::may_be_of_one(vector, frame) && of_one::<K>(context, kept, vector, frame) {
        return;
    }
    let mut others = part::<K>(context, kept, vector, frame);
    while !others.is_empty() {
        others = part::<K>(context, kept, vector, &others);
    }
}

/// The lists that an interface names, by their number.
#[inline]
fn number<K: Family>(root: &Root, interface: u32) -> u16 {
    let named: Option<&PerFamily<u16>> = root.interfaces.get(interface as usize).map(|interface| &interface.allow);
    named.map_or(allow::NONE, |named| *K::of(named))
}

/// Checks packets that all came by one interface; false, with nothing done: they did not.
#[inline(never)]
fn of_one<K: Family>(context: &mut Context<'_>, kept: &mut Kept<K>, vector: &mut Vector, frame: &Indices) -> bool {
    let Some(&first) = frame.places().first() else { return true };
    let interface = vector[first].interface();
    if !fields::sources::<K>(vector, frame, interface, &mut kept.sources) {
        return false;
    }
    match K::of(&context.root.allow).get(usize::from(number::<K>(context.root, interface))) {
        Some(sequence) => decide::<K>(context, kept, vector, frame, sequence, Some(interface)),
        None => stage::onward(context, vector, frame, Some(interface), Stage::Classify, K::IS_V4),
    }
    true
}

/// Checks the packets that share the first one's allowlists; returns the rest.
#[inline(never)]
fn part<K: Family>(context: &mut Context<'_>, kept: &mut Kept<K>, vector: &mut Vector, frame: &Indices) -> Indices {
    let root = context.root;
    let (mut mine, mut others) = (Indices::new(), Indices::new());
    let Some(&first) = frame.places().first() else { return others };
    let wanted = number::<K>(root, vector[first].interface());
    for run in frame.places().chunk_by(|&one, &other| vector[one].interface() == vector[other].interface()) {
        let is_mine = number::<K>(root, vector[run[0]].interface()) == wanted;
        if is_mine { mine.append(run) } else { others.append(run) }
    }
    match K::of(&root.allow).get(usize::from(wanted)) {
        Some(sequence) => {
            fields::sources::<K>(vector, &mine, NONE, &mut kept.sources);
            decide::<K>(context, kept, vector, &mine, sequence, None);
        }
        None => stage::onward(context, vector, &mine, None, Stage::Classify, K::IS_V4),
    }
    others
}

/// Sends those on whose sources are in each list, and refuses the others. `all`: the interface of all, where it is known to be one.
#[inline(always)]
fn decide<K: Family>(
    context: &mut Context<'_>,
    Kept { sources, found, .. }: &mut Kept<K>,
    vector: &mut Vector,
    frame: &Indices,
    sequence: &Sequence<K>,
    all: Option<u32>,
) {
    let mut frame = frame;
    let mut passed;
    for list in &*sequence.0 {
        let (count, more) = (frame.len(), wire::more(vector, frame));
        let words = &mut found[..count];
        list.look_up(context.root.routes(), context.guard, &sources[..count], words);
        let mut exempt = 0;
        if words.contains(&0) {
            (passed, exempt) = refuse::<K>(context, vector, frame, list.place, sources, words);
            frame = &passed;
        }
        if let Some(counters) = list.counters.get(context.worker) {
            let rest = wire::more(vector, frame);
            counters.passed.add((frame.len() - exempt) as u64 + rest);
            counters.refused.add((count - frame.len()) as u64 + more - rest);
        }
    }
    if context.recorder.is_on() {
        frame.places().iter().for_each(|&place| note::<K>(context, &vector[place], None));
    }
    stage::onward(context, vector, frame, all, Stage::Classify, K::IS_V4);
}

/// Refuses packets whose sources a list does not contain. Returns the others, with their sources, and how many of these have
/// an unspecified source: no list has it, and its packets go no further than their link.
#[inline(never)]
fn refuse<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    list: u16,
    sources: &mut [K::Octets; VECTOR],
    words: &[u32],
) -> (Indices, usize) {
    let (mut passed, mut exempt) = (Indices::new(), 0);
    for (index, (&place, &word)) in frame.places().iter().zip(words).enumerate() {
        let is_exempt = sources[index].as_key() == K::default();
        exempt += usize::from(is_exempt);
        if word == 0 && !is_exempt {
            note::<K>(context, &vector[place], Some(list));
            context.next.refuse(&mut vector[place], place, Reason::NotAllowed);
        } else {
            sources[passed.len()] = sources[index];
            passed.push(place);
        }
    }
    (passed, exempt)
}

#[cold]
fn note<K: Family>(context: &mut Context<'_>, packet: &Packet, refused_by: Option<u16>) {
    let (interface, source) = (packet.interface(), (*K::source(packet)).into());
    context.record(packet, Fate::Allowed { interface, source, refused_by });
}
