//! The layout of blocks, and their reading and building by the writer.
//!
//! A **leaf** is a word: a value, or, with the top bit set, a reference with the number of a block. The next two bits
//! give the kind of the block. An **array** has a leaf for every slot. A **node** has a leaf per *run* of equal slots,
//! and a search structure for the run of a key, which differs by family.
//!
//! An IPv4 node **marks** the slots at which runs begin, except slot 0, in a word of 64 bits. The number of set bits up
//! to a slot is the index of its leaf:
//!
//! ```text
//! starts: u64 | leaf 0 | leaf 1 | …                        up to 14 runs in a cache line
//! ```
//!
//! An IPv6 node lists the **end** of each run, its last slot. The number of ends below a slot is the index of its leaf.
//! From the last run on, all ends are [`u32::MAX`]. By the number of runs it is a
//!
//! ```text
//! short   4 ends | 4 leaves                                up to 4 runs in half a cache line
//! line    8 ends | 8 leaves                                up to 8 runs in a cache line
//! tree    16 ends | line 0 | line 1 | … line 14            up to 120 runs; a lookup touches two cache lines
//! ```
//!
//! where the ends of a tree are those of its lines, and every line but the last has eight runs. The slots of an IPv6
//! node are the bits up to the end of a *frame* of 32 bits. Ends count from the start of the frame, wherever in it the
//! node begins, so one word of a key is compared with all of them.
//!
//! A block with more runs than the largest node is an array.

use std::sync::atomic::Ordering;

use super::arena::{Arena, Block, UNIT};
use super::buddy::Order;
use super::key::Key;

/// Marks a leaf that refers to a block.
pub(crate) const CHILD: u32 = 1 << 31;

/// Kind bits of a leaf: a value, or a reference to a kind of block.
pub(crate) const KIND: u32 = 0b111 << 29;

/// Kind of a reference to an array: no other leaf is as large.
pub(crate) const ARRAY: u32 = CHILD | 0b11 << 29;

/// Kind of a reference to an IPv4 node.
pub(crate) const MARKS: u32 = CHILD;

/// Kind of a reference to an IPv6 node of up to 4 runs.
pub(crate) const SHORT: u32 = CHILD;

/// Kind of a reference to an IPv6 node of up to 8 runs.
pub(crate) const LINE: u32 = CHILD | 0b01 << 29;

/// Kind of a reference to an IPv6 node of more runs.
pub(crate) const TREE: u32 = CHILD | 0b10 << 29;

/// Units that a reference can address.
pub(crate) const UNITS: usize = 1 << 29;

/// Runs of a [`SHORT`] node, and half its words.
pub(crate) const SHORT_RUNS: usize = 4;

/// Runs of a [`LINE`], and half its words.
pub(crate) const LINE_RUNS: usize = 8;

/// Words of a line, which is a cache line.
pub(crate) const LINE_WORDS: usize = 16;

pub(crate) const LINE_UNITS: u32 = (LINE_WORDS * 4 / UNIT) as u32;

/// Lines of the largest [`TREE`]: with its ends, a power of two.
const TREE_LINES: usize = 15;

/// Offset of the leaves of an IPv4 node, in octets.
pub(crate) const HEADER: usize = 8;

pub(crate) const fn max_runs<K: Key>() -> usize {
    if K::FRAME == 0 { 14 } else { TREE_LINES * LINE_RUNS }
}

/// Returns how many bits an array at `depth` resolves.
pub(crate) fn array_bits<K: Key>(depth: u8) -> u8 {
    if depth == K::DIRECTORY { K::CHUNK } else { K::STRIDE }
}

/// Returns how many bits a node at `depth` resolves.
pub(crate) fn node_bits<K: Key>(depth: u8) -> u8 {
    if K::FRAME == 0 { array_bits::<K>(depth) } else { K::FRAME - (depth - K::DIRECTORY) % K::FRAME }
}

/// Returns whether nodes exist at `depth`. Directly below the directory, IPv4 has arrays only.
pub(crate) fn has_nodes<K: Key>(depth: u8) -> bool {
    K::FRAME != 0 || depth > K::DIRECTORY
}

/// The block that a leaf refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Child {
    Array(Block),
    Node(Node),
}

/// A node with its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) block: Block,
    kind: u32,
}

/// The writer's view of a slot.
///
/// The prefix length of a value decides which routes may overwrite it. Readers do not need it, so it is kept outside
/// the blocks. The length of a reference is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) leaf: u32,
    pub(crate) len: u8,
}

impl Fill {
    /// No route except the default route.
    pub(crate) const NOTHING: Fill = Fill { leaf: 0, len: 0 };

    pub(crate) fn array(block: Block) -> Fill {
        Fill { leaf: block.0 | ARRAY, len: 0 }
    }

    pub(crate) fn node(node: Node) -> Fill {
        Fill { leaf: node.block.0 | node.kind, len: 0 }
    }

    pub(crate) fn child(self) -> Option<Child> {
        child(self.leaf)
    }
}

/// Returns the block that a leaf refers to; `None` for a value.
pub(crate) fn child(leaf: u32) -> Option<Child> {
    let (kind, block) = (leaf & KIND, Block(leaf & !KIND));
    match kind {
        ARRAY => Some(Child::Array(block)),
        kind if kind & CHILD != 0 => Some(Child::Node(Node { block, kind })),
        _ => None,
    }
}

/// A run of equal slots in a node, up to the start of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First slot, from the start of the node.
    pub(crate) start: u32,
    pub(crate) fill: Fill,
}

/// The prefix length of each leaf, for all words of the arena.
pub(crate) struct Lens(Vec<u8>);

impl Lens {
    pub(crate) fn new() -> Lens {
        Lens(Vec::new())
    }

    /// Grows to an arena of `words` words.
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

    pub(crate) fn fill(&self, arena: &Arena, word: usize) -> Fill {
        Fill { leaf: arena.word(word).load(Ordering::Relaxed), len: self.0[word] }
    }
}

/// Returns kind and block order of a node with this many runs.
pub(crate) fn shape<K: Key>(runs: usize) -> (u32, Order) {
    debug_assert!(runs <= max_runs::<K>());
    let (kind, words) = if K::FRAME == 0 {
        (MARKS, HEADER / 4 + runs)
    } else if runs <= SHORT_RUNS {
        (SHORT, 2 * SHORT_RUNS)
    } else if runs <= LINE_RUNS {
        (LINE, LINE_WORDS)
    } else {
        (TREE, (1 + runs.div_ceil(LINE_RUNS)) * LINE_WORDS)
    };
    (kind, Order::for_octets(words * 4))
}

/// Returns the order of an array of `1 << bits` slots.
pub(crate) fn array_order(bits: u8) -> Order {
    Order::for_octets(4 << bits)
}

impl Node {
    /// Returns the node with this many runs in `block`.
    pub(crate) fn new<K: Key>(block: Block, runs: usize) -> Node {
        Node { block, kind: shape::<K>(runs).0 }
    }

    /// Returns the word of the leaf of a run.
    pub(crate) fn leaf<K: Key>(self, run: usize) -> usize {
        if K::FRAME == 0 { self.block.word(HEADER) + run } else { self.end(run) + self.width() }
    }

    /// Returns the word of the end of a run in an IPv6 node: the width of the node or line before that of its leaf.
    fn end(self, run: usize) -> usize {
        let skipped = if self.kind == TREE { LINE_WORDS } else { 0 };
        self.block.word(0) + skipped + run / LINE_RUNS * LINE_WORDS + run % LINE_RUNS
    }

    /// Returns the number of adjacent ends.
    fn width(self) -> usize {
        if self.kind == SHORT { SHORT_RUNS } else { LINE_RUNS }
    }

    pub(crate) fn count<K: Key>(self, arena: &Arena) -> usize {
        if K::FRAME == 0 {
            return 1 + arena.pair(self.block.word(0)).load(Ordering::Relaxed).count_ones() as usize;
        }
        let end = |run: &usize| arena.word(self.end(*run)).load(Ordering::Relaxed);
        // The last run has the first end of this value.
        1 + (0..).take_while(|run| end(run) != u32::MAX).count()
    }

    /// Reads the runs of a node at `depth`.
    pub(crate) fn runs<K: Key>(self, arena: &Arena, lens: &Lens, depth: u8) -> Vec<Run> {
        if K::FRAME == 0 {
            let first = self.block.word(HEADER);
            let mut runs = vec![Run { start: 0, fill: lens.fill(arena, first) }];
            let mut starts = arena.pair(self.block.word(0)).load(Ordering::Relaxed);
            while starts != 0 {
                runs.push(Run { start: starts.trailing_zeros(), fill: lens.fill(arena, first + runs.len()) });
                starts &= starts - 1;
            }
            return runs;
        }
        let inside = u32::MAX >> (32 - node_bits::<K>(depth));
        let width = self.width();
        let mut runs = Vec::with_capacity(if self.kind == TREE { TREE_LINES * LINE_RUNS / 2 } else { width });
        let mut start = 0;
        for run in 0.. {
            let word = self.end(run);
            runs.push(Run { start, fill: lens.fill(arena, word + width) });
            match arena.word(word).load(Ordering::Relaxed) {
                u32::MAX => break,
                end => start = (end & inside) + 1,
            }
        }
        runs
    }

    /// Writes the node into its block, which no reader sees yet, at `depth` with first address `at`.
    pub(crate) fn write<K: Key>(self, arena: &Arena, lens: &mut Lens, depth: u8, at: K, runs: &[Run]) {
        for (index, run) in runs.iter().enumerate() {
            let word = self.leaf::<K>(index);
            arena.word(word).store(run.fill.leaf, Ordering::Relaxed);
            lens.set(word, run.fill.len);
        }
        if K::FRAME == 0 {
            let starts = runs.iter().fold(0u64, |starts, run| starts | 1 << run.start);
            arena.pair(self.block.word(0)).store(starts & !1, Ordering::Relaxed);
            return;
        }
        let base = at.slot(depth + node_bits::<K>(depth) - K::FRAME, K::FRAME) as u32;
        let end = |run: usize| runs.get(run + 1).map_or(u32::MAX, |next| base | (next.start - 1));
        let set = |word: usize, end: u32| arena.word(word).store(end, Ordering::Relaxed);
        (0..runs.len().next_multiple_of(self.width())).for_each(|run| set(self.end(run), end(run)));
        if self.kind == TREE {
            (0..LINE_WORDS).for_each(|line| set(self.block.word(0) + line, end(line * LINE_RUNS + LINE_RUNS - 1)));
        }
    }
}
