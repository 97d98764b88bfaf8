//! Keys, and their hash under a secret.

use std::fmt::Debug;

/// The secret of a table's hash. It is never printed.
#[derive(Clone, Copy)]
pub struct Secret([u64; 4]);

impl Secret {
    /// Creates the secret of these random words.
    pub const fn new(random: [u64; 4]) -> Secret {
        // Odd, so that the last multiplication loses nothing.
        let [a, b, c, d] = random;
        Secret([a, b, c, d | 1])
    }

    /// Returns the hash of words, of an even number: all 64 bits depend on all of the words and of the secret.
    #[inline(always)]
    pub(crate) fn hash<const W: usize>(&self, words: &[u64; W]) -> u64 {
        let Secret([a, b, c, d]) = self;
        let mut state = *a;
        for [first, second] in words.as_chunks::<2>().0 {
            state = fold(first ^ state, second ^ b);
        }
        fold(state ^ c, *d)
    }
}

/// A key of a flow.
pub trait Key: Copy + Eq + Default + Debug {
    /// Returns the hash of the key: all 64 bits depend on all of the key and of the secret.
    fn hash(&self, secret: &Secret) -> u64;

    /// Returns whether both are the same key: as `==`, for keys that are compared with each packet.
    #[inline(always)]
    fn is(&self, other: &Self) -> bool {
        self == other
    }
}

/// Returns the upper half of a product folded onto the lower one.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl Key for [u64; 2] {
    #[inline(always)]
    fn hash(&self, Secret([a, b, c, d]): &Secret) -> u64 {
        let [first, second] = self;
        fold(fold(first ^ a, second ^ b) ^ c, *d)
    }
}

impl Key for [u64; 5] {
    #[inline(always)]
    fn hash(&self, Secret([a, b, c, d]): &Secret) -> u64 {
        // Source with destination, so that both meet in each product.
        let [source, source_host, destination, destination_host, rest] = self;
        let networks = fold(source ^ a, destination ^ b);
        let hosts = fold(source_host ^ b, destination_host ^ c);
        fold(fold(networks ^ rest ^ c, hosts ^ a) ^ b, *d)
    }

    /// Without the call that compares as many octets.
    #[inline(always)]
    fn is(&self, other: &Self) -> bool {
        self.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other)) == 0
    }
}
