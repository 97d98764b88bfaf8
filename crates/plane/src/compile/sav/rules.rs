//! The rules of a policy's configuration, by prefix.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ipnet::IpNet;
use weir_table::lpm::Prefix;
use weir_table::sav::{Rule, Set};

use super::engine::Entries;
use crate::model::{InterfaceIndex, Mode, PerFamily, SavRule};

/// A prefix of one family.
pub(super) trait Family: super::exempt::OfFamily {
    /// The prefix, if it is of this family.
    fn prefix(net: IpNet) -> Option<Prefix<Self>>;
    /// Returns the part of this family.
    fn number_of<T>(both: &mut PerFamily<T>) -> &mut T;
}

impl Family for u32 {
    fn prefix(net: IpNet) -> Option<Prefix<u32>> {
        let IpNet::V4(net) = net else { return None };
        Prefix::new(net.network().into(), net.prefix_len())
    }

    fn number_of<T>(both: &mut PerFamily<T>) -> &mut T {
        &mut both.v4
    }
}

impl Family for u128 {
    fn prefix(net: IpNet) -> Option<Prefix<u128>> {
        let IpNet::V6(net) = net else { return None };
        Prefix::new(net.network().into(), net.prefix_len())
    }

    fn number_of<T>(both: &mut PerFamily<T>) -> &mut T {
        &mut both.v6
    }
}

/// The rules, and an order of their prefixes.
pub(super) struct Rules {
    pub(super) list: Arc<[SavRule]>,
    /// How many are of each mode.
    pub(super) counts: [usize; 4],
    /// The interfaces that have allowlists, in order.
    pub(super) allowlisted: BTreeSet<InterfaceIndex>,
    /// Places in the list, by prefix (IPv4 first), and by place among equal ones.
    order: Box<[u32]>,
}

/// The numbers of interfaces that rules list, found once for each list.
pub(super) struct Sets<'a> {
    numbers: &'a [u32],
    known: HashMap<*const InterfaceIndex, Set>,
}

impl<'a> Sets<'a> {
    pub(super) fn new(numbers: &'a [u32]) -> Sets<'a> {
        Sets { numbers, known: HashMap::new() }
    }

    pub(super) fn of(&mut self, interfaces: &Arc<[InterfaceIndex]>) -> Set {
        let number = |index: &InterfaceIndex| self.numbers[index.0 as usize];
        self.known.entry(interfaces.as_ptr()).or_insert_with(|| interfaces.iter().map(number).collect()).clone()
    }
}

/// How many rules are of each mode.
pub(super) fn counts(list: &[SavRule]) -> [usize; 4] {
    let mut counts = [0; 4];
    list.iter().for_each(|rule| counts[rule.mode() as usize - 1] += 1);
    counts
}

impl Rules {
    pub(super) fn new(list: &Arc<[SavRule]>) -> Rules {
        let mut order: Box<[u32]> = (0..list.len() as u32).collect();
        // Stable, and quick where the list is in order already.
        order.sort_by_key(|&at| list[at as usize].prefix);
        let mut rules = Rules { list: Arc::default(), counts: counts(list), allowlisted: BTreeSet::new(), order };
        rules.adopt(list);
        rules
    }

    /// Takes a list that means the same, with interfaces that may have other places in the model.
    pub(super) fn adopt(&mut self, list: &Arc<[SavRule]>) {
        self.list = Arc::clone(list);
        let of_interfaces = list.iter().filter(|rule| rule.mode() == Mode::InterfaceAllow);
        self.allowlisted = of_interfaces.flat_map(|rule| rule.interfaces.iter().copied()).collect();
    }

    /// All of them, by prefix.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &SavRule> {
        self.order.iter().map(|&at| &self.list[at as usize])
    }

    /// The rules of exactly this prefix, with their places in the list, by place.
    pub(super) fn at(&self, prefix: IpNet) -> impl Iterator<Item = (usize, &SavRule)> {
        let of = |at: &u32| self.list[*at as usize].prefix;
        let start = self.order.partition_point(|at| of(at) < prefix);
        let end = start + self.order[start..].partition_point(|at| of(at) == prefix);
        self.order[start..end].iter().map(|&at| (at as usize, &self.list[at as usize]))
    }

    /// The rules that permit next to where this prefix would stand in their order: before it, and after it.
    pub(super) fn beside(&self, prefix: IpNet) -> impl Iterator<Item = &SavRule> {
        let place = self.order.partition_point(|&at| self.list[at as usize].prefix < prefix);
        let (before, behind) = self.order.split_at(place);
        let permits = |&at: &u32| Some(&self.list[at as usize]).filter(|rule| rule.permit);
        let (before, behind) = (before.iter().rev().find_map(permits), behind.iter().find_map(permits));
        before.into_iter().chain(behind)
    }

    /// Returns the contents at each prefix of a family, for an ordered list.
    pub(super) fn ordered<K: Family>(&self, sets: &mut Sets<'_>) -> Entries<K> {
        let mut entries: Vec<(Prefix<K>, Option<Vec<Rule>>)> = Vec::new();
        for &at in &self.order {
            let rule = &self.list[at as usize];
            let Some(prefix) = K::prefix(rule.prefix) else { continue };
            let own = Rule { place: u64::from(at), interfaces: sets.of(&rule.interfaces), permit: rule.permit };
            match entries.last_mut() {
                Some((last, Some(rules))) if *last == prefix => rules.push(own),
                _ => entries.push((prefix, Some(vec![own]))),
            }
        }
        Entries::Ordered(entries)
    }

    /// The same as a table has it: together, the rules of a prefix name its interfaces.
    pub(super) fn nested<K: Family>(&self, sets: &mut Sets<'_>) -> Vec<(Prefix<K>, Option<Set>)> {
        let mut entries: Vec<(Prefix<K>, Option<Set>)> = Vec::new();
        for &at in &self.order {
            let rule = &self.list[at as usize];
            let Some(prefix) = K::prefix(rule.prefix) else { continue };
            let own = sets.of(&rule.interfaces);
            match entries.last_mut() {
                Some((last, Some(set))) if *last == prefix => *set = set.union(&own),
                _ => entries.push((prefix, Some(own))),
            }
        }
        entries
    }

    /// Whether two lists mean the same, each with the numbers of its interfaces.
    pub(super) fn same(&self, numbers: &[u32], list: &Arc<[SavRule]>, others: &[u32]) -> bool {
        if self.list.len() != list.len() {
            return false;
        }
        let (mut sets, mut other_sets) = (Sets::new(numbers), Sets::new(others));
        self.list.iter().zip(list.iter()).all(|(a, b)| {
            a.prefix == b.prefix && a.mode() == b.mode() && sets.of(&a.interfaces) == other_sets.of(&b.interfaces)
        })
    }
}
