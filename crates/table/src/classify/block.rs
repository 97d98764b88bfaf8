//! How nodes and leaves lie in the arena.
//!
//! A *reference* names a block by its unit, and tells by its lowest three bits what kind of block it is: blocks are
//! aligned to at least 128 octets, so these bits are free. The reference zero leads nowhere.
//!
//! ```text
//! bits node   masks 48 · slots 4 · rest 4 · first place 8 · built 4 · rules 4 · open 4 · room 4 · slots…
//! cut node    lane 4, 44 unused ·    as above                                                         · ends 56 · slots…
//! hash node   masks 48, the last with a bit that no packet has · as above                             · 56 unused · slots…
//! leaf        masks, 8 for each word of a packet · lane 1 · rules 1 · … · values 2… · cares 2… · low ends 2… · spans 2… ·
//!             records 4…
//! record      low ends of lanes · spans of lanes · entry 16: place 8, identity 4, exact 4 (IPv6: the entry before the spans)
//! long leaf   groups 4, 60 unused · groups of lanes, 128 each: low ends 64, spans 64 · entries
//! dense leaf  pointer 8
//! exact       source: low, high · destination: low, high · DSCP 4 · interfaces 4 · interface 4, …
//! ```

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::lpm::arena::{Block, UNIT};

use super::address::Address;

/// The bits of a reference that tell the kind of block.
pub(super) const KINDS: u32 = 7;

/// A leaf of the second kind of size is one more, and so on.
pub(super) const LEAF: u32 = 1;

/// A node whose slot is picked by some bits of a packet.
pub(super) const BITS: u32 = 4;

/// A node that picks a slot by the interval that a lane of a packet lies in, or by a hash of bits of it.
pub(super) const CUT: u32 = 5;

/// A leaf of any size.
pub(super) const LONG: u32 = 6;

/// A leaf whose rules are outside of the arena.
pub(super) const DENSE: u32 = 7;

/// The least octets of a block.
pub(super) const LEAST: usize = 128;

/// Octets of a group of lanes.
pub(super) const GROUP: usize = 128;

/// Octets before the groups of a long leaf.
pub(super) const LONG_HEADER: usize = 64;

/// Octets of a node before its slots, or before the ends of a cut node.
pub(super) const HEADER: usize = 80;

/// Where intervals of a cut node end, at most.
pub(super) const ENDS: usize = 28;

/// Octets of a cut node before its slots.
pub(super) const CUT_HEADER: usize = HEADER + 2 * ENDS;

/// Where in a node a word is that refers to something.
pub(super) mod at {
    pub(crate) const REST: usize = 52;
}

/// In a node: it does not part rules.
pub(super) const CHAIN: u32 = u32::MAX;

/// Nodes that part rules on a way from the root to a leaf, at most.
pub(super) const PARTED: usize = 20;

/// Nodes on a way from the root to a leaf, at most. Below those that part rules, leaves that nothing parts nest: a chain, one
/// of rules that name many interfaces inside of its link, and new rules before a dense leaf, which are a dense leaf with new
/// rules before it when they are a sixteenth of it, down to those that a leaf holds.
pub(super) const DEPTH: usize = PARTED + 6;

/// A rule, beside its lanes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Entry {
    pub(super) place: u64,
    pub(super) identity: u32,
    pub(super) exact: u32,
}

/// What begins a node. Readers see no more of it; slots follow.
#[repr(C)]
pub(super) struct Node {
    pub(super) masks: [u64; 6],
    pub(super) slots: u32,
    pub(super) rest: AtomicU32,
    pub(super) first: AtomicU64,
    pub(super) built: u32,
    pub(super) rules: AtomicU32,
    pub(super) open: u32,
    /// Rules that a link of a chain has room for.
    pub(super) room: u32,
}

/// The part of a rule that lanes do not show.
#[repr(C)]
pub(super) struct Exact<K> {
    pub(super) source: [K; 2],
    pub(super) destination: [K; 2],
    /// [`ANY`] for any.
    pub(super) dscp: u32,
    /// How many follow, in order; [`ANY`] for any.
    pub(super) interfaces: u32,
}

/// Interfaces that a rule may ask for, at most: as many as a block has room for.
pub(super) const MOST_INTERFACES: usize = 16_000;

/// In [`Exact`]: nothing is asked for.
pub(super) const ANY: u32 = u32::MAX;

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Exact<u128>>() + 4 * MOST_INTERFACES <= 1 << 16);
    assert!(offset_of!(Node, rest) == at::REST && size_of::<Node>() == HEADER && size_of::<Entry>() == 16);
};

/// Takes a reference apart: the kind, and the block.
pub(super) fn split(reference: u32) -> (u32, Block) {
    (reference & KINDS, Block(reference & !KINDS))
}

/// The reference to a block of a kind.
pub(super) fn join(kind: u32, block: Block) -> u32 {
    debug_assert!(block.0 & KINDS == 0 && kind <= KINDS);
    block.0 | kind
}

/// Where a block begins.
///
/// # Safety
/// The reference is to a block of the arena that begins at `base`.
#[inline(always)]
pub(super) unsafe fn start(base: *const u8, reference: u32) -> *const u8 {
    // SAFETY: the caller's promise.
    unsafe { base.add((reference & !KINDS) as usize * UNIT) }
}

/// Octets of a leaf that has room for so many rules.
pub(super) const fn leaf_octets<K: Address>(room: usize) -> usize {
    leaf_keys::<K>(room) + 12 * room
}

/// Where in such a leaf its keys begin: vectors of them are aligned.
pub(super) const fn leaf_keys<K: Address>(room: usize) -> usize {
    if room == 32 { 64 } else { K::LEAF_HEADER }
}

/// Octets of a long leaf of so many groups.
pub(super) const fn long_octets<K: Address>(groups: usize) -> usize {
    LONG_HEADER + groups * (GROUP + 16 * K::RULES)
}

/// The most groups of a long leaf: as many as are looked at in turn in less time than a dense leaf takes.
pub(super) const fn most_groups<K: Address>() -> usize {
    64 / K::RULES / if K::RULES == 1 { 2 } else { 1 }
}
