//! Access lists as they run.

use std::sync::Arc;

use super::dropped::{Lost, LostEdits};
use super::order::{Entry, Order, Said, Text};
use crate::compile::boxes::count;
use crate::compile::map::Map;
use crate::model::{AclDefault, AclList, AclRule};
use crate::root::sampler::Choice;

/// A list as it runs.
pub(super) struct List {
    pub(super) name: Arc<str>,
    /// As it was declared; without rules, if it was not.
    pub(super) declared: AclList,
    /// Who made it, if it was not declared.
    pub(super) created: Option<Said>,
    /// It was changed since.
    pub(super) edited: bool,
    pub(super) order: Order,
    pub(super) default: AclDefault,
    /// The number of the default.
    pub(super) number: u32,
    /// How packets of rules that log are sampled.
    pub(super) choice: Option<Choice>,
    /// Some rule of it opens sessions, or did since the list was made.
    pub(super) reflects: bool,
}

impl List {
    /// A rule of it.
    pub(super) fn rule<'l>(&'l self, entry: &'l Entry) -> &'l AclRule {
        match &entry.text {
            Text::Declared(index) => &self.declared.rules[*index as usize],
            Text::Own(own) => &own.rule,
        }
    }

    /// The numbers of its rules, and of its default.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.order.iter().map(|entry| entry.number).chain([self.number])
    }

    /// Rules that came while the gateway ran.
    pub(super) fn live(&self) -> usize {
        let is_live = |entry: &&Entry| matches!(&entry.text, Text::Own(own) if own.said.is_some());
        self.order.iter().filter(is_live).count()
    }

    pub(super) fn lost(&self) -> LostEdits {
        LostEdits { of: table(&self.name), rules: self.live(), lost: Lost::All }
    }
}

/// What the table of a list is called.
pub(super) fn table(list: &str) -> String {
    format!("acl {list}")
}

/// Places that a rule takes in its list: one for each of its boxes.
pub(super) fn width(rule: &AclRule) -> u32 {
    u32::try_from(count(rule)).unwrap_or(u32::MAX).max(1)
}

/// How packets of rules of a list that log are sampled.
pub(super) fn choice(declared: &AclList, map: &Map) -> Option<Choice> {
    declared.sample.map(|sampling| Choice::new(map.samplers[usize::from(sampling.to.0)], sampling.one_in))
}
