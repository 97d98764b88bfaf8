//! A reference implementation for long runs: a map per prefix length, tried from the longest. The tests compare it with
//! [`naive`](super::naive).

use std::collections::HashMap;

use super::hash::Folding;
use super::key::{Key, Prefix};
use super::route::{NO_ROUTE, Value};

/// Routes by length.
#[derive(Clone, Debug)]
pub struct Indexed<K> {
    /// Existing lengths, longest first, with their routes by address.
    lengths: Vec<(u8, HashMap<K, Value, Folding>)>,
}

impl<K: Key> Indexed<K> {
    /// Creates a list without routes.
    pub fn new() -> Indexed<K> {
        Indexed { lengths: Vec::new() }
    }

    /// Adds a route or changes its value. Returns its previous value.
    pub fn insert(&mut self, prefix: Prefix<K>, value: Value) -> Option<Value> {
        let position = match self.find(prefix.len()) {
            Ok(position) => position,
            Err(position) => {
                self.lengths.insert(position, (prefix.len(), HashMap::with_hasher(Folding::random())));
                position
            }
        };
        self.lengths[position].1.insert(prefix.address(), value)
    }

    /// Removes a route. Returns its value.
    pub fn remove(&mut self, prefix: &Prefix<K>) -> Option<Value> {
        let position = self.find(prefix.len()).ok()?;
        let old = self.lengths[position].1.remove(&prefix.address());
        if self.lengths[position].1.is_empty() {
            self.lengths.remove(position);
        }
        old
    }

    /// Returns the value of the longest prefix that contains `key`, or [`NO_ROUTE`].
    pub fn lookup(&self, key: K) -> u32 {
        let of_len = |(len, routes): &(u8, HashMap<K, Value, Folding>)| routes.get(&key.truncate(*len)).copied();
        self.lengths.iter().find_map(of_len).map_or(NO_ROUTE, Value::get)
    }

    fn find(&self, len: u8) -> Result<usize, usize> {
        self.lengths.binary_search_by(|(other, _)| len.cmp(other))
    }
}

impl<K: Key> Default for Indexed<K> {
    fn default() -> Indexed<K> {
        Indexed::new()
    }
}
