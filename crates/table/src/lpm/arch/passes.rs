//! The lookup in passes, one level of the trie at a time.
//!
//! One lookup is a chain of dependent loads, and a CPU that follows chains one after the other waits for each. A pass
//! takes *all* keys of a vector down by one level: within a pass nothing depends on anything, so the CPU overlaps as many
//! loads as it has room for. Between passes, keys that have arrived at a value are sorted out, and those at an array are
//! told from those at a node, without branches: which it is for a key is what no predictor can know.

use std::hint::select_unpredictable;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::key::Key;
use super::super::node::{CHILD, HEADER, STRIDE};
use super::super::table::View;
use super::super::writer::NO_ROUTE;

/// Keys per pass: what stays in the nearest cache with room to spare.
pub(super) const LANES: usize = 256;

/// Sorting works in groups of this size, and may write as many words past the last one that counts.
pub(super) const GROUP: usize = 16;

/// A word per key.
type Lanes = MaybeUninit<[u32; LANES + GROUP]>;

/// Lookups that go on: what each stands at, and which key it is. How many there are is kept outside, so that nothing here
/// needs to be initialised.
pub(super) struct List {
    leaves: Lanes,
    indices: Lanes,
}

impl List {
    #[inline(always)]
    pub(super) fn leaves(&mut self) -> *mut u32 {
        self.leaves.as_mut_ptr().cast()
    }

    #[inline(always)]
    pub(super) fn indices(&mut self) -> *mut u32 {
        self.indices.as_mut_ptr().cast()
    }
}

/// The lookups that stand at one level: those at arrays, and those at nodes.
pub(super) struct Level {
    pub(super) arrays: List,
    pub(super) nodes: List,
}

impl Level {
    #[inline(always)]
    fn new() -> Level {
        let list = || List { leaves: MaybeUninit::uninit(), indices: MaybeUninit::uninit() };
        Level { arrays: list(), nodes: list() }
    }
}

/// How many lookups the lists of a level have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) arrays: usize,
    pub(super) nodes: usize,
}

/// How lookups that go on are brought together.
pub(super) trait Sort {
    /// Of `count` leaves, adds those that refer to arrays to one list of a level and those that refer to nodes to the
    /// other, with the indices that stand beside them.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; both pointers are readable for `count` words; the lists have
    /// room for as many and a group.
    unsafe fn sort(leaves: *const u32, indices: *const u32, count: usize, to: &mut Level, counts: Counts) -> Counts;
}

/// # Safety
/// As for [`lookup`](super::lookup), and the CPU has what `S` is named for.
#[inline(always)]
pub(super) unsafe fn lookup<K: Key, S: Sort>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    let mut first = 0;
    for out in out.chunks_mut(LANES) {
        // SAFETY: the caller's promise.
        unsafe { vector::<K, S>(view, |index| key(first + index), out) };
        first += LANES;
    }
}

/// # Safety
/// As for [`lookup`], and `out` is no longer than [`LANES`].
#[inline(always)]
unsafe fn vector<K: Key, S: Sort>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    // What decides nearly every lookup, fetched once: the keys themselves may be far apart.
    let mut upper = [const { MaybeUninit::<u64>::uninit() }; LANES];
    for (index, (out, upper)) in out.iter_mut().zip(&mut upper).enumerate() {
        let bits = key(index).half(false);
        upper.write(bits);
        // SAFETY: the caller's promise.
        *out = unsafe { top(view, bits) };
    }
    let (mut level, mut below) = (Level::new(), Level::new());
    let (mut level, mut below) = (&mut level, &mut below);
    // SAFETY: the caller's promise; there are no more answers than lanes.
    let mut counts = unsafe { S::sort(out.as_ptr(), IDENTITY.as_ptr(), out.len(), level, NONE) };
    let mut depth = K::DIRECTORY + K::CHUNK;
    // No block crosses the middle of an IPv6 address, and shifts of 64 bits are the cheap ones.
    while depth < 64 && counts != NONE {
        let shift = 64 - STRIDE - depth;
        // SAFETY: every index of `out` has its upper half; the blocks that the lists refer to are at this depth; the rest
        // is the caller's promise.
        counts = unsafe {
            let bits = |index: usize| upper.get_unchecked(index).assume_init() >> shift;
            down::<S>(view.base, bits, level, counts, below, out)
        };
        std::mem::swap(&mut level, &mut below);
        depth += STRIDE;
    }
    while counts != NONE {
        let end = depth + STRIDE;
        // The last block resolves two bits more than an address has.
        let (right, left) = (128u8.saturating_sub(end), end.saturating_sub(128));
        let bits = |index: usize| key(index).half(true) >> right << left;
        // SAFETY: as above.
        counts = unsafe { down::<S>(view.base, bits, level, counts, below, out) };
        std::mem::swap(&mut level, &mut below);
        depth += STRIDE;
    }
    for out in out {
        *out = if *out == NO_ROUTE { view.default } else { *out };
    }
}

/// Takes every lookup of a level to the one below. The lowest of `bits` of a key are those that the blocks of this level
/// resolve.
///
/// # Safety
/// As for [`lookup`], and the lists hold indices of `out`, and references to what they are named for.
#[inline(always)]
unsafe fn down<S: Sort>(
    base: *const u8,
    bits: impl Fn(usize) -> u64,
    level: &mut Level,
    counts: Counts,
    below: &mut Level,
    out: &mut [u32],
) -> Counts {
    let (arrays, nodes) = (&mut level.arrays, &mut level.nodes);
    // SAFETY: the caller's promise. A list is initialised up to its count. Both lists together hold no key twice.
    unsafe {
        pass(arrays, counts.arrays, out, |leaf, index| array_step(base, leaf, bits(index)));
        pass(nodes, counts.nodes, out, |leaf, index| node_step(base, leaf, bits(index)));
        let reached = S::sort(arrays.leaves(), arrays.indices(), counts.arrays, below, NONE);
        S::sort(nodes.leaves(), nodes.indices(), counts.nodes, below, reached)
    }
}

/// Takes every lookup of a list one level down.
///
/// # Safety
/// The list is initialised up to `count`, and holds indices of `out`.
#[inline(always)]
unsafe fn pass(list: &mut List, count: usize, out: &mut [u32], step: impl Fn(u32, usize) -> u32) {
    let (leaves, indices) = (list.leaves(), list.indices());
    for position in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let index = indices.add(position).read() as usize;
            std::hint::assert_unchecked(index < out.len());
            let next = step(leaves.add(position).read(), index);
            leaves.add(position).write(next);
            out[index] = next;
        }
    }
}

/// No lookups.
const NONE: Counts = Counts { arrays: 0, nodes: 0 };

/// The index of every lane.
static IDENTITY: [u32; LANES] = {
    let mut lanes = [0; LANES];
    let mut index = 0;
    while index < lanes.len() {
        lanes[index] = index as u32;
        index += 1;
    }
    lanes
};

/// The leaf that the directory and the chunk below it hold for a key with this upper half.
///
/// # Safety
/// As for [`lookup`].
#[inline(always)]
unsafe fn top<K: Key>(view: &View<'_, K>, upper: u64) -> u32 {
    // SAFETY: a directory has an entry for each value of its bits.
    let entry = unsafe { view.directory.get_unchecked((upper >> (64 - K::DIRECTORY)) as usize) };
    let leaf = entry.load(Ordering::Acquire);
    let slot = (upper >> (64 - K::DIRECTORY - K::CHUNK)) as usize % (1 << K::CHUNK);
    let below = leaf & CHILD != 0;
    // Something is read in any case, instead of being branched around: a value's own place, where nothing lies below.
    let at = select_unpredictable(below, block(view.base, leaf).wrapping_add(slot), entry);
    // SAFETY: either the directory's entry, or a slot of the chunk that the reference in it leads to.
    let next = unsafe { &*at }.load(Ordering::Acquire);
    // By now the entry may hold a reference to a chunk, which must not be taken for one to a block below a chunk.
    select_unpredictable(below, next, leaf)
}

/// The leaf that the array which `leaf` refers to holds for a key whose bits at the depth of the array are the lowest ones
/// of `bits`.
///
/// # Safety
/// `leaf` refers to an array; otherwise as for [`lookup`].
#[inline(always)]
unsafe fn array_step(base: *const u8, leaf: u32, bits: u64) -> u32 {
    let slot = bits as usize % (1 << STRIDE);
    // SAFETY: an array has a leaf for every slot.
    unsafe { &*block(base, leaf).add(slot) }.load(Ordering::Acquire)
}

/// The leaf that the node which `leaf` refers to holds for a key whose bits at the depth of the node are the lowest ones
/// of `bits`.
///
/// # Safety
/// `leaf` refers to a node; otherwise as for [`lookup`].
#[inline(always)]
unsafe fn node_step(base: *const u8, leaf: u32, bits: u64) -> u32 {
    let node = block(base, leaf);
    // Shifted so that the bits of later slots fall off.
    let up_to = !bits % (1 << STRIDE);
    // SAFETY: the header of a node, aligned, and not written to after the node was published.
    let starts = unsafe { node.cast::<u64>().read() } << up_to;
    // SAFETY: the index is below the number of runs, and a node has a leaf for each.
    unsafe { &*node.add(HEADER / 4 + starts.count_ones() as usize) }.load(Ordering::Acquire)
}

/// Where the block begins that a leaf refers to.
#[inline(always)]
fn block(base: *const u8, leaf: u32) -> *const AtomicU32 {
    // The shift drops the two marks and makes words of units.
    base.cast::<AtomicU32>().wrapping_add((leaf << 2) as usize)
}
