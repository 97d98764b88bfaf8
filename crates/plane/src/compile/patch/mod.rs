//! Live edits of an ordered list of rules, and how they apply to another declaration of the list.
//!
//! A *patch* has rules that were added, each with an anchor, and rules of the declaration that were removed. An anchor is a
//! rule of the declaration and a side of it. The edit that adds a rule chooses the anchor, and later declarations keep it.
//! `docs/live-edits.md` has the semantics for operators.
//!
//! Each item of a list has a *key*: rule `i` of the declaration has `3i + 1`, rules before it `3i`, rules behind it
//! `3i + 2`. The keys of a list never descend. So the declared rules stand in their order, and each added rule stands at its
//! anchor, whether the anchor itself was removed or not.

mod apply;
mod saved;
mod spot;

use std::hash::Hash;

pub use apply::{Edit, Effect, Rebased, Slot, Why};
pub use spot::{Anchor, Gap, Spot, arranged, ascending};

use apply::Rebase;
use saved::Settled;

/// Applies the edits of a list to a new declaration.
///
/// `before` has the rules of the declaration that the edits were made to, `items` the list with its edits, and `after` the new
/// declaration. Equal rules have equal texts. `may_meet` says whether some packet may match both of two items.
pub fn rebase<T: Eq + Hash>(
    before: &[T],
    items: &[(T, Spot)],
    after: &[T],
    effect: impl Fn(&T) -> Effect,
    may_meet: impl Fn(usize, usize) -> bool,
) -> Rebased {
    if before == after {
        let slot = |(item, (_, spot)): (usize, &(T, Spot))| match *spot {
            Spot::Declared(index) => Slot::Declared(index),
            Spot::Added(anchor) => Slot::Added(item, anchor),
        };
        return Rebased { slots: items.iter().enumerate().map(slot).collect(), lost: Vec::new() };
    }
    if items.len() == after.len() && items.iter().map(|(text, _)| text).eq(after) {
        // The edits were saved.
        return Rebased { slots: (0..after.len() as u32).map(Slot::Declared).collect(), lost: Vec::new() };
    }
    let rebase = Rebase::new(before, items, after);
    let Some(settled) = Settled::of(&rebase) else {
        return rebase.run(effect, may_meet);
    };
    let after: Vec<&T> = after.iter().collect();
    let mut rebase = Rebase::new(&settled.before, &settled.items, &after);
    settled.inform(&mut rebase);
    let rebased = rebase.run(|text| effect(text), may_meet);
    settled.by_old(rebased)
}
