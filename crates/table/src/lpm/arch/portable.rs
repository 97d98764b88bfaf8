//! Sorting for any CPU.

use super::super::node::{ARRAY, CHILD};
use super::passes::{Counts, Level, Sort};

pub(super) struct Portable;

impl Sort for Portable {
    #[inline(always)]
    unsafe fn sort(
        leaves: *const u32,
        indices: *const u32,
        count: usize,
        to: &mut Level,
        mut counts: Counts,
    ) -> Counts {
        for position in 0..count {
            // Written to both in any case, and kept where it is of the kind.
            // SAFETY: the caller's promise.
            unsafe {
                let (leaf, index) = (leaves.add(position).read(), indices.add(position).read());
                to.arrays.leaves().add(counts.arrays).write(leaf);
                to.arrays.indices().add(counts.arrays).write(index);
                counts.arrays += usize::from(leaf >= CHILD | ARRAY);
                to.nodes.leaves().add(counts.nodes).write(leaf);
                to.nodes.indices().add(counts.nodes).write(index);
                counts.nodes += usize::from(leaf & (CHILD | ARRAY) == CHILD);
            }
        }
        counts
    }
}
