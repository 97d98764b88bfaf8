//! Keys (addresses as numbers) and their prefixes.

use std::fmt;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u128 {}
}

/// An address family: `u32` for IPv4, `u128` for IPv6. The number is the address in big-endian order, so the first bit
/// on the wire is the most significant bit.
///
/// The constants define the shape of the trie (see the [module](super)).
pub trait Key: sealed::Sealed + Copy + Ord + Hash + fmt::Debug + Send + Sync + 'static {
    /// Number of bits of an address.
    const BITS: u8;
    /// Bits that the directory resolves.
    const DIRECTORY: u8;
    /// Bits that an array directly below the directory resolves.
    const CHUNK: u8;
    /// Bits that other arrays resolve.
    const STRIDE: u8;
    /// Bits of a frame if nodes are searched by ranges; 0 if they are indexed by bits.
    const FRAME: u8;
    /// The address 0.
    const ZERO: Self;

    /// Returns the `bits` (at most 32) bits after the first `depth`. Bits past the end of the address are 0.
    fn slot(self, depth: u8, bits: u8) -> u64;

    /// Returns the address with the `bits` bits after the first `depth`, which must be 0, set to `slot`.
    #[must_use]
    fn place(self, depth: u8, bits: u8, slot: u64) -> Self;

    /// Returns bits 0 to 63 of the address, the first one as the most significant; bits past the end are 0.
    fn upper(self) -> u64;

    /// Clears all but the first `len` bits.
    #[must_use]
    fn truncate(self, len: u8) -> Self;

    /// Sets all but the first `len` bits.
    #[must_use]
    fn saturate(self, len: u8) -> Self;

    /// Writes the address in its text form.
    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Reads the text form of an address.
    fn read(text: &str) -> Option<Self>;
}

impl Key for u32 {
    const BITS: u8 = 32;
    const DIRECTORY: u8 = 10;
    const CHUNK: u8 = 8;
    const STRIDE: u8 = 6;
    const FRAME: u8 = 0;
    const ZERO: u32 = 0;

    fn slot(self, depth: u8, bits: u8) -> u64 {
        u64::from((self << depth) >> (32 - bits))
    }

    fn place(self, depth: u8, bits: u8, slot: u64) -> u32 {
        // 64 bits have room for the bits past the end of the last block.
        self | ((slot << (64 - depth - bits)) >> 32) as u32
    }

    #[inline(always)]
    fn upper(self) -> u64 {
        u64::from(self) << 32
    }

    fn truncate(self, len: u8) -> u32 {
        self & !u32::MAX.checked_shr(u32::from(len)).unwrap_or(0)
    }

    fn saturate(self, len: u8) -> u32 {
        self | u32::MAX.checked_shr(u32::from(len)).unwrap_or(0)
    }

    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Ipv4Addr::from(self), f)
    }

    fn read(text: &str) -> Option<u32> {
        text.parse::<Ipv4Addr>().ok().map(u32::from)
    }
}

impl Key for u128 {
    const BITS: u8 = 128;
    const DIRECTORY: u8 = 16;
    const CHUNK: u8 = 8;
    const STRIDE: u8 = 8;
    const FRAME: u8 = 32;
    const ZERO: u128 = 0;

    #[inline(always)]
    fn slot(self, depth: u8, bits: u8) -> u64 {
        ((self << depth) >> (128 - bits)) as u64
    }

    fn place(self, depth: u8, bits: u8, slot: u64) -> u128 {
        self | (u128::from(slot) << (128 - bits)) >> depth
    }

    #[inline(always)]
    fn upper(self) -> u64 {
        (self >> 64) as u64
    }

    fn truncate(self, len: u8) -> u128 {
        self & !u128::MAX.checked_shr(u32::from(len)).unwrap_or(0)
    }

    fn saturate(self, len: u8) -> u128 {
        self | u128::MAX.checked_shr(u32::from(len)).unwrap_or(0)
    }

    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Ipv6Addr::from(self), f)
    }

    fn read(text: &str) -> Option<u128> {
        text.parse::<Ipv6Addr>().ok().map(u128::from)
    }
}

/// A source of a key: the number itself, or the octets of an address in a packet.
pub trait AsKey<K> {
    /// Returns the key.
    fn as_key(&self) -> K;
}

impl<K: Key> AsKey<K> for K {
    #[inline(always)]
    fn as_key(&self) -> K {
        *self
    }
}

impl AsKey<u32> for [u8; 4] {
    #[inline(always)]
    fn as_key(&self) -> u32 {
        u32::from_be_bytes(*self)
    }
}

impl AsKey<u128> for [u8; 16] {
    #[inline(always)]
    fn as_key(&self) -> u128 {
        u128::from_be_bytes(*self)
    }
}

/// An address prefix. The bits past its length are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<K> {
    address: K,
    len: u8,
}

impl<K: Key> Prefix<K> {
    /// The prefix of length 0, which contains every address.
    pub const ALL: Prefix<K> = Prefix { address: K::ZERO, len: 0 };

    /// Returns the prefix of the first `len` bits of `address`; `None` if an address has fewer bits.
    pub fn new(address: K, len: u8) -> Option<Prefix<K>> {
        (len <= K::BITS).then(|| Prefix { address: address.truncate(len), len })
    }

    /// Returns the lowest address of the prefix.
    pub fn address(&self) -> K {
        self.address
    }

    /// Returns the highest address of the prefix.
    pub fn last(&self) -> K {
        self.address.saturate(self.len)
    }

    /// Returns the length in bits.
    // A prefix is not a container, so it has no `is_empty`.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Returns whether the prefix contains `key`.
    pub fn contains(&self, key: K) -> bool {
        key.truncate(self.len) == self.address
    }

    /// Returns the prefix of the first `len` bits; itself if it is not longer.
    #[must_use]
    pub fn shorten(&self, len: u8) -> Prefix<K> {
        let len = len.min(self.len);
        Prefix { address: self.address.truncate(len), len }
    }
}

impl<K: Key> fmt::Display for Prefix<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.write(f)?;
        write!(f, "/{}", self.len)
    }
}

impl<K: Key> fmt::Debug for Prefix<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a prefix of this family: an address, a slash and a valid length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAPrefix;

impl fmt::Display for NotAPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected ADDRESS/LENGTH")
    }
}

impl std::error::Error for NotAPrefix {}

impl<K: Key> FromStr for Prefix<K> {
    type Err = NotAPrefix;

    fn from_str(text: &str) -> Result<Prefix<K>, NotAPrefix> {
        let (address, len) = text.split_once('/').ok_or(NotAPrefix)?;
        let address = K::read(address).ok_or(NotAPrefix)?;
        let len = len.parse().map_err(|_| NotAPrefix)?;
        Prefix::new(address, len).ok_or(NotAPrefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_normalised_and_checked() {
        let prefix: Prefix<u32> = "10.1.2.3/8".parse().unwrap();
        assert_eq!(prefix.to_string(), "10.0.0.0/8");
        assert_eq!(prefix.last(), 0x0aff_ffff);
        assert!(prefix.contains(0x0a00_0001) && !prefix.contains(0x0b00_0000));
        assert_eq!("10.0.0.0/33".parse::<Prefix<u32>>(), Err(NotAPrefix));
        assert_eq!(Prefix::<u128>::new(0, 129), None);
        assert_eq!("2001:db8::1/128".parse::<Prefix<u128>>().unwrap().to_string(), "2001:db8::1/128");
        assert!(Prefix::<u128>::ALL.contains(u128::MAX) && Prefix::<u32>::ALL.contains(u32::MAX));
    }

    #[test]
    fn slots_are_the_bits_at_a_depth() {
        let key = 0x1234_5678_9abc_def0_0fed_cba9_8765_4321_u128;
        assert_eq!((key.slot(0, 12), key.slot(12, 12), key.slot(24, 8)), (0x123, 0x456, 0x78));
        assert_eq!((key.slot(56, 8), key.slot(64, 8), key.slot(120, 8)), (0xf0, 0x0f, 0x21));
        assert_eq!(u32::MAX.slot(30, 6), 0b11_0000);
        assert_eq!(u128::MAX.slot(124, 6), 0b11_1100);
        assert_eq!((key.slot(16, 32), key.slot(112, 32)), (0x5678_9abc, 0x4321_0000));
    }

    #[test]
    fn a_slot_is_put_where_it_is_found() {
        let key = 0x1234_5678_9abc_def0_0fed_cba9_8765_4321_u128;
        for (depth, bits) in [(0, 16), (16, 8), (16, 32), (48, 32), (80, 32), (112, 32)] {
            let placed = key.truncate(depth).place(depth, bits, key.slot(depth, bits));
            assert_eq!(placed, key.truncate((depth + bits).min(128)));
        }
        let key = 0x1234_5678_u32;
        for (depth, bits) in [(0, 10), (10, 8), (18, 6), (24, 6), (30, 6)] {
            let placed = key.truncate(depth).place(depth, bits, key.slot(depth, bits));
            assert_eq!(placed, key.truncate((depth + bits).min(32)));
        }
    }
}
