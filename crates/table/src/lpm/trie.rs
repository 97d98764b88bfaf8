//! How the writer changes the trie under its readers.
//!
//! Inserting and removing a route are the same operation, **painting**: every slot under the prefix whose value comes from
//! a prefix that is not longer takes a new fill: the route's own, or that of the next shorter route. What lies under
//! longer prefixes stays.
//!
//! A painting is first *planned*: new blocks are built aside, and the words to be stored are noted. If memory runs out,
//! the plan is dropped, and nothing has happened. Otherwise it is *carried out*: each noted store swings one leaf, so that
//! any single lookup sees either the old or the new state of its key. Blocks that dropped out go to limbo.
//!
//! A block may be stored into only if no older table shares it; otherwise it is copied, and so is the path down to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_base::reclaim::Domain;

use super::arena::{Arena, Block, UNIT};
use super::buddy::{Buddy, Order};
use super::key::{Key, Prefix};
use super::limbo::{Entry, Limbo};
use super::node::{self, Child, Fill, Lens, Run};
use super::table::Table;

/// There is no memory left for the plan.
#[derive(Debug)]
pub(crate) struct NoRoom;

/// How much memory a painting may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Budget {
    /// Up to the table's limit.
    Limited,
    /// Past the limit if need be, and waiting for readers if need be: for removals, which must not fail.
    Whatever,
}

#[derive(Default)]
struct Plan {
    /// Words of the arena, and what they become.
    stores: Vec<(usize, Fill)>,
    /// Slots of the directory, and what they become.
    directory: Vec<(usize, Fill)>,
    fresh: Vec<(Block, Order)>,
    stale: Vec<(Block, Order)>,
}

/// The writer's side of the structure: everything but the routes themselves.
pub(crate) struct Trie<K: Key> {
    arena: Arc<Arena>,
    buddy: Buddy,
    limbo: Limbo,
    lens: Lens,
    /// Per unit where a block begins: the generation that it came in with.
    born: Vec<u32>,
    table: Arc<Table<K>>,
    directory_lens: Box<[u8]>,
    limit: usize,
    /// Blocks born in this generation or earlier are shared with an older table.
    shared_until: u32,
    draft: Option<Draft<K>>,
    plan: Plan,
}

/// What a transaction needs in order to be undone, or to be completed.
struct Draft<K: Key> {
    before: Arc<Table<K>>,
    directory_lens: Box<[u8]>,
    /// Blocks of the table before that the draft does without.
    dropped: Vec<Entry>,
}

impl<K: Key> Trie<K> {
    /// An empty trie for at most `limit` octets.
    pub(crate) fn new(domain: &Domain, limit: usize) -> std::io::Result<Trie<K>> {
        // Removals may go past the limit, by copies of what older tables share and by blocks that wait for readers. This
        // is address space: memory is taken when it is touched.
        let reserve = limit.saturating_mul(4).saturating_add(1 << 20).min((1 << 30) * UNIT);
        let arena = Arc::new(Arena::new(reserve)?);
        Ok(Trie {
            buddy: Buddy::new(arena.clone(), reserve),
            limbo: Limbo::new(domain.clone()),
            lens: Lens::new(),
            born: Vec::new(),
            table: Arc::new(Table::empty(domain, arena.clone())),
            directory_lens: vec![0; 1 << K::DIRECTORY].into(),
            arena,
            limit,
            shared_until: 0,
            draft: None,
            plan: Plan::default(),
        })
    }

    /// The table that readers are to use: not one that a transaction is still at work on.
    pub(crate) fn table(&self) -> &Arc<Table<K>> {
        self.draft.as_ref().map_or(&self.table, |draft| &draft.before)
    }

    /// Sets what a lookup answers that no painted slot answers.
    pub(crate) fn set_default(&mut self, value: u32) {
        self.table.set_default(value);
    }

    /// Octets that readers may look at, and those among them that wait to be freed.
    pub(crate) fn octets(&self) -> (usize, usize) {
        (self.buddy.used() + self.directory_lens.len() * 4, self.limbo.octets())
    }

    /// Octets of the writer's notes beside the blocks.
    pub(crate) fn side_octets(&self) -> usize {
        self.lens.octets() + self.born.capacity() * 4 + self.buddy.frontier() + self.directory_lens.len()
    }

    /// Gives every slot under `prefix` that is not under a longer one the fill `new`.
    pub(crate) fn paint(&mut self, prefix: &Prefix<K>, new: Fill, budget: Budget) -> Result<(), NoRoom> {
        self.limbo.reclaim(&mut self.buddy);
        if self.draft.is_none() {
            self.shared_until = self.limbo.youngest_snapshot();
        }
        let planned = self.plan_directory(prefix, new, budget);
        match planned {
            Ok(()) => self.carry_out(),
            Err(NoRoom) => self.drop_plan(),
        }
        planned
    }

    fn plan_directory(&mut self, prefix: &Prefix<K>, new: Fill, budget: Budget) -> Result<(), NoRoom> {
        let (slots, inside) = slots(prefix, 0, K::DIRECTORY);
        for slot in slots {
            let old =
                Fill { leaf: self.table.directory()[slot].load(Ordering::Relaxed), len: self.directory_lens[slot] };
            let fill = self.touch(old, K::DIRECTORY, inside, prefix, new, budget)?;
            if fill != old {
                self.plan.directory.push((slot, fill));
            }
        }
        Ok(())
    }

    /// What becomes of a slot whose first bit below is at `depth`: `inside` the prefix, or around it.
    fn touch(
        &mut self,
        old: Fill,
        depth: u8,
        inside: bool,
        prefix: &Prefix<K>,
        new: Fill,
        budget: Budget,
    ) -> Result<Fill, NoRoom> {
        match old.child() {
            Some(Child::Array(block)) => self.edit_array(block, depth, prefix, new, budget),
            Some(Child::Node(block)) => self.edit_node(block, depth, prefix, new, budget),
            None if inside => Ok(if old.len <= prefix.len() { new } else { old }),
            None => {
                let runs = self.painted(&[Run { start: 0, fill: old }], depth, prefix, new, budget)?;
                self.build(&runs, depth, budget)
            }
        }
    }

    /// A block for these runs at `depth`.
    fn build(&mut self, runs: &[Run], depth: u8, budget: Budget) -> Result<Fill, NoRoom> {
        if depth > K::DIRECTORY && runs.len() <= node::MAX_RUNS {
            let block = self.allocate(node::node_order(runs.len()), budget)?;
            node::write_node(&self.arena, &mut self.lens, block, runs);
            return Ok(Fill::node(block));
        }
        let block = self.allocate(node::array_order(bits_at::<K>(depth)), budget)?;
        let ends = runs.iter().skip(1).map(|next| usize::from(next.start)).chain([1 << bits_at::<K>(depth)]);
        for (run, end) in runs.iter().zip(ends) {
            for slot in usize::from(run.start)..end {
                self.set(block.word(0) + slot, run.fill);
            }
        }
        Ok(Fill::array(block))
    }

    fn edit_array(
        &mut self,
        block: Block,
        depth: u8,
        prefix: &Prefix<K>,
        new: Fill,
        budget: Budget,
    ) -> Result<Fill, NoRoom> {
        let bits = bits_at::<K>(depth);
        let (slots, inside) = slots(prefix, depth, bits);
        let first = block.word(0);
        let mut changes = Vec::new();
        for slot in slots {
            let old = self.lens.fill(&self.arena, first + slot);
            let fill = self.touch(old, depth + bits, inside, prefix, new, budget)?;
            if fill != old {
                changes.push((slot, fill));
            }
        }
        let Some(&(_, some)) = changes.first() else { return Ok(Fill::array(block)) };

        // Reading all slots is only worth it if a run may have gone.
        if changes.iter().any(|(_, fill)| fill.child().is_none()) {
            if depth > K::DIRECTORY {
                let runs = self.array_runs(first, bits, &changes);
                // Well below the number at which a node would become an array again.
                if runs.len() <= node::MAX_RUNS / 2 {
                    self.plan.stale.push((block, node::array_order(bits)));
                    return match runs[..] {
                        [Run { fill, .. }] if collapses(fill, depth) => Ok(fill),
                        _ => self.build(&runs, depth, budget),
                    };
                }
            } else if collapses(some, depth) && self.becomes_uniform(first, &changes, some) {
                self.plan.stale.push((block, node::array_order(bits)));
                return Ok(some);
            }
        }
        if self.may_store(block) {
            self.plan.stores.extend(changes.iter().map(|&(slot, fill)| (first + slot, fill)));
            return Ok(Fill::array(block));
        }
        let copy = self.allocate(node::array_order(bits), budget)?;
        for slot in 0..1 << bits {
            let fill = self.lens.fill(&self.arena, first + slot);
            self.set(copy.word(0) + slot, fill);
        }
        for (slot, fill) in changes {
            self.set(copy.word(0) + slot, fill);
        }
        self.plan.stale.push((block, node::array_order(bits)));
        Ok(Fill::array(copy))
    }

    /// The runs of an array once the changes (in order of slots) are made.
    fn array_runs(&self, first: usize, bits: u8, changes: &[(usize, Fill)]) -> Vec<Run> {
        let mut changes = changes.iter().peekable();
        let mut runs: Vec<Run> = Vec::with_capacity(1 << bits);
        for slot in 0..1 << bits {
            let fill = match changes.next_if(|change| change.0 == slot) {
                Some(change) => change.1,
                None => self.lens.fill(&self.arena, first + slot),
            };
            push_run(&mut runs, slot, fill);
        }
        runs
    }

    /// Whether every slot of a chunk is `fill` once the changes (in order of slots) are made.
    fn becomes_uniform(&self, first: usize, changes: &[(usize, Fill)], fill: Fill) -> bool {
        let mut changes = changes.iter().peekable();
        (0..1 << K::CHUNK).all(|slot| match changes.next_if(|change| change.0 == slot) {
            Some(change) => change.1 == fill,
            None => self.lens.fill(&self.arena, first + slot) == fill,
        })
    }

    fn edit_node(
        &mut self,
        block: Block,
        depth: u8,
        prefix: &Prefix<K>,
        new: Fill,
        budget: Budget,
    ) -> Result<Fill, NoRoom> {
        let before = node::runs(&self.arena, &self.lens, block);
        let after = self.painted(&before, depth, prefix, new, budget)?;
        if before == after {
            return Ok(Fill::node(block));
        }
        let order = node::node_order(before.len());
        if let [Run { fill, .. }] = after[..]
            && collapses(fill, depth)
        {
            self.plan.stale.push((block, order));
            return Ok(fill);
        }
        let same_starts = before.len() == after.len() && before.iter().zip(&after).all(|(a, b)| a.start == b.start);
        if same_starts && self.may_store(block) {
            let first = block.word(node::HEADER);
            let changed = (0..after.len()).filter(|&index| before[index] != after[index]);
            self.plan.stores.extend(changed.map(|index| (first + index, after[index].fill)));
            return Ok(Fill::node(block));
        }
        self.plan.stale.push((block, order));
        self.build(&after, depth, budget)
    }

    /// The runs of a block after the painting.
    fn painted(
        &mut self,
        runs: &[Run],
        depth: u8,
        prefix: &Prefix<K>,
        new: Fill,
        budget: Budget,
    ) -> Result<Vec<Run>, NoRoom> {
        let bits = bits_at::<K>(depth);
        let (slots, inside) = slots(prefix, depth, bits);
        let mut after = Vec::with_capacity(runs.len() + 2);
        for (index, run) in runs.iter().enumerate() {
            let start = usize::from(run.start);
            let end = runs.get(index + 1).map_or(1 << bits, |next| usize::from(next.start));
            let (from, to) = (start.max(slots.start), end.min(slots.end));
            if from >= to {
                push_run(&mut after, start, run.fill);
                continue;
            }
            if start < from {
                push_run(&mut after, start, run.fill);
            }
            // A reference is a run of one slot, and around the prefix there is one slot: no block gets two owners.
            let fill = self.touch(run.fill, depth + bits, inside, prefix, new, budget)?;
            push_run(&mut after, from, fill);
            if to < end {
                push_run(&mut after, to, run.fill);
            }
        }
        Ok(after)
    }

    fn may_store(&self, block: Block) -> bool {
        self.born[block.0 as usize] > self.shared_until
    }

    fn set(&mut self, word: usize, fill: Fill) {
        self.arena.word(word).store(fill.leaf, Ordering::Relaxed);
        self.lens.set(word, fill.len);
    }

    fn allocate(&mut self, order: Order, budget: Budget) -> Result<Block, NoRoom> {
        let block = self.try_allocate(order, budget).or_else(|| {
            self.limbo.reclaim_all(&mut self.buddy);
            self.try_allocate(order, budget)
        });
        let block = match (block, budget) {
            (Some(block), _) => block,
            (None, Budget::Limited) => return Err(NoRoom),
            (None, Budget::Whatever) => {
                self.limbo.wait(&mut self.buddy);
                self.try_allocate(order, budget).ok_or(NoRoom)?
            }
        };
        self.lens.grow(self.buddy.frontier() * UNIT / 4);
        if self.born.len() < self.buddy.frontier() {
            self.born.resize(self.buddy.frontier(), 0);
        }
        self.born[block.0 as usize] = self.table.generation();
        self.plan.fresh.push((block, order));
        Ok(block)
    }

    fn try_allocate(&mut self, order: Order, budget: Budget) -> Option<Block> {
        if budget == Budget::Limited && self.octets().0 + order.octets() > self.limit {
            return None;
        }
        self.buddy.allocate(order)
    }

    fn drop_plan(&mut self) {
        for (block, order) in self.plan.fresh.drain(..) {
            self.buddy.free(block, order);
        }
        self.plan.stores.clear();
        self.plan.directory.clear();
        self.plan.stale.clear();
    }

    fn carry_out(&mut self) {
        self.plan.fresh.clear();
        // Release: who loads a reference to a block sees what was written into it before.
        for (word, fill) in self.plan.stores.drain(..) {
            self.arena.word(word).store(fill.leaf, Ordering::Release);
            self.lens.set(word, fill.len);
        }
        for (slot, fill) in self.plan.directory.drain(..) {
            self.table.directory()[slot].store(fill.leaf, Ordering::Release);
            self.directory_lens[slot] = fill.len;
        }
        let died = self.table.generation();
        for (block, order) in self.plan.stale.drain(..) {
            let born = self.born[block.0 as usize];
            let entry = Entry { block, order, born, died };
            match &mut self.draft {
                None => self.limbo.push(entry),
                // Neither the draft nor this block has been seen by anyone.
                Some(_) if born == died => self.buddy.free(block, order),
                Some(draft) => draft.dropped.push(entry),
            }
        }
    }

    /// Frees what nobody can look at any more.
    pub(crate) fn collect(&mut self) {
        self.limbo.reclaim_all(&mut self.buddy);
    }

    /// From here on, the current table stays as it is, and a draft that shares its blocks is edited.
    ///
    /// # Panics
    /// If an earlier transaction was leaked, and so neither committed nor rolled back.
    pub(crate) fn begin(&mut self) {
        assert!(self.draft.is_none(), "a transaction was leaked");
        let draft = Arc::new(self.table.successor());
        let before = std::mem::replace(&mut self.table, draft);
        self.shared_until = before.generation();
        self.draft = Some(Draft { before, directory_lens: self.directory_lens.clone(), dropped: Vec::new() });
    }

    /// The draft becomes the current table.
    pub(crate) fn commit(&mut self) {
        let draft = self.draft.take().expect("a transaction has begun");
        self.limbo.add_snapshot(draft.before.generation(), draft.before.alive().clone());
        for entry in draft.dropped {
            self.limbo.push(entry);
        }
    }

    /// The draft is dropped, with the blocks that it alone has.
    pub(crate) fn roll_back(&mut self) {
        let draft = self.draft.take().expect("a transaction has begun");
        let abandoned = std::mem::replace(&mut self.table, draft.before);
        self.directory_lens = draft.directory_lens;
        for slot in abandoned.directory() {
            self.free_born_in(abandoned.generation(), slot.load(Ordering::Relaxed), K::DIRECTORY);
        }
    }

    /// Frees the block that a leaf refers to, and those below it, as far as they were born in `generation`. A block that
    /// was not has no such block below it.
    fn free_born_in(&mut self, generation: u32, leaf: u32, depth: u8) {
        let bits = bits_at::<K>(depth);
        let (block, first, count, order) = match node::child(leaf) {
            None => return,
            Some(Child::Array(block)) => (block, block.word(0), 1 << bits, node::array_order(bits)),
            Some(Child::Node(block)) => {
                let count = node::run_count(&self.arena, block);
                (block, block.word(node::HEADER), count, node::node_order(count))
            }
        };
        if self.born[block.0 as usize] != generation {
            return;
        }
        for word in first..first + count {
            let leaf = self.arena.word(word).load(Ordering::Relaxed);
            self.free_born_in(generation, leaf, depth + bits);
        }
        self.buddy.free(block, order);
    }
}

/// The slots of a block at `depth` that `prefix` touches, and whether these lie inside the prefix. If they do not, the
/// prefix is longer, and there is one slot around it.
fn slots<K: Key>(prefix: &Prefix<K>, depth: u8, bits: u8) -> (std::ops::Range<usize>, bool) {
    if prefix.len() <= depth {
        return (0..1 << bits, true);
    }
    let first = prefix.address().slot(depth, bits);
    match (depth + bits).checked_sub(prefix.len()) {
        Some(free) => (first..first + (1 << free), true),
        None => (first..first + 1, false),
    }
}

/// How many bits a block at `depth` resolves.
fn bits_at<K: Key>(depth: u8) -> u8 {
    if depth == K::DIRECTORY { K::CHUNK } else { node::STRIDE }
}

/// Whether a block at `depth` that holds nothing but `fill` can be replaced by it. A value of a longer prefix cannot
/// stand in the slot above: the prefix would not be inside of it.
fn collapses(fill: Fill, depth: u8) -> bool {
    fill.child().is_none() && fill.len <= depth
}

/// Adds slots from `start` on to the runs of a block. Every reference is a run of its own.
fn push_run(runs: &mut Vec<Run>, start: usize, fill: Fill) {
    if !runs.last().is_some_and(|last| last.fill == fill && fill.child().is_none()) {
        runs.push(Run { start: start as u16, fill });
    }
}
