//! The lists that were changed, and their changes.

use std::collections::BTreeMap;

use weir_plane::compile::AclGroup;
use weir_plane::model::{Binding, Gateway, NatRule, SteerRule};
use weir_plane::stats;

use super::super::acl::read::vocabulary;
use super::super::acl::{Change, Replace, Which};
use super::super::refusal::{Kind, Refusal};
use super::super::remarks::Remarks;
use super::edited::{Carried, Edited, Edits};
use super::rule::{Known, ListOf, Put, Rule, unknown};
use super::said::Said;
use crate::render::changes::{Edit, Kind as EditKind};
use crate::render::nat_changed::Changed;
use crate::render::number::plural;
use crate::render::reloaded::Lost;
use crate::render::remark::Remark;

/// Changes of a batch, at most.
const MOST_CHANGES: usize = 10_000;

/// Rules of a list that are gone after a reload and reported one by one, at most.
const MOST_PARTS: usize = 20;

/// The lists that were changed while the gateway ran, by name.
#[derive(Debug, Clone)]
pub(crate) struct Lists<R> {
    edited: BTreeMap<String, Edited<R>>,
    /// The greatest id that a live edit ever gave to a rule, by list: no other rule gets it, whatever becomes of the edit.
    given: BTreeMap<String, u32>,
}

/// The lists of NAT rules with live edits.
pub(crate) type Nats = Lists<NatRule>;

/// The lists of bindings with live edits.
pub(crate) type Bindings = Lists<Binding>;

/// The lists of steer rules with live edits.
pub(crate) type Steers = Lists<SteerRule>;

impl<R> Default for Lists<R> {
    fn default() -> Self {
        Lists { edited: BTreeMap::new(), given: BTreeMap::new() }
    }
}

impl<R: Rule> Lists<R> {
    /// Carries out a batch on a copy. Returns the gateway with the changed list, the lists, and the outcome.
    pub(crate) fn change<'g>(
        &self,
        known: impl Into<Known<'g>>,
        list: &str,
        said: &Said,
        changes: &[Change],
    ) -> Result<(Gateway, Lists<R>, Changed), Box<Refusal>> {
        let known = known.into();
        let gateway = known.gateway;
        if changes.len() > MOST_CHANGES {
            let message = format!("a batch has at most {MOST_CHANGES} changes: replace the list as a whole");
            return Err(Refusal::new(Kind::TooLarge, message).into());
        }
        let mut edited = self.edited(gateway, list)?;
        let of = ListOf { gateway, vocabulary: &known.vocabulary(), name: list };
        let (mut errors, mut warnings, mut absent) = (Remarks::default(), Remarks::default(), Remarks::default());
        let (mut inserted, mut deleted) = (Vec::new(), 0);
        for (number, change) in (1..).zip(changes) {
            let mut read = |text: &str| {
                let rules = R::read(text, Some(number), &of, (&mut errors, &mut warnings));
                if rules.is_empty() && errors.is_empty() {
                    errors.push(|| remark(number, "there is no rule in it".to_owned()));
                }
                rules
            };
            let done = match change {
                Change::Insert(insert) => {
                    let rules = read(&insert.rules);
                    let behind = insert.after.is_some();
                    edited.place(insert).map(|at| inserted.extend(edited.insert(at, behind, rules, said)))
                }
                Change::Delete(which) => edited.find(*which).map(|at| {
                    edited.delete(at, said);
                    deleted += 1;
                }),
                Change::Replace(Replace { rules, id, at }) => {
                    let rules = read(rules);
                    edited.find(Which { id: *id, at: *at }).map(|at| {
                        edited.delete(at, said);
                        deleted += 1;
                        inserted.extend(edited.insert(at, false, rules, said));
                    })
                }
            };
            if let Err(message) = done {
                absent.push(|| remark(number, message));
            }
        }
        if !errors.is_empty() {
            return Err(Refusal::of_rules(Kind::InvalidRules, errors).into());
        }
        if !absent.is_empty() {
            return Err(Refusal::of_rules(Kind::Conflict, absent).into());
        }
        self.put_back(gateway, list, edited, (said, inserted, deleted, 0), warnings)
    }

    /// Replaces all rules of a list on a copy, likewise.
    pub(crate) fn put<'g>(
        &self,
        known: impl Into<Known<'g>>,
        list: &str,
        said: &Said,
        put: &Put<'_>,
    ) -> Result<(Gateway, Lists<R>, Changed), Box<Refusal>> {
        let known = known.into();
        let gateway = known.gateway;
        let mut edited = self.edited(gateway, list)?;
        let (mut errors, mut warnings) = (Remarks::default(), Remarks::default());
        let of = ListOf { gateway, vocabulary: &known.vocabulary(), name: list };
        let rules = R::read(put.text, None, &of, (&mut errors, &mut warnings));
        if !errors.is_empty() {
            return Err(Refusal::of_rules(Kind::InvalidRules, errors).into());
        }
        if rules.is_empty() && !put.allow_empty {
            let message = format!(
                "no rule was sent: the {} `{list}` would be empty; allow it with `--allow-empty` (`allow-empty=true` in a \
                 query); nothing was changed",
                R::NOUN
            );
            return Err(Refusal::new(Kind::Conflict, message).into());
        }
        let (inserted, deleted, moved) = edited.replace(rules, said);
        self.put_back(gateway, list, edited, (said, inserted, deleted, moved), warnings)
    }

    fn edited(&self, gateway: &Gateway, list: &str) -> Result<Edited<R>, Box<Refusal>> {
        let declared =
            R::list(gateway, list).ok_or_else(|| unknown(list, &format!("list of {}", R::NOUN), R::names(gateway)))?;
        let mut edited = self.edited.get(list).cloned().unwrap_or_else(|| Edited::new(declared));
        edited.number_from(self.given.get(list).copied().unwrap_or(0));
        Ok(edited)
    }

    fn put_back(
        &self,
        gateway: &Gateway,
        name: &str,
        edited: Edited<R>,
        (said, inserted, deleted, moved): (&Said, Vec<u32>, usize, usize),
        warnings: Remarks,
    ) -> Result<(Gateway, Lists<R>, Changed), Box<Refusal>> {
        let (name, rules) = (name.to_owned(), edited.rules.len());
        if rules as u64 > u64::from(gateway.limits.acl_rules) {
            let limit = gateway.limits.acl_rules;
            let message = format!(
                "the {} `{name}` would be {rules}, more than the limit of {limit}; nothing was changed",
                R::NOUN
            );
            return Err(Refusal::new(Kind::NoRoom, message).into());
        }
        let mut gateway = gateway.clone();
        edited.put(&mut gateway, &name);
        let mut lists = self.clone();
        lists.given.insert(name.clone(), edited.last());
        lists.edited.insert(name.clone(), edited);
        let changed = Changed {
            list: name,
            source: said.source.clone(),
            inserted,
            deleted,
            moved,
            rules,
            translations: 0,
            bindings: 0,
            warnings: warnings.shown,
            more_warnings: warnings.more,
        };
        Ok((gateway, lists, changed))
    }

    /// The lists of a gateway whose rules keep their ids, and that nobody has edited.
    fn unedited(&self, gateway: &Gateway) -> Vec<(String, Edited<R>)> {
        let names = if R::KEEPS_IDS { R::names(gateway) } else { Vec::new() };
        let unedited = names.into_iter().filter(|name| !self.edited.contains_key(name));
        let of = |name: String| {
            let mut edited = Edited::new(R::list(gateway, &name)?);
            edited.number_from(self.given.get(&name).copied().unwrap_or(0));
            Some((name, edited))
        };
        unedited.filter_map(of).collect()
    }

    /// Applies the live edits to a new configuration, and the ids of its rules; `before` is in force. Returns the lists, the edits that
    /// end, and whether more packets might pass without one of these. `groups` are the groups of the configuration with their live edits.
    pub(crate) fn carry(
        &self,
        before: &Gateway,
        gateway: &mut Gateway,
        groups: &[AclGroup],
    ) -> (Lists<R>, Vec<Lost>, bool) {
        let vocabulary = vocabulary(gateway, groups);
        let (mut lists, mut lost, mut protects) = (Lists::default(), Vec::new(), false);
        lists.given = self.given.clone();
        let unedited = self.unedited(before);
        let all = self.edited.iter().chain(unedited.iter().map(|(name, edited)| (name, edited)));
        for (name, edited) in all {
            let of = format!("{} {name}", R::OBJECT);
            let Some(rules) = R::list(gateway, name) else {
                if !edited.is_as_declared() {
                    let parts = vec!["the configuration does not have it: its live edits are gone".to_owned()];
                    lost.push(Lost { of, rules: edited.live(), parts, more: 0 });
                    protects |= edited.protects();
                }
                continue;
            };
            let Carried { edited: carried, gone, added, protects: own } = {
                let of = ListOf { gateway, vocabulary: &vocabulary, name };
                edited.carried(rules, &of)
            };
            protects |= own;
            if !gone.is_empty() {
                let more = gone.len().saturating_sub(MOST_PARTS);
                let parts = gone.iter().take(MOST_PARTS).cloned().collect();
                lost.push(Lost { of, rules: added, parts, more });
            }
            if !carried.is_as_declared() || R::KEEPS_IDS && !carried.is_numbered() {
                carried.put(gateway, name);
                lists.given.insert(name.clone(), carried.last());
                lists.edited.insert(name.clone(), carried);
            }
        }
        (lists, lost, protects)
    }

    /// Ends the edits of a list, which do not go with others; `None`: it has none. Returns the edits, and whether more packets might
    /// pass without one of them.
    pub(crate) fn end(&mut self, list: &str, why: &str) -> Option<(Lost, bool)> {
        let edited = self.edited.get(list).filter(|edited| !edited.is_as_declared())?;
        let parts = vec![format!("its live edits do not go with the others, and end: {why}")];
        let lost = Lost { of: format!("{} {list}", R::OBJECT), rules: edited.live(), parts, more: 0 };
        let protects = edited.protects();
        self.edited.remove(list);
        Some((lost, protects))
    }

    /// The lists as they were before, while `now` is in force: ids that were given since stay given.
    pub(crate) fn restored(&self, now: &Lists<R>) -> Lists<R> {
        let mut lists = self.clone();
        for (name, &last) in &now.given {
            let given = lists.given.entry(name.clone()).or_insert(last);
            *given = last.max(*given);
        }
        for (name, edited) in &mut lists.edited {
            edited.number_from(lists.given.get(name).copied().unwrap_or(0));
        }
        lists
    }

    /// Returns the edits.
    pub(crate) fn edits(&self) -> Vec<Edit> {
        let row = |name: &str, (edit, said): (Edits<'_>, &Said)| {
            let (kind, what, id, anchor) = match edit {
                Edits::Added(id, rule, anchor) => (EditKind::Added, rule, Some(id), anchor),
                Edits::Removed(rule) => (EditKind::Removed, rule.to_owned(), None, None),
            };
            Edit {
                of: format!("{} {name}", R::OBJECT),
                edit: kind,
                what,
                id,
                place: anchor.map(|(behind, rule)| format!("{} {rule}", if behind { "behind" } else { "before" })),
                source: Some(said.source.clone()),
                time: Some(said.time),
            }
        };
        self.edited.iter().flat_map(|(name, edited)| edited.edits().map(move |edit| row(name, edit))).collect()
    }

    /// Returns the lists with their rules, in words.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (&str, Vec<String>)> {
        self.edited
            .iter()
            .filter(|(_, edited)| !edited.is_as_declared())
            .map(|(name, edited)| (name.as_str(), edited.rules.iter().map(|entry| entry.rule.written()).collect()))
    }

    /// Returns the id of each rule of a list with live edits, and the source of each live rule in words.
    fn identities(&self, list: &str) -> impl Iterator<Item = (u32, Option<String>)> {
        let entries = self.edited.get(list).map_or(&[][..], |edited| &edited.rules);
        entries.iter().map(|entry| (entry.id, entry.said.as_ref().map(ToString::to_string)))
    }
}

impl Nats {
    /// Gives live rules their sources.
    pub(crate) fn name(&self, lists: &mut [stats::NatStats]) {
        for list in lists {
            for (row, (_, said)) in list.rules.iter_mut().zip(self.identities(&list.name)) {
                row.origin = said.unwrap_or_else(|| std::mem::take(&mut row.origin));
            }
        }
    }
}

impl Bindings {
    /// Gives the rules of lists their ids, and live ones their sources.
    pub(crate) fn name(&self, lists: &mut [stats::BindingsStats]) {
        for list in lists {
            for (row, (id, said)) in list.rules.iter_mut().zip(self.identities(&list.name)) {
                row.id = id;
                row.origin = said.unwrap_or_else(|| std::mem::take(&mut row.origin));
            }
        }
    }
}

impl Steers {
    /// Returns the source and time of the live rule at a place of a list; `None` if it is a rule of the file.
    pub(crate) fn said_at(&self, list: &str, place: usize) -> Option<String> {
        self.identities(list).nth(place)?.1
    }

    /// Gives the rules of lists their ids, and live ones their sources.
    pub(crate) fn name(&self, lists: &mut [stats::SteerStats]) {
        for list in lists {
            for (row, (id, said)) in list.rules.iter_mut().zip(self.identities(&list.name)) {
                row.id = id;
                row.origin = said.unwrap_or_else(|| std::mem::take(&mut row.origin));
            }
        }
    }
}

fn remark(change: usize, message: String) -> Remark {
    Remark { change: Some(change), message, ..Remark::default() }
}

/// Reports changes in words, for the log.
pub(crate) fn summary(object: &str, changed: &Changed) -> String {
    let Changed { list, source, inserted, deleted, moved, rules, .. } = changed;
    let rules = plural(*rules as u64, "rule");
    format!("{object} {list}: {source} inserted {}, deleted {deleted}, moved {moved}; {rules}", inserted.len())
}
