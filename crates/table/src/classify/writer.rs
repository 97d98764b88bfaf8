//! Who changes a classifier.

use std::fmt;
use std::sync::Arc;

use weir_base::reclaim::Domain;

use super::address::Address;
use super::rule::Rule;
use super::table::Table;
use super::tree::{NoRoom, Tree};
use super::{Error, NO_RULE};

/// How large a classifier may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rules.
    pub rules: usize,
    /// Octets of what lookups read.
    pub bytes: usize,
}

/// How large a classifier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Rules.
    pub rules: usize,
    /// Octets that lookups may read, those that wait for readers to pass included.
    pub octets: usize,
    /// Octets that wait for readers to pass.
    pub waiting: usize,
    /// Octets that the writer needs beside.
    pub side_octets: usize,
    /// How often a part was built anew, as it had changed much.
    pub rebuilt: u64,
    /// Rules of these parts, in all.
    pub rebuilt_rules: u64,
}

/// Owns rules, and changes a [`Table`] that any number of workers read at the same time.
pub struct Writer<K> {
    tree: Tree<K>,
    limits: Limits,
}

impl<K: Address> Writer<K> {
    /// No rules, for the readers of a domain.
    ///
    /// # Errors
    /// If the system has no address space for the limits.
    pub fn new(domain: &Domain, limits: Limits) -> Result<Writer<K>, Error> {
        let tree = Tree::new(domain, limits.bytes).map_err(|error| Error::AddressSpace(error.kind()))?;
        Ok(Writer { tree, limits })
    }

    /// What workers read. It is the same one for as long as the writer lives.
    pub fn table(&self) -> Arc<Table<K>> {
        self.tree.table().clone()
    }

    /// Puts a rule at a place, between those at lower and at higher places.
    ///
    /// # Errors
    /// If there is a rule at the place, the identity is [`NO_RULE`], or there is no room: then nothing has changed.
    pub fn insert(&mut self, place: u64, rule: Rule<K>, identity: u32) -> Result<(), Error> {
        self.admit(place, identity, 1)?;
        self.tree.insert(place, rule, identity).map_err(|NoRoom| self.full())
    }

    /// Puts many rules in, by building everything anew: the way to begin.
    ///
    /// # Errors
    /// As [`insert`](Writer::insert), for any of them: then nothing has changed.
    pub fn load(&mut self, rules: impl IntoIterator<Item = (u64, Rule<K>, u32)>) -> Result<(), Error> {
        let rules: Vec<(u64, Rule<K>, u32)> = rules.into_iter().collect();
        let mut places: Vec<u64> = rules.iter().map(|(place, ..)| *place).collect();
        places.sort_unstable();
        if let Some(twice) = places.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::PlaceTaken { place: twice[0] });
        }
        for (place, _, identity) in &rules {
            self.admit(*place, *identity, rules.len())?;
        }
        self.tree.load(rules).map_err(|NoRoom| self.full())
    }

    /// Takes the rule at a place out; gives its identity.
    ///
    /// # Errors
    /// If there is no room for what takes the place of a block: then nothing has changed.
    pub fn remove(&mut self, place: u64) -> Result<Option<u32>, Error> {
        self.tree.remove(place).map_err(|NoRoom| self.full())
    }

    /// The rule at a place, and its identity.
    pub fn get(&self, place: u64) -> Option<(&Rule<K>, u32)> {
        self.tree.rules().get(&place).map(|stored| (&stored.rule, stored.identity))
    }

    /// Places, rules and identities, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Rule<K>, u32)> {
        self.tree.rules().iter().map(|(place, stored)| (*place, &stored.rule, stored.identity))
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.tree.rules().len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.tree.rules().is_empty()
    }

    /// Frees what no reader can look at any more.
    pub fn collect(&mut self) {
        self.tree.collect();
    }

    /// How large it is.
    pub fn stats(&self) -> Stats {
        let (octets, waiting) = self.tree.octets();
        let (rebuilt, rebuilt_rules) = self.tree.rebuilt;
        Stats { rules: self.len(), octets, waiting, side_octets: self.tree.side_octets(), rebuilt, rebuilt_rules }
    }

    fn admit(&self, place: u64, identity: u32, more: usize) -> Result<(), Error> {
        if identity == NO_RULE {
            return Err(Error::ReservedIdentity { place });
        }
        if place == u64::MAX || self.tree.rules().contains_key(&place) {
            return Err(Error::PlaceTaken { place });
        }
        if self.len() + more > self.limits.rules {
            return Err(Error::TooManyRules { rules: self.len() + more, most: self.limits.rules });
        }
        Ok(())
    }

    fn full(&self) -> Error {
        Error::Full { octets: self.limits.bytes, rules: self.len() }
    }
}

impl<K: Address> fmt::Debug for Writer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("rules", &self.len()).finish_non_exhaustive()
    }
}
