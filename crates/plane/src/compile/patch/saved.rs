//! Added rules that a new declaration has: they were saved, and are rules of the declaration from then on.
//!
//! An added rule was saved if the new declaration has its text between the same rules of the old one. Other added rules may stand
//! between it and its anchor: these get the saved rule as their anchor, so that the order of all of them stays.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::apply::{Edit, Rebase, Rebased, Why};
use super::spot::{Anchor, Spot, ascending};

/// A list whose saved rules are rules of the old declaration, too.
pub(super) struct Settled<'a, T> {
    pub(super) before: Vec<&'a T>,
    pub(super) items: Vec<(&'a T, Spot)>,
    /// By the index of a rule of this declaration that was saved: its index in the new one.
    pub(super) saved: Vec<Option<u32>>,
    /// By the index of a rule of this declaration: whether each of its copies is known in the new one.
    pub(super) distinct: Vec<bool>,
    /// By the index of a rule of this declaration: its index in the old one. Saved rules have none.
    old: Vec<Option<u32>>,
}

/// A rule of the declaration with saved rules.
#[derive(Clone, Copy)]
enum From {
    Declared(u32),
    Saved(usize),
}

impl<'a, T: Eq + Hash> Settled<'a, T> {
    /// Returns the list if rules were saved.
    pub(super) fn of(rebase: &Rebase<'a, T>) -> Option<Settled<'a, T>> {
        let saved = saved(rebase);
        if saved.iter().all(Option::is_none) {
            return None;
        }
        let &Rebase { before, items, .. } = rebase;
        let declared = (0..before.len() as u32).map(|index| (Spot::Declared(index).key(), From::Declared(index)));
        let ended = items.iter().enumerate().filter(|(item, _)| saved[*item].is_some());
        let mut order: Vec<(u64, From)> =
            declared.chain(ended.map(|(item, (_, spot))| (spot.key(), From::Saved(item)))).collect();
        // Stable: rules with the same anchor keep their order.
        order.sort_by_key(|(key, _)| *key);
        let mut of_declared = vec![0; before.len()];
        let mut of_item = vec![None; items.len()];
        for (index, (_, from)) in (0..).zip(&order) {
            match *from {
                From::Declared(old) => of_declared[old as usize] = index,
                From::Saved(item) => of_item[item] = Some(index),
            }
        }
        let text = |(_, from): &(u64, From)| match *from {
            From::Declared(old) => &before[old as usize],
            From::Saved(item) => &items[item].0,
        };
        let old = |(_, from): &(u64, From)| match *from {
            From::Declared(old) => Some(old),
            From::Saved(_) => None,
        };
        let new = |(_, from): &(u64, From)| match *from {
            From::Declared(_) => None,
            From::Saved(item) => saved[item],
        };
        let texts: Vec<&T> = order.iter().map(text).collect();
        let saved: Vec<Option<u32>> = order.iter().map(new).collect();
        let distinct = distinct(rebase, &texts, &saved);
        // Rules are anchors if the new declaration has them as often.
        let of_anchor: Vec<Option<u32>> =
            of_item.iter().zip(items).map(|(index, (text, _))| index.filter(|_| distinct.contains(text))).collect();
        let anchors = Anchors { rebase, of_declared: &of_declared, of_item: &of_item, of_anchor: &of_anchor };
        let mut spots: Vec<Spot> = (0..items.len()).map(|item| anchors.spot(item)).collect();
        // A rule whose anchor is gone may have found one in front of the rule before it: it stays behind that rule.
        for item in 1..spots.len() {
            let (previous, own) = (spots[item - 1], spots[item]);
            if matches!(own, Spot::Added(_)) && own.key() < previous.key() {
                spots[item] = match previous {
                    Spot::Declared(index) if distinct.contains(texts[index as usize]) => {
                        Spot::Added(Anchor::Behind(index))
                    }
                    Spot::Declared(_) => own,
                    Spot::Added(anchor) => Spot::Added(anchor),
                };
            }
        }
        Some(Settled {
            distinct: texts.iter().map(|text| distinct.contains(text)).collect(),
            before: texts,
            items: items.iter().map(|(text, _)| text).zip(spots).collect(),
            saved,
            old: order.iter().map(old).collect(),
        })
    }

    /// Gives a rebase of this list what is known of saved rules. Copies of one rule that may be others have no index.
    pub(super) fn inform(&self, rebase: &mut Rebase<'_, &'a T>) {
        rebase.saved.clone_from(&self.saved);
        let unknown = rebase.index.iter_mut().zip(&self.distinct).filter(|(_, distinct)| !**distinct);
        unknown.for_each(|(index, _)| *index = None);
    }

    /// Returns what was found out of this list, by the indices of the old declaration.
    pub(super) fn by_old(&self, rebased: Rebased) -> Rebased {
        let old = |index: u32| self.old.get(index as usize).copied().flatten();
        let edit = |(edit, why): (Edit, Why)| {
            let edit = match edit {
                Edit::Removed(index) => Edit::Removed(old(index)?),
                added @ Edit::Added(_) => added,
            };
            let why = match why {
                // A saved rule is there, and as often as before.
                Why::AnchorGone(index) => Why::AnchorGone(old(index)?),
                Why::AnchorAmbiguous(index) => Why::AnchorAmbiguous(old(index)?),
                other => other,
            };
            Some((edit, why))
        };
        Rebased { lost: rebased.lost.into_iter().filter_map(edit).collect(), slots: rebased.slots }
    }
}

/// Returns, by item, the index in the new declaration of the items that it has between the same rules.
fn saved<T: Eq + Hash>(rebase: &Rebase<'_, T>) -> Vec<Option<u32>> {
    let Rebase { before, items, after, index, .. } = rebase;
    let image = |item: usize| match items[item].1 {
        Spot::Declared(old) => index[old as usize],
        Spot::Added(_) => None,
    };
    // The first index of the new declaration behind all rules that stand in front of an item, and the first one of rules behind it.
    let mut low = vec![0; items.len() + 1];
    let mut high = vec![after.len() as u32; items.len() + 1];
    for item in 0..items.len() {
        low[item + 1] = image(item).map_or(low[item], |new| low[item].max(new + 1));
    }
    for item in (0..items.len()).rev() {
        high[item] = image(item).map_or(high[item + 1], |new| high[item + 1].min(new));
    }
    // The rules of the new declaration that are none of the old one, by their texts and from the last to the first; and how many
    // copies of a text are new.
    let (old, now) = (counts(*before), counts(*after));
    let mut left: HashMap<&T, usize> =
        now.into_iter().map(|(text, now)| (text, now.saturating_sub(old.get(text).copied().unwrap_or(0)))).collect();
    let mut is_old = vec![false; after.len()];
    index.iter().flatten().for_each(|&new| is_old[new as usize] = true);
    let mut new: HashMap<&T, Vec<u32>> = HashMap::new();
    for (at, text) in after.iter().enumerate().rev().filter(|(at, _)| !is_old[*at]) {
        new.entry(text).or_default().push(at as u32);
    }
    let found: Vec<Option<u32>> = (items.iter().enumerate())
        .map(|(item, (text, spot))| {
            let Spot::Added(_) = spot else { return None };
            let (places, left) = (new.get_mut(text)?, left.get_mut(text).filter(|left| **left > 0)?);
            while places.pop_if(|at| *at < low[item]).is_some() {}
            let place = places.pop_if(|at| *at < high[item])?;
            *left -= 1;
            Some(place)
        })
        .collect();
    let stays = ascending(&found);
    found.into_iter().zip(stays).map(|(place, stays)| place.filter(|_| stays)).collect()
}

/// Returns the texts of which the new declaration has as many copies, in an order by which each saved one is where it was found.
fn distinct<'a, T: Eq + Hash>(rebase: &Rebase<'a, T>, texts: &[&'a T], saved: &[Option<u32>]) -> HashSet<&'a T> {
    let mut copies: HashMap<&T, Vec<Option<u32>>> = HashMap::new();
    texts.iter().zip(saved).for_each(|(text, saved)| copies.entry(text).or_default().push(*saved));
    let is_same = |(text, copies): &(&T, Vec<Option<u32>>)| {
        let found = rebase.found.get(text).filter(|found| found.len() == copies.len());
        found.is_some_and(|found| copies.iter().zip(found).all(|(saved, new)| saved.is_none_or(|saved| saved == *new)))
    };
    copies.into_iter().filter(is_same).map(|(text, _)| text).collect()
}

/// Chooses the places of the rules that were not saved.
struct Anchors<'a, 'r, T> {
    rebase: &'r Rebase<'a, T>,
    /// Indices in the declaration with saved rules: by the index of the old one, by item, and by item that may be an anchor.
    of_declared: &'r [u32],
    of_item: &'r [Option<u32>],
    of_anchor: &'r [Option<u32>],
}

impl<T: Eq + Hash> Anchors<'_, '_, T> {
    fn spot(&self, item: usize) -> Spot {
        let items = self.rebase.items;
        let anchor = match (self.of_item[item], items[item].1) {
            (Some(index), _) => return Spot::Declared(index),
            (None, Spot::Declared(old)) => return Spot::Declared(self.of_declared[old as usize]),
            (None, Spot::Added(anchor)) => anchor,
        };
        // The nearest saved rules among the added ones beside it.
        let is_added = |other: &usize| matches!(items[*other].1, Spot::Added(_));
        let nearest = |own: usize| self.of_anchor[own].map(|index| (items[own].1, index));
        let previous = (0..item).rev().take_while(is_added).find_map(nearest);
        let next = (item + 1..items.len()).take_while(is_added).find_map(nearest);
        let same = |(spot, _): &(Spot, u32)| *spot == Spot::Added(anchor);
        let is_there = |old: u32| self.rebase.index[old as usize].is_some();
        let beside = |near: Option<(Spot, u32)>, other: Option<(Spot, u32)>| {
            near.map(|(_, index)| Anchor::Behind(index)).or(other.map(|(_, index)| Anchor::Before(index)))
        };
        let kept = match anchor {
            Anchor::Before(old) => Anchor::Before(self.of_declared[old as usize]),
            Anchor::Behind(old) => Anchor::Behind(self.of_declared[old as usize]),
            Anchor::Nothing => Anchor::Nothing,
        };
        let chosen = match anchor {
            Anchor::Before(old) if is_there(old) => next.filter(same).map(|(_, index)| Anchor::Before(index)),
            Anchor::Behind(old) if is_there(old) => previous.filter(same).map(|(_, index)| Anchor::Behind(index)),
            _ => beside(previous, next),
        };
        Spot::Added(chosen.unwrap_or(kept))
    }
}

/// Returns how many copies there are of each text.
fn counts<'a, T: Eq + Hash>(texts: impl IntoIterator<Item = &'a T>) -> HashMap<&'a T, usize> {
    let mut counts = HashMap::new();
    texts.into_iter().for_each(|text| *counts.entry(text).or_default() += 1);
    counts
}
