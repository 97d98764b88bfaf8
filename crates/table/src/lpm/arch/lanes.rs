//! What the lookup bodies share: the keys of a vector, lists of lookups that go on, and the way down to where they part.
//!
//! One lookup is a chain of dependent loads, and a CPU that follows chains one after the other waits for each. A *pass*
//! takes *all* keys of a vector down by one level: within a pass nothing depends on anything, so the CPU overlaps as many
//! loads as it has room for. Between passes, keys that have arrived at a value are sorted out, and the others by the kind
//! of block that they are at, without branches: which it is for a key is what no predictor can know.

use std::hint::select_unpredictable;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::key::Key;
use super::super::node::ARRAY;
use super::super::table::View;

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
    pub(super) const fn new() -> List {
        List { leaves: MaybeUninit::uninit(), indices: MaybeUninit::uninit() }
    }

    #[inline(always)]
    pub(super) fn leaves(&mut self) -> *mut u32 {
        self.leaves.as_mut_ptr().cast()
    }

    #[inline(always)]
    pub(super) fn indices(&mut self) -> *mut u32 {
        self.indices.as_mut_ptr().cast()
    }
}

/// What a CPU may have special instructions for.
pub(super) trait Isa {
    /// Of `count` leaves, adds those of each of the kinds to its list, with the indices that stand beside them. Gives the
    /// new lengths of the lists.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; both pointers are readable for `count` words; the lists have
    /// room for as many and a group.
    unsafe fn sort<const N: usize>(
        leaves: *const u32,
        indices: *const u32,
        count: usize,
        kinds: [u32; N],
        to: [&mut List; N],
        counts: [usize; N],
    ) -> [usize; N];

    /// How many of `N` ends are below `slot`: 4, 8 or 16.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; `ends` is readable for `N` words, aligned to all of them, and
    /// nobody writes there.
    unsafe fn rank<const N: usize>(ends: *const u32, slot: u32) -> usize;

    /// Begins to load a cache line, if the CPU can be told to. Any address will do.
    fn prefetch(address: *const AtomicU32);
}

/// Takes every lookup of a list one level down.
///
/// # Safety
/// The list is initialised up to `count`, and holds indices of `out`.
#[inline(always)]
pub(super) unsafe fn pass(list: &mut List, count: usize, out: &mut [u32], step: impl Fn(u32, usize) -> u32) {
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

/// The index of every lane.
pub(super) static IDENTITY: [u32; LANES] = {
    let mut lanes = [0; LANES];
    let mut index = 0;
    while index < lanes.len() {
        lanes[index] = index as u32;
        index += 1;
    }
    lanes
};

/// What the directory holds for a key with this upper half, and where to look next: in the array below, if it is one, else
/// in the same place again. Something is read in any case, instead of being branched around.
///
/// # Safety
/// As for [`lookup`](super::lookup).
#[inline(always)]
pub(super) unsafe fn enter<K: Key>(view: &View<'_, K>, upper: u64) -> (u32, *const AtomicU32) {
    // SAFETY: a directory has an entry for each value of its bits.
    let entry = unsafe { view.directory.get_unchecked((upper >> (64 - K::DIRECTORY)) as usize) };
    let leaf = entry.load(Ordering::Acquire);
    let slot = (upper >> (64 - K::DIRECTORY - K::CHUNK)) as usize % (1 << K::CHUNK);
    (leaf, select_unpredictable(leaf >= ARRAY, block(view.base, leaf).wrapping_add(slot), entry))
}

/// The leaf that the directory, or the array below it, holds.
///
/// # Safety
/// The two are what [`enter`] gave for a key, in the same lookup.
#[inline(always)]
pub(super) unsafe fn entered((leaf, place): (u32, *const AtomicU32)) -> u32 {
    // SAFETY: either the directory's entry, or a slot of the array that the reference in it leads to.
    let next = unsafe { &*place }.load(Ordering::Acquire);
    // By now the entry may hold a reference to an array, which must not be taken for one below an array.
    select_unpredictable(leaf >= ARRAY, next, leaf)
}

/// The leaf that the array which `leaf` refers to holds for a key of which the lowest of `bits` are those that the array
/// resolves.
///
/// # Safety
/// `leaf` refers to an array of `1 << stride` slots; otherwise as for [`lookup`](super::lookup).
#[inline(always)]
pub(super) unsafe fn array_step(base: *const u8, leaf: u32, bits: u64, stride: u8) -> u32 {
    let slot = bits as usize % (1 << stride);
    // SAFETY: an array has a leaf for every slot.
    unsafe { &*block(base, leaf).add(slot) }.load(Ordering::Acquire)
}

/// Where the block begins that a leaf refers to.
#[inline(always)]
pub(super) fn block(base: *const u8, leaf: u32) -> *const AtomicU32 {
    // The shift drops the three marks; what is left counts in halves of a unit.
    base.cast::<u64>().wrapping_add((leaf << 3) as usize / 4).cast()
}
