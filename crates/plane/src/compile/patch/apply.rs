//! Edits of a list, applied to another declaration.

use std::collections::HashMap;
use std::hash::Hash;

use super::spot::{Anchor, Spot};

/// The effect of a rule on packets that match it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// It lets packets pass.
    pub opens: bool,
    /// It refuses packets.
    pub closes: bool,
}

/// An edit of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Edit {
    /// The added rule that is this item of the list.
    Added(usize),
    /// The removal of this rule of the declaration.
    Removed(u32),
}

/// Why an edit does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The anchor, this rule of the declaration, is gone.
    AnchorGone(u32),
    /// The new declaration has the anchor another number of times.
    AnchorAmbiguous(u32),
    /// The declaration had no rules, and has some.
    NoLongerEmpty,
    /// The new declaration has the removed rule another number of times.
    RuleAmbiguous,
    /// The new order would move this item of the list to the other side of the added rule.
    Passed(usize),
}

/// An item of a list by the new declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The rule of the new declaration with this index.
    Declared(u32),
    /// An item of the list before, an added rule, and its anchor in the new declaration.
    Added(usize, Anchor),
}

/// A list by a new declaration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rebased {
    /// The list.
    pub slots: Vec<Slot>,
    /// Edits that do not apply, and are left out.
    pub lost: Vec<(Edit, Why)>,
}

/// Pairs of rules of which a rebase finds out whether both match some packet, at most. Further ones count as if they did.
const COMPARED: usize = 10_000_000;

/// A list, its edits and a new declaration.
pub(super) struct Rebase<'a, T> {
    pub(super) before: &'a [T],
    pub(super) items: &'a [(T, Spot)],
    pub(super) after: &'a [T],
    /// The indices of the new declaration with each text.
    pub(super) found: HashMap<&'a T, Vec<u32>>,
    /// By the index of a rule before: its index after, if both declarations have it as often.
    pub(super) index: Vec<Option<u32>>,
    /// By the index of a rule before that was saved: its index after, however often that has it. No others have one here.
    pub(super) saved: Vec<Option<u32>>,
    lost: Vec<(Edit, Why)>,
}

impl<'a, T: Eq + Hash> Rebase<'a, T> {
    pub(super) fn new(before: &'a [T], items: &'a [(T, Spot)], after: &'a [T]) -> Self {
        let places = |rules: &'a [T]| {
            let mut places: HashMap<&T, Vec<u32>> = HashMap::with_capacity(rules.len());
            (0..).zip(rules).for_each(|(index, rule)| places.entry(rule).or_default().push(index));
            places
        };
        let found = places(after);
        let mut index = vec![None; before.len()];
        for (rule, old) in places(before) {
            if let Some(new) = found.get(rule).filter(|new| new.len() == old.len()) {
                old.iter().zip(new).for_each(|(&old, &new)| index[old as usize] = Some(new));
            }
        }
        Rebase { before, items, after, found, index, saved: vec![None; before.len()], lost: Vec::new() }
    }

    /// Applies the edits.
    pub(super) fn run(mut self, effect: impl Fn(&T) -> Effect, may_meet: impl Fn(usize, usize) -> bool) -> Rebased {
        let removed = self.removals();
        let mut slots = self.merge(&removed);
        self.leave_out_passed(&mut slots, effect, may_meet);
        self.lost.sort_by_key(|(edit, _)| match edit {
            Edit::Added(item) => (0, *item),
            Edit::Removed(index) => (1, *index as usize),
        });
        Rebased { slots, lost: self.lost }
    }

    fn copies(&self, rule: u32) -> &[u32] {
        self.found.get(&self.before[rule as usize]).map_or(&[], Vec::as_slice)
    }

    /// Returns, by index, which rules of the new declaration are removed.
    fn removals(&mut self) -> Vec<bool> {
        let mut removed = vec![true; self.before.len()];
        for (_, spot) in self.items {
            if let Spot::Declared(index) = spot {
                removed[*index as usize] = false;
            }
        }
        // Texts of which the list kept a copy, and the number of copies.
        let mut kept: HashMap<&T, (usize, usize)> = HashMap::new();
        for (rule, removed) in self.before.iter().zip(&removed) {
            let (copies, kept) = kept.entry(rule).or_default();
            *copies += 1;
            *kept += usize::from(!removed);
        }
        let mut out = vec![false; self.after.len()];
        for index in (0..self.before.len() as u32).filter(|&index| removed[index as usize]) {
            let copies = self.copies(index);
            match (self.index[index as usize], kept[&self.before[index as usize]]) {
                (Some(new), _) => out[new as usize] = true,
                (None, _) if copies.is_empty() => {}
                // All copies were removed: the copies that are left are removed, too.
                (None, (before, 0)) if copies.len() < before => {
                    copies.iter().for_each(|&new| out[new as usize] = true);
                }
                _ => self.lost.push((Edit::Removed(index), Why::RuleAmbiguous)),
            }
        }
        out
    }

    /// Merges the rules that stay with the added rules whose anchors are there.
    fn merge(&mut self, removed: &[bool]) -> Vec<Slot> {
        let mut added: Vec<(usize, Anchor)> = Vec::new();
        for (item, (_, spot)) in self.items.iter().enumerate() {
            let Spot::Added(anchor) = *spot else { continue };
            let (index, side): (u32, fn(u32) -> Anchor) = match anchor {
                Anchor::Before(index) => (index, Anchor::Before),
                Anchor::Behind(index) => (index, Anchor::Behind),
                Anchor::Nothing if self.after.is_empty() => {
                    added.push((item, anchor));
                    continue;
                }
                Anchor::Nothing => {
                    self.lost.push((Edit::Added(item), Why::NoLongerEmpty));
                    continue;
                }
            };
            match self.index[index as usize] {
                Some(new) => added.push((item, side(new))),
                None if self.copies(index).is_empty() => self.lost.push((Edit::Added(item), Why::AnchorGone(index))),
                None => self.lost.push((Edit::Added(item), Why::AnchorAmbiguous(index))),
            }
        }
        // Stable: rules with the same anchor keep their order.
        added.sort_by_key(|(_, anchor)| anchor.key());
        let mut added = added.into_iter().peekable();
        let mut slots = Vec::with_capacity(self.after.len() + added.len());
        for index in 0..self.after.len() as u32 {
            let own = Spot::Declared(index);
            while let Some((item, anchor)) = added.next_if(|(_, anchor)| anchor.key() < own.key()) {
                slots.push(Slot::Added(item, anchor));
            }
            if !removed[index as usize] {
                slots.push(Slot::Declared(index));
            }
        }
        slots.extend(added.map(|(item, anchor)| Slot::Added(item, anchor)));
        slots
    }

    /// Leaves out added rules that stand on the other side of a rule than before, if that lets more packets pass: a rule that
    /// opens must not come before one that closes, where it stood behind it.
    fn leave_out_passed(
        &mut self,
        slots: &mut Vec<Slot>,
        effect: impl Fn(&T) -> Effect,
        may_meet: impl Fn(usize, usize) -> bool,
    ) {
        let places = self.places(slots);
        let effects: Vec<Effect> = self.items.iter().map(|(text, _)| effect(text)).collect();
        let added = |item: usize| matches!(self.items[item].1, Spot::Added(_)).then(|| places[item]).flatten();
        let mut passed: HashMap<usize, usize> = HashMap::new();
        let mut left = COMPARED;
        // The last place of a rule that closes, of those in front; and the first of one that opens, of those behind.
        let mut last = vec![0; self.items.len() + 1];
        for item in 0..self.items.len() {
            let place = places[item].filter(|_| effects[item].closes).map_or(0, |place| place + 1);
            last[item + 1] = last[item].max(place);
        }
        for item in (0..self.items.len()).filter(|&item| effects[item].opens) {
            let Some(place) = added(item).filter(|place| last[item] > place + 1) else { continue };
            let closes = |&other: &usize| effects[other].closes && places[other].is_some_and(|other| other > place);
            let mut others = (0..item).rev().filter(closes);
            let found = others.find(|&other| meet(&mut left, || may_meet(item, other)));
            passed.extend(found.map(|other| (item, other)));
        }
        let mut first = vec![usize::MAX; self.items.len() + 1];
        for item in (0..self.items.len()).rev() {
            let opens = effects[item].opens && !passed.contains_key(&item);
            let place = places[item].filter(|_| opens).unwrap_or(usize::MAX);
            first[item] = first[item + 1].min(place);
        }
        for item in (0..self.items.len()).filter(|&item| effects[item].closes) {
            let Some(place) = added(item).filter(|&place| first[item + 1] < place) else { continue };
            let opens = |other: &usize| effects[*other].opens && places[*other].is_some_and(|other| other < place);
            let mut others = (item + 1..self.items.len()).filter(opens).filter(|other| !passed.contains_key(other));
            let found = others.find(|&other| meet(&mut left, || may_meet(item, other)));
            drop(others);
            passed.extend(found.map(|other| (item, other)));
        }
        self.lost.extend(passed.iter().map(|(&item, &other)| (Edit::Added(item), Why::Passed(other))));
        slots.retain(|slot| !matches!(slot, Slot::Added(item, _) if passed.contains_key(item)));
    }

    /// Returns the place of each item in the new list.
    fn places(&self, slots: &[Slot]) -> Vec<Option<usize>> {
        let mut places: Vec<Option<usize>> = vec![None; self.items.len()];
        let mut of_declared: Vec<Option<usize>> = vec![None; self.after.len()];
        for (place, slot) in slots.iter().enumerate() {
            match *slot {
                Slot::Declared(index) => of_declared[index as usize] = Some(place),
                Slot::Added(item, _) => places[item] = Some(place),
            }
        }
        for (item, (_, spot)) in self.items.iter().enumerate() {
            if let Spot::Declared(index) = spot {
                let new = self.index[*index as usize].or(self.saved[*index as usize]);
                places[item] = new.and_then(|new| of_declared[new as usize]);
            }
        }
        places
    }
}

/// Whether two rules may meet, as long as the effort lasts.
fn meet(left: &mut usize, may_meet: impl FnOnce() -> bool) -> bool {
    let Some(less) = left.checked_sub(1) else { return true };
    *left = less;
    may_meet()
}
