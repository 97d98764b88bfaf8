//! Injected randomness. Seeds come from the operating system in a live gateway, from the user in replays and tests.
//!
//! [`Random`] is fast and predictable: for generated traffic, samples and tests. [`SecureRandom`] is cryptographic: for
//! hash keys and for values that leave the gateway, such as identifications of fragments and times of messages.
//!
//! A gateway has one [`Entropy`]. Each consumer opens a numbered stream of its own. The output of one stream says
//! nothing about another.

use chacha20::ChaCha8Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// The 256 secret bits behind all streams of a gateway.
#[derive(Clone)]
pub struct Entropy([u8; 32]);

impl Entropy {
    /// Expands a seed. Equal seeds give equal streams, in every release of weir.
    pub fn from_seed(seed: u64) -> Entropy {
        let mut random = Random::from_seed(seed);
        let mut key = [0; 32];
        for word in key.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        Entropy(key)
    }

    /// Reads 256 bits from the operating system.
    ///
    /// # Errors
    /// If the operating system has no randomness.
    pub fn from_system() -> std::io::Result<Entropy> {
        let mut key = [0; 32];
        let mut filled = 0;
        while filled < key.len() {
            filled += rustix::rand::getrandom(&mut key[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Entropy(key))
    }

    /// Opens a stream at its start. Consumers with the same number get equal sequences.
    pub fn stream(&self, number: u64) -> SecureRandom {
        let mut generator = ChaCha8Rng::from_seed(self.0);
        generator.set_stream(number);
        SecureRandom(generator)
    }
}

impl std::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entropy(..)")
    }
}

/// A cryptographic generator: ChaCha with 8 rounds, computed 256 octets at a time. Its numbers cannot be computed from
/// others.
#[derive(Debug)]
pub struct SecureRandom(ChaCha8Rng);

impl SecureRandom {
    /// Returns 64 random bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "a generator never ends: as an iterator it would promise an option"
    )]
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a uniform number in `0..bound`, with the bias of [`Random::below`]; 0 for a bound of 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        scaled(self.next(), bound)
    }

    /// Returns 64-bit words for hash keys.
    pub fn words<const N: usize>(&mut self) -> [u64; N] {
        std::array::from_fn(|_| self.next())
    }
}

/// Maps 64 random bits to `0..bound` by multiplication.
#[inline]
fn scaled(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

/// A fast generator for sampling, generated traffic and tests. Not for secrets or values that other systems can see.
#[derive(Debug, Clone)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Expands a seed. Equal seeds give equal sequences, in every release of weir.
    pub fn from_seed(seed: u64) -> Self {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns 64 random bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "a generator never ends: as an iterator it would promise an option"
    )]
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a uniform number in `0..bound`, by multiplication; 0 for a bound of 0. The bias is below 2⁻³² for bounds
    /// below 2³².
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        scaled(self.next(), bound)
    }

    /// Returns `true` with this probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        ((self.next() >> 11) as f64) * (1.0 / (1u64 << 53) as f64) < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_decide_the_sequence() {
        let mut a = Random::from_seed(7);
        let mut b = Random::from_seed(7);
        assert!((0..100).all(|_| a.next() == b.next()));
        assert_ne!(Random::from_seed(8).next(), Random::from_seed(7).next());
    }

    #[test]
    fn each_stream_is_its_own_and_comes_again() {
        let entropy = Entropy::from_seed(7);
        let first: [u64; 100] = entropy.stream(1).words();
        assert_eq!(first, Entropy::from_seed(7).stream(1).words());
        assert_ne!(first, entropy.stream(2).words());
        assert_ne!(first, Entropy::from_seed(8).stream(1).words());
        let system = || Entropy::from_system().unwrap().stream(1).next();
        assert_ne!(system(), system());
        assert_eq!(format!("{entropy:?}"), "Entropy(..)", "a log line gives no key away");
    }

    /// Replays of all releases depend on the sequence.
    #[test]
    fn streams_are_those_of_chacha8() {
        // The first block of ChaCha8 under a key of zeros (draft-strombergson-chacha-test-vectors-01, TC1), in words.
        assert_eq!(Entropy([0; 32]).stream(0).next().to_le_bytes(), [0x3e, 0x00, 0xef, 0x2f, 0x89, 0x5f, 0x40, 0xd6]);
    }

    #[test]
    fn secure_numbers_stay_below_their_bound() {
        let mut random = Entropy::from_seed(1).stream(0);
        assert!((0..1000).all(|_| random.below(10) < 10));
        assert_eq!(random.below(0), 0);
        let low = (0..100_000).filter(|_| random.below(4) == 0).count();
        assert!((24_000..26_000).contains(&low), "{low}");
    }

    #[test]
    fn below_stays_below_and_chance_is_fair() {
        let mut random = Random::from_seed(1);
        assert!((0..1000).all(|_| random.below(10) < 10));
        assert_eq!(random.below(0), 0);
        let hits = (0..100_000).filter(|_| random.chance(0.25)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
        assert!(!random.chance(0.0) && random.chance(1.0));
    }
}
