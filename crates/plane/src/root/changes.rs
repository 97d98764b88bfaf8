//! Changes of what workers read.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the changes of roots and of the tables that they share. Each change is announced before and after, so that decisions
/// of one number of changes hold as long as the number stays.
///
/// A worker reads the number before and after it loads the root. If both are the same, the root is that of this number. What
/// is changed in place afterwards may already be seen by lookups of the same vector; their decisions are of the number before,
/// and hold no longer than it.
#[derive(Debug, Default)]
pub struct Changes {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Changes {
    /// A change is to begin.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// A change that was begun is in force.
    pub fn end(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of changes; `None` while one is under way.
    #[inline]
    pub fn settled(&self) -> Option<u64> {
        // In this order: what has ended by now has begun before.
        let ended = self.ended.load(Ordering::SeqCst);
        let begun = self.begun.load(Ordering::SeqCst);
        (begun == ended).then_some(begun)
    }
}

/// A value whose changes are announced, beside a worker that is stepped: no change is under way while it runs.
pub struct Announced<T> {
    value: T,
    changes: Arc<Changes>,
}

impl<T> Announced<T> {
    /// A value that nobody has read yet.
    pub fn new(value: T, changes: Arc<Changes>) -> Announced<T> {
        Announced { value, changes }
    }
}

impl<T> Deref for Announced<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Announced<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.changes.begin();
        self.changes.end();
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_settled_while_a_change_is_under_way() {
        let changes = Changes::default();
        assert_eq!(changes.settled(), Some(0));
        changes.begin();
        changes.begin();
        changes.end();
        assert_eq!(changes.settled(), None);
        changes.end();
        assert_eq!(changes.settled(), Some(2));
    }
}
