//! How the writer changes the trie under its readers.
//!
//! Inserting and removing a route are the same operation, **painting**: every slot under the prefix whose value comes
//! from a prefix that is not longer takes a new fill: the route's own, or that of the next shorter route. What lies
//! under longer prefixes stays. Many paintings are done together, in one walk: each block that they concern is looked at
//! once.
//!
//! A painting is first *planned*: new blocks are built aside, and the words to be stored are noted. If memory runs out,
//! the plan is dropped, and nothing has happened. Otherwise it is *carried out*: each noted store swings one leaf, so
//! that any single lookup sees either the old or the new state of its key. Blocks that dropped out go to limbo.
//!
//! A block may be stored into only if no older table shares it; otherwise it is copied, and so is the path down to it.

use std::any::{Any, TypeId};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_base::reclaim::Domain;

use super::arena::{Arena, Block, UNIT};
use super::buddy::{Buddy, Order};
use super::key::{Key, Prefix};
use super::limbo::{Entry, Limbo};
use super::node::{self, Child, Fill, Lens, Node, Run};
use super::route::{Full, Limits};
use super::table::Table;

/// There is no memory left for the plan.
#[derive(Debug)]
pub(crate) struct NoRoom;

/// More octets than routes take on average, however they lie. A route that is alone takes a block for each frame, or for
/// each 6 bits of IPv4, that its path goes through: 128 octets. Dozens together make an array, of 1024 at most.
const PER_ROUTE: usize = 512;

/// How much memory a painting may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Budget {
    /// Up to the table's limit.
    Limited,
    /// Past the limit if need be, and waiting for readers if need be: for removals, which must not fail.
    Whatever,
}

/// What the slots under a prefix become, unless they are under a longer one.
#[derive(Clone, Copy)]
pub(crate) struct Paint<K> {
    pub(crate) prefix: Prefix<K>,
    /// The prefix's own value, or that of the next shorter one.
    pub(crate) fill: Fill,
}

/// The same paintings, if they are of the family.
fn of_family<K: Key, F: Key>(paints: &[Paint<K>]) -> Option<&[Paint<F>]> {
    let is_same = TypeId::of::<K>() == TypeId::of::<F>();
    // SAFETY: both are one type.
    is_same.then(|| unsafe { std::slice::from_raw_parts(paints.as_ptr().cast(), paints.len()) })
}

impl<K: Key> Paint<K> {
    /// The prefix goes, and with it perhaps runs.
    pub(crate) fn uncovers(&self) -> bool {
        self.fill.len != self.prefix.len()
    }

    /// What it makes of a leaf.
    fn over(&self, old: Fill) -> Fill {
        if old.len <= self.prefix.len() { self.fill } else { old }
    }
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
    /// An empty trie.
    pub(crate) fn new(domain: &Domain, limits: Limits) -> Result<Trie<K>, Full> {
        // Removals may go past the limit: they part runs of routes that were alike, and for a while there are copies of
        // what older tables share, and blocks that wait for readers. This is address space: memory is taken when it is
        // touched.
        let routes = limits.max_routes.saturating_mul(PER_ROUTE);
        let reserve = limits.max_bytes.max(routes).saturating_mul(4).saturating_add(1 << 20).min(node::UNITS * UNIT);
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
            limit: limits.max_bytes,
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
        (self.used(), self.limbo.octets())
    }

    fn used(&self) -> usize {
        self.buddy.used() + self.directory_lens.len() * 4
    }

    /// Octets of the writer's notes beside the blocks.
    pub(crate) fn side_octets(&self) -> usize {
        self.lens.octets() + self.born.capacity() * 4 + self.buddy.frontier() + self.directory_lens.len()
    }

    /// Gives every slot under `prefix` that is not under a longer one the fill `new`.
    pub(crate) fn paint(&mut self, prefix: &Prefix<K>, new: Fill, budget: Budget) -> Result<(), NoRoom> {
        self.paint_all(&[Paint { prefix: *prefix, fill: new }], budget)
    }

    /// Does many paintings, all or none. They are in the order of prefixes; of equal ones the last counts.
    ///
    /// That is done by functions of this crate: generic ones are compiled again by every crate that calls them, and these are large.
    pub(crate) fn paint_all(&mut self, paints: &[Paint<K>], budget: Budget) -> Result<(), NoRoom> {
        #[inline(never)]
        fn ipv4(trie: &mut Trie<u32>, paints: &[Paint<u32>], budget: Budget) -> Result<(), NoRoom> {
            trie.paint_each(paints, budget)
        }
        #[inline(never)]
        fn ipv6(trie: &mut Trie<u128>, paints: &[Paint<u128>], budget: Budget) -> Result<(), NoRoom> {
            trie.paint_each(paints, budget)
        }
        let trie: &mut dyn Any = self;
        if let (Some(trie), Some(paints)) = (trie.downcast_mut(), of_family(paints)) {
            return ipv4(trie, paints, budget);
        }
        match (trie.downcast_mut(), of_family(paints)) {
            (Some(trie), Some(paints)) => ipv6(trie, paints, budget),
            _ => unreachable!("there are two families"),
        }
    }

    fn paint_each(&mut self, paints: &[Paint<K>], budget: Budget) -> Result<(), NoRoom> {
        debug_assert!(paints.is_sorted_by_key(|paint| paint.prefix));
        // The slots of the default route would be all that nothing else fills: one word says the same.
        let (defaults, paints) = paints.split_at(paints.partition_point(|paint| paint.prefix.len() == 0));
        if !paints.is_empty() {
            self.limbo.reclaim(&mut self.buddy);
            if self.draft.is_none() {
                self.shared_until = self.limbo.youngest_snapshot();
            }
            let planned = self.plan_directory(paints, budget);
            match planned {
                Ok(()) => self.carry_out(),
                Err(NoRoom) => self.drop_plan(),
            }
            self.arena.set_used(self.buddy.used());
            planned?;
        }
        if let Some(default) = defaults.last() {
            self.table.set_default(default.fill.leaf);
        }
        Ok(())
    }

    fn plan_directory(&mut self, paints: &[Paint<K>], budget: Budget) -> Result<(), NoRoom> {
        sweep(paints, 0, K::DIRECTORY, |slots, covers, deep| {
            for slot in slots {
                let index = slot as usize;
                let leaf = self.table.directory()[index].load(Ordering::Relaxed);
                let old = Fill { leaf, len: self.directory_lens[index] };
                let place = Place { at: K::ZERO.place(0, K::DIRECTORY, slot), depth: K::DIRECTORY };
                let fill = self.repaint(old, place, covers, deep, budget)?;
                if fill != old {
                    self.plan.directory.push((index, fill));
                }
            }
            Ok(())
        })
    }

    /// What becomes of a slot, and what lies below it, by what covers the slot and by what lies in it.
    fn repaint(
        &mut self,
        old: Fill,
        below: Place<K>,
        covers: &[Paint<K>],
        deep: &[Paint<K>],
        budget: Budget,
    ) -> Result<Fill, NoRoom> {
        let Some(child) = old.child() else {
            let fill = covers.iter().fold(old, |fill, paint| paint.over(fill));
            if deep.is_empty() {
                return Ok(fill);
            }
            let runs = self.painted(&[Run { start: 0, fill }], below, deep, budget)?;
            return self.build(&runs, below, budget);
        };
        let both;
        let paints = match (covers, deep) {
            (_, []) => covers,
            ([], _) => deep,
            _ => {
                both = [covers, deep].concat();
                &both
            }
        };
        match child {
            Child::Array(block) => self.edit_array(block, below, paints, budget),
            Child::Node(node) => self.edit_node(node, below, paints, budget),
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
        paints: &[Paint<K>],
        budget: Budget,
    ) -> Result<Fill, NoRoom> {
        let depth = place.depth;
        let bits = node::array_bits::<K>(depth);
        let first = block.word(0);
        let mut changes = Vec::new();
        let stores = self.plan.stores.len();
        sweep(paints, depth, bits, |slots, covers, deep| {
            for slot in slots {
                let old = self.lens.fill(&self.arena, first + slot as usize);
                let fill = self.repaint(old, place.below(bits, slot), covers, deep, budget)?;
                if fill != old {
                    changes.push((slot as usize, fill));
                }
            }
            Ok(())
        })?;
        if changes.is_empty() {
            return Ok(Fill::array(block));
        }
        // Reading all slots is only worth it if runs may have gone: if something was removed. And what lies below must
        // be as it will be, with no stores to nodes outstanding.
        if paints.iter().any(Paint::uncovers)
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

    fn edit_node(&mut self, node: Node, place: Place<K>, paints: &[Paint<K>], budget: Budget) -> Result<Fill, NoRoom> {
        let before = node.runs::<K>(&self.arena, &self.lens, place.depth);
        let after = self.painted(&before, place, paints, budget)?;
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

    /// The runs of a node after the paintings.
    fn painted(
        &mut self,
        runs: &[Run],
        place: Place<K>,
        paints: &[Paint<K>],
        budget: Budget,
    ) -> Result<Vec<Run>, NoRoom> {
        let bits = node::node_bits::<K>(place.depth);
        let mut after = Vec::with_capacity(runs.len() + 2 * paints.len());
        // What is left of the runs, and where that begins.
        let (mut rest, mut at) = (runs, 0);
        let end = |rest: &[Run]| rest.get(1).map_or(1 << bits, |next| u64::from(next.start));
        sweep(paints, place.depth, bits, |slots, covers, deep| {
            while at < slots.end {
                let fill = if at < slots.start {
                    rest[0].fill
                } else {
                    // A reference is a run of one slot, and so is what something lies in: no block gets two owners.
                    self.repaint(rest[0].fill, place.below(bits, at), covers, deep, budget)?
                };
                push_run(&mut after, at as u32, fill);
                let until = if at < slots.start { slots.start } else { slots.end };
                at = until.min(end(rest));
                if at == end(rest) {
                    rest = &rest[1..];
                }
            }
            Ok(())
        })?;
        while let [run, ..] = rest {
            push_run(&mut after, at as u32, run.fill);
            at = end(rest);
            rest = &rest[1..];
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
        if budget == Budget::Limited && self.used() + order.octets() > self.limit {
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

/// The slots of a block at `depth` that a prefix has, or that has the prefix.
fn slots<K: Key>(prefix: &Prefix<K>, depth: u8, bits: u8) -> Range<u64> {
    if prefix.len() <= depth {
        return 0..1 << bits;
    }
    let first = prefix.address().slot(depth, bits);
    first..first + (1 << (depth + bits).saturating_sub(prefix.len()))
}

/// Goes through the slots of a block at `depth` that paintings (in the order of prefixes) concern, in their order: calls
/// `segment` with slots for which they are the same, with those that cover the slots, and with those that lie in the one
/// slot.
fn sweep<K: Key>(
    paints: &[Paint<K>],
    depth: u8,
    bits: u8,
    mut segment: impl FnMut(Range<u64>, &[Paint<K>], &[Paint<K>]) -> Result<(), NoRoom>,
) -> Result<(), NoRoom> {
    let covers_slots = |paint: &Paint<K>| paint.prefix.len() <= depth + bits;
    if let [paint] = paints {
        let (covers, deep) = if covers_slots(paint) { (paints, &[][..]) } else { (&[][..], paints) };
        return segment(slots(&paint.prefix, depth, bits), covers, deep);
    }
    // Those that cover the slot, from the widest on, and where each ends.
    let (mut covers, mut ends) = (Vec::new(), Vec::new());
    let (mut rest, mut at) = (paints, 0);
    loop {
        while ends.last().is_some_and(|&end| end <= at) {
            ends.pop();
            covers.pop();
        }
        let next = rest.first().map(|paint| (paint, slots(&paint.prefix, depth, bits)));
        match (next, ends.last()) {
            (Some((paint, slots)), _) if slots.start == at && covers_slots(paint) => {
                covers.push(*paint);
                ends.push(slots.end);
                rest = &rest[1..];
            }
            (Some((_, slots)), _) if slots.start == at => {
                // What covers the slot has come before these.
                let inside = |paint: &&Paint<K>| paint.prefix.address().slot(depth, bits) == slots.start;
                let (deep, others) = rest.split_at(rest.iter().take_while(inside).count());
                segment(slots.clone(), &covers, deep)?;
                (rest, at) = (others, slots.end);
            }
            (next, Some(&end)) => {
                let until = next.map_or(end, |(_, slots)| slots.start.min(end));
                segment(at..until, &covers, &[])?;
                at = until;
            }
            (Some((_, slots)), None) => at = slots.start,
            (None, None) => return Ok(()),
        }
    }
}

/// How many slots of a node at `depth` one slot of an array there has.
fn slot_width<K: Key>(depth: u8) -> u64 {
    1 << (node::node_bits::<K>(depth) - node::array_bits::<K>(depth))
}

/// Whether a block at `depth` that holds nothing but `fill` is replaced by it. If the value comes from longer prefixes,
/// which together fill the block, it stays: the first of them that goes would need it again.
fn collapses(fill: Fill, depth: u8) -> bool {
    fill.child().is_none() && fill.len <= depth
}

/// Adds slots from `start` on to the runs of a block. Every reference is a run of its own.
fn push_run(runs: &mut Vec<Run>, start: u32, fill: Fill) {
    if !runs.last().is_some_and(|last| last.fill == fill && fill.child().is_none()) {
        runs.push(Run { start, fill });
    }
}
