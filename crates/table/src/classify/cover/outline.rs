//! Addresses and ports of boxes, in a form for batch comparison.

use super::super::address::Address;
use super::super::arch;
use super::super::rule::{Rule, Span};
use super::region::Region;

/// Boxes per comparison.
const BLOCK: usize = 64;

/// Boxes with addresses as ranks. No box begins or ends between two consecutive ranks, so ranges of ranks overlap if
/// and only if the ranges of addresses do.
pub(super) struct Outlines<K> {
    /// Lowest address of each rank, of sources and of destinations.
    starts: [Vec<K>; 2],
    blocks: Vec<Block>,
}

/// Start and end of a region: source and destination as ranks, and the two words.
#[derive(Clone, Copy)]
pub(super) struct Outline {
    addresses: [(u32, u32); 2],
    words: [(u16, u16); 2],
}

struct Block {
    low: [[u32; BLOCK]; 2],
    high: [[u32; BLOCK]; 2],
    low_words: [[u16; BLOCK]; 2],
    high_words: [[u16; BLOCK]; 2],
    /// Number of boxes that were not removed.
    left: usize,
}

impl<K: Address> Outlines<K> {
    pub(super) fn new(boxes: &[&Rule<K>]) -> Outlines<K> {
        let starts = [0, 1].map(|side| {
            let ends = boxes.iter().map(|rule| K::addresses(rule)[side]);
            let mut starts: Vec<K> = ends.flat_map(|span| [Some(span.low()), span.high().next()]).flatten().collect();
            starts.push(K::ZERO);
            starts.sort_unstable();
            starts.dedup();
            starts
        });
        let mut outlines = Outlines { starts, blocks: Vec::with_capacity(boxes.len().div_ceil(BLOCK)) };
        for (number, rule) in boxes.iter().enumerate() {
            let outline = outlines.outline(K::addresses(rule), rule.words());
            if number % BLOCK == 0 {
                outlines.blocks.push(Block::new());
            }
            outlines.blocks[number / BLOCK].set(number % BLOCK, &outline);
        }
        outlines
    }

    /// Removes a box.
    pub(super) fn remove(&mut self, number: usize) {
        let block = &mut self.blocks[number / BLOCK];
        block.left -= usize::from(block.low[0][number % BLOCK] != Block::NOWHERE.0);
        (block.low[0][number % BLOCK], block.high[0][number % BLOCK]) = Block::NOWHERE;
    }

    /// Returns the outline of a region, which begins and ends where boxes do.
    pub(super) fn of(&self, region: &Region<K>) -> Outline {
        self.outline(region.addresses(), region.words())
    }

    fn outline(&self, addresses: [Span<K>; 2], words: [Span<u16>; 2]) -> Outline {
        // There are at most twice as many ranks as boxes, and one: below 2^33, and below 2^32 if memory can hold them.
        // The first is 0.
        let rank = |side: usize, address: K| self.starts[side].partition_point(|start| *start <= address) as u32 - 1;
        Outline {
            addresses: [0, 1].map(|side| (rank(side, addresses[side].low()), rank(side, addresses[side].high()))),
            words: words.map(|word| (word.low(), word.high())),
        }
    }

    /// Returns the boxes from a number on whose addresses and words overlap, in order.
    pub(super) fn candidates(&self, outline: Outline, from: usize) -> Candidates<'_> {
        Candidates { blocks: &self.blocks, outline, from, bits: 0, base: 0, looked_at: 0 }
    }
}

/// Boxes that may overlap a region.
pub(super) struct Candidates<'a> {
    blocks: &'a [Block],
    outline: Outline,
    /// First box that was not compared.
    from: usize,
    /// Candidates among the boxes from `base` on.
    bits: u64,
    base: usize,
    looked_at: usize,
}

impl Candidates<'_> {
    /// Returns the number of compared boxes.
    pub(super) fn looked_at(&self) -> usize {
        self.looked_at
    }

    /// Advances to the next block with candidates.
    fn advance(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if arch::has_avx512() {
            // SAFETY: the CPU has the features.
            unsafe { self.advance_with_avx512() };
            return;
        }
        self.advance_by_any();
    }

    /// # Safety
    /// The CPU has the features.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi1,bmi2,avx2,avx512f,avx512vl,avx512bw")]
    unsafe fn advance_with_avx512(&mut self) {
        self.advance_by_any();
    }

    #[inline(always)]
    fn advance_by_any(&mut self) {
        while self.bits == 0
            && let Some(block) = self.blocks.get(self.from / BLOCK)
        {
            if block.left > 0 {
                self.looked_at += BLOCK;
                self.bits = block.addresses(&self.outline) & u64::MAX << (self.from % BLOCK);
                if self.bits != 0 {
                    self.bits &= block.words(&self.outline);
                }
                self.base = self.from / BLOCK * BLOCK;
            }
            self.from = (self.from / BLOCK + 1) * BLOCK;
        }
    }
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.bits == 0 {
            self.advance();
        }
        (self.bits != 0).then(|| {
            let place = self.bits.trailing_zeros() as usize;
            self.bits &= self.bits - 1;
            self.base + place
        })
    }
}

impl Block {
    /// A range from the last rank to the first, which nothing overlaps: for unused positions.
    const NOWHERE: (u32, u32) = (u32::MAX, 0);

    fn new() -> Block {
        Block {
            low: [[Block::NOWHERE.0; BLOCK]; 2],
            high: [[Block::NOWHERE.1; BLOCK]; 2],
            low_words: [[0; BLOCK]; 2],
            high_words: [[0; BLOCK]; 2],
            left: 0,
        }
    }

    fn set(&mut self, place: usize, outline: &Outline) {
        for side in 0..2 {
            (self.low[side][place], self.high[side][place]) = outline.addresses[side];
            (self.low_words[side][place], self.high_words[side][place]) = outline.words[side];
        }
        self.left += 1;
    }

    #[inline(always)]
    fn addresses(&self, outline: &Outline) -> u64 {
        let [source, destination] = outline.addresses;
        bits(|place| {
            (self.low[0][place] <= source.1)
                & (source.0 <= self.high[0][place])
                & (self.low[1][place] <= destination.1)
                & (destination.0 <= self.high[1][place])
        })
    }

    #[inline(always)]
    fn words(&self, outline: &Outline) -> u64 {
        let [first, second] = outline.words;
        bits(|place| {
            (self.low_words[0][place] <= first.1)
                & (first.0 <= self.high_words[0][place])
                & (self.low_words[1][place] <= second.1)
                & (second.0 <= self.high_words[1][place])
        })
    }
}

/// Returns one bit for each position.
#[inline(always)]
fn bits(holds: impl Fn(usize) -> bool) -> u64 {
    let mut octets = [0u8; BLOCK];
    for (place, octet) in octets.iter_mut().enumerate() {
        *octet = u8::from(holds(place));
    }
    let eights = octets.chunks_exact(8).enumerate().map(|(number, eight)| {
        let eight = u64::from_le_bytes(eight.try_into().expect("chunks are of eight octets"));
        // Gathers the lowest bits of the octets in the highest octet: no two products share a bit.
        (eight.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * number)
    });
    eights.fold(0, |bits, eight| bits | eight)
}
