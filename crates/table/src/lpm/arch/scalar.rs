//! The lookup in passes, one level of the trie at a time.
//!
//! One lookup is a chain of dependent loads, and a CPU that follows chains one after the other waits for each. A pass
//! takes *all* keys of a vector down by one level: within a pass nothing depends on anything, so the CPU overlaps as many
//! loads as it has room for. Keys that have arrived at a value leave the pass; the list of those that go on is kept
//! without branches, for whether a key goes on is what no predictor can know.

use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::key::Key;
use super::super::node::{CHILD, header, start_words};
use super::super::table::View;
use super::super::writer::NO_ROUTE;

/// Keys per pass: as many as an index of one octet can tell apart.
const LANES: usize = 256;

/// # Safety
/// As for [`lookup`](super::lookup).
#[inline(always)]
pub(super) unsafe fn lookup<K: Key>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    let mut first = 0;
    for out in out.chunks_mut(LANES) {
        // SAFETY: the caller's promise.
        unsafe { vector(view, |index| key(first + index), out) };
        first += LANES;
    }
}

/// # Safety
/// As for [`lookup`](super::lookup).
#[inline(always)]
unsafe fn vector<K: Key>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    let mut active = [0u8; LANES];
    let mut count = 0;
    for (index, out) in out.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *out = unsafe { top(view, key(index)) };
        active[count % LANES] = index as u8;
        count += (*out >> 31) as usize;
    }
    let mut depth = K::DIRECTORY + K::CHUNK;
    while count > 0 {
        let mut left = 0;
        for position in 0..count {
            let index = usize::from(active[position]);
            // SAFETY: `index` came from the loop above. The leaf refers to a node at this depth, by the caller's promise.
            unsafe {
                let out = out.get_unchecked_mut(index);
                *out = step::<K>(view.base, *out, key(index), depth);
                active[left] = index as u8;
                left += (*out >> 31) as usize;
            }
        }
        count = left;
        depth += K::STRIDE;
    }
    for out in out {
        *out = if *out == NO_ROUTE { view.default } else { *out };
    }
}

/// The leaf that the directory and the chunk below it hold for a key.
///
/// # Safety
/// As for [`lookup`](super::lookup).
#[inline(always)]
unsafe fn top<K: Key>(view: &View<'_, K>, key: K) -> u32 {
    let entry = &view.directory[key.slot(0, K::DIRECTORY)];
    let leaf = entry.load(Ordering::Acquire);
    // SAFETY: address arithmetic inside the arena if the leaf is a reference; unused otherwise.
    let slot = block(view.base, leaf).cast::<AtomicU32>().wrapping_add(key.slot(K::DIRECTORY, K::CHUNK));
    // A value is read once more instead of being branched around.
    let at = select_unpredictable(leaf & CHILD != 0, slot, entry);
    // SAFETY: either the directory's entry, or a slot of the chunk that the reference in it leads to.
    let leaf = unsafe { &*at }.load(Ordering::Acquire);
    leaf
}

/// The leaf that the node which `leaf` refers to holds for a key.
///
/// # Safety
/// `leaf` refers to a node at `depth`; otherwise as for [`lookup`](super::lookup).
#[inline(always)]
unsafe fn step<K: Key>(base: *const u8, leaf: u32, key: K, depth: u8) -> u32 {
    let node = block(base, leaf);
    let slot = key.slot(depth, K::STRIDE);
    let word = slot / 64;
    // Shifted so that the bits of later slots fall off.
    let up_to = 63 - (slot % 64) as u32;
    // SAFETY: the header of a node, aligned, and not written to after the node was published.
    let (starts, before) = unsafe {
        let starts = node.cast::<u64>().add(word).read() << up_to;
        (starts, if start_words::<K>() > 1 { node.add(32 + word).read() } else { 0 })
    };
    let index = starts.count_ones() as usize + usize::from(before);
    // SAFETY: the index is below the number of runs, and a node has a leaf for each.
    unsafe { &*node.add(header::<K>()).cast::<AtomicU32>().add(index) }.load(Ordering::Acquire)
}

/// Where the block begins that a leaf refers to.
#[inline(always)]
fn block(base: *const u8, leaf: u32) -> *const u8 {
    // The shift drops the mark, and the scale of an x86 address does the rest.
    base.wrapping_add((leaf << 1) as usize * 8)
}
