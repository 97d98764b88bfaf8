//! Injected randomness: seeds come from the operating system in a live gateway, from the user in replays and tests.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// A fast generator for jitter, sampling, hash seeds and generated traffic. Not for secrets.
#[derive(Debug, Clone)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Equal seeds give equal sequences, in every release of weir.
    pub fn from_seed(seed: u64) -> Self {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Seeded by the operating system.
    ///
    /// # Errors
    /// When the operating system has no randomness to give.
    pub fn from_system() -> std::io::Result<Self> {
        let mut seed = [0; 32];
        let mut filled = 0;
        while filled < seed.len() {
            filled += rustix::rand::getrandom(&mut seed[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Random(Xoshiro256PlusPlus::from_seed(seed)))
    }

    /// 64 random bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "a generator never ends: as an iterator it would promise an option"
    )]
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..bound` (by multiplication; the bias is below 2⁻³² for bounds below 2³²). 0 for a bound of 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// True with this probability.
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
        assert_ne!(Random::from_system().unwrap().next(), Random::from_system().unwrap().next());
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
