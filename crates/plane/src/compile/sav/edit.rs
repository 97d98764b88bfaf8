//! Changes to what sources say of a table while the gateway runs: a batch happens as a whole, or not at all.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ipnet::IpNet;
use weir_base::reclaim::Domain;
use weir_table::lpm::{Folding, Prefix};
use weir_table::sav::{NoRoom, Set};

use super::dynamic::{Edit, MAX_SOURCES, Names, Said};
use super::engine::Entries;
use super::rules::{Family, Sets};
use super::{Kept, NamedSets, Numbers, Own, Store, entries};
use crate::model::{Gateway, Mechanism};

/// Why a batch was refused. Nothing of it has happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SavError {
    /// There is no such policy.
    #[error("there is no policy of source address validation with the name `{policy}`")]
    NoSuchPolicy {
        /// What was asked for.
        policy: String,
        /// The policies whose mechanism is `table`.
        tables: Vec<String>,
    },
    /// The policy has no table.
    #[error("`{policy}` is no table: its mechanism is `{mechanism}`")]
    NotATable {
        /// The policy.
        policy: String,
        /// Its mechanism.
        mechanism: &'static str,
    },
    /// One of the changes can not be made.
    #[error("change {number}, {prefix}: {problem}")]
    Edit {
        /// Which, counted from 1.
        number: usize,
        /// Its prefix.
        prefix: IpNet,
        /// What is wrong with it.
        problem: Problem,
    },
    /// There are too many sources.
    #[error("entries come from {MAX_SOURCES} sources already, and `{source_name}` would be one more")]
    TooManySources {
        /// The one that is new.
        source_name: String,
    },
    /// The table has no room.
    #[error("policy `{policy}`: {full}")]
    NoRoom {
        /// The policy.
        policy: String,
        /// Which limit was met.
        full: NoRoom,
    },
}

/// What is wrong with a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The source has said something of the prefix already.
    #[error("there is an entry of this source already: delete or replace it")]
    There,
    /// The source has said nothing of the prefix.
    #[error("there is no entry of this source")]
    NotThere,
    /// No interface has the name.
    #[error("there is no interface `{0}`")]
    NoSuchInterface(String),
    /// It names no interface.
    #[error("no interface is named")]
    NoInterface,
    /// Bits of the prefix are set behind its length.
    #[error("host bits are set: {0} is meant")]
    HostBits(IpNet),
}

/// What a batch did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Edited {
    /// Entries of the source that are new.
    pub added: usize,
    /// Those that say something else now.
    pub replaced: usize,
    /// Those that are gone.
    pub deleted: usize,
    /// Entries of the source from now on.
    pub entries: usize,
}

/// What tables are changed with.
#[derive(Clone, Copy)]
pub(in crate::compile) struct Means<'a> {
    pub(in crate::compile) domain: &'a Domain,
    pub(in crate::compile) workers: usize,
    pub(in crate::compile) gateway: &'a Gateway,
    pub(in crate::compile) numbers: &'a Numbers,
}

impl Store {
    /// Changes what a source says of a table, at a time in seconds of the Unix epoch.
    pub(in crate::compile) fn edit(
        &mut self,
        means: Means<'_>,
        policy: &str,
        source: &str,
        edits: &[Edit],
        time: u64,
    ) -> Result<Edited, SavError> {
        let place = self.table(means.gateway, policy, source)?;
        let kept = &self.kept[place];
        let mut last: HashMap<IpNet, Option<&Names>, Folding> =
            HashMap::with_capacity_and_hasher(edits.len(), Folding::random());
        let said = kept.dynamic.of(source);
        let mut fine: HashSet<*const Arc<str>> = HashSet::new();
        for (number, edit) in (1..).zip(edits) {
            let prefix = edit.prefix();
            let wrong = |problem| SavError::Edit { number, prefix, problem };
            if prefix != prefix.trunc() {
                return Err(wrong(Problem::HostBits(prefix.trunc())));
            }
            let there = match last.get(&prefix) {
                Some(names) => names.is_some(),
                None => said.is_some_and(|said| said.contains_key(&prefix)),
            };
            match edit {
                Edit::Add(..) if there => return Err(wrong(Problem::There)),
                Edit::Delete(_) if !there => return Err(wrong(Problem::NotThere)),
                _ => {}
            }
            if let Some(names) = edit.names()
                && fine.insert(names.as_ptr())
            {
                if names.is_empty() {
                    return Err(wrong(Problem::NoInterface));
                }
                let known = |name: &str| means.gateway.interfaces.iter().any(|interface| interface.name == name);
                if let Some(name) = names.iter().find(|name| !known(name)) {
                    return Err(wrong(Problem::NoSuchInterface(name.to_string())));
                }
            }
            last.insert(prefix, edit.names());
        }
        let changes = last.into_iter().map(|(prefix, names)| (prefix, names.cloned())).collect();
        self.apply(means, place, source, changes, time)
    }

    /// Makes a source say these entries of a table and no others.
    pub(in crate::compile) fn replace(
        &mut self,
        means: Means<'_>,
        policy: &str,
        source: &str,
        entries: &[(IpNet, Names)],
        time: u64,
    ) -> Result<Edited, SavError> {
        let place = self.table(means.gateway, policy, source)?;
        let before = self.kept[place].dynamic.of(source).into_iter().flat_map(HashMap::keys);
        let wanted: HashSet<IpNet, Folding> = entries.iter().map(|(prefix, _)| *prefix).collect();
        let gone = before.filter(|prefix| !wanted.contains(prefix)).map(|prefix| Edit::Delete(*prefix));
        let new = entries.iter().map(|(prefix, names)| Edit::Replace(*prefix, names.clone()));
        // What is wrong with an entry is told by its place among them.
        let edits: Vec<Edit> = new.chain(gone).collect();
        self.edit(means, policy, source, &edits, time)
    }

    fn table(&self, gateway: &Gateway, policy: &str, source: &str) -> Result<usize, SavError> {
        let found = gateway.sav.iter().find(|known| known.name == policy);
        let tables = || {
            let all = gateway.sav.iter().filter(|policy| matches!(policy.mechanism, Mechanism::Table { .. }));
            all.map(|policy| policy.name.clone()).collect()
        };
        match found {
            None => Err(SavError::NoSuchPolicy { policy: policy.to_owned(), tables: tables() }),
            Some(known) if !matches!(known.mechanism, Mechanism::Table { .. }) => {
                Err(SavError::NotATable { policy: policy.to_owned(), mechanism: known.mechanism.name() })
            }
            Some(_) => {
                let none = || SavError::NoSuchPolicy { policy: policy.to_owned(), tables: tables() };
                let place = self.place(policy).ok_or_else(none)?;
                if self.kept[place].dynamic.has_room_for(source) {
                    Ok(place)
                } else {
                    Err(SavError::TooManySources { source_name: source.to_owned() })
                }
            }
        }
    }

    fn apply(
        &mut self,
        means: Means<'_>,
        place: usize,
        source: &str,
        changes: Vec<(IpNet, Option<Names>)>,
        time: u64,
    ) -> Result<Edited, SavError> {
        let kept = &mut self.kept[place];
        let mut edited = Edited::default();
        let own = kept.dynamic.source(source);
        let mut undo: Vec<(IpNet, Option<Said>)> = Vec::with_capacity(changes.len());
        for (prefix, names) in changes {
            let said = names.map(|interfaces| Said { interfaces, time });
            let new = said.as_ref().map(|said| Arc::clone(&said.interfaces));
            let before = kept.dynamic.set(own, prefix, said);
            match (&before, &new) {
                (None, Some(_)) => edited.added += 1,
                (Some(_), None) => edited.deleted += 1,
                (Some(before), Some(names)) if before.interfaces != *names => edited.replaced += 1,
                _ => {}
            }
            undo.push((prefix, before));
        }
        if let Err(full) = kept.adopt(means, &undo) {
            for (prefix, before) in undo {
                kept.dynamic.set(own, prefix, before);
            }
            kept.dynamic.forget();
            return Err(SavError::NoRoom { policy: kept.name.to_string(), full });
        }
        kept.dynamic.forget();
        edited.entries = kept.dynamic.of(source).map_or(0, HashMap::len);
        self.refresh(means.gateway, place);
        Ok(edited)
    }
}

impl Kept {
    /// Brings the tables into line with what is said of these prefixes now.
    fn adopt(&mut self, means: Means<'_>, changed: &[(IpNet, Option<Said>)]) -> Result<(), NoRoom> {
        let occupancy = self.v4.engine.occupancy().prefixes + self.v6.engine.occupancy().prefixes;
        // To make tables anew takes less than to change most of what is in them.
        if changed.len() > occupancy / 2 && changed.len() > 1000 {
            let mut v4 = Own::new(means.domain, &self.shape, means.workers)?;
            let mut v6 = Own::new(means.domain, &self.shape, means.workers)?;
            v4.engine.change(entries(&self.rules, &self.numbers, &self.shape, &self.dynamic, means.numbers))?;
            v6.engine.change(entries(&self.rules, &self.numbers, &self.shape, &self.dynamic, means.numbers))?;
            // Prefixes that stay lose what they have counted, but no table is changed twice.
            (self.v4, self.v6) = (v4, v6);
            return Ok(());
        }
        let v4 = self.wanted::<u32>(means.numbers, changed);
        let v6 = self.wanted::<u128>(means.numbers, changed);
        // Only where both change may one have to be changed back.
        let before = if v6.is_empty() { Vec::new() } else { self.v4.sets(&v4) };
        self.v4.change(v4)?;
        if let Err(full) = self.v6.change(v6) {
            // There was room for this a moment ago.
            let _ = self.v4.change(before);
            return Err(full);
        }
        Ok(())
    }

    /// What is to stand at these prefixes, as far as they are of a family.
    fn wanted<K: Family>(&self, numbers: &Numbers, changed: &[(IpNet, Option<Said>)]) -> Vec<(Prefix<K>, Option<Set>)> {
        let (mut sets, mut named) = (Sets::new(&self.numbers), NamedSets::new(numbers));
        let mut all = |net: IpNet| -> Option<Set> {
            let said = self.dynamic.at(net).map(|(_, said)| named.of(&said.interfaces));
            let said = said.reduce(|all, more| all.union(&more));
            let configured = self.rules.at(net).map(|(_, rule)| sets.of(&rule.interfaces));
            said.into_iter().chain(configured).reduce(|all, more| all.union(&more))
        };
        changed.iter().filter_map(|&(net, _)| Some((K::prefix(net)?, all(net)))).collect()
    }
}

impl<K: Family> Own<K> {
    /// What stands now at the prefixes that are to be changed.
    fn sets(&self, changes: &[(Prefix<K>, Option<Set>)]) -> Vec<(Prefix<K>, Option<Set>)> {
        changes.iter().map(|(prefix, _)| (*prefix, self.engine.set_of(prefix))).collect()
    }

    fn change(&mut self, changes: Vec<(Prefix<K>, Option<Set>)>) -> Result<(), NoRoom> {
        if changes.is_empty() {
            return Ok(());
        }
        let new = |(prefix, set): &(Prefix<K>, Option<Set>)| {
            (set.is_some() && self.engine.counter(prefix).is_none()).then_some(*prefix)
        };
        let new: Vec<Prefix<K>> = match self.hits {
            Some(_) => changes.iter().filter_map(new).collect(),
            None => Vec::new(),
        };
        self.engine.change(Entries::Nested(changes))?;
        if let Some(hits) = &self.hits {
            // A number that was another prefix's has counted for that one.
            for number in new.iter().filter_map(|prefix| self.engine.counter(prefix)) {
                match hits.of(number) {
                    0 => self.bases.remove(&number),
                    counted => self.bases.insert(number, counted),
                };
            }
        }
        Ok(())
    }

    /// Packets that hit a prefix.
    pub(super) fn hits(&self, prefix: &Prefix<K>) -> Option<u64> {
        let (hits, number) = (self.hits.as_ref()?, self.engine.counter(prefix)?);
        Some(hits.of(number) - self.bases.get(&number).copied().unwrap_or(0))
    }
}
