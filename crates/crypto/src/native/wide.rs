//! Vectors of AES blocks: the operations of GCM on two blocks at once (AVX2) and on four (AVX-512).
//!
//! One kernel serves both widths. Each operation is one instruction, or a few where a width lacks it.
//!
//! # Safety
//!
//! All functions of [`Wide`] have two conditions: the CPU has the instructions that the implementing type names, and
//! pointers are valid for the octets that the function's description gives.

use core::arch::x86_64::*;

/// A vector of AES blocks. Block 0 has the lowest address.
pub(super) trait Wide: Copy {
    /// Blocks in a vector.
    const BLOCKS: usize;
    /// Octets in a vector.
    const OCTETS: usize = 16 * Self::BLOCKS;

    /// All zeros.
    unsafe fn zero() -> Self;
    /// Loads `OCTETS` octets at any address.
    unsafe fn load(at: *const u8) -> Self;
    /// Stores `OCTETS` octets at any address.
    unsafe fn store(self, at: *mut u8);
    /// Loads the `n` octets at `at`, 1 to `OCTETS`, with zeros behind them. If `n` is not of whole blocks, the 16 octets
    /// before `at + n` must be readable.
    unsafe fn load_first(at: *const u8, n: usize) -> Self;
    /// Stores the first `n` octets at `at`, 1 to `OCTETS`. If `n` is not of whole blocks, the 16 octets before `at + n`
    /// must be readable and writable; those before `at` keep their values.
    unsafe fn store_first(self, at: *mut u8, n: usize);
    /// Replaces all but the first `n` octets by zeros; `n` is at most `OCTETS`.
    unsafe fn keep_first(self, n: usize) -> Self;
    /// Repeats a block.
    unsafe fn repeat(block: __m128i) -> Self;
    /// Loads the 16 octets at `at`, and repeats them.
    unsafe fn repeat_from(at: *const u8) -> Self;
    /// Makes a vector of two blocks, with zeros behind them.
    unsafe fn pair(first: __m128i, second: __m128i) -> Self;
    /// The numbers 0, 1, … in the lowest 32 bits of the blocks.
    unsafe fn ascending() -> Self;
    /// The numbers from that of the first block of a vector on, as the highest octet of each block: where successive counter blocks
    /// differ, if none of them carries.
    unsafe fn steps(vector: usize) -> Self;
    /// Exclusive or.
    unsafe fn xor(self, other: Self) -> Self;
    /// Adds 32-bit words.
    unsafe fn add(self, other: Self) -> Self;
    /// Reverses the octets of each block.
    unsafe fn swap(self) -> Self;
    /// A round of AES.
    unsafe fn aes(self, key: Self) -> Self;
    /// The last round of AES.
    unsafe fn aes_last(self, key: Self) -> Self;
    /// Multiplies without carry a half of each block by a half of the other's: bit 0 of `HALVES` selects the upper half
    /// of `self`, bit 4 that of `other`.
    unsafe fn multiply<const HALVES: i32>(self, other: Self) -> Self;
    /// The exclusive or of all blocks.
    unsafe fn fold(self) -> __m128i;
    /// Returns the vector as it is. What is computed from it stays behind what it was computed from, wherever the compiler would
    /// rather have either, and behind what was pinned before.
    unsafe fn pin(self) -> Self;
}

/// Reverses the octets of a block.
///
/// # Safety
/// The CPU has SSSE3.
#[inline(always)]
pub(super) unsafe fn swap(block: __m128i) -> __m128i {
    // SAFETY: The CPU has SSSE3.
    unsafe { _mm_shuffle_epi8(block, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)) }
}

/// Two blocks. Instructions: AVX2, VAES, VPCLMULQDQ, and those of SSE4.1, AES-NI and PCLMULQDQ.
#[derive(Clone, Copy)]
pub(super) struct Two(__m256i);

/// Numbers of octets, with those behind and before them that make a byte shuffle write zeros.
static SLIDE: [u8; 48] = {
    let mut slide = [0x80; 48];
    let mut number = 0;
    while number < 16 {
        slide[16 + number] = number as u8;
        number += 1;
    }
    slide
};

/// Ones, and behind them zeros.
static ONES: [u8; 64] = {
    let mut ones = [0; 64];
    let mut number = 0;
    while number < 32 {
        ones[number] = 0xff;
        number += 1;
    }
    ones
};

/// Loads the `n` octets at `at`, 1 to 15, with zeros behind them.
///
/// # Safety
/// The CPU has SSSE3. The 16 octets before `at + n` are readable.
#[inline(always)]
unsafe fn load_part(at: *const u8, n: usize) -> __m128i {
    // SAFETY: As above. `SLIDE` has 16 octets behind each of its first 33.
    unsafe {
        let octets = _mm_loadu_si128(at.add(n).sub(16).cast());
        _mm_shuffle_epi8(octets, _mm_loadu_si128(SLIDE.as_ptr().add(32 - n).cast()))
    }
}

/// Stores the first `n` octets of a block at `at`, 1 to 15.
///
/// # Safety
/// The CPU has SSE4.1. The 16 octets before `at + n` are readable and writable.
#[inline(always)]
unsafe fn store_part(block: __m128i, at: *mut u8, n: usize) {
    // SAFETY: As in `load_part`.
    unsafe {
        let begin = at.add(n).sub(16);
        let places = _mm_loadu_si128(SLIDE.as_ptr().add(n).cast());
        let before = _mm_loadu_si128(begin.cast());
        let all = _mm_blendv_epi8(_mm_shuffle_epi8(block, places), before, places);
        _mm_storeu_si128(begin.cast(), all);
    }
}

// Each function meets the conditions of its intrinsics by those of the trait.
impl Wide for Two {
    const BLOCKS: usize = 2;

    #[inline(always)]
    unsafe fn zero() -> Two {
        // SAFETY: The CPU has AVX.
        Two(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Two {
        // SAFETY: 32 octets are readable, and the CPU has AVX.
        Two(unsafe { _mm256_loadu_si256(at.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: 32 octets are writable, and the CPU has AVX.
        unsafe { _mm256_storeu_si256(at.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_first(at: *const u8, n: usize) -> Two {
        // SAFETY: `n` octets are readable; if they are not of whole blocks, so are the 16 before their end.
        unsafe {
            match n {
                32 => Two::load(at),
                17..32 => Two(_mm256_set_m128i(load_part(at.add(16), n - 16), _mm_loadu_si128(at.cast()))),
                16 => Two(_mm256_zextsi128_si256(_mm_loadu_si128(at.cast()))),
                _ => Two(_mm256_zextsi128_si256(load_part(at, n))),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, at: *mut u8, n: usize) {
        // SAFETY: `n` octets are writable; if they are not of whole blocks, so are the 16 before their end.
        unsafe {
            let low = _mm256_castsi256_si128(self.0);
            match n {
                32 => self.store(at),
                17..32 => {
                    _mm_storeu_si128(at.cast(), low);
                    store_part(_mm256_extracti128_si256::<1>(self.0), at.add(16), n - 16);
                }
                16 => _mm_storeu_si128(at.cast(), low),
                _ => store_part(low, at, n),
            }
        }
    }

    #[inline(always)]
    unsafe fn keep_first(self, n: usize) -> Two {
        // SAFETY: `n` is at most 32, and `ONES` has 32 octets behind each of its first 33. The CPU has AVX2.
        Two(unsafe { _mm256_and_si256(self.0, _mm256_loadu_si256(ONES.as_ptr().add(32 - n).cast())) })
    }

    #[inline(always)]
    unsafe fn repeat(block: __m128i) -> Two {
        // SAFETY: The CPU has AVX2.
        Two(unsafe { _mm256_broadcastsi128_si256(block) })
    }

    #[inline(always)]
    unsafe fn repeat_from(at: *const u8) -> Two {
        // SAFETY: 16 octets are readable, and the CPU has AVX2.
        Two(unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(at.cast())) })
    }

    #[inline(always)]
    unsafe fn pair(first: __m128i, second: __m128i) -> Two {
        // SAFETY: The CPU has AVX.
        Two(unsafe { _mm256_set_m128i(second, first) })
    }

    #[inline(always)]
    unsafe fn ascending() -> Two {
        // SAFETY: The CPU has AVX.
        Two(unsafe { _mm256_set_epi64x(0, 1, 0, 0) })
    }

    #[inline(always)]
    unsafe fn steps(vector: usize) -> Two {
        let step = |block: usize| (((2 * vector + block) as u64) << 56) as i64;
        // SAFETY: The CPU has AVX.
        Two(unsafe { _mm256_set_epi64x(step(1), 0, step(0), 0) })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Two) -> Two {
        // SAFETY: The CPU has AVX2.
        Two(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn add(self, other: Two) -> Two {
        // SAFETY: The CPU has AVX2.
        Two(unsafe { _mm256_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn swap(self) -> Two {
        // SAFETY: The CPU has AVX2.
        unsafe {
            let octets = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            Two(_mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(octets)))
        }
    }

    #[inline(always)]
    unsafe fn aes(self, key: Two) -> Two {
        // SAFETY: The CPU has VAES.
        Two(unsafe { _mm256_aesenc_epi128(self.0, key.0) })
    }

    #[inline(always)]
    unsafe fn aes_last(self, key: Two) -> Two {
        // SAFETY: The CPU has VAES.
        Two(unsafe { _mm256_aesenclast_epi128(self.0, key.0) })
    }

    #[inline(always)]
    unsafe fn multiply<const HALVES: i32>(self, other: Two) -> Two {
        // SAFETY: The CPU has VPCLMULQDQ.
        Two(unsafe { _mm256_clmulepi64_epi128::<HALVES>(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn fold(self) -> __m128i {
        // SAFETY: The CPU has AVX2.
        unsafe { _mm_xor_si128(_mm256_castsi256_si128(self.0), _mm256_extracti128_si256::<1>(self.0)) }
    }

    // So many vectors have no registers anyway.
    #[inline(always)]
    unsafe fn pin(self) -> Two {
        self
    }
}

/// Four blocks. Instructions: AVX-512 F, BW and VL, VAES, VPCLMULQDQ, and those of AVX2, SSE4.1, AES-NI and PCLMULQDQ.
#[derive(Clone, Copy)]
pub(super) struct Four(__m512i);

/// Returns a mask of the first `n` octets, `n` at most 64.
#[inline(always)]
fn first(n: usize) -> __mmask64 {
    if n < 64 { (1 << n) - 1 } else { !0 }
}

/// Returns a mask of the octets from `begin`, at most 63, to `end`, at most 64.
#[inline(always)]
fn between(begin: usize, end: usize) -> __mmask64 {
    first(end) >> begin << begin
}

/// See [`Wide::pin`]: instructions that have effects keep their order, and this one is empty.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline]
#[target_feature(enable = "avx512f")]
#[cfg_attr(miri, allow(unused_mut))]
unsafe fn pin(mut vector: __m512i) -> __m512i {
    #[cfg(not(miri))]
    // SAFETY: It touches nothing.
    unsafe {
        core::arch::asm!("/* {0} */", inout(zmm_reg) vector, options(nomem, nostack, preserves_flags));
    }
    vector
}

// Each function meets the conditions of its intrinsics by those of `Wide`.
impl Four {
    /// Loads the octets from `begin` to `end` of those at `at`, with zeros around them. No others are read.
    ///
    /// # Safety
    /// The CPU has AVX-512 BW, and these octets are readable.
    #[inline(always)]
    pub(super) unsafe fn load_between(at: *const u8, begin: usize, end: usize) -> Four {
        // SAFETY: As above.
        Four(unsafe { _mm512_maskz_loadu_epi8(between(begin, end), at.cast()) })
    }

    /// Stores the octets from `begin` to `end` at `at`. No others are written.
    ///
    /// # Safety
    /// The CPU has AVX-512 BW, and these octets are writable.
    #[inline(always)]
    pub(super) unsafe fn store_between(self, at: *mut u8, begin: usize, end: usize) {
        // SAFETY: As above.
        unsafe { _mm512_mask_storeu_epi8(at.cast(), between(begin, end), self.0) }
    }

    /// Replaces the octets outside of those from `begin` to `end` by zeros.
    ///
    /// # Safety
    /// The CPU has AVX-512 BW.
    #[inline(always)]
    pub(super) unsafe fn keep_between(self, begin: usize, end: usize) -> Four {
        // SAFETY: As above.
        Four(unsafe { _mm512_maskz_mov_epi8(between(begin, end), self.0) })
    }

    /// The first block.
    ///
    /// # Safety
    /// The CPU has AVX-512 F.
    #[inline(always)]
    pub(super) unsafe fn first(self) -> __m128i {
        // SAFETY: As above.
        unsafe { _mm512_castsi512_si128(self.0) }
    }

    /// Makes a vector with a block in this place, and zeros in the others.
    ///
    /// # Safety
    /// The CPU has AVX-512 F.
    #[inline(always)]
    pub(super) unsafe fn at(block: __m128i, place: usize) -> Four {
        // SAFETY: As above.
        Four(unsafe { _mm512_maskz_broadcast_i32x4((0xf << (4 * place)) as __mmask16, block) })
    }
}

impl Wide for Four {
    const BLOCKS: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Four {
        // SAFETY: The CPU has AVX-512 F.
        Four(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Four {
        // SAFETY: 64 octets are readable, and the CPU has AVX-512 F.
        Four(unsafe { _mm512_loadu_si512(at.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: 64 octets are writable, and the CPU has AVX-512 F.
        unsafe { _mm512_storeu_si512(at.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_first(at: *const u8, n: usize) -> Four {
        // SAFETY: `n` octets are readable, and the CPU has AVX-512 BW. Octets outside of the mask are not read.
        Four(unsafe { _mm512_maskz_loadu_epi8(first(n), at.cast()) })
    }

    #[inline(always)]
    unsafe fn store_first(self, at: *mut u8, n: usize) {
        // SAFETY: `n` octets are writable, and the CPU has AVX-512 BW. Octets outside of the mask are not written.
        unsafe { _mm512_mask_storeu_epi8(at.cast(), first(n), self.0) }
    }

    #[inline(always)]
    unsafe fn keep_first(self, n: usize) -> Four {
        // SAFETY: The CPU has AVX-512 BW.
        Four(unsafe { _mm512_maskz_mov_epi8(first(n), self.0) })
    }

    #[inline(always)]
    unsafe fn repeat(block: __m128i) -> Four {
        // SAFETY: The CPU has AVX-512 F.
        Four(unsafe { _mm512_broadcast_i32x4(block) })
    }

    #[inline(always)]
    unsafe fn repeat_from(at: *const u8) -> Four {
        // SAFETY: 16 octets are readable, and the CPU has AVX-512 F.
        Four(unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(at.cast())) })
    }

    #[inline(always)]
    unsafe fn pair(first: __m128i, second: __m128i) -> Four {
        // SAFETY: The CPU has AVX-512 F.
        Four(unsafe { _mm512_zextsi256_si512(_mm256_set_m128i(second, first)) })
    }

    #[inline(always)]
    unsafe fn ascending() -> Four {
        // SAFETY: The CPU has AVX-512 F.
        Four(unsafe { _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0) })
    }

    #[inline(always)]
    unsafe fn steps(vector: usize) -> Four {
        let step = |block: usize| (((4 * vector + block) as u64) << 56) as i64;
        // SAFETY: The CPU has AVX-512 F.
        Four(unsafe { _mm512_set_epi64(step(3), 0, step(2), 0, step(1), 0, step(0), 0) })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Four) -> Four {
        // SAFETY: The CPU has AVX-512 F.
        Four(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn add(self, other: Four) -> Four {
        // SAFETY: The CPU has AVX-512 F.
        Four(unsafe { _mm512_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn swap(self) -> Four {
        // SAFETY: The CPU has AVX-512 BW.
        unsafe {
            let octets = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            Four(_mm512_shuffle_epi8(self.0, _mm512_broadcast_i32x4(octets)))
        }
    }

    #[inline(always)]
    unsafe fn aes(self, key: Four) -> Four {
        // SAFETY: The CPU has VAES and AVX-512 F.
        Four(unsafe { _mm512_aesenc_epi128(self.0, key.0) })
    }

    #[inline(always)]
    unsafe fn aes_last(self, key: Four) -> Four {
        // SAFETY: The CPU has VAES and AVX-512 F.
        Four(unsafe { _mm512_aesenclast_epi128(self.0, key.0) })
    }

    #[inline(always)]
    unsafe fn multiply<const HALVES: i32>(self, other: Four) -> Four {
        // SAFETY: The CPU has VPCLMULQDQ and AVX-512 F.
        Four(unsafe { _mm512_clmulepi64_epi128::<HALVES>(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn fold(self) -> __m128i {
        // SAFETY: The CPU has AVX-512 F.
        unsafe {
            let both = _mm256_xor_si256(_mm512_castsi512_si256(self.0), _mm512_extracti64x4_epi64::<1>(self.0));
            Two(both).fold()
        }
    }

    #[inline(always)]
    unsafe fn pin(self) -> Four {
        // SAFETY: The CPU has AVX-512 F.
        Four(unsafe { pin(self.0) })
    }
}
