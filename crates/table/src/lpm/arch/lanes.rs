//! Common parts of the lookup bodies: lists of unfinished lookups, and the steps that advance them.
//!
//! A lookup is a chain of dependent loads, and a CPU that follows one chain after the other waits for each load. A
//! *pass* advances *all* keys of a vector by one level, so the CPU overlaps their loads. Between passes, finished keys
//! are removed and the others sorted by the kind of their block, without branches, which would be unpredictable.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::arena::UNIT;

/// Keys per pass: they fit the first-level cache.
pub(super) const LANES: usize = 256;

/// Sorting handles groups of this size and may write as many words past the last valid one.
pub(super) const GROUP: usize = 16;

/// A word per key.
type Lanes = MaybeUninit<[u32; LANES + GROUP]>;

/// Unfinished lookups: leaf and index of each key. The count is kept outside, so that nothing needs initialisation.
pub(super) struct List {
    leaves: Lanes,
    indices: Lanes,
}

impl List {
    #[inline(always)]
    pub(super) const fn new() -> List {
        List { leaves: MaybeUninit::uninit(), indices: MaybeUninit::uninit() }
    }

    // A pointer from a mutable borrow is invalid after the next one, so shared borrows read both.

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

/// Operations with special instructions on some CPUs.
pub(super) trait Isa {
    /// Appends each of `count` leaves with its index to the list of its kind, by the kind's bits in `mask`. Returns the
    /// new lengths of the lists. No kind is 0.
    ///
    /// # Safety
    /// The CPU has the features of the implementation. Both pointers are readable for `count` words. The lists have
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

    /// Returns how many of `N` ends are below `slot`: 4, 8 or 16.
    ///
    /// # Safety
    /// The CPU has the features of the implementation. `ends` is readable for `N` words, aligned to all of them, and no
    /// thread writes there.
    unsafe fn rank<const N: usize>(ends: *const u32, slot: u32) -> usize;
}

/// Advances every lookup of a list by one level.
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

/// Advances every lookup of a list by its last level, as [`pass`] does.
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

/// Advances one lookup, perhaps by its last level.
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

pub(super) static IDENTITY: [u32; LANES] = {
    let mut lanes = [0; LANES];
    let mut index = 0;
    while index < lanes.len() {
        lanes[index] = index as u32;
        index += 1;
    }
    lanes
};

/// Returns the leaf of the array of `leaf` for a key whose lowest of `bits` select the slot.
///
/// # Safety
/// `leaf` refers to an array of `1 << stride` slots; otherwise as for [`lookup`](super::lookup).
#[inline(always)]
pub(super) unsafe fn array_step(base: *const u8, leaf: u32, bits: u64, stride: u8) -> u32 {
    let slot = bits as usize % (1 << stride);
    // SAFETY: an array has a leaf for every slot.
    unsafe { &*block(base, leaf).add(slot) }.load(Ordering::Acquire)
}

/// Returns the start of the block of a leaf.
#[inline(always)]
pub(super) fn block(base: *const u8, leaf: u32) -> *const AtomicU32 {
    // The shift drops the three kind bits and leaves eighths of a unit: one instruction each for shift and address.
    base.cast::<[u8; UNIT / 8]>().wrapping_add((leaf << 3) as usize).cast()
}
