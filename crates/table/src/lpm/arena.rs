//! The memory of blocks: one mapping that never moves.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use weir_base::region::Region;

/// Octets of the smallest block, the unit of [`Block`].
pub(crate) const UNIT: usize = 16;

/// Above this size lookups prefetch: several times the second-level cache of current CPUs.
const FAR: usize = 8 << 20;

/// Start of a block, in units from the start of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block(pub(crate) u32);

impl Block {
    /// Returns the index of the word at `octet` of the block, in words of four octets from the start of the arena.
    pub(crate) fn word(self, octet: usize) -> usize {
        (self.0 as usize * UNIT + octet) / 4
    }
}

/// Blocks are addressed by number, so that a reference fits into a leaf with its mark.
pub(crate) struct Arena {
    region: Region,
    far: AtomicBool,
}

impl Arena {
    pub(crate) fn new(octets: usize) -> io::Result<Arena> {
        Ok(Arena { region: Region::reserve(octets)?, far: AtomicBool::new(false) })
    }

    /// Returns the first octet. The whole arena is readable; unwritten octets are 0.
    #[inline(always)]
    pub(crate) fn base(&self) -> *const u8 {
        self.region.base().as_ptr()
    }

    /// Returns whether lookups should prefetch, by the size that the writer set last.
    #[inline(always)]
    pub(crate) fn is_far(&self) -> bool {
        self.far.load(Ordering::Relaxed)
    }

    /// Sets the octets of blocks in use. The size selects the way of lookups, not their results.
    pub(crate) fn set_used(&self, octets: usize) {
        let far = octets > FAR;
        if self.is_far() != far {
            self.far.store(far, Ordering::Relaxed);
        }
    }

    /// Returns a word by its index (see [`Block::word`]).
    pub(crate) fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < self.region.len() / 4);
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned. The writer accesses every word
        // atomically, and readers access leaves atomically. Readers may read other words in any way: the writer stores
        // to them only before the block is published and after all readers have passed.
        unsafe { &*self.region.base().cast::<AtomicU32>().as_ptr().add(index) }
    }

    /// Returns two words; `index` must be even.
    pub(crate) fn pair(&self, index: usize) -> &AtomicU64 {
        assert!(index.is_multiple_of(2) && index < self.region.len() / 4);
        // SAFETY: as for `word`. An even index is aligned to eight octets, and a region has an even number of words.
        unsafe { &*self.region.base().cast::<AtomicU32>().as_ptr().add(index).cast::<AtomicU64>() }
    }
}
