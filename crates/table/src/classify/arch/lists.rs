//! Lists of references that a lookup still has to follow. Their lengths are kept outside, so that nothing needs
//! initialisation.

use std::mem::MaybeUninit;

use super::super::block::{BITS, CUT, DENSE, DEPTH, LONG};
/// Packets per vector.
pub(super) const VECTOR: usize = 256;

/// Largest number of nodes per pass.
pub(super) const PASS: usize = 128;

/// Sorting handles groups of this size and may write as many words past the last valid one.
pub(super) const GROUP: usize = 16;

/// Largest number of references that a pass yields: two for each node. A vector begins with one for each packet.
const FRESH: usize = 2 * PASS;

const _: () = assert!(FRESH == VECTOR);

/// Capacity of the list of nodes.
///
/// A pass takes the last nodes of the list, of either kind, and appends their wildcard lists first, then their slots.
/// So the reference at position `p` is at least `p / FRESH` levels deep. A wildcard list takes the position of a node
/// at its position or a later one, and is no less deep (that of a chain is as deep as the chain and keeps its
/// position). A slot is at most `PASS` positions behind its node, and one level deeper.
const WAITING: usize = FRESH * (DEPTH + 1);

/// Capacity of all lists of leaves together: they are emptied before the next pass.
pub(super) const LEAVES: usize = FRESH;

/// References with their packets.
pub(crate) struct List<const N: usize> {
    references: Words<N>,
    packets: Words<N>,
}

impl<const N: usize> List<N> {
    const fn new() -> Self {
        List { references: MaybeUninit::uninit(), packets: MaybeUninit::uninit() }
    }

    /// # Safety
    /// The item was written.
    #[inline(always)]
    pub(super) unsafe fn reference(&self, item: usize) -> u32 {
        debug_assert!(item < N);
        // SAFETY: the caller's promise.
        unsafe { self.references.as_ptr().cast::<u32>().add(item).read() }
    }

    /// # Safety
    /// The item was written.
    #[inline(always)]
    pub(super) unsafe fn packet(&self, item: usize) -> usize {
        debug_assert!(item < N);
        // SAFETY: the caller's promise.
        unsafe { self.packets.as_ptr().cast::<u32>().add(item).read() as usize }
    }

    /// Returns the starts of both arrays for reading.
    #[inline(always)]
    pub(super) fn pointers(&self) -> (*const u32, *const u32) {
        (self.references.as_ptr().cast(), self.packets.as_ptr().cast())
    }

    /// Returns the starts of both arrays for writing.
    #[inline(always)]
    pub(super) fn pointers_mut(&mut self) -> (*mut u32, *mut u32) {
        (self.references.as_mut_ptr().cast(), self.packets.as_mut_ptr().cast())
    }

    /// Writes an item.
    ///
    /// # Safety
    /// The list has this item.
    #[inline(always)]
    pub(super) unsafe fn set(&mut self, item: usize, reference: u32, packet: u32) {
        debug_assert!(item < N);
        let (references, packets) = self.pointers_mut();
        // SAFETY: the caller's promise.
        unsafe {
            references.add(item).write(reference);
            packets.add(item).write(packet);
        }
    }
}

/// Unsorted references of a pass, or leaves.
pub(crate) type Raw = List<{ LEAVES + GROUP }>;

impl Raw {
    #[inline(always)]
    pub(super) const fn empty() -> Raw {
        List::new()
    }
}

/// Nodes of both kinds.
pub(crate) type Nodes = List<{ WAITING + GROUP }>;

/// A list for each kind of block.
pub(crate) struct Lists {
    pub(super) leaves: [Raw; 3],
    pub(super) nodes: Nodes,
    pub(super) long: Raw,
    pub(super) dense: Raw,
    /// Length of each list, by kind, both kinds of nodes as [`BITS`]; the first kind is none.
    pub(super) counts: [usize; 8],
}

impl Lists {
    #[inline(always)]
    pub(super) const fn new() -> Lists {
        Lists {
            leaves: [List::new(), List::new(), List::new()],
            nodes: List::new(),
            long: List::new(),
            dense: List::new(),
            counts: [0; 8],
        }
    }

    /// Empties the list of the leaves of a size and returns it.
    #[inline(always)]
    pub(super) fn take_leaves(&mut self, size: usize) -> (usize, &Raw) {
        (std::mem::take(&mut self.counts[1 + size]), &self.leaves[size])
    }

    /// Empties the list of the long leaves and returns it.
    #[inline(always)]
    pub(super) fn take_long(&mut self) -> (usize, &Raw) {
        (std::mem::take(&mut self.counts[LONG as usize]), &self.long)
    }

    /// Empties the list of the bit-vector leaves and returns it.
    #[inline(always)]
    pub(super) fn take_dense(&mut self) -> (usize, &Raw) {
        (std::mem::take(&mut self.counts[DENSE as usize]), &self.dense)
    }

    /// Returns the list of the nodes.
    #[inline(always)]
    pub(super) fn nodes(&self) -> (usize, &Nodes) {
        (self.counts[BITS as usize], &self.nodes)
    }

    /// Removes the last `count` nodes.
    #[inline(always)]
    pub(super) fn drop_nodes(&mut self, count: usize) {
        self.counts[BITS as usize] -= count;
    }

    /// Returns whether a list has room for another item, or a group, at this position.
    #[inline(always)]
    pub(super) fn has_room(kind: u32, place: usize) -> bool {
        place <= if kind == BITS { WAITING } else { LEAVES }
    }

    /// Returns the arrays of a kind.
    #[inline(always)]
    pub(super) fn pointers_mut(&mut self, kind: u32) -> (*mut u32, *mut u32) {
        match kind {
            BITS => self.nodes.pointers_mut(),
            LONG => self.long.pointers_mut(),
            DENSE => self.dense.pointers_mut(),
            size => self.leaves[size as usize - 1].pointers_mut(),
        }
    }
}

/// Kinds of references with a list of their own.
pub(super) const KINDS: [u32; 6] = [1, 2, 3, BITS, LONG, DENSE];

// The two kinds of nodes differ in one bit.
const _: () = assert!(BITS & 1 == 0 && CUT == BITS | 1 && LONG > CUT && DENSE > CUT);

/// Uninitialised memory for numbers.
pub(crate) type Words<const N: usize> = MaybeUninit<[u32; N]>;
