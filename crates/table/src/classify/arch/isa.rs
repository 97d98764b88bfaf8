//! The instructions of a CPU that bodies of lookups need.

use super::super::address::Address;
use super::super::block::ENDS;
use super::super::ends::Below;
use super::super::fields::Fields;
use super::lists::{GROUP, Lists, PASS, Raw, Words};

/// Extracts bits by the instruction that a value of the type proves the CPU to have.
pub(crate) trait Extract: Copy {
    /// The bits of a word that a mask has, side by side.
    fn extract(self, word: u64, mask: u64) -> u64;
}

/// Steps for which a CPU may have special instructions.
pub(crate) trait Isa: Below {
    /// Lanes of a packet, as often as a group has rules.
    type Lanes: Copy;

    /// 512 bits.
    type Bits: Copy;

    /// # Safety
    /// The CPU has what the implementation is named for.
    unsafe fn lanes<K: Address>(packet: &Fields<K>) -> Self::Lanes;

    /// A bit for each 64 bits of a group: whether the lanes of the packet match there.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; a group begins at `group`, and nobody writes there.
    unsafe fn matching<K: Address>(packet: Self::Lanes, group: *const u8) -> u8;

    /// A bit for each of `N` rules of a leaf: whether the bits and the value of a packet match its key.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; the keys of a leaf that has room for `N` rules begin at `keys`,
    /// and nobody writes there.
    unsafe fn keys<const N: usize>(keys: *const u8, bits: u16, value: u16) -> u32;

    /// Whether a packet matches the lanes of a record.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; there is a record at `record`, and nobody writes there.
    unsafe fn matches<K: Address>(packet: &Fields<K>, record: *const u8) -> bool;

    /// A lane of the compared ones.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for, and a packet has as many lanes.
    unsafe fn lane<K: Address>(packet: &Fields<K>, lane: usize) -> u16;

    /// All ones, if a condition holds, else zero: without a branch, since no predictor knows whether it does.
    fn mask(condition: bool) -> u32;

    /// The bits of a word that a mask has, side by side.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for.
    unsafe fn extract(word: u64, mask: u64) -> u64;

    /// How many ends of intervals are below a value.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; the ends are readable, and nobody writes there.
    unsafe fn below(ends: *const [u16; ENDS], value: u16) -> usize;

    /// All 512 bits.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for.
    unsafe fn all() -> Self::Bits;

    /// The common bits of a vector and of eight words in memory.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; there are eight words, in a line of memory.
    unsafe fn meet(bits: Self::Bits, words: *const [u64; 8]) -> Self::Bits;

    /// A bit for each of eight words that is not zero.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for.
    unsafe fn words(bits: Self::Bits) -> u8;

    /// Adds references that lead somewhere to the lists of their kinds.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; the first `count` of `raw` are written, and a group more may be
    /// read; the lists have room.
    unsafe fn sort(raw: &Raw, count: usize, lists: &mut Lists);

    /// Separates nodes of both kinds: writes the numbers of each, in order, and says how many there are.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; there are so many references, at most [`PASS`].
    unsafe fn part(references: *const u32, count: usize, of_bits: &mut Order, of_cut: &mut Order) -> (usize, usize);
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx512() -> bool {
    // All that any body is compiled for: a hypervisor may leave out some.
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

/// Numbers of nodes that a pass takes, and a group more.
pub(crate) type Order = Words<{ PASS + GROUP }>;
