//! The lists that were changed, and their changes.

use std::collections::BTreeMap;

use weir_plane::model::{Gateway, NatList};
use weir_plane::stats;

use super::super::acl::{Change, Replace, Which};
use super::super::refusal::{Kind, Refusal};
use super::super::remarks::Remarks;
use super::edited::{Edited, Edits};
use super::said::Said;
use super::text;
use crate::render::changes::{Edit, Kind as EditKind};
use crate::render::nat_changed::Changed;
use crate::render::number::plural;
use crate::render::reloaded::Lost;
use crate::render::remark::Remark;
use crate::rules::acl::Vocabulary;
use crate::suggest::closest;

/// Changes of a batch, at most.
const MOST_CHANGES: usize = 10_000;

/// Rules of a list that are gone after a reload and reported one by one, at most.
const MOST_PARTS: usize = 20;

/// The lists that were changed while the gateway ran, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lists(BTreeMap<String, Edited>);

/// A list as a whole.
pub struct Put<'a> {
    /// Its rules.
    pub text: &'a str,
    /// It may lose all its rules.
    pub allow_empty: bool,
}

impl Lists {
    /// Carries out a batch on a copy. Returns the gateway with the changed list, the lists, and the outcome.
    pub(crate) fn change(
        &self,
        gateway: &Gateway,
        list: &str,
        said: &Said,
        changes: &[Change],
    ) -> Result<(Gateway, Lists, Changed), Box<Refusal>> {
        if changes.len() > MOST_CHANGES {
            let message = format!("a batch has at most {MOST_CHANGES} changes: replace the list as a whole");
            return Err(Refusal::new(Kind::TooLarge, message).into());
        }
        let (at, mut edited) = self.edited(gateway, list)?;
        let vocabulary = Vocabulary::of(gateway);
        let (mut errors, mut warnings, mut absent) = (Remarks::default(), Remarks::default(), Remarks::default());
        let (mut inserted, mut deleted) = (Vec::new(), 0);
        for (number, change) in (1..).zip(changes) {
            let mut read = |text: &str| {
                let rules = text::rules(text, Some(number), &vocabulary, (&mut errors, &mut warnings));
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
        self.put_back(gateway, at, edited, (said, inserted, deleted, 0), warnings)
    }

    /// Replaces all rules of a list on a copy, likewise.
    pub(crate) fn put(
        &self,
        gateway: &Gateway,
        list: &str,
        said: &Said,
        put: &Put<'_>,
    ) -> Result<(Gateway, Lists, Changed), Box<Refusal>> {
        let (at, mut edited) = self.edited(gateway, list)?;
        let (mut errors, mut warnings) = (Remarks::default(), Remarks::default());
        let rules = text::rules(put.text, None, &Vocabulary::of(gateway), (&mut errors, &mut warnings));
        if !errors.is_empty() {
            return Err(Refusal::of_rules(Kind::InvalidRules, errors).into());
        }
        if rules.is_empty() && !put.allow_empty {
            let message = format!(
                "no rule was sent: the NAT rules `{list}` would be empty; allow it with `--allow-empty` (`allow-empty=true` \
                 in a query); nothing was changed"
            );
            return Err(Refusal::new(Kind::Conflict, message).into());
        }
        let (inserted, deleted, moved) = edited.replace(rules, said);
        self.put_back(gateway, at, edited, (said, inserted, deleted, moved), warnings)
    }

    fn edited(&self, gateway: &Gateway, list: &str) -> Result<(usize, Edited), Box<Refusal>> {
        let Some(at) = gateway.nat.iter().position(|known| known.name == list) else {
            let lists: Vec<String> = gateway.nat.iter().map(|list| list.name.clone()).collect();
            let help = match closest(list, &lists) {
                Some(name) => format!("did you mean `{name}`?"),
                None if lists.is_empty() => "there is none".to_owned(),
                None => format!("there are {}", lists.join(", ")),
            };
            let message = format!("there is no list of NAT rules with the name `{list}`; {help}");
            return Err(Refusal { lists, ..Refusal::new(Kind::UnknownList, message) }.into());
        };
        Ok((at, self.0.get(list).cloned().unwrap_or_else(|| Edited::new(&gateway.nat[at]))))
    }

    fn put_back(
        &self,
        gateway: &Gateway,
        at: usize,
        edited: Edited,
        (said, inserted, deleted, moved): (&Said, Vec<u32>, usize, usize),
        warnings: Remarks,
    ) -> Result<(Gateway, Lists, Changed), Box<Refusal>> {
        let (name, rules) = (gateway.nat[at].name.clone(), edited.rules.len());
        if rules as u64 > u64::from(gateway.limits.acl_rules) {
            let limit = gateway.limits.acl_rules;
            let message =
                format!("the NAT rules `{name}` would be {rules}, more than the limit of {limit}; nothing was changed");
            return Err(Refusal::new(Kind::NoRoom, message).into());
        }
        let mut gateway = gateway.clone();
        gateway.nat[at].rules = edited.model();
        let mut lists = self.clone();
        lists.0.insert(name.clone(), edited);
        let changed = Changed {
            list: name,
            source: said.source.clone(),
            inserted,
            deleted,
            moved,
            rules,
            translations: 0,
            warnings: warnings.shown,
            more_warnings: warnings.more,
        };
        Ok((gateway, lists, changed))
    }

    /// Applies the live edits to a new configuration. Returns the lists, and the edits that end.
    pub(crate) fn carry(&self, gateway: &mut Gateway) -> (Lists, Vec<Lost>) {
        let vocabulary = Vocabulary::of(gateway);
        let (mut lists, mut lost) = (Lists::default(), Vec::new());
        for (name, edited) in &self.0 {
            let of = format!("nat {name}");
            let list: Option<&mut NatList> = gateway.nat.iter_mut().find(|list| list.name == *name);
            let Some(list) = list else {
                let parts = vec!["the configuration does not have it: its live edits are gone".to_owned()];
                lost.push(Lost { of, rules: edited.live(), parts, more: 0 });
                continue;
            };
            let (carried, gone, rules) = edited.carried(list, &vocabulary);
            if !gone.is_empty() {
                let more = gone.len().saturating_sub(MOST_PARTS);
                let parts = gone.iter().take(MOST_PARTS).cloned().collect();
                lost.push(Lost { of, rules, parts, more });
            }
            if !carried.is_as_declared() {
                list.rules = carried.model();
                lists.0.insert(name.clone(), carried);
            }
        }
        (lists, lost)
    }

    /// Returns the edits.
    pub(crate) fn edits(&self) -> Vec<Edit> {
        let row = |name: &str, (edit, said): (Edits<'_>, &Said)| {
            let (kind, what, id, anchor) = match edit {
                Edits::Added(id, rule, anchor) => (EditKind::Added, rule, Some(id), anchor),
                Edits::Removed(rule) => (EditKind::Removed, rule.to_owned(), None, None),
            };
            Edit {
                of: format!("nat {name}"),
                edit: kind,
                what,
                id,
                place: anchor.map(|(behind, rule)| format!("{} {rule}", if behind { "behind" } else { "before" })),
                source: Some(said.source.clone()),
                time: Some(said.time),
            }
        };
        self.0.iter().flat_map(|(name, edited)| edited.edits().map(move |edit| row(name, edit))).collect()
    }

    /// Returns the lists with their rules, in words.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (&str, Vec<String>)> {
        self.0.iter().filter(|(_, edited)| !edited.is_as_declared()).map(|(name, edited)| {
            (name.as_str(), edited.rules.iter().map(|entry| super::edited::written(&entry.rule)).collect())
        })
    }

    /// Gives the rules of lists their ids, and live ones their sources.
    pub(crate) fn name(&self, lists: &mut [stats::NatStats]) {
        for list in lists {
            let Some(edited) = self.0.get(&list.name) else { continue };
            for (row, entry) in list.rules.iter_mut().zip(&edited.rules) {
                row.id = entry.id;
                if let Some(said) = &entry.said {
                    row.origin = format!(
                        "{} {}",
                        said.source,
                        humantime::format_rfc3339_seconds(
                            std::time::UNIX_EPOCH + std::time::Duration::from_secs(said.time)
                        )
                    );
                }
            }
        }
    }
}

fn remark(change: usize, message: String) -> Remark {
    Remark { change: Some(change), message, ..Remark::default() }
}

/// Reports changes in words, for the log.
pub(crate) fn summary(changed: &Changed) -> String {
    let Changed { list, source, inserted, deleted, moved, rules, .. } = changed;
    let rules = plural(*rules as u64, "rule");
    format!("nat {list}: {source} inserted {}, deleted {deleted}, moved {moved}; {rules}", inserted.len())
}
