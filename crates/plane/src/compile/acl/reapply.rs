//! Gives edits another model: the interfaces and groups that they name may be gone, or have other members.
//!
//! Rules and groups that name an interface of a list of interfaces stay without it, if another one is left. A group that is
//! gone is taken out of the groups to which an edit added it. Added rules never get wider that way: a group that has nothing
//! left, or whose edits do not fit the declaration, is as declared again, or gone; added rules and members that name it go.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::compare::{same_rule, seen};
use super::dropped::{Lost, LostEdits, LostRule, RuleLost};
use super::groups;
use super::list::{List, table, width};
use super::nested::{AclMembers, Changed, Live, reach};
use super::order::{Entry, Order, Own, Text};
use super::resolve::All;
use crate::compile::boxes::count;
use crate::model::{AclList, AclRule, Groups, InterfaceIndex, Interfaces};

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
        let (of, protects) = (table(&list.name), lost.iter().any(|rule| rule.protects));
        (!lost.is_empty()).then(|| LostEdits { of, rules, protects, lost: Lost::Rules(lost.clone()) })
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
            let index = entry.declared();
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
                        lost.push(list.lost_rule(entry, gone));
                    }
                    let Some(rule) = rule else { continue };
                    rule
                }
            };
            same &= same_rule(list.rule(entry), self.old, &rule, self.new);
            entry.width = width(&rule);
            entry.text = match (index, &entry.text) {
                (Some(index), _) if !self.groups.concern(&rule) => Text::Declared(index),
                (_, Text::Own(own)) => Text::Own(Arc::new(Own { rule, ..Own::clone(own) })),
                (_, Text::Declared(index)) => Text::Own(Arc::new(Own::declared(rule, *index))),
            };
        }
        if same && lost.is_empty() {
            return Some(Carried::Moved(order));
        }
        let gone: HashSet<u32> =
            lost.iter().filter(|rule| rule.lost.is_gone()).filter_map(|rule| rule.number).collect();
        let stays = |entry: &&Entry| !gone.contains(&entry.number);
        Some(Carried::Changed(order.iter().filter(stays).cloned().collect(), lost))
    }

    /// Whether a list that was made while the gateway ran is what is declared now.
    pub(super) fn is_saved(&self, list: &List, declared: &AclList) -> bool {
        let rules = list.order.iter().map(|entry| seen(list.rule(entry), self.old));
        list.default == declared.default && rules.eq(declared.rules.iter().map(|rule| seen(rule, self.new)))
    }

    /// How a rule goes on that came while the gateway ran, if it does, and what it has lost.
    pub(super) fn live(&self, rule: &AclRule) -> (Option<AclRule>, Option<RuleLost>) {
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
            Ok(rule) if count(&rule) == 0 => (None, Some(RuleLost::NoFamily)),
            Ok(rule) => (Some(rule), lost),
        }
    }
}

/// What a group has lost.
#[derive(Default)]
struct Gone {
    /// By the indices of the model before.
    interfaces: Vec<InterfaceIndex>,
    groups: Vec<Arc<str>>,
}

/// What groups were given, by the indices of another model, as far as that model has it.
pub(super) struct Narrowed<'a> {
    declared: &'a Groups,
    /// What they go on with.
    changed: Changed,
    /// What these have lost.
    lost: HashMap<Arc<str>, Gone>,
    /// Those that are as declared again, or gone, and why.
    given_back: Vec<(Arc<str>, Lost)>,
}

impl<'a> Narrowed<'a> {
    /// Applies the edits of groups to their declarations, `before` and now. Takes interfaces and groups that are gone out of
    /// groups, and then groups that have nothing left out of others.
    pub(super) fn of(
        changed: &Changed,
        (old, before): (&[u32], &Groups),
        new: &HashMap<u32, u32>,
        declared: &'a Groups,
    ) -> Narrowed<'a> {
        let mut narrowed = Narrowed { declared, changed: Changed::new(), lost: HashMap::new(), given_back: Vec::new() };
        if changed.is_empty() {
            return narrowed;
        }
        let mut kinds: HashMap<Arc<str>, &str> =
            groups::all(declared).map(|group| (Arc::clone(group.name()), group.kind())).collect();
        kinds.extend(changed.iter().map(|(name, (members, _))| (Arc::clone(name), members.own.kind())));
        for (name, (members, said)) in changed {
            let kind = members.own.kind();
            let had = AclMembers::declared(before, name);
            let has = AclMembers::declared(declared, name);
            if had.is_some() && has.is_none() || has.as_ref().is_some_and(|has| has.own.kind() != kind) {
                narrowed.given_back.push((Arc::clone(name), Lost::Gone));
                continue;
            }
            // Members of the declaration before that are gone are no edits.
            let is_added = |group: &Arc<str>| had.as_ref().is_none_or(|had| !had.groups.contains(group));
            let was = |index: &InterfaceIndex| had.as_ref().is_some_and(|had| had.own.has_interface(*index));
            let (mut members, mut interfaces) = members.reindexed(old, new);
            interfaces.retain(|index| !was(index));
            if let Some(has) = has {
                let empty = AclMembers::from(has.own.first(0));
                let had = had.as_ref().map_or(empty, |had| had.reindexed(old, new).0);
                if had != has {
                    members = members.rebased(&had, &has);
                }
                if members == has {
                    // The edits were saved.
                    continue;
                }
            }
            let mut groups = members.without(|group| kinds.get(group) != Some(&kind));
            groups.retain(is_added);
            if !interfaces.is_empty() || !groups.is_empty() {
                narrowed.lost.insert(Arc::clone(name), Gone { interfaces, groups });
            }
            narrowed.changed.insert(Arc::clone(name), (members, said.clone()));
        }
        let empty = narrowed.changed.iter().filter(|(_, (members, _))| members.is_empty());
        for name in empty.map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>() {
            narrowed.give_back(&name, Lost::NothingLeft);
        }
        narrowed
    }

    /// Has a group as it is declared again, or gone. Other groups that were given members do not follow it there: it is taken
    /// out of them, and so are groups that are as declared and that it is in.
    pub(super) fn give_back(&mut self, name: &Arc<str>, why: Lost) {
        let mut next = vec![(Arc::clone(name), why)];
        while let Some((name, why)) = next.pop() {
            if self.changed.remove(&name).is_none() {
                continue;
            }
            self.lost.remove(&name);
            let around = self.declared_around(&name);
            for (namer, (members, _)) in &mut self.changed {
                let gone = members.without(|group| around.contains(group));
                if !gone.is_empty() {
                    self.lost.entry(Arc::clone(namer)).or_default().groups.extend(gone);
                    next.extend(members.is_empty().then(|| (Arc::clone(namer), Lost::NothingLeft)));
                }
            }
            self.given_back.push((name, why));
        }
    }

    /// A group, and those that are as declared and that it is in by way of such groups.
    fn declared_around(&self, name: &Arc<str>) -> HashSet<Arc<str>> {
        let nested = || self.declared.nested.iter().filter(|nested| !self.changed.contains_key(&nested.name));
        let mut namers: HashMap<&Arc<str>, Vec<&Arc<str>>> = HashMap::new();
        for nested in nested() {
            nested.groups.iter().for_each(|group| namers.entry(group).or_default().push(&nested.name));
        }
        reach(&namers, [name]).into_iter().cloned().collect()
    }

    /// What is in groups that go on. What does not go with what is declared, is given back: they have `most` members at most,
    /// together with those that name them.
    pub(super) fn live(&mut self, most: usize) -> Live {
        loop {
            let wrong = match Live::new(&self.changed, self.declared, most) {
                Ok(live) => return live,
                Err(wrong) => wrong,
            };
            let is_own = self.changed.contains_key(wrong.group()).then(|| wrong.group());
            // What is declared goes by itself: some group that was changed is to blame.
            let Some(name) = is_own.or_else(|| self.changed.keys().min()).map(Arc::clone) else {
                return Live::default();
            };
            self.give_back(&name, Lost::DoesNotGo);
        }
    }

    /// Those that are as declared again, or gone.
    pub(super) fn given_back(&self) -> impl Iterator<Item = &Arc<str>> {
        self.given_back.iter().map(|(name, _)| name)
    }

    /// What is to be told of groups.
    pub(super) fn told(self) -> Vec<(Arc<str>, Lost)> {
        let members = |(name, Gone { interfaces, mut groups }): (_, Gone)| {
            groups.sort_unstable();
            (name, Lost::Members { interfaces, groups })
        };
        self.given_back.into_iter().chain(self.lost.into_iter().map(members)).collect()
    }
}
