//! `ip4-steer`, `ip6-steer`: the first steer rule of the interface that matches a packet acts on it, before the rest of the graph.
//!
//! Packets of interfaces with one list are looked up together. The nodes keep no state: what no rule takes elsewhere goes on as
//! if the interface had no rules, to its owner and to learned decisions. A super-packet whose segments may match different rules is cut
//! before.

mod act;
mod advance;
mod frame;
mod onward;
mod redirect;
mod segments;

use weir_packet::vector::{Indices, Vector};
use weir_table::classify::NO_RULE;

use super::Context;
use super::fields::{self, Common};
use crate::graph::batch::{Batches, Kept};
use crate::root::family::Family;
use crate::root::steer::{self, Side, Steer, Way};

pub(super) use frame::apply as frame;
use onward::onward;
pub(crate) use redirect::leave;
pub(super) use redirect::target_again;

pub(super) fn run<K: Family>(context: &mut Context<'_>, batches: &mut Batches, vector: &mut Vector, frame: &Indices) {
    if vector.has_segments() && context.root.steer.per_segment {
        let frame = segments::cut(context, vector, frame);
        return search::<K>(context, batches, vector, &frame);
    }
    search::<K>(context, batches, vector, frame);
}

#[inline(always)]
fn search<K: Family>(context: &mut Context<'_>, batches: &mut Batches, vector: &mut Vector, frame: &Indices) {
    let kept = K::of_mut(batches);
    if fields::may_be_of_one(vector, frame) && of_one::<K>(context, kept, vector, frame) {
        return;
    }
    let mut others = group::<K>(context, kept, vector, frame);
    while !others.is_empty() {
        others = group::<K>(context, kept, vector, &others);
    }
}

/// Applies the rules of an interface to packets that all came by it; false, with nothing done: they did not.
#[inline(never)]
fn of_one<K: Family>(context: &mut Context<'_>, kept: &mut Kept<K>, vector: &mut Vector, frame: &Indices) -> bool {
    kept.batch.places.clone_from(frame);
    let common = fields::gather(vector, frame, &mut kept.batch.fields, &mut kept.batch.octets);
    let Some(interface) = common.interface else { return false };
    let number = context.root.interfaces.get(interface as usize).map_or(steer::NONE, |own| own.steer);
    let list = context.root.steer.list.get(usize::from(number)).map(|list| &**list);
    apply::<K>(context, kept, vector, list, &common);
    true
}

/// Applies the rules to the packets that have the list of the first packet; returns the others.
#[inline(never)]
fn group<K: Family>(context: &mut Context<'_>, kept: &mut Kept<K>, vector: &mut Vector, frame: &Indices) -> Indices {
    let root = context.root;
    let (mut mine, mut others) = (Indices::new(), Indices::new());
    let Some(&first) = frame.places().first() else { return others };
    let number = |interface: u32| root.interfaces.get(interface as usize).map_or(steer::NONE, |own| own.steer);
    let wanted = number(vector[first].interface());
    for run in frame.places().chunk_by(|&one, &other| vector[one].interface() == vector[other].interface()) {
        let part = if number(vector[run[0]].interface()) == wanted { &mut mine } else { &mut others };
        part.append(run);
    }
    kept.batch.places = mine;
    let common = fields::gather(vector, &kept.batch.places, &mut kept.batch.fields, &mut kept.batch.octets);
    apply::<K>(context, kept, vector, root.steer.list.get(usize::from(wanted)).map(|list| &**list), &common);
    others
}

/// Looks up packets in a list, and acts on packets that match.
#[inline(always)]
fn apply<K: Family>(
    context: &mut Context<'_>,
    Kept { batch, found, .. }: &mut Kept<K>,
    vector: &mut Vector,
    list: Option<&Steer>,
    common: &Common,
) {
    let Some(list) = list else { return onward(context, vector, &batch.places, common, K::IS_V4) };
    let count = batch.places.len();
    let (side, found) = (K::of(list), &mut found[..count]);
    side.table.lookup_each(context.guard, &batch.fields[..count], found);
    let Some(&first) = found.first() else { return };
    let differ = found.iter().fold(0, |differ, own| differ | own ^ first);
    // In the usual case all packets have one fate, and nothing else is looked at.
    if differ == 0 && Side::<K>::is_plain(first) && !context.recorder.is_on() {
        let rule = list.rules.get(first as usize).filter(|_| first != NO_RULE);
        match rule {
            None => return onward(context, vector, &batch.places, common, K::IS_V4),
            Some(rule) if rule.way == Way::On => {
                act::all(context, vector, batch, rule);
                return onward(context, vector, &batch.places, common, K::IS_V4);
            }
            Some(_) => {}
        }
    }
    act::each::<K>(context, vector, batch, (found, common), list);
}
