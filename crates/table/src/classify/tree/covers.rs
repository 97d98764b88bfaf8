//! Covered rules: they stay out of the tree, as long as an earlier rule in it decides about all their packets.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use crate::lpm::Folding;
use crate::lpm::arena::Block;

use super::super::address::Address;
use super::super::block::{BITS, CHAIN, CUT, CUT_HEADER, DENSE, ENDS, HEADER, KINDS, LONG, split};
use super::super::dense::SOME;
use super::super::facts::Facts;
use super::super::hashed;
use super::super::plan::{each_slot, fits, slots};
use super::super::shadow;
use super::{Edit, LONG_LOOKUP, ROOT, Refusal, STEPS, Tree, numbers};

/// Above this predicted time of a lookup, in ticks, a tree is built without covered rules if half of its rules are covered.
const RATHER_LONG_LOOKUP: usize = 125;

/// Number of rules that are looked at to estimate the covered part.
const SAMPLE: usize = 256;

/// With this number of overlapping rules, a tree is built without covered rules.
const MANY_OVERLAPPING: usize = SOME;

/// Number of covered rules that return to the tree one by one when their cover is removed. More of them, unless they
/// are this many times fewer than those of the tree, return by a rebuild.
const FEW_TO_ADD: usize = 64;

/// Number of covering rules that are checked for room.
const TRIES: usize = 16;

impl<K: Address> Tree<K> {
    /// Returns the rules of the tree and a new one, in order.
    pub(super) fn facts_with(&self, place: u64) -> Vec<Facts> {
        let mut records = vec![self.rules[&place].record];
        self.gather_records(self.root(), &mut records);
        self.facts(records)
    }

    /// Returns a rule that covers another and has room for it, except one that is about to be removed.
    pub(super) fn cover_with_room(&self, facts: &Facts, gone: Option<u64>) -> Option<u64> {
        let room = |cover| self.room_under(cover, facts.place, gone);
        self.cover(self.root(), facts, |cover| room(cover).is_some()).and_then(room)
    }

    /// Returns a rule that covers the one at a place and has room for it: its cover, or a rule under that.
    pub(super) fn room_under(&self, mut cover: u64, place: u64, gone: Option<u64>) -> Option<u64> {
        let rule = &self.rules[&place].rule;
        let is_gone = |cover| gone == Some(cover);
        for _ in 0..STEPS {
            if is_gone(cover) {
                return None;
            }
            if self.shadowed.has_room(cover) {
                return Some(cover);
            }
            let mut widest = self.shadowed.widest(cover).filter(|other| *other < place && !is_gone(*other));
            cover = widest.find(|other| self.rules[other].rule.covers(rule))?;
        }
        None
    }

    /// Returns whether lookups in a tree of these rules may be slow, so that a search for covered rules pays.
    pub(super) fn takes_long(&self, root: u32, facts: &[Facts]) -> bool {
        let shape = self.shape(root);
        if shape.ticks > LONG_LOOKUP || shape.overlapping > MANY_OVERLAPPING {
            return true;
        }
        // An odd step: lists often repeat in twos or fours.
        let step = (facts.len() / SAMPLE) | 1;
        let sample = || facts.iter().step_by(step);
        let are_covered = || sample().filter(|facts| self.cover(root, facts, |_| true).is_some()).count();
        shape.ticks > RATHER_LONG_LOOKUP && 2 * are_covered() >= sample().count()
    }

    /// Finds other covers for the rules under one that is about to be removed, or inserts them behind it, where no
    /// packet reaches them yet. So a lack of room changes no answer.
    pub(super) fn uncover(&mut self, cover: u64) -> Result<(), Refusal> {
        let above = self.shadowed.by(cover);
        let (mut added, mut left) = (0, Vec::new());
        for place in self.shadowed.under(cover) {
            let facts = self.facts_of(place);
            let above = above.and_then(|above| self.room_under(above, place, Some(cover)));
            match above.or_else(|| self.cover_with_room(&facts, Some(cover))) {
                Some(other) => self.shadowed.note(place, other, facts.width::<K>()),
                // The first ones may cover many of the others.
                None if added == FEW_TO_ADD => left.push(place),
                None => {
                    added += 1;
                    self.come_back(&[place])?;
                }
            }
        }
        match FEW_TO_ADD * left.len() > self.in_tree() {
            true if !left.is_empty() => self.come_back(&left)?,
            _ => left.iter().try_for_each(|place| self.come_back(&[*place]))?,
        }
        if added > 0 {
            // A lookup that passed the place of a rule before its insertion must not miss its cover as well.
            self.domain.synchronize();
        }
        Ok(())
    }

    /// Inserts covered rules into the tree; many by a rebuild.
    pub(super) fn come_back(&mut self, places: &[u64]) -> Result<(), Refusal> {
        let done = match places {
            [place] => self.add(ROOT, &self.facts_of(*place)),
            _ => {
                let before = self.root();
                let mut records = Vec::from_iter(places.iter().map(|place| self.rules[place].record));
                self.gather_records(before, &mut records);
                let facts = self.facts(records);
                self.rebuilt.0 += 1;
                self.rebuilt.1 += facts.len() as u64;
                self.build(&facts, &numbers(&facts), ROOT).map(|root| {
                    self.drop_all(before);
                    self.edits.push(Edit { word: None, to: root });
                })
            }
        };
        self.finish(done)?;
        for place in places {
            self.shadowed.forget(*place);
        }
        Ok(())
    }

    /// Returns the covered ones of these rules, in order, each with a cover in a tree.
    pub(super) fn shadows(&self, root: u32, facts: &[Facts]) -> Vec<(u64, u64)> {
        let (mut shadowed, mut counts) = (Vec::new(), HashMap::<u64, usize, Folding>::default());
        for facts in facts {
            let has_room = |cover| self.shadowed.count(cover) + counts.get(&cover).unwrap_or(&0) < shadow::MOST;
            if let Some(cover) = self.cover(root, facts, has_room) {
                *counts.entry(cover).or_default() += 1;
                shadowed.push((facts.place, cover));
            }
        }
        shadowed
    }

    /// Returns the place of an earlier rule of a tree that covers a rule and is accepted.
    ///
    /// In each leaf, the last such rule comes first: the first of equal rules may be full.
    ///
    /// Looks the rule up like a packet. The open bits of a covering rule include those of the covered one: so it is in
    /// each of its slots, or in the wildcard list.
    pub(super) fn cover(&self, root: u32, facts: &Facts, accept: impl Fn(u64) -> bool) -> Option<u64> {
        let rule = &self.rules[&facts.place].rule;
        let covers = |place: u64| self.rules[&place].rule.covers(rule);
        let mut tries = TRIES;
        let mut accept = |place| {
            tries -= usize::from(tries > 0);
            tries == 0 || accept(place)
        };
        let mut left = vec![root];
        let mut found = None;
        while let Some(reference) = left.pop().filter(|_| found.is_none()) {
            found = match reference & KINDS {
                _ if reference == 0 => None,
                BITS | CUT => {
                    let block = split(reference).1;
                    if self.node(block).first.load(Ordering::Relaxed) < facts.place {
                        left.push(self.rest(reference));
                        let slot = self.some_slot(reference, facts);
                        left.extend(slot.map(|word| self.arena.word(word).load(Ordering::Relaxed)));
                    }
                    None
                }
                DENSE => self
                    .dense(reference)
                    .and_then(|dense| dense.both(&rule.corners(), facts.place, |place| covers(place) && accept(place))),
                LONG => {
                    let mut places = Vec::new();
                    self.places(reference, &mut places);
                    places.into_iter().rev().find(|place| *place < facts.place && covers(*place) && accept(*place))
                }
                _ => {
                    let leaf = self.leaf(reference);
                    let mut records = leaf.records().iter().rev().map(|record| (self.entry(*record), *record));
                    let found = records.find(|(entry, record)| {
                        // SAFETY: a leaf has records of rules of the tree.
                        entry.place < facts.place
                            && unsafe { facts.are_covered_by::<K>(self.arena.base(), *record) }
                            && (entry.exact == 0 || covers(entry.place))
                            && accept(entry.place)
                    });
                    found.map(|(entry, _)| entry.place)
                }
            };
        }
        // The last try ends the search, whatever it found.
        found.filter(|_| tries > 0)
    }

    /// Returns the word of one of the slots of a node that contain a rule, if any.
    pub(super) fn some_slot(&self, reference: u32, facts: &Facts) -> Option<usize> {
        let block = split(reference).1;
        if self.node(block).open == CHAIN {
            return Some(block.word(HEADER));
        }
        let mut some = None;
        self.each_slot_of(reference, facts, |word| some = some.or(Some(word)));
        some
    }

    /// Calls a function with the words of all slots of a node that contain a rule. Returns whether there is one.
    pub(super) fn each_slot_of(&self, reference: u32, facts: &Facts, mut each: impl FnMut(usize)) -> bool {
        let (kind, block) = split(reference);
        let node = self.node(block);
        let mut of_cut = |slot: usize| each(block.word(CUT_HEADER + 4 * slot));
        let is_in;
        if kind == BITS {
            is_in = fits(&facts.known, &node.masks, node.open);
            if is_in {
                each_slot(&facts.known, &facts.value, &node.masks, |slot| each(block.word(HEADER + 4 * slot)));
            }
        } else if hashed::is_hashed::<K>(&node.masks) {
            is_in = hashed::decides::<K>(&facts.known, &node.masks);
            if is_in {
                of_cut(hashed::slot::<K>(&facts.value, &node.masks, node.slots as usize));
            }
        } else {
            let (first, last) = self.cut_slots(block, facts);
            is_in = last - first < 1 << node.open;
            if is_in {
                (first..=last).for_each(of_cut);
            }
        }
        is_in
    }

    /// Returns the first and the last slot of a cut node for a rule's values.
    pub(super) fn cut_slots(&self, block: Block, facts: &Facts) -> (usize, usize) {
        let node = self.node(block);
        // SAFETY: a cut node has these ends.
        let ends = unsafe { &*self.pointer(block).add(HEADER).cast::<[u16; ENDS]>() };
        slots(&ends[..node.slots as usize - 1], facts.lane(node.masks[0] as usize))
    }
}
