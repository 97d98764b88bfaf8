//! Applies the live edits of a list to the declaration of another model.
//!
//! The patch (`compile::patch`) says which edits apply to the rules of the declaration. Added rules stay if the model has an
//! interface and the groups that they name; rules never match more packets that way. A list whose rules mean the same keeps
//! its sections.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::compare::{Indices, Known, same_list, same_rule, seen};
use super::dropped::{Lost, LostEdits, LostRule, RuleLost, default_opens, opens};
use super::groups;
use super::list::{List, table, width};
use super::order::{Entry, Order, Own, Said, Text};
use super::resolve::All;
use crate::compile::boxes::count;
use crate::compile::patch::{Anchor, Edit, Effect, Slot, Spot, Why, rebase};
use crate::model::{AclDefault, AclList, AclRule, Addresses, Interfaces, IpFamily, Ports, Transport};

/// A model to which live edits apply.
pub(super) struct Target<'a> {
    pub(super) groups: All<'a>,
    /// Groups whose edits end, and groups that contain them. Added rules that name such a group end.
    pub(super) widened: &'a HashSet<Arc<str>>,
    /// The numbers of interfaces, by the indices of the model in force.
    pub(super) old: &'a Indices,
    /// The numbers of interfaces, by the indices of this model.
    pub(super) new: &'a Indices,
    /// By the number of an interface: its index in this model.
    pub(super) indices: HashMap<u32, u32>,
    /// Groups or indices differ from those of the model in force.
    pub(super) differs: bool,
}

/// A list by another model.
pub(super) enum Applied {
    /// The list stays as it is.
    Same,
    /// The list has the same rules, by other indices, on other lines, or with other edits.
    Moved(Box<List>),
    /// The list has other rules. They have no places yet.
    Changed(Box<List>, Vec<Entry>),
}

/// The rules of a list by another model, and the declared rules that are removed.
type Rules = (Vec<Entry>, Arc<BTreeMap<u32, Said>>);

/// Numbers for texts of rules.
#[derive(Default)]
struct Texts {
    numbers: HashMap<AclRule, u32>,
    effects: Vec<Effect>,
}

impl Texts {
    fn number(&mut self, rule: &AclRule, indices: &[u32]) -> u32 {
        *self.numbers.entry(seen(rule, indices)).or_insert_with(|| {
            let opens = opens(rule.action);
            self.effects.push(Effect { opens, closes: !opens });
            self.effects.len() as u32 - 1
        })
    }
}

impl Target<'_> {
    /// Applies the edits of a list. `declared` is its declaration by the model; `None`: a live list that the model does not
    /// declare. `allocate` gives numbers for rules that are new. Edits that end are added to `lost`.
    pub(super) fn apply(
        &self,
        list: &List,
        declared: Option<&AclList>,
        allocate: impl FnMut() -> u32,
        lost: &mut Vec<LostEdits>,
    ) -> Applied {
        let is_replaced = list.created.is_some() && declared.is_some();
        let declared = declared.unwrap_or(&list.declared);
        let is_same = !is_replaced && same_list(&list.declared, self.old, declared, self.new);
        if is_same && !self.differs && Arc::ptr_eq(&list.declared.rules, &declared.rules) {
            return Applied::Same;
        }
        let mut rules: Vec<LostRule> = Vec::new();
        let (entries, removed) = if is_same {
            (self.same(list, declared, &mut rules), Arc::clone(&list.removed))
        } else if list.is_edited() {
            self.rebased(list, declared, allocate, &mut rules)
        } else {
            (self.declared(Some(list), declared, allocate), Arc::default())
        };
        let (default, default_said, lost_default) =
            if is_replaced { (declared.default, None, None) } else { default(list, declared) };
        lost.extend(lost_rules(list, rules).into_iter().chain(lost_default));
        let new = |order| {
            let (name, declared, created) = (Arc::clone(&list.name), declared.clone(), list.created.clone());
            let created = created.filter(|_| !is_replaced);
            Box::new(List { name, declared, created, removed, default_said, order, default, ..*list })
        };
        if default != list.default || !self.are_same(list, declared, &entries) {
            return Applied::Changed(new(Order::default()), entries);
        }
        let mut order = list.order.clone();
        for (own, Entry { width, text, .. }) in order.iter_mut().zip(entries) {
            (own.width, own.text) = (width, text);
        }
        Applied::Moved(new(order))
    }

    /// Whether a list has these rules already, with the same numbers and in the same order.
    fn are_same(&self, list: &List, declared: &AclList, entries: &[Entry]) -> bool {
        let is_same = |(before, entry): (&Entry, &Entry)| {
            before.number == entry.number && same_rule(list.rule(before), self.old, entry.rule(declared), self.new)
        };
        list.order.len() == entries.len() && list.order.iter().zip(entries).all(is_same)
    }

    /// Returns the rules of a list whose declaration means the same.
    fn same(&self, list: &List, declared: &AclList, lost: &mut Vec<LostRule>) -> Vec<Entry> {
        let entry = |entry: &Entry| match entry.spot() {
            Spot::Declared(index) => Some(self.entry(declared, index, |_| entry.number)),
            Spot::Added(anchor) => self.added(list, entry, anchor, lost),
        };
        list.order.iter().filter_map(entry).collect()
    }

    /// Applies the edits of a list to rules that are declared otherwise.
    fn rebased(
        &self,
        list: &List,
        declared: &AclList,
        mut allocate: impl FnMut() -> u32,
        lost: &mut Vec<LostRule>,
    ) -> Rules {
        let mut texts = Texts::default();
        let before: Vec<u32> = list.declared.rules.iter().map(|rule| texts.number(rule, self.old)).collect();
        let after: Vec<u32> = declared.rules.iter().map(|rule| texts.number(rule, self.new)).collect();
        let had: Vec<&Entry> = list.order.iter().collect();
        let items: Vec<(u32, Spot)> = had
            .iter()
            .map(|entry| match entry.spot() {
                spot @ Spot::Declared(index) => (before[index as usize], spot),
                spot @ Spot::Added(_) => (texts.number(list.rule(entry), self.old), spot),
            })
            .collect();
        let may_meet = |a: usize, b: usize| may_meet(list.rule(had[a]), list.rule(had[b]));
        let rebased = rebase(&before, &items, &after, |&text| texts.effects[text as usize], may_meet);
        lost.extend(rebased.lost.iter().map(|&(edit, why)| lost_edit(list, &had, edit, why)));

        let stays = |slot: &Slot| if let Slot::Added(item, _) = slot { Some(*item) } else { None };
        let added: HashSet<usize> = rebased.slots.iter().filter_map(stays).collect();
        let others = had.iter().enumerate().filter(|(item, _)| !added.contains(item));
        let others: Vec<_> = others.map(|(_, entry)| (list.rule(entry), entry.number)).collect();
        let mut known = Known::new(others.into_iter(), self.old);
        let mut number = |rule: &AclRule| known.take(rule, self.new).unwrap_or_else(&mut allocate);
        let entry = |slot: Slot| match slot {
            Slot::Declared(index) => Some(self.entry(declared, index, &mut number)),
            Slot::Added(item, anchor) => self.added(list, had[item], anchor, lost),
        };
        let entries: Vec<Entry> = rebased.slots.into_iter().filter_map(entry).collect();
        let removed = removed(list, declared, &entries, (&before, &after));
        (entries, Arc::new(removed))
    }

    /// Returns the rules of a declaration. Rules that `list` has keep their numbers.
    pub(super) fn declared(
        &self,
        list: Option<&List>,
        declared: &AclList,
        mut allocate: impl FnMut() -> u32,
    ) -> Vec<Entry> {
        let mut known = list.map_or_else(Known::default, |list| {
            let rules: Vec<_> = list.order.iter().map(|entry| (list.rule(entry), entry.number)).collect();
            Known::new(rules.into_iter(), self.old)
        });
        let mut number = |rule: &AclRule| known.take(rule, self.new).unwrap_or_else(&mut allocate);
        (0..declared.rules.len() as u32).map(|index| self.entry(declared, index, &mut number)).collect()
    }

    /// Returns a rule of a declaration, with the number that `number` gives it.
    fn entry(&self, declared: &AclList, index: u32, number: impl FnOnce(&AclRule) -> u32) -> Entry {
        let rule = &declared.rules[index as usize];
        let changed = self.groups.concern(rule).then(|| self.groups.resolve(rule).ok()).flatten();
        let width = width(changed.as_ref().unwrap_or(rule));
        let own = |rule| Text::Own(Arc::new(Own::declared(rule, index)));
        Entry { place: 0, width, number: number(rule), text: changed.map_or(Text::Declared(index), own) }
    }

    /// Returns an added rule with its anchor in the new declaration, if the model has what the rule names.
    fn added(&self, list: &List, entry: &Entry, anchor: Anchor, lost: &mut Vec<LostRule>) -> Option<Entry> {
        let Text::Own(own) = &entry.text else { return None };
        let (rule, gone) = self.live(&own.rule);
        lost.extend(gone.map(|gone| list.lost_rule(entry, gone)));
        let rule = rule?;
        let (width, said) = (width(&rule), own.said.clone());
        let text = Text::Own(Arc::new(Own { rule, declared: None, said, anchor }));
        Some(Entry { place: 0, width, number: entry.number, text })
    }

    /// Returns an added rule by the indices and groups of the model, if it stays, and the part that it has lost.
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
            Ok(rule) if count(&rule) == 0 => (None, Some(RuleLost::NoFamily)),
            Ok(rule) => (Some(rule), lost),
        }
    }

    /// Whether a declaration has the rules and the default of a live list.
    pub(super) fn is_saved(&self, list: &List, declared: &AclList) -> bool {
        let rules = list.order.iter().map(|entry| seen(list.rule(entry), self.old));
        list.default == declared.default && rules.eq(declared.rules.iter().map(|rule| seen(rule, self.new)))
    }
}

/// Reports the edits of rules that ended.
fn lost_rules(list: &List, rules: Vec<LostRule>) -> Option<LostEdits> {
    let gone = rules.iter().filter(|rule| rule.number.is_some() && rule.lost.is_gone()).count();
    let protects = rules.iter().any(|rule| rule.protects);
    (!rules.is_empty()).then(|| LostEdits { of: table(&list.name), rules: gone, protects, lost: Lost::Rules(rules) })
}

/// Reports an edit that does not apply.
fn lost_edit(list: &List, had: &[&Entry], edit: Edit, why: Why) -> LostRule {
    let declared = |index: u32| Box::new(list.declared.rules[index as usize].clone());
    let lost = match why {
        Why::AnchorGone(index) => RuleLost::NoAnchor(declared(index)),
        Why::AnchorAmbiguous(index) => RuleLost::AmbiguousAnchor(declared(index)),
        Why::NoLongerEmpty => RuleLost::NoLongerEmpty,
        Why::RuleAmbiguous => RuleLost::AmbiguousRule,
        Why::Passed(item) => RuleLost::Passed(Box::new(list.rule(had[item]).clone())),
    };
    match edit {
        Edit::Added(item) => list.lost_rule(had[item], lost),
        Edit::Removed(index) => {
            let rule = list.declared.rules[index as usize].clone();
            LostRule { number: None, protects: opens(rule.action), rule, lost }
        }
    }
}

/// Whether some packet may match both rules. Groups count as if they had all members.
fn may_meet(a: &AclRule, b: &AclRule) -> bool {
    let families = || {
        let family = |rule: &AclRule| {
            let of = |addresses: &Addresses| bounds(addresses).map(|(first, _)| first.is_ipv4());
            let own = rule.family.map(|family| family == IpFamily::V4);
            own.or_else(|| of(&rule.from)).or_else(|| of(&rule.to))
        };
        family(a).zip(family(b)).is_none_or(|(a, b)| a == b)
    };
    let addresses = |a: &Addresses, b: &Addresses| {
        bounds(a).zip(bounds(b)).is_none_or(|((first, last), (low, high))| first <= high && low <= last)
    };
    let ports = |a: &Ports, b: &Ports| match (a, b) {
        (Ports::Range(a), Ports::Range(b)) => a.start() <= b.end() && b.start() <= a.end(),
        _ => true,
    };
    let protocol = |rule: &AclRule| match &rule.transport {
        Transport::Any => None,
        Transport::Protocol(protocol) | Transport::Ports { protocol, .. } | Transport::Icmp { protocol, .. } => {
            Some(*protocol)
        }
    };
    let transports = || match (&a.transport, &b.transport) {
        (
            Transport::Ports { source, destination, .. },
            Transport::Ports { source: other_source, destination: other_destination, .. },
        ) => ports(source, other_source) && ports(destination, other_destination),
        _ => true,
    };
    families()
        && addresses(&a.from, &b.from)
        && addresses(&a.to, &b.to)
        && protocol(a).zip(protocol(b)).is_none_or(|(a, b)| a == b)
        && transports()
}

/// Returns the first and the last address; `None`: a group, or all addresses.
fn bounds(addresses: &Addresses) -> Option<(IpAddr, IpAddr)> {
    match addresses {
        Addresses::Any | Addresses::Group(_) => None,
        Addresses::Net(net) => Some((net.network(), net.broadcast())),
        Addresses::Range(first, last) => Some((*first, *last)),
    }
}

/// Returns the rules of a declaration that edits removed, with the source of each removal.
fn removed(
    list: &List,
    declared: &AclList,
    entries: &[Entry],
    (before, after): (&[u32], &[u32]),
) -> BTreeMap<u32, Said> {
    let said: HashMap<u32, &Said> = list.removed.iter().map(|(&index, said)| (before[index as usize], said)).collect();
    let mut is_there = vec![false; declared.rules.len()];
    entries.iter().filter_map(Entry::declared).for_each(|index| is_there[index as usize] = true);
    let gone = (0..).zip(is_there).filter(|(_, is_there)| !is_there);
    gone.filter_map(|(index, _): (u32, _)| Some((index, (*said.get(&after[index as usize])?).clone()))).collect()
}

/// Returns the default of a list by another declaration, the source of its change, and the change if it ended.
fn default(list: &List, declared: &AclList) -> (AclDefault, Option<Said>, Option<LostEdits>) {
    let Some(said) = list.default_said.as_ref().filter(|_| list.default != declared.default) else {
        return (declared.default, None, None);
    };
    if list.declared.default == declared.default {
        return (list.default, Some(said.clone()), None);
    }
    let lost = Lost::Default(list.default, declared.default);
    let protects = !default_opens(list.default);
    (declared.default, None, Some(LostEdits { of: table(&list.name), rules: 0, protects, lost }))
}
