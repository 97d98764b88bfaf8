//! A writer's rules that match on fields outside of a flow's key (see [`Consulted`]).

use weir_base::reclaim::Domain;

use super::address::Address;
use super::consulted::{Consulted, OUTSIDE};
use super::rule::Rule;
use super::table::Table;
use super::tree::{Refusal, Tree};

/// Matched fields, with trees of their rules.
pub(super) struct Outside<K> {
    domain: Domain,
    /// Largest size of each tree in octets; `None` for no trees.
    octets: Option<usize>,
    /// Number of rules that match on each field.
    counts: [usize; Consulted::COUNT],
    /// Trees of the rules that match on each of [`OUTSIDE`], once one exists.
    trees: [Option<Tree<K>>; OUTSIDE.len()],
}

impl<K: Address> Outside<K> {
    pub(super) fn new(domain: &Domain, octets: Option<usize>) -> Outside<K> {
        Outside { domain: domain.clone(), octets, counts: Default::default(), trees: Default::default() }
    }

    /// Adds rules that will be in the table: all or none.
    pub(super) fn add(&mut self, rules: &[(u64, &Rule<K>, u32)], table: &Table<K>) -> Result<(), Refusal> {
        let done = self.plant(rules, table);
        match done {
            Ok(()) => {
                let fields = rules.iter().flat_map(|(_, rule, _)| Consulted::by(rule).each());
                fields.for_each(|field| self.counts[field] += 1);
                table.set_matched(self.matched());
            }
            Err(_) => rules.iter().for_each(|(place, ..)| self.uproot(*place)),
        }
        done
    }

    fn plant(&mut self, rules: &[(u64, &Rule<K>, u32)], table: &Table<K>) -> Result<(), Refusal> {
        let Some(octets) = self.octets else { return Ok(()) };
        for (number, field) in OUTSIDE.into_iter().enumerate() {
            let outside = rules.iter().filter(|(_, rule, _)| Consulted::by(rule).contains(field));
            let outside = Vec::from_iter(outside.map(|(place, rule, identity)| (*place, rule.within_key(), *identity)));
            if outside.is_empty() {
                continue;
            }
            if self.trees[number].is_none() {
                let tree = Tree::new(&self.domain, octets).map_err(|_| Refusal::NoRoom)?;
                table.set_outside(number, tree.table().clone());
                self.trees[number] = Some(tree);
            }
            let tree = self.trees[number].as_mut().expect("it has been made");
            for (place, ..) in &outside {
                // A rule that was not removed is still there.
                tree.remove(*place)?;
            }
            tree.load(outside)?;
        }
        Ok(())
    }

    /// Removes a rule that has left the table.
    pub(super) fn remove(&mut self, place: u64, fields: Consulted, table: &Table<K>) {
        fields.each().for_each(|field| self.counts[field] -= 1);
        self.uproot(place);
        table.set_matched(self.matched());
    }

    /// A tree without room for a replacement block keeps the rule. Answers then report more fields than they depend on,
    /// until a rule with the same field gets the place.
    fn uproot(&mut self, place: u64) {
        for tree in self.trees.iter_mut().flatten() {
            let _ = tree.remove(place);
        }
    }

    fn matched(&self) -> Consulted {
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
