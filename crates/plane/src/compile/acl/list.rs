//! Access lists in force.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::dropped::{Lost, LostEdits, LostRule, RuleLost, default_opens, opens};
use super::order::{Entry, Order, Said};
use crate::compile::boxes::count;
use crate::compile::map::Map;
use crate::model::{AclDefault, AclList, AclRule};
use crate::root::sampler::Choice;

/// A list in force.
pub(super) struct List {
    pub(super) name: Arc<str>,
    /// As it was declared; without rules, if it was not.
    pub(super) declared: AclList,
    /// The source of a live list.
    pub(super) created: Option<Said>,
    /// The declared rules that an edit removed, by index, with the source of each removal.
    pub(super) removed: Arc<BTreeMap<u32, Said>>,
    /// The source of the change of the default.
    pub(super) default_said: Option<Said>,
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
        entry.rule(&self.declared)
    }

    /// The numbers of its rules, and of its default.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.order.iter().map(|entry| entry.number).chain([self.number])
    }

    /// Rules that came while the gateway ran.
    pub(super) fn live(&self) -> usize {
        let is_live = |entry: &&Entry| entry.declared().is_none();
        self.order.iter().filter(is_live).count()
    }

    /// The same with another default, which `said` gave it.
    pub(super) fn with_default(self, default: Option<AclDefault>, said: &Said) -> List {
        let Some(default) = default.filter(|default| *default != self.default) else { return self };
        let default_said = (default != self.declared.default).then(|| said.clone());
        List { default, default_said, ..self }
    }

    /// Reports that an added rule has lost something.
    pub(super) fn lost_rule(&self, entry: &Entry, lost: RuleLost) -> LostRule {
        let rule = self.rule(entry).clone();
        LostRule { number: Some(entry.number), protects: !opens(rule.action), rule, lost }
    }

    /// Reports that all its edits ended.
    pub(super) fn lost(&self, lost: Lost) -> LostEdits {
        let added = self.order.iter().filter(|entry| entry.declared().is_none());
        let closes = added.map(|entry| self.rule(entry)).any(|rule| !opens(rule.action));
        let mut removed = self.removed.keys().filter_map(|&index| self.declared.rules.get(index as usize));
        let default = self.default_said.is_some() && !default_opens(self.default);
        let protects = closes || default || removed.any(|rule| opens(rule.action));
        LostEdits { of: table(&self.name), rules: self.live(), protects, lost }
    }

    /// Whether there are edits of it, or it was made by one.
    pub(super) fn has_edits(&self) -> bool {
        self.created.is_some() || self.is_patched()
    }

    /// Whether it is not as it was declared.
    pub(super) fn is_edited(&self) -> bool {
        self.created.is_none() && self.is_patched()
    }

    fn is_patched(&self) -> bool {
        !self.removed.is_empty() || self.default_said.is_some() || self.live() > 0
    }
}

/// Returns the name of the table of a list.
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
