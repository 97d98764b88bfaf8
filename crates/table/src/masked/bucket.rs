//! Buckets: three keys with their numbers, in whole cache lines.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::prefetch;

use crate::memory::{Memory, Zeroed};

/// Keys of a bucket.
pub(super) const SLOTS: usize = 3;
/// Buckets of a group: as many as a header has bits for.
pub(super) const GROUP: usize = 32;
/// Words of a header: the numbers of three slots, and the bits of the buckets that hold keys of this one.
const HEADER: usize = 2;
/// The mark of a slot without a key.
pub(super) const VACANT: u32 = 0;
/// The mark of a slot whose key was removed, and that readers may still look at.
pub(super) const CLOSED: u32 = u32::MAX;

/// A cache line of words.
#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; 8]);

// SAFETY: zeros are words without a key; it is a cache line of atomic numbers.
unsafe impl Zeroed for Line {}

/// All buckets of a table.
pub(super) struct Buckets {
    lines: Memory<Line>,
    /// Lines of a bucket.
    each: usize,
    /// Words of a key.
    words: usize,
}

/// The marks of a bucket's slots, and the bits of buckets that hold keys of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) marks: [u32; SLOTS],
    pub(super) beyond: u32,
}

impl Buckets {
    /// Creates empty buckets, in whole groups, for keys of so many words.
    pub(super) fn new(groups: usize, words: usize) -> Buckets {
        let each = lines_of(words);
        Buckets { lines: Memory::new(groups * GROUP * each), each, words }
    }

    /// Octets of memory of a group, for keys of so many words.
    pub(super) fn octets_of_group(words: usize) -> usize {
        GROUP * lines_of(words) * size_of::<Line>()
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    /// The lines of a bucket.
    #[inline(always)]
    fn bucket(&self, number: usize) -> &[Line] {
        self.lines.get(number * self.each..(number + 1) * self.each).unwrap_or_default()
    }

    /// Fetches the first lines of a bucket, which hold the header and at least the first key.
    #[inline(always)]
    pub(super) fn fetch<const W: usize>(&self, number: usize) {
        let first = self.lines.as_ptr().wrapping_add(number * lines_of(W));
        for line in 0..lines_of(W).min(2) {
            prefetch::read(first.wrapping_add(line));
        }
    }

    /// Reads the header of a bucket. What is behind a mark that is not [`VACANT`] or [`CLOSED`] can be read after that.
    #[inline(always)]
    pub(super) fn header(&self, number: usize) -> Header {
        let Some(Line(words)) = self.lines.get(number * self.each) else {
            return Header { marks: [VACANT; SLOTS], beyond: 0 };
        };
        let [low, high] = [words[0].load(Ordering::Acquire), words[1].load(Ordering::Acquire)];
        Header { marks: [low as u32, (low >> 32) as u32, high as u32], beyond: (high >> 32) as u32 }
    }

    /// Writes the header of a bucket. Only the writer does.
    pub(super) fn set_header(&self, number: usize, header: Header) {
        let Some(Line(words)) = self.lines.get(number * self.each) else { return };
        let [a, b, c] = header.marks.map(u64::from);
        words[0].store(a | b << 32, Ordering::Release);
        words[1].store(c | u64::from(header.beyond) << 32, Ordering::Release);
    }

    /// A slot of a bucket holds this key of `W` words, which is what the buckets have.
    #[inline(always)]
    pub(super) fn holds<const W: usize>(&self, number: usize, slot: usize, key: &[u64; W]) -> bool {
        let start = number * lines_of(W);
        let Some(lines) = self.lines.get(start..start + lines_of(W)) else { return false };
        let mut differ = 0;
        for (index, word) in key.iter().enumerate() {
            let at = HEADER + slot * W + index;
            differ |= lines[at / 8].0[at % 8].load(Ordering::Relaxed) ^ word;
        }
        differ == 0
    }

    /// The word of a key in a slot of a bucket.
    fn word(&self, number: usize, slot: usize, index: usize) -> Option<&AtomicU64> {
        let at = HEADER + slot * self.words + index;
        self.bucket(number).get(at / 8).map(|line| &line.0[at % 8])
    }

    /// Reads the key in a slot. Only the writer does.
    pub(super) fn key(&self, number: usize, slot: usize) -> super::Key {
        let word = |index| self.word(number, slot, index).map_or(0, |word| word.load(Ordering::Relaxed));
        std::array::from_fn(|index| if index < self.words { word(index) } else { 0 })
    }

    /// Writes a key into a slot that no reader looks at. Only the writer does.
    pub(super) fn set_key(&self, number: usize, slot: usize, key: &super::Key) {
        for (index, &value) in key.iter().enumerate().take(self.words) {
            if let Some(word) = self.word(number, slot, index) {
                word.store(value, Ordering::Relaxed);
            }
        }
    }
}

/// Lines of a bucket for keys of so many words.
#[inline(always)]
pub(super) const fn lines_of(words: usize) -> usize {
    (HEADER + SLOTS * words).div_ceil(8)
}
