//! The changeable state of a gateway.

use std::sync::Arc;

use weir_plane::compile::{EntryKey, Names};
use weir_plane::model::{self, SavAction};

use super::super::acl::attached::Attachments;
use super::super::acl::live;
use super::super::classify::Tables;
use super::super::host::Host;
use super::super::ipsec::Live;
use super::super::lists::{Allowlists, Bindings, Nats, Steers};
use super::super::services::Settings;
use crate::config::Texts;

/// The state of a gateway that changes can change.
#[derive(Clone)]
pub(super) struct Snapshot {
    pub(super) model: Arc<model::Gateway>,
    pub(super) texts: Option<Arc<Texts>>,
    pub(super) settings: Settings,
    pub(super) classify: Tables,
    pub(super) nat: Nats,
    pub(super) bindings: Bindings,
    pub(super) steers: Steers,
    pub(super) allowlists: Allowlists,
    pub(super) host: Host,
    pub(super) live: Live,
    pub(super) attached: Attachments,
    pub(super) lists: Vec<List>,
    pub(super) groups: Vec<Group>,
    pub(super) stages: Vec<(String, SavAction)>,
    pub(super) entries: Vec<Entries>,
    /// Objects that are too large to be kept.
    pub(super) unkept: Vec<String>,
}

/// An access list with live edits.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct List {
    pub(super) name: String,
    pub(super) is_created: bool,
    pub(super) default: model::AclDefault,
    /// Its rules, a line each.
    pub(super) text: Arc<str>,
}

/// A group with live edits.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) members: Vec<String>,
}

/// The entries of a source in a policy.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Entries {
    pub(super) policy: String,
    pub(super) source: String,
    pub(super) entries: Vec<(EntryKey, Names)>,
}

impl Snapshot {
    /// Returns the octets that the snapshot takes beside what other snapshots share with it, roughly.
    pub(super) fn octets(&self, next: Option<&Snapshot>) -> usize {
        // A model comes from texts, and takes some times their octets.
        let model = self.texts.as_ref().map_or(0, |texts| 8 * texts.octets());
        let is_shared = next.is_some_and(|next| Arc::ptr_eq(&next.model, &self.model));
        let lists: usize = self.lists.iter().map(|list| list.text.len()).sum();
        let entries: usize = self.entries.iter().map(|own| own.entries.len() * 64).sum();
        // Tables without edits are shared; a session takes its value and some octets more.
        let shares = |own: &Arc<[model::ClassifySession]>| {
            next.is_some_and(|next| next.model.classify.iter().any(|other| Arc::ptr_eq(&other.sessions, own)))
        };
        let tables = self.model.classify.iter().filter(|table| !shares(&table.sessions));
        let sessions: usize = tables.map(|table| table.sessions.len() * (table.mask.len() + 64)).sum();
        lists + entries + sessions + if is_shared { 0 } else { model }
    }

    /// Returns whether the snapshot keeps an object.
    pub(super) fn keeps(&self, object: &str) -> bool {
        !self.unkept.iter().any(|unkept| unkept == object)
    }
}

/// Returns a list as a model declares it.
pub(super) fn declared(model: &model::Gateway, name: &str) -> List {
    let list = model.acls.iter().find(|own| own.name == name);
    let rules = list.map_or(&[][..], |list| &list.rules[..]);
    let text: String = rules.iter().map(|rule| live::written(model, rule) + "\n").collect();
    let default = list.map(|list| list.default).unwrap_or_default();
    List { name: name.to_owned(), is_created: false, default, text: text.into() }
}
