//! A translation under other rules than its own.

use weir_base::reclaim::Guard;

use super::draw::offers;
use super::target::{destination, has_words, look_up, mapped};
use weir_table::classify::Fields;

use crate::graph::session::mappings::Endpoint;
use crate::graph::session::record::{Opener, Session};
use crate::graph::session::translation::{SourceBy, Translation};
use crate::graph::session::tuple::Tuple;
use crate::model::NatVerb;
use crate::root::Root;
use crate::root::family::Family;
use crate::root::nat::{OfInterface, Rule};

/// The translation as the rules in force give it to its first packet; `None` if they give another one, or none.
pub(crate) fn again<K: Family>(root: &Root, guard: &Guard<'_>, session: &Session<K>) -> Option<Translation<K>> {
    let (tuple, own) = (session.tuple, session.translation?);
    let out = own.out();
    let interface = |number: u32| -> Option<OfInterface> {
        let own = root.interfaces.get(number as usize).filter(|own| own.present)?;
        Some(own.nat).filter(|nat| root.nat.links(nat.zone, tuple.zone) && root.nat.links(nat.zone, out.zone))
    };
    // The interface that the first packet came in by, or left by.
    let nat = interface(if own.input { session.opener.interface } else { own.interface })?;
    if nat.zone != if own.input { tuple.zone } else { out.zone } {
        return None;
    }
    let fields = session.fields_with(&tuple);
    if !own.input {
        let (rule, by) = find(root, guard, nat.output, &fields)?;
        return (out.destination == tuple.destination && gives(by, &tuple, &out))
            .then_some(Translation { rule, ..own });
    }
    // Rules about packets that come in go before mappings, as for a first packet.
    let (rule, by, wanted) = match look_up(root, guard, nat.input, &fields) {
        Some(number) => {
            let by = translating(root, number)?;
            (number, by, destination(by, &tuple)?)
        }
        None if own.through => {
            let inside = Endpoint::destination(&out);
            let (rule, wanted) = through((root, guard), &session.opener, &tuple, own.interface, inside)?;
            (rule, root.nat.rules.get(rule as usize)?, wanted)
        }
        None => return None,
    };
    let is_same = wanted.destination == out.destination && (tuple.query != 0 || wanted.words[1] == out.words[1]);
    if !is_same {
        return None;
    }
    if by.verb == NatVerb::Both {
        let source_by = own.source_by.map(|source_by| source_by.with_rule(Some(rule)));
        return gives(by, &wanted, &out).then_some(Translation { rule, source_by, ..own });
    }
    let stays = (out.source, out.words) == (wanted.source, wanted.words);
    if own.is_undecided {
        return Some(Translation { rule, ..own });
    }
    let source_by = match own.source_by {
        Some(source_by) if !source_by.is_hairpin => Some(source_by),
        // A packet from outside keeps its source on its way in.
        _ if nat.is_outside() => None,
        _ => Some(SourceBy::new(by.interface, true, None)),
    };
    let Some(source_by) = source_by else {
        return stays.then_some(Translation { rule, source_by, ..own });
    };
    let at = interface(source_by.interface)?;
    let seen = if source_by.is_hairpin { tuple } else { wanted };
    match find(root, guard, at.output, &session.fields_with(&seen)) {
        Some((number, by)) if gives(by, &wanted, &out) => {
            Some(Translation { rule, source_by: Some(source_by.with_rule(Some(number))), ..own })
        }
        None if stays => Some(Translation { rule, source_by: Some(source_by.with_rule(None)), ..own }),
        _ => None,
    }
}

/// The rule that has the mapping between the destination of a tuple's packets and an inside endpoint, if it lets the packets
/// in, and the tuple with that endpoint as its destination. Packets from inside are let in always. If their source is
/// translated, answers go to an outside address: the rule has to translate packets to the outside endpoint, and not those to the
/// source as it came.
pub(crate) fn through<K: Family>(
    (root, guard): (&Root, &Guard<'_>),
    opener: &Opener,
    tuple: &Tuple<K>,
    interface: u32,
    inside: Endpoint<K>,
) -> Option<(u32, Tuple<K>)> {
    let of = |number: u32| {
        let own = root.interfaces.get(number as usize).filter(|own| own.present)?;
        Some(own.nat).filter(|nat| nat.zone == tuple.zone)
    };
    let wanted = Tuple { destination: inside.address, words: [tuple.words[0], inside.word], ..*tuple };
    let chain = of(interface)?.output;
    let is_from_outside = of(opener.interface).is_none_or(|own| own.is_outside());
    let has_source = !is_from_outside && find(root, guard, chain, &opener.fields(tuple)).is_some();
    // The packets of the inside host in the other direction, before they are translated.
    let mut back = wanted.reversed();
    if has_source {
        (back.destination, back.words[1]) = (tuple.destination, tuple.words[1]);
    }
    let (number, rule) = find(root, guard, chain, &opener.fields(&back))?;
    let lets_in = rule.mapping.is_some_and(|mapping| mapping.is_open || !is_from_outside);
    (lets_in && gives(rule, &back, &tuple.reversed())).then_some((number, wanted))
}

/// The rule of a chain that translates packets with these fields.
fn find<'r, K: Family>(root: &'r Root, guard: &Guard<'_>, chain: u16, fields: &Fields<K>) -> Option<(u32, &'r Rule)> {
    let number = look_up(root, guard, chain, fields)?;
    Some((number, translating(root, number)?))
}

/// The rule with a number, if it gives translations.
fn translating(root: &Root, number: u32) -> Option<&Rule> {
    root.nat.rules.get(number as usize).filter(|rule| rule.verb != NatVerb::Keep && rule.npt.is_none())
}

/// Whether a rule may give this source to packets of a tuple.
fn gives<K: Family>(rule: &Rule, tuple: &Tuple<K>, out: &Tuple<K>) -> bool {
    if rule.verb == NatVerb::Map {
        return mapped(rule, tuple.source) == Some(out.source) && tuple.words[0] == out.words[0];
    }
    let Some(target) = &rule.source else { return false };
    let is_port = !has_words(tuple) || offers(rule, target, tuple, out.words[0]);
    target.spans.contain(out.source) && is_port
}
