//! Changes to what sources say of a table while the gateway runs: a batch happens as a whole, or not at all.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use ipnet::IpNet;
use weir_base::reclaim::Domain;
use weir_table::lpm::{Folding, Prefix};
use weir_table::sav::{NoRoom, Set};

use super::decision::{self, of_rule, of_said};
use super::dynamic::{Dynamic, Edit, Entries, EntryKey, MAX_SOURCES, Names, Said};
use super::engine::{self, Meaning, Shape};
use super::fill::entries;
use super::kept::{Kept, Own, Store};
use super::lists::are_of_other_modes;
use super::named::{NamedSets, Numbers};
use super::rules::{Family, Sets};
use crate::compile::rubbish::Rubbish;
use crate::model::{Gateway, Mechanism, Mode, Place, SavLayout};

/// Why a batch was refused. Nothing of it has happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SavError {
    /// There is no such policy.
    #[error("there is no policy of source address validation with the name `{policy}`")]
    NoSuchPolicy {
        /// The requested policy.
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
    /// One of the changes cannot be made.
    #[error("change {number}, {prefix}: {problem}")]
    Edit {
        /// Which, counted from 1.
        number: usize,
        /// Its prefix.
        prefix: IpNet,
        /// The problem.
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

/// The problem of a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The source has said something of the prefix already, in such a list.
    #[error("there is an entry of this source already: delete or replace it")]
    There,
    /// No source has an entry of the prefix in such a list.
    #[error("there is no entry of this source")]
    NotThere,
    /// The configuration has the entry.
    #[error(
        "`{rule}` is an entry of the configuration{}: only a change there, and a reload, removes it",
        place.as_ref().map_or_else(String::new, |place| format!(" ({place})"))
    )]
    OfConfiguration {
        /// The entry, in words.
        rule: String,
        /// Where it stands.
        place: Option<Place>,
    },
    /// Another source has said it.
    #[error("`{rule}` is an entry of the source `{source_name}`: name that source to delete it")]
    OfAnother {
        /// The entry, in words.
        rule: String,
        /// The source of the entry.
        source_name: String,
    },
    /// No interface has the name.
    #[error("there is no interface `{0}`")]
    NoSuchInterface(String),
    /// It names no interface.
    #[error("no interface is named")]
    NoInterface,
    /// Bits of the prefix are set behind its length.
    #[error("host bits are set: {0} is meant")]
    HostBits(IpNet),
    /// Line cards have tables of their own, which hold no such list.
    #[error("tables of line cards hold nothing but router-wide `permit` entries: this one needs `layout = \"merged\"`")]
    LineCards,
}

/// The effects of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Edited {
    /// Entries of the source that are new.
    pub added: usize,
    /// Entries that were replaced.
    pub replaced: usize,
    /// Entries that were deleted.
    pub deleted: usize,
    /// Entries of the source from now on.
    pub entries: usize,
}

/// The means of changing tables.
#[derive(Clone, Copy)]
pub(in crate::compile) struct Means<'a> {
    pub(in crate::compile) domain: &'a Domain,
    pub(in crate::compile) workers: usize,
    pub(in crate::compile) gateway: &'a Gateway,
    pub(in crate::compile) numbers: &'a Numbers,
}

/// The changes after which a source has certain entries in a table and no others.
pub struct SavPlan {
    place: usize,
    source: String,
    all: Arc<Entries>,
    changed: Vec<(EntryKey, Option<Names>)>,
    /// New tables of all entries, if that takes less than changing the present ones.
    anew: Option<(Own<u32>, Own<u128>, Shape)>,
    edited: Edited,
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
        let kept = &mut self.kept[place];
        let own = kept.dynamic.source(source);
        // What was said before, as far as all went well.
        let mut undo: Vec<(EntryKey, Option<Said>)> = Vec::with_capacity(edits.len());
        let mut said = || {
            let mut named = Named::new(means.gateway, policy);
            let mut edited = Edited::default();
            for (number, edit) in (1..).zip(edits) {
                let key = edit.key();
                let wrong = |problem| SavError::Edit { number, prefix: key.prefix, problem };
                named.check(key, edit.names()).map_err(wrong)?;
                let new = edit.names().map(|names| Said { interfaces: Arc::clone(names), time });
                let before = kept.dynamic.set(own, key, new);
                let (there, same) =
                    (before.is_some(), before.as_ref().map(|before| &before.interfaces) == edit.names());
                undo.push((key, before));
                match edit {
                    Edit::Add(..) if there => return Err(wrong(Problem::There)),
                    Edit::Delete(_) if !there => return Err(wrong(kept.absent(means.gateway, key))),
                    Edit::Delete(_) => edited.deleted += 1,
                    Edit::Add(..) | Edit::Replace(..) if !there => edited.added += 1,
                    _ => edited.replaced += usize::from(!same),
                }
            }
            Ok(edited)
        };
        let changed = |edit: &Edit| (edit.key(), edit.names().cloned());
        let done = said().and_then(|edited| match kept.adopt(means, own, edits.iter().map(changed)) {
            Ok(()) => Ok(edited),
            Err(full) => Err(SavError::NoRoom { policy: kept.name.to_string(), full }),
        });
        if done.is_err() {
            for (key, before) in undo.iter().rev() {
                kept.dynamic.set(own, *key, before.clone());
            }
        }
        if let Err(SavError::NoRoom { .. }) = done {
            // Of several changes to one entry the first has what was there before all of them.
            let before = |(key, said): (EntryKey, Option<Said>)| (key, said.map(|said| said.interfaces));
            kept.go_back(means, own, undo.into_iter().rev().map(before));
        }
        self.conclude(means, place, source, done)
    }

    /// Finds out what it takes to make a source say these entries of a table and no others. Several for one prefix and list
    /// count together.
    pub(in crate::compile) fn plan(
        &self,
        means: Means<'_>,
        policy: &str,
        source: &str,
        entries: &[(EntryKey, Names)],
        time: u64,
    ) -> Result<SavPlan, SavError> {
        let place = self.table(means.gateway, policy, source)?;
        let kept = &self.kept[place];
        let mut named = Named::new(means.gateway, policy);
        let mut all = Entries::with_capacity_and_hasher(entries.len(), Folding::random());
        for (number, (key, names)) in (1..).zip(entries) {
            let wrong = |problem| SavError::Edit { number, prefix: key.prefix, problem };
            named.check(*key, Some(names)).map_err(wrong)?;
            match all.entry(*key) {
                Entry::Vacant(vacant) => drop(vacant.insert(Said { interfaces: Arc::clone(names), time })),
                Entry::Occupied(mut said) => {
                    let more = named.both(&said.get().interfaces, names);
                    said.get_mut().interfaces = more;
                }
            }
        }
        let before = kept.dynamic.of(source);
        let mut edited = Edited::default();
        let mut changed: Vec<(EntryKey, Option<Names>)> = Vec::new();
        for (key, said) in &all {
            match before.and_then(|before| before.get(key)) {
                None => edited.added += 1,
                Some(before) if before.interfaces != said.interfaces => edited.replaced += 1,
                Some(_) => continue,
            }
            changed.push((*key, Some(Arc::clone(&said.interfaces))));
        }
        let gone = before.into_iter().flat_map(|before| before.keys()).filter(|key| !all.contains_key(key));
        changed.extend(gone.map(|key| (*key, None)));
        edited.deleted = changed.len() - edited.added - edited.replaced;
        let all = Arc::new(all);
        let mut dynamic = kept.dynamic.clone();
        let own = dynamic.source(source);
        dynamic.replace(own, Arc::clone(&all));
        let full = |full| SavError::NoRoom { policy: kept.name.to_string(), full };
        let anew = match kept.other_shape(&dynamic, changed.len()) {
            Some(shape) => Some((
                kept.anew(means, &dynamic, &shape).map_err(full)?,
                kept.anew(means, &dynamic, &shape).map_err(full)?,
                shape,
            )),
            None => None,
        };
        Ok(SavPlan { place, source: source.to_owned(), all, changed, anew, edited })
    }

    /// Does what was planned. What is to be freed goes to `rubbish`.
    pub(in crate::compile) fn carry_out(
        &mut self,
        means: Means<'_>,
        plan: SavPlan,
        rubbish: &mut Rubbish,
    ) -> Result<Edited, SavError> {
        let SavPlan { place, source, all, changed, anew, edited } = plan;
        let kept = &mut self.kept[place];
        let own = kept.dynamic.source(&source);
        let before = kept.dynamic.replace(own, all);
        let done = if let Some((v4, v6, shape)) = anew {
            rubbish.push((std::mem::replace(&mut kept.v4, v4), std::mem::replace(&mut kept.v6, v6)));
            kept.shape = shape;
            kept.allowlisted = kept.with_allowlists(means.numbers);
            Ok(edited)
        } else {
            let keys: Vec<EntryKey> = changed.iter().map(|(key, _)| *key).collect();
            kept.adopt(means, own, changed.into_iter()).map(|()| edited).map_err(|full| {
                let names = |key| (key, before.get(&key).map(|said| Arc::clone(&said.interfaces)));
                let back: Vec<_> = keys.into_iter().map(names).collect();
                kept.dynamic.replace(own, Arc::clone(&before));
                kept.go_back(means, own, back.into_iter());
                SavError::NoRoom { policy: kept.name.to_string(), full }
            })
        };
        rubbish.push(before);
        self.conclude(means, place, &source, done)
    }

    fn conclude(
        &mut self,
        means: Means<'_>,
        place: usize,
        source: &str,
        done: Result<Edited, SavError>,
    ) -> Result<Edited, SavError> {
        let dynamic = &mut self.kept[place].dynamic;
        dynamic.forget();
        let entries = dynamic.of(source).map_or(0, HashMap::len);
        self.refresh(means.gateway, place);
        done.map(|edited| Edited { entries, ..edited })
    }

    fn table(&self, gateway: &Gateway, policy: &str, source: &str) -> Result<usize, SavError> {
        let found = gateway.sav.iter().find(|known| known.name == policy);
        let tables = || {
            let all = gateway.sav.iter().filter(|policy| matches!(policy.mechanism, Mechanism::Table { .. }));
            all.map(|policy| policy.name.clone()).collect()
        };
        let none = || SavError::NoSuchPolicy { policy: policy.to_owned(), tables: tables() };
        let known = found.ok_or_else(none)?;
        if !matches!(known.mechanism, Mechanism::Table { .. }) {
            return Err(SavError::NotATable { policy: policy.to_owned(), mechanism: known.mechanism.name() });
        }
        let place = self.place(policy).ok_or_else(none)?;
        if self.kept[place].dynamic.has_room_for(source) {
            Ok(place)
        } else {
            Err(SavError::TooManySources { source_name: source.to_owned() })
        }
    }
}

/// Lists of names that were looked at.
struct Named<'a> {
    gateway: &'a Gateway,
    /// The policy's line cards have tables of their own.
    cards: bool,
    /// Lists whose names are all those of interfaces. They are kept for as long as this is, and so are their places.
    fine: HashMap<*const Arc<str>, Names>,
    /// Lists that were made of two.
    both: HashMap<(*const Arc<str>, *const Arc<str>), Names>,
}

impl<'a> Named<'a> {
    fn new(gateway: &'a Gateway, policy: &str) -> Self {
        let policy = gateway.sav.iter().find(|known| known.name == policy);
        let cards = policy
            .is_some_and(|policy| matches!(policy.mechanism, Mechanism::Table { layout: SavLayout::Cards(_), .. }));
        Named { gateway, cards, fine: HashMap::new(), both: HashMap::new() }
    }

    fn check(&mut self, EntryKey { prefix, mode }: EntryKey, names: Option<&Names>) -> Result<(), Problem> {
        if prefix != prefix.trunc() {
            return Err(Problem::HostBits(prefix.trunc()));
        }
        if self.cards && names.is_some() && mode != Mode::PrefixAllow {
            return Err(Problem::LineCards);
        }
        let Some(names) = names.filter(|names| !self.fine.contains_key(&names.as_ptr())) else { return Ok(()) };
        if names.is_empty() {
            return Err(Problem::NoInterface);
        }
        let known = |name: &str| self.gateway.interfaces.iter().any(|interface| interface.name == name);
        if let Some(name) = names.iter().find(|name| !known(name)) {
            return Err(Problem::NoSuchInterface(name.to_string()));
        }
        self.fine.insert(names.as_ptr(), Arc::clone(names));
        Ok(())
    }

    /// The names of both.
    fn both(&mut self, first: &Names, second: &Names) -> Names {
        let make = || {
            let new = second.iter().filter(|name| !first.contains(name));
            first.iter().chain(new).cloned().collect()
        };
        self.fine.entry(first.as_ptr()).or_insert_with(|| Arc::clone(first));
        Arc::clone(self.both.entry((first.as_ptr(), second.as_ptr())).or_insert_with(make))
    }
}

impl Kept {
    /// Why a source has no entry to delete: whose it is, if it is anybody's.
    fn absent(&self, gateway: &Gateway, key: EntryKey) -> Problem {
        let configured = self.rules.at(key.prefix).map(|(_, rule)| rule).find(|rule| rule.mode() == key.mode);
        if let Some(rule) = configured {
            let decision::Named { text, origin, .. } = of_rule(gateway, rule);
            return Problem::OfConfiguration { rule: text, place: gateway.origins.place(origin) };
        }
        match self.dynamic.said(key.prefix).find(|(_, said, _)| *said == key) {
            Some((source, _, said)) => {
                let decision::Named { text, .. } = of_said(key, source, said);
                Problem::OfAnother { rule: text, source_name: source.to_string() }
            }
            None => Problem::NotThere,
        }
    }

    /// Brings the tables into line with what a source, by its place, says of these from now on. Of several that are the same
    /// the last counts.
    fn adopt(
        &mut self,
        means: Means<'_>,
        source: usize,
        changed: impl ExactSizeIterator<Item = (EntryKey, Option<Names>)>,
    ) -> Result<(), NoRoom> {
        if let Some(shape) = self.other_shape(&self.dynamic, changed.len()) {
            let dynamic = &self.dynamic;
            // Prefixes that stay lose what they have counted, but no table is changed twice.
            (self.v4, self.v6) = (self.anew(means, dynamic, &shape)?, self.anew(means, dynamic, &shape)?);
            self.shape = shape;
        } else {
            let (v4, v6) = self.wanted(means, source, changed, true);
            self.v4.change(v4)?;
            self.v6.change(v6)?;
        }
        self.allowlisted = self.with_allowlists(means.numbers);
        Ok(())
    }

    /// Returns the shape for new tables, or `None` if the present tables are changed. `changed` is the number of
    /// changed entries. The first entry in a list of another kind needs another table. If most entries change, new
    /// tables take less time.
    fn other_shape(&self, said: &Dynamic, changed: usize) -> Option<Shape> {
        let occupancy = self.v4.engine.occupancy().prefixes + self.v6.engine.occupancy().prefixes;
        let lists = are_of_other_modes(&self.rules.counts, said) && !matches!(self.shape.meaning, Meaning::Modes(_));
        let most = changed > occupancy / 2 && changed > 1000;
        if lists { Some(self.shape.clone().of_modes()) } else { most.then(|| self.shape.clone()) }
    }

    /// A table of all that is said.
    fn anew<K: Family>(&self, means: Means<'_>, said: &Dynamic, shape: &Shape) -> Result<Own<K>, NoRoom> {
        let mut own = Own::new(means.domain, shape, means.workers)?;
        own.engine.fill(entries(&self.rules, &self.numbers, shape, said, means.numbers))?;
        Ok(own)
    }

    /// Brings the tables back into line with what is said again of these, after those of the other family had no room for
    /// what was to be.
    fn go_back(&mut self, means: Means<'_>, source: usize, before: impl Iterator<Item = (EntryKey, Option<Names>)>) {
        let (v4, _) = self.wanted(means, source, before, false);
        if self.v4.change(v4).is_ok() {
            return;
        }
        // Readers still use the previous state, which takes its room. A new table has all of it. Else the system has no
        // address space left.
        if let Ok(anew) = self.anew(means, &self.dynamic, &self.shape) {
            self.v4 = anew;
        }
    }

    /// Returns the contents for the prefixes of these statements of a source (by its place). `forward`: the interfaces
    /// with allowlists are as before.
    fn wanted(
        &self,
        means: Means<'_>,
        source: usize,
        changed: impl Iterator<Item = (EntryKey, Option<Names>)>,
        forward: bool,
    ) -> (engine::Entries<u32>, engine::Entries<u128>) {
        if let Meaning::Modes(_) = self.shape.meaning {
            let prefixes = changed.map(|(key, _)| key.prefix);
            return self.lists(means.numbers, prefixes, forward.then_some(&self.allowlisted));
        }
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        let (mut sets, mut named) = (Sets::new(&self.numbers), NamedSets::new(means.numbers));
        // Of other lists nothing is left where the table is of one kind: they came and went in one batch, or did not fit.
        for (key, names) in changed.filter(|(key, _)| key.mode == Mode::PrefixAllow) {
            let net = key.prefix;
            let own = names.map(|names| named.of(&names));
            let others = self.dynamic.others(source, key).map(|said| named.of(&said.interfaces));
            let configured = self.rules.at(net).map(|(_, rule)| sets.of(&rule.interfaces));
            let others: Option<Set> = others.chain(configured).reduce(|all, more| all.union(&more));
            let all = own.into_iter().chain(others).reduce(|all, more| all.union(&more));
            match net {
                IpNet::V4(_) => v4.extend(u32::prefix(net).map(|prefix| (prefix, all))),
                IpNet::V6(_) => v6.extend(u128::prefix(net).map(|prefix| (prefix, all))),
            }
        }
        (engine::Entries::Nested(v4), engine::Entries::Nested(v6))
    }
}

impl<K: Family> Own<K> {
    fn change(&mut self, changes: engine::Entries<K>) -> Result<(), NoRoom> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut new: Vec<Prefix<K>> = if self.hits.is_some() { changes.present() } else { Vec::new() };
        new.retain(|prefix| self.engine.counter(prefix).is_none());
        self.engine.change(changes)?;
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

    /// Has all prefixes been hit by nothing.
    pub(super) fn clear_hits(&mut self) {
        if let Some(hits) = &self.hits {
            self.bases = hits.iter().collect();
        }
    }

    /// Packets that hit a prefix.
    pub(super) fn hits(&self, prefix: &Prefix<K>) -> Option<u64> {
        let (hits, number) = (self.hits.as_ref()?, self.engine.counter(prefix)?);
        Some(hits.of(number) - self.bases.get(&number).copied().unwrap_or(0))
    }
}
