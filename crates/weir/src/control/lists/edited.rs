//! A list of rules that was changed while the gateway ran.

use std::collections::{BTreeMap, HashMap};

use weir_plane::compile::patch::{Anchor, Edit, Gap, Slot, Spot, Why, arranged, ascending, rebase};
use weir_plane::model::{Gateway, Origin};

use super::super::acl::{Insert, Which};
use super::rule::{ListOf, Rule};
use super::said::Said;
use crate::render::number::plural;

/// A rule of a list.
#[derive(Debug, Clone)]
pub(super) struct Entry<R> {
    pub(super) id: u32,
    pub(super) rule: R,
    /// `None`: the rule is the configuration's.
    pub(super) said: Option<Said>,
    /// Its place among the rules of the configuration.
    spot: Spot,
}

/// A list with its live changes.
#[derive(Debug, Clone)]
pub(super) struct Edited<R> {
    /// The rules that the configuration declares, in words.
    declared: Vec<String>,
    /// Where it declares them.
    origins: Vec<Origin>,
    pub(super) rules: Vec<Entry<R>>,
    /// Rules of the configuration that an edit removed, by index.
    removed: BTreeMap<u32, Said>,
    /// The greatest id so far.
    last: u32,
}

fn declared<R: Rule>(list: &[R]) -> Vec<String> {
    list.iter().map(Rule::text).collect()
}

fn origins<R: Rule>(list: &[R]) -> Vec<Origin> {
    list.iter().map(Rule::origin_of).collect()
}

impl<R: Rule> Edited<R> {
    /// A list as the configuration declares it: rules have their places for ids.
    pub(super) fn new(list: &[R]) -> Edited<R> {
        let entry = |(id, rule): (u32, R)| Entry { id, rule, said: None, spot: Spot::Declared(id - 1) };
        let rules: Vec<Entry<R>> = (1..).zip(list.iter().cloned()).map(entry).collect();
        let (declared, origins) = (declared(list), origins(list));
        Edited { declared, origins, last: rules.len() as u32, rules, removed: BTreeMap::new() }
    }

    /// The greatest id so far.
    pub(super) fn last(&self) -> u32 {
        self.last
    }

    /// Gives new rules ids above this one.
    pub(super) fn number_from(&mut self, last: u32) {
        self.last = self.last.max(last);
    }

    /// Whether the list is as the configuration declares it.
    pub(super) fn is_as_declared(&self) -> bool {
        self.removed.is_empty() && self.live() == 0
    }

    /// Whether the ids of rules are their places.
    pub(super) fn is_numbered(&self) -> bool {
        (1..).zip(&self.rules).all(|(place, entry)| entry.id == place)
    }

    /// Puts the rules into a gateway.
    pub(super) fn put(&self, gateway: &mut Gateway, name: &str) {
        if let Some(rules) = R::list_mut(gateway, name) {
            *rules = self.rules.iter().map(|entry| entry.rule.clone()).collect();
        }
        R::identify(gateway, name, self.rules.iter().map(|entry| entry.id).collect());
    }

    /// Whether more packets might pass without one of the edits.
    pub(super) fn protects(&self) -> bool {
        let removed = self.removed.keys().map(|&index| (self.declared[index as usize].clone(), false));
        let added = self.rules.iter().filter(|entry| entry.said.is_some()).map(|entry| (entry.rule.text(), true));
        removed.chain(added).any(|(text, is_added)| R::protects(&text, is_added))
    }

    /// How many of its rules came live.
    pub(super) fn live(&self) -> usize {
        self.rules.iter().filter(|entry| entry.said.is_some()).count()
    }

    fn count(&self) -> String {
        plural(self.rules.len() as u64, "rule")
    }

    fn position(&self, id: u32) -> Result<usize, String> {
        let found = self.rules.iter().position(|entry| entry.id == id);
        found.ok_or_else(|| format!("the list has no rule with the id {id}"))
    }

    /// Finds the rule of a change.
    pub(super) fn find(&self, which: Which) -> Result<usize, String> {
        match which {
            Which { id: Some(id), .. } => self.position(id),
            Which { at: Some(0), .. } => Err("places are counted from 1".to_owned()),
            Which { at: Some(place), .. } if place > self.rules.len() => {
                Err(format!("the list has {}: there is none at place {place}", self.count()))
            }
            Which { at: Some(place), .. } => Ok(place - 1),
            Which { id: None, at: None } => Err("either `id` or `at` says which rule".to_owned()),
        }
    }

    /// Finds the place of new rules.
    pub(super) fn place(&self, insert: &Insert) -> Result<usize, String> {
        match (insert.at, insert.before, insert.after) {
            (Some(0), None, None) => Err("places are counted from 1".to_owned()),
            (Some(place), None, None) if place > self.rules.len() + 1 => {
                Err(format!("the list has {}: there is no place {place}", self.count()))
            }
            (Some(place), None, None) => Ok(place - 1),
            (None, Some(id), None) => self.position(id),
            (None, None, Some(id)) => self.position(id).map(|at| at + 1),
            (None, None, None) => Ok(self.rules.len()),
            _ => Err("one of `at`, `before` and `after` says where, or none".to_owned()),
        }
    }

    /// Inserts rules at a place that was found; returns their ids. `behind`: the change names the rule in front.
    pub(super) fn insert(&mut self, at: usize, behind: bool, rules: Vec<R>, said: &Said) -> Vec<u32> {
        let mut ids = Vec::with_capacity(rules.len());
        for (at, rule) in (at..).zip(rules) {
            let spot = |at: usize| self.rules.get(at).map(|entry| entry.spot);
            let gap = Gap { previous: at.checked_sub(1).and_then(spot), next: spot(at), declared: self.declared.len() };
            let text = rule.text();
            let restored = gap.declared().find(|&index| self.declared[index as usize] == text);
            let mut entry = self.entry(rule, said);
            entry.spot = restored.map_or_else(|| Spot::Added(gap.anchor(behind)), Spot::Declared);
            if let Some(index) = restored {
                self.removed.remove(&index);
                entry.said = None;
                entry.rule.set_origin(self.origins[index as usize]);
            }
            ids.push(entry.id);
            self.rules.insert(at, entry);
        }
        ids
    }

    /// Deletes the rule at a place that was found.
    pub(super) fn delete(&mut self, at: usize, said: &Said) {
        if let Spot::Declared(index) = self.rules.remove(at).spot {
            self.removed.insert(index, said.clone());
        }
    }

    fn entry(&mut self, rule: R, said: &Said) -> Entry<R> {
        self.last = self.last.wrapping_add(1);
        Entry { id: self.last, rule, said: Some(said.clone()), spot: Spot::Added(Anchor::Nothing) }
    }

    /// Records the rules as an edit of the declaration, of as few rules as it takes.
    fn arrange(&mut self, said: &Said) {
        let mut free: HashMap<&str, Vec<u32>> = HashMap::new();
        for (index, text) in self.declared.iter().enumerate().rev() {
            free.entry(text).or_default().push(index as u32);
        }
        let texts: Vec<String> = self.rules.iter().map(|entry| entry.rule.text()).collect();
        let candidates: Vec<Option<u32>> =
            texts.iter().map(|text| free.get_mut(text.as_str()).and_then(Vec::pop)).collect();
        let spot = |((entry, index), stays): ((&Entry<R>, &Option<u32>), bool)| match (index, entry.spot) {
            (Some(index), _) if stays => Some(Spot::Declared(*index)),
            (_, spot @ Spot::Added(Anchor::Before(_) | Anchor::Behind(_))) => Some(spot),
            _ => None,
        };
        let items: Vec<Option<Spot>> =
            self.rules.iter().zip(&candidates).zip(ascending(&candidates)).map(spot).collect();
        let mut is_there = vec![false; self.declared.len()];
        for (entry, spot) in self.rules.iter_mut().zip(arranged(&items, self.declared.len())) {
            entry.spot = spot;
            entry.said = match spot {
                Spot::Declared(index) => {
                    is_there[index as usize] = true;
                    entry.rule.set_origin(self.origins[index as usize]);
                    None
                }
                Spot::Added(_) => Some(entry.said.take().unwrap_or_else(|| said.clone())),
            };
        }
        for (index, is_there) in (0..).zip(is_there) {
            match is_there {
                true => drop(self.removed.remove(&index)),
                false => drop(self.removed.entry(index).or_insert_with(|| said.clone())),
            }
        }
    }

    /// Replaces all rules. Rules that print the same stay. Returns the ids of new rules, how many went, and how many moved.
    pub(super) fn replace(&mut self, rules: Vec<R>, said: &Said) -> (Vec<u32>, usize, usize) {
        let before = std::mem::take(&mut self.rules);
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, entry) in before.iter().enumerate().rev() {
            places.entry(entry.rule.written()).or_default().push(at);
        }
        let mut before: Vec<Option<Entry<R>>> = before.into_iter().map(Some).collect();
        let (mut inserted, mut stayed) = (Vec::new(), Vec::new());
        for rule in rules {
            let at = places.get_mut(&rule.written()).and_then(Vec::pop);
            let known = at.and_then(|at| before.get_mut(at)?.take());
            stayed.extend(at);
            let entry = known.unwrap_or_else(|| {
                let entry = self.entry(rule, said);
                inserted.push(entry.id);
                entry
            });
            self.rules.push(entry);
        }
        let deleted = before.iter().flatten().count();
        self.arrange(said);
        (inserted, deleted, stayed.len() - longest_rise(&stayed))
    }

    /// Applies the edits to the list of another configuration.
    pub(super) fn carried(&self, list: &[R], of: &ListOf<'_>) -> Carried<R> {
        let items: Vec<(String, Spot)> = self.rules.iter().map(|entry| (entry.rule.text(), entry.spot)).collect();
        let after = declared(list);
        let may_meet = |one: usize, other: usize| self.rules[one].rule.may_meet(&self.rules[other].rule);
        let rebased = rebase(&self.declared, &items, &after, |text| R::effect(text), may_meet);
        let mut protects = rebased.lost.iter().any(|&(edit, _)| match edit {
            Edit::Added(item) => R::protects(&items[item].0, true),
            Edit::Removed(index) => R::protects(&self.declared[index as usize], false),
        });
        let mut gone: Vec<String> = rebased.lost.iter().map(|&(edit, why)| self.lost(edit, why)).collect();
        let mut count = rebased.lost.iter().filter(|(edit, _)| matches!(edit, Edit::Added(_))).count();
        // Rules that stay keep their ids.
        let mut ids: HashMap<&str, Vec<u32>> = HashMap::new();
        let mut stays = vec![false; self.rules.len()];
        for slot in &rebased.slots {
            if let Slot::Added(item, _) = slot {
                stays[*item] = true;
            }
        }
        for item in (0..self.rules.len()).rev().filter(|&item| !stays[item]) {
            ids.entry(&items[item].0).or_default().push(self.rules[item].id);
        }
        let mut last = self.last;
        let mut rules = Vec::with_capacity(rebased.slots.len());
        for slot in rebased.slots {
            match slot {
                Slot::Declared(index) => {
                    let text = after[index as usize].as_str();
                    let id = ids.get_mut(text).and_then(Vec::pop).unwrap_or_else(|| {
                        last = last.wrapping_add(1);
                        last
                    });
                    let rule = list[index as usize].clone();
                    rules.push(Entry { id, rule, said: None, spot: Spot::Declared(index) });
                }
                Slot::Added(item, anchor) => {
                    let Entry { id, rule, said, .. } = &self.rules[item];
                    match rule.renewed(of) {
                        Ok(rule) => {
                            rules.push(Entry { id: *id, rule, said: said.clone(), spot: Spot::Added(anchor) });
                        }
                        Err(why) => {
                            count += 1;
                            let text = rule.written();
                            protects |= R::protects(&items[item].0, true);
                            gone.push(format!("rule {id} is gone: {why}: `{text}`"));
                        }
                    }
                }
            }
        }
        let said: HashMap<&str, &Said> =
            self.removed.iter().map(|(&index, said)| (self.declared[index as usize].as_str(), said)).collect();
        let mut is_there = vec![false; after.len()];
        for entry in &rules {
            if let Spot::Declared(index) = entry.spot {
                is_there[index as usize] = true;
            }
        }
        let removed = (0..).zip(&after).zip(is_there).filter(|(_, is_there)| !is_there);
        let removed = removed
            .filter_map(|((index, text), _)| Some((index, (*said.get(text.as_str())?).clone())))
            .collect::<BTreeMap<u32, Said>>();
        let edited = Edited { rules, last, removed, declared: after, origins: origins(list) };
        Carried { edited, gone, added: count, protects }
    }

    /// Says why an edit does not apply.
    fn lost(&self, edit: Edit, why: Why) -> String {
        let why = match why {
            Why::AnchorGone(index) => {
                format!("the file no longer has its anchor `{}`", self.declared[index as usize])
            }
            Why::AnchorAmbiguous(index) => {
                format!("the file has its anchor another number of times: `{}`", self.declared[index as usize])
            }
            Why::NoLongerEmpty => "the list had no rules in the file, and has some".to_owned(),
            Why::RuleAmbiguous => "the file has the rule another number of times".to_owned(),
            Why::Passed(item) => {
                format!("the file moves a rule to its other side: `{}`", self.rules[item].rule.written())
            }
        };
        match edit {
            Edit::Added(item) => {
                let Entry { id, rule, .. } = &self.rules[item];
                format!("rule {id} is gone: {why}: `{}`", rule.written())
            }
            Edit::Removed(index) => {
                format!("the removal of a rule is gone: {why}: `{}`", self.declared[index as usize])
            }
        }
    }

    /// Returns the edits: rules that were added, each with its anchor, and rules that were removed.
    pub(super) fn edits(&self) -> impl Iterator<Item = (Edits<'_>, &Said)> {
        let anchor = |anchor: Anchor| match anchor {
            Anchor::Before(index) => Some((false, self.declared[index as usize].as_str())),
            Anchor::Behind(index) => Some((true, self.declared[index as usize].as_str())),
            Anchor::Nothing => None,
        };
        let added = self.rules.iter().filter_map(move |entry| match entry.spot {
            Spot::Added(own) => Some((Edits::Added(entry.id, entry.rule.written(), anchor(own)), entry.said.as_ref()?)),
            Spot::Declared(_) => None,
        });
        let removed = self.removed.iter().map(|(&index, said)| (Edits::Removed(&self.declared[index as usize]), said));
        added.chain(removed)
    }
}

/// A list with the edits that apply to another configuration.
pub(super) struct Carried<R> {
    pub(super) edited: Edited<R>,
    /// The edits that do not apply, in words.
    pub(super) gone: Vec<String>,
    /// The number of added rules among them.
    pub(super) added: usize,
    /// More packets might pass without one of them.
    pub(super) protects: bool,
}

/// An edit of a list.
pub(super) enum Edits<'e> {
    /// An added rule: its id, its text, and the text of its anchor, behind which it stands or not.
    Added(u32, String, Option<(bool, &'e str)>),
    /// A removed rule.
    Removed(&'e str),
}

/// The length of the longest part of a sequence that rises: these items need not move.
fn longest_rise(places: &[usize]) -> usize {
    let mut ends: Vec<usize> = Vec::new();
    for &place in places {
        let at = ends.partition_point(|&end| end < place);
        match ends.get_mut(at) {
            Some(end) => *end = place,
            None => ends.push(place),
        }
    }
    ends.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_moves_are_counted() {
        for (places, moved) in [(&[][..], 0), (&[0, 1, 2], 0), (&[2, 0, 1], 1), (&[2, 1, 0], 2), (&[1, 0, 3, 2], 2)] {
            assert_eq!(places.len() - longest_rise(places), moved, "{places:?}");
        }
    }
}
