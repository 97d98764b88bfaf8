//! The routes that the trie is computed from.

use std::collections::HashMap;

use super::hash::Folding;
use super::key::{Key, Prefix};

/// All prefixes with their values, and the number of each length. A search for the next shorter prefix tries only
/// existing lengths.
pub(crate) struct Rib<K: Key> {
    values: HashMap<Prefix<K>, u32, Folding>,
    of_len: [u32; 129],
}

impl<K: Key> Rib<K> {
    pub(crate) fn new() -> Rib<K> {
        Rib { values: HashMap::with_hasher(Folding::random()), of_len: [0; 129] }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn get(&self, prefix: &Prefix<K>) -> Option<u32> {
        self.values.get(prefix).copied()
    }

    pub(crate) fn insert(&mut self, prefix: Prefix<K>, value: u32) -> Option<u32> {
        let old = self.values.insert(prefix, value);
        if old.is_none() {
            self.of_len[usize::from(prefix.len())] += 1;
        }
        old
    }

    pub(crate) fn remove(&mut self, prefix: &Prefix<K>) -> Option<u32> {
        let old = self.values.remove(prefix)?;
        self.of_len[usize::from(prefix.len())] -= 1;
        Some(old)
    }

    /// Returns value and length of the longest route that contains `prefix` and is shorter, except for the default
    /// route.
    pub(crate) fn cover(&self, prefix: &Prefix<K>) -> Option<(u32, u8)> {
        let lens = (1..prefix.len()).rev().filter(|&len| self.of_len[usize::from(len)] > 0);
        lens.map(|len| prefix.shorten(len)).find_map(|shorter| Some((self.get(&shorter)?, shorter.len())))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Prefix<K>, u32)> {
        self.values.iter().map(|(&prefix, &value)| (prefix, value))
    }

    /// Returns the approximate octets of the map.
    pub(crate) fn octets(&self) -> usize {
        self.values.capacity() * 8 / 7 * (size_of::<(Prefix<K>, u32)>() + 1)
    }
}
