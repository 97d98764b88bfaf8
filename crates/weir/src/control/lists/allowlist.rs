//! Allowlists with live edits: sets of prefixes, each of which was added or removed.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_plane::model::{AllowedSources, Gateway, Origin};

use super::super::refusal::{Kind, Refusal};
use super::super::remarks::Remarks;
use super::super::source;
use super::rule::{Put, unknown};
use super::said::Said;
use crate::render::allowlist_changed::{Changed, Prefix, Prefixes};
use crate::render::changes::{Edit, Kind as EditKind};
use crate::render::number::plural;
use crate::render::reloaded::Lost;
use crate::render::remark::Remark;
use crate::rules::prefixes;

const OBJECT: &str = "allowlist";

/// The body of `POST /v1/allow/LIST/changes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRequest {
    /// The source of the change.
    #[serde(default = "source::usual")]
    pub source: String,
    /// Prefixes that are deleted, one a line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub delete: String,
    /// Prefixes that are inserted, one a line. They follow the deletions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub insert: String,
}

/// A prefix with the place where it was declared.
type Placed = (IpNet, Origin);

/// The edits of a list. Edits that the file has are left out.
#[derive(Debug, Clone, Default)]
struct Edited {
    /// The prefixes of the configuration.
    declared: Vec<Placed>,
    added: BTreeMap<IpNet, Said>,
    removed: BTreeMap<IpNet, Said>,
}

impl Edited {
    fn is_as_declared(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// Returns the prefixes: first those of the configuration, then live ones.
    fn prefixes(&self) -> impl Iterator<Item = (Placed, Option<&Said>)> {
        let declared = self.declared.iter().filter(|(net, _)| !self.removed.contains_key(net));
        let added = self.added.iter().map(|(&net, said)| ((net, Origin::default()), Some(said)));
        declared.map(|&placed| (placed, None)).chain(added)
    }

    fn insert(&mut self, net: IpNet, said: &Said) {
        if self.removed.remove(&net).is_none() {
            self.added.insert(net, said.clone());
        }
    }

    fn delete(&mut self, net: IpNet, said: &Said) {
        if self.added.remove(&net).is_none() {
            self.removed.insert(net, said.clone());
        }
    }
}

/// The allowlists that were changed while the gateway ran, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowlists(BTreeMap<String, Edited>);

impl Allowlists {
    /// Deletes and inserts prefixes on a copy. Returns the gateway with the changed list, the lists, and the outcome.
    pub(crate) fn change(
        &self,
        gateway: &Gateway,
        list: &str,
        said: &Said,
        request: &SetRequest,
    ) -> Result<(Gateway, Allowlists, Changed), Box<Refusal>> {
        let mut edited = self.edited(gateway, list)?;
        let (mut errors, mut warnings, mut absent) = (Remarks::default(), Remarks::default(), Remarks::default());
        let deleted = read(&request.delete, (&mut errors, &mut warnings));
        let inserted = read(&request.insert, (&mut errors, &mut warnings));
        if !errors.is_empty() {
            return Err(Refusal::of_rules(Kind::InvalidRules, errors).into());
        }
        let mut there: HashSet<IpNet> = edited.prefixes().map(|((net, _), _)| net).collect();
        for &net in &deleted {
            match there.remove(&net) {
                true => edited.delete(net, said),
                false => absent.push(|| remark(format!("the list does not have {net}"))),
            }
        }
        for &net in &inserted {
            match there.insert(net) {
                true => edited.insert(net, said),
                false => absent.push(|| remark(format!("the list has {net} already"))),
            }
        }
        if !absent.is_empty() {
            return Err(Refusal::of_rules(Kind::Conflict, absent).into());
        }
        self.put_back(gateway, list, edited, (said, inserted.len(), deleted.len()), warnings)
    }

    /// Replaces all prefixes of a list on a copy, likewise.
    pub(crate) fn put(
        &self,
        gateway: &Gateway,
        list: &str,
        said: &Said,
        put: &Put<'_>,
    ) -> Result<(Gateway, Allowlists, Changed), Box<Refusal>> {
        let mut edited = self.edited(gateway, list)?;
        let (mut errors, mut warnings) = (Remarks::default(), Remarks::default());
        let wanted: BTreeSet<IpNet> = read(put.text, (&mut errors, &mut warnings)).into_iter().collect();
        if !errors.is_empty() {
            return Err(Refusal::of_rules(Kind::InvalidRules, errors).into());
        }
        if wanted.is_empty() && !put.allow_empty {
            let message = format!(
                "no prefix was sent: the allowlist `{list}` would be empty, and interfaces that use it would drop all \
                 packets; allow it with `--allow-empty` (`allow-empty=true` in a query); nothing was changed"
            );
            return Err(Refusal::new(Kind::Conflict, message).into());
        }
        let there: BTreeSet<IpNet> = edited.prefixes().map(|((net, _), _)| net).collect();
        there.difference(&wanted).for_each(|&net| edited.delete(net, said));
        wanted.difference(&there).for_each(|&net| edited.insert(net, said));
        let counts = (said, wanted.difference(&there).count(), there.difference(&wanted).count());
        self.put_back(gateway, list, edited, counts, warnings)
    }

    fn edited(&self, gateway: &Gateway, list: &str) -> Result<Edited, Box<Refusal>> {
        let Some(found) = gateway.allowlists.iter().find(|known| known.name == list) else {
            return Err(unknown_list(gateway, list));
        };
        match &found.sources {
            AllowedSources::Prefixes(prefixes) => Ok(self
                .0
                .get(list)
                .cloned()
                .unwrap_or_else(|| Edited { declared: prefixes.to_vec(), ..Edited::default() })),
            AllowedSources::Vrf(vrf) => {
                let vrf = &gateway.vrfs[usize::from(vrf.0)].name;
                let message = format!(
                    "the allowlist `{list}` has the routes of the VRF `{vrf}` and no prefixes of its own; nothing was changed"
                );
                Err(Refusal::new(Kind::Conflict, message).into())
            }
        }
    }

    fn put_back(
        &self,
        gateway: &Gateway,
        list: &str,
        edited: Edited,
        (said, inserted, deleted): (&Said, usize, usize),
        warnings: Remarks,
    ) -> Result<(Gateway, Allowlists, Changed), Box<Refusal>> {
        let now: Vec<Placed> = edited.prefixes().map(|(placed, _)| placed).collect();
        let limit = gateway.limits.allowed_prefixes;
        if now.len() as u64 > u64::from(limit) {
            let prefixes = plural(now.len() as u64, "prefix");
            let message = format!(
                "the allowlist `{list}` would have {prefixes}, more than the limit of {limit}; nothing was changed"
            );
            return Err(Refusal::new(Kind::NoRoom, message).into());
        }
        let mut gateway = gateway.clone();
        let changed = Changed {
            list: list.to_owned(),
            source: said.source.clone(),
            inserted,
            deleted,
            prefixes: now.len(),
            warnings: warnings.shown,
            more_warnings: warnings.more,
        };
        set(&mut gateway, list, now);
        let mut lists = self.clone();
        match edited.is_as_declared() {
            true => drop(lists.0.remove(list)),
            false => drop(lists.0.insert(list.to_owned(), edited)),
        }
        Ok((gateway, lists, changed))
    }

    /// Applies the live edits to a new configuration. Returns the lists, the edits that end, and whether more packets might pass
    /// without one of these.
    pub(crate) fn carry(&self, gateway: &mut Gateway) -> (Allowlists, Vec<Lost>, bool) {
        let (mut lists, mut lost, mut protects) = (Allowlists::default(), Vec::new(), false);
        for (name, edited) in &self.0 {
            let found = gateway.allowlists.iter().find(|list| list.name == *name);
            let declared = match found.map(|list| &list.sources) {
                Some(AllowedSources::Prefixes(prefixes)) => prefixes.to_vec(),
                other => {
                    let why = match other {
                        None => "does not have it",
                        Some(_) => "declares it with the routes of a VRF",
                    };
                    let parts = vec![format!("the configuration {why}: its live edits are gone")];
                    lost.push(Lost { of: format!("{OBJECT} {name}"), rules: edited.added.len(), parts, more: 0 });
                    protects |= !edited.removed.is_empty();
                    continue;
                }
            };
            let there: HashSet<IpNet> = declared.iter().map(|(net, _)| *net).collect();
            // What the file says now is no edit any more.
            let mut carried = Edited { declared, ..edited.clone() };
            carried.added.retain(|net, _| !there.contains(net));
            carried.removed.retain(|net, _| there.contains(net));
            if !carried.is_as_declared() {
                let now = carried.prefixes().map(|(placed, _)| placed).collect();
                set(gateway, name, now);
                lists.0.insert(name.clone(), carried);
            }
        }
        (lists, lost, protects)
    }

    /// Returns the edits.
    pub(crate) fn edits(&self) -> Vec<Edit> {
        let row = |name: &str, edit, net: &IpNet, said: &Said| Edit {
            of: format!("{OBJECT} {name}"),
            edit,
            what: net.to_string(),
            id: None,
            place: None,
            source: Some(said.source.clone()),
            time: Some(said.time),
        };
        let of = |(name, edited): (&String, &Edited)| {
            let added = edited.added.iter().map(|(net, said)| row(name, EditKind::Added, net, said));
            let removed = edited.removed.iter().map(|(net, said)| row(name, EditKind::Removed, net, said));
            added.chain(removed).collect::<Vec<Edit>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    /// Returns the lists with edits, and their prefixes in words.
    pub(crate) fn lists(&self) -> impl Iterator<Item = (&str, Vec<String>)> {
        let words = |edited: &Edited| edited.prefixes().map(|((net, _), _)| net.to_string()).collect();
        self.0.iter().map(move |(name, edited)| (name.as_str(), words(edited)))
    }

    /// Returns the prefixes of a list, with their sources.
    pub(crate) fn prefixes(&self, gateway: &Gateway, list: &str) -> Result<Prefixes, Box<Refusal>> {
        let edited = self.edited(gateway, list)?;
        let row = |((net, origin), said): (Placed, Option<&Said>)| Prefix {
            prefix: net.to_string(),
            origin: match said {
                Some(said) => said.to_string(),
                None => gateway.origins.place(origin).map_or_else(String::new, |place| place.to_string()),
            },
        };
        let prefixes = edited.prefixes().map(row).collect();
        Ok(Prefixes { list: list.to_owned(), prefixes })
    }
}

/// Gives a list these prefixes.
fn set(gateway: &mut Gateway, list: &str, prefixes: Vec<Placed>) {
    if let Some(list) = gateway.allowlists.iter_mut().find(|own| own.name == list) {
        list.sources = AllowedSources::Prefixes(prefixes.into());
    }
}

fn unknown_list(gateway: &Gateway, list: &str) -> Box<Refusal> {
    unknown(list, "allowlist", gateway.allowlists.iter().map(|list| list.name.clone()).collect())
}

/// Reads prefixes, one a line; notes errors and warnings.
fn read(text: &str, (errors, warnings): (&mut Remarks, &mut Remarks)) -> Vec<IpNet> {
    match prefixes::read(text) {
        Ok((lines, odd)) => {
            warnings.of_text(None, false, &odd);
            lines.into_iter().map(|line| line.rule).collect()
        }
        Err(wrong) => {
            errors.of_text(None, false, &wrong);
            Vec::new()
        }
    }
}

fn remark(message: String) -> Remark {
    Remark { message, ..Remark::default() }
}

/// Reports changes in words, for the log.
pub(crate) fn summary(changed: &Changed) -> String {
    let Changed { list, source, inserted, deleted, prefixes, .. } = changed;
    let prefixes = plural(*prefixes as u64, "prefix");
    format!("{OBJECT} {list}: {source} inserted {inserted}, deleted {deleted}; {prefixes}")
}
