//! The walks over long slices, with vectors of 256 bits where the CPU has them.

/// Blocks from which on a walk looks up what the CPU has.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 8;

/// The sum of blocks, as words of 32 bits.
#[inline]
pub(super) fn sum(blocks: &[[u8; 32]]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if blocks.len() >= LONG && is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2, which is all that the function needs.
        return unsafe { sum_by_avx2(blocks) };
    }
    sum_of(blocks)
}

/// Copies blocks to as many others, and gives their sum.
#[inline]
pub(super) fn copied(from: &[[u8; 32]], to: &mut [[u8; 32]]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if from.len() >= LONG && is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2, which is all that the function needs.
        return unsafe { copied_by_avx2(from, to) };
    }
    copy_of(from, to)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_by_avx2(blocks: &[[u8; 32]]) -> u64 {
    sum_of(blocks)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn copied_by_avx2(from: &[[u8; 32]], to: &mut [[u8; 32]]) -> u64 {
    copy_of(from, to)
}

#[inline(always)]
fn sum_of(blocks: &[[u8; 32]]) -> u64 {
    let mut lanes = [0u64; 8];
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = lane.wrapping_add(u64::from(u32::from_ne_bytes(*word)));
        }
    }
    lanes.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
}

#[inline(always)]
fn copy_of(from: &[[u8; 32]], to: &mut [[u8; 32]]) -> u64 {
    let mut lanes = [0u64; 8];
    for (block, copy) in from.iter().zip(to) {
        *copy = *block;
        let (words, _) = block.as_chunks::<4>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = lane.wrapping_add(u64::from(u32::from_ne_bytes(*word)));
        }
    }
    lanes.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_walks_give_what_narrow_ones_do() {
        for count in 0..70u8 {
            let block = |at: u8| std::array::from_fn(|octet| (octet as u8).wrapping_mul(at ^ 0x5a).wrapping_add(0xc1));
            let blocks: Vec<[u8; 32]> = (0..count).map(block).collect();
            let mut copy = vec![[0; 32]; blocks.len()];
            assert_eq!((sum(&blocks), copied(&blocks, &mut copy)), (sum_of(&blocks), sum_of(&blocks)), "{count}");
            assert_eq!(copy, blocks);
        }
    }
}
