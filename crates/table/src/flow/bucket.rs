//! A bucket: its tags, and its entries.

/// Entries of a bucket.
pub(super) const LANES: usize = 31;

/// Buckets of a group.
pub(super) const BUCKETS: usize = 16;
/// Entries of a group.
#[cfg(test)]
pub(super) const ENTRIES: usize = BUCKETS * LANES;

/// An entry, aligned as `A` is.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Entry<K, V, A> {
    aligned: [A; 0],
    pub(super) key: K,
    pub(super) value: V,
}

impl<K, V, A> Entry<K, V, A> {
    pub(super) fn new(key: K, value: V) -> Self {
        Entry { aligned: [], key, value }
    }
}

/// The tags of the entries of a bucket, and the buckets that have entries at home here.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Tags {
    /// 0: the lane is vacant.
    lanes: [u16; LANES],
    /// A bit for each other bucket of the group with entries whose home this is.
    pub(super) away: u16,
}

const _: () = assert!(size_of::<Tags>() == 64);

impl Default for Tags {
    fn default() -> Tags {
        Tags::EMPTY
    }
}

impl Tags {
    pub(super) const EMPTY: Tags = Tags { lanes: [0; LANES], away: 0 };

    /// The lanes with a tag, as bits.
    #[inline(always)]
    pub(super) fn matching(&self, tag: u16) -> u32 {
        #[cfg(target_arch = "x86_64")]
        {
            self.matching_sse2(tag)
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self.matching_portable(tag)
        }
    }

    /// The same by comparisons of one tag.
    #[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "the body of other machines, tested on all"))]
    pub(super) fn matching_portable(&self, tag: u16) -> u32 {
        let bit = |(lane, own): (usize, &u16)| u32::from(*own == tag) << lane;
        self.lanes.iter().enumerate().map(bit).fold(0, |all, bit| all | bit)
    }

    /// The same by comparisons of eight tags.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn matching_sse2(&self, tag: u16) -> u32 {
        use core::arch::x86_64::{
            __m128i, _mm_cmpeq_epi16, _mm_load_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
        };
        // SAFETY: SSE2 is part of x86-64; `self` is 64 octets, aligned to as many, of which the loads take 16 each.
        let bits = unsafe {
            let own: *const __m128i = std::ptr::from_ref(self).cast();
            let tag = _mm_set1_epi16(tag as i16);
            let equal = |at: usize| _mm_cmpeq_epi16(_mm_load_si128(own.add(at)), tag);
            let low = _mm_movemask_epi8(_mm_packs_epi16(equal(0), equal(1))) as u32;
            let high = _mm_movemask_epi8(_mm_packs_epi16(equal(2), equal(3))) as u32;
            low | high << 16
        };
        // The last word is no tag.
        bits & ((1 << LANES) - 1)
    }

    /// The same by one comparison.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    pub(super) fn matching_avx512(&self, tag: u16) -> u32 {
        use core::arch::x86_64::{_mm512_cmpeq_epi16_mask, _mm512_load_si512, _mm512_set1_epi16};
        // SAFETY: `self` is 64 octets, aligned to as many.
        let own = unsafe { _mm512_load_si512(std::ptr::from_ref(self).cast()) };
        // The last word is no tag.
        _mm512_cmpeq_epi16_mask(own, _mm512_set1_epi16(tag as i16)) & ((1 << LANES) - 1)
    }

    /// The first vacant lane.
    #[inline]
    pub(super) fn vacant(&self) -> Option<usize> {
        let lane = self.matching(0).trailing_zeros() as usize;
        (lane < LANES).then_some(lane)
    }

    #[inline]
    pub(super) fn tag(&self, lane: usize) -> Option<u16> {
        self.lanes.get(lane).copied().filter(|&tag| tag != 0)
    }

    pub(super) fn set(&mut self, lane: usize, tag: u16) {
        self.lanes[lane] = tag;
    }

    /// The lanes in use, as bits.
    #[inline]
    pub(super) fn lanes_in_use(&self) -> u32 {
        !self.matching(0) & ((1 << LANES) - 1)
    }

    /// The lanes in use.
    pub(super) fn taken(&self) -> impl Iterator<Item = usize> {
        let mut left = self.lanes_in_use();
        std::iter::from_fn(move || {
            let lane = (left != 0).then(|| left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
            lane
        })
    }
}
