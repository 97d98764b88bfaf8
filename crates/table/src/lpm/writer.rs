//! The owner of the content of a table.

use std::fmt;
use std::sync::Arc;

use weir_base::reclaim::Domain;

use super::key::{Key, Prefix};
use super::node::Fill;
use super::rib::Rib;
use super::route::{Full, Limits, Stats, Value};
use super::table::Table;
use super::trie::{Budget, NoRoom, Trie};

/// The control side of a longest-prefix-match table: holds the routes and changes the table of the readers.
pub struct Writer<K: Key> {
    rib: Rib<K>,
    trie: Trie<K>,
    limits: Limits,
}

impl<K: Key> Writer<K> {
    /// Creates an empty table for readers of `domain`.
    ///
    /// # Errors
    /// [`Full::AddressSpace`] if the system lacks address space. A multiple of the limit is reserved; the kernel
    /// allocates memory on use.
    pub fn new(domain: &Domain, limits: Limits) -> Result<Writer<K>, Full> {
        Ok(Writer { rib: Rib::new(), trie: Trie::new(domain, limits)?, limits })
    }

    /// Returns the current table for readers.
    pub fn table(&self) -> Arc<Table<K>> {
        self.trie.table().clone()
    }

    /// Adds a route to the current table or changes its value. Returns its previous value.
    ///
    /// # Errors
    /// If the table has no room; it is unchanged.
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

    /// Removes a route from the current table. Returns its value.
    ///
    /// Waits for readers if memory is short: the calling thread must not be pinned.
    ///
    /// # Panics
    /// If memory is short because older tables, several times the limit in total, are still referenced.
    pub fn remove(&mut self, prefix: &Prefix<K>) -> Option<Value> {
        let old = self.rib.remove(prefix)?;
        let fill = self.rib.cover(prefix).map_or(Fill::NOTHING, |(leaf, len)| Fill { leaf, len });
        self.trie.paint(prefix, fill, Budget::Whatever).expect("older tables are dropped at some time");
        Some(Value(old))
    }

    /// Returns the value of the route for exactly this prefix.
    pub fn get(&self, prefix: &Prefix<K>) -> Option<Value> {
        self.rib.get(prefix).map(Value)
    }

    /// Returns the routes, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<K>, Value)> {
        self.rib.iter().map(|(prefix, value)| (prefix, Value(value)))
    }

    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.rib.len()
    }

    /// Returns whether the table has no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the occupancy of the table.
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

    /// Frees blocks that readers have passed. Every change does this, too; for a writer without changes.
    pub fn collect(&mut self) {
        self.trie.collect();
    }

    pub(crate) fn trie(&mut self) -> &mut Trie<K> {
        &mut self.trie
    }

    /// Restores the record of a route after the trie was rolled back.
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
