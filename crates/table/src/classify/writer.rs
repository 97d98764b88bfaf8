//! The owner of the rules of a classifier.

use std::fmt;
use std::sync::Arc;

use weir_base::reclaim::Domain;

use super::address::Address;
use super::block::MOST_INTERFACES;
use super::consulted::Consulted;
use super::error::{Error, NO_RULE};
use super::outside::Outside;
use super::rule::Rule;
use super::table::Table;
use super::tree::{Refusal, Shape, Tree};
use crate::sav::Set;

/// Limits of the size of a classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of rules.
    pub rules: usize,
    /// Octets of the memory of lookups. A writer of [`with_consulted`](Writer::with_consulted) may use as many again
    /// for each of flags, fragments and codepoints, if rules match on them.
    pub bytes: usize,
}

/// Size of a classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Number of rules.
    pub rules: usize,
    /// Octets of the memory of lookups, with blocks that wait for readers.
    pub octets: usize,
    /// Octets of blocks that wait for readers.
    pub waiting: usize,
    /// Octets that only the writer uses.
    pub side_octets: usize,
    /// Number of rebuilds of a part that had changed much.
    pub rebuilt: u64,
    /// Total rules of these parts.
    pub rebuilt_rules: u64,
}

/// Owns rules, and changes a [`Table`] that any number of workers read concurrently.
pub struct Writer<K> {
    tree: Tree<K>,
    outside: Outside<K>,
    limits: Limits,
}

impl<K: Address> Writer<K> {
    /// Creates an empty classifier for the readers of a domain.
    ///
    /// # Errors
    /// If the system lacks address space for the limits.
    pub fn new(domain: &Domain, limits: Limits) -> Result<Writer<K>, Error> {
        Writer::with(domain, limits, None)
    }

    /// Creates an empty classifier whose table reports the fields outside of a flow's key that each answer depends on
    /// ([`Table::lookup_consulted_each`]). A rule with such a field takes twice the memory and time to change, or more
    /// with several.
    ///
    /// # Errors
    /// As for [`new`](Writer::new).
    pub fn with_consulted(domain: &Domain, limits: Limits) -> Result<Writer<K>, Error> {
        Writer::with(domain, limits, Some(limits.bytes))
    }

    fn with(domain: &Domain, limits: Limits, outside: Option<usize>) -> Result<Writer<K>, Error> {
        let tree = Tree::new(domain, limits.bytes).map_err(|error| Error::AddressSpace(error.kind()))?;
        Ok(Writer { tree, outside: Outside::new(domain, outside), limits })
    }

    /// Returns the table of the workers. It stays the same while the writer exists.
    pub fn table(&self) -> Arc<Table<K>> {
        self.tree.table().clone()
    }

    /// Inserts a rule at a place, between rules at lower and at higher places.
    ///
    /// # Errors
    /// If the place has a rule, the identity is [`NO_RULE`], the rule has more than 16,000 interfaces, or there is no
    /// room; nothing has changed then.
    pub fn insert(&mut self, place: u64, rule: Rule<K>, identity: u32) -> Result<(), Error> {
        self.admit(place, &rule, identity, 1)?;
        let fields = Consulted::by(&rule);
        self.outside.add(&[(place, &rule, identity)], self.tree.table()).map_err(|refusal| self.refused(refusal))?;
        let done = self.tree.insert(place, rule, identity);
        if done.is_err() {
            self.outside.remove(place, fields, self.tree.table());
        }
        done.map_err(|refusal| self.refused(refusal))
    }

    /// Inserts many rules by a rebuild of everything: for the first rules.
    ///
    /// # Errors
    /// As for [`insert`](Writer::insert), for any of the rules; nothing has changed then.
    pub fn load(&mut self, rules: impl IntoIterator<Item = (u64, Rule<K>, u32)>) -> Result<(), Error> {
        let rules: Vec<(u64, Rule<K>, u32)> = rules.into_iter().collect();
        let mut places: Vec<u64> = rules.iter().map(|(place, ..)| *place).collect();
        places.sort_unstable();
        if let Some(twice) = places.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::PlaceTaken { place: twice[0] });
        }
        for (place, rule, identity) in &rules {
            self.admit(*place, rule, *identity, rules.len())?;
        }
        let listed = Vec::from_iter(rules.iter().map(|(place, rule, identity)| (*place, rule, *identity)));
        self.outside.add(&listed, self.tree.table()).map_err(|refusal| self.refused(refusal))?;
        let fields = Vec::from_iter(rules.iter().map(|(place, rule, _)| (*place, Consulted::by(rule))));
        let done = self.tree.load(rules);
        if done.is_err() {
            fields.into_iter().for_each(|(place, fields)| self.outside.remove(place, fields, self.tree.table()));
        }
        done.map_err(|refusal| self.refused(refusal))
    }

    /// Removes the rule at a place. Returns its identity.
    ///
    /// Waits for readers if rules that it covered return to the table: the calling thread must not be pinned.
    ///
    /// # Errors
    /// If there is no room for a replacement block; nothing has changed then.
    pub fn remove(&mut self, place: u64) -> Result<Option<u32>, Error> {
        let fields = self.get(place).map(|(rule, _)| Consulted::by(rule));
        let removed = self.tree.remove(place).map_err(|refusal| self.refused(refusal))?;
        if let Some(fields) = fields {
            self.outside.remove(place, fields, self.tree.table());
        }
        Ok(removed)
    }

    /// Returns the rule at a place with its identity.
    pub fn get(&self, place: u64) -> Option<(&Rule<K>, u32)> {
        self.tree.rules().get(&place).map(|stored| (&stored.rule, stored.identity))
    }

    /// Returns places, rules and identities, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Rule<K>, u32)> {
        self.tree.rules().iter().map(|(place, stored)| (*place, &stored.rule, stored.identity))
    }

    /// Returns the worst case of a lookup. Takes some milliseconds for 100,000 rules.
    pub fn worst(&self) -> Shape {
        self.tree.worst()
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.tree.rules().len()
    }

    /// Returns whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.tree.rules().is_empty()
    }

    /// Frees blocks that no reader can access.
    pub fn collect(&mut self) {
        self.tree.collect();
        self.outside.collect();
    }

    /// Returns the size of the classifier.
    pub fn stats(&self) -> Stats {
        let (rebuilt, rebuilt_rules) = self.tree.rebuilt;
        let mut stats = Stats { rules: self.len(), octets: 0, waiting: 0, side_octets: 0, rebuilt, rebuilt_rules };
        for tree in std::iter::once(&self.tree).chain(self.outside.trees()) {
            let (octets, waiting) = tree.octets();
            stats.octets += octets;
            stats.waiting += waiting;
            stats.side_octets += tree.side_octets();
        }
        stats
    }

    fn admit(&self, place: u64, rule: &Rule<K>, identity: u32, more: usize) -> Result<(), Error> {
        if identity == NO_RULE {
            return Err(Error::ReservedIdentity { place });
        }
        let interfaces = rule.interfaces.as_ref().map_or(0, Set::len);
        if interfaces > MOST_INTERFACES {
            return Err(Error::TooManyInterfaces { place, interfaces, most: MOST_INTERFACES });
        }
        if place == u64::MAX || self.tree.rules().contains_key(&place) {
            return Err(Error::PlaceTaken { place });
        }
        if self.len() + more > self.limits.rules {
            return Err(Error::TooManyRules { rules: self.len() + more, most: self.limits.rules });
        }
        Ok(())
    }

    fn refused(&self, refusal: Refusal) -> Error {
        match refusal {
            Refusal::NoRoom => Error::Full { octets: self.limits.bytes, rules: self.len() },
            Refusal::Overlap { most, places } => Error::Overlap { most, places },
        }
    }
}

impl<K: Address> fmt::Debug for Writer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("rules", &self.len()).finish_non_exhaustive()
    }
}
