//! The interfaces and the adjacencies of multipath sets, as validation looks them up.

use std::sync::Arc;

/// The interfaces of each multipath set, as bits.
#[derive(Debug, Clone, Default)]
pub struct Reverse {
    /// Words for each set.
    width: usize,
    words: Arc<[u64]>,
}

impl Reverse {
    /// Of sets, each with the interfaces of its paths; interfaces have numbers below `interfaces`.
    pub fn new(sets: &[Vec<u32>], interfaces: usize) -> Reverse {
        let width = interfaces.div_ceil(64).max(1);
        let mut words = vec![0; sets.len() * width];
        for (row, set) in words.chunks_exact_mut(width).zip(sets) {
            for interface in set {
                if let Some(word) = row.get_mut((interface / 64) as usize) {
                    *word |= 1 << (interface % 64);
                }
            }
        }
        Reverse { width, words: words.into() }
    }

    /// Returns whether the sets that two versions have both have paths over the same interfaces.
    pub fn agrees(&self, other: &Reverse) -> bool {
        let common = self.words.len().min(other.words.len());
        self.width == other.width && self.words[..common] == other.words[..common]
    }

    /// A set has a path over an interface.
    #[inline(always)]
    pub fn has(&self, set: u32, interface: u32) -> bool {
        let word = (interface / 64) as usize;
        let words = self.words.get(set as usize * self.width + word);
        word < self.width && words.is_some_and(|word| word >> (interface % 64) & 1 != 0)
    }
}

/// The adjacencies of each multipath set.
#[derive(Debug, Clone, Default)]
pub struct Paths {
    /// Where each set ends in the list; it starts where the one before ends.
    ends: Arc<[u32]>,
    list: Arc<[u32]>,
}

impl Paths {
    /// Of sets, each with the numbers of its adjacencies.
    pub fn new(sets: &[Vec<u32>]) -> Paths {
        let ends = sets.iter().scan(0, |end, set| {
            *end += set.len() as u32;
            Some(*end)
        });
        Paths { ends: ends.collect(), list: sets.concat().into() }
    }

    /// The adjacencies of a set.
    #[inline]
    pub fn of(&self, set: u32) -> &[u32] {
        let set = set as usize;
        let start = set.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let range = start.zip(self.ends.get(set).copied());
        range.and_then(|(start, end)| self.list.get(start as usize..end as usize)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_the_interfaces_of_their_paths() {
        let sets = [vec![0, 63, 64], vec![], vec![255, 1]];
        let reverse = Reverse::new(&sets, 256);
        for (number, set) in (0..).zip(&sets) {
            for interface in 0..600 {
                assert_eq!(reverse.has(number, interface), set.contains(&interface), "{number} {interface}");
            }
        }
        assert!(!reverse.has(3, 0) && !Reverse::default().has(0, 0));
        let paths = Paths::new(&sets);
        for (number, set) in (0..).zip(&sets) {
            assert_eq!(paths.of(number), set);
        }
        assert!(paths.of(3).is_empty() && Paths::default().of(0).is_empty());
    }
}
