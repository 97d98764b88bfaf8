//! Changes that become visible together.

use std::fmt;
use std::sync::Arc;

use super::key::{Key, Prefix};
use super::route::{Full, Value};
use super::table::Table;
use super::writer::Writer;

/// Changes to a draft, which shares all unchanged blocks with the current table.
///
/// [`commit`](Transaction::commit) makes the draft the current table. The previous table stays unchanged while it is
/// referenced. Dropping the transaction undoes it.
pub struct Transaction<'w, K: Key> {
    writer: &'w mut Writer<K>,
    /// Previous value of each changed route, in the order of changes.
    undo: Vec<(Prefix<K>, Option<Value>)>,
    committed: bool,
}

impl<K: Key> Writer<K> {
    /// Begins changes that readers see at once, in a new table.
    pub fn transaction(&mut self) -> Transaction<'_, K> {
        self.trie().begin();
        Transaction { writer: self, undo: Vec::new(), committed: false }
    }
}

impl<K: Key> Transaction<'_, K> {
    /// Adds or changes a route. Returns its previous value.
    ///
    /// # Errors
    /// If the table has no room. The change is left out; the transaction can continue or be dropped.
    pub fn insert(&mut self, prefix: Prefix<K>, value: Value) -> Result<Option<Value>, Full> {
        let old = self.writer.insert(prefix, value)?;
        self.undo.push((prefix, old));
        Ok(old)
    }

    /// Removes a route. Returns its value.
    ///
    /// # Panics
    /// As [`Writer::remove`].
    pub fn remove(&mut self, prefix: &Prefix<K>) -> Option<Value> {
        let old = self.writer.remove(prefix)?;
        self.undo.push((*prefix, Some(old)));
        Some(old)
    }

    /// Returns the value of the route for exactly this prefix, with changes.
    pub fn get(&self, prefix: &Prefix<K>) -> Option<Value> {
        self.writer.get(prefix)
    }

    /// Returns the routes with changes, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<K>, Value)> {
        self.writer.iter()
    }

    /// Makes the draft the current table and returns it.
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
