//! AES and products of the hash on single blocks.

#![allow(unsafe_code)]

use core::arch::x86_64::*;

/// Encrypts a block with two round keys or more.
///
/// # Safety
/// The CPU has AES-NI.
#[inline(always)]
pub(super) unsafe fn encrypt(round_keys: &[[u8; 16]], block: __m128i) -> __m128i {
    // SAFETY: The CPU has AES-NI, and round keys have 16 octets.
    unsafe {
        let load = |key: &[u8; 16]| _mm_loadu_si128(key.as_ptr().cast());
        let [first, between @ .., last] = round_keys else { return block };
        let block =
            between.iter().fold(_mm_xor_si128(block, load(first)), |block, key| _mm_aesenc_si128(block, load(key)));
        _mm_aesenclast_si128(block, load(last))
    }
}

/// Multiplies two blocks, of which one contains the factor x.
///
/// # Safety
/// The CPU has PCLMULQDQ.
#[inline(always)]
pub(super) unsafe fn multiply(one: __m128i, other: __m128i) -> __m128i {
    // SAFETY: The CPU has PCLMULQDQ.
    unsafe {
        let low = _mm_clmulepi64_si128::<0x00>(one, other);
        let middle = _mm_xor_si128(_mm_clmulepi64_si128::<0x01>(one, other), _mm_clmulepi64_si128::<0x10>(one, other));
        let high = _mm_clmulepi64_si128::<0x11>(one, other);
        reduce(low, middle, high)
    }
}

/// Reduces a sum of products: `low + middle * x^64 + high * x^128`.
///
/// # Safety
/// The CPU has PCLMULQDQ.
#[inline(always)]
pub(super) unsafe fn reduce(low: __m128i, middle: __m128i, high: __m128i) -> __m128i {
    // SAFETY: The CPU has PCLMULQDQ.
    unsafe { fold(fold(low, middle), high) }
}

/// Folds the lower half of a product into the upper one.
///
/// # Safety
/// The CPU has PCLMULQDQ.
#[inline(always)]
unsafe fn fold(lower: __m128i, upper: __m128i) -> __m128i {
    // SAFETY: The CPU has PCLMULQDQ.
    unsafe {
        let polynomial = _mm_set_epi64x(0, 0xc200_0000_0000_0000_u64 as i64);
        let product = _mm_clmulepi64_si128::<0x00>(lower, polynomial);
        _mm_xor_si128(_mm_xor_si128(upper, product), _mm_shuffle_epi32::<0x4e>(lower))
    }
}
