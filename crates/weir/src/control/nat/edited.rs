//! A list of rules that was changed while the gateway ran.

use std::collections::HashMap;

use weir_plane::model::{NatList, NatRule};

use super::super::acl::{Insert, Which};
use super::said::Said;
use crate::render::number::plural;
use crate::rules::acl::Vocabulary;
use crate::rules::nat::Rule as Written;

/// A rule of a list.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: u32,
    pub(super) rule: NatRule,
    /// `None`: the rule is the configuration's.
    pub(super) said: Option<Said>,
}

/// A list with its live changes.
#[derive(Debug, Clone)]
pub(super) struct Edited {
    /// The list as the configuration declares it, in words.
    declared: Vec<String>,
    pub(super) rules: Vec<Entry>,
    /// The id of the rule that came last.
    last: u32,
}

/// Prints a rule.
pub(super) fn written(rule: &NatRule) -> String {
    // No rule of these names an interface.
    Written::of(rule, |_| "".into()).to_string()
}

fn declared(list: &NatList) -> Vec<String> {
    list.rules
        .iter()
        .map(written)
        .chain([format!("{:?}", (list.mss_clamp, list.mapping, list.log, list.ipfix))])
        .collect()
}

impl Edited {
    /// A list as the configuration declares it: rules have their places for ids.
    pub(super) fn new(list: &NatList) -> Edited {
        let rules: Vec<Entry> =
            (1..).zip(list.rules.iter().cloned()).map(|(id, rule)| Entry { id, rule, said: None }).collect();
        Edited { declared: declared(list), last: rules.len() as u32, rules }
    }

    pub(super) fn model(&self) -> std::sync::Arc<[NatRule]> {
        self.rules.iter().map(|entry| entry.rule.clone()).collect()
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

    /// Inserts rules at a place that was found; returns their ids.
    pub(super) fn insert(&mut self, at: usize, rules: Vec<NatRule>, said: &Said) -> Vec<u32> {
        let new: Vec<Entry> = rules.into_iter().map(|rule| self.entry(rule, said)).collect();
        let ids = new.iter().map(|entry| entry.id).collect();
        self.rules.splice(at..at, new);
        ids
    }

    fn entry(&mut self, rule: NatRule, said: &Said) -> Entry {
        self.last = self.last.wrapping_add(1);
        Entry { id: self.last, rule, said: Some(said.clone()) }
    }

    /// Replaces all rules. Rules that print the same stay. Returns the ids of new rules, how many went, and how many moved.
    pub(super) fn replace(&mut self, rules: Vec<NatRule>, said: &Said) -> (Vec<u32>, usize, usize) {
        let before = std::mem::take(&mut self.rules);
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, entry) in before.iter().enumerate().rev() {
            places.entry(written(&entry.rule)).or_default().push(at);
        }
        let mut before: Vec<Option<Entry>> = before.into_iter().map(Some).collect();
        let (mut inserted, mut stayed) = (Vec::new(), Vec::new());
        for rule in rules {
            let at = places.get_mut(&written(&rule)).and_then(Vec::pop);
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
        (inserted, deleted, stayed.len() - longest_rise(&stayed))
    }

    /// The list under another configuration; `Err`: that declares it in another way, and its live changes end. Also
    /// returns the rules that are gone, in words.
    pub(super) fn carried(&self, list: &NatList, vocabulary: &Vocabulary) -> Result<(Edited, Vec<String>), ()> {
        if declared(list) != self.declared {
            return Err(());
        }
        // The rules of the new declaration, by their words: their groups may have other members now.
        let mut own: HashMap<String, Vec<&NatRule>> = HashMap::new();
        for rule in list.rules.iter().rev() {
            own.entry(written(rule)).or_default().push(rule);
        }
        let (mut rules, mut gone) = (Vec::with_capacity(self.rules.len()), Vec::new());
        for Entry { id, rule, said } in &self.rules {
            let text = written(rule);
            let now = match said {
                None => own.get_mut(&text).and_then(Vec::pop).cloned(),
                Some(_) => {
                    let read = text.parse::<Written>().ok();
                    read.and_then(|read| read.model(vocabulary, rule.origin()).ok())
                }
            };
            match now {
                Some(rule) => rules.push(Entry { id: *id, rule, said: said.clone() }),
                None => gone.push(format!("rule {id} is gone: a group that it names does not fit: `{text}`")),
            }
        }
        Ok((Edited { declared: self.declared.clone(), rules, last: self.last }, gone))
    }
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
