//! Reference implementations for long runs: a map per prefix length. The tests compare them with
//! [`naive`](super::naive).

use std::collections::HashMap;

use crate::lpm::{Folding, Key, Prefix};

use super::meaning::Rule;
use super::{Lists, Match, Mode, Set, Verdict};

/// Entries by length, longest first, each by the address of its prefix.
#[derive(Debug, Clone)]
pub struct Indexed<K, E> {
    lengths: Vec<(u8, HashMap<K, E, Folding>)>,
}

impl<K: Key, E> Default for Indexed<K, E> {
    fn default() -> Self {
        Indexed { lengths: Vec::new() }
    }
}

impl<K: Key, E> Indexed<K, E> {
    /// Sets or removes the entry of a prefix.
    pub fn set(&mut self, prefix: Prefix<K>, entry: Option<E>) {
        let found = self.lengths.binary_search_by(|(len, _)| prefix.len().cmp(len));
        match (found, entry) {
            (Ok(place), Some(entry)) => drop(self.lengths[place].1.insert(prefix.address(), entry)),
            (Err(place), Some(entry)) => {
                let mut entries = HashMap::with_hasher(Folding::random());
                entries.insert(prefix.address(), entry);
                self.lengths.insert(place, (prefix.len(), entries));
            }
            (Ok(place), None) => drop(self.lengths[place].1.remove(&prefix.address())),
            (Err(_), None) => {}
        }
    }

    /// Returns the entries that cover a source, the longest first.
    fn covering(&self, source: K) -> impl Iterator<Item = &E> {
        self.lengths.iter().filter_map(move |(len, entries)| entries.get(&source.truncate(*len)))
    }
}

impl<K: Key> Indexed<K, Set> {
    /// Decides as [`naive::most_specific`](super::naive::most_specific) does.
    pub fn most_specific(&self, source: K, interface: u32) -> Verdict {
        match self.covering(source).next() {
            None => Verdict::Unknown,
            Some(set) if set.contains(interface) => Verdict::Valid,
            Some(_) => Verdict::Invalid,
        }
    }

    /// Decides as [`naive::any_covering`](super::naive::any_covering) does.
    pub fn any_covering(&self, source: K, interface: u32) -> Verdict {
        let mut verdict = Verdict::Unknown;
        for set in self.covering(source) {
            if set.contains(interface) {
                return Verdict::Valid;
            }
            verdict = Verdict::Invalid;
        }
        verdict
    }
}

impl<K: Key> Indexed<K, Vec<Rule>> {
    /// Decides as [`naive::ordered`](super::naive::ordered) does.
    pub fn ordered(&self, source: K, interface: u32) -> Verdict {
        let mut first: Option<(u64, bool)> = None;
        let mut verdict = Verdict::Unknown;
        for rule in self.covering(source).flatten() {
            verdict = Verdict::Invalid;
            if rule.interfaces.contains(interface) && first.is_none_or(|(place, _)| rule.place < place) {
                first = Some((rule.place, rule.permit));
            }
        }
        match first {
            Some((_, true)) => Verdict::Valid,
            _ => verdict,
        }
    }
}

impl<K: Key> Indexed<K, Lists> {
    /// Decides as [`naive::modes`](super::naive::modes) does.
    pub fn modes(&self, matching: Match, source: K, interface: u32) -> Verdict {
        let names = |lists: &Lists, mode| lists.of(mode).is_some_and(|set| set.contains(interface));
        let (mut has_list, mut allowed, mut blocked) = (false, false, false);
        // Result of the router-wide lists: whether an allowlist decides, and whether the interface is in it.
        let mut said: Option<(bool, bool)> = None;
        for lists in self.covering(source) {
            has_list |= lists.allowlisted().contains(interface);
            allowed |= names(lists, Mode::InterfaceAllow);
            blocked |= names(lists, Mode::InterfaceBlock);
            let own = [(Mode::PrefixAllow, true), (Mode::PrefixBlock, false)];
            let own = own.into_iter().find(|(mode, _)| lists.of(*mode).is_some());
            let own = own.map(|(mode, allows)| (allows, names(lists, mode)));
            said = match (said, own, matching) {
                (None, own, _) => own,
                (said, None, _) | (said, _, Match::MostSpecific) => said,
                (Some((allows, named)), Some((more, also)), Match::AnyCovering) if allows == more => {
                    Some((allows, named | also))
                }
                (Some(said), Some(own), Match::AnyCovering) => Some(if said.0 { said } else { own }),
            };
        }
        let valid = match said {
            _ if has_list => allowed,
            _ if blocked => false,
            None => return Verdict::Unknown,
            Some((allows, named)) => allows == named,
        };
        if valid { Verdict::Valid } else { Verdict::Invalid }
    }
}
