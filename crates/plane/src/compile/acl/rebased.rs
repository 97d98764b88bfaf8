//! Applies the edits of a list to another declaration of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::compare::{Known, seen};
use super::dropped::{Lost, LostEdits, LostRule, RuleLost, default_opens, opens};
use super::list::{List, table, width};
use super::order::{Entry, Own, Said, Text};
use super::reapply::Carry;
use crate::compile::patch::{Edit, Effect, Slot, Spot, Why, rebase};
use crate::model::{AclDefault, AclList, AclRule, Addresses, IpFamily, Ports, Transport};

/// The rules and the default of a list by another declaration.
pub(super) struct Rebased {
    pub(super) entries: Vec<Entry>,
    pub(super) removed: BTreeMap<u32, Said>,
    pub(super) default: AclDefault,
    pub(super) default_said: Option<Said>,
    /// The edits that ended.
    pub(super) lost: Vec<LostEdits>,
}

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

impl Carry<'_> {
    /// Applies the edits of a list to another declaration. `allocate` gives numbers for rules that are new.
    pub(super) fn rebased(&self, list: &List, declared: &AclList, mut allocate: impl FnMut() -> u32) -> Rebased {
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
        let mut lost: Vec<LostRule> =
            rebased.lost.iter().map(|&(edit, why)| self.lost(list, &had, edit, why)).collect();

        let stays = |slot: &Slot| if let Slot::Added(item, _) = slot { Some(*item) } else { None };
        let added: HashSet<usize> = rebased.slots.iter().filter_map(stays).collect();
        let others = had.iter().enumerate().filter(|(item, _)| !added.contains(item));
        let others: Vec<_> = others.map(|(_, entry)| (list.rule(entry), entry.number)).collect();
        let mut known = Known::new(others.into_iter(), self.old);
        let mut entries = Vec::with_capacity(rebased.slots.len());
        for slot in rebased.slots {
            match slot {
                Slot::Declared(index) => entries
                    .push(self.entry(declared, index, |rule| known.take(rule, self.new).unwrap_or_else(&mut allocate))),
                Slot::Added(item, anchor) => {
                    let (entry, rule) = (had[item], list.rule(had[item]));
                    let (rule, gone) = self.live(rule);
                    lost.extend(gone.map(|gone| list.lost_rule(entry, gone)));
                    let (Some(rule), Text::Own(own)) = (rule, &entry.text) else { continue };
                    let (width, said) = (width(&rule), own.said.clone());
                    let text = Text::Own(Arc::new(Own { rule, declared: None, said, anchor }));
                    entries.push(Entry { place: 0, width, number: entry.number, text });
                }
            }
        }
        let (default, default_said, lost_default) = default(list, declared);
        let gone = lost.iter().filter(|rule| rule.number.is_some() && rule.lost.is_gone()).count();
        let protects = lost.iter().any(|rule| rule.protects);
        let of = table(&list.name);
        let some = !lost.is_empty();
        let lost = some.then_some(LostEdits { of, rules: gone, protects, lost: Lost::Rules(lost) });
        Rebased {
            removed: removed(list, declared, &entries, (&before, &after)),
            entries,
            default,
            default_said,
            lost: lost.into_iter().chain(lost_default).collect(),
        }
    }

    /// A rule of a declaration, with the number that `number` gives it.
    pub(super) fn entry(&self, declared: &AclList, index: u32, number: impl FnOnce(&AclRule) -> u32) -> Entry {
        let rule = &declared.rules[index as usize];
        let changed = self.groups.concern(rule).then(|| self.groups.resolve(rule).ok()).flatten();
        let width = width(changed.as_ref().unwrap_or(rule));
        let own = |rule| Text::Own(Arc::new(Own::declared(rule, index)));
        Entry { place: 0, width, number: number(rule), text: changed.map_or(Text::Declared(index), own) }
    }

    fn lost(&self, list: &List, had: &[&Entry], edit: Edit, why: Why) -> LostRule {
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

/// The first and the last of some addresses; `None`: those of a group, or all.
fn bounds(addresses: &Addresses) -> Option<(IpAddr, IpAddr)> {
    match addresses {
        Addresses::Any | Addresses::Group(_) => None,
        Addresses::Net(net) => Some((net.network(), net.broadcast())),
        Addresses::Range(first, last) => Some((*first, *last)),
    }
}

/// The rules of a declaration that a list does not have, with who removed each.
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

/// The default of a list by another declaration, who changed it, and the change if it ended.
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
