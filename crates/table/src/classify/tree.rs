//! The writer's side of the tree.
//!
//! A change is planned first: new blocks are written, and the words that will refer to them are noted. Nothing is
//! visible until all blocks exist; then each word is stored once. So a lack of room changes nothing.

use std::collections::{HashMap, HashSet};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use weir_base::reclaim::Domain;

use crate::lpm::Folding;
use crate::lpm::arena::{Arena, Block, UNIT};
use crate::lpm::buddy::{Buddy, Order};
use crate::lpm::limbo::{self, Limbo};

use super::address::{Address, LANES};
use super::block::{
    ANY, BITS, CHAIN, CUT, CUT_HEADER, DENSE, DEPTH, ENDS, Entry, Exact, GROUP, HEADER, KINDS, LEAF, LEAST, LONG,
    LONG_HEADER, Node, PARTED, at, join, leaf_octets, long_octets, most_groups, split,
};
use super::dense::{Dense, MOST_DENSE, MOST_NAMED, MOST_ROWS, Retired, SOME};
use super::facts::{Facts, record_octets};
use super::family;
use super::hashed::{self, HASHED};
use super::leaf::{self, Leaf};
use super::plan::{Plan, each_slot, fits, plan, slots};
use super::rule::Rule;
use super::shadow::{self, Shadowed};
use super::table::Table;

/// Reason why a tree refuses a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The arena has no room for a block.
    NoRoom,
    /// Nothing separates the rules, and they exceed a chain of [`MOST_LINKS`] bit-vector leaves and the leaf behind it.
    Overlap {
        /// Largest number of such rules.
        most: usize,
        /// Places of the first of them, and of the first that exceeds the limit.
        places: [u64; 2],
    },
}

use Refusal::{NoRoom, Overlap};

/// Above this size lookups prefetch: the part of the second-level cache that a table can use.
const FAR: usize = 1 << 20;

/// Largest number of bit-vector leaves of a chain. A lookup without a match searches all of them, and each takes as
/// long as a tree of rules that bits separate.
pub(super) const MOST_LINKS: usize = 3;

/// Above this predicted time of a lookup, in ticks, a tree is built without covered rules.
const LONG_LOOKUP: usize = 250;

/// The same, if half of the rules are covered.
const RATHER_LONG_LOOKUP: usize = 125;

/// Size of the sample for that.
const SAMPLE: usize = 256;

/// Smallest part of the rules for that.
const FEW_SHADOWED: usize = 8;

/// The same for this number of overlapping rules.
const MANY_OVERLAPPING: usize = SOME;

/// Smaller trees stay as they were built.
const FEW_TO_LOOK_AT: usize = 1024;

/// The same, if some rules are covered already.
const FEW_TO_REFRESH: usize = 512;

/// Number of covered rules that return to the tree one by one when their cover is removed. More of them, unless they
/// are this many times fewer than those of the tree, return by a rebuild.
const FEW_TO_ADD: usize = 64;

/// Length of the sequence of covered rules that is searched for room.
const STEPS: usize = 16;

/// Number of covering rules that are checked for room.
const TRIES: usize = 16;

/// Cost of blocks in a lookup.
mod ticks {
    pub(super) const NODE: usize = 10;
    pub(super) const LEAF: usize = 6;
    pub(super) const LONG: usize = 10;
    /// Cost of a group of lanes of a long leaf.
    pub(super) const GROUP: usize = 3;
    pub(super) const DENSE: usize = 60;
    /// Cost of a thousand rules of a bit-vector leaf.
    pub(super) const THOUSAND: usize = 4;
}

/// The worst case of a lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Nodes on its path.
    pub nodes: usize,
    /// Rules that no field separates, searched as bit vectors.
    pub overlapping: usize,
    /// Approximate time, in ticks.
    pub ticks: usize,
}

impl Shape {
    /// Returns the cost of both, one after the other.
    fn and(self, other: Shape) -> Shape {
        Shape {
            nodes: self.nodes + other.nodes,
            overlapping: self.overlapping + other.overlapping,
            ticks: self.ticks + other.ticks,
        }
    }
}

enum Put {
    /// The rule is in the tree.
    In,
    /// The rule is recorded under one that covers it.
    Under(u64),
    /// The tree is rebuilt without these rules, each with its cover.
    Anew(Vec<(u64, u64)>),
}

/// A bit-vector leaf is rebuilt for new rules if they are at least this part of it.
const NEW: usize = 16;

/// Largest number of new rules before a bit-vector leaf that always form a leaf.
const FEW_NEW: usize = 4;

/// Largest mean number of rules of such a leaf that are compared in vain: more take longer than a small bit-vector
/// leaf.
const MOST_COMPARED: f32 = 4.0;

/// Largest number of copies of a rule in a tree, as a power of two.
const COPIES: u32 = 8;

/// Largest number of copies by a cut, as a power of two.
const CUT_COPIES: u32 = 2;

pub(super) struct Stored<K> {
    pub(super) rule: Rule<K>,
    pub(super) identity: u32,
    record: u32,
}

/// A planned store of a reference.
struct Edit {
    /// Index of the word in the arena; `None` for the root.
    word: Option<usize>,
    to: u32,
}

pub(super) struct Tree<K> {
    arena: Arc<Arena>,
    buddy: Buddy,
    limbo: Limbo,
    table: Arc<Table<K>>,
    rules: HashMap<u64, Stored<K>, Folding>,
    limit: usize,
    edits: Vec<Edit>,
    /// Nodes that will have a rule more or less.
    counted: Vec<(Block, bool)>,
    fresh: Vec<(Block, Order)>,
    stale: Vec<(Block, Order)>,
    /// Planned blocks of bit-vector leaves, and removed ones.
    fresh_dense: Vec<u32>,
    stale_dense: Vec<u32>,
    /// Rules to remove from bit-vector leaves.
    taken: Vec<(Arc<Dense<K>>, usize)>,
    dense_octets: usize,
    /// Octets of bit-vector leaves that wait for readers.
    retired_octets: Arc<AtomicUsize>,
    domain: Domain,
    /// Covered rules, which are not in the tree.
    shadowed: Shadowed,
    /// Number of rules at the last check of the time of lookups.
    looked_at: usize,
    /// Too long chains are refused.
    is_bounded: bool,
    is_beyond: bool,
    /// Number of rebuilds of a part, and of their rules.
    pub(super) rebuilt: (u64, u64),
}

/// Lengths of the plan, by kind.
#[derive(Clone, Copy, Default)]
struct Mark {
    edits: usize,
    counted: usize,
    fresh: usize,
    stale: usize,
    fresh_dense: usize,
    stale_dense: usize,
    taken: usize,
}

/// A step on the path of a change.
#[derive(Clone, Copy)]
struct Step {
    /// Word with the reference to this step; `None` for the root.
    word: Option<usize>,
    depth: usize,
    /// Bit-vector leaves of chains before this step, which a lookup has searched.
    links: usize,
    /// Copies that are still allowed, as a power of two.
    copies: u32,
    /// Only new rules before a bit-vector leaf are here.
    is_new: bool,
}

/// The first step of all changes.
const ROOT: Step = Step { word: None, depth: 0, links: 0, copies: COPIES, is_new: false };

impl<K: Address> Tree<K> {
    pub(super) fn new(domain: &Domain, bytes: usize) -> std::io::Result<Tree<K>> {
        // Address space: during a rebuild the old part still exists, and removals may exceed the limit.
        let reserve = bytes.saturating_mul(3).saturating_add(4 << 20).min(u32::MAX as usize / 2 * UNIT);
        let arena = Arc::new(Arena::new(reserve)?);
        let mut buddy = Buddy::new(arena.clone(), reserve);
        // The reference 0 means no block, so no block may begin at unit 0.
        buddy.allocate(Order::for_octets(LEAST)).ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(Tree {
            buddy,
            limbo: Limbo::new(domain.clone()),
            table: Arc::new(Table::new(domain, arena.clone())),
            arena,
            rules: HashMap::with_hasher(Folding::random()),
            limit: bytes,
            edits: Vec::new(),
            counted: Vec::new(),
            fresh: Vec::new(),
            stale: Vec::new(),
            fresh_dense: Vec::new(),
            stale_dense: Vec::new(),
            taken: Vec::new(),
            dense_octets: 0,
            retired_octets: Arc::default(),
            domain: domain.clone(),
            shadowed: Shadowed::default(),
            looked_at: 0,
            is_bounded: true,
            is_beyond: false,
            rebuilt: (0, 0),
        })
    }

    pub(super) fn table(&self) -> &Arc<Table<K>> {
        &self.table
    }

    pub(super) fn rules(&self) -> &HashMap<u64, Stored<K>, Folding> {
        &self.rules
    }

    /// Returns the octets that readers may access, and those of them that wait to be freed.
    pub(super) fn octets(&self) -> (usize, usize) {
        let retired = self.retired_octets.load(Ordering::Relaxed);
        (self.buddy.used() + self.dense_octets + retired, self.limbo.octets() + retired)
    }

    /// Returns the octets of the writer's notes on blocks.
    pub(super) fn side_octets(&self) -> usize {
        self.rules.capacity() * (size_of::<(u64, Stored<K>)>() + 1) + self.buddy.frontier() + self.shadowed.octets()
    }

    /// Inserts rules at free places: all or none.
    pub(super) fn load(&mut self, rules: Vec<(u64, Rule<K>, u32)>) -> Result<(), Refusal> {
        type Args<'t, K> = (&'t mut Tree<K>, Vec<(u64, Rule<K>, u32)>);
        fn ipv4((tree, rules): Args<'_, u32>) -> Result<(), Refusal> {
            tree.load_all(rules)
        }
        fn ipv6((tree, rules): Args<'_, u128>) -> Result<(), Refusal> {
            tree.load_all(rules)
        }
        // SAFETY: the functions differ from this one in the family only.
        unsafe { family::call::<K, Args<'_, K>, _, _, _, _, _>((self, rules), ipv4, ipv6) }
    }

    fn load_all(&mut self, rules: Vec<(u64, Rule<K>, u32)>) -> Result<(), Refusal> {
        if rules.len() == 1 {
            return rules.into_iter().try_for_each(|(place, rule, identity)| self.insert_one(place, rule, identity));
        }
        self.load_anew(rules)
    }

    fn load_anew(&mut self, rules: Vec<(u64, Rule<K>, u32)>) -> Result<(), Refusal> {
        let places: Vec<u64> = rules.iter().map(|(place, ..)| *place).collect();
        let done = self.store(rules).and_then(|()| self.build_all());
        if done.is_err() {
            places.iter().for_each(|place| drop(self.rules.remove(place)));
        }
        self.finish(done.as_ref().map(|_| ()).map_err(|refusal| *refusal))?;
        done.map(|shadowed| self.begin_with(shadowed))
    }

    /// Records the covered rules of a rebuilt tree.
    fn begin_with(&mut self, shadowed: Vec<(u64, u64)>) {
        for (place, cover) in shadowed {
            let width = self.facts_of(place).width::<K>();
            self.shadowed.note(place, cover, width);
        }
        self.looked_at = self.in_tree();
    }

    /// Returns the number of rules in the tree, with planned ones.
    fn in_tree(&self) -> usize {
        self.rules.len() - self.shadowed.len()
    }

    /// Returns the rules of the tree and a new one, in order.
    fn facts_with(&self, place: u64) -> Vec<Facts> {
        let mut records = vec![self.rules[&place].record];
        self.gather_records(self.root(), &mut records);
        self.facts(records)
    }

    /// Plans a tree of all rules that were not known to be covered. Returns the covered rules that it omits: none if
    /// lookups take no longer than usual with all rules.
    fn build_all(&mut self) -> Result<Vec<(u64, u64)>, Refusal> {
        let rules = self.rules.iter().filter(|(place, _)| self.shadowed.by(**place).is_none());
        let mut facts = self.facts(rules.map(|(_, stored)| stored.record).collect());
        let mark = self.mark();
        (self.is_bounded, self.is_beyond) = (false, false);
        let root = self.build(&facts, &numbers(&facts), ROOT);
        self.is_bounded = true;
        let (mut root, mut shadowed) = (root?, Vec::new());
        if self.is_beyond || self.takes_long(root, &facts) {
            shadowed = self.shadows(root, &facts);
            if self.is_beyond || shadowed.len() >= facts.len() / FEW_SHADOWED {
                self.forget_since(mark);
                leave_out(&mut facts, &shadowed);
                root = self.build(&facts, &numbers(&facts), ROOT)?;
            } else {
                shadowed.clear();
            }
        }
        let before = self.table.root.load(Ordering::Relaxed);
        self.drop_all(before);
        self.edits.push(Edit { word: None, to: root });
        Ok(shadowed)
    }

    /// Plans the tree with a new rule and without covered rules, and returns these; `None` if they are fewer than
    /// `least`.
    fn refresh(&mut self, place: u64, least: usize) -> Result<Option<Vec<(u64, u64)>>, Refusal> {
        let (mut facts, before) = (self.facts_with(place), self.root());
        let shadowed = self.shadows(before, &facts);
        if shadowed.len() < least {
            return Ok(None);
        }
        leave_out(&mut facts, &shadowed);
        let root = self.build(&facts, &numbers(&facts), ROOT)?;
        self.drop_all(before);
        self.edits.push(Edit { word: None, to: root });
        Ok(Some(shadowed))
    }

    pub(super) fn insert(&mut self, place: u64, rule: Rule<K>, identity: u32) -> Result<(), Refusal> {
        type Args<'t, K> = (&'t mut Tree<K>, u64, Rule<K>, u32);
        fn ipv4((tree, place, rule, identity): Args<'_, u32>) -> Result<(), Refusal> {
            tree.insert_one(place, rule, identity)
        }
        fn ipv6((tree, place, rule, identity): Args<'_, u128>) -> Result<(), Refusal> {
            tree.insert_one(place, rule, identity)
        }
        // SAFETY: the functions differ from this one in the family only.
        unsafe { family::call::<K, Args<'_, K>, _, _, _, _, _>((self, place, rule, identity), ipv4, ipv6) }
    }

    fn insert_one(&mut self, place: u64, rule: Rule<K>, identity: u32) -> Result<(), Refusal> {
        self.limbo.reclaim(&mut self.buddy);
        let done = self.store(vec![(place, rule, identity)]).and_then(|()| self.put_in(place));
        if done.is_err() {
            self.rules.remove(&place);
        }
        self.finish(done.as_ref().map(|_| ()).map_err(|refusal| *refusal))?;
        match done? {
            Put::In => {}
            Put::Under(cover) => {
                let width = self.facts_of(place).width::<K>();
                self.shadowed.note(place, cover, width);
            }
            Put::Anew(shadowed) => self.begin_with(shadowed),
        }
        Ok(())
    }

    /// Plans the insertion of a stored rule.
    fn put_in(&mut self, place: u64) -> Result<Put, Refusal> {
        let mark = self.mark();
        if let Some(least) = self.is_slow(place) {
            match self.refresh(place, least) {
                Ok(Some(shadowed)) => return Ok(Put::Anew(shadowed)),
                // A single rule may still find room.
                Ok(None) | Err(_) => self.forget_since(mark),
            }
        }
        let facts = self.facts_of(place);
        if !self.shadowed.is_empty()
            && let Some(cover) = self.cover_with_room(&facts, None)
        {
            return Ok(Put::Under(cover));
        }
        match self.add(ROOT, &facts) {
            // Covered rules may be many. The check is repeated after growth by an eighth.
            Err(refusal @ Overlap { .. }) if self.is_due(9, 8, FEW_TO_LOOK_AT) => {
                self.forget_since(mark);
                match self.refresh(place, 1) {
                    Ok(Some(shadowed)) => Ok(Put::Anew(shadowed)),
                    Ok(None) | Err(_) => Err(refusal),
                }
            }
            done => done.map(|()| Put::In),
        }
    }

    /// Returns a rule that covers another and has room for it, except one that is about to be removed.
    fn cover_with_room(&self, facts: &Facts, gone: Option<u64>) -> Option<u64> {
        let room = |cover| self.room_under(cover, facts.place, gone);
        self.cover(self.root(), facts, |cover| room(cover).is_some()).and_then(room)
    }

    /// Returns a rule that covers the one at a place and has room for it: its cover, or a rule under that.
    fn room_under(&self, mut cover: u64, place: u64, gone: Option<u64>) -> Option<u64> {
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

    /// Returns whether the tree has grown by a factor since the last call, or since it was built, and has at least that
    /// factor of `few` rules.
    fn is_due(&mut self, times: usize, of: usize, few: usize) -> bool {
        let now = self.in_tree();
        let due = of * now >= times * self.looked_at.max(few);
        if due {
            self.looked_at = now;
        }
        due
    }

    /// Returns whether to search for covered rules on an insertion, and how many of them justify a rebuild. That is the
    /// case each time that the tree has doubled and lookups are slow, or has grown by half if some rules are covered.
    /// Then slow lookups always justify a rebuild.
    fn is_slow(&mut self, place: u64) -> Option<usize> {
        let few = self.in_tree().div_ceil(FEW_SHADOWED);
        if self.shadowed.is_empty() {
            let is_slow = self.is_due(2, 1, FEW_TO_LOOK_AT) && self.takes_long(self.root(), &self.facts_with(place));
            return is_slow.then_some(few);
        }
        let is_long = |tree: &Tree<K>| tree.shape(tree.root()).ticks > LONG_LOOKUP;
        self.is_due(3, 2, FEW_TO_REFRESH).then(|| if is_long(self) { 0 } else { few })
    }

    /// Returns whether lookups in a tree of these rules may be slow, so that a search for covered rules pays.
    fn takes_long(&self, root: u32, facts: &[Facts]) -> bool {
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

    pub(super) fn remove(&mut self, place: u64) -> Result<Option<u32>, Refusal> {
        type Args<'t, K> = (&'t mut Tree<K>, u64);
        fn ipv4((tree, place): Args<'_, u32>) -> Result<Option<u32>, Refusal> {
            tree.remove_one(place)
        }
        fn ipv6((tree, place): Args<'_, u128>) -> Result<Option<u32>, Refusal> {
            tree.remove_one(place)
        }
        // SAFETY: the functions differ from this one in the family only.
        unsafe { family::call::<K, Args<'_, K>, _, _, _, _, _>((self, place), ipv4, ipv6) }
    }

    fn remove_one(&mut self, place: u64) -> Result<Option<u32>, Refusal> {
        self.limbo.reclaim(&mut self.buddy);
        if !self.rules.contains_key(&place) {
            return Ok(None);
        }
        let facts = self.facts_of(place);
        // A rebuilt part is smaller than its predecessor, so it is never refused for lack of room.
        let limit = self.limit;
        self.limit = limit.saturating_mul(2);
        let done = self.uncover(place).and_then(|()| match self.shadowed.by(place) {
            Some(_) => Ok(()),
            None => self.take(ROOT, &facts),
        });
        self.limit = limit;
        if done.is_ok() {
            self.stale.push((Block(facts.record), Order::for_octets(record_octets::<K>())));
        }
        if done.is_ok() && facts.exact != 0 {
            let octets = exact_octets(&self.rules[&place].rule);
            self.stale.push((Block(facts.exact), Order::for_octets(octets)));
        }
        self.finish(done)?;
        self.shadowed.forget(place);
        let removed = self.rules.remove(&place).map(|stored| stored.identity);
        self.looked_at = self.looked_at.min(self.in_tree());
        Ok(removed)
    }

    /// Finds other covers for the rules under one that is about to be removed, or inserts them behind it, where no
    /// packet reaches them yet. So a lack of room changes no answer.
    fn uncover(&mut self, cover: u64) -> Result<(), Refusal> {
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
    fn come_back(&mut self, places: &[u64]) -> Result<(), Refusal> {
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
    fn shadows(&self, root: u32, facts: &[Facts]) -> Vec<(u64, u64)> {
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
    fn cover(&self, root: u32, facts: &Facts, accept: impl Fn(u64) -> bool) -> Option<u64> {
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
    fn some_slot(&self, reference: u32, facts: &Facts) -> Option<usize> {
        let block = split(reference).1;
        if self.node(block).open == CHAIN {
            return Some(block.word(HEADER));
        }
        let mut some = None;
        self.each_slot_of(reference, facts, |word| some = some.or(Some(word)));
        some
    }

    /// Calls a function with the words of all slots of a node that contain a rule. Returns whether there is one.
    fn each_slot_of(&self, reference: u32, facts: &Facts, mut each: impl FnMut(usize)) -> bool {
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
    fn cut_slots(&self, block: Block, facts: &Facts) -> (usize, usize) {
        let node = self.node(block);
        // SAFETY: a cut node has these ends.
        let ends = unsafe { &*self.pointer(block).add(HEADER).cast::<[u16; ENDS]>() };
        slots(&ends[..node.slots as usize - 1], facts.lane(node.masks[0] as usize))
    }

    /// Returns the worst case of a lookup in the whole tree.
    pub(super) fn worst(&self) -> Shape {
        self.shape(self.root())
    }

    /// Returns the predicted worst case below a reference: the worst slot of each node, with its wildcard list.
    fn shape(&self, mut reference: u32) -> Shape {
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

    /// Frees blocks that no reader can access.
    pub(super) fn collect(&mut self) {
        self.domain.collect();
        self.limbo.reclaim_all(&mut self.buddy);
    }

    fn finish(&mut self, done: Result<(), Refusal>) -> Result<(), Refusal> {
        match done {
            Ok(()) => self.carry_out(),
            Err(_) => self.forget_since(Mark::default()),
        }
        let far = self.buddy.used() > FAR;
        if self.table.far.load(Ordering::Relaxed) != far {
            self.table.far.store(far, Ordering::Relaxed);
        }
        done
    }

    /// Returns the lengths of the plan.
    fn mark(&self) -> Mark {
        Mark {
            edits: self.edits.len(),
            counted: self.counted.len(),
            fresh: self.fresh.len(),
            stale: self.stale.len(),
            fresh_dense: self.fresh_dense.len(),
            stale_dense: self.stale_dense.len(),
            taken: self.taken.len(),
        }
    }

    /// Drops the plan since a mark.
    fn forget_since(&mut self, mark: Mark) {
        self.fresh.drain(mark.fresh..).for_each(|(block, order)| self.buddy.free(block, order));
        self.edits.truncate(mark.edits);
        self.counted.truncate(mark.counted);
        self.stale.truncate(mark.stale);
        self.stale_dense.truncate(mark.stale_dense);
        self.taken.truncate(mark.taken);
        let fresh = self.fresh_dense.split_off(mark.fresh_dense);
        fresh.into_iter().for_each(|block| drop(self.forget_dense(block)));
    }

    fn carry_out(&mut self) {
        self.fresh.clear();
        for &(block, comes) in &self.counted {
            let rules = &self.node(block).rules;
            let now = rules.load(Ordering::Relaxed);
            rules.store(if comes { now + 1 } else { now.saturating_sub(1) }, Ordering::Relaxed);
        }
        self.counted.clear();
        // Release: a reader that loads a reference sees the content of the block.
        for edit in self.edits.drain(..) {
            match edit.word {
                None => self.table.root.store(edit.to, Ordering::Release),
                Some(word) => self.arena.word(word).store(edit.to, Ordering::Release),
            }
        }
        self.taken.drain(..).for_each(|(dense, number)| dense.take(number));
        self.fresh_dense.clear();
        for block in std::mem::take(&mut self.stale_dense) {
            let dense = self.forget_dense(block);
            self.domain.retire(Retired::new(dense, &self.retired_octets));
        }
        self.domain.collect();
        for (block, order) in self.stale.drain(..) {
            self.limbo.push(limbo::Entry { block, order, born: 0, died: 0 });
        }
    }

    /// Stores rules with their records and the fields that lanes do not represent.
    fn store(&mut self, rules: Vec<(u64, Rule<K>, u32)>) -> Result<(), Refusal> {
        for (place, rule, identity) in rules {
            let exact = if Facts::shows_all(&rule) { 0 } else { self.write_exact(&rule)? };
            let record = self.allocate_order(Order::for_octets(record_octets::<K>()))?;
            // SAFETY: no other thread accesses the block yet; it is aligned to its size and has room for a record.
            unsafe { Facts::new(place, identity, exact, &rule).write_record::<K>(self.pointer(record)) };
            self.rules.insert(place, Stored { rule, identity, record: record.0 });
        }
        Ok(())
    }

    fn facts_of(&self, place: u64) -> Facts {
        self.read(self.rules[&place].record)
    }

    fn read(&self, record: u32) -> Facts {
        // SAFETY: the record belongs to a rule of the tree.
        unsafe { Facts::read::<K>(self.arena.base(), record) }
    }

    /// Reads the rules of records, each once, in the order of places.
    fn facts(&self, mut records: Vec<u32>) -> Vec<Facts> {
        records.sort_unstable();
        records.dedup();
        let mut order = Vec::from_iter(records.into_iter().map(|record| (self.place(record), record)));
        order.sort_unstable();
        order.into_iter().map(|(_, record)| self.read(record)).collect()
    }

    // Reading.

    fn root(&self) -> u32 {
        self.table.root.load(Ordering::Relaxed)
    }

    fn reference(&self, step: Step) -> u32 {
        match step.word {
            None => self.table.root.load(Ordering::Relaxed),
            Some(word) => self.arena.word(word).load(Ordering::Relaxed),
        }
    }

    fn pointer(&self, block: Block) -> *mut u8 {
        // Blocks lie inside the arena.
        self.arena.base().wrapping_add(block.0 as usize * UNIT).cast_mut()
    }

    fn node(&self, block: Block) -> &Node {
        // SAFETY: nodes are written completely before they are referred to; later changes are atomic.
        unsafe { &*self.pointer(block).cast::<Node>() }
    }

    /// Reads a leaf that is not long.
    fn leaf(&self, reference: u32) -> Leaf {
        let (size, block) = split(reference);
        // SAFETY: leaves are written completely before they are referred to, and never change.
        unsafe { Leaf::read::<K>(self.pointer(block), K::LEAVES[(size - LEAF) as usize]) }
    }

    fn place(&self, record: u32) -> u64 {
        self.entry(record).place
    }

    fn entry(&self, record: u32) -> Entry {
        // SAFETY: the record belongs to a rule of the tree.
        unsafe { *self.pointer(Block(record)).add(K::RECORD.1).cast::<Entry>() }
    }

    /// Returns the number of rules of a leaf that is not long.
    fn leaf_rules(&self, reference: u32) -> usize {
        // SAFETY: leaves are written completely before they are referred to.
        unsafe { leaf::rules_of::<K>(self.pointer(split(reference).1)) }
    }

    /// Returns the start of the groups and of the entries of a long leaf, and the numbers of groups and rules.
    fn long(&self, reference: u32) -> (*mut u8, *mut Entry, usize, usize) {
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

    fn dense(&self, reference: u32) -> Option<Arc<Dense<K>>> {
        self.lock_dense().get(&split(reference).1.0).cloned()
    }

    fn places(&self, reference: u32, out: &mut Vec<u64>) {
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
    fn slots(&self, reference: u32) -> impl Iterator<Item = usize> + use<K> {
        let (kind, block) = split(reference);
        let header = if kind == BITS { HEADER } else { CUT_HEADER };
        let slots = self.node(block).slots as usize;
        (0..slots).map(move |slot| block.word(header + 4 * slot))
    }

    fn rest(&self, reference: u32) -> u32 {
        self.node(split(reference).1).rest.load(Ordering::Relaxed)
    }

    /// Collects the records of all rules in and below a block.
    fn gather_records(&self, mut reference: u32, out: &mut Vec<u32>) {
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
    fn count(&self, reference: u32) -> usize {
        match reference & KINDS {
            _ if reference == 0 => 0,
            BITS | CUT => self.node(split(reference).1).rules.load(Ordering::Relaxed) as usize,
            DENSE => self.dense(reference).map_or(0, |dense| dense.rules()),
            LONG => self.long(reference).3,
            _ => self.leaf(reference).rules(),
        }
    }

    /// Returns whether a rule is in or below a block.
    fn has(&self, mut reference: u32, facts: &Facts) -> bool {
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

    /// Marks a block, and all below it, as unused.
    fn drop_all(&mut self, mut reference: u32) {
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

    fn drop_block(&mut self, reference: u32) {
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

    // Construction.

    /// Returns the octets of reachable blocks, except for blocks that wait for readers.
    fn occupied(&self) -> usize {
        self.buddy.used() - self.limbo.octets() + self.dense_octets
    }

    /// Allocates a block for a node. Bounds the depth of all trees: lookups have room for nodes of fewer steps than
    /// [`DEPTH`], and would write past the end of their lists.
    fn allocate_node(&mut self, step: Step, octets: usize) -> Result<Block, Refusal> {
        if step.depth >= DEPTH {
            return Err(NoRoom);
        }
        self.allocate(octets)
    }

    fn allocate(&mut self, octets: usize) -> Result<Block, Refusal> {
        self.allocate_order(Order::for_octets(octets.max(LEAST)))
    }

    fn allocate_order(&mut self, order: Order) -> Result<Block, Refusal> {
        let room = |tree: &Tree<K>| tree.occupied() + order.octets() <= tree.limit;
        let block = room(self).then(|| self.buddy.allocate(order)).flatten().or_else(|| {
            self.limbo.reclaim_all(&mut self.buddy);
            room(self).then(|| self.buddy.allocate(order)).flatten()
        });
        let block = block.ok_or(NoRoom)?;
        self.fresh.push((block, order));
        Ok(block)
    }

    fn write_exact(&mut self, rule: &Rule<K>) -> Result<u32, Refusal> {
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
    fn empty_long(&mut self, rules: usize) -> Result<(u32, *mut u8, *mut Entry), Refusal> {
        let groups = rules.div_ceil(K::RULES);
        if groups > most_groups::<K>() {
            return Err(NoRoom);
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
    fn new_leaf(&mut self, rules: &[&Facts]) -> Result<u32, Refusal> {
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

    fn write_leaf(&mut self, leaf: &Leaf) -> Result<u32, Refusal> {
        let size = leaf.size::<K>();
        let room = K::LEAVES[size];
        let block = self.allocate(leaf_octets::<K>(room))?;
        // SAFETY: no other thread accesses the block yet; it has room for the leaf.
        unsafe { leaf.write::<K>(self.pointer(block), room) };
        Ok(join(LEAF + size as u32, block))
    }

    fn new_dense<'f>(&mut self, rules: impl ExactSizeIterator<Item = &'f Facts>) -> Result<u32, Refusal> {
        let block = self.allocate(LEAST)?;
        let dense =
            Arc::new(Dense::new(rules.map(|facts| (facts.place, &self.rules[&facts.place].rule, facts.identity))));
        if self.occupied() + dense.octets() > self.limit {
            return Err(NoRoom);
        }
        self.dense_octets += dense.octets();
        // SAFETY: no other thread accesses the block yet.
        unsafe { self.pointer(block).cast::<*const Dense<K>>().write(Arc::as_ptr(&dense)) };
        self.lock_dense().insert(block.0, dense);
        self.fresh_dense.push(block.0);
        Ok(join(DENSE, block))
    }

    fn forget_dense(&mut self, block: u32) -> Option<Arc<Dense<K>>> {
        let dense = self.lock_dense().remove(&block);
        self.dense_octets -= dense.as_ref().map_or(0, |dense| dense.octets());
        dense
    }

    fn lock_dense(&self) -> MutexGuard<'_, HashMap<u32, Arc<Dense<K>>>> {
        // No code under the lock can panic.
        self.table.dense.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a leaf with the rules of another, and one more.
    fn leaf_with(&mut self, reference: u32, facts: &Facts) -> Result<u32, Refusal> {
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
    fn leaf_without(&mut self, reference: u32, record: u32) -> Result<u32, Refusal> {
        let mut leaf = self.leaf(reference);
        let rule = leaf.records().iter().position(|there| *there == record);
        rule.into_iter().for_each(|rule| leaf.remove(rule));
        if leaf.rules() == 0 { Ok(0) } else { self.write_leaf(&leaf) }
    }

    /// Creates a long leaf with the rules of another, and one more.
    fn long_with(&mut self, reference: u32, facts: &Facts) -> Result<u32, Refusal> {
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
    fn long_without(&mut self, reference: u32, place: u64) -> Result<u32, Refusal> {
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

    /// Builds the block for these rules, which are in order.
    fn build(&mut self, facts: &[Facts], rules: &[u32], step: Step) -> Result<u32, Refusal> {
        if rules.is_empty() {
            return Ok(0);
        }
        self.make(facts, rules, step, Tree::<K>::choose(facts, rules, step))
    }

    fn choose(facts: &[Facts], rules: &[u32], step: Step) -> Option<Plan> {
        let small = rules.len() <= leaf::MOST;
        if small || step.depth + 1 >= PARTED { None } else { plan::<K>(facts, rules, step.copies) }
    }

    fn make(&mut self, facts: &[Facts], rules: &[u32], step: Step, plan: Option<Plan>) -> Result<u32, Refusal> {
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
    fn make_node(&mut self, facts: &[Facts], rules: &[u32], step: Step, head: &Head) -> Result<u32, Refusal> {
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
    fn is_crowded(facts: &[Facts], rules: &[u32], is_new: bool) -> bool {
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
    fn build_chain(&mut self, facts: &[Facts], rules: &[u32], step: Step) -> Result<u32, Refusal> {
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
                    return Err(Overlap { most: MOST_LINKS * most, places: [place(rules[0]), place(rest[0])] });
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
    fn most_dense(&self, facts: &[Facts], rules: &[u32]) -> usize {
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

    fn write_head(&mut self, block: Block, head: &Head, facts: &[Facts], rules: &[u32]) {
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

    // Changes.

    /// Counts a rule that is inserted below a node. Returns whether the node has grown so much that a rebuild pays.
    /// Without room for that, the check repeats after the same growth.
    fn grown(&mut self, block: Block) -> bool {
        self.counted.push((block, true));
        let node = self.node(block);
        let (rules, built) = (node.rules.load(Ordering::Relaxed), node.built);
        let many = rules.checked_sub(built.saturating_mul(4).saturating_add(32));
        node.open != CHAIN && many.is_some_and(|many| many % built.max(32) == 0)
    }

    /// Counts a removed rule. Returns whether so few remain that a rebuild pays.
    fn shrunk(&mut self, block: Block) -> bool {
        self.counted.push((block, false));
        let node = self.node(block);
        // No rule is left, or few of many: the rebuilt node is small.
        let left = node.rules.load(Ordering::Relaxed).saturating_sub(1);
        left == 0 || left < node.built / 4
    }

    /// Returns the steps from a node to the places of a rule.
    fn steps(&self, reference: u32, step: Step, facts: &Facts, comes: bool) -> Vec<Step> {
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
    fn is_stuffed(&self, reference: u32) -> bool {
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
    fn chain_step(&self, block: Block, step: Step, facts: &Facts, comes: bool) -> Step {
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

    fn edit(&mut self, step: Step, to: u32) {
        self.edits.push(Edit { word: step.word, to });
    }

    /// Rebuilds the block of a step with its rules, one more, or one less.
    fn rebuild(&mut self, step: Step, with: Option<&Facts>, without: Option<u32>) -> Result<(), Refusal> {
        self.rebuild_as(step, with, without, false)
    }

    /// Rebuilds the block of a step as `rebuild` does, with a plan that nothing separates the rules, if known.
    fn rebuild_as(
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

    fn add(&mut self, mut step: Step, facts: &Facts) -> Result<(), Refusal> {
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
                    Err(full @ Overlap { .. }) if stuffed => return Err(full),
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

    fn take(&mut self, mut step: Step, facts: &Facts) -> Result<(), Refusal> {
        let mut reference = self.reference(step);
        while matches!(reference & KINDS, BITS | CUT) {
            if self.shrunk(split(reference).1) {
                let mark = self.mark();
                match self.rebuild(step, None, Some(facts.record)) {
                    // The remaining rules stay where they are.
                    Err(Overlap { .. }) => self.forget_since(mark),
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

/// The properties of a new node.
struct Head {
    masks: [u64; 6],
    slots: usize,
    open: u32,
    kind: u32,
    room: u32,
}

fn exact_octets<K: Address>(rule: &Rule<K>) -> usize {
    let interfaces = rule.interfaces.as_ref().map_or(0, crate::sav::Set::len);
    (size_of::<Exact<K>>() + 4 * interfaces).max(LEAST)
}

/// Returns the mean number of rules of a leaf that packets of another rule are compared with in vain. Rules with fields
/// outside of lanes count twice.
fn compared<K: Address>(leaf: &Leaf, rules: &[&Facts], facts: &Facts) -> f32 {
    let others = leaf.each_alike(facts).filter(|rule| rules[*rule].record != facts.record);
    let of = |rule: usize| if rules[rule].exact == 0 { 1.0 - facts.share::<K>(rules[rule], leaf.lane()) } else { 2.0 };
    others.map(of).sum()
}

fn numbers(facts: &[Facts]) -> Vec<u32> {
    Vec::from_iter(0..facts.len() as u32)
}

/// Removes covered rules. Both lists are in order.
fn leave_out(facts: &mut Vec<Facts>, shadowed: &[(u64, u64)]) {
    let mut left = shadowed.iter().map(|(place, _)| *place).peekable();
    facts.retain(|facts| left.next_if_eq(&facts.place).is_none());
}

fn entry(facts: &Facts) -> Entry {
    Entry { place: facts.place, identity: facts.identity, exact: facts.exact }
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
