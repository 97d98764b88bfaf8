//! Live edits of an ordered list of rules, and how they apply to another declaration of the list.
//!
//! A *patch* has rules that were added, each with an anchor, and rules of the declaration that were removed. An anchor is a
//! rule of the declaration and a side of it. The edit that adds a rule chooses the anchor, and later declarations keep it.
//! `docs/live-edits.md` has the semantics for operators.
//!
//! Each item of a list has a *key*: rule `i` of the declaration has `3i + 1`, rules before it `3i`, rules behind it
//! `3i + 2`. The keys of a list never descend. So the declared rules stand in their order, and each added rule stands at its
//! anchor, whether the anchor itself was removed or not.

mod saved;

use std::collections::HashMap;
use std::hash::Hash;

use saved::Settled;

/// The place of an added rule, by an index of the declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// Directly before this rule, behind rules that were added there before.
    Before(u32),
    /// Directly behind this rule, or behind rules that were added there before.
    Behind(u32),
    /// The declaration has no rules.
    Nothing,
}

impl Anchor {
    fn key(self) -> u64 {
        match self {
            Anchor::Before(index) => 3 * u64::from(index),
            Anchor::Behind(index) => 3 * u64::from(index) + 2,
            Anchor::Nothing => 0,
        }
    }
}

/// The place of an item of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    /// The rule of the declaration with this index.
    Declared(u32),
    /// An added rule with this anchor.
    Added(Anchor),
}

impl Spot {
    fn key(self) -> u64 {
        match self {
            Spot::Declared(index) => 3 * u64::from(index) + 1,
            Spot::Added(anchor) => anchor.key(),
        }
    }

    fn behind(self) -> Anchor {
        match self {
            Spot::Declared(index) => Anchor::Behind(index),
            Spot::Added(anchor) => anchor,
        }
    }

    fn before(self) -> Anchor {
        match self {
            Spot::Declared(index) => Anchor::Before(index),
            Spot::Added(anchor) => anchor,
        }
    }
}

/// The gap between two neighbours of a list, where rules are added.
#[derive(Debug, Clone, Copy)]
pub struct Gap {
    /// The item in front; `None`: the gap is at the begin.
    pub previous: Option<Spot>,
    /// The item behind; `None`: the gap is at the end.
    pub next: Option<Spot>,
    /// The number of rules of the declaration.
    pub declared: usize,
}

impl Gap {
    /// Chooses the anchor of rules that are added here. `behind`: the edit names the rule in front.
    pub fn anchor(&self, behind: bool) -> Anchor {
        match (self.previous, self.next) {
            (Some(previous), _) if behind => previous.behind(),
            (_, Some(next)) => next.before(),
            (Some(previous), None) => previous.behind(),
            (None, None) => match u32::try_from(self.declared) {
                Ok(0) | Err(_) => Anchor::Nothing,
                Ok(rules) => Anchor::Behind(rules - 1),
            },
        }
    }

    /// Returns the indices of the declaration whose rules would stand here.
    pub fn declared(&self) -> std::ops::Range<u32> {
        // The first index with a key above that of the previous item, and the first with a key not below that of the next.
        let first = self.previous.map_or(0, |spot| spot.key().div_ceil(3));
        let end = self.next.map_or(self.declared as u64, |spot| (spot.key() + 1) / 3);
        first as u32..end.max(first) as u32
    }
}

/// Returns anchors for the items of a list in their order: items with a spot keep it if it fits, all others get the place
/// behind the item in front of them.
pub fn arranged(items: &[Option<Spot>], declared: usize) -> Vec<Spot> {
    let mut next_declared = vec![None; items.len() + 1];
    for (index, item) in items.iter().enumerate().rev() {
        next_declared[index] = match item {
            Some(spot @ Spot::Declared(_)) => Some(*spot),
            _ => next_declared[index + 1],
        };
    }
    let mut previous: Option<Spot> = None;
    let place = |(index, item): (usize, &Option<Spot>)| {
        let next = next_declared[index];
        let low = previous.map_or(0, Spot::key);
        let high = next.map_or(u64::MAX, Spot::key);
        let spot = match *item {
            Some(spot @ Spot::Declared(_)) => spot,
            Some(spot) if (low..=high).contains(&spot.key()) => spot,
            _ => Spot::Added(Gap { previous, next, declared }.anchor(true)),
        };
        previous = Some(spot);
        spot
    };
    items.iter().enumerate().map(place).collect()
}

/// Returns which of these indices form a longest ascending sequence; items without an index are no part of it.
pub fn ascending(items: &[Option<u32>]) -> Vec<bool> {
    // Of all sequences of each length: the item with the lowest last index.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; items.len()];
    for (item, index) in items.iter().enumerate().filter(|(_, index)| index.is_some()) {
        let at = ends.partition_point(|&end| items[end] < *index);
        before[item] = at.checked_sub(1).map(|at| ends[at]);
        match ends.get_mut(at) {
            Some(end) => *end = item,
            None => ends.push(item),
        }
    }
    let mut is_part = vec![false; items.len()];
    let mut next = ends.last().copied();
    while let Some(item) = next {
        is_part[item] = true;
        next = before[item];
    }
    is_part
}

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
    let rebased = Rebase::new(&settled.before, &settled.items, &after).run(|text| effect(text), may_meet);
    settled.by_old(rebased)
}

struct Rebase<'a, T> {
    before: &'a [T],
    items: &'a [(T, Spot)],
    after: &'a [T],
    /// The indices of the new declaration with each text.
    found: HashMap<&'a T, Vec<u32>>,
    /// By the index of a rule before: its index after, if both declarations have it as often.
    index: Vec<Option<u32>>,
    lost: Vec<(Edit, Why)>,
}

impl<'a, T: Eq + Hash> Rebase<'a, T> {
    fn new(before: &'a [T], items: &'a [(T, Spot)], after: &'a [T]) -> Self {
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
        Rebase { before, items, after, found, index, lost: Vec::new() }
    }

    /// Applies the edits.
    fn run(mut self, effect: impl Fn(&T) -> Effect, may_meet: impl Fn(usize, usize) -> bool) -> Rebased {
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
                places[item] = self.index[*index as usize].and_then(|new| of_declared[new as usize]);
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
