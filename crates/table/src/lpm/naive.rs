//! The specification: the longest of all prefixes that contain the key decides. Found by looking at each.

use super::key::{Key, Prefix};
use super::route::{NO_ROUTE, Value};

/// A list of routes.
#[derive(Clone, Debug)]
pub struct Naive<K: Key> {
    routes: Vec<(Prefix<K>, Value)>,
}

impl<K: Key> Naive<K> {
    /// No routes.
    pub fn new() -> Naive<K> {
        Naive { routes: Vec::new() }
    }

    /// Adds a route, or changes its value; gives the value it had.
    pub fn insert(&mut self, prefix: Prefix<K>, value: Value) -> Option<Value> {
        match self.routes.iter_mut().find(|route| route.0 == prefix) {
            Some(route) => Some(std::mem::replace(&mut route.1, value)),
            None => {
                self.routes.push((prefix, value));
                None
            }
        }
    }

    /// Takes a route out; gives the value it had.
    pub fn remove(&mut self, prefix: &Prefix<K>) -> Option<Value> {
        let position = self.routes.iter().position(|route| route.0 == *prefix)?;
        Some(self.routes.swap_remove(position).1)
    }

    /// The value of the longest prefix that contains `key`, or [`NO_ROUTE`].
    pub fn lookup(&self, key: K) -> u32 {
        let matching = self.routes.iter().filter(|route| route.0.contains(key));
        matching.max_by_key(|route| route.0.len()).map_or(NO_ROUTE, |route| route.1.get())
    }

    /// The routes, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<K>, Value)> {
        self.routes.iter().copied()
    }
}

impl<K: Key> Default for Naive<K> {
    fn default() -> Naive<K> {
        Naive::new()
    }
}
