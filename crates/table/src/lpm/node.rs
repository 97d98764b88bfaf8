//! The layout of blocks, and how the writer reads and builds them.
//!
//! A **leaf** is a word: a value, or, with the top bit set, a reference: the number of a block one level down. The bit
//! below the top one tells the two kinds of blocks apart. An **array** has a leaf for every slot. A **node** stores a leaf
//! per *run* of equal slots instead:
//!
//! ```text
//! starts: u64 | leaf 0 | leaf 1 | …                     up to 14 leaves in a cache line
//! ```
//!
//! Bit `s` of `starts` says that a run begins at slot `s`; the bit of slot 0, where a run always begins, stays clear, so
//! that the number of set bits up to a slot *is* the index of its leaf.
//!
//! A node with more runs would span cache lines, of which a lookup would touch two where it touches one of an array: it
//! becomes an array.

use std::sync::atomic::Ordering;

use super::arena::{Arena, Block};
use super::buddy::Order;

/// Marks a leaf that refers to a block.
pub(crate) const CHILD: u32 = 1 << 31;

/// Marks, among the leaves that refer to a block, those that refer to an array.
pub(crate) const ARRAY: u32 = 1 << 30;

/// What a leaf refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Child {
    Array(Block),
    Node(Block),
}

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

    pub(crate) fn array(block: Block) -> Fill {
        Fill { leaf: block.0 | CHILD | ARRAY, len: 0 }
    }

    pub(crate) fn node(block: Block) -> Fill {
        Fill { leaf: block.0 | CHILD, len: 0 }
    }

    pub(crate) fn child(self) -> Option<Child> {
        child(self.leaf)
    }
}

/// What a leaf refers to, if it does.
pub(crate) fn child(leaf: u32) -> Option<Child> {
    let block = Block(leaf & !(CHILD | ARRAY));
    match (leaf & CHILD != 0, leaf & ARRAY != 0) {
        (false, _) => None,
        (true, true) => Some(Child::Array(block)),
        (true, false) => Some(Child::Node(block)),
    }
}

/// A run of equal slots in a node; it ends where the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u16,
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

/// Bits that a block resolves, other than a chunk: as many as the population count of a word can tell apart.
pub(crate) const STRIDE: u8 = 6;

/// Where the leaves of a node begin, in octets.
pub(crate) const HEADER: usize = 8;

/// More runs than this do not stay a node: these fill a cache line.
pub(crate) const MAX_RUNS: usize = 14;

/// The order of a node with so many runs.
pub(crate) fn node_order(runs: usize) -> Order {
    Order::for_octets(HEADER + runs * 4)
}

/// The order of an array of `1 << bits` slots.
pub(crate) fn array_order(bits: u8) -> Order {
    Order::for_octets(4 << bits)
}

/// How many runs a node has.
pub(crate) fn run_count(arena: &Arena, node: Block) -> usize {
    1 + arena.pair(node.word(0)).load(Ordering::Relaxed).count_ones() as usize
}

/// Reads the runs of a node.
pub(crate) fn runs(arena: &Arena, lens: &Lens, node: Block) -> Vec<Run> {
    let first = node.word(HEADER);
    let mut runs = Vec::with_capacity(run_count(arena, node) + 2);
    runs.push(Run { start: 0, fill: lens.fill(arena, first) });
    let mut starts = arena.pair(node.word(0)).load(Ordering::Relaxed);
    while starts != 0 {
        runs.push(Run { start: starts.trailing_zeros() as u16, fill: lens.fill(arena, first + runs.len()) });
        starts &= starts - 1;
    }
    runs
}

/// Writes a node into a block that no reader sees yet.
pub(crate) fn write_node(arena: &Arena, lens: &mut Lens, node: Block, runs: &[Run]) {
    let first = node.word(HEADER);
    let mut starts = 0u64;
    for (index, run) in runs.iter().enumerate() {
        starts |= 1 << run.start;
        arena.word(first + index).store(run.fill.leaf, Ordering::Relaxed);
        lens.set(first + index, run.fill.len);
    }
    arena.pair(node.word(0)).store(starts & !1, Ordering::Relaxed);
}
