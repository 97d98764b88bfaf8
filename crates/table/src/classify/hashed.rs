//! Selection of slots by a hash: for rules that decide the same many bits with different values, such as hosts whose
//! addresses differ in few bits. A dozen bits would separate few of them.

use super::address::{Address, WORDS};
use super::block::Node;
use super::fields::Fields;

/// Flag in the last word of the masks of a node: a hash of the other bits selects the slot. Packets do not have this
/// bit. The other bits of the word are the seed of the hash.
pub(super) const HASHED: u64 = 1 << 63;

/// Returns whether a node selects slots by a hash.
#[inline(always)]
pub(super) fn is_hashed<K: Address>(masks: &[u64; WORDS]) -> bool {
    masks[K::WORDS - 1] & HASHED != 0
}

/// Returns the hash of the bits of a packet that masks select.
#[inline(always)]
pub(super) fn hash<K: Address>(words: &[u64; WORDS], masks: &[u64; WORDS]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = masks[K::WORDS - 1].wrapping_mul(ODD);
    for (word, mask) in words.iter().zip(masks).take(K::WORDS - 1) {
        hash = (hash.rotate_left(29) ^ (word & mask)).wrapping_mul(ODD);
    }
    hash
}

/// Returns whether a rule decides all bits that masks select.
pub(super) fn decides<K: Address>(known: &[u64; WORDS], masks: &[u64; WORDS]) -> bool {
    masks.iter().zip(known).take(K::WORDS - 1).all(|(mask, known)| mask & !known == 0)
}

/// Returns the slot of a node that a packet selects. Out of line: most sets have no such node, and other loops are
/// slower with it.
#[cold]
#[inline(never)]
pub(super) fn slot_of<K: Address>(node: &Node, packet: &Fields<K>) -> usize {
    slot::<K>(&K::words(packet), &node.masks, node.slots as usize)
}

/// Returns the slot that a packet selects among `slots`.
#[inline(always)]
pub(super) fn slot<K: Address>(words: &[u64; WORDS], masks: &[u64; WORDS], slots: usize) -> usize {
    // The upper half depends on all bits.
    (((hash::<K>(words, masks) >> 32) * slots as u64) >> 32) as usize
}
