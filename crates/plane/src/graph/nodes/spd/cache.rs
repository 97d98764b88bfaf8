//! Lookups by way of an SPD's cache: what is not there, or is concerned by a change since, is looked up in the classifier, and written
//! there.

use weir_packet::vector::VECTOR;
use weir_table::classify::{Fields, NO_RULE};
use weir_table::recent::{Found, Replaced};

use super::super::Context;
use crate::root::family::Family;
use crate::root::spd::{Cached, Sides, Spd};

/// The key of a flow: addresses, protocol, and ports, or type and code, as far as they are there. No policy compares
/// anything else.
#[inline(always)]
fn key<K: Family>(fields: &Fields<K>) -> K::FlowKey {
    let (kind, words) = match (fields.ports(), fields.icmp()) {
        (Some((from, to)), _) => (1, u64::from(from) << 16 | u64::from(to)),
        (None, Some((kind, code))) => (2, u64::from(kind) << 16 | u64::from(code)),
        (None, None) => (0, 0),
    };
    K::flow_key(fields.source(), fields.destination(), words << 32 | kind << 8 | u64::from(fields.protocol()))
}

/// Packets of a vector whose flows are looked up in the classifier.
struct Missed<K> {
    indices: [u8; VECTOR],
    fields: [Fields<K>; VECTOR],
    count: usize,
}

impl<K: Copy> Missed<K> {
    #[inline(always)]
    fn push(&mut self, index: u8, fields: Fields<K>) {
        (self.indices[self.count], self.fields[self.count]) = (index, fields);
        self.count += 1;
    }
}

/// Packets of a vector whose entries are of other versions.
struct Older {
    /// By packet: its index, and the version.
    entries: [(u8, u32); VECTOR],
    count: usize,
}

/// Adds the packets that a change since their entries concerns to those missed. The entries of the others hold on: `renew` is called
/// for them.
#[cold]
fn check_older<K: Family>(
    (spd, output): (&Spd, bool),
    older: &Older,
    fields: &[Fields<K>],
    missed: &mut Missed<K>,
    mut renew: impl FnMut(usize),
) {
    let sides: &Sides<K> = K::of(spd);
    let entries = &older.entries[..older.count];
    let (mut versions, mut flows, mut holds) = ([0; VECTOR], [Fields::default(); VECTOR], [false; VECTOR]);
    for (&(index, version), (of, flow)) in entries.iter().zip(versions.iter_mut().zip(&mut flows)) {
        (*of, *flow) = (version, fields[usize::from(index)]);
    }
    let (flows, holds) = (&flows[..entries.len()], &mut holds[..entries.len()]);
    sides.changes[usize::from(output)].hold_on(spd.version, &versions[..entries.len()], flows, holds);
    for ((&(index, _), &flow), &holds) in entries.iter().zip(flows).zip(&*holds) {
        match holds {
            true => renew(index.into()),
            false => missed.push(index, flow),
        }
    }
}

/// Looks packets up. Writes the number of a policy for each, or `NO_RULE`.
pub(super) fn look_up<K: Family>(
    context: &mut Context<'_>,
    spd: &Spd,
    cached: &Cached<K>,
    output: bool,
    fields: &[Fields<K>],
    found: &mut [u32],
) {
    let sides: &Sides<K> = K::of(spd);
    let guard = context.guard;
    let Some(own) = K::of_mut(context.policies).of(usize::from(spd.index.0), output) else {
        return sides.table(output).lookup_each(guard, fields, found);
    };
    let table = &mut own.table;
    let (mut keys, mut places) = ([K::FlowKey::default(); VECTOR], [0; VECTOR]);
    for ((fields, key_of), place) in fields.iter().zip(&mut keys).zip(&mut places) {
        *key_of = key(fields);
        *place = table.place(key_of);
        table.prefetch(*place);
    }
    let mut missed = Missed { indices: [0; VECTOR], fields: [Fields::default(); VECTOR], count: 0 };
    let mut older = Older { entries: [(0, 0); VECTOR], count: 0 };
    // A vector has 256 packets at most.
    for (index, found) in (0..=u8::MAX).zip(found.iter_mut()) {
        let at = usize::from(index);
        match table.at(places[at], &keys[at], spd.version) {
            Found::Hit(number) => *found = number,
            Found::Other { version, answer } => {
                *found = answer;
                older.entries[older.count] = (index, version);
                older.count += 1;
            }
            Found::Miss => missed.push(index, fields[at]),
        }
    }
    let new = missed.count;
    if older.count > 0 {
        let renew = |at: usize| {
            table.put(places[at], keys[at], spd.version, found[at]);
        };
        check_older((spd, output), &older, fields, &mut missed, renew);
    }
    let Missed { indices, fields: flows, count } = missed;
    let (mut entries, mut overwritten) = (0, 0);
    if count > 0 {
        let mut numbers = [NO_RULE; VECTOR];
        sides.table(output).lookup_each(guard, &flows[..count], &mut numbers[..count]);
        for (&index, &number) in indices[..count].iter().zip(&numbers) {
            let index = usize::from(index);
            found[index] = number;
            match table.put(places[index], keys[index], spd.version, number) {
                Replaced::Nothing => entries += 1,
                Replaced::Same => {}
                Replaced::Other => overwritten += 1,
            }
        }
    }
    if let Some(counters) = cached.counters(context.worker) {
        counters.hits.add((fields.len() - count) as u64);
        counters.misses.add(new as u64);
        counters.stale.add((count - new) as u64);
        counters.entries.add(entries);
        counters.overwritten.add(overwritten);
    }
}
