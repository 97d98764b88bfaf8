//! Many changes that become visible together.

use std::fmt;
use std::sync::Arc;

use super::key::{Key, Prefix};
use super::route::{Full, Value};
use super::table::Table;
use super::writer::Writer;

/// Changes to a draft that shares every untouched block with the current table.
///
/// [`commit`](Transaction::commit) makes the draft the current table. The table before stays as it was for as long as
/// somebody holds it. Dropping the transaction without a commit undoes it.
pub struct Transaction<'w, K: Key> {
    writer: &'w mut Writer<K>,
    /// What each changed route was before, in the order of the changes.
    undo: Vec<(Prefix<K>, Option<Value>)>,
    committed: bool,
}

impl<K: Key> Writer<K> {
    /// Begins a set of changes that readers see at once, in a new table.
    pub fn transaction(&mut self) -> Transaction<'_, K> {
        self.trie().begin();
        Transaction { writer: self, undo: Vec::new(), committed: false }
    }
}

impl<K: Key> Transaction<'_, K> {
    /// Adds a route, or changes its value; gives the value it had.
    ///
    /// # Errors
    /// If there is no room. Then this change is left out, and the transaction can go on or be dropped.
    pub fn insert(&mut self, prefix: Prefix<K>, value: Value) -> Result<Option<Value>, Full> {
        let old = self.writer.insert(prefix, value)?;
        self.undo.push((prefix, old));
        Ok(old)
    }

    /// Takes a route out; gives the value it had.
    ///
    /// # Panics
    /// As [`Writer::remove`].
    pub fn remove(&mut self, prefix: &Prefix<K>) -> Option<Value> {
        let old = self.writer.remove(prefix)?;
        self.undo.push((*prefix, Some(old)));
        Some(old)
    }

    /// The value of the route for exactly this prefix, changes included.
    pub fn get(&self, prefix: &Prefix<K>) -> Option<Value> {
        self.writer.get(prefix)
    }

    /// The routes, changes included, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<K>, Value)> {
        self.writer.iter()
    }

    /// Makes the changes current, and gives the new table.
    pub fn commit(mut self) -> Arc<Table<K>> {
        self.committed = true;
        self.writer.trie().commit();
        self.writer.table()
    }
}

impl<K: Key> Drop for Transaction<'_, K> {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        self.writer.trie().roll_back();
        for (prefix, value) in self.undo.drain(..).rev() {
            self.writer.restore(prefix, value);
        }
    }
}

impl<K: Key> fmt::Debug for Transaction<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("changes", &self.undo.len()).finish_non_exhaustive()
    }
}
