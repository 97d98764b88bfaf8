//! Sets of interfaces.

use std::fmt;
use std::sync::Arc;

/// A set of interfaces, by number. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Set(Arc<[u32]>);

impl Set {
    /// Returns whether the set contains an interface.
    pub fn contains(&self, interface: u32) -> bool {
        self.0.binary_search(&interface).is_ok()
    }

    /// Returns the interfaces, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    /// Returns the number of interfaces.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the union with another set.
    #[must_use]
    pub fn union(&self, other: &Set) -> Set {
        if self.is_superset(other) {
            return self.clone();
        }
        if other.is_superset(self) {
            return other.clone();
        }
        self.iter().chain(other.iter()).collect()
    }

    /// Returns the difference from another set.
    #[must_use]
    pub fn without(&self, other: &Set) -> Set {
        if self.iter().any(|interface| other.contains(interface)) {
            return self.iter().filter(|interface| !other.contains(*interface)).collect();
        }
        self.clone()
    }

    /// Returns the octets that the set refers to.
    pub(super) fn octets(&self) -> usize {
        2 * size_of::<usize>() + size_of_val::<[u32]>(&self.0)
    }

    fn is_superset(&self, other: &Set) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || other.iter().all(|interface| self.contains(interface))
    }
}

impl FromIterator<u32> for Set {
    fn from_iter<I: IntoIterator<Item = u32>>(interfaces: I) -> Set {
        let mut all: Vec<u32> = interfaces.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        Set(all.into())
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
