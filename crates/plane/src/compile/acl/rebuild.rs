//! Changes that rebuild lists and their sections beside the ones in force.

use std::collections::HashMap;
use std::sync::Arc;

use super::chains::Arranged;
use super::change::{AclChange, AclEdited, At};
use super::compare::Known;
use super::error::AclError;
use super::list::{List, width};
use super::nested::Live;
use super::order::{Entry, Order, Own, Said, Text};
use super::record::Recorder;
use super::section::Full;
use super::store::{Input, Store};
use crate::compile::patch::Anchor;
use crate::model::{AclDefault, AclRule};

/// New lists with their sections, built while readers use the ones in force.
pub(in crate::compile) struct Beside {
    pub(super) lists: Vec<(u32, List)>,
    /// The numbers that the lists in their places have and that they do not have.
    pub(super) gone: HashMap<u32, Vec<u32>>,
    pub(super) arranged: Arranged,
    /// Groups as they are to be, if they are other ones.
    pub(super) groups: Option<Live>,
    pub(super) edited: AclEdited,
}

impl Store {
    /// A list with other rules in the place of some: declared ones that it has no more were removed by `said`.
    pub(super) fn changed(&self, number: u32, entries: Vec<Entry>, said: Option<&Said>) -> Option<List> {
        let list = self.list(number)?;
        Some(List {
            removed: Arc::new(list.removed_by(entries.iter(), said)),
            default_said: list.default_said.clone(),
            name: Arc::clone(&list.name),
            declared: list.declared.clone(),
            order: Order::spread(entries),
            default: list.default,
            number: list.number,
            choice: list.choice,
            reflects: list.reflects,
            created: list.created.clone(),
        })
    }

    pub(super) fn splice(
        &self,
        input: Input<'_>,
        number: u32,
        (index, behind): (usize, bool),
        rules: Vec<AclRule>,
        said: &Said,
    ) -> Result<Beside, AclError> {
        self.admit(input, &self.name(number), &rules, 0)?;
        let Some(list) = self.list(number) else { return self.beside(input, Vec::new(), Vec::new()) };
        let mut entries: Vec<Entry> = list.order.iter().cloned().collect();
        let recorder = self.recorder(input, list, said);
        let new = rules.into_iter().map(|rule| (rule, self.numbers.allocate()));
        let new = recorder.entries(recorder.gap(&list.order, index), behind, new);
        let added: Vec<u32> = new.iter().map(|entry| entry.number).collect();
        entries.splice(index..index, new);
        let edited = AclEdited { added: added.clone(), rules: entries.len(), ..AclEdited::default() };
        let list = self.changed(number, entries, Some(said)).map(|list| (number, list));
        Ok(Beside { edited, ..self.beside(input, list.into_iter().collect(), added)? })
    }

    /// Changes one after the other, which readers see together.
    pub(super) fn batch(
        &self,
        input: Input<'_>,
        number: u32,
        changes: Vec<AclChange>,
        said: &Said,
    ) -> Result<Beside, AclError> {
        let Some(list) = self.list(number) else { return self.beside(input, Vec::new(), Vec::new()) };
        let recorder = self.recorder(input, list, said);
        let mut order = list.order.clone();
        let (mut places, mut rules) = (Vec::with_capacity(changes.len()), Vec::new());
        for change in changes {
            let (at, new, goes) = match change {
                AclChange::Insert(at, rules) => (at, rules, false),
                AclChange::Delete(own) => (At::Before(own), Vec::new(), true),
                AclChange::Replace(own, rules) => (At::Before(own), rules, true),
            };
            places.push((at, new.len(), goes));
            rules.extend(new);
        }
        let rules = self.checked(input.gateway, number, rules)?;
        let deleted = places.iter().filter(|(.., goes)| *goes).count();
        // As many as that can go only if there are: else one of them is not found.
        self.admit(input, &self.name(number), &rules, deleted.min(self.rules))?;
        let mut rules = rules.into_iter();
        let mut added = Vec::new();
        let mut moved: Option<HashMap<u32, u64>> = None;
        let change = || -> Result<(), AclError> {
            for (at, come, goes) in places {
                let index = self.index_in(number, &order, moved.as_ref(), at)?;
                if goes {
                    order.remove(index);
                }
                let new = rules.by_ref().take(come).map(|rule| {
                    let own = self.numbers.allocate();
                    added.push(own);
                    (rule, own)
                });
                let behind = matches!(at, At::After(_));
                let new = recorder.entries(recorder.gap(&order, index), behind, new);
                if let Err(new) = order.put(index, new) {
                    // No gap is wide enough: all get other places.
                    let mut entries: Vec<Entry> = order.iter().cloned().collect();
                    entries.splice(index..index, new);
                    order = Order::spread(entries);
                    moved = Some(order.iter().map(|entry| (entry.number, entry.place)).collect());
                }
            }
            Ok(())
        };
        if let Err(wrong) = change() {
            self.numbers.give_back(added);
            return Err(wrong);
        }
        let entries: Vec<Entry> = order.iter().cloned().collect();
        let rules = entries.len();
        let edited = AclEdited { added: added.clone(), deleted, rules, ..AclEdited::default() };
        let list = self.changed(number, entries, Some(said)).map(|list| (number, list));
        Ok(Beside { edited, ..self.beside(input, list.into_iter().collect(), added)? })
    }

    /// Finds the index of a place in the rules of a list that is being changed. If its rules have other places than in force,
    /// `moved` has them.
    pub(super) fn index_in(
        &self,
        number: u32,
        order: &Order,
        moved: Option<&HashMap<u32, u64>>,
        at: At,
    ) -> Result<usize, AclError> {
        let of = |rule: u32| {
            // Rules of the same batch have numbers that no report has shown.
            let place = self.place_of(number, rule)?;
            let place = moved.map_or(Some(place), |moved| moved.get(&rule).copied());
            // A rule that came may have the place of one that went.
            let is_own = |&index: &usize| order.get(index).is_some_and(|entry| entry.number == rule);
            let found = place.and_then(|place| order.index(place)).filter(is_own);
            found.ok_or_else(|| AclError::NoSuchRule { list: self.name(number), number: rule })
        };
        match at {
            At::Index(index) if index > order.len() => {
                Err(AclError::NoSuchPlace { list: self.name(number), index, rules: order.len() })
            }
            At::Index(index) => Ok(index),
            At::End => Ok(order.len()),
            At::Before(rule) => of(rule),
            At::After(rule) => of(rule).map(|index| index + 1),
        }
    }

    /// Returns the parts by which edits of a list are recorded.
    fn recorder<'a>(&'a self, input: Input<'a>, list: &'a List, said: &'a Said) -> Recorder<'a> {
        Recorder { list, groups: self.groups(&input.gateway.groups), indices: &self.interfaces, said }
    }

    /// Returns a rule as it is recorded where it comes to a list, before the rule with an index.
    pub(super) fn text_at(
        &self,
        input: Input<'_>,
        list: &List,
        (index, behind): (usize, bool),
        rule: &AclRule,
        said: &Said,
    ) -> Text {
        let recorder = self.recorder(input, list, said);
        recorder.text(recorder.gap(&list.order, index), behind, rule.clone())
    }

    /// A list without the rules at some places.
    pub(super) fn without(
        &self,
        input: Input<'_>,
        number: u32,
        places: &[u64],
        said: &Said,
    ) -> Result<Beside, AclError> {
        let Some(list) = self.list(number) else { return self.beside(input, Vec::new(), Vec::new()) };
        let stays = |entry: &&Entry| places.binary_search(&entry.place).is_err();
        let entries: Vec<Entry> = list.order.iter().filter(stays).cloned().collect();
        let edited = AclEdited { deleted: places.len(), rules: entries.len(), ..AclEdited::default() };
        let list = self.changed(number, entries, Some(said)).map(|list| (number, list));
        Ok(Beside { edited, ..self.beside(input, list.into_iter().collect(), Vec::new())? })
    }

    pub(super) fn replace(
        &self,
        input: Input<'_>,
        number: u32,
        rules: Vec<AclRule>,
        default: Option<AclDefault>,
        said: &Said,
    ) -> Result<Beside, AclError> {
        let before = self.list(number).map_or(0, |list| list.order.len());
        self.admit(input, &self.name(number), &rules, before)?;
        let Some(list) = self.list(number) else { return self.beside(input, Vec::new(), Vec::new()) };
        let had: Vec<_> = list.order.iter().map(|entry| (list.rule(entry), entry.number)).collect();
        let texts: HashMap<u32, (&AclRule, &Text)> =
            list.order.iter().map(|entry| (entry.number, (list.rule(entry), &entry.text))).collect();
        let mut known = Known::new(had.into_iter(), &self.interfaces);
        let mut added = Vec::new();
        let entries: Vec<Entry> = rules
            .into_iter()
            .map(|rule| {
                let own = known.take(&rule, &self.interfaces).unwrap_or_else(|| {
                    let own = self.numbers.allocate();
                    added.push(own);
                    own
                });
                // Who has it already goes on having said it.
                let is_same =
                    |(before, _): &&(&AclRule, &Text)| AclRule { origin: before.origin, ..rule.clone() } == **before;
                match texts.get(&own).filter(is_same) {
                    Some((_, text)) => Entry { place: 0, width: width(&rule), number: own, text: (*text).clone() },
                    None => new_entry(rule, own, said),
                }
            })
            .collect();
        let rules = entries.len();
        let places: HashMap<u32, usize> = list.order.iter().map(|entry| entry.number).zip(0..).collect();
        let stayed: Vec<usize> = entries.iter().filter_map(|entry| places.get(&entry.number).copied()).collect();
        let deleted = before - stayed.len();
        let edited = AclEdited { added: added.clone(), deleted, moved: moved(&stayed), rules };
        let entries = self.recorder(input, list, said).replaced(entries);
        let list = self.changed(number, entries, Some(said));
        let list = list.map(|list| (number, list.with_default(default, said)));
        Ok(Beside { edited, ..self.beside(input, list.into_iter().collect(), added)? })
    }

    /// Makes all sections that lists are in anew, for lists in the place of those with their numbers. `fresh` are the numbers of
    /// rules that are new.
    pub(super) fn beside(
        &self,
        input: Input<'_>,
        lists: Vec<(u32, List)>,
        fresh: Vec<u32>,
    ) -> Result<Beside, AclError> {
        let find = |number: u32| -> &List {
            let own = lists.iter().find(|(own, _)| *own == number).map(|(_, list)| list);
            own.or_else(|| self.list(number)).expect("a chain's list")
        };
        let is_new = |number: u32| lists.iter().any(|(own, _)| *own == number);
        match self.compiled.arrange(input.means(), self.compiled.sequences.clone(), find, is_new) {
            Ok(arranged) => {
                let gone = lists.iter().map(|(number, list)| (*number, self.only_before(*number, list))).collect();
                Ok(Beside { lists, gone, arranged, groups: None, edited: AclEdited::default() })
            }
            Err(Full { list, error: full, .. }) => {
                let list = find(list).name.to_string();
                self.numbers.give_back(fresh);
                Err(AclError::NoRoom { list, full })
            }
        }
    }

    /// Has what was made run.
    pub(super) fn adopt(&mut self, beside: Beside) -> AclEdited {
        let Beside { lists, mut gone, arranged, groups, edited } = beside;
        for (number, list) in lists {
            self.put(number, list, gone.remove(&number).unwrap_or_default());
        }
        self.live_groups = groups.unwrap_or_else(|| std::mem::take(&mut self.live_groups));
        self.install(arranged);
        self.count_change();
        self.show();
        edited
    }
}

/// How many of things have to move, at least, to come from the order of their numbers into this one. Each number stands once.
fn moved(order: &[usize]) -> usize {
    // The others are a longest ascending part of the order: of all such parts of a length, `least` has the lowest last number.
    let mut least: Vec<usize> = Vec::new();
    for &number in order {
        let at = least.partition_point(|&last| last < number);
        match least.get_mut(at) {
            Some(last) => *last = number,
            None => least.push(number),
        }
    }
    order.len() - least.len()
}

/// A rule that comes, without a place among those of the declaration yet.
pub(super) fn new_entry(rule: AclRule, number: u32, said: &Said) -> Entry {
    let width = width(&rule);
    let own = Own { rule, declared: None, said: Some(said.clone()), anchor: Anchor::Nothing };
    Entry { place: 0, width, number, text: Text::Own(Arc::new(own)) }
}

#[cfg(test)]
mod tests {
    use super::moved;

    #[test]
    fn as_few_as_possible_move() {
        for (order, count) in [
            (&[][..], 0),
            (&[0, 1, 2], 0),
            (&[3, 7, 9], 0),
            (&[2, 0, 1], 1),
            (&[1, 2, 0], 1),
            (&[2, 1, 0], 2),
            (&[1, 0, 3, 2], 2),
            (&[4, 0, 1, 2, 3, 5], 1),
        ] {
            assert_eq!(moved(order), count, "{order:?}");
        }
    }
}
