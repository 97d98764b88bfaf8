//! Tables whose rules stand in lists of any mode: what stands at each prefix, and which interfaces have allowlists.

use std::collections::HashMap;

use ipnet::IpNet;
use weir_table::lpm::Prefix;
use weir_table::sav::{Lists, Set};

use super::dynamic::{Dynamic, EntryKey};
use super::engine::{Entries, Meaning};
use super::kept::Kept;
use super::named::{NamedSets, Numbers};
use super::rules::{Family, Rules, Sets};
use crate::model::Mode;

/// Some rules or entries are of other modes than allowlists of prefixes, so that a table has to keep them apart.
pub(super) fn are_of_other_modes(rules: &[usize; 4], said: &Dynamic) -> bool {
    let others = |mode: &Mode| *mode != Mode::PrefixAllow;
    Mode::ALL.into_iter().filter(others).any(|mode| rules[mode as usize - 1] + said.counts()[mode as usize - 1] > 0)
}

/// The interfaces that have allowlists, of either family.
pub(super) fn allowlisted(rules: &Rules, interfaces: &[u32], said: &Dynamic, numbers: &Numbers) -> Set {
    let configured = rules.allowlisted.iter().map(|index| interfaces[index.0 as usize]);
    configured.chain(said.allowlisted().filter_map(|name| numbers.get(&**name).copied())).collect()
}

/// All that tables of a family hold.
pub(super) fn entries<K: Family>(rules: &Rules, interfaces: &[u32], said: &Dynamic, numbers: &Numbers) -> Entries<K> {
    let (mut sets, mut named) = (Sets::new(interfaces), NamedSets::new(numbers));
    let configured = rules.in_order().map(|rule| (rule.prefix, rule.mode(), sets.of(&rule.interfaces)));
    let later = said.iter().map(|(_, EntryKey { prefix, mode }, said)| (prefix, mode, named.of(&said.interfaces)));
    let mut found: Vec<(Prefix<K>, (Mode, Set))> =
        configured.chain(later).filter_map(|(net, mode, set)| Some((K::prefix(net)?, (mode, set)))).collect();
    // Quick where they are in order already.
    found.sort_by_key(|(prefix, _)| *prefix);
    let mut entries: Vec<(Prefix<K>, Option<Lists>)> = Vec::new();
    let allowlisted = allowlisted(rules, interfaces, said, numbers);
    if !allowlisted.is_empty() {
        entries.push((Prefix::ALL, Some(Lists::default().with_allowlisted(allowlisted))));
    }
    for (prefix, (mode, set)) in found {
        match entries.last_mut() {
            Some((last, Some(lists))) if *last == prefix => lists.add(mode, &set),
            _ => {
                let mut lists = Lists::default();
                lists.add(mode, &set);
                entries.push((prefix, Some(lists)));
            }
        }
    }
    Entries::Lists(entries)
}

impl Kept {
    /// Returns the contents for these prefixes of tables of lists. Adds the prefix of no bits if the interfaces with
    /// allowlists differ from those of `before`, or `before` is not known.
    pub(super) fn lists(
        &self,
        numbers: &Numbers,
        prefixes: impl Iterator<Item = IpNet>,
        before: Option<&Set>,
    ) -> (Entries<u32>, Entries<u128>) {
        let allowlisted = self.with_allowlists(numbers);
        let (mut sets, mut named) = (Sets::new(&self.numbers), NamedSets::new(numbers));
        let (mut v4, mut v6) = (HashMap::new(), HashMap::new());
        let mut wanted = |net: IpNet| {
            let mut lists = Lists::default();
            self.rules.at(net).for_each(|(_, rule)| lists.add(rule.mode(), &sets.of(&rule.interfaces)));
            for (_, key, said) in self.dynamic.said(net) {
                lists.add(key.mode, &named.of(&said.interfaces));
            }
            if net.prefix_len() == 0 { lists.with_allowlisted(allowlisted.clone()) } else { lists }
        };
        let mut put = |net: IpNet| {
            match net {
                IpNet::V4(_) => drop(u32::prefix(net).map(|prefix| v4.entry(prefix).or_insert_with(|| wanted(net)))),
                IpNet::V6(_) => drop(u128::prefix(net).map(|prefix| v6.entry(prefix).or_insert_with(|| wanted(net)))),
            };
        };
        prefixes.for_each(&mut put);
        if before != Some(&allowlisted) {
            [IpNet::V4(Default::default()), IpNet::V6(Default::default())].into_iter().for_each(put);
        }
        fn there<K: Family>(all: HashMap<Prefix<K>, Lists>) -> Entries<K> {
            Entries::Lists(
                all.into_iter().map(|(prefix, lists)| (prefix, Some(lists).filter(|l| !l.is_empty()))).collect(),
            )
        }
        (there(v4), there(v6))
    }

    /// The interfaces that have allowlists by what is said now.
    pub(super) fn with_allowlists(&self, numbers: &Numbers) -> Set {
        allowlisted(&self.rules, &self.numbers, &self.dynamic, numbers)
    }

    /// There are lists, and none of them is an allowlist of prefixes: there is nothing that sources would have to stand in.
    pub(super) fn is_open(&self) -> bool {
        let count = |mode: Mode| self.rules.counts[mode as usize - 1] + self.dynamic.counts()[mode as usize - 1];
        let any = Mode::ALL.into_iter().any(|mode| count(mode) > 0);
        matches!(self.shape.meaning, Meaning::Modes(_)) && any && count(Mode::PrefixAllow) == 0
    }
}
