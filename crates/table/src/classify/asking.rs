//! The rules that match on fields outside of a flow's key, as a writer keeps them (see [`Consulted`]).

use weir_base::reclaim::Domain;

use super::address::Address;
use super::consulted::{Consulted, OUTSIDE};
use super::rule::Rule;
use super::table::Table;
use super::tree::{Refusal, Tree};

/// The fields that rules match on, with trees of these rules.
pub(super) struct Asking<K> {
    domain: Domain,
    /// Octets that each tree may have; none if there are to be no trees.
    octets: Option<usize>,
    /// Rules that match on each field.
    counts: [usize; Consulted::COUNT],
    /// Trees of the rules that match on each of [`OUTSIDE`], once there has been one.
    trees: [Option<Tree<K>>; OUTSIDE.len()],
}

impl<K: Address> Asking<K> {
    pub(super) fn new(domain: &Domain, octets: Option<usize>) -> Asking<K> {
        Asking { domain: domain.clone(), octets, counts: Default::default(), trees: Default::default() }
    }

    /// Notes rules that will be in the table. All or nothing.
    pub(super) fn add(&mut self, rules: &[(u64, &Rule<K>, u32)], table: &Table<K>) -> Result<(), Refusal> {
        let done = self.plant(rules, table);
        match done {
            Ok(()) => {
                let asked = rules.iter().flat_map(|(_, rule, _)| Consulted::by(rule).each());
                asked.for_each(|field| self.counts[field] += 1);
                table.set_asks(self.asks());
            }
            Err(_) => rules.iter().for_each(|(place, ..)| self.uproot(*place)),
        }
        done
    }

    fn plant(&mut self, rules: &[(u64, &Rule<K>, u32)], table: &Table<K>) -> Result<(), Refusal> {
        let Some(octets) = self.octets else { return Ok(()) };
        for (number, field) in OUTSIDE.into_iter().enumerate() {
            let asking = rules.iter().filter(|(_, rule, _)| Consulted::by(rule).contains(field));
            let asking = Vec::from_iter(asking.map(|(place, rule, identity)| (*place, rule.within_key(), *identity)));
            if asking.is_empty() {
                continue;
            }
            if self.trees[number].is_none() {
                let tree = Tree::new(&self.domain, octets).map_err(|_| Refusal::NoRoom)?;
                table.set_asking(number, tree.table().clone());
                self.trees[number] = Some(tree);
            }
            let tree = self.trees[number].as_mut().expect("it has been made");
            for (place, ..) in &asking {
                // What could not be removed is still there.
                tree.remove(*place)?;
            }
            tree.load(asking)?;
        }
        Ok(())
    }

    /// Forgets a rule that has left the table.
    pub(super) fn remove(&mut self, place: u64, asked: Consulted, table: &Table<K>) {
        asked.each().for_each(|field| self.counts[field] -= 1);
        self.uproot(place);
        table.set_asks(self.asks());
    }

    /// A tree that has no room for what would take the place of a block keeps the rule: answers are then said to depend on
    /// more than they do, until a rule comes to the place that matches on the same field.
    fn uproot(&mut self, place: u64) {
        for tree in self.trees.iter_mut().flatten() {
            let _ = tree.remove(place);
        }
    }

    fn asks(&self) -> Consulted {
        let fields = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        fields.fold(Consulted::NONE, |all, (field, _)| all | Consulted::field(field))
    }

    pub(super) fn collect(&mut self) {
        self.trees.iter_mut().flatten().for_each(Tree::collect);
    }

    pub(super) fn trees(&self) -> impl Iterator<Item = &Tree<K>> {
        self.trees.iter().flatten()
    }
}
