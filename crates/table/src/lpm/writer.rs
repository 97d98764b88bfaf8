//! The one owner of a table's content.

use std::sync::Arc;
use std::{fmt, io};

use weir_base::reclaim::Domain;

use super::key::{Key, Prefix};
use super::node::Fill;
use super::rib::Rib;
use super::table::Table;
use super::transaction::Transaction;
use super::trie::{Budget, NoRoom, Trie};

/// What a lookup answers when no prefix contains the key. No route can have it as its value.
pub const NO_ROUTE: u32 = 0;

/// What a route maps to, usually the index of a forwarding object: 1 to [`Value::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(u32);

impl Value {
    /// The largest value: leaves keep the top bit for themselves.
    pub const MAX: Value = Value((1 << 31) - 1);

    /// A value; none if it is [`NO_ROUTE`] or above [`Value::MAX`].
    pub const fn new(value: u32) -> Option<Value> {
        if value != NO_ROUTE && value <= Value::MAX.0 { Some(Value(value)) } else { None }
    }

    /// The number, as lookups give it.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// How large a table may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Routes that the writer takes.
    pub max_routes: usize,
    /// Octets of memory that lookups touch, with what waits to be freed. Insertion stops here. A removal is never refused,
    /// and may go past the limit: for a while, and for good where routes side by side had one value, which take next to
    /// nothing until some of them go.
    pub max_bytes: usize,
}

/// The table is at one of its limits, and has stayed as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// The limit of routes, with its value.
    #[error("the table is full: {0} routes")]
    Routes(usize),
    /// The limit of octets, with its value.
    #[error("the table is full: {0} bytes")]
    Bytes(usize),
    /// The system refuses the address space that a new table asks for, and so there is none.
    #[error("no room for a table: the system refuses {octets} bytes of address space ({reason})")]
    AddressSpace {
        /// What was asked for.
        octets: usize,
        /// What the system said.
        reason: io::ErrorKind,
    },
}

/// How full a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Routes in the table.
    pub routes: usize,
    /// The limit of routes.
    pub max_routes: usize,
    /// Octets of memory that lookups touch, with what waits to be freed.
    pub bytes: usize,
    /// Those octets that wait until readers have passed or older tables are dropped.
    pub waiting_bytes: usize,
    /// The limit of octets.
    pub max_bytes: usize,
    /// Octets that the writer needs besides, about: the routes themselves, and notes on the blocks.
    pub writer_bytes: usize,
}

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

    /// Begins a set of changes that readers see at once, in a new table.
    pub fn transaction(&mut self) -> Transaction<'_, K> {
        Transaction::new(self)
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
