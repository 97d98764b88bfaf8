//! Parts of a tree for a set of rules.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::lpm::Folding;
use crate::lpm::arena::Block;

use super::super::address::Address;
use super::super::block::{
    BITS, CHAIN, CUT, CUT_HEADER, ENDS, HEADER, LEAST, Node, PARTED, at, join, most_groups, split,
};
use super::super::dense::{MOST_DENSE, MOST_NAMED, MOST_ROWS, SOME};
use super::super::facts::Facts;
use super::super::hashed::{self, HASHED};
use super::super::leaf::{self, Leaf};
use super::super::plan::{Plan, each_slot, fits, plan, slots};
use super::{FEW_NEW, Head, MOST_COMPARED, MOST_LINKS, Refusal, Step, Tree, compared};

/// Largest number of copies by a cut, as a power of two.
const CUT_COPIES: u32 = 2;

impl<K: Address> Tree<K> {
    /// Builds the block for these rules, which are in order.
    pub(super) fn build(&mut self, facts: &[Facts], rules: &[u32], step: Step) -> Result<u32, Refusal> {
        if rules.is_empty() {
            return Ok(0);
        }
        self.make(facts, rules, step, Tree::<K>::choose(facts, rules, step))
    }

    pub(super) fn choose(facts: &[Facts], rules: &[u32], step: Step) -> Option<Plan> {
        let small = rules.len() <= leaf::MOST;
        if small || step.depth + 1 >= PARTED { None } else { plan::<K>(facts, rules, step.copies) }
    }

    pub(super) fn make(
        &mut self,
        facts: &[Facts],
        rules: &[u32],
        step: Step,
        plan: Option<Plan>,
    ) -> Result<u32, Refusal> {
        let of = |rule: &u32| &facts[*rule as usize];
        match plan {
            None if rules.len() > SOME => self.build_chain(facts, rules, step),
            None if Tree::<K>::is_crowded(facts, rules, step.is_new) => self.new_dense(rules.iter().map(of)),
            None if rules.len() > most_groups::<K>() * K::RULES => self.new_dense(rules.iter().map(of)),
            None => self.new_leaf(&rules.iter().map(of).collect::<Vec<_>>()),
            Some(Plan::Hash { mut masks, slots }) => {
                // A hash node below another must use another hash.
                masks[K::WORDS - 1] = HASHED | step.depth as u64;
                self.make_node(facts, rules, step, &Head { masks, slots, open: 0, kind: CUT, room: 0 })
            }
            Some(Plan::Bits { masks, open }) => {
                let slots = 1 << masks.iter().map(|mask| mask.count_ones()).sum::<u32>();
                self.make_node(facts, rules, step, &Head { masks, slots, open, kind: BITS, room: 0 })
            }
            Some(Plan::Cut { lane, ends }) => {
                let open = step.copies.min(CUT_COPIES);
                let count = ends.len() + 1;
                let mut parts = vec![Vec::new(); count];
                let mut rest = Vec::new();
                for rule in rules {
                    let (first, last) = slots(&ends, of(rule).lane(lane));
                    match last - first < 1 << open {
                        true => parts[first..=last].iter_mut().for_each(|part| part.push(*rule)),
                        false => rest.push(*rule),
                    }
                }
                let block = self.allocate_node(step, CUT_HEADER + 4 * count)?;
                let mut masks = [0; 6];
                masks[0] = lane as u64;
                let head = Head { masks, slots: count, open, kind: CUT, room: 0 };
                self.write_head(block, &head, facts, rules);
                // No value is above the last end.
                let mut all = [u16::MAX; ENDS];
                all[..ends.len()].copy_from_slice(&ends);
                // SAFETY: no other thread accesses the block yet; it has room for the ends.
                unsafe { self.pointer(block).add(HEADER).cast::<[u16; ENDS]>().write(all) };
                let (depth, copies) = (step.depth + 1, step.copies - open);
                let below = Step { word: None, depth, copies, is_new: false, ..step };
                for (part, rules) in parts.iter().enumerate() {
                    let child = self.build(facts, rules, below)?;
                    self.arena.word(block.word(CUT_HEADER + 4 * part)).store(child, Ordering::Relaxed);
                }
                let rest = self.build(facts, &rest, Step { copies: step.copies, ..below })?;
                self.arena.word(block.word(at::REST)).store(rest, Ordering::Relaxed);
                Ok(join(CUT, block))
            }
        }
    }

    /// Creates a node whose slots are selected by bits, or by a hash of them.
    pub(super) fn make_node(
        &mut self,
        facts: &[Facts],
        rules: &[u32],
        step: Step,
        head: &Head,
    ) -> Result<u32, Refusal> {
        let (mut parts, mut rest) = (Vec::with_capacity(rules.len()), Vec::new());
        let (masks, header) = (&head.masks, if head.kind == BITS { HEADER } else { CUT_HEADER });
        for rule in rules {
            let Facts { known, value, .. } = &facts[*rule as usize];
            match head.kind {
                BITS if fits(known, masks, head.open) => {
                    each_slot(known, value, masks, |slot| parts.push((slot, *rule)));
                }
                CUT if hashed::decides::<K>(known, masks) => {
                    parts.push((hashed::slot::<K>(value, masks, head.slots), *rule));
                }
                _ => rest.push(*rule),
            }
        }
        // The numbers of rules follow their order.
        parts.sort_unstable();
        let block = self.allocate_node(step, header + 4 * head.slots)?;
        self.write_head(block, head, facts, rules);
        let (depth, copies) = (step.depth + 1, step.copies - head.open);
        let below = Step { word: None, depth, copies, is_new: false, ..step };
        for part in parts.chunk_by(|one, other| one.0 == other.0) {
            let rules: Vec<u32> = part.iter().map(|(_, rule)| *rule).collect();
            let child = self.build(facts, &rules, below)?;
            self.arena.word(block.word(header + 4 * part[0].0)).store(child, Ordering::Relaxed);
        }
        let rest = self.build(facts, &rest, Step { copies: step.copies, ..below })?;
        self.arena.word(block.word(at::REST)).store(rest, Ordering::Relaxed);
        Ok(join(head.kind, block))
    }

    /// Returns whether many rules of a leaf would be compared in fields without lanes, which is slow. Before a
    /// bit-vector leaf, where nothing separates the rules, returns whether some would be.
    pub(super) fn is_crowded(facts: &[Facts], rules: &[u32], is_new: bool) -> bool {
        if is_new && (FEW_NEW..=leaf::MOST).contains(&rules.len()) {
            let rules = Vec::from_iter(rules.iter().map(|rule| &facts[*rule as usize]));
            let leaf = Leaf::new::<K>(&rules);
            let compared: f32 = rules.iter().map(|facts| compared::<K>(&leaf, &rules, facts)).sum();
            return compared > MOST_COMPARED * rules.len() as f32;
        }
        let exact = rules.iter().filter(|rule| facts[**rule as usize].exact != 0).count();
        if exact <= K::LEAVES[0] {
            return false;
        }
        if rules.len() > leaf::MOST {
            return 2 * exact > rules.len();
        }
        let rules = Vec::from_iter(rules.iter().map(|rule| &facts[*rule as usize]));
        let leaf = Leaf::new::<K>(&rules);
        let alike: usize = rules.iter().filter(|facts| facts.exact != 0).map(|facts| leaf.alike(facts)).sum();
        alike > K::LEAVES[0] * exact
    }

    /// Creates bit-vector leaves for rules that nothing separates, until the others can be separated. If others remain,
    /// the leaf is in the only slot of a node, which every packet selects, and they are in its wildcard list.
    ///
    /// A chain does not add to the depth of a tree: a lookup visits one of its nodes at a time.
    pub(super) fn build_chain(&mut self, facts: &[Facts], rules: &[u32], step: Step) -> Result<u32, Refusal> {
        let (mut root, mut word) = (0, None);
        let (mut left, mut step) = (rules, step);
        loop {
            let (mut taken, mut plan) = (0, None);
            let most = self.most_dense(facts, left);
            while taken < left.len().min(most) && plan.is_none() {
                taken = left.len().min(taken + SOME);
                plan = Tree::<K>::choose(facts, &left[taken..], step);
            }
            let (here, rest) = left.split_at(taken);
            if !rest.is_empty() && step.links + 1 >= MOST_LINKS && plan.is_none() {
                let place = |rule: u32| facts[rule as usize].place;
                self.is_beyond = true;
                if self.is_bounded {
                    return Err(Refusal::Overlap {
                        most: MOST_LINKS * most,
                        places: [place(rules[0]), place(rest[0])],
                    });
                }
            }
            let leaf = self.new_dense(here.iter().map(|rule| &facts[*rule as usize]))?;
            let link = if rest.is_empty() {
                leaf
            } else {
                let block = self.allocate_node(step, LEAST)?;
                let head = Head { masks: [0; 6], slots: 1, open: CHAIN, kind: BITS, room: taken as u32 };
                self.write_head(block, &head, facts, left);
                self.arena.word(block.word(HEADER)).store(leaf, Ordering::Relaxed);
                join(BITS, block)
            };
            match word {
                None => root = link,
                Some(word) => self.arena.word(word).store(link, Ordering::Relaxed),
            }
            if rest.is_empty() {
                return Ok(root);
            }
            let last = split(link).1.word(at::REST);
            (word, left) = (Some(last), rest);
            step.links += 1;
            if plan.is_some() || left.len() <= SOME {
                let rest = self.make(facts, left, step, plan)?;
                self.arena.word(last).store(rest, Ordering::Relaxed);
                return Ok(root);
            }
        }
    }

    /// Returns how many of these rules a bit-vector leaf can hold: it has a whole row for each set of interfaces with
    /// the same rules.
    pub(super) fn most_dense(&self, facts: &[Facts], rules: &[u32]) -> usize {
        let first = rules.iter().take(MOST_DENSE).map(|rule| &facts[*rule as usize]).filter(|facts| facts.exact != 0);
        let (mut sets, mut rows, mut named) = (HashSet::new(), HashMap::<u32, u64, Folding>::default(), 0);
        for set in first.filter_map(|facts| self.rules[&facts.place].rule.interfaces.as_ref()) {
            // Many rules name the same interfaces.
            if sets.insert(set) {
                let number = (sets.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                set.iter().for_each(|interface| *rows.entry(interface).or_default() ^= number.rotate_left(31) ^ number);
                named += set.len();
            }
            if named > MOST_NAMED {
                return SOME;
            }
        }
        let different = if rows.len() > MOST_ROWS { rows.values().collect::<HashSet<_>>().len() } else { 0 };
        if different > MOST_ROWS { SOME } else { MOST_DENSE }
    }

    pub(super) fn write_head(&mut self, block: Block, head: &Head, facts: &[Facts], rules: &[u32]) {
        let first = rules.first().map_or(u64::MAX, |rule| facts[*rule as usize].place);
        let node = Node {
            masks: head.masks,
            slots: head.slots as u32,
            rest: AtomicU32::new(0),
            first: AtomicU64::new(first),
            built: rules.len() as u32,
            rules: AtomicU32::new(rules.len() as u32),
            open: head.open,
            room: head.room,
        };
        // SAFETY: no other thread accesses the block yet; it has room for the node.
        unsafe { self.pointer(block).cast::<Node>().write(node) };
        let slots = if head.kind == BITS { HEADER } else { CUT_HEADER };
        (0..head.slots).for_each(|slot| self.arena.word(block.word(slots + 4 * slot)).store(0, Ordering::Relaxed));
    }
}
