//! A rule more or less: the path to the leaves that change.

use std::sync::atomic::Ordering;

use crate::lpm::arena::Block;

use super::super::address::Address;
use super::super::block::{BITS, CHAIN, CUT, DENSE, HEADER, KINDS, LEAST, LONG, at, join, split};
use super::super::dense::SOME;
use super::super::facts::Facts;
use super::super::leaf;
use super::{Edit, FEW_NEW, Head, MOST_COMPARED, Refusal, Step, Tree, compared};

/// A bit-vector leaf is rebuilt for new rules if they are at least this part of it.
const NEW: usize = 16;

impl<K: Address> Tree<K> {
    /// Counts a rule that is inserted below a node. Returns whether the node has grown so much that a rebuild pays.
    /// Without room for that, the check repeats after the same growth.
    pub(super) fn grown(&mut self, block: Block) -> bool {
        self.counted.push((block, true));
        let node = self.node(block);
        let (rules, built) = (node.rules.load(Ordering::Relaxed), node.built);
        let many = rules.checked_sub(built.saturating_mul(4).saturating_add(32));
        node.open != CHAIN && many.is_some_and(|many| many % built.max(32) == 0)
    }

    /// Counts a removed rule. Returns whether so few remain that a rebuild pays.
    pub(super) fn shrunk(&mut self, block: Block) -> bool {
        self.counted.push((block, false));
        let node = self.node(block);
        // No rule is left, or few of many: the rebuilt node is small.
        let left = node.rules.load(Ordering::Relaxed).saturating_sub(1);
        left == 0 || left < node.built / 4
    }

    /// Returns the steps from a node to the places of a rule.
    pub(super) fn steps(&self, reference: u32, step: Step, facts: &Facts, comes: bool) -> Vec<Step> {
        let block = split(reference).1;
        let node = self.node(block);
        if node.open == CHAIN {
            return vec![self.chain_step(block, step, facts, comes)];
        }
        let (depth, copies) = (step.depth + 1, step.copies - node.open);
        let below = Step { word: None, depth, copies, is_new: false, ..step };
        let mut steps = Vec::new();
        let parted = self.each_slot_of(reference, facts, |word| steps.push(Step { word: Some(word), ..below }));
        if !parted {
            steps.push(Step { word: Some(block.word(at::REST)), copies: step.copies, ..below });
        }
        steps
    }

    /// Returns whether a node has enough new rules before a bit-vector leaf to rebuild that leaf.
    pub(super) fn is_stuffed(&self, reference: u32) -> bool {
        let (kind, block) = split(reference);
        if kind != BITS || self.node(block).open != CHAIN {
            return false;
        }
        let [here, rest] = [HEADER, at::REST].map(|octet| self.arena.word(block.word(octet)).load(Ordering::Relaxed));
        // Nodes built as a chain have rules.
        let is_new = self.node(block).built == 0;
        // Before few rules, new ones stay a leaf: another bit-vector leaf between them would be slower than both.
        let many = if self.count(rest) <= SOME { leaf::MOST } else { self.count(rest) / NEW };
        // Without room for a rebuild, the check repeats after the same growth.
        let new = self.count(here);
        is_new && rest & KINDS == DENSE && new >= many && new.is_multiple_of(many)
    }

    /// Finds the step of a rule in a chain: the place with room at its insertion.
    pub(super) fn chain_step(&self, block: Block, step: Step, facts: &Facts, comes: bool) -> Step {
        let node = self.node(block);
        let here = Step { word: Some(block.word(HEADER)), depth: step.depth + 1, is_new: node.built == 0, ..step };
        // New rules before a leaf enter it before it is full.
        let links = step.links + usize::from(node.built != 0);
        let rest = Step { word: Some(block.word(at::REST)), links, is_new: false, ..step };
        let there = self.reference(here);
        let has_room = || node.built == 0 || self.count(there) < node.room as usize;
        let is_here = if comes { has_room() } else { self.has(there, facts) };
        if is_here { here } else { rest }
    }

    pub(super) fn edit(&mut self, step: Step, to: u32) {
        self.edits.push(Edit { word: step.word, to });
    }

    /// Rebuilds the block of a step with its rules, one more, or one less.
    pub(super) fn rebuild(&mut self, step: Step, with: Option<&Facts>, without: Option<u32>) -> Result<(), Refusal> {
        self.rebuild_as(step, with, without, false)
    }

    /// Rebuilds the block of a step as `rebuild` does, with a plan that nothing separates the rules, if known.
    pub(super) fn rebuild_as(
        &mut self,
        step: Step,
        with: Option<&Facts>,
        without: Option<u32>,
        is_planned: bool,
    ) -> Result<(), Refusal> {
        let reference = self.reference(step);
        let mut records = Vec::new();
        self.gather_records(reference, &mut records);
        records.extend(with.map(|facts| facts.record));
        records.retain(|record| Some(*record) != without);
        let facts = self.facts(records);
        let all: Vec<u32> = (0..facts.len() as u32).collect();
        self.rebuilt.0 += 1;
        self.rebuilt.1 += all.len() as u64;
        let fresh = match is_planned {
            true => self.make(&facts, &all, step, None)?,
            false => self.build(&facts, &all, step)?,
        };
        self.drop_all(reference);
        self.edit(step, fresh);
        Ok(())
    }

    pub(super) fn add(&mut self, mut step: Step, facts: &Facts) -> Result<(), Refusal> {
        let mut reference = self.reference(step);
        while matches!(reference & KINDS, BITS | CUT) {
            let block = split(reference).1;
            let (grown, stuffed) = (self.grown(block), self.is_stuffed(reference));
            if grown || stuffed {
                let mark = self.mark();
                // Nothing separated the rules behind the new ones when these were half as many.
                let rest = self.count(self.rest(reference)).max(1);
                let is_planned = stuffed && rest.ilog2() == (self.count(reference) + 1).ilog2();
                match self.rebuild_as(step, Some(facts), None, is_planned) {
                    Ok(()) => return Ok(()),
                    // New rules before a full chain would become as many as those of the chain.
                    Err(full @ Refusal::Overlap { .. }) if stuffed => return Err(full),
                    // A single rule may still find room.
                    Err(_) => self.forget_since(mark),
                }
            }
            // Before the rule is linked in: a lookup that misses this store does not see the rule either.
            self.node(block).first.fetch_min(facts.place, Ordering::Release);
            let mut steps = self.steps(reference, step, facts, true);
            let last = steps.pop().expect("a rule belongs to a slot, or to the rest");
            steps.into_iter().try_for_each(|step| self.add(step, facts))?;
            step = last;
            reference = self.reference(step);
        }
        let kind = reference & KINDS;
        match kind {
            _ if reference == 0 => {
                let leaf = self.new_leaf(&[facts])?;
                self.edit(step, leaf);
                Ok(())
            }
            // Small leaves are not rebuilt more often.
            DENSE if step.is_new && self.count(reference) < leaf::MOST => self.rebuild(step, Some(facts), None),
            DENSE => {
                // The leaf is kept, behind a leaf for new rules.
                let block = self.allocate_node(step, LEAST)?;
                let head = Head { masks: [0; 6], slots: 1, open: CHAIN, kind: BITS, room: 0 };
                self.write_head(block, &head, &[], &[]);
                self.node(block).first.store(0, Ordering::Relaxed);
                self.node(block).rules.store(self.count(reference) as u32 + 1, Ordering::Relaxed);
                let leaf = self.new_leaf(&[facts])?;
                self.arena.word(block.word(HEADER)).store(leaf, Ordering::Relaxed);
                self.arena.word(block.word(at::REST)).store(reference, Ordering::Relaxed);
                self.edit(step, join(BITS, block));
                Ok(())
            }
            _ => {
                let full = if kind == LONG {
                    // It could not be separated: another attempt follows each time that it has doubled.
                    let (_, _, groups, rules) = self.long(reference);
                    rules == groups * K::RULES && groups.is_power_of_two()
                } else {
                    let leaf = self.leaf(reference);
                    let is_crowded = || {
                        let rules = Vec::from_iter(leaf.records().iter().map(|record| self.read(*record)));
                        compared::<K>(&leaf, &Vec::from_iter(&rules), facts) > MOST_COMPARED
                    };
                    leaf.rules() == leaf::MOST || step.is_new && leaf.rules() >= FEW_NEW && is_crowded()
                };
                if full {
                    return self.rebuild(step, Some(facts), None);
                }
                let fresh = match kind {
                    LONG => self.long_with(reference, facts)?,
                    _ => self.leaf_with(reference, facts)?,
                };
                self.drop_block(reference);
                self.edit(step, fresh);
                Ok(())
            }
        }
    }

    pub(super) fn take(&mut self, mut step: Step, facts: &Facts) -> Result<(), Refusal> {
        let mut reference = self.reference(step);
        while matches!(reference & KINDS, BITS | CUT) {
            if self.shrunk(split(reference).1) {
                let mark = self.mark();
                match self.rebuild(step, None, Some(facts.record)) {
                    // The remaining rules stay where they are.
                    Err(Refusal::Overlap { .. }) => self.forget_since(mark),
                    done => return done,
                }
            }
            let mut steps = self.steps(reference, step, facts, false);
            let last = steps.pop().expect("a rule belongs to a slot, or to the rest");
            steps.into_iter().try_for_each(|step| self.take(step, facts))?;
            step = last;
            reference = self.reference(step);
        }
        match reference & KINDS {
            _ if reference == 0 => Ok(()),
            DENSE => {
                if let Some(dense) = self.dense(reference).filter(|dense| !dense.is_thin()) {
                    let number = dense.number(facts.place);
                    self.taken.extend(number.map(|number| (dense, number)));
                    return Ok(());
                }
                self.rebuild(step, None, Some(facts.record))
            }
            _ => {
                let fresh = match reference & KINDS {
                    LONG if self.long(reference).3 <= leaf::MOST + 1 => {
                        return self.rebuild(step, None, Some(facts.record));
                    }
                    LONG => self.long_without(reference, facts.place)?,
                    _ => self.leaf_without(reference, facts.record)?,
                };
                self.drop_block(reference);
                self.edit(step, fresh);
                Ok(())
            }
        }
    }
}
