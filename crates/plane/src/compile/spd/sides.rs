//! The classifiers of an SPD: one for each family and direction. Inbound rules have source and destination exchanged.

use std::sync::Arc;

use weir_base::reclaim::Domain;
use weir_table::classify::{self, Writer};

use super::history::History;
use super::side::{Side, boxes_of};
use crate::compile::boxes::{Bits, count_of, needs_transport};
use crate::compile::classifier::classifier;
use crate::compile::table_full::TableFull;
use crate::model::{Spd, SpdRule};
use crate::root::spd::{Cached, Sides};

/// The caches of a family: of packets that come in, and of packets that leave.
pub(super) type Caches<K> = [Option<Arc<Cached<K>>>; 2];

/// The classifiers of a family. Tables live as long as they do.
pub(super) struct Writers<K: classify::Address> {
    _output: Writer<K>,
    _input: Writer<K>,
}

/// Compiles the classifiers of a family. `numbers`: those of the policies, by place.
pub(super) fn sides<K: Bits>(
    domain: &Domain,
    model: &Spd,
    numbers: &[u32],
    caches: Caches<K>,
    history: &History,
) -> Result<(Sides<K>, Writers<K>), TableFull> {
    let output = ordered(domain, model, numbers, Side::Output)?;
    let input = ordered(domain, model, numbers, Side::Input)?;
    let of_family = |rule: &&SpdRule| count_of(&rule.matches, K::FAMILY) > 0;
    let is_opaque = model.rules.iter().filter(of_family).any(SpdRule::is_opaque);
    let needed = model.rules.iter().any(|rule| needs_transport(&rule.matches, K::FAMILY));
    let needs_transport = needed && !is_opaque;
    let changes = [Side::Input, Side::Output].map(|side| match &caches[side as usize] {
        Some(_) => history.changes(side),
        None => History::begun(0).changes(side),
    });
    let (output_table, input_table) = (output.table(), input.table());
    let sides = Sides { output: output_table, input: input_table, needs_transport, is_opaque, cached: caches, changes };
    Ok((sides, Writers { _output: output, _input: input }))
}

/// The classifier of a direction: rules in the order in which they are matched, with their numbers.
fn ordered<K: Bits>(domain: &Domain, model: &Spd, numbers: &[u32], side: Side) -> Result<Writer<K>, TableFull> {
    let mut rules: Vec<(u64, classify::Rule<K>, u32)> = Vec::with_capacity(model.rules.len());
    for place in model.order() {
        let place = place as usize;
        for own in boxes_of(&model.rules[place], side) {
            rules.push((rules.len() as u64, own, numbers[place]));
        }
    }
    classifier(domain, rules, (format!("spd {}", model.name), model.origin))
}
