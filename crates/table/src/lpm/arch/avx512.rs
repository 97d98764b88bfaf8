//! Sorting with AVX-512, which has an instruction for it.

use std::arch::x86_64::{
    __m512i, __mmask16, _mm512_and_si512, _mm512_cmpeq_epi32_mask, _mm512_maskz_compress_epi32,
    _mm512_maskz_loadu_epi32, _mm512_set1_epi32, _mm512_storeu_si512,
};

use super::super::node::{ARRAY, CHILD};
use super::passes::{Counts, GROUP, Level, List, Sort};

pub(super) struct Avx512;

impl Sort for Avx512 {
    #[inline(always)]
    unsafe fn sort(
        leaves: *const u32,
        indices: *const u32,
        count: usize,
        to: &mut Level,
        mut counts: Counts,
    ) -> Counts {
        for position in (0..count).step_by(GROUP) {
            let live = u32::MAX >> (32 - (count - position).min(GROUP));
            // SAFETY: the CPU has AVX-512, the masked lanes are readable, and the lists have room, by the caller's promise.
            unsafe {
                let live = live as __mmask16;
                let leaf = _mm512_maskz_loadu_epi32(live, leaves.add(position).cast());
                let index = _mm512_maskz_loadu_epi32(live, indices.add(position).cast());
                // Lanes that were not loaded are zero, and so of neither kind.
                let marks = _mm512_and_si512(leaf, _mm512_set1_epi32((CHILD | ARRAY) as i32));
                let at_array = _mm512_cmpeq_epi32_mask(marks, _mm512_set1_epi32((CHILD | ARRAY) as i32));
                let at_node = _mm512_cmpeq_epi32_mask(marks, _mm512_set1_epi32(CHILD as i32));
                append(at_array, leaf, index, &mut to.arrays, &mut counts.arrays);
                append(at_node, leaf, index, &mut to.nodes, &mut counts.nodes);
            }
        }
        counts
    }
}

/// # Safety
/// The CPU has AVX-512, and the list has room for a group.
#[inline(always)]
unsafe fn append(chosen: __mmask16, leaf: __m512i, index: __m512i, list: &mut List, count: &mut usize) {
    // Compressing in a register and storing all of it is much faster than storing what was chosen.
    // SAFETY: the caller's promise.
    unsafe {
        _mm512_storeu_si512(list.leaves().add(*count).cast(), _mm512_maskz_compress_epi32(chosen, leaf));
        _mm512_storeu_si512(list.indices().add(*count).cast(), _mm512_maskz_compress_epi32(chosen, index));
    }
    *count += chosen.count_ones() as usize;
}
