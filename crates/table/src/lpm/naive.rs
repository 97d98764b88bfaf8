//! The reference implementation: checks each prefix; the longest that contains the key decides.

use super::key::{Key, Prefix};
use super::route::{NO_ROUTE, Value};

/// A list of routes.
#[derive(Clone, Debug)]
pub struct Naive<K: Key> {
    routes: Vec<(Prefix<K>, Value)>,
}

impl<K: Key> Naive<K> {
    /// Creates a list without routes.
    pub fn new() -> Naive<K> {
        Naive { routes: Vec::new() }
    }

    /// Adds a route or changes its value. Returns its previous value.
    pub fn insert(&mut self, prefix: Prefix<K>, value: Value) -> Option<Value> {
        match self.routes.iter_mut().find(|route| route.0 == prefix) {
            Some(route) => Some(std::mem::replace(&mut route.1, value)),
            None => {
                self.routes.push((prefix, value));
                None
            }
        }
    }

    /// Removes a route. Returns its value.
    pub fn remove(&mut self, prefix: &Prefix<K>) -> Option<Value> {
        let position = self.routes.iter().position(|route| route.0 == *prefix)?;
        Some(self.routes.swap_remove(position).1)
    }

    /// Returns the value of the longest prefix that contains `key`, or [`NO_ROUTE`].
    pub fn lookup(&self, key: K) -> u32 {
        let matching = self.routes.iter().filter(|route| route.0.contains(key));
        matching.max_by_key(|route| route.0.len()).map_or(NO_ROUTE, |route| route.1.get())
    }

    /// Returns the routes, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<K>, Value)> {
        self.routes.iter().copied()
    }
}

impl<K: Key> Default for Naive<K> {
    fn default() -> Naive<K> {
        Naive::new()
    }
}
