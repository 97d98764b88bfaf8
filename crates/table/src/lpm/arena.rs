//! The memory that readers see: one mapping that never moves, cut into blocks.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use weir_base::region::Region;

/// Octets of the smallest block; a [`Block`] counts in these.
pub(crate) const UNIT: usize = 16;

/// More octets than this are far away: what the second-level caches of today's CPUs hold, several times over.
const FAR: usize = 8 << 20;

/// Where a block begins, in units from the start of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block(pub(crate) u32);

impl Block {
    /// The index, in words of four octets from the start of the arena, of the word at `octet` of the block.
    pub(crate) fn word(self, octet: usize) -> usize {
        (self.0 as usize * UNIT + octet) / 4
    }
}

/// Blocks are addressed by number, so that a reference to one fits into a leaf beside its mark.
pub(crate) struct Arena {
    region: Region,
    far: AtomicBool,
}

impl Arena {
    pub(crate) fn new(octets: usize) -> io::Result<Arena> {
        Ok(Arena { region: Region::reserve(octets)?, far: AtomicBool::new(false) })
    }

    /// The first octet. The whole arena is readable, and zero where nothing was written.
    #[inline(always)]
    pub(crate) fn base(&self) -> *const u8 {
        self.region.base().as_ptr()
    }

    /// Whether there are so many blocks that most loads of a lookup will take long, as the writer has told.
    #[inline(always)]
    pub(crate) fn is_far(&self) -> bool {
        self.far.load(Ordering::Relaxed)
    }

    /// Tells readers how many octets of blocks there are. It decides how they look up, not what they find.
    pub(crate) fn set_used(&self, octets: usize) {
        let far = octets > FAR;
        if self.is_far() != far {
            self.far.store(far, Ordering::Relaxed);
        }
    }

    /// A word by its index (see [`Block::word`]).
    pub(crate) fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < self.region.len() / 4);
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned. The writer's access to every word is
        // atomic, and the readers' to leaves. What else a block has they read as they like: the writer stores to it
        // only before the block is published and after all readers have passed.
        unsafe { &*self.region.base().cast::<AtomicU32>().as_ptr().add(index) }
    }

    /// Two words at once; `index` is even.
    pub(crate) fn pair(&self, index: usize) -> &AtomicU64 {
        assert!(index.is_multiple_of(2) && index < self.region.len() / 4);
        // SAFETY: as for `word`; an even index is aligned to eight octets, and the length of a region is even in words.
        unsafe { &*self.region.base().cast::<AtomicU32>().as_ptr().add(index).cast::<AtomicU64>() }
    }
}
