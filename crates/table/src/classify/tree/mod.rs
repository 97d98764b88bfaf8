//! The writer's side of the tree.
//!
//! A change is planned first: new blocks are written, and the words that will refer to them are noted. Nothing is
//! visible until all blocks exist; then each word is stored once. So a lack of room changes nothing.

mod build;
mod covers;
mod descend;
mod leaves;
mod read;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_base::reclaim::Domain;

use crate::lpm::Folding;
use crate::lpm::arena::{Arena, Block, UNIT};
use crate::lpm::buddy::{Buddy, Order};
use crate::lpm::limbo::{self, Limbo};

use super::address::Address;
use super::block::{Entry, Exact, LEAST};
use super::dense::{Dense, Retired};
use super::facts::{Facts, record_octets};
use super::family;
use super::leaf::Leaf;
use super::rule::Rule;
use super::shadow::Shadowed;
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

use Refusal::Overlap;

/// Above this size lookups prefetch: the part of the second-level cache that a table can use.
const FAR: usize = 1 << 20;

/// Largest number of bit-vector leaves of a chain. A lookup without a match searches all of them, and each takes as
/// long as a tree of rules that bits separate.
pub(super) const MOST_LINKS: usize = 3;

/// Above this predicted time of a lookup, in ticks, a tree is built without covered rules.
const LONG_LOOKUP: usize = 250;

/// A tree is built without covered rules if they are at least this part of its rules.
const FEW_SHADOWED: usize = 8;

/// Smaller trees stay as they were built.
const FEW_TO_LOOK_AT: usize = 1024;

/// Trees of fewer rules, some of them covered already, stay as they were built.
const FEW_TO_REFRESH: usize = 512;

/// Length of the sequence of covered rules that is searched for room.
const STEPS: usize = 16;

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

/// Largest number of new rules before a bit-vector leaf that always form a leaf.
const FEW_NEW: usize = 4;

/// Largest mean number of rules of such a leaf that are compared in vain: more take longer than a small bit-vector
/// leaf.
const MOST_COMPARED: f32 = 4.0;

/// Largest number of copies of a rule in a tree, as a power of two.
const COPIES: u32 = 8;

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
