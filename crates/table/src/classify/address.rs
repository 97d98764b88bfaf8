//! Address families of classifiers.

use crate::lpm::Key;

use super::ends::Sought;
use super::fields::Fields;
use super::rule::{Rule, Span};

/// Largest number of 64-bit words of the fields of a packet; IPv4 uses the first three.
pub(crate) const WORDS: usize = 6;

/// 16-bit lanes that are compared together: a vector register of 512 bits.
pub(crate) const LANES: usize = 32;

/// An address family of classifiers: `u32` for IPv4, `u128` for IPv6.
///
/// The hidden items are the layout of fields and the number of rules per block.
pub trait Address: Key + Sought {
    /// Returns the next address; `None` after the last.
    fn next(self) -> Option<Self>;

    /// Returns the previous address; `None` before the first.
    fn before(self) -> Option<Self>;

    /// Number of words in use.
    #[doc(hidden)]
    const WORDS: usize;
    /// Octets at the start of [`Fields`] that are compared as lanes.
    #[doc(hidden)]
    const COMPARED: usize;
    /// Rules per group of lanes.
    #[doc(hidden)]
    const RULES: usize;
    /// Rules per leaf, by the three sizes of leaves.
    #[doc(hidden)]
    const LEAVES: [usize; 3];
    /// Octets of a leaf in front of its keys.
    #[doc(hidden)]
    const LEAF_HEADER: usize;
    /// Octets of a record in front of its spans, and in front of its entry.
    #[doc(hidden)]
    const RECORD: (usize, usize);
    /// One bit for every 32 bits of a group with flags, protocol and traits, which are compared by mask.
    #[doc(hidden)]
    const MASKED: u16;

    /// Returns the words of a packet: addresses; ports, flags, protocol and traits; interface, DSCP and mark.
    #[doc(hidden)]
    fn words(packet: &Fields<Self>) -> [u64; WORDS];

    /// Words with all bits of the source set, or of the destination.
    #[doc(hidden)]
    const SIDES: [[u64; WORDS]; 2];

    /// Returns the number of leading bits that two addresses share.
    #[doc(hidden)]
    fn common(self, other: Self) -> u8;

    /// Returns the lanes of an address, the lowest first.
    #[doc(hidden)]
    fn lanes(self) -> [u16; 8];

    /// Returns the spans of both addresses.
    #[doc(hidden)]
    fn addresses(rule: &Rule<Self>) -> [Span<Self>; 2] {
        [rule.source, rule.destination]
    }
}

impl Address for u32 {
    fn next(self) -> Option<u32> {
        self.checked_add(1)
    }

    fn before(self) -> Option<u32> {
        self.checked_sub(1)
    }

    const WORDS: usize = 3;
    const COMPARED: usize = 16;
    const RULES: usize = 4;
    const LEAVES: [usize; 3] = [8, 16, 32];
    const LEAF_HEADER: usize = 32;
    const RECORD: (usize, usize) = (16, 32);
    const MASKED: u16 = 0x8888;
    const SIDES: [[u64; WORDS]; 2] = [[0xffff_ffff, 0, 0, 0, 0, 0], [0xffff_ffff_0000_0000, 0, 0, 0, 0, 0]];

    #[inline(always)]
    fn words(packet: &Fields<u32>) -> [u64; WORDS] {
        let addresses = u64::from(packet.source) | u64::from(packet.destination) << 32;
        [addresses, packet.ports_and_more(), packet.outer(), 0, 0, 0]
    }

    fn common(self, other: u32) -> u8 {
        (self ^ other).leading_zeros() as u8
    }

    fn lanes(self) -> [u16; 8] {
        [self as u16, (self >> 16) as u16, 0, 0, 0, 0, 0, 0]
    }
}

impl Address for u128 {
    fn next(self) -> Option<u128> {
        self.checked_add(1)
    }

    fn before(self) -> Option<u128> {
        self.checked_sub(1)
    }

    const WORDS: usize = 6;
    const COMPARED: usize = 40;
    const RULES: usize = 1;
    // A smaller leaf would take a block of the same size.
    const LEAVES: [usize; 3] = [16, 16, 32];
    const LEAF_HEADER: usize = 64;
    const RECORD: (usize, usize) = (64, 40);
    const MASKED: u16 = 1 << 9;
    const SIDES: [[u64; WORDS]; 2] = [[u64::MAX, u64::MAX, 0, 0, 0, 0], [0, 0, u64::MAX, u64::MAX, 0, 0]];

    #[inline(always)]
    fn words(packet: &Fields<u128>) -> [u64; WORDS] {
        let (source, destination) = (packet.source, packet.destination);
        [
            source as u64,
            (source >> 64) as u64,
            destination as u64,
            (destination >> 64) as u64,
            packet.ports_and_more(),
            packet.outer(),
        ]
    }

    fn common(self, other: u128) -> u8 {
        (self ^ other).leading_zeros() as u8
    }

    fn lanes(self) -> [u16; 8] {
        std::array::from_fn(|lane| (self >> (16 * lane)) as u16)
    }
}
