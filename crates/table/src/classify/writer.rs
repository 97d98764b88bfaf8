//! Who changes a classifier.

use std::fmt;
use std::sync::Arc;

use weir_base::reclaim::Domain;

use super::address::Address;
use super::asking::Asking;
use super::block::MOST_INTERFACES;
use super::consulted::Consulted;
use super::error::{Error, NO_RULE};
use super::rule::Rule;
use super::table::Table;
use super::tree::{Refusal, Shape, Tree};
use crate::sav::Set;

/// How large a classifier may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rules.
    pub rules: usize,
    /// Octets of what lookups read. Of a writer [`with_consulted`](Writer::with_consulted), as many again for each of flags,
    /// fragments and codepoints, if rules ask for them.
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
    asking: Asking<K>,
    limits: Limits,
}

impl<K: Address> Writer<K> {
    /// No rules, for the readers of a domain.
    ///
    /// # Errors
    /// If the system has no address space for the limits.
    pub fn new(domain: &Domain, limits: Limits) -> Result<Writer<K>, Error> {
        Writer::with(domain, limits, None)
    }

    /// As [`new`](Writer::new), for a table that tells which fields outside of a flow's key had a part in each answer
    /// ([`Table::lookup_consulted_each`]). Rules that ask for such fields take twice the room, and twice the time to come
    /// and go, or more if they ask for several.
    ///
    /// # Errors
    /// As [`new`](Writer::new).
    pub fn with_consulted(domain: &Domain, limits: Limits) -> Result<Writer<K>, Error> {
        Writer::with(domain, limits, Some(limits.bytes))
    }

    fn with(domain: &Domain, limits: Limits, asking: Option<usize>) -> Result<Writer<K>, Error> {
        let tree = Tree::new(domain, limits.bytes).map_err(|error| Error::AddressSpace(error.kind()))?;
        Ok(Writer { tree, asking: Asking::new(domain, asking), limits })
    }

    /// What workers read. It is the same one for as long as the writer lives.
    pub fn table(&self) -> Arc<Table<K>> {
        self.tree.table().clone()
    }

    /// Puts a rule at a place, between those at lower and at higher places.
    ///
    /// # Errors
    /// If there is a rule at the place, the identity is [`NO_RULE`], the rule asks for more than 16,000 interfaces, or there is no
    /// room: then nothing has changed.
    pub fn insert(&mut self, place: u64, rule: Rule<K>, identity: u32) -> Result<(), Error> {
        self.admit(place, &rule, identity, 1)?;
        let asked = Consulted::by(&rule);
        self.asking.add(&[(place, &rule, identity)], self.tree.table()).map_err(|refusal| self.refused(refusal))?;
        let done = self.tree.insert(place, rule, identity);
        if done.is_err() {
            self.asking.remove(place, asked, self.tree.table());
        }
        done.map_err(|refusal| self.refused(refusal))
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
        for (place, rule, identity) in &rules {
            self.admit(*place, rule, *identity, rules.len())?;
        }
        let listed = Vec::from_iter(rules.iter().map(|(place, rule, identity)| (*place, rule, *identity)));
        self.asking.add(&listed, self.tree.table()).map_err(|refusal| self.refused(refusal))?;
        let asked = Vec::from_iter(rules.iter().map(|(place, rule, _)| (*place, Consulted::by(rule))));
        let done = self.tree.load(rules);
        if done.is_err() {
            asked.into_iter().for_each(|(place, asked)| self.asking.remove(place, asked, self.tree.table()));
        }
        done.map_err(|refusal| self.refused(refusal))
    }

    /// Takes the rule at a place out; gives its identity.
    ///
    /// If rules come back to the table that it covered, this waits for the readers to pass: the calling thread must not be pinned
    /// itself.
    ///
    /// # Errors
    /// If there is no room for what takes the place of a block: then nothing has changed.
    pub fn remove(&mut self, place: u64) -> Result<Option<u32>, Error> {
        let asked = self.get(place).map(|(rule, _)| Consulted::by(rule));
        let removed = self.tree.remove(place).map_err(|refusal| self.refused(refusal))?;
        if let Some(asked) = asked {
            self.asking.remove(place, asked, self.tree.table());
        }
        Ok(removed)
    }

    /// The rule at a place, and its identity.
    pub fn get(&self, place: u64) -> Option<(&Rule<K>, u32)> {
        self.tree.rules().get(&place).map(|stored| (&stored.rule, stored.identity))
    }

    /// Places, rules and identities, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Rule<K>, u32)> {
        self.tree.rules().iter().map(|(place, stored)| (*place, &stored.rule, stored.identity))
    }

    /// How a lookup fares at worst. Takes some milliseconds for 100,000 rules.
    pub fn worst(&self) -> Shape {
        self.tree.worst()
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
        self.asking.collect();
    }

    /// How large it is.
    pub fn stats(&self) -> Stats {
        let (rebuilt, rebuilt_rules) = self.tree.rebuilt;
        let mut stats = Stats { rules: self.len(), octets: 0, waiting: 0, side_octets: 0, rebuilt, rebuilt_rules };
        for tree in std::iter::once(&self.tree).chain(self.asking.trees()) {
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
