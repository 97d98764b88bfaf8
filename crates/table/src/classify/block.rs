//! Layout of nodes and leaves in the arena.
//!
//! A *reference* holds the unit of a block, and in its lowest three bits the kind of block: blocks are aligned to at
//! least 128 octets, so these bits are free. The reference 0 means no block.
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
//! exact       source: low, high · destination: low, high · DSCP and mark: bits 4, value 4 · interfaces 4 · interface 4, …
//! ```

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::lpm::arena::{Block, UNIT};

use super::address::Address;

/// Kind bits of a reference.
pub(super) const KINDS: u32 = 7;

/// Kind of the smallest leaf; larger sizes follow.
pub(super) const LEAF: u32 = 1;

/// Kind of a node that selects a slot by bits of a packet.
pub(super) const BITS: u32 = 4;

/// Kind of a node that selects a slot by the interval of a lane, or by a hash of bits.
pub(super) const CUT: u32 = 5;

/// Kind of a leaf of any size.
pub(super) const LONG: u32 = 6;

/// Kind of a bit-vector leaf, whose rules are outside of the arena.
pub(super) const DENSE: u32 = 7;

/// Octets of the smallest block.
pub(super) const LEAST: usize = 128;

/// Octets of a group of lanes.
pub(super) const GROUP: usize = 128;

/// Octets in front of the groups of a long leaf.
pub(super) const LONG_HEADER: usize = 64;

/// Octets of a node in front of its slots, or of the ends of a cut node.
pub(super) const HEADER: usize = 80;

/// Largest number of interval ends of a cut node.
pub(super) const ENDS: usize = 28;

/// Octets of a cut node in front of its slots.
pub(super) const CUT_HEADER: usize = HEADER + 2 * ENDS;

/// Offsets of the references in a node.
pub(super) mod at {
    pub(crate) const REST: usize = 52;
}

/// Marks a node that does not separate rules.
pub(super) const CHAIN: u32 = u32::MAX;

/// Largest number of separating nodes on a path from the root to a leaf.
pub(super) const PARTED: usize = 20;

/// Largest number of nodes on a path from the root to a leaf. Below separating nodes, leaves that nothing separates
/// nest: a chain; a chain of rules with many interfaces inside its link; and new rules before a bit-vector leaf, which
/// form such a leaf with new rules before it when they are a sixteenth of it, down to a leaf.
pub(super) const DEPTH: usize = PARTED + 6;

/// The entry of a rule, apart from its lanes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Entry {
    pub(super) place: u64,
    pub(super) identity: u32,
    pub(super) exact: u32,
}

/// The start of a node, as far as readers see it; slots follow.
#[repr(C)]
pub(super) struct Node {
    pub(super) masks: [u64; 6],
    pub(super) slots: u32,
    pub(super) rest: AtomicU32,
    pub(super) first: AtomicU64,
    pub(super) built: u32,
    pub(super) rules: AtomicU32,
    pub(super) open: u32,
    /// Largest number of rules of a chain link.
    pub(super) room: u32,
}

/// The fields of a rule that lanes do not represent.
#[repr(C)]
pub(super) struct Exact<K> {
    pub(super) source: [K; 2],
    pub(super) destination: [K; 2],
    /// DSCP and mark: the bits that count, and their values.
    pub(super) outer: (u32, u32),
    /// Number of interfaces that follow, in order; [`ANY`] for any.
    pub(super) interfaces: u32,
}

/// Largest number of interfaces of a rule: as many as fit a block.
pub(super) const MOST_INTERFACES: usize = 16_000;

/// In [`Exact`]: any value matches.
pub(super) const ANY: u32 = u32::MAX;

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Exact<u128>>() + 4 * MOST_INTERFACES <= 1 << 16);
    assert!(offset_of!(Node, rest) == at::REST && size_of::<Node>() == HEADER && size_of::<Entry>() == 16);
};

/// Splits a reference into kind and block.
pub(super) fn split(reference: u32) -> (u32, Block) {
    (reference & KINDS, Block(reference & !KINDS))
}

/// Returns the reference to a block of a kind.
pub(super) fn join(kind: u32, block: Block) -> u32 {
    debug_assert!(block.0 & KINDS == 0 && kind <= KINDS);
    block.0 | kind
}

/// Returns the start of a block.
///
/// # Safety
/// The reference is to a block of the arena that begins at `base`.
#[inline(always)]
pub(super) unsafe fn start(base: *const u8, reference: u32) -> *const u8 {
    // SAFETY: the caller's promise.
    unsafe { base.add((reference & !KINDS) as usize * UNIT) }
}

/// Returns the octets of a leaf for `room` rules.
pub(super) const fn leaf_octets<K: Address>(room: usize) -> usize {
    leaf_keys::<K>(room) + 12 * room
}

/// Returns the offset of the keys of such a leaf, aligned for vectors.
pub(super) const fn leaf_keys<K: Address>(room: usize) -> usize {
    if room == 32 { 64 } else { K::LEAF_HEADER }
}

/// Returns the octets of a long leaf of `groups` groups.
pub(super) const fn long_octets<K: Address>(groups: usize) -> usize {
    LONG_HEADER + groups * (GROUP + 16 * K::RULES)
}

/// Returns the largest number of groups of a long leaf: searching them takes less time than a bit-vector leaf.
pub(super) const fn most_groups<K: Address>() -> usize {
    64 / K::RULES / if K::RULES == 1 { 2 } else { 1 }
}
