//! Lists of what is still to be looked at. How much is in them is kept beside, so that nothing needs to be initialised.

use std::mem::MaybeUninit;

use super::super::block::{BITS, CUT, DENSE, DEPTH, LONG};
/// Packets that go down together.
pub(super) const VECTOR: usize = 256;

/// Nodes that a pass takes at most.
pub(super) const PASS: usize = 128;

/// Sorting works in groups of this size, and may write as many words past the last one that counts.
pub(super) const GROUP: usize = 16;

/// What a pass gives at most: two references for each node. At the beginning, it is one for each packet.
const FRESH: usize = 2 * PASS;

const _: () = assert!(FRESH == VECTOR);

/// What the list of nodes holds at most.
///
/// Of all nodes, of whatever kind, a pass takes those that came last, and gives their rests first, then what else they lead to.
/// So what is at position `p` is at least `p / FRESH` steps deep: a rest takes the place of a node that was at its position or
/// further on, and is no less deep (a chain's rest is as deep as the chain: only that keeps its position); what comes behind the
/// rests is at most as far on as the node that led there and `PASS` more, and one step deeper.
const WAITING: usize = FRESH * (DEPTH + 1);

/// What lists of leaves hold together: they are emptied before the next pass.
pub(super) const LEAVES: usize = FRESH;

/// References with the packets they are for.
pub(crate) struct List<const N: usize> {
    references: Words<N>,
    packets: Words<N>,
}

impl<const N: usize> List<N> {
    const fn new() -> Self {
        List { references: MaybeUninit::uninit(), packets: MaybeUninit::uninit() }
    }

    /// # Safety
    /// It has been written.
    #[inline(always)]
    pub(super) unsafe fn reference(&self, item: usize) -> u32 {
        debug_assert!(item < N);
        // SAFETY: the caller's promise.
        unsafe { self.references.as_ptr().cast::<u32>().add(item).read() }
    }

    /// # Safety
    /// It has been written.
    #[inline(always)]
    pub(super) unsafe fn packet(&self, item: usize) -> usize {
        debug_assert!(item < N);
        // SAFETY: the caller's promise.
        unsafe { self.packets.as_ptr().cast::<u32>().add(item).read() as usize }
    }

    /// The beginnings of both arrays, for reading.
    #[inline(always)]
    pub(super) fn pointers(&self) -> (*const u32, *const u32) {
        (self.references.as_ptr().cast(), self.packets.as_ptr().cast())
    }

    /// The beginnings of both arrays, for writing.
    #[inline(always)]
    pub(super) fn pointers_mut(&mut self) -> (*mut u32, *mut u32) {
        (self.references.as_mut_ptr().cast(), self.packets.as_mut_ptr().cast())
    }

    /// Writes an item.
    ///
    /// # Safety
    /// There are as many.
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

/// What a pass has given, unsorted; or leaves.
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
    /// How much is in each, by kind, nodes of both as [`BITS`]; the first is of no kind.
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

    /// The leaves of a size, which are in the list no more.
    #[inline(always)]
    pub(super) fn take_leaves(&mut self, size: usize) -> (usize, &Raw) {
        (std::mem::take(&mut self.counts[1 + size]), &self.leaves[size])
    }

    /// The long leaves, which are in the list no more.
    #[inline(always)]
    pub(super) fn take_long(&mut self) -> (usize, &Raw) {
        (std::mem::take(&mut self.counts[LONG as usize]), &self.long)
    }

    /// The dense leaves, which are in the list no more.
    #[inline(always)]
    pub(super) fn take_dense(&mut self) -> (usize, &Raw) {
        (std::mem::take(&mut self.counts[DENSE as usize]), &self.dense)
    }

    /// The nodes.
    #[inline(always)]
    pub(super) fn nodes(&self) -> (usize, &Nodes) {
        (self.counts[BITS as usize], &self.nodes)
    }

    /// Takes so many nodes off the end.
    #[inline(always)]
    pub(super) fn drop_nodes(&mut self, count: usize) {
        self.counts[BITS as usize] -= count;
    }

    /// Whether one more that is noted at a place of a list, or a group that counts as far as it is chosen, stays inside.
    #[inline(always)]
    pub(super) fn has_room(kind: u32, place: usize) -> bool {
        place <= if kind == BITS { WAITING } else { LEAVES }
    }

    /// The arrays of a kind.
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

/// The kinds of references that have lists of their own.
pub(super) const KINDS: [u32; 6] = [1, 2, 3, BITS, LONG, DENSE];

// Nodes of both kinds differ in one bit.
const _: () = assert!(BITS & 1 == 0 && CUT == BITS | 1 && LONG > CUT && DENSE > CUT);

/// Uninitialised memory for numbers.
pub(crate) type Words<const N: usize> = MaybeUninit<[u32; N]>;
