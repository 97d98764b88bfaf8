//! How the writer changes the trie under its readers.
//!
//! Inserting and removing a route are the same operation, **painting**: every slot under the prefix whose value comes
//! from a prefix that is not longer takes a new fill: the route's own, or that of the next shorter route. What lies
//! under longer prefixes stays.
//!
//! A painting is first *planned*: new blocks are built aside, and the words to be stored are noted. If memory runs out,
//! the plan is dropped, and nothing has happened. Otherwise it is *carried out*: each noted store swings one leaf, so
//! that any single lookup sees either the old or the new state of its key. Blocks that dropped out go to limbo.
//!
//! A block may be stored into only if no older table shares it; otherwise it is copied, and so is the path down to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_base::reclaim::Domain;

use super::arena::{Arena, Block, UNIT};
use super::buddy::{Buddy, Order};
use super::key::{Key, Prefix};
use super::limbo::{Entry, Limbo};
use super::node::{self, Child, Fill, Lens, Node, Run};
use super::table::Table;
use super::writer::Full;

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
    pub(crate) fn new(domain: &Domain, limit: usize) -> Result<Trie<K>, Full> {
        // Removals may go past the limit, by copies of what older tables share and by blocks that wait for readers.
        // This is address space: memory is taken when it is touched.
        let reserve = limit.saturating_mul(4).saturating_add(1 << 20).min(node::UNITS * UNIT);
        let refused = |error: std::io::Error| Full::AddressSpace { octets: reserve, reason: error.kind() };
        let arena = Arc::new(Arena::new(reserve).map_err(refused)?);
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
        if prefix.len() == 0 {
            // Its slots would be all that nothing else fills: one word says the same.
            self.table.set_default(new.leaf);
            return Ok(());
        }
        self.limbo.reclaim(&mut self.buddy);
        if self.draft.is_none() {
            self.shared_until = self.limbo.youngest_snapshot();
        }
        let planned = self.plan_directory(prefix, new, budget);
        match planned {
            Ok(()) => self.carry_out(),
            Err(NoRoom) => self.drop_plan(),
        }
        self.arena.set_used(self.buddy.used());
        planned
    }

    fn plan_directory(&mut self, prefix: &Prefix<K>, new: Fill, budget: Budget) -> Result<(), NoRoom> {
        let (slots, inside) = slots(prefix, 0, K::DIRECTORY);
        for slot in slots {
            let index = slot as usize;
            let old =
                Fill { leaf: self.table.directory()[index].load(Ordering::Relaxed), len: self.directory_lens[index] };
            let place = Place { at: K::ZERO.place(0, K::DIRECTORY, slot), depth: K::DIRECTORY };
            let fill = self.touch(old, place, inside, prefix, new, budget)?;
            if fill != old {
                self.plan.directory.push((index, fill));
            }
        }
        Ok(())
    }

    /// What becomes of a slot, and what lies below it: `inside` the prefix, or around it.
    fn touch(
        &mut self,
        old: Fill,
        below: Place<K>,
        inside: bool,
        prefix: &Prefix<K>,
        new: Fill,
        budget: Budget,
    ) -> Result<Fill, NoRoom> {
        match old.child() {
            Some(Child::Array(block)) => self.edit_array(block, below, prefix, new, budget),
            Some(Child::Node(node)) => self.edit_node(node, below, prefix, new, budget),
            None if inside => Ok(if old.len <= prefix.len() { new } else { old }),
            None => {
                let runs = self.painted(&[Run { start: 0, fill: old }], below, prefix, new, budget)?;
                self.build(&runs, below, budget)
            }
        }
    }

    /// A block for these runs.
    fn build(&mut self, runs: &[Run], place: Place<K>, budget: Budget) -> Result<Fill, NoRoom> {
        let depth = place.depth;
        if node::has_nodes::<K>(depth) && runs.len() <= node::max_runs::<K>() {
            let block = self.allocate(node::shape::<K>(runs.len()).1, budget)?;
            let node = Node::new::<K>(block, runs.len());
            node.write(&self.arena, &mut self.lens, depth, place.at, runs);
            return Ok(Fill::node(node));
        }
        // A slot of the array is as wide as a slot of the runs, or wider: then there may be a block below it.
        let (bits, width) = (node::array_bits::<K>(depth), slot_width::<K>(depth));
        let block = self.allocate(node::array_order(bits), budget)?;
        let mut part = Vec::new();
        let mut rest = runs;
        for slot in 0..1u64 << bits {
            let (first, end) = (slot * width, (slot + 1) * width);
            // The run that the slot begins in, and those that begin in the slot.
            while let [_, next, ..] = rest
                && u64::from(next.start) <= first
            {
                rest = &rest[1..];
            }
            part.clear();
            part.push(Run { start: 0, fill: rest[0].fill });
            let others = rest[1..].iter().take_while(|run| u64::from(run.start) < end);
            part.extend(others.map(|run| Run { start: run.start - first as u32, fill: run.fill }));
            let fill = match part[..] {
                [Run { fill, .. }] => fill,
                _ => self.build(&part, place.below(bits, slot), budget)?,
            };
            self.set(block.word(0) + slot as usize, fill);
        }
        Ok(Fill::array(block))
    }

    fn edit_array(
        &mut self,
        block: Block,
        place: Place<K>,
        prefix: &Prefix<K>,
        new: Fill,
        budget: Budget,
    ) -> Result<Fill, NoRoom> {
        let depth = place.depth;
        let bits = node::array_bits::<K>(depth);
        let (slots, inside) = slots(prefix, depth, bits);
        let first = block.word(0);
        let mut changes = Vec::new();
        let stores = self.plan.stores.len();
        for slot in slots {
            let old = self.lens.fill(&self.arena, first + slot as usize);
            let fill = self.touch(old, place.below(bits, slot), inside, prefix, new, budget)?;
            if fill != old {
                changes.push((slot as usize, fill));
            }
        }
        if changes.is_empty() {
            return Ok(Fill::array(block));
        }
        // Reading all slots is only worth it if runs may have gone: if something was removed. And what lies below must
        // be as it will be, with no stores to nodes outstanding.
        if budget == Budget::Whatever
            && self.plan.stores.len() == stores
            && let Some(Gathered { runs, nodes }) = self.gather(first, depth, &changes)
        {
            self.plan.stale.push((block, node::array_order(bits)));
            self.plan.stale.extend(nodes);
            return match runs[..] {
                [Run { fill, .. }] if collapses(fill, depth) => Ok(fill),
                _ => self.build(&runs, place, budget),
            };
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

    /// The runs of an array once the changes (in order of slots) are made, with those of the nodes below its slots, and
    /// these nodes: if they would make one node, and well below the number of runs at which it would become an array
    /// again.
    fn gather(&self, first: usize, depth: u8, changes: &[(usize, Fill)]) -> Option<Gathered> {
        let (bits, width) = (node::array_bits::<K>(depth), slot_width::<K>(depth));
        let most = if node::has_nodes::<K>(depth) { node::max_runs::<K>() / 2 } else { 1 };
        let mut changes = changes.iter().peekable();
        let mut shallow = Vec::with_capacity(most + 1);
        let mut least = 0;
        for slot in 0..1 << bits {
            let fill = match changes.next_if(|change| change.0 == slot) {
                Some(change) => change.1,
                None => self.lens.fill(&self.arena, first + slot),
            };
            let before = shallow.len();
            push_run(&mut shallow, (slot as u64 * width) as u32, fill);
            // Most arrays are dropped from the search by this: what lies below them is not looked at.
            least += match fill.child() {
                Some(Child::Array(_)) if width > 1 => return None,
                Some(Child::Node(_)) if width > 1 => 2,
                _ => shallow.len() - before,
            };
            if least > most {
                return None;
            }
        }
        let mut gathered = Gathered { runs: Vec::with_capacity(2 * most), nodes: Vec::new() };
        for run in shallow {
            match run.fill.child() {
                // Below a wider slot lies a block of the same frame, whose runs are as wide as ours.
                Some(Child::Node(node)) if width > 1 => {
                    let inner = node.runs::<K>(&self.arena, &self.lens, depth + bits);
                    gathered.nodes.push((node.block, node::shape::<K>(inner.len()).1));
                    for below in inner {
                        push_run(&mut gathered.runs, run.start + below.start, below.fill);
                    }
                }
                _ => push_run(&mut gathered.runs, run.start, run.fill),
            }
            if gathered.runs.len() > most {
                return None;
            }
        }
        match gathered.runs[..] {
            [Run { fill, .. }] if !node::has_nodes::<K>(depth) && !collapses(fill, depth) => None,
            _ => Some(gathered),
        }
    }

    fn edit_node(
        &mut self,
        node: Node,
        place: Place<K>,
        prefix: &Prefix<K>,
        new: Fill,
        budget: Budget,
    ) -> Result<Fill, NoRoom> {
        let before = node.runs::<K>(&self.arena, &self.lens, place.depth);
        let after = self.painted(&before, place, prefix, new, budget)?;
        if before == after {
            return Ok(Fill::node(node));
        }
        let order = node::shape::<K>(before.len()).1;
        if let [Run { fill, .. }] = after[..]
            && collapses(fill, place.depth)
        {
            self.plan.stale.push((node.block, order));
            return Ok(fill);
        }
        let same_starts = before.len() == after.len() && before.iter().zip(&after).all(|(a, b)| a.start == b.start);
        if same_starts && self.may_store(node.block) {
            let changed = (0..after.len()).filter(|&index| before[index] != after[index]);
            self.plan.stores.extend(changed.map(|index| (node.leaf::<K>(index), after[index].fill)));
            return Ok(Fill::node(node));
        }
        self.plan.stale.push((node.block, order));
        self.build(&after, place, budget)
    }

    /// The runs of a node after the painting.
    fn painted(
        &mut self,
        runs: &[Run],
        place: Place<K>,
        prefix: &Prefix<K>,
        new: Fill,
        budget: Budget,
    ) -> Result<Vec<Run>, NoRoom> {
        let bits = node::node_bits::<K>(place.depth);
        let (slots, inside) = slots(prefix, place.depth, bits);
        let mut after = Vec::with_capacity(runs.len() + 2);
        for (index, run) in runs.iter().enumerate() {
            let start = u64::from(run.start);
            let end = runs.get(index + 1).map_or(1 << bits, |next| u64::from(next.start));
            let (from, to) = (start.max(slots.start), end.min(slots.end));
            if from >= to {
                push_run(&mut after, run.start, run.fill);
                continue;
            }
            if start < from {
                push_run(&mut after, run.start, run.fill);
            }
            // A reference is a run of one slot, and around the prefix there is one slot: no block gets two owners.
            let fill = self.touch(run.fill, place.below(bits, from), inside, prefix, new, budget)?;
            push_run(&mut after, from as u32, fill);
            if to < end {
                push_run(&mut after, to as u32, run.fill);
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

    /// Frees the block that a leaf refers to, and those below it, as far as they were born in `generation`. A block
    /// that was not has no such block below it.
    fn free_born_in(&mut self, generation: u32, leaf: u32, depth: u8) {
        let (block, order, below, leaves): (_, _, _, Vec<usize>) = match node::child(leaf) {
            None => return,
            Some(Child::Array(block)) => {
                let bits = node::array_bits::<K>(depth);
                let first = block.word(0);
                (block, node::array_order(bits), depth + bits, (first..first + (1 << bits)).collect())
            }
            Some(Child::Node(node)) => {
                let count = node.count::<K>(&self.arena);
                let leaves = (0..count).map(|run| node.leaf::<K>(run)).collect();
                (node.block, node::shape::<K>(count).1, depth + node::node_bits::<K>(depth), leaves)
            }
        };
        if self.born[block.0 as usize] != generation {
            return;
        }
        for word in leaves {
            let leaf = self.arena.word(word).load(Ordering::Relaxed);
            self.free_born_in(generation, leaf, below);
        }
        self.buddy.free(block, order);
    }
}

/// What lies below the slots of an array.
struct Gathered {
    runs: Vec<Run>,
    /// The nodes that runs were taken from.
    nodes: Vec<(Block, Order)>,
}

/// Where a block is: its first address, and how many bits of it lead there.
#[derive(Clone, Copy)]
struct Place<K> {
    at: K,
    depth: u8,
}

impl<K: Key> Place<K> {
    /// Below a slot of a block here that resolves `bits`.
    fn below(self, bits: u8, slot: u64) -> Place<K> {
        Place { at: self.at.place(self.depth, bits, slot), depth: self.depth + bits }
    }
}

/// The slots of a block at `depth` that `prefix` touches, and whether these lie inside the prefix. If they do not, the
/// prefix is longer, and there is one slot around it.
fn slots<K: Key>(prefix: &Prefix<K>, depth: u8, bits: u8) -> (std::ops::Range<u64>, bool) {
    if prefix.len() <= depth {
        return (0..1 << bits, true);
    }
    let first = prefix.address().slot(depth, bits);
    match (depth + bits).checked_sub(prefix.len()) {
        Some(free) => (first..first + (1 << free), true),
        None => (first..first + 1, false),
    }
}

/// How many slots of a node at `depth` one slot of an array there has.
fn slot_width<K: Key>(depth: u8) -> u64 {
    1 << (node::node_bits::<K>(depth) - node::array_bits::<K>(depth))
}

/// Whether a block at `depth` that holds nothing but `fill` can be replaced by it. A value of a longer prefix cannot
/// stand in the slot above: the prefix would not be inside of it.
fn collapses(fill: Fill, depth: u8) -> bool {
    fill.child().is_none() && fill.len <= depth
}

/// Adds slots from `start` on to the runs of a block. Every reference is a run of its own.
fn push_run(runs: &mut Vec<Run>, start: u32, fill: Fill) {
    if !runs.last().is_some_and(|last| last.fill == fill && fill.child().is_none()) {
        runs.push(Run { start, fill });
    }
}
