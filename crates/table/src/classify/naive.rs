//! The reference implementation: checks each rule in order; the first match decides.

use std::collections::BTreeMap;

use crate::lpm::Key;

use super::{Consulted, Fields, NO_RULE, Rule};

/// Rules in the order of their places, each with its identity.
#[derive(Clone, Debug)]
pub struct Classifier<K> {
    rules: BTreeMap<u64, (Rule<K>, u32)>,
}

impl<K: Key> Classifier<K> {
    /// Creates a classifier without rules.
    pub fn new() -> Classifier<K> {
        Classifier { rules: BTreeMap::new() }
    }

    /// Inserts a rule at a place. Returns the identity of the previous one.
    pub fn insert(&mut self, place: u64, rule: Rule<K>, identity: u32) -> Option<u32> {
        self.rules.insert(place, (rule, identity)).map(|(_, before)| before)
    }

    /// Removes the rule at a place. Returns its identity.
    pub fn remove(&mut self, place: u64) -> Option<u32> {
        self.rules.remove(&place).map(|(_, identity)| identity)
    }

    /// Returns the rule at a place.
    pub fn get(&self, place: u64) -> Option<&Rule<K>> {
        self.rules.get(&place).map(|(rule, _)| rule)
    }

    /// Returns the identity of the first matching rule, or [`NO_RULE`].
    pub fn lookup(&self, packet: &Fields<K>) -> u32 {
        self.rules.values().find(|(rule, _)| rule.matches(packet)).map_or(NO_RULE, |(_, identity)| *identity)
    }

    /// Returns the fields outside of a flow's key that the answer depends on: fields of rules that match in all others
    /// and do not come after the first match.
    pub fn consulted(&self, packet: &Fields<K>) -> Consulted {
        let mut consulted = Consulted::NONE;
        for (rule, _) in self.rules.values() {
            if rule.within_key().matches(packet) {
                consulted |= Consulted::by(rule).and(Consulted::OUTSIDE);
            }
            if rule.matches(packet) {
                break;
            }
        }
        consulted
    }

    /// Returns the fields that rules match on, apart from addresses.
    pub fn matched(&self) -> Consulted {
        self.rules.values().fold(Consulted::NONE, |all, (rule, _)| all | Consulted::by(rule))
    }

    /// Returns places, rules and identities, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Rule<K>, u32)> {
        self.rules.iter().map(|(place, (rule, identity))| (*place, rule, *identity))
    }
}

impl<K: Key> Default for Classifier<K> {
    fn default() -> Classifier<K> {
        Classifier::new()
    }
}
