//! How what was changed while the gateway ran goes over to another model.
//!
//! What is named may be gone. No packet comes in by an interface that is not there: so whatever named it goes on without it,
//! and goes itself if nothing else is left, without any packet faring otherwise. What it was given never widens that way: a
//! group that has nothing left is as declared again, or gone, and groups and rules that came while the gateway ran do not
//! follow it there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::groups::{self, All};
use super::lost::{Lost, LostEdits, LostRule, RuleLost};
use super::nested::Changed;
use super::order::{Entry, Order, Own, Text};
use super::same::same_rule;
use super::{List, width};
use crate::model::{AclList, AclRule, InterfaceIndex, Interfaces};

/// How what was changed while the gateway ran goes over to another model.
pub(super) struct Carry<'a> {
    pub(super) groups: All<'a>,
    /// Groups that rules which came while the gateway ran do not follow to what they are now.
    pub(super) widened: &'a HashSet<Arc<str>>,
    pub(super) old: &'a [u32],
    pub(super) new: &'a [u32],
    /// By the number of an interface: its index in the new model.
    pub(super) indices: HashMap<u32, u32>,
    /// Groups or indices are not what they were.
    pub(super) differs: bool,
}

/// What becomes of a list that is declared as it was.
pub(super) enum Carried {
    Same,
    /// The same rules, with other indices, or on other lines.
    Moved(Order),
    /// Rules whose groups have other members, without those that are lost.
    Changed(Vec<Entry>, Vec<LostRule>),
}

impl Carried {
    /// How many rules the list has from now on.
    pub(super) fn rules(&self, list: &List) -> usize {
        match self {
            Carried::Same | Carried::Moved(_) => list.order.len(),
            Carried::Changed(entries, _) => entries.len(),
        }
    }

    /// What it is to be told of.
    pub(super) fn lost(&self, list: &List) -> Option<LostEdits> {
        let Carried::Changed(_, lost) = self else { return None };
        let rules = lost.iter().filter(|rule| rule.lost.is_gone()).count();
        let of = super::stage::table(&list.name);
        (!lost.is_empty()).then(|| LostEdits { of, rules, lost: Lost::Rules(lost.clone()) })
    }
}

impl Carry<'_> {
    /// How a list goes on that is declared so now. `None`: a rule that is declared can not be had with the groups that there are.
    pub(super) fn carry(&self, list: &List, declared: &AclList) -> Option<Carried> {
        if !self.differs && Arc::ptr_eq(&list.declared.rules, &declared.rules) {
            return Some(Carried::Same);
        }
        let mut order = list.order.clone();
        let mut same = true;
        let mut lost: Vec<LostRule> = Vec::new();
        for entry in order.iter_mut() {
            let index = match &entry.text {
                Text::Declared(index) => Some(*index),
                Text::Own(own) => own.declared,
            };
            let rule = match index {
                Some(index) => {
                    let rule = declared.rules.get(index as usize)?;
                    if matches!(entry.text, Text::Declared(_)) && groups::names(rule).next().is_none() {
                        continue;
                    }
                    self.groups.checked(&list.name, 1, rule).ok()?
                }
                None => {
                    let (rule, gone) = self.live(list.rule(entry));
                    if let Some(gone) = gone {
                        lost.push(LostRule { number: entry.number, rule: list.rule(entry).clone(), lost: gone });
                    }
                    let Some(rule) = rule else { continue };
                    rule
                }
            };
            same &= same_rule(list.rule(entry), self.old, &rule, self.new);
            entry.width = width(&rule);
            entry.text = match (index, &entry.text) {
                (Some(index), _) if !self.groups.concern(&rule) => Text::Declared(index),
                (_, Text::Own(own)) => Text::Own(Arc::new(Own { rule, declared: index, said: own.said.clone() })),
                (_, Text::Declared(_)) => Text::Own(Arc::new(Own { rule, declared: index, said: None })),
            };
        }
        if same && lost.is_empty() {
            return Some(Carried::Moved(order));
        }
        let gone: HashSet<u32> = lost.iter().filter(|rule| rule.lost.is_gone()).map(|rule| rule.number).collect();
        let stays = |entry: &&Entry| !gone.contains(&entry.number);
        Some(Carried::Changed(order.iter().filter(stays).cloned().collect(), lost))
    }

    /// How a rule goes on that came while the gateway ran, if it does, and what it has lost.
    fn live(&self, rule: &AclRule) -> (Option<AclRule>, Option<RuleLost>) {
        let mut rule = rule.clone();
        let mut lost = None;
        // Members of a group are found by its name.
        if let Some(Interfaces::List(members)) = &rule.received_on {
            let (left, gone) = groups::reindexed(members, self.old, &self.indices);
            match (left.is_empty(), gone.is_empty()) {
                (true, _) => return (None, Some(RuleLost::NoInterface)),
                (false, true) => {}
                (false, false) => lost = Some(RuleLost::Interfaces(gone)),
            }
            rule.received_on = Some(Interfaces::List(left.into()));
        }
        if let Some(group) = groups::names(&rule).find(|name| self.widened.contains(*name)) {
            return (None, Some(RuleLost::NoGroup(Arc::clone(group))));
        }
        match self.groups.resolve(&rule) {
            Err(group) => (None, Some(RuleLost::NoGroup(group))),
            Ok(rule) if super::count(&rule) == 0 => (None, Some(RuleLost::NoFamily)),
            Ok(rule) => (Some(rule), lost),
        }
    }
}

/// What a group has lost.
#[derive(Default)]
pub(super) struct Gone {
    /// By the indices of the model before.
    pub(super) interfaces: Vec<InterfaceIndex>,
    pub(super) groups: Vec<Arc<str>>,
}

/// What groups were given, by the indices of another model.
pub(super) struct Narrowed {
    /// What they go on with.
    pub(super) changed: Changed,
    /// Those that have nothing left.
    pub(super) emptied: Vec<Arc<str>>,
    /// What others have lost.
    pub(super) lost: HashMap<Arc<str>, Gone>,
}

impl Narrowed {
    /// Takes interfaces that are gone out of groups, and then groups that have nothing left out of others.
    pub(super) fn of(changed: &Changed, old: &[u32], new: &HashMap<u32, u32>) -> Narrowed {
        let mut narrowed = Narrowed { changed: Changed::new(), emptied: Vec::new(), lost: HashMap::new() };
        let mut next = Vec::new();
        for (name, (members, said)) in changed {
            let (members, interfaces) = members.reindexed(old, new);
            if !interfaces.is_empty() {
                next.extend(members.is_empty().then(|| Arc::clone(name)));
                narrowed.lost.insert(Arc::clone(name), Gone { interfaces, groups: Vec::new() });
            }
            narrowed.changed.insert(Arc::clone(name), (members, said.clone()));
        }
        while let Some(empty) = next.pop() {
            narrowed.changed.remove(&empty);
            narrowed.lost.remove(&empty);
            for (name, (members, _)) in &mut narrowed.changed {
                if members.groups.contains(&empty) {
                    members.groups = members.groups.iter().filter(|group| **group != empty).cloned().collect();
                    narrowed.lost.entry(Arc::clone(name)).or_default().groups.push(Arc::clone(&empty));
                    next.extend(members.is_empty().then(|| Arc::clone(name)));
                }
            }
            narrowed.emptied.push(empty);
        }
        narrowed
    }
}
