//! Sorting with AVX2, which permutes words by a table.

use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_cmpgt_epi32, _mm256_load_si256,
    _mm256_maskload_epi32, _mm256_movemask_ps, _mm256_permutevar8x32_epi32, _mm256_set1_epi32, _mm256_setr_epi32,
    _mm256_storeu_si256,
};

use super::lanes::{Isa, List};
use super::portable::Portable;

/// Words of a vector.
const WIDTH: usize = 8;

pub(super) struct Avx2;

impl Isa for Avx2 {
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
        for position in (0..count).step_by(WIDTH) {
            // SAFETY: by the caller's promise, the CPU has AVX2, the masked lanes are readable, and the lists have room
            // for a group, of which this is a half.
            unsafe {
                let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let live = _mm256_cmpgt_epi32(_mm256_set1_epi32((count - position).min(WIDTH) as i32), lanes);
                let leaf = _mm256_maskload_epi32(leaves.add(position).cast(), live);
                let index = _mm256_maskload_epi32(indices.add(position).cast(), live);
                // Lanes without a load are 0 and of no kind.
                let marks = _mm256_and_si256(leaf, _mm256_set1_epi32(mask as i32));
                for ((kind, list), count) in kinds.iter().zip(&mut to).zip(&mut counts) {
                    let chosen = _mm256_cmpeq_epi32(marks, _mm256_set1_epi32(*kind as i32));
                    let chosen = _mm256_movemask_ps(_mm256_castsi256_ps(chosen)) as usize;
                    let order = _mm256_load_si256((&raw const ORDERS.0[chosen]).cast());
                    store(list.leaves_mut().add(*count), _mm256_permutevar8x32_epi32(leaf, order));
                    store(list.indices_mut().add(*count), _mm256_permutevar8x32_epi32(index, order));
                    *count += chosen.count_ones() as usize;
                }
            }
        }
        counts
    }

    #[inline(always)]
    unsafe fn rank<const N: usize>(ends: *const u32, slot: u32) -> usize {
        // The compiler generates AVX2 instructions from it.
        // SAFETY: the caller's promise.
        unsafe { Portable::rank::<N>(ends, slot) }
    }
}

/// # Safety
/// The CPU has AVX2, and there is room.
#[inline(always)]
unsafe fn store(to: *mut u32, words: __m256i) {
    // SAFETY: the caller's promise.
    unsafe { _mm256_storeu_si256(to.cast(), words) }
}

/// For each set of selected lanes: these in order, then any.
static ORDERS: Orders = Orders({
    let mut orders = [[0; WIDTH]; 1 << WIDTH];
    let mut set = 0;
    while set < orders.len() {
        let (mut lane, mut place) = (0, 0);
        while lane < WIDTH {
            if set >> lane & 1 == 1 {
                orders[set][place] = lane as u32;
                place += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    orders
});

/// Aligned for vector loads.
#[repr(align(32))]
struct Orders([[u32; WIDTH]; 1 << WIDTH]);
