//! Lookups by way of an SPD's cache: what is not there, or stale, is looked up in the classifier, and written there.

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
    let (mut missed, mut asked, mut count, mut stale) = ([0u8; VECTOR], [Fields::default(); VECTOR], 0, 0);
    for (index, found) in found.iter_mut().enumerate() {
        match table.at(places[index], &keys[index], spd.version) {
            Found::Hit(number) => *found = number,
            other => {
                stale += u64::from(other == Found::Stale);
                // A vector has 256 packets at most.
                (missed[count], asked[count]) = (index as u8, fields[index]);
                count += 1;
            }
        }
    }
    let (mut entries, mut overwritten) = (0, 0);
    if count > 0 {
        let mut numbers = [NO_RULE; VECTOR];
        sides.table(output).lookup_each(guard, &asked[..count], &mut numbers[..count]);
        for (&index, &number) in missed[..count].iter().zip(&numbers) {
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
        counters.misses.add(count as u64 - stale);
        counters.stale.add(stale);
        counters.entries.add(entries);
        counters.overwritten.add(overwritten);
    }
}
