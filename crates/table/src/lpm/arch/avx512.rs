//! Sorting with AVX-512, which has an instruction for it, and comparing with masks.

use std::arch::x86_64::{
    __m512i, __mmask16, _mm_cmpgt_epu32_mask, _mm_load_si128, _mm_set1_epi32, _mm256_cmpgt_epu32_mask,
    _mm256_load_si256, _mm256_set1_epi32, _mm512_and_si512, _mm512_cmpeq_epi32_mask, _mm512_cmpgt_epu32_mask,
    _mm512_load_si512, _mm512_maskz_compress_epi32, _mm512_maskz_loadu_epi32, _mm512_set1_epi32, _mm512_storeu_si512,
};

use super::lanes::{GROUP, Isa, List};

pub(super) struct Avx512;

impl Isa for Avx512 {
    #[inline(always)]
    unsafe fn sort<const N: usize>(
        leaves: *const u32,
        indices: *const u32,
        count: usize,
        mask: u32,
        kinds: [u32; N],
        mut to: [&mut List; N],
        mut counts: [usize; N],
    ) -> [usize; N] {
        for position in (0..count).step_by(GROUP) {
            let live = u32::MAX >> (32 - (count - position).min(GROUP));
            // SAFETY: by the caller's promise, the CPU has AVX-512, the masked lanes are readable, and the lists have
            // room.
            unsafe {
                let live = live as __mmask16;
                let leaf = _mm512_maskz_loadu_epi32(live, leaves.add(position).cast());
                let index = _mm512_maskz_loadu_epi32(live, indices.add(position).cast());
                // Lanes without a load are 0 and of no kind.
                let marks = _mm512_and_si512(leaf, _mm512_set1_epi32(mask as i32));
                for ((kind, list), count) in kinds.iter().zip(&mut to).zip(&mut counts) {
                    let chosen = _mm512_cmpeq_epi32_mask(marks, _mm512_set1_epi32(*kind as i32));
                    append(chosen, leaf, index, list, count);
                }
            }
        }
        counts
    }

    #[inline(always)]
    unsafe fn rank<const N: usize>(ends: *const u32, slot: u32) -> usize {
        let slot = slot as i32;
        // SAFETY: by the caller's promise, the CPU has AVX-512, and the loaded words are readable.
        let below = unsafe {
            match N {
                4 => u32::from(_mm_cmpgt_epu32_mask(_mm_set1_epi32(slot), _mm_load_si128(ends.cast()))),
                8 => u32::from(_mm256_cmpgt_epu32_mask(_mm256_set1_epi32(slot), _mm256_load_si256(ends.cast()))),
                16 => u32::from(_mm512_cmpgt_epu32_mask(_mm512_set1_epi32(slot), _mm512_load_si512(ends.cast()))),
                _ => unreachable!("4, 8 or 16 ends"),
            }
        };
        below.count_ones() as usize
    }
}

/// # Safety
/// The CPU has AVX-512, and the list has room for a group.
#[inline(always)]
unsafe fn append(chosen: __mmask16, leaf: __m512i, index: __m512i, list: &mut List, count: &mut usize) {
    // Compressing in a register and storing all of it is much faster than a compressed store.
    // SAFETY: the caller's promise.
    unsafe {
        _mm512_storeu_si512(list.leaves_mut().add(*count).cast(), _mm512_maskz_compress_epi32(chosen, leaf));
        _mm512_storeu_si512(list.indices_mut().add(*count).cast(), _mm512_maskz_compress_epi32(chosen, index));
    }
    *count += chosen.count_ones() as usize;
}
