//! Changes of the trie by the writer, with concurrent readers.
//!
//! Insertion and removal are the same operation, **painting**. Every slot under the prefix whose value comes from a
//! prefix that is not longer gets a new fill: the route's own, or that of the next shorter route. Slots under longer
//! prefixes stay. One walk does many paintings and visits each affected block once.
//!
//! A painting is first *planned*: new blocks are built, and the words to store are noted. Without memory the plan is
//! dropped, with no effect. Else it is *carried out*: each store changes one leaf, so a lookup sees either the old or
//! the new state of its key. Removed blocks go to limbo.
//!
//! A block is changed in place only if no older table shares it; else it is copied, with the path to it.

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

/// The plan does not fit the memory.
#[derive(Debug)]
pub(crate) struct NoRoom;

/// Upper bound of the mean octets per route. A single route takes a block for each frame, or for each 6 bits of IPv4,
/// of its path: 128 octets. Dozens together make an array, of 1024 octets at most.
const PER_ROUTE: usize = 512;

/// Memory limit of a painting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Budget {
    /// The table's limit.
    Limited,
    /// No limit, and waiting for readers if needed: for removals, which must not fail.
    Whatever,
}

/// The new content of slots under a prefix, except those under a longer one.
#[derive(Clone, Copy)]
pub(crate) struct Paint<K> {
    pub(crate) prefix: Prefix<K>,
    /// The prefix's own value, or that of the next shorter prefix.
    pub(crate) fill: Fill,
}

/// Returns the same paintings if they are of family `F`.
fn of_family<K: Key, F: Key>(paints: &[Paint<K>]) -> Option<&[Paint<F>]> {
    let is_same = TypeId::of::<K>() == TypeId::of::<F>();
    // SAFETY: both are one type.
    is_same.then(|| unsafe { std::slice::from_raw_parts(paints.as_ptr().cast(), paints.len()) })
}

impl<K: Key> Paint<K> {
    /// Returns whether the painting removes the prefix, which may remove runs.
    pub(crate) fn uncovers(&self) -> bool {
        self.fill.len != self.prefix.len()
    }

    /// Returns the new content of a leaf.
    fn over(&self, old: Fill) -> Fill {
        if old.len <= self.prefix.len() { self.fill } else { old }
    }
}

#[derive(Default)]
struct Plan {
    /// Words of the arena with their new content.
    stores: Vec<(usize, Fill)>,
    /// Slots of the directory with their new content.
    directory: Vec<(usize, Fill)>,
    fresh: Vec<(Block, Order)>,
    stale: Vec<(Block, Order)>,
}

/// The writer's side of the trie: everything except the routes.
pub(crate) struct Trie<K: Key> {
    arena: Arc<Arena>,
    buddy: Buddy,
    limbo: Limbo,
    lens: Lens,
    /// For each unit where a block begins: its generation.
    born: Vec<u32>,
    table: Arc<Table<K>>,
    directory_lens: Box<[u8]>,
    limit: usize,
    /// Blocks of this generation or earlier are shared with an older table.
    shared_until: u32,
    draft: Option<Draft<K>>,
    plan: Plan,
}

/// State to undo or complete a transaction.
struct Draft<K: Key> {
    before: Arc<Table<K>>,
    directory_lens: Box<[u8]>,
    /// Blocks of the previous table that the draft does not use.
    dropped: Vec<Entry>,
}

impl<K: Key> Trie<K> {
    pub(crate) fn new(domain: &Domain, limits: Limits) -> Result<Trie<K>, Full> {
        // Removals may exceed the limit: they split runs of equal routes, copy blocks that older tables share, and
        // leave blocks that wait for readers. This is address space; the kernel allocates memory on first access.
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

    /// Returns the current table for readers, not the draft of a transaction.
    pub(crate) fn table(&self) -> &Arc<Table<K>> {
        self.draft.as_ref().map_or(&self.table, |draft| &draft.before)
    }

    /// Returns the octets that readers may access, and the octets of them that wait to be freed.
    pub(crate) fn octets(&self) -> (usize, usize) {
        (self.used(), self.limbo.octets())
    }

    fn used(&self) -> usize {
        self.buddy.used() + self.directory_lens.len() * 4
    }

    /// Returns the octets of the writer's notes on blocks.
    pub(crate) fn side_octets(&self) -> usize {
        self.lens.octets() + self.born.capacity() * 4 + self.buddy.frontier() + self.directory_lens.len()
    }

    /// Sets the fill of every slot under `prefix`, except those under a longer prefix.
    pub(crate) fn paint(&mut self, prefix: &Prefix<K>, new: Fill, budget: Budget) -> Result<(), NoRoom> {
        self.paint_all(&[Paint { prefix: *prefix, fill: new }], budget)
    }

    /// Does all paintings or none. They are in the order of prefixes; of equal prefixes the last counts.
    ///
    /// Uses non-generic functions of this crate: every calling crate would compile large generic functions again.
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
        // The default route fills all slots without another route: one word states that.
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

    /// Repaints a slot and the blocks below it, by the paintings that cover the slot and those inside it.
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

    fn build(&mut self, runs: &[Run], place: Place<K>, budget: Budget) -> Result<Fill, NoRoom> {
        let depth = place.depth;
        if node::has_nodes::<K>(depth) && runs.len() <= node::max_runs::<K>() {
            let block = self.allocate(node::shape::<K>(runs.len()).1, budget)?;
            let node = Node::new::<K>(block, runs.len());
            node.write(&self.arena, &mut self.lens, depth, place.at, runs);
            return Ok(Fill::node(node));
        }
        // A slot of the array is as wide as a slot of the runs, or wider; then a block may lie below it.
        let (bits, width) = (node::array_bits::<K>(depth), slot_width::<K>(depth));
        let block = self.allocate(node::array_order(bits), budget)?;
        let mut part = Vec::new();
        let mut rest = runs;
        for slot in 0..1u64 << bits {
            let (first, end) = (slot * width, (slot + 1) * width);
            // The run at the start of the slot, and the runs that begin in the slot.
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
        // Reading all slots pays only if a removal may have removed runs. The blocks below must be final, without
        // outstanding stores to nodes.
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

    /// Returns the runs of an array and the nodes below it after the changes (in the order of slots), if they would fit
    /// one node with a margin to the size at which it becomes an array again.
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
            // This check excludes most arrays before the blocks below them are read.
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
                // A block of the same frame lies below a wider slot; its runs have the same width.
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

    /// Returns the runs of a node after the paintings.
    fn painted(
        &mut self,
        runs: &[Run],
        place: Place<K>,
        paints: &[Paint<K>],
        budget: Budget,
    ) -> Result<Vec<Run>, NoRoom> {
        let bits = node::node_bits::<K>(place.depth);
        let mut after = Vec::with_capacity(runs.len() + 2 * paints.len());
        // The remaining runs and their start.
        let (mut rest, mut at) = (runs, 0);
        let end = |rest: &[Run]| rest.get(1).map_or(1 << bits, |next| u64::from(next.start));
        sweep(paints, place.depth, bits, |slots, covers, deep| {
            while at < slots.end {
                let fill = if at < slots.start {
                    rest[0].fill
                } else {
                    // A reference, or a slot with paintings inside, is a run of one slot, so that no block has two
                    // owners.
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
        // Release: a reader that loads a reference sees the content of the block.
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
                // No reader has seen this block.
                Some(_) if born == died => self.buddy.free(block, order),
                Some(draft) => draft.dropped.push(entry),
            }
        }
    }

    /// Frees blocks that no reader can access.
    pub(crate) fn collect(&mut self) {
        self.limbo.reclaim_all(&mut self.buddy);
    }

    /// Begins a draft that shares the blocks of the current table, which stays unchanged.
    ///
    /// # Panics
    /// If an earlier transaction was leaked, neither committed nor rolled back.
    pub(crate) fn begin(&mut self) {
        assert!(self.draft.is_none(), "a transaction was leaked");
        let draft = Arc::new(self.table.successor());
        let before = std::mem::replace(&mut self.table, draft);
        self.shared_until = before.generation();
        self.draft = Some(Draft { before, directory_lens: self.directory_lens.clone(), dropped: Vec::new() });
    }

    pub(crate) fn commit(&mut self) {
        let draft = self.draft.take().expect("a transaction has begun");
        self.limbo.add_snapshot(draft.before.generation(), draft.before.alive().clone());
        for entry in draft.dropped {
            self.limbo.push(entry);
        }
    }

    pub(crate) fn roll_back(&mut self) {
        let draft = self.draft.take().expect("a transaction has begun");
        let abandoned = std::mem::replace(&mut self.table, draft.before);
        self.directory_lens = draft.directory_lens;
        for slot in abandoned.directory() {
            self.free_born_in(abandoned.generation(), slot.load(Ordering::Relaxed), K::DIRECTORY);
        }
    }

    /// Frees the block of a leaf and the blocks below it, if they are of `generation`. A block of another generation
    /// has none of it below.
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

/// The runs below the slots of an array.
struct Gathered {
    runs: Vec<Run>,
    nodes: Vec<(Block, Order)>,
}

/// Position of a block: its first address, and the number of bits that lead there.
#[derive(Clone, Copy)]
struct Place<K> {
    at: K,
    depth: u8,
}

impl<K: Key> Place<K> {
    /// Returns the position below a slot of this block, which resolves `bits`.
    fn below(self, bits: u8, slot: u64) -> Place<K> {
        Place { at: self.at.place(self.depth, bits, slot), depth: self.depth + bits }
    }
}

/// Returns the slots of a block at `depth` that a prefix covers, or the slot that contains the prefix.
fn slots<K: Key>(prefix: &Prefix<K>, depth: u8, bits: u8) -> Range<u64> {
    if prefix.len() <= depth {
        return 0..1 << bits;
    }
    let first = prefix.address().slot(depth, bits);
    first..first + (1 << (depth + bits).saturating_sub(prefix.len()))
}

/// Visits the slots of a block at `depth` that paintings (in the order of prefixes) concern. Calls `segment` in the
/// order of slots with a range of slots for which the paintings are the same, the paintings that cover the range, and
/// the paintings inside its only slot.
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
    // Paintings that cover the slot, from the widest on, each with its end.
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
                // Paintings that cover the slot come before these.
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

/// Returns how many slots of a node at `depth` a slot of an array there has.
fn slot_width<K: Key>(depth: u8) -> u64 {
    1 << (node::node_bits::<K>(depth) - node::array_bits::<K>(depth))
}

/// Returns whether a block at `depth` that holds only `fill` is replaced by it. If the value comes from longer prefixes
/// that fill the block together, the block stays: the removal of one would need it again.
fn collapses(fill: Fill, depth: u8) -> bool {
    fill.child().is_none() && fill.len <= depth
}

/// Appends the slots from `start` on to the runs of a block. Every reference is a run of its own.
fn push_run(runs: &mut Vec<Run>, start: u32, fill: Fill) {
    if !runs.last().is_some_and(|last| last.fill == fill && fill.child().is_none()) {
        runs.push(Run { start, fill });
    }
}
