//! Reads a tree: blocks, leaves, rules, and the predicted cost of lookups.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::lpm::Folding;
use crate::lpm::arena::{Block, UNIT};

use super::super::address::Address;
use super::super::block::{
    BITS, CHAIN, CUT, CUT_HEADER, DENSE, Entry, GROUP, HEADER, KINDS, LEAF, LONG, LONG_HEADER, Node, split,
};
use super::super::dense::Dense;
use super::super::facts::Facts;
use super::super::leaf::{self, Leaf};
use super::super::table::Table;
use super::{Shape, Step, Stored, Tree, ticks};

impl<K: Address> Tree<K> {
    pub(in crate::classify) fn table(&self) -> &Arc<Table<K>> {
        &self.table
    }

    pub(in crate::classify) fn rules(&self) -> &HashMap<u64, Stored<K>, Folding> {
        &self.rules
    }

    /// Returns the octets that readers may access, and those of them that wait to be freed.
    pub(in crate::classify) fn octets(&self) -> (usize, usize) {
        let retired = self.retired_octets.load(Ordering::Relaxed);
        (self.buddy.used() + self.dense_octets + retired, self.limbo.octets() + retired)
    }

    /// Returns the octets of the writer's notes on blocks.
    pub(in crate::classify) fn side_octets(&self) -> usize {
        self.rules.capacity() * (size_of::<(u64, Stored<K>)>() + 1) + self.buddy.frontier() + self.shadowed.octets()
    }

    /// Returns the number of rules in the tree, with planned ones.
    pub(super) fn in_tree(&self) -> usize {
        self.rules.len() - self.shadowed.len()
    }

    /// Returns the worst case of a lookup in the whole tree.
    pub(in crate::classify) fn worst(&self) -> Shape {
        self.shape(self.root())
    }

    /// Returns the predicted worst case below a reference: the worst slot of each node, with its wildcard list.
    pub(super) fn shape(&self, mut reference: u32) -> Shape {
        let mut all = Shape::default();
        while matches!(reference & KINDS, BITS | CUT) {
            let mut worst = Shape::default();
            let mut last = 0;
            for word in self.slots(reference) {
                let child = self.arena.word(word).load(Ordering::Relaxed);
                if child != last && child != 0 {
                    let shape = self.shape(child);
                    worst = Shape {
                        nodes: worst.nodes.max(shape.nodes),
                        overlapping: worst.overlapping.max(shape.overlapping),
                        ticks: worst.ticks.max(shape.ticks),
                    };
                }
                last = child;
            }
            all = all.and(worst).and(Shape { nodes: 1, overlapping: 0, ticks: ticks::NODE });
            reference = self.rest(reference);
        }
        let (overlapping, ticks) = match reference & KINDS {
            _ if reference == 0 => (0, 0),
            LONG => (0, ticks::LONG + ticks::GROUP * self.long(reference).2),
            DENSE => {
                let rules = self.count(reference);
                (rules, ticks::DENSE + ticks::THOUSAND * rules / 1024)
            }
            _ => (0, ticks::LEAF + self.leaf_rules(reference) / 2),
        };
        all.and(Shape { nodes: 0, overlapping, ticks })
    }

    pub(super) fn facts_of(&self, place: u64) -> Facts {
        self.read(self.rules[&place].record)
    }

    pub(super) fn read(&self, record: u32) -> Facts {
        // SAFETY: the record belongs to a rule of the tree.
        unsafe { Facts::read::<K>(self.arena.base(), record) }
    }

    /// Reads the rules of records, each once, in the order of places.
    pub(super) fn facts(&self, mut records: Vec<u32>) -> Vec<Facts> {
        records.sort_unstable();
        records.dedup();
        let mut order = Vec::from_iter(records.into_iter().map(|record| (self.place(record), record)));
        order.sort_unstable();
        order.into_iter().map(|(_, record)| self.read(record)).collect()
    }

    pub(super) fn root(&self) -> u32 {
        self.table.root.load(Ordering::Relaxed)
    }

    pub(super) fn reference(&self, step: Step) -> u32 {
        match step.word {
            None => self.table.root.load(Ordering::Relaxed),
            Some(word) => self.arena.word(word).load(Ordering::Relaxed),
        }
    }

    pub(super) fn pointer(&self, block: Block) -> *mut u8 {
        // Blocks lie inside the arena.
        self.arena.base().wrapping_add(block.0 as usize * UNIT).cast_mut()
    }

    pub(super) fn node(&self, block: Block) -> &Node {
        // SAFETY: nodes are written completely before they are referred to; later changes are atomic.
        unsafe { &*self.pointer(block).cast::<Node>() }
    }

    /// Reads a leaf that is not long.
    pub(super) fn leaf(&self, reference: u32) -> Leaf {
        let (size, block) = split(reference);
        // SAFETY: leaves are written completely before they are referred to, and never change.
        unsafe { Leaf::read::<K>(self.pointer(block), K::LEAVES[(size - LEAF) as usize]) }
    }

    pub(super) fn place(&self, record: u32) -> u64 {
        self.entry(record).place
    }

    pub(super) fn entry(&self, record: u32) -> Entry {
        // SAFETY: the record belongs to a rule of the tree.
        unsafe { *self.pointer(Block(record)).add(K::RECORD.1).cast::<Entry>() }
    }

    /// Returns the number of rules of a leaf that is not long.
    pub(super) fn leaf_rules(&self, reference: u32) -> usize {
        // SAFETY: leaves are written completely before they are referred to.
        unsafe { leaf::rules_of::<K>(self.pointer(split(reference).1)) }
    }

    /// Returns the start of the groups and of the entries of a long leaf, and the numbers of groups and rules.
    pub(super) fn long(&self, reference: u32) -> (*mut u8, *mut Entry, usize, usize) {
        let start = self.pointer(split(reference).1);
        // SAFETY: a long leaf begins with the number of its groups.
        let groups = unsafe { start.cast::<u32>().read() } as usize;
        let start = start.wrapping_add(LONG_HEADER);
        let entries: *mut Entry = start.wrapping_add(groups * GROUP).cast();
        // SAFETY: all entries of a leaf are written; unused ones have the last of all places.
        let rules =
            (0..groups * K::RULES).take_while(|rule| unsafe { (*entries.add(*rule)).place } != u64::MAX).count();
        (start, entries, groups, rules)
    }

    pub(super) fn dense(&self, reference: u32) -> Option<Arc<Dense<K>>> {
        self.lock_dense().get(&split(reference).1.0).cloned()
    }

    pub(super) fn places(&self, reference: u32, out: &mut Vec<u64>) {
        match reference & KINDS {
            DENSE => {
                let dense = self.dense(reference);
                dense.iter().for_each(|dense| out.extend(dense.places()));
            }
            LONG => {
                let (_, entries, _, rules) = self.long(reference);
                // SAFETY: these entries are written.
                out.extend((0..rules).map(|rule| unsafe { (*entries.add(rule)).place }));
            }
            _ => out.extend(self.leaf(reference).records().iter().map(|record| self.place(*record))),
        }
    }

    /// Returns the words of a node's slots.
    pub(super) fn slots(&self, reference: u32) -> impl Iterator<Item = usize> + use<K> {
        let (kind, block) = split(reference);
        let header = if kind == BITS { HEADER } else { CUT_HEADER };
        let slots = self.node(block).slots as usize;
        (0..slots).map(move |slot| block.word(header + 4 * slot))
    }

    pub(super) fn rest(&self, reference: u32) -> u32 {
        self.node(split(reference).1).rest.load(Ordering::Relaxed)
    }

    /// Collects the records of all rules in and below a block.
    pub(super) fn gather_records(&self, mut reference: u32, out: &mut Vec<u32>) {
        // Iterates over wildcard lists: a chain is long for many rules.
        while matches!(reference & KINDS, BITS | CUT) {
            for word in self.slots(reference) {
                self.gather_records(self.arena.word(word).load(Ordering::Relaxed), out);
            }
            reference = self.rest(reference);
        }
        match reference & KINDS {
            _ if reference == 0 => {}
            LONG | DENSE => {
                let mut places = Vec::new();
                self.places(reference, &mut places);
                out.extend(places.iter().map(|place| self.rules[place].record));
            }
            _ => out.extend(self.leaf(reference).records()),
        }
    }

    /// Returns the number of rules in and below a block.
    pub(super) fn count(&self, reference: u32) -> usize {
        match reference & KINDS {
            _ if reference == 0 => 0,
            BITS | CUT => self.node(split(reference).1).rules.load(Ordering::Relaxed) as usize,
            DENSE => self.dense(reference).map_or(0, |dense| dense.rules()),
            LONG => self.long(reference).3,
            _ => self.leaf(reference).rules(),
        }
    }

    /// Returns whether a rule is in or below a block.
    pub(super) fn has(&self, mut reference: u32, facts: &Facts) -> bool {
        while reference & KINDS == BITS && self.node(split(reference).1).open == CHAIN {
            if self.slots(reference).any(|word| self.has(self.arena.word(word).load(Ordering::Relaxed), facts)) {
                return true;
            }
            reference = self.rest(reference);
        }
        if reference & KINDS == DENSE {
            return self.dense(reference).is_some_and(|dense| dense.number(facts.place).is_some());
        }
        let mut records = Vec::new();
        self.gather_records(reference, &mut records);
        records.contains(&facts.record)
    }

    /// Returns the octets of reachable blocks, except for blocks that wait for readers.
    pub(super) fn occupied(&self) -> usize {
        self.buddy.used() - self.limbo.octets() + self.dense_octets
    }
}
