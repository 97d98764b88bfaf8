//! The specification of the table: a map with a bound.

use std::collections::HashMap;
use std::hash::Hash;

use super::{Full, Key};

/// Values by keys.
#[derive(Debug, Default)]
pub struct Naive<K, V> {
    map: HashMap<K, V>,
    most: usize,
}

impl<K: Key + Hash, V: Copy> Naive<K, V> {
    /// Creates a table for up to `most` entries.
    pub fn new(most: usize) -> Self {
        Naive { map: HashMap::new(), most }
    }

    /// Sets the bound. Entries beyond a smaller one stay.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns the value of a key.
    pub fn value(&self, key: &K) -> Option<&V> {
        self.map.get(key)
    }

    /// Inserts a key that is not in the table.
    ///
    /// # Errors
    /// If the table is full.
    pub fn insert(&mut self, key: K, value: V) -> Result<(), Full> {
        if self.map.len() >= self.most {
            return Err(Full::Bound);
        }
        self.map.insert(key, value);
        Ok(())
    }

    /// Removes a key; returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.map.remove(key)
    }

    /// Returns the keys, in no particular order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.map.keys()
    }
}
