//! Operations of lookup bodies with special instructions on some CPUs.

use super::super::address::Address;
use super::super::block::ENDS;
use super::super::ends::Below;
use super::super::fields::Fields;
use super::lists::{GROUP, Lists, PASS, Raw, Words};

/// Extracts bits by an instruction; a value proves that the CPU has it.
pub(crate) trait Extract: Copy {
    /// Returns the bits of a word that a mask selects, adjacent.
    fn extract(self, word: u64, mask: u64) -> u64;
}

/// Operations with special instructions on some CPUs.
pub(crate) trait Isa: Below {
    /// Lanes of a packet, repeated for each rule of a group.
    type Lanes: Copy;

    /// 512 bits.
    type Bits: Copy;

    /// # Safety
    /// The CPU has the features of the implementation.
    unsafe fn lanes<K: Address>(packet: &Fields<K>) -> Self::Lanes;

    /// Returns one bit for each 64 bits of a group: set if the lanes of the packet match there.
    ///
    /// # Safety
    /// The CPU has the features of the implementation. A group begins at `group`, and no thread writes there.
    unsafe fn matching<K: Address>(packet: Self::Lanes, group: *const u8) -> u8;

    /// Returns one bit for each of `N` rules of a leaf: set if the bits and the value of a packet match its key.
    ///
    /// # Safety
    /// The CPU has the features of the implementation. The keys of a leaf for `N` rules begin at `keys`, and no thread
    /// writes there.
    unsafe fn keys<const N: usize>(keys: *const u8, bits: u16, value: u16) -> u32;

    /// Returns whether a packet matches the lanes of a record.
    ///
    /// # Safety
    /// The CPU has the features of the implementation. A record begins at `record`, and no thread writes there.
    unsafe fn matches<K: Address>(packet: &Fields<K>, record: *const u8) -> bool;

    /// Returns a compared lane.
    ///
    /// # Safety
    /// The CPU has the features of the implementation, and a packet has this lane.
    unsafe fn lane<K: Address>(packet: &Fields<K>, lane: usize) -> u16;

    /// Returns all ones if a condition holds, else 0, without a branch, which would be unpredictable.
    fn mask(condition: bool) -> u32;

    /// Returns the bits of a word that a mask selects, adjacent.
    ///
    /// # Safety
    /// The CPU has the features of the implementation.
    unsafe fn extract(word: u64, mask: u64) -> u64;

    /// Returns the number of interval ends below a value.
    ///
    /// # Safety
    /// The CPU has the features of the implementation. The ends are readable, and no thread writes there.
    unsafe fn below(ends: *const [u16; ENDS], value: u16) -> usize;

    /// Returns all 512 bits set.
    ///
    /// # Safety
    /// The CPU has the features of the implementation.
    unsafe fn all() -> Self::Bits;

    /// Returns the AND of a vector and eight words in memory.
    ///
    /// # Safety
    /// The CPU has the features of the implementation. Eight words begin there, in one cache line.
    unsafe fn meet(bits: Self::Bits, words: *const [u64; 8]) -> Self::Bits;

    /// Returns one bit for each of eight words: set if the word is not 0.
    ///
    /// # Safety
    /// The CPU has the features of the implementation.
    unsafe fn words(bits: Self::Bits) -> u8;

    /// Appends non-zero references to the lists of their kinds.
    ///
    /// # Safety
    /// The CPU has the features of the implementation. The first `count` of `raw` are written, and a group more is
    /// readable. The lists have room.
    unsafe fn sort(raw: &Raw, count: usize, lists: &mut Lists);

    /// Separates both kinds of nodes: writes the numbers of each, in order, and returns their counts.
    ///
    /// # Safety
    /// The CPU has the features of the implementation. At most [`PASS`] references are there.
    unsafe fn part(references: *const u32, count: usize, of_bits: &mut Order, of_cut: &mut Order) -> (usize, usize);
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx512() -> bool {
    // All features that any body is compiled for: a hypervisor may hide some.
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

/// Numbers of the nodes of a pass, and a group more.
pub(crate) type Order = Words<{ PASS + GROUP }>;
