//! Keys and routes for measurements and long tests.

use weir_base::random::Random;

use super::key::{Key, Prefix};

/// Draws random addresses of a family.
pub trait Draw: Key {
    /// A uniformly random address.
    fn draw(random: &mut Random) -> Self;

    /// The address with its bits past `len` replaced by those of `tail`.
    #[must_use]
    fn splice(self, len: u8, tail: Self) -> Self;

    /// The octets of the address as they stand in a packet.
    fn octets(self, out: &mut Vec<u8>);
}

impl Draw for u32 {
    fn draw(random: &mut Random) -> u32 {
        random.next() as u32
    }

    fn splice(self, len: u8, tail: u32) -> u32 {
        self.truncate(len) | (tail & !u32::MAX.truncate(len))
    }

    fn octets(self, out: &mut Vec<u8>) {
        out.extend(self.to_be_bytes());
    }
}

impl Draw for u128 {
    fn draw(random: &mut Random) -> u128 {
        u128::from(random.next()) << 64 | u128::from(random.next())
    }

    fn splice(self, len: u8, tail: u128) -> u128 {
        self.truncate(len) | (tail & !u128::MAX.truncate(len))
    }

    fn octets(self, out: &mut Vec<u8>) {
        out.extend(self.to_be_bytes());
    }
}

/// Uniformly random addresses.
pub fn uniform<K: Draw>(count: usize, random: &mut Random) -> Vec<K> {
    (0..count).map(|_| K::draw(random)).collect()
}

/// Addresses under random ones of the prefixes, with random bits past the prefix.
///
/// # Panics
/// If there are no prefixes.
pub fn inside<K: Draw>(prefixes: &[Prefix<K>], count: usize, random: &mut Random) -> Vec<K> {
    assert!(!prefixes.is_empty(), "keys need prefixes to lie in");
    (0..count).map(|_| inside_one(&prefixes[random.below(prefixes.len() as u64) as usize], random)).collect()
}

/// A random address under a prefix.
pub fn inside_one<K: Draw>(prefix: &Prefix<K>, random: &mut Random) -> K {
    prefix.address().splice(prefix.len(), K::draw(random))
}
