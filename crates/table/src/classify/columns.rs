//! The bits that rules require, by bit instead of by rule.

use super::facts::Facts;

/// Largest number of rules of columns.
pub(super) const MOST: usize = 64;

/// For each bit of a word: the rules that require 0, and the rules that require 1, one bit each.
pub(super) struct Columns {
    pub(super) zero: [u64; 64],
    pub(super) one: [u64; 64],
}

impl Columns {
    /// Returns the columns of a word of packets for at most [`MOST`] rules; `None` if the word separates no rules.
    #[inline(always)]
    pub(super) fn of(rules: &[&Facts], word: usize) -> Option<Columns> {
        let mut columns = Columns { zero: [0; 64], one: [0; 64] };
        let (mut any_zero, mut any_one) = (0, 0);
        for ((zero, one), facts) in columns.zero.iter_mut().zip(&mut columns.one).zip(rules) {
            (*zero, *one) = (facts.known[word] & !facts.value[word], facts.value[word]);
            (any_zero, any_one) = (any_zero | *zero, any_one | *one);
        }
        if any_zero & any_one == 0 {
            return None;
        }
        if rules.len() > MOST / 2 {
            transpose(&mut columns.zero);
            transpose(&mut columns.one);
            return Some(columns);
        }
        // One square has room for both.
        let (half, Columns { zero, one }) = (MOST / 2, &mut columns);
        zero[half..].copy_from_slice(&one[..half]);
        transpose(zero);
        for (zero, one) in zero.iter_mut().zip(one) {
            (*one, *zero) = (*zero >> half, *zero & u64::from(u32::MAX));
        }
        Some(columns)
    }
}

/// Transposes: bit `c` of row `r` becomes bit `r` of row `c`. Swaps larger squares first, then smaller ones inside (H.
/// S. Warren, Hacker's Delight, 7-3).
#[inline(always)]
fn transpose(rows: &mut [u64; 64]) {
    let (mut width, mut mask) = (32, u64::from(u32::MAX));
    while width > 0 {
        for first in (0..64).step_by(2 * width) {
            for row in first..first + width {
                let swapped = (rows[row] >> width ^ rows[row + width]) & mask;
                rows[row] ^= swapped << width;
                rows[row + width] ^= swapped;
            }
        }
        width /= 2;
        mask ^= mask << width;
    }
}

/// Counts, for each bit, the words that have it.
#[derive(Clone, Copy)]
pub(super) struct Tally {
    bytes: [u64; 8],
    /// Words in `bytes`, which are added up before one overflows.
    words: u8,
    counts: [u16; 64],
}

impl Tally {
    #[inline(always)]
    pub(super) const fn new() -> Tally {
        Tally { bytes: [0; 8], words: 0, counts: [0; 64] }
    }

    /// Adds a word; at most 65,535 in all.
    #[inline(always)]
    pub(super) fn add(&mut self, word: u64) {
        for (byte, counts) in self.bytes.iter_mut().enumerate() {
            // Each of eight bytes gets one bit; a non-zero byte overflows into its top bit.
            let bits = ((word >> (8 * byte) & 0xff) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
            *counts += (bits + 0x7f7f_7f7f_7f7f_7f7f) >> 7 & 0x0101_0101_0101_0101;
        }
        self.words += 1;
        if self.words == u8::MAX {
            self.flush();
        }
    }

    #[inline(always)]
    fn flush(&mut self) {
        for (counts, bytes) in self.counts.chunks_exact_mut(8).zip(self.bytes) {
            counts.iter_mut().zip(bytes.to_le_bytes()).for_each(|(count, more)| *count += u16::from(more));
        }
        (self.bytes, self.words) = ([0; 8], 0);
    }

    #[inline(always)]
    pub(super) fn counts(mut self) -> [u16; 64] {
        self.flush();
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use weir_base::random::Random;

    use super::super::sample;
    use super::*;

    #[test]
    fn rows_become_columns() {
        let mut random = Random::from_seed(1);
        let rows: [u64; 64] = std::array::from_fn(|_| random.next());
        let mut columns = rows;
        transpose(&mut columns);
        for (row, word) in rows.iter().enumerate() {
            for (column, bits) in columns.iter().enumerate() {
                assert_eq!(word >> column & 1, bits >> row & 1, "row {row}, column {column}");
            }
        }
    }

    #[test]
    fn columns_say_what_rules_want() {
        let mut random = Random::from_seed(3);
        for rules in [1, 2, 31, 32, 33, 64] {
            let facts =
                Vec::from_iter(sample::mixed::<u32>(rules, &mut random).iter().map(|rule| Facts::new(0, 0, 0, rule)));
            let rules = Vec::from_iter(&facts);
            for word in 0..3 {
                let wants = |bit: usize, of: fn(&Facts, usize) -> u64| {
                    (0..).zip(&rules).fold(0, |all, (rule, facts)| all | (of(facts, word) >> bit & 1) << rule)
                };
                let zero =
                    Vec::from_iter((0..64).map(|bit| wants(bit, |facts, word| facts.known[word] & !facts.value[word])));
                let one = Vec::from_iter((0..64).map(|bit| wants(bit, |facts, word| facts.value[word])));
                match Columns::of(&rules, word) {
                    Some(columns) => assert_eq!((columns.zero.to_vec(), columns.one.to_vec()), (zero, one)),
                    None => assert!(zero.iter().zip(&one).all(|(zero, one)| *zero == 0 || *one == 0)),
                }
            }
        }
    }

    #[test]
    fn bits_are_counted_past_what_a_byte_holds() {
        let mut random = Random::from_seed(2);
        for words in [0, 1, 254, 255, 256, 1000, 4000] {
            let words = Vec::from_iter((0..words).map(|_| random.next() & random.next() | 1 << 63));
            let mut tally = Tally::new();
            words.iter().for_each(|word| tally.add(*word));
            for (bit, count) in tally.counts().into_iter().enumerate() {
                assert_eq!(usize::from(count), words.iter().filter(|word| *word >> bit & 1 == 1).count(), "bit {bit}");
            }
        }
    }
}
