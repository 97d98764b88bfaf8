//! The body for any CPU.

use super::lanes::{Isa, List};

pub(super) struct Portable;

impl Isa for Portable {
    #[inline(always)]
    unsafe fn sort<const N: usize>(
        leaves: *const u32,
        indices: *const u32,
        count: usize,
        mask: u32,
        kinds: [u32; N],
        mut to: [&mut List; N],
        mut counts: [usize; N],
    ) -> [usize; N] {
        for position in 0..count {
            // SAFETY: the caller's promise.
            let (leaf, index) = unsafe { (leaves.add(position).read(), indices.add(position).read()) };
            for ((kind, list), count) in kinds.iter().zip(&mut to).zip(&mut counts) {
                // Always written; kept if the kind matches.
                // SAFETY: the caller's promise.
                unsafe {
                    list.leaves_mut().add(*count).write(leaf);
                    list.indices_mut().add(*count).write(index);
                }
                *count += usize::from(leaf & mask == *kind);
            }
        }
        counts
    }

    #[inline(always)]
    unsafe fn rank<const N: usize>(ends: *const u32, slot: u32) -> usize {
        // SAFETY: the caller's promise.
        let ends = unsafe { &*ends.cast::<[u32; N]>() };
        // Counts in words as wide as the ends, so that the compiler uses one vector comparison.
        ends.iter().map(|&end| u32::from(slot > end)).sum::<u32>() as usize
    }
}
