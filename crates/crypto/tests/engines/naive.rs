//! AES-GCM as its standards describe it, bit by bit: the naive twin of the engine.

use weir_crypto::AesKey;

/// Multiplies in GF(2^8) (FIPS 197, section 4.2).
fn times(mut one: u8, mut other: u8) -> u8 {
    let mut product = 0;
    while other != 0 {
        product ^= one * (other & 1);
        one = (one << 1) ^ (0x1b * (one >> 7));
        other >>= 1;
    }
    product
}

/// The substitutions of FIPS 197, section 5.1.1: the inverse, and an affine map.
fn substitutes() -> [u8; 256] {
    let affine = |inverse: u8| (1..5).fold(inverse ^ 0x63, |sum, by| sum ^ inverse.rotate_left(by));
    let mut substitutes = [affine(0); 256];
    // 3 generates the field without 0, and the inverse of its power n is that of 255 - n.
    let powers: Vec<u8> = std::iter::successors(Some(1), |&power| Some(times(power, 3))).take(255).collect();
    for (exponent, &power) in powers.iter().enumerate() {
        substitutes[power as usize] = affine(powers[(255 - exponent) % 255]);
    }
    substitutes
}

pub(crate) struct Naive {
    substitutes: [u8; 256],
    round_keys: Vec<[u8; 16]>,
    salt: [u8; 4],
    icv: usize,
}

impl Naive {
    pub(crate) fn new(size: AesKey, key_and_salt: &[u8], icv: usize) -> Naive {
        let (key, salt) = key_and_salt.split_at(size.octets());
        let mut naive =
            Naive { substitutes: substitutes(), round_keys: Vec::new(), salt: salt.try_into().unwrap(), icv };
        let mut words: Vec<[u8; 4]> = key.chunks(4).map(|word| word.try_into().unwrap()).collect();
        let length = words.len();
        let mut constant = 1;
        for number in length..4 * (size.rounds() + 1) {
            let mut word = words[number - 1];
            if number % length == 0 {
                word.rotate_left(1);
            }
            if number % length == 0 || length > 6 && number % length == 4 {
                word = word.map(|octet| naive.substitutes[octet as usize]);
            }
            if number % length == 0 {
                word[0] ^= constant;
                constant = times(constant, 2);
            }
            words.push(std::array::from_fn(|at| word[at] ^ words[number - length][at]));
        }
        naive.round_keys = words.chunks(4).map(|key| key.concat().try_into().unwrap()).collect();
        naive
    }

    fn encrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let mix = |block: [u8; 16], key: &[u8; 16]| std::array::from_fn(|at| block[at] ^ key[at]);
        let mut block: [u8; 16] = mix(block, &self.round_keys[0]);
        for (number, key) in self.round_keys.iter().enumerate().skip(1) {
            // Substitution, and rows shifted.
            block = std::array::from_fn(|at| self.substitutes[block[(at + at % 4 * 4) % 16] as usize]);
            if number + 1 < self.round_keys.len() {
                let before = block;
                block = std::array::from_fn(|at| {
                    let octet = |by: usize| before[at / 4 * 4 + (at + by) % 4];
                    times(octet(0), 2) ^ times(octet(1), 3) ^ octet(2) ^ octet(3)
                });
            }
            block = mix(block, key);
        }
        block
    }

    /// Returns ciphertext and ICV. `aad` is as long as it is; NIST SP 800-38D, section 7.1.
    pub(crate) fn seal(&self, iv: &[u8], aad: &[u8], text: &[u8]) -> Vec<u8> {
        let counter = |number: u32| {
            let block = [&self.salt[..], iv, &number.to_be_bytes()].concat();
            self.encrypt(block.try_into().unwrap())
        };
        let mut sealed: Vec<u8> = Vec::new();
        for (number, block) in text.chunks(16).enumerate() {
            sealed.extend(block.iter().zip(counter(number as u32 + 2)).map(|(octet, mask)| octet ^ mask));
        }
        let lengths = [8 * aad.len() as u64, 8 * text.len() as u64].map(u64::to_be_bytes).concat();
        let key = u128::from_be_bytes(self.encrypt([0; 16]));
        let mut hash = 0;
        for block in aad.chunks(16).chain(sealed.chunks(16)).chain([&lengths[..]]) {
            let mut whole = [0; 16];
            whole[..block.len()].copy_from_slice(block);
            hash = product(hash ^ u128::from_be_bytes(whole), key);
        }
        let tag = (hash ^ u128::from_be_bytes(counter(1))).to_be_bytes();
        sealed.extend(&tag[..self.icv]);
        sealed
    }
}

/// Multiplies blocks (NIST SP 800-38D, section 6.3).
fn product(one: u128, mut other: u128) -> u128 {
    let mut sum = 0;
    for bit in (0..128).rev() {
        if one >> bit & 1 == 1 {
            sum ^= other;
        }
        other = (other >> 1) ^ ((0xe1 << 120) * (other & 1));
    }
    sum
}
