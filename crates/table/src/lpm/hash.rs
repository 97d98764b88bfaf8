//! A hash for prefixes and addresses in the writer's maps.

use std::hash::{BuildHasher, Hasher, RandomState};

/// An odd number without structure (from the fractional part of the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiplies and folds the double-width product. Seeded, so that prepared routes cannot all collide.
#[derive(Clone, Copy, Debug)]
pub struct Folding {
    seed: u64,
}

impl Folding {
    /// Creates a hash with a random seed.
    pub fn random() -> Folding {
        Folding { seed: RandomState::new().hash_one(0u8) | 1 }
    }
}

impl Default for Folding {
    fn default() -> Self {
        Folding::random()
    }
}

impl BuildHasher for Folding {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded { state: self.seed, seed: self.seed }
    }
}

/// The state of one hash.
#[derive(Debug)]
pub struct Folded {
    state: u64,
    seed: u64,
}

impl Folded {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(MULTIPLIER);
        self.state = (product as u64) ^ ((product >> 64) as u64) ^ self.seed.rotate_left(32);
    }
}

impl Hasher for Folded {
    fn write(&mut self, octets: &[u8]) {
        for chunk in octets.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.fold(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.fold(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.fold(u64::from(value));
    }

    fn write_u128(&mut self, value: u128) {
        self.fold((value >> 64) as u64);
        self.fold(value as u64);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}
