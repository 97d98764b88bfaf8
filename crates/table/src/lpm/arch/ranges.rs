//! The lookup where nodes list the ends of runs: IPv6.
//!
//! Within a frame of 32 bits, one word of the key serves all blocks. The passes are: arrays, until no lookup is at one;
//! trees, each of which leads to a line; lines; short nodes. Keys that a longer prefix than the frame resolves may
//! match go through the next frame, which few do.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::key::Key;
use super::super::node::{ARRAY, CHILD, LINE, LINE_RUNS, LINE_UNITS, LINE_WORDS, SHORT, SHORT_RUNS, TREE};
use super::super::table::View;
use super::super::writer::NO_ROUTE;
use super::lanes::{IDENTITY, Isa, LANES, List, array_step, block, enter, entered, pass};

/// The kinds of blocks that a lookup can be at.
const KINDS: [u32; 4] = [ARRAY, TREE, LINE, SHORT];

/// The word of each key that a frame resolves.
type Words = [MaybeUninit<u32>; LANES];

/// # Safety
/// As for [`lookup`](super::lookup), the CPU has what `I` is named for, and `out` is no longer than [`LANES`].
#[inline(always)]
pub(super) unsafe fn vector<K: Key, I: Isa>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    let mut words = [const { MaybeUninit::uninit() }; LANES];
    // SAFETY: the caller's promise.
    unsafe {
        if view.far {
            top_far::<K, I>(view, &key, &mut words, out);
            frame::<K, I, true>(view.base, K::CHUNK, &words, out);
        } else {
            top::<K>(view, &key, &mut words, out);
            frame::<K, I, false>(view.base, K::CHUNK, &words, out);
        }
    }
    let mut depth = K::DIRECTORY;
    while settle(view.default, out) {
        depth += K::FRAME;
        for (index, (word, out)) in words.iter_mut().zip(&*out).enumerate() {
            if out & CHILD != 0 {
                word.write(key(index).slot(depth, K::FRAME) as u32);
            }
        }
        // SAFETY: the keys that go on are at blocks of this frame, and have their words; the rest is the caller's promise.
        unsafe { frame::<K, I, false>(view.base, 0, &words, out) };
    }
}

/// The words of the first frame, and what the directory and an array below it hold.
///
/// # Safety
/// As for [`vector`].
#[inline(always)]
unsafe fn top<K: Key>(view: &View<'_, K>, key: impl Fn(usize) -> K, words: &mut Words, out: &mut [u32]) {
    for (index, (out, word)) in out.iter_mut().zip(words).enumerate() {
        let upper = key(index).upper();
        word.write(first_word::<K>(upper));
        // SAFETY: the caller's promise.
        *out = unsafe { entered(enter(view, upper)) };
    }
}

/// [`top`], in two passes, the first of which does not wait for the array.
///
/// # Safety
/// As for [`vector`].
#[inline(always)]
unsafe fn top_far<K: Key, I: Isa>(view: &View<'_, K>, key: impl Fn(usize) -> K, words: &mut Words, out: &mut [u32]) {
    let mut places = [const { MaybeUninit::<*const AtomicU32>::uninit() }; LANES];
    for (index, ((out, word), place)) in out.iter_mut().zip(words).zip(&mut places).enumerate() {
        let upper = key(index).upper();
        word.write(first_word::<K>(upper));
        // SAFETY: the caller's promise.
        let (leaf, next) = unsafe { enter(view, upper) };
        I::prefetch(next);
        *out = leaf;
        place.write(next);
    }
    for (out, place) in out.iter_mut().zip(&places) {
        // SAFETY: a place was written for every answer, beside what the directory held.
        *out = unsafe { entered((*out, place.assume_init())) };
    }
}

/// The word of a key with this upper half that the first frame resolves.
#[inline(always)]
fn first_word<K: Key>(upper: u64) -> u32 {
    (upper >> (64 - K::DIRECTORY - K::FRAME)) as u32
}

/// Takes lookups through a frame: those that stand at blocks of it when `resolved` of its bits are. `FAR` if most lines
/// will come from afar.
///
/// # Safety
/// As for [`vector`]; and every such lookup has its word.
#[inline(always)]
unsafe fn frame<K: Key, I: Isa, const FAR: bool>(base: *const u8, resolved: u8, words: &Words, out: &mut [u32]) {
    // SAFETY: only keys in lists are asked for, and these have words.
    let word = |index: usize| unsafe { words.get_unchecked(index).assume_init() };
    let [mut arrays, mut below, mut trees, mut lines, mut shorts] = [const { List::new() }; 5];
    let (mut arrays, mut below) = (&mut arrays, &mut below);
    // SAFETY: there are no more answers than lanes. The lists hold no key twice, so that none exceeds the lanes; each is
    // initialised up to its count, and refers to what it is named for. Arrays are reached in the order of their depths, and
    // none after the last. The rest is the caller's promise.
    unsafe {
        let to = [&mut *arrays, &mut trees, &mut lines, &mut shorts];
        let mut counts = I::sort(out.as_ptr(), IDENTITY.as_ptr(), out.len(), KINDS, to, [0; 4]);
        let mut shift = K::FRAME - resolved;
        while counts[0] > 0 {
            shift -= K::STRIDE;
            let count = std::mem::take(&mut counts[0]);
            pass(arrays, count, out, |leaf, index| array_step(base, leaf, u64::from(word(index) >> shift), K::STRIDE));
            let to = [&mut *below, &mut trees, &mut lines, &mut shorts];
            counts = I::sort(arrays.leaves(), arrays.indices(), count, KINDS, to, counts);
            std::mem::swap(&mut arrays, &mut below);
        }
        let [_, tree_count, mut line_count, short_count] = counts;
        if FAR {
            for (list, count) in [(&mut trees, tree_count), (&mut lines, line_count), (&mut shorts, short_count)] {
                for position in 0..count {
                    I::prefetch(block(base, list.leaves().add(position).read()));
                }
            }
        }
        for position in 0..tree_count {
            let (leaf, index) = (trees.leaves().add(position).read(), trees.indices().add(position).read());
            let rank = I::rank::<LINE_WORDS>(block(base, leaf).cast(), word(index as usize));
            let line = leaf + LINE_UNITS * (1 + rank as u32);
            I::prefetch(block(base, line));
            lines.leaves().add(line_count).write(line);
            lines.indices().add(line_count).write(index);
            line_count += 1;
        }
        pass(&mut lines, line_count, out, |leaf, index| node_step::<I, LINE_RUNS>(base, leaf, word(index)));
        pass(&mut shorts, short_count, out, |leaf, index| node_step::<I, SHORT_RUNS>(base, leaf, word(index)));
    }
}

/// The leaf of the run that a slot is in, in a node of up to `RUNS`.
///
/// # Safety
/// `leaf` refers to such a node, or is a line of a tree; otherwise as for [`vector`].
#[inline(always)]
unsafe fn node_step<I: Isa, const RUNS: usize>(base: *const u8, leaf: u32, slot: u32) -> u32 {
    let node = block(base, leaf);
    // SAFETY: the ends of a node, which nobody writes to after it was published. No slot is above the last end, and so the
    // rank is one of a leaf.
    unsafe {
        let rank = I::rank::<RUNS>(node.cast(), slot);
        (*node.add(RUNS + rank)).load(Ordering::Acquire)
    }
}

/// Puts the default where nothing was found. Whether some key goes on.
#[inline(always)]
fn settle(default: u32, out: &mut [u32]) -> bool {
    let mut all = 0;
    for out in out {
        *out = if *out == NO_ROUTE { default } else { *out };
        all |= *out;
    }
    all & CHILD != 0
}
