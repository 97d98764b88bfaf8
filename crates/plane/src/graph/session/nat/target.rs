//! Rules: which one matches, and the tuple that it gives.

use weir_base::reclaim::Guard;
use weir_packet::translate;
use weir_table::classify::{Fields, NO_RULE};

use crate::graph::session::tuple::Tuple;
use crate::model::NatVerb;
use crate::root::Root;
use crate::root::family::Family;
use crate::root::nat::Rule;

/// Finds the rules of a chain that packets match, by number; [`NO_RULE`] where none does.
pub(crate) fn look_up_each<K: Family>(
    root: &Root,
    guard: &Guard<'_>,
    chain: u16,
    fields: &[Fields<K>],
    found: &mut [u32],
) {
    match K::of(&root.nat).get(usize::from(chain)) {
        Some(table) => table.lookup_each(guard, fields, found),
        None => found.fill(NO_RULE),
    }
}

/// Finds the rule of a chain that a packet matches.
pub(crate) fn look_up<K: Family>(root: &Root, guard: &Guard<'_>, chain: u16, fields: &Fields<K>) -> Option<u32> {
    let mut found = [NO_RULE];
    look_up_each(root, guard, chain, std::slice::from_ref(fields), &mut found);
    Some(found[0]).filter(|&found| found != NO_RULE)
}

/// Whether packets of a tuple have ports or an identifier that can be changed.
pub(crate) fn has_words<K: Family>(tuple: &Tuple<K>) -> bool {
    translate::has_words(tuple.protocol, tuple.query != 0)
}

/// The tuple with the destination that a rule gives to a packet that comes in. `None`: the rule has no address for it.
pub(crate) fn destination<K: Family>(rule: &Rule, tuple: &Tuple<K>) -> Option<Tuple<K>> {
    if rule.verb == NatVerb::Map {
        let outside = K::of(&rule.source.as_ref()?.spans).first()?.0;
        let destination = shifted(tuple.destination, outside, rule.inside.first()?)?;
        return Some(Tuple { destination, ..*tuple });
    }
    let target = rule.destination.as_ref()?;
    let mut words = tuple.words;
    if let Some(ports) = &target.ports
        && tuple.query == 0
    {
        let offset = tuple.words[1].wrapping_sub(rule.first_port);
        words[1] = if ports.start() == ports.end() { *ports.start() } else { ports.start().wrapping_add(offset) };
    }
    Some(Tuple { destination: target.spans.first()?, words, ..*tuple })
}

/// The source that a map gives to an inside address.
pub(super) fn mapped<K: Family>(rule: &Rule, source: K) -> Option<K> {
    let outside = K::of(&rule.source.as_ref()?.spans).first()?.0;
    shifted(source, rule.inside.first()?, outside)
}

/// The address as far behind `to` as it is behind `from`.
fn shifted<K: Family>(address: K, from: K, to: K) -> Option<K> {
    // Both prefixes begin at a multiple of their length: the bits behind it are the address's own.
    K::of_number(Into::<u128>::into(address) ^ Into::<u128>::into(from) ^ Into::<u128>::into(to))
}
