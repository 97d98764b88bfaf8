//! `ip4-steer`, `ip6-steer`: the first steer rule of the interface that matches a packet acts on it, before the rest of the graph.
//!
//! Packets of interfaces with one list are looked up together. The nodes keep no state: what no rule takes elsewhere goes on as
//! if the interface had no rules, to its owner and to learned decisions.

mod act;
mod advance;
mod frame;
mod onward;
mod redirect;

use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_table::classify::{Fields, NO_RULE};

use super::{Context, fields};
use crate::root::family::Family;
use crate::root::steer::{self, Side, Steer, Way};

pub(super) use frame::apply as frame;
use onward::onward;
pub(crate) use redirect::leave;
pub(super) use redirect::target_again;

pub(super) fn run<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut others = group::<K>(context, vector, frame);
    while !others.is_empty() {
        others = group::<K>(context, vector, &others);
    }
}

/// Applies the rules to the packets that have the list of the first packet; returns the others.
#[inline(always)]
fn group<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) -> Indices {
    let root = context.root;
    let (mut places, mut others) = (Indices::new(), Indices::new());
    let Some(&first) = frame.places().first() else { return others };
    let number = |interface: u32| root.interfaces.get(interface as usize).map_or(steer::NONE, |own| own.steer);
    let mut by = vector[first].interface();
    let wanted = number(by);
    let mut is_wanted = true;
    let mut fields = [Fields::default(); VECTOR];
    for &place in frame.places() {
        let packet = &vector[place];
        if packet.interface() != by {
            by = packet.interface();
            is_wanted = number(by) == wanted;
        }
        if !is_wanted {
            others.push(place);
            continue;
        }
        fields::of::<K>(packet, &mut fields[places.len()]);
        places.push(place);
    }
    match root.steer.list.get(usize::from(wanted)) {
        Some(list) => apply::<K>(context, vector, &places, &fields, list),
        None => onward(context, vector, &places, K::IS_V4),
    }
    others
}

/// Looks up packets in a list, and acts on packets that match.
#[inline(always)]
fn apply<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    places: &Indices,
    fields: &[Fields<K>; VECTOR],
    list: &Steer,
) {
    let count = places.len();
    let mut found = [NO_RULE; VECTOR];
    let side = K::of(list);
    side.table.lookup_each(context.guard, &fields[..count], &mut found[..count]);
    let found = &found[..count];
    let Some(&first) = found.first() else { return };
    let differ = found.iter().fold(0, |differ, own| differ | own ^ first);
    // In the usual case all packets have one fate, and nothing else is looked at.
    if differ == 0 && Side::<K>::is_plain(first) && !context.recorder.is_on() {
        let rule = list.rules.get(first as usize).filter(|_| first != NO_RULE);
        match rule {
            None => return onward(context, vector, places, K::IS_V4),
            Some(rule) if rule.way == Way::On => {
                act::all(context, vector, places, rule);
                return onward(context, vector, places, K::IS_V4);
            }
            Some(_) => {}
        }
    }
    act::each::<K>(context, vector, places, (found, fields), list);
}
