//! The lookup where nodes mark runs in a word: IPv4.

use std::hint::select_unpredictable;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use super::super::key::Key;
use super::super::node::{ARRAY, CHILD, HEADER, KIND, MARKS};
use super::super::route::NO_ROUTE;
use super::super::view::View;
use super::lanes::{IDENTITY, Isa, LANES, List, array_step, block, pass};

/// The kinds of blocks that a lookup can be at.
const KINDS: [u32; 2] = [ARRAY, MARKS];

/// # Safety
/// As for [`lookup`](super::lookup), the CPU has what `I` is named for, and `out` is no longer than [`LANES`].
#[inline(always)]
pub(super) unsafe fn vector<K: Key, I: Isa>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    // Fetched once: the keys themselves may be far apart.
    let mut upper = [const { MaybeUninit::<u64>::uninit() }; LANES];
    for (index, (out, upper)) in out.iter_mut().zip(&mut upper).enumerate() {
        let bits = key(index).upper();
        upper.write(bits);
        // SAFETY: the caller's promise.
        *out = unsafe { top(view, bits) };
    }
    let mut level = [const { List::new() }; 2];
    let mut below = [const { List::new() }; 2];
    let (mut level, mut below) = (&mut level, &mut below);
    // SAFETY: the caller's promise; there are no more answers than lanes.
    let mut counts =
        unsafe { I::sort(out.as_ptr(), IDENTITY.as_ptr(), out.len(), KIND, KINDS, level.each_mut(), [0; 2]) };
    let mut depth = K::DIRECTORY + K::CHUNK;
    while counts != [0; 2] {
        let shift = 64 - K::STRIDE - depth;
        // SAFETY: every index of `out` has its upper half; the blocks that the lists refer to are at this depth; the
        // rest is the caller's promise.
        counts = unsafe {
            let bits = |index: usize| upper.get_unchecked(index).assume_init() >> shift;
            down::<K, I>(view.base, bits, level, counts, below, out)
        };
        std::mem::swap(&mut level, &mut below);
        depth += K::STRIDE;
    }
    for out in out {
        *out = if *out == NO_ROUTE { view.default } else { *out };
    }
}

/// Returns the leaf that the directory and the array below it hold for a key with this upper half.
///
/// # Safety
/// As for [`lookup`](super::lookup).
#[inline(always)]
unsafe fn top<K: Key>(view: &View<'_, K>, upper: u64) -> u32 {
    // SAFETY: a directory has an entry for each value of its bits.
    let entry = unsafe { view.directory.get_unchecked((upper >> (64 - K::DIRECTORY)) as usize) };
    let leaf = entry.load(Ordering::Acquire);
    // Only arrays lie below a directory.
    let below = leaf & CHILD != 0;
    let slot = (upper >> (64 - K::DIRECTORY - K::CHUNK)) as usize % (1 << K::CHUNK);
    // Always reads, instead of branching: without an array, the value's own location.
    let at = select_unpredictable(below, block(view.base, leaf).wrapping_add(slot), entry);
    // SAFETY: either the directory's entry, or a slot of the array that it refers to.
    let next = unsafe { &*at }.load(Ordering::Acquire);
    // The entry may refer to an array by now, which must not count as one below an array.
    select_unpredictable(below, next, leaf)
}

/// Passes every lookup of a level to the next. The lowest of `bits` of a key select the slot in the blocks of this
/// level.
///
/// # Safety
/// As for [`lookup`](super::lookup). The lists hold indices of `out` and references to blocks of their kind.
#[inline(always)]
unsafe fn down<K: Key, I: Isa>(
    base: *const u8,
    bits: impl Fn(usize) -> u64,
    level: &mut [List; 2],
    [array_count, node_count]: [usize; 2],
    below: &mut [List; 2],
    out: &mut [u32],
) -> [usize; 2] {
    let [arrays, nodes] = level;
    // SAFETY: the caller's promise. A list is initialised up to its count. Both lists together hold no key twice.
    unsafe {
        pass(arrays, array_count, out, |leaf, index| array_step(base, leaf, bits(index), K::STRIDE));
        pass(nodes, node_count, out, |leaf, index| node_step::<K>(base, leaf, bits(index)));
        let reached = I::sort(arrays.leaves(), arrays.indices(), array_count, KIND, KINDS, below.each_mut(), [0; 2]);
        I::sort(nodes.leaves(), nodes.indices(), node_count, KIND, KINDS, below.each_mut(), reached)
    }
}

/// Returns the leaf of the node of `leaf` for a key whose bits at the depth of the node are the lowest of `bits`.
///
/// # Safety
/// `leaf` refers to a node; otherwise as for [`lookup`](super::lookup).
#[inline(always)]
unsafe fn node_step<K: Key>(base: *const u8, leaf: u32, bits: u64) -> u32 {
    let node = block(base, leaf);
    // Shifts out the bits of later slots.
    let up_to = !bits % (1 << K::STRIDE);
    // SAFETY: the header of a node, aligned, and constant after its publication.
    let starts = unsafe { node.cast::<u64>().read() } << up_to;
    // SAFETY: the index is below the number of runs, and a node has a leaf for each.
    unsafe { &*node.add(HEADER / 4 + starts.count_ones() as usize) }.load(Ordering::Acquire)
}
