//! The layout of blocks, and how the writer reads and builds them.
//!
//! A **leaf** is a word: a value, or, with the top bit set, the number of a block one level down. A **chunk** is an array
//! of leaves, one per slot. A **node** stores a leaf per *run* of equal slots instead:
//!
//! ```text
//! stride 6:   starts: u64 | leaf 0 | leaf 1 | …                     up to 14 leaves in a cache line
//! stride 8:   starts: [u64; 4] | before: [u8; 4] | leaf 0 | …       up to 7
//! ```
//!
//! Bit `s` of `starts` says that a run begins at slot `s`; the bit of slot 0, where a run always begins, stays clear, so
//! that the number of set bits up to a slot *is* the index of its leaf. `before[w]` counts the bits of the words below `w`,
//! which spares the lookup three of four population counts.

use std::sync::atomic::Ordering;

use super::arena::{Arena, Block};
use super::buddy::Order;
use super::key::Key;

/// Marks a leaf that refers to a block.
pub(crate) const CHILD: u32 = 1 << 31;

/// What a slot holds, as the writer sees it.
///
/// The length of the prefix that a value comes from tells which routes may overwrite it. Readers have no use for it, so
/// it is kept outside the blocks. A reference has length zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) leaf: u32,
    pub(crate) len: u8,
}

impl Fill {
    /// No route, other than the default.
    pub(crate) const NOTHING: Fill = Fill { leaf: 0, len: 0 };

    pub(crate) fn block(block: Block) -> Fill {
        Fill { leaf: block.0 | CHILD, len: 0 }
    }

    pub(crate) fn child(self) -> Option<Block> {
        child(self.leaf)
    }
}

/// The block that a leaf refers to.
pub(crate) fn child(leaf: u32) -> Option<Block> {
    (leaf & CHILD != 0).then_some(Block(leaf & !CHILD))
}

/// A run of equal slots in a node; it ends where the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u8,
    pub(crate) fill: Fill,
}

/// The prefix length per leaf, for all words of the arena.
pub(crate) struct Lens(Vec<u8>);

impl Lens {
    pub(crate) fn new() -> Lens {
        Lens(Vec::new())
    }

    /// Makes room for an arena of so many words.
    pub(crate) fn grow(&mut self, words: usize) {
        if self.0.len() < words {
            self.0.resize(words, 0);
        }
    }

    pub(crate) fn octets(&self) -> usize {
        self.0.capacity()
    }

    pub(crate) fn set(&mut self, word: usize, len: u8) {
        self.0[word] = len;
    }

    /// What the word holds.
    pub(crate) fn fill(&self, arena: &Arena, word: usize) -> Fill {
        Fill { leaf: arena.word(word).load(Ordering::Relaxed), len: self.0[word] }
    }
}

/// Words of `starts` in a node of this family.
pub(crate) const fn start_words<K: Key>() -> usize {
    1 << (K::STRIDE - 6)
}

/// Where the leaves of a node begin.
pub(crate) const fn header<K: Key>() -> usize {
    let words = start_words::<K>();
    words * 8 + if words > 1 { 4 } else { 0 }
}

/// The order of a node with so many runs.
pub(crate) fn node_order<K: Key>(runs: usize) -> Order {
    Order::for_octets(header::<K>() + runs * 4)
}

/// The order of a chunk.
pub(crate) fn chunk_order<K: Key>() -> Order {
    Order::for_octets(4 << K::CHUNK)
}

/// How many runs a node has.
pub(crate) fn run_count<K: Key>(arena: &Arena, node: Block) -> usize {
    let bits = |w| arena.pair(node.word(8 * w)).load(Ordering::Relaxed).count_ones() as usize;
    1 + (0..start_words::<K>()).map(bits).sum::<usize>()
}

/// Reads the runs of a node.
pub(crate) fn runs<K: Key>(arena: &Arena, lens: &Lens, node: Block) -> Vec<Run> {
    let first = node.word(header::<K>());
    let mut runs = Vec::with_capacity(run_count::<K>(arena, node) + 2);
    runs.push(Run { start: 0, fill: lens.fill(arena, first) });
    for w in 0..start_words::<K>() {
        let mut bits = arena.pair(node.word(8 * w)).load(Ordering::Relaxed);
        while bits != 0 {
            let start = (64 * w) as u8 + bits.trailing_zeros() as u8;
            bits &= bits - 1;
            runs.push(Run { start, fill: lens.fill(arena, first + runs.len()) });
        }
    }
    runs
}

/// Writes a node into a block that no reader sees yet.
pub(crate) fn write_node<K: Key>(arena: &Arena, lens: &mut Lens, node: Block, runs: &[Run]) {
    let mut starts = [0u64; 4];
    let first = node.word(header::<K>());
    for (index, run) in runs.iter().enumerate() {
        if index > 0 {
            starts[usize::from(run.start / 64)] |= 1 << (run.start % 64);
        }
        arena.word(first + index).store(run.fill.leaf, Ordering::Relaxed);
        lens.set(first + index, run.fill.len);
    }
    let mut before = [0u8; 4];
    let mut count = 0;
    for w in 0..start_words::<K>() {
        arena.pair(node.word(8 * w)).store(starts[w], Ordering::Relaxed);
        before[w] = count;
        // Slot 0 has no bit, so that at most 255 are set.
        count += starts[w].count_ones() as u8;
    }
    if start_words::<K>() > 1 {
        arena.word(node.word(32)).store(u32::from_ne_bytes(before), Ordering::Relaxed);
    }
}
