//! The schedule of an AES-GCM key: round keys, and powers of the hash key.

#![allow(unsafe_code)]

use core::arch::x86_64::*;
use std::sync::Arc;

use zeroize::Zeroize as _;

use super::block;
use super::wide::swap;
use crate::algorithm::AesKey;

/// Powers of the hash key in a schedule: those of a chunk of 32 blocks, of the block before it and of the block of
/// lengths behind it, rounded up to whole cache lines.
pub(super) const POWERS: usize = 36;

/// Round keys in a schedule; AES-256 needs all.
const ROUND_KEYS: usize = 15;

/// An expanded key.
///
/// Powers descend, so that a vector of successive blocks is multiplied by a vector of successive powers. Low powers are
/// followed by the round keys, so that a short packet needs few lines: those of its 64 octets of text are five.
#[repr(C, align(64))]
pub(super) struct Schedule {
    /// The power with exponent `e` of the hash key, times x, is at `POWERS - e`, with octets reversed.
    powers: [[u8; 16]; POWERS],
    round_keys: [[u8; 16]; ROUND_KEYS],
}

impl Schedule {
    /// Expands a key of 16, 24 or 32 octets.
    ///
    /// # Safety
    /// The CPU has the instructions SSE4.1, AES-NI and PCLMULQDQ.
    #[target_feature(enable = "sse4.1,aes,pclmulqdq")]
    pub(super) unsafe fn new(size: AesKey, key: &[u8]) -> Arc<Schedule> {
        // It is filled in its place, so that no copy of it is left elsewhere.
        let mut shared = Arc::new(Schedule { powers: [[0; 16]; POWERS], round_keys: [[0; 16]; ROUND_KEYS] });
        let schedule = Arc::get_mut(&mut shared).expect("nobody shares it yet");
        expand(size, key, &mut schedule.round_keys);
        // SAFETY: The CPU has these instructions. Each block has 16 octets.
        unsafe {
            let store = |to: &mut [u8; 16], power| _mm_storeu_si128(to.as_mut_ptr().cast(), power);
            let hash = swap(block::encrypt(&schedule.round_keys[..=size.rounds()], _mm_setzero_si128()));
            let first = times_x(hash);
            let mut power = first;
            for place in schedule.powers.iter_mut().rev() {
                store(place, power);
                power = block::multiply(power, first);
            }
        }
        shared
    }

    /// Returns the address of a round key. All addresses of a schedule may be read behind it.
    #[inline(always)]
    pub(super) fn round_key(&self, number: usize) -> *const u8 {
        debug_assert!(number < ROUND_KEYS);
        let base = (&raw const *self).cast::<u8>();
        base.wrapping_add(16 * (POWERS + number))
    }

    /// Returns the address of the power with an exponent of 1 to [`POWERS`], behind which are the lower ones, and then
    /// round keys.
    #[inline(always)]
    pub(super) fn power(&self, exponent: usize) -> *const u8 {
        debug_assert!((1..=POWERS).contains(&exponent));
        let base = (&raw const *self).cast::<u8>();
        base.wrapping_add(16 * (POWERS - exponent))
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.powers.zeroize();
        self.round_keys.zeroize();
    }
}

/// Multiplies a hash key, with octets reversed, by x. Products of reversed polynomials lack this factor.
#[target_feature(enable = "sse4.1")]
fn times_x(hash: __m128i) -> __m128i {
    let (low, high) = (_mm_cvtsi128_si64(hash) as u64, _mm_extract_epi64::<1>(hash) as u64);
    let carry = 0u64.wrapping_sub(high >> 63);
    let high = ((high << 1) | (low >> 63)) ^ (carry & 0xc200_0000_0000_0000);
    let low = (low << 1) ^ (carry & 1);
    _mm_set_epi64x(high as i64, low as i64)
}

/// Expands a key (FIPS 197, section 5.2), with the CPU's table of substitutions.
#[target_feature(enable = "sse2,aes")]
fn expand(size: AesKey, key: &[u8], round_keys: &mut [[u8; 16]; ROUND_KEYS]) {
    // The last round of AES shifts rows, too, which changes nothing as all columns are equal.
    let substitute = |word: u32| {
        let columns = _mm_aesenclast_si128(_mm_set1_epi32(word as i32), _mm_setzero_si128());
        _mm_cvtsi128_si32(columns) as u32
    };
    let words = key.len() / 4;
    let mut schedule = [0u32; 4 * ROUND_KEYS];
    for (word, octets) in schedule.iter_mut().zip(key.chunks_exact(4)) {
        *word = u32::from_le_bytes(octets.try_into().expect("chunks of 4 octets"));
    }
    let mut constant = 1u8;
    for number in words..4 * (size.rounds() + 1) {
        let mut word = schedule[number - 1];
        if number % words == 0 {
            // Words are little-endian here, so the rotation goes the other way.
            word = substitute(word).rotate_right(8) ^ u32::from(constant);
            constant = (constant << 1) ^ ((constant >> 7) * 0x1b);
        } else if words > 6 && number % words == 4 {
            word = substitute(word);
        }
        schedule[number] = schedule[number - words] ^ word;
    }
    for (key, words) in round_keys.iter_mut().zip(schedule.chunks_exact(4)) {
        for (octets, word) in key.chunks_exact_mut(4).zip(words) {
            octets.copy_from_slice(&word.to_le_bytes());
        }
    }
    schedule.zeroize();
}
