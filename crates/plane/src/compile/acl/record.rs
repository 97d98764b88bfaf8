//! Records edits in a list: the anchors of rules that are added, the rules that are removed, and the edits that cancel out.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::compare::{Indices, same_rule, seen};
use super::groups::names;
use super::list::{List, width};
use super::order::{Entry, Order, Own, Said, Text};
use super::resolve::All;
use crate::compile::patch::{Anchor, Gap, Spot, arranged, ascending};
use crate::model::AclRule;

/// Removed rules at the place of an added one that are compared with it, at most.
const COMPARED: usize = 4096;

/// Records the rules of a list.
#[derive(Clone, Copy)]
pub(super) struct Recorder<'a> {
    pub(super) list: &'a List,
    pub(super) groups: All<'a>,
    /// The numbers of interfaces, by the indices of the model in force.
    pub(super) indices: &'a Indices,
    pub(super) said: &'a Said,
}

impl Recorder<'_> {
    /// Returns the gap in front of the rule with an index.
    pub(super) fn gap(&self, order: &Order, index: usize) -> Gap {
        let spot = |index: usize| order.get(index).map(Entry::spot);
        let declared = self.list.declared.rules.len();
        Gap { previous: index.checked_sub(1).and_then(spot), next: spot(index), declared }
    }

    /// Returns a rule that is added in a gap as it is recorded. If an edit removed the same rule there, it is the declared
    /// rule again. `behind`: the edit names the rule in front.
    pub(super) fn text(&self, gap: Gap, behind: bool, rule: AclRule) -> Text {
        let is_same = |index: &u32| self.is_declared(*index, &rule);
        match gap.declared().take(COMPARED).find(is_same) {
            Some(index) => self.declared(index, rule),
            None => self.added(gap, behind, rule),
        }
    }

    fn added(&self, gap: Gap, behind: bool, rule: AclRule) -> Text {
        let anchor = gap.anchor(behind);
        Text::Own(Arc::new(Own { rule, declared: None, said: Some(self.said.clone()), anchor }))
    }

    fn declared(&self, index: u32, rule: AclRule) -> Text {
        match self.groups.concern(&rule) {
            true => Text::Own(Arc::new(Own::declared(rule, index))),
            false => Text::Declared(index),
        }
    }

    fn is_declared(&self, index: u32, rule: &AclRule) -> bool {
        let Some(declared) = self.list.declared.rules.get(index as usize) else { return false };
        same_text(declared, rule, self.indices) && declared.comment == rule.comment
    }

    /// Returns entries for rules that are added in the place of the one with an index, or before it, with these numbers.
    pub(super) fn entries(
        &self,
        mut gap: Gap,
        behind: bool,
        rules: impl Iterator<Item = (AclRule, u32)>,
    ) -> Vec<Entry> {
        let entry = |(rule, number): (AclRule, u32)| {
            let width = width(&rule);
            let text = self.text(gap, behind, rule);
            let entry = Entry { place: 0, width, number, text };
            gap.previous = Some(entry.spot());
            entry
        };
        rules.map(entry).collect()
    }

    /// Records that a list has these entries from now on, and no others: as few edits of the declaration as it takes. Entries whose rules the declaration has where they stand now are declared ones again.
    pub(super) fn replaced(&self, mut entries: Vec<Entry>) -> Vec<Entry> {
        let rules = &self.list.declared.rules;
        let mut had = vec![false; rules.len()];
        entries.iter().filter_map(Entry::declared).for_each(|index| had[index as usize] = true);
        // The rules that are removed so far, by their texts: those of the lowest indices last.
        let mut free: HashMap<AclRule, Vec<u32>> = HashMap::new();
        for (index, rule) in rules.iter().enumerate().rev().filter(|(index, _)| !had[*index]) {
            free.entry(text(rule, self.indices)).or_default().push(index as u32);
        }
        let candidates: Vec<Option<u32>> = entries
            .iter()
            .map(|entry| match entry.declared() {
                Some(index) => Some(index),
                None => free.get_mut(&text(self.list.rule(entry), self.indices)).and_then(Vec::pop),
            })
            .collect();
        let stays = ascending(&candidates);
        let items: Vec<Option<Spot>> = entries
            .iter()
            .zip(&candidates)
            .zip(&stays)
            .map(|((entry, index), stays)| match (index, &entry.text) {
                (Some(index), _) if *stays => Some(Spot::Declared(*index)),
                // New rules have no anchor yet.
                (_, Text::Own(own)) if own.declared.is_none() && own.anchor != Anchor::Nothing => {
                    Some(Spot::Added(own.anchor))
                }
                _ => None,
            })
            .collect();
        for (entry, spot) in entries.iter_mut().zip(arranged(&items, rules.len())) {
            let text = match (spot, &entry.text) {
                (Spot::Declared(index), text) if entry.declared() == Some(index) => text.clone(),
                (Spot::Declared(index), _) => self.declared(index, self.list.rule(entry).clone()),
                (Spot::Added(anchor), Text::Own(own)) if own.declared.is_none() => {
                    Text::Own(Arc::new(Own { anchor, ..Own::clone(own) }))
                }
                (Spot::Added(anchor), _) => {
                    let (rule, said) = (self.list.rule(entry).clone(), Some(self.said.clone()));
                    Text::Own(Arc::new(Own { rule, declared: None, said, anchor }))
                }
            };
            entry.text = text;
        }
        entries
    }
}

impl List {
    /// Returns the declared rules that are removed if the list has these entries, with the source of each removal: `said` for
    /// new ones.
    pub(super) fn removed_by<'e>(
        &self,
        entries: impl Iterator<Item = &'e Entry>,
        said: Option<&Said>,
    ) -> BTreeMap<u32, Said> {
        let mut is_there = vec![false; self.declared.rules.len()];
        entries.filter_map(Entry::declared).for_each(|index| is_there[index as usize] = true);
        let removed = (0..).zip(is_there).filter(|(_, is_there)| !is_there).map(|(index, _)| index);
        removed
            .filter_map(|index: u32| {
                let said = self.removed.get(&index).or(said)?;
                Some((index, said.clone()))
            })
            .collect()
    }
}

/// A rule as `seen`, with its comment.
fn text(rule: &AclRule, indices: &Indices) -> AclRule {
    AclRule { comment: rule.comment.clone(), ..seen(rule, indices) }
}

/// Whether two rules of a model have the same text, but for their comments.
pub(super) fn same_text(a: &AclRule, b: &AclRule, indices: &Indices) -> bool {
    if same_rule(a, indices, b, indices) {
        return true;
    }
    // The same groups, with other members.
    a.action == b.action && names(a).next().is_some() && seen(a, indices) == seen(b, indices)
}
