//! New blocks and leaves, and leaves with a rule more or less.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::lpm::arena::Block;
use crate::lpm::buddy::Order;

use super::super::address::{Address, LANES};
use super::super::block::{
    ANY, BITS, CUT, CUT_HEADER, DENSE, DEPTH, Entry, Exact, GROUP, HEADER, KINDS, LEAF, LEAST, LONG, LONG_HEADER, join,
    leaf_octets, long_octets, most_groups, split,
};
use super::super::dense::Dense;
use super::super::facts::{Facts, record_octets};
use super::super::leaf::{self, Leaf};
use super::super::rule::Rule;
use super::{Refusal, Step, Stored, Tree, entry, exact_octets};

impl<K: Address> Tree<K> {
    /// Stores rules with their records and the fields that lanes do not represent.
    pub(super) fn store(&mut self, rules: Vec<(u64, Rule<K>, u32)>) -> Result<(), Refusal> {
        for (place, rule, identity) in rules {
            let exact = if Facts::shows_all(&rule) { 0 } else { self.write_exact(&rule)? };
            let record = self.allocate_order(Order::for_octets(record_octets::<K>()))?;
            // SAFETY: no other thread accesses the block yet; it is aligned to its size and has room for a record.
            unsafe { Facts::new(place, identity, exact, &rule).write_record::<K>(self.pointer(record)) };
            self.rules.insert(place, Stored { rule, identity, record: record.0 });
        }
        Ok(())
    }

    /// Marks a block, and all below it, as unused.
    pub(super) fn drop_all(&mut self, mut reference: u32) {
        while matches!(reference & KINDS, BITS | CUT) {
            for word in self.slots(reference) {
                self.drop_all(self.arena.word(word).load(Ordering::Relaxed));
            }
            let rest = self.rest(reference);
            self.drop_block(reference);
            reference = rest;
        }
        if reference != 0 {
            self.drop_block(reference);
        }
    }

    pub(super) fn drop_block(&mut self, reference: u32) {
        let (kind, block) = split(reference);
        let octets = match kind {
            BITS => HEADER + 4 * self.node(block).slots as usize,
            CUT => CUT_HEADER + 4 * self.node(block).slots as usize,
            LONG => long_octets::<K>(self.long(reference).2),
            DENSE => {
                self.stale_dense.push(block.0);
                LEAST
            }
            size => leaf_octets::<K>(K::LEAVES[(size - LEAF) as usize]),
        };
        self.stale.push((block, Order::for_octets(octets.max(LEAST))));
    }

    /// Allocates a block for a node. Bounds the depth of all trees: lookups have room for nodes of fewer steps than
    /// [`DEPTH`], and would write past the end of their lists.
    pub(super) fn allocate_node(&mut self, step: Step, octets: usize) -> Result<Block, Refusal> {
        if step.depth >= DEPTH {
            return Err(Refusal::NoRoom);
        }
        self.allocate(octets)
    }

    pub(super) fn allocate(&mut self, octets: usize) -> Result<Block, Refusal> {
        self.allocate_order(Order::for_octets(octets.max(LEAST)))
    }

    pub(super) fn allocate_order(&mut self, order: Order) -> Result<Block, Refusal> {
        let room = |tree: &Tree<K>| tree.occupied() + order.octets() <= tree.limit;
        let block = room(self).then(|| self.buddy.allocate(order)).flatten().or_else(|| {
            self.limbo.reclaim_all(&mut self.buddy);
            room(self).then(|| self.buddy.allocate(order)).flatten()
        });
        let block = block.ok_or(Refusal::NoRoom)?;
        self.fresh.push((block, order));
        Ok(block)
    }

    pub(super) fn write_exact(&mut self, rule: &Rule<K>) -> Result<u32, Refusal> {
        let block = self.allocate(exact_octets(rule))?;
        let interfaces: Option<Vec<u32>> = rule.interfaces.as_ref().map(|set| set.iter().collect());
        let exact = Exact {
            source: [rule.source.low(), rule.source.high()],
            destination: [rule.destination.low(), rule.destination.high()],
            outer: rule.outer(),
            interfaces: interfaces.as_ref().map_or(ANY, |list| list.len() as u32),
        };
        let start = self.pointer(block).cast::<Exact<K>>();
        let list = interfaces.unwrap_or_default();
        // SAFETY: no other thread accesses the block yet; it is aligned to 128 octets and has room for both.
        unsafe {
            start.write(exact);
            ptr::copy_nonoverlapping(list.as_ptr(), start.add(1).cast::<u32>(), list.len());
        }
        Ok(block.0)
    }

    /// Creates a long leaf without rules, with room for `rules`. Returns it with the start of its groups and entries.
    pub(super) fn empty_long(&mut self, rules: usize) -> Result<(u32, *mut u8, *mut Entry), Refusal> {
        let groups = rules.div_ceil(K::RULES);
        if groups > most_groups::<K>() {
            return Err(Refusal::NoRoom);
        }
        let block = self.allocate(long_octets::<K>(groups))?;
        let start = self.pointer(block);
        // SAFETY: no other thread accesses the block yet.
        unsafe { start.cast::<u32>().write(groups as u32) };
        let start = start.wrapping_add(LONG_HEADER);
        let entries: *mut Entry = start.wrapping_add(groups * GROUP).cast();
        let none = never::<K>();
        // SAFETY: no other thread accesses the block yet; it has room for these.
        unsafe {
            for rule in 0..groups * K::RULES {
                write_lanes::<K>(start, rule, &none);
                entries.add(rule).write(Entry { place: u64::MAX, identity: 0, exact: 0 });
            }
        }
        Ok((join(LONG, block), start, entries))
    }

    /// Creates a leaf of any size for rules in order.
    pub(super) fn new_leaf(&mut self, rules: &[&Facts]) -> Result<u32, Refusal> {
        if rules.len() <= leaf::MOST {
            return self.write_leaf(&Leaf::new::<K>(rules));
        }
        let (reference, start, entries) = self.empty_long(rules.len())?;
        for (position, facts) in rules.iter().enumerate() {
            // SAFETY: no other thread accesses the block yet; it has room for the rules.
            unsafe {
                write_lanes::<K>(start, position, facts);
                entries.add(position).write(entry(facts));
            }
        }
        Ok(reference)
    }

    pub(super) fn write_leaf(&mut self, leaf: &Leaf) -> Result<u32, Refusal> {
        let size = leaf.size::<K>();
        let room = K::LEAVES[size];
        let block = self.allocate(leaf_octets::<K>(room))?;
        // SAFETY: no other thread accesses the block yet; it has room for the leaf.
        unsafe { leaf.write::<K>(self.pointer(block), room) };
        Ok(join(LEAF + size as u32, block))
    }

    pub(super) fn new_dense<'f>(&mut self, rules: impl ExactSizeIterator<Item = &'f Facts>) -> Result<u32, Refusal> {
        let block = self.allocate(LEAST)?;
        let dense =
            Arc::new(Dense::new(rules.map(|facts| (facts.place, &self.rules[&facts.place].rule, facts.identity))));
        if self.occupied() + dense.octets() > self.limit {
            return Err(Refusal::NoRoom);
        }
        self.dense_octets += dense.octets();
        // SAFETY: no other thread accesses the block yet.
        unsafe { self.pointer(block).cast::<*const Dense<K>>().write(Arc::as_ptr(&dense)) };
        self.lock_dense().insert(block.0, dense);
        self.fresh_dense.push(block.0);
        Ok(join(DENSE, block))
    }

    pub(super) fn forget_dense(&mut self, block: u32) -> Option<Arc<Dense<K>>> {
        let dense = self.lock_dense().remove(&block);
        self.dense_octets -= dense.as_ref().map_or(0, |dense| dense.octets());
        dense
    }

    pub(super) fn lock_dense(&self) -> MutexGuard<'_, HashMap<u32, Arc<Dense<K>>>> {
        // No code under the lock can panic.
        self.table.dense.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a leaf with the rules of another, and one more.
    pub(super) fn leaf_with(&mut self, reference: u32, facts: &Facts) -> Result<u32, Refusal> {
        let mut leaf = self.leaf(reference);
        let before = leaf.records().partition_point(|record| self.place(*record) < facts.place);
        // A larger leaf gets new keys, unless these are good enough.
        if !K::LEAVES.contains(&leaf.rules()) || 4 * leaf.alike(facts) <= leaf.rules() && leaf.rules() < leaf::MOST {
            leaf.insert(before, facts);
            return self.write_leaf(&leaf);
        }
        let old: Vec<Facts> = leaf.records().iter().map(|record| self.read(*record)).collect();
        let mut rules: Vec<&Facts> = old.iter().collect();
        rules.insert(before, facts);
        self.new_leaf(&rules)
    }

    /// Creates a leaf with the rules of another except one; 0 if no rule remains.
    pub(super) fn leaf_without(&mut self, reference: u32, record: u32) -> Result<u32, Refusal> {
        let mut leaf = self.leaf(reference);
        let rule = leaf.records().iter().position(|there| *there == record);
        rule.into_iter().for_each(|rule| leaf.remove(rule));
        if leaf.rules() == 0 { Ok(0) } else { self.write_leaf(&leaf) }
    }

    /// Creates a long leaf with the rules of another, and one more.
    pub(super) fn long_with(&mut self, reference: u32, facts: &Facts) -> Result<u32, Refusal> {
        let (from, old, _, rules) = self.long(reference);
        let (fresh, to, new) = self.empty_long(rules + 1)?;
        // SAFETY: no other thread accesses the new block yet; both leaves have these rules.
        unsafe {
            let before = (0..rules).take_while(|rule| (*old.add(*rule)).place < facts.place).count();
            for rule in 0..rules {
                let position = rule + usize::from(rule >= before);
                copy_lanes::<K>(from, rule, to, position);
                new.add(position).write(*old.add(rule));
            }
            write_lanes::<K>(to, before, facts);
            new.add(before).write(entry(facts));
        }
        Ok(fresh)
    }

    /// Creates a long leaf with the rules of another except one, still too many for another leaf.
    pub(super) fn long_without(&mut self, reference: u32, place: u64) -> Result<u32, Refusal> {
        let (from, old, _, rules) = self.long(reference);
        let (fresh, to, new) = self.empty_long(rules - 1)?;
        let mut position = 0;
        for rule in 0..rules {
            // SAFETY: as in `long_with`; the omitted rule exists, so the others have room.
            unsafe {
                if (*old.add(rule)).place != place {
                    copy_lanes::<K>(from, rule, to, position);
                    new.add(position).write(*old.add(rule));
                    position += 1;
                }
            }
        }
        Ok(fresh)
    }
}

/// Returns a rule that no packet matches: it forbids all traits, and every packet has one.
fn never<K: Address>() -> Facts {
    let mut facts = Facts::new::<K>(u64::MAX, 0, 0, &Rule::any());
    let octets = usize::from(K::BITS) / 8 + 3;
    facts.span[octets] = 0xff00;
    facts
}

/// # Safety
/// The groups from `start` on have room for a rule at `position`, and no other thread accesses them yet.
unsafe fn write_lanes<K: Address>(start: *mut u8, position: usize, facts: &Facts) {
    // SAFETY: the caller's promise; groups are two arrays of lanes.
    unsafe {
        let group = start.add(position / K::RULES * GROUP).cast::<[u16; LANES]>();
        facts.write::<K>(position % K::RULES, &mut *group, &mut *group.add(1));
    }
}

/// # Safety
/// There is a rule at `rule` of the groups at `from`, and room as for [`write_lanes`].
unsafe fn copy_lanes<K: Address>(from: *const u8, rule: usize, to: *mut u8, position: usize) {
    let width = 2 * LANES / K::RULES;
    let offset = |rule: usize| rule / K::RULES * GROUP + rule % K::RULES * width;
    // SAFETY: the caller's promise.
    unsafe {
        for half in [0, 2 * LANES] {
            ptr::copy_nonoverlapping(from.add(offset(rule) + half), to.add(offset(position) + half), width);
        }
    }
}
