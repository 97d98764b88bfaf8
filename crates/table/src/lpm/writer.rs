//! The one owner of a table's content.

use std::fmt;
use std::sync::Arc;

use weir_base::reclaim::Domain;

use super::key::{Key, Prefix};
use super::node::Fill;
use super::rib::Rib;
use super::route::{Full, Limits, Stats, Value};
use super::table::Table;
use super::trie::{Budget, NoRoom, Trie};

/// The control side of a longest-prefix-match table: it keeps the routes, and changes what readers see.
pub struct Writer<K: Key> {
    rib: Rib<K>,
    trie: Trie<K>,
    limits: Limits,
}

impl<K: Key> Writer<K> {
    /// An empty table for readers of `domain`.
    ///
    /// # Errors
    /// [`Full::AddressSpace`] if the system has none left for it: a multiple of what the limits allow is reserved, and memory is
    /// taken as it is used.
    pub fn new(domain: &Domain, limits: Limits) -> Result<Writer<K>, Full> {
        Ok(Writer { rib: Rib::new(), trie: Trie::new(domain, limits)?, limits })
    }

    /// The current table, for readers.
    pub fn table(&self) -> Arc<Table<K>> {
        self.trie.table().clone()
    }

    /// Adds a route to the current table, or changes its value; gives the value it had.
    ///
    /// # Errors
    /// If there is no room. Then nothing has changed.
    pub fn insert(&mut self, prefix: Prefix<K>, value: Value) -> Result<Option<Value>, Full> {
        let old = self.rib.get(&prefix);
        if old == Some(value.0) {
            return Ok(old.map(Value));
        }
        if old.is_none() && self.rib.len() >= self.limits.max_routes {
            return Err(Full::Routes(self.limits.max_routes));
        }
        self.trie
            .paint(&prefix, Fill { leaf: value.0, len: prefix.len() }, Budget::Limited)
            .map_err(|NoRoom| Full::Bytes(self.limits.max_bytes))?;
        self.rib.insert(prefix, value.0);
        Ok(old.map(Value))
    }

    /// Takes a route out of the current table; gives the value it had.
    ///
    /// If memory is short, it waits for the readers to pass: the calling thread must not be pinned itself.
    ///
    /// # Panics
    /// If memory is short because older tables, several times the limit in total, are still held.
    pub fn remove(&mut self, prefix: &Prefix<K>) -> Option<Value> {
        let old = self.rib.remove(prefix)?;
        let fill = self.rib.cover(prefix).map_or(Fill::NOTHING, |(leaf, len)| Fill { leaf, len });
        self.trie.paint(prefix, fill, Budget::Whatever).expect("older tables are dropped at some time");
        Some(Value(old))
    }

    /// The value of the route for exactly this prefix.
    pub fn get(&self, prefix: &Prefix<K>) -> Option<Value> {
        self.rib.get(prefix).map(Value)
    }

    /// The routes, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<K>, Value)> {
        self.rib.iter().map(|(prefix, value)| (prefix, Value(value)))
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.rib.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How full the table is.
    pub fn stats(&self) -> Stats {
        let (bytes, waiting_bytes) = self.trie.octets();
        Stats {
            routes: self.rib.len(),
            max_routes: self.limits.max_routes,
            bytes,
            waiting_bytes,
            max_bytes: self.limits.max_bytes,
            writer_bytes: self.rib.octets() + self.trie.side_octets(),
        }
    }

    /// Frees what readers have passed. Every change does this too; here for a writer that rests.
    pub fn collect(&mut self) {
        self.trie.collect();
    }

    pub(crate) fn trie(&mut self) -> &mut Trie<K> {
        &mut self.trie
    }

    /// Puts the record of a route back, when the trie has gone back by itself.
    pub(crate) fn restore(&mut self, prefix: Prefix<K>, value: Option<Value>) {
        match value {
            Some(value) => self.rib.insert(prefix, value.0),
            None => self.rib.remove(&prefix),
        };
    }
}

impl<K: Key> fmt::Debug for Writer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
