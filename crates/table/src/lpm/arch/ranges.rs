//! Lookup with nodes that list the ends of runs: IPv6.
//!
//! Within a frame of 32 bits, one word of the key serves all blocks. The passes are: arrays, until no lookup is at an
//! array; trees, each of which leads to a line; lines; short nodes. Keys with longer candidate prefixes pass through
//! the next frame; these are few.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use weir_base::prefetch;

use super::super::key::Key;
use super::super::node::{ARRAY, CHILD, KIND, LINE, LINE_RUNS, LINE_UNITS, LINE_WORDS, SHORT, SHORT_RUNS, TREE};
use super::super::route::NO_ROUTE;
use super::super::view::View;
use super::lanes::{IDENTITY, Isa, LANES, List, array_step, block, last_pass, pass};

/// Kinds of blocks of a lookup.
const KINDS: [u32; 4] = [ARRAY, TREE, LINE, SHORT];

/// The word of each key for the current frame.
type Words = [MaybeUninit<u32>; LANES];

/// # Safety
/// As for [`lookup`](super::lookup). The CPU has the features of `I`, and `out` has at most [`LANES`] elements.
#[inline(always)]
pub(super) unsafe fn vector<K: Key, I: Isa>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    let mut words = [const { MaybeUninit::uninit() }; LANES];
    for (index, (out, word)) in out.iter_mut().zip(&mut words).enumerate() {
        let upper = key(index).upper();
        word.write((upper >> (64 - K::DIRECTORY - K::FRAME)) as u32);
        // SAFETY: a directory has an entry for each value of its bits.
        let entry = unsafe { view.directory.get_unchecked((upper >> (64 - K::DIRECTORY)) as usize) };
        *out = entry.load(Ordering::Acquire);
    }
    // SAFETY: the caller's promise; there are an answer and a word for each lane up to the length.
    unsafe {
        if view.far {
            frame::<K, I, true>(view.base, None, &words, out);
        } else {
            frame::<K, I, false>(view.base, None, &words, out);
        }
    }
    let mut depth = K::DIRECTORY;
    while fill_defaults(view.default, out) {
        depth += K::FRAME;
        // SAFETY: the remaining keys are at blocks of this frame and get their words; there are at most as many as
        // lanes. The rest is the caller's promise.
        unsafe { next_frame::<K, I>(view.base, depth, &key, &mut words, out) };
    }
}

/// Passes the remaining lookups of a frame through the next one, which begins at `depth`.
///
/// # Safety
/// As for [`vector`].
#[inline(always)]
unsafe fn next_frame<K: Key, I: Isa>(
    base: *const u8,
    depth: u8,
    key: impl Fn(usize) -> K,
    words: &mut Words,
    out: &mut [u32],
) {
    let mut list = List::new();
    // SAFETY: the list has room for all lanes, and is initialised up to its count.
    unsafe {
        let [count] = I::sort(out.as_ptr(), IDENTITY.as_ptr(), out.len(), CHILD, [CHILD], [&mut list], [0]);
        for position in 0..count {
            let index = list.indices().add(position).read() as usize;
            words.get_unchecked_mut(index).write(key(index).slot(depth, K::FRAME) as u32);
        }
        frame::<K, I, false>(base, Some((&list, count)), words, out);
    }
}

/// Passes lookups through a frame: those of a list with its count, or all. `FAR` prefetches cache lines, which pays
/// only for large tables.
///
/// # Safety
/// As for [`vector`]. The leaves of the list, or else the previous answers, are values or refer to blocks at the start
/// of the frame. Every lookup has its word.
#[inline(always)]
unsafe fn frame<K: Key, I: Isa, const FAR: bool>(
    base: *const u8,
    some: Option<(&List, usize)>,
    words: &Words,
    out: &mut [u32],
) {
    // SAFETY: only keys in lists are read, and these have words.
    let word = |index: usize| unsafe { words.get_unchecked(index).assume_init() };
    let [mut arrays, mut below, mut trees, mut lines, mut shorts] = [const { List::new() }; 5];
    let (mut arrays, mut below) = (&mut arrays, &mut below);
    // SAFETY: there are at most as many answers as lanes. The lists hold no key twice, so none exceeds the lanes. Each
    // is initialised up to its count and refers to blocks of its kind. Arrays are reached in the order of their depths,
    // and none after the last. The rest is the caller's promise.
    unsafe {
        let to = [&mut *arrays, &mut trees, &mut lines, &mut shorts];
        let mut counts = match some {
            Some((list, count)) => I::sort(list.leaves(), list.indices(), count, KIND, KINDS, to, [0; 4]),
            None => I::sort(out.as_ptr(), IDENTITY.as_ptr(), out.len(), KIND, KINDS, to, [0; 4]),
        };
        let mut shift = K::FRAME;
        while counts[0] > 0 {
            shift -= K::STRIDE;
            let count = std::mem::take(&mut counts[0]);
            if FAR {
                for position in 0..count {
                    let (leaf, index) = (arrays.leaves().add(position).read(), arrays.indices().add(position).read());
                    let slot = (word(index as usize) >> shift) as usize % (1 << K::STRIDE);
                    prefetch::read(block(base, leaf).wrapping_add(slot));
                }
            }
            pass(arrays, count, out, |leaf, index| array_step(base, leaf, u64::from(word(index) >> shift), K::STRIDE));
            if shift == 0 {
                // Blocks below the last array belong to the next frame.
                break;
            }
            let to = [&mut *below, &mut trees, &mut lines, &mut shorts];
            counts = I::sort(arrays.leaves(), arrays.indices(), count, KIND, KINDS, to, counts);
            std::mem::swap(&mut arrays, &mut below);
        }
        let [_, tree_count, mut line_count, short_count] = counts;
        if FAR {
            for (list, count) in [(&trees, tree_count), (&lines, line_count), (&shorts, short_count)] {
                for position in 0..count {
                    prefetch::read(block(base, list.leaves().add(position).read()));
                }
            }
        }
        for position in 0..tree_count {
            let (leaf, index) = (trees.leaves().add(position).read(), trees.indices().add(position).read());
            let rank = I::rank::<LINE_WORDS>(block(base, leaf).cast(), word(index as usize));
            let line = leaf + LINE_UNITS * (1 + rank as u32);
            prefetch::read(block(base, line));
            lines.leaves_mut().add(line_count).write(line);
            lines.indices_mut().add(line_count).write(index);
            line_count += 1;
        }
        last_pass(&lines, line_count, out, |leaf, index| node_step::<I, LINE_RUNS>(base, leaf, word(index)));
        last_pass(&shorts, short_count, out, |leaf, index| node_step::<I, SHORT_RUNS>(base, leaf, word(index)));
    }
}

/// Returns the leaf of the run of a slot, in a node of up to `RUNS`.
///
/// # Safety
/// `leaf` refers to such a node, or is a line of a tree; otherwise as for [`vector`].
#[inline(always)]
unsafe fn node_step<I: Isa, const RUNS: usize>(base: *const u8, leaf: u32, slot: u32) -> u32 {
    let node = block(base, leaf);
    // SAFETY: the ends of a node, which are constant after its publication. No slot is above the last end, so the rank
    // is that of a leaf.
    unsafe {
        let rank = I::rank::<RUNS>(node.cast(), slot);
        (*node.add(RUNS + rank)).load(Ordering::Acquire)
    }
}

/// Replaces missing answers by the default. Returns whether some key needs the next frame.
#[inline(always)]
fn fill_defaults(default: u32, out: &mut [u32]) -> bool {
    let mut all = 0;
    for out in out {
        *out = if *out == NO_ROUTE { default } else { *out };
        all |= *out;
    }
    all & CHILD != 0
}
