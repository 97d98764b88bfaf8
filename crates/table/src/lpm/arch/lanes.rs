//! What the lookup bodies share: lists of lookups that go on, and the steps to take them down.
//!
//! One lookup is a chain of dependent loads, and a CPU that follows chains one after the other waits for each. A *pass*
//! takes *all* keys of a vector down by one level: within a pass nothing depends on anything, so the CPU overlaps as
//! many loads as it has room for. Between passes, keys that have arrived at a value are sorted out, and the others by
//! the kind of block that they are at, without branches: which it is for a key is what no predictor can know.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::arena::UNIT;

/// Keys per pass: what stays in the nearest cache with room to spare.
pub(super) const LANES: usize = 256;

/// Sorting works in groups of this size, and may write as many words past the last one that counts.
pub(super) const GROUP: usize = 16;

/// A word per key.
type Lanes = MaybeUninit<[u32; LANES + GROUP]>;

/// Lookups that go on: what each stands at, and which key it is. How many there are is kept outside, so that nothing
/// here needs to be initialised.
pub(super) struct List {
    leaves: Lanes,
    indices: Lanes,
}

impl List {
    #[inline(always)]
    pub(super) const fn new() -> List {
        List { leaves: MaybeUninit::uninit(), indices: MaybeUninit::uninit() }
    }

    // A pointer that was taken from a mutable borrow is void after the next one: to read both, shared borrows.

    #[inline(always)]
    pub(super) fn leaves(&self) -> *const u32 {
        self.leaves.as_ptr().cast()
    }

    #[inline(always)]
    pub(super) fn indices(&self) -> *const u32 {
        self.indices.as_ptr().cast()
    }

    #[inline(always)]
    pub(super) fn leaves_mut(&mut self) -> *mut u32 {
        self.leaves.as_mut_ptr().cast()
    }

    #[inline(always)]
    pub(super) fn indices_mut(&mut self) -> *mut u32 {
        self.indices.as_mut_ptr().cast()
    }
}

/// What a CPU may have special instructions for.
pub(super) trait Isa {
    /// Of `count` leaves, adds those of each of the kinds, by their bits in `mask`, to its list, with the indices that
    /// stand beside them. Gives the new lengths of the lists. No kind is zero.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; both pointers are readable for `count` words; the lists have
    /// room for as many and a group.
    unsafe fn sort<const N: usize>(
        leaves: *const u32,
        indices: *const u32,
        count: usize,
        mask: u32,
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
}

/// Takes every lookup of a list one level down.
///
/// # Safety
/// The list is initialised up to `count`, and holds indices of `out`.
#[inline(always)]
pub(super) unsafe fn pass(list: &mut List, count: usize, out: &mut [u32], step: impl Fn(u32, usize) -> u32) {
    for position in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let next = arrive(list, position, out, &step);
            list.leaves_mut().add(position).write(next);
        }
    }
}

/// [`pass`], for lookups that go no further down.
///
/// # Safety
/// As for [`pass`].
#[inline(always)]
pub(super) unsafe fn last_pass(list: &List, count: usize, out: &mut [u32], step: impl Fn(u32, usize) -> u32) {
    for position in 0..count {
        // SAFETY: the caller's promise.
        unsafe { arrive(list, position, out, &step) };
    }
}

/// The step of one lookup, which may be the last.
///
/// # Safety
/// As for [`pass`], and `position` is below the count.
#[inline(always)]
unsafe fn arrive(list: &List, position: usize, out: &mut [u32], step: impl Fn(u32, usize) -> u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        let index = list.indices().add(position).read() as usize;
        std::hint::assert_unchecked(index < out.len());
        let next = step(list.leaves().add(position).read(), index);
        out[index] = next;
        next
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

/// The leaf that the array which `leaf` refers to holds for a key of which the lowest of `bits` are those that the
/// array resolves.
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
    // The shift drops the three marks, and leaves eighths of a unit: a shift and an address of one instruction each.
    base.cast::<[u8; UNIT / 8]>().wrapping_add((leaf << 3) as usize).cast()
}
