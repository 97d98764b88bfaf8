//! Changes to lists while the gateway runs: each happens as a whole, or not at all.
//!
//! A rule of one box goes into the classifiers as they are, or out of them: no lookup finds anything else than the list
//! before or after it. Anything else makes lists and their chains anew beside those that run, and readers see it with the next
//! root.

use std::collections::HashMap;
use std::sync::Arc;

use weir_table::classify::{Error, Rule};

use super::super::boxes::Bits;
use super::super::{Compiler, Map};
use super::chain::{Full, Kept, Means, Own as Classifier, asks_transport, found, place};
use super::groups::{self, AclGroup};
use super::numbers;
use super::order::{Entry, Order, Own, Said, Text};
use super::same::Known;
use super::{Input, List, LostEdits, Store, choice, special, width};
use crate::model::{AclDefault, AclList, AclRule, Gateway};
use crate::root::Root;

/// A change to a list. Rules that are named by their numbers are those that `show` tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AclEdit {
    /// Rules come, one behind the other.
    Insert {
        /// Where.
        at: At,
        /// The rules.
        rules: Vec<AclRule>,
    },
    /// Rules go.
    Delete {
        /// Their numbers.
        rules: Vec<u32>,
    },
    /// The list has these rules from now on, and no others. Those that it has already go on counting.
    Replace {
        /// The rules.
        rules: Vec<AclRule>,
        /// What becomes of packets that none of them matches; `None`: what became of them so far.
        default: Option<AclDefault>,
    },
    /// Several changes, one after the other.
    Batch(Vec<AclChange>),
}

/// A change to a rule, or by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AclChange {
    /// A rule comes.
    Insert(At, AclRule),
    /// The rule with this number goes.
    Delete(u32),
    /// Another rule comes in the place of that with this number.
    Replace(u32, AclRule),
}

/// Where in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Before the rule with this index, counted from 0; the number of rules: behind all of them.
    Index(usize),
    /// Behind all rules.
    End,
    /// Before the rule with this number.
    Before(u32),
    /// Behind the rule with this number.
    After(u32),
}

/// Why a change was refused. Nothing of it has happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AclError {
    /// There is no such list.
    #[error("there is no access list with the name `{list}`")]
    NoSuchList {
        /// What was asked for.
        list: String,
        /// Those that there are.
        lists: Vec<String>,
    },
    /// The list has no such rule.
    #[error("access list `{list}` has no rule {number}")]
    NoSuchRule {
        /// The list.
        list: String,
        /// The number that was asked for.
        number: u32,
    },
    /// The list is shorter.
    #[error("access list `{list}` has {rules} rules: there is no place {index} to put one")]
    NoSuchPlace {
        /// The list.
        list: String,
        /// What was asked for, counted from 0.
        index: usize,
        /// How many rules it has.
        rules: usize,
    },
    /// A rule logs, and the list does not say where to.
    #[error("rule {place} logs, but access list `{list}` has no sampler")]
    NoSampler {
        /// The list.
        list: String,
        /// Which of the rules that were given, counted from 1.
        place: usize,
    },
    /// There is no such group, or it is of another kind.
    #[error("there is no group `{group}` of the kind that is meant")]
    NoSuchGroup {
        /// What was asked for.
        group: String,
    },
    /// A group would have no members.
    #[error("group `{group}` would have no members: rules that name it would match nothing")]
    EmptyGroup {
        /// The group.
        group: String,
    },
    /// There is a list of this name.
    #[error("there is an access list with the name `{list}` already")]
    Exists {
        /// The list.
        list: String,
    },
    /// Interfaces name the list.
    #[error("access list `{list}` can not go: interface{} {} names it", if interfaces.len() > 1 { "s" } else { "" }, interfaces.join(", "))]
    InUse {
        /// The list.
        list: String,
        /// The interfaces.
        interfaces: Vec<String>,
    },
    /// The list is one of the configuration's.
    #[error("access list `{list}` is one of the configuration's: take it out there")]
    Declared {
        /// The list.
        list: String,
    },
    /// There is no room.
    #[error("access list `{list}`: {full}")]
    NoRoom {
        /// The list.
        list: String,
        /// Which limit was met.
        full: Error,
    },
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AclEdited {
    /// Numbers of the rules that are new, in their order.
    pub added: Vec<u32>,
    /// Rules that are gone.
    pub deleted: usize,
    /// Rules of the list, or of all lists that name the group, from now on.
    pub rules: usize,
}

/// What became of a change so far.
enum Step {
    /// It will be in the next root.
    Next(AclEdited),
    /// It has happened, and the root need not know.
    Done(AclEdited),
    /// A rule may go in once readers have a root that knows of it.
    Insert(Pending),
}

/// A rule of one box that is to go in.
struct Pending {
    list: u32,
    index: usize,
    entry: Entry,
    rule: AclRule,
    /// There is something that readers have to know first.
    tell: bool,
}

impl Store {
    fn edit(&mut self, input: Input<'_>, name: &str, edit: AclEdit, said: &Said) -> Result<Step, AclError> {
        self.numbers.settle(input.domain);
        let number = self.named(name)?;
        match edit {
            AclEdit::Insert { at, rules } => {
                let index = self.index(number, at)?;
                let rules = self.checked(input.gateway, number, rules)?;
                if let [rule] = &rules[..]
                    && let Some(pending) = self.pending(input, number, index, rule, said)?
                {
                    return Ok(Step::Insert(pending));
                }
                self.splice(input, number, index, rules, said).map(Step::Next)
            }
            AclEdit::Delete { rules } => {
                let mut places = Vec::with_capacity(rules.len());
                for &rule in &rules {
                    places.push(self.place_of(number, rule)?);
                }
                places.sort_unstable();
                places.dedup();
                if let [place] = places[..]
                    && let Some(tell) = self.delete_one(input, number, place)
                {
                    let rules = self.list(number).map_or(0, |list| list.order.len());
                    let edited = AclEdited { deleted: 1, rules, ..AclEdited::default() };
                    return Ok(if tell { Step::Next(edited) } else { Step::Done(edited) });
                }
                let done = self.without(input, number, &places).map(Step::Next);
                if let ([place], true) = (&places[..], done.is_err()) {
                    self.restore(input, number, *place);
                }
                done
            }
            AclEdit::Replace { rules, default } => {
                let rules = self.checked(input.gateway, number, rules)?;
                self.replace(input, number, rules, default, said).map(Step::Next)
            }
            AclEdit::Batch(changes) => self.batch(input, number, changes, said).map(Step::Next),
        }
    }

    fn named(&self, name: &str) -> Result<u32, AclError> {
        let found = self.lists.iter().position(|list| list.as_ref().is_some_and(|list| *list.name == *name));
        found.map(|number| number as u32).ok_or_else(|| AclError::NoSuchList {
            list: name.to_owned(),
            lists: self.names().map(|(name, _)| name.to_string()).collect(),
        })
    }

    fn index(&self, number: u32, at: At) -> Result<usize, AclError> {
        let Some(list) = self.list(number) else { return Ok(0) };
        let rules = list.order.len();
        let of = |rule| self.place_of(number, rule).map(|place| list.order.index(place).unwrap_or(rules));
        match at {
            At::Index(index) if index > rules => {
                Err(AclError::NoSuchPlace { list: list.name.to_string(), index, rules })
            }
            At::Index(index) => Ok(index),
            At::End => Ok(rules),
            At::Before(rule) => of(rule),
            At::After(rule) => of(rule).map(|index| index + 1),
        }
    }

    /// The place of a rule of a list, by its number.
    fn place_of(&self, list: u32, rule: u32) -> Result<u64, AclError> {
        match self.numbers.means(rule) {
            numbers::Means::Rule(own, place) if own == list => Ok(place),
            _ => Err(AclError::NoSuchRule { list: self.name(list), number: rule }),
        }
    }

    fn name(&self, number: u32) -> String {
        self.list(number).map_or_else(String::new, |list| list.name.to_string())
    }

    /// Rules as they would run in a list.
    fn checked(&self, gateway: &Gateway, number: u32, rules: Vec<AclRule>) -> Result<Vec<AclRule>, AclError> {
        let groups = self.groups(&gateway.groups);
        let samples = self.list(number).is_some_and(|list| list.choice.is_some());
        let check = |(place, rule): (usize, AclRule)| {
            if rule.log && !samples {
                return Err(AclError::NoSampler { list: self.name(number), place });
            }
            if groups::names(&rule).next().is_none() {
                return Ok(rule);
            }
            groups.resolve(&rule).map_err(|group| AclError::NoSuchGroup { group: group.to_string() })
        };
        (1..).zip(rules).map(check).collect()
    }

    /// Refuses so many rules more, of so many boxes, that no list could have them.
    fn admit(&self, input: Input<'_>, number: u32, more: &[AclRule], less: usize) -> Result<(), AclError> {
        let most = input.means().limit;
        let full = |rules| {
            let full = Error::TooManyRules { rules, most };
            Err(AclError::NoRoom { list: self.name(number), full })
        };
        let rules = self.rules + more.len() - less;
        if rules > most {
            return full(rules);
        }
        let boxes = more.iter().fold(0_usize, |sum, rule| sum.saturating_add(super::count(rule)));
        if boxes > most.saturating_mul(2) { full(boxes) } else { Ok(()) }
    }

    /// Prepares a rule that can go in as it is.
    fn pending(
        &mut self,
        input: Input<'_>,
        number: u32,
        index: usize,
        rule: &AclRule,
        said: &Said,
    ) -> Result<Option<Pending>, AclError> {
        self.admit(input, number, std::slice::from_ref(rule), 0)?;
        let Some(list) = self.list(number) else { return Ok(None) };
        let boxes = Boxes::of(input.means(), rule);
        let (true, Some(place)) = (boxes.is_one(), list.order.gap(index, 1)) else { return Ok(None) };
        let choice = list.choice;
        let own = self.numbers.allocate();
        self.numbers.set_special(own, special(rule, choice, None));
        // Counted from here on: not by whoever had the number before.
        self.numbers.give(own, numbers::Means::Rule(number, place));
        let mut tell = !self.numbers.are_shown();
        for kept in self.chains.iter_mut().filter(|kept| kept.position(number).is_some()) {
            tell |= kept.expect(&boxes);
        }
        let said = Some(said.clone());
        let text = Text::Own(Arc::new(Own { rule: rule.clone(), declared: None, said }));
        let entry = Entry { place, width: 1, number: own, text };
        Ok(Some(Pending { list: number, index, entry, rule: rule.clone(), tell }))
    }

    /// Puts a rule in, which readers are ready for; gives whether the next root has to come for it.
    fn insert(&mut self, input: Input<'_>, pending: Pending) -> Result<(AclEdited, bool), AclError> {
        let Pending { list: number, index, entry, rule, .. } = pending;
        let (own, at) = (entry.number, entry.place);
        let boxes = Boxes::of(input.means(), &rule);
        let identity = found(&rule, own).identity();
        let mut into = 0;
        let done = self.chains.iter_mut().try_for_each(|kept| {
            let done = kept.insert(input.means(), number, at, &boxes, identity);
            into += usize::from(done.is_ok());
            done
        });
        if let Err(full) = done {
            // Made anew they may have room, as all of it lies close then.
            let Some(list) = self.list(number) else { return Ok(Default::default()) };
            let mut entries: Vec<Entry> = list.order.iter().cloned().collect();
            entries.insert(index, entry);
            let edited = AclEdited { added: vec![own], deleted: 0, rules: entries.len() };
            if let Some(list) = self.changed(number, entries)
                && self.adopt(input, vec![(number, list)], Vec::new()).is_ok()
            {
                return Ok((edited, true));
            }
            let mut gone = true;
            for (done, kept) in self.chains.iter_mut().enumerate() {
                gone &= kept.undo(number, at, &boxes, done < into);
            }
            // A classifier that has no room for a list without the rule keeps it until it is made anew: then nobody else
            // gets its number.
            if gone {
                self.numbers.release(vec![own]);
            }
            self.show();
            return Err(AclError::NoRoom { list: self.name(number), full });
        }
        let Some(list) = self.lists.get_mut(number as usize).and_then(Option::as_mut) else {
            return Ok(Default::default());
        };
        list.order.insert(index, entry);
        list.edited = true;
        self.rules += 1;
        Ok((AclEdited { added: vec![own], deleted: 0, rules: list.order.len() }, false))
    }

    /// Takes a rule of one box out as it is; gives whether the next root should know. `None`: it has to be done otherwise.
    fn delete_one(&mut self, input: Input<'_>, number: u32, at: u64) -> Option<bool> {
        let list = self.lists.get_mut(number as usize)?.as_mut()?;
        let index = list.order.index(at)?;
        let entry = list.order.get(index).filter(|entry| entry.width == 1)?;
        let own = entry.number;
        let boxes = Boxes::of(input.means(), list.rule(entry));
        // Where there is no room for a list without it, chains are made anew: those that were changed already as well.
        self.chains.iter_mut().try_for_each(|kept| kept.remove(number, at)).ok()?;
        list.order.remove(index);
        list.edited = true;
        self.rules -= 1;
        self.numbers.release(vec![own]);
        let mut tell = false;
        for kept in self.chains.iter_mut().filter(|kept| kept.position(number).is_some()) {
            tell |= kept.forget(&boxes);
        }
        if tell {
            self.show();
        }
        Some(tell)
    }

    /// Puts a rule of one box back into the chains that it was taken out of already: what was there has room again.
    fn restore(&mut self, input: Input<'_>, number: u32, at: u64) {
        let Some(list) = self.lists.get(number as usize).and_then(Option::as_ref) else { return };
        let entry = list.order.index(at).and_then(|index| list.order.get(index)).filter(|entry| entry.width == 1);
        let Some(entry) = entry else { return };
        let rule = list.rule(entry);
        let (boxes, identity) = (Boxes::of(input.means(), rule), found(rule, entry.number).identity());
        for kept in &mut self.chains {
            kept.restore(input.means(), number, at, &boxes, identity);
        }
    }

    /// A list with other rules in the place of some.
    fn changed(&self, number: u32, entries: Vec<Entry>) -> Option<List> {
        let list = self.list(number)?;
        Some(List {
            name: Arc::clone(&list.name),
            declared: list.declared.clone(),
            order: Order::spread(entries),
            default: list.default,
            number: list.number,
            choice: list.choice,
            edited: true,
            created: list.created.clone(),
        })
    }

    fn splice(
        &mut self,
        input: Input<'_>,
        number: u32,
        index: usize,
        rules: Vec<AclRule>,
        said: &Said,
    ) -> Result<AclEdited, AclError> {
        self.admit(input, number, &rules, 0)?;
        let Some(list) = self.list(number) else { return Ok(AclEdited::default()) };
        let mut entries: Vec<Entry> = list.order.iter().cloned().collect();
        let new: Vec<Entry> = rules.into_iter().map(|rule| new_entry(rule, self.numbers.allocate(), said)).collect();
        let added: Vec<u32> = new.iter().map(|entry| entry.number).collect();
        entries.splice(index..index, new);
        let edited = AclEdited { added: added.clone(), deleted: 0, rules: entries.len() };
        let Some(list) = self.changed(number, entries) else { return Ok(AclEdited::default()) };
        self.adopt(input, vec![(number, list)], added)?;
        Ok(edited)
    }

    /// Changes one after the other, which readers see together.
    fn batch(
        &mut self,
        input: Input<'_>,
        number: u32,
        changes: Vec<AclChange>,
        said: &Said,
    ) -> Result<AclEdited, AclError> {
        let mut entries: Vec<Entry> =
            self.list(number).map_or_else(Vec::new, |list| list.order.iter().cloned().collect());
        let (mut places, mut rules) = (Vec::with_capacity(changes.len()), Vec::new());
        let mut deleted = 0;
        for change in changes {
            let (at, rule, goes) = match change {
                AclChange::Insert(at, rule) => (at, Some(rule), false),
                AclChange::Delete(own) => (At::Before(own), None, true),
                AclChange::Replace(own, rule) => (At::Before(own), Some(rule), true),
            };
            let comes = rule.is_some();
            places.push((at, comes, goes));
            rules.extend(rule);
        }
        let rules = self.checked(input.gateway, number, rules)?;
        let gone = places.iter().filter(|(.., goes)| *goes).count();
        // As many as that can go only if there are: else one of them is not found.
        self.admit(input, number, &rules, gone.min(self.rules))?;
        let mut rules = rules.into_iter();
        let mut added = Vec::new();
        let list = self.name(number);
        let mut change = || {
            for (at, comes, goes) in places {
                let index = index_in(&entries, at).map_err(|wrong| match wrong {
                    Wrong::Rule(number) => AclError::NoSuchRule { list: list.clone(), number },
                    Wrong::Index(index) => AclError::NoSuchPlace { list: list.clone(), index, rules: entries.len() },
                })?;
                if goes {
                    entries.remove(index);
                    deleted += 1;
                }
                if let Some(rule) = comes.then(|| rules.next()).flatten() {
                    let own = self.numbers.allocate();
                    added.push(own);
                    entries.insert(index, new_entry(rule, own, said));
                }
            }
            Ok(entries.len())
        };
        let rules = match change() {
            Ok(rules) => rules,
            Err(wrong) => {
                self.numbers.take_back(added);
                return Err(wrong);
            }
        };
        let edited = AclEdited { added: added.clone(), deleted, rules };
        let Some(list) = self.changed(number, entries) else { return Ok(AclEdited::default()) };
        self.adopt(input, vec![(number, list)], added)?;
        Ok(edited)
    }

    /// A list without the rules at some places.
    fn without(&mut self, input: Input<'_>, number: u32, places: &[u64]) -> Result<AclEdited, AclError> {
        let Some(list) = self.list(number) else { return Ok(AclEdited::default()) };
        let stays = |entry: &&Entry| places.binary_search(&entry.place).is_err();
        let entries: Vec<Entry> = list.order.iter().filter(stays).cloned().collect();
        let edited = AclEdited { added: Vec::new(), deleted: places.len(), rules: entries.len() };
        let Some(list) = self.changed(number, entries) else { return Ok(AclEdited::default()) };
        self.adopt(input, vec![(number, list)], Vec::new())?;
        Ok(edited)
    }

    fn replace(
        &mut self,
        input: Input<'_>,
        number: u32,
        rules: Vec<AclRule>,
        default: Option<AclDefault>,
        said: &Said,
    ) -> Result<AclEdited, AclError> {
        let before = self.list(number).map_or(0, |list| list.order.len());
        self.admit(input, number, &rules, before)?;
        let Some(list) = self.lists.get(number as usize).and_then(Option::as_ref) else {
            return Ok(AclEdited::default());
        };
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
        let edited = AclEdited { added: added.clone(), deleted: before + added.len() - rules, rules };
        let Some(mut list) = self.changed(number, entries) else { return Ok(AclEdited::default()) };
        list.default = default.unwrap_or(list.default);
        self.adopt(input, vec![(number, list)], added)?;
        Ok(edited)
    }

    /// Has lists run in the place of those with their numbers, with all chains that they are in. `fresh` are the numbers of
    /// rules that are new.
    fn adopt(&mut self, input: Input<'_>, lists: Vec<(u32, List)>, fresh: Vec<u32>) -> Result<(), AclError> {
        let find = |number: u32| -> &List {
            let own = lists.iter().find(|(own, _)| *own == number).map(|(_, list)| list);
            own.or_else(|| self.list(number)).expect("a chain's list")
        };
        let concerned = |kept: &Kept| lists.iter().any(|(number, _)| kept.sequence.contains(number));
        let mut anew = Vec::new();
        for (at, kept) in self.chains.iter().enumerate().filter(|(_, kept)| concerned(kept)) {
            match Kept::build(input.means(), Arc::clone(&kept.sequence), find) {
                Ok(kept) => anew.push((at, kept)),
                Err(Full { list, error: full, .. }) => {
                    let list = find(list).name.to_string();
                    self.numbers.take_back(fresh);
                    return Err(AclError::NoRoom { list, full });
                }
            }
        }
        for (number, list) in lists {
            self.put(number, list);
        }
        for (at, kept) in anew {
            self.chains[at] = kept;
        }
        self.show();
        Ok(())
    }

    fn replace_group(&mut self, input: Input<'_>, group: AclGroup, said: &Said) -> Result<AclEdited, AclError> {
        self.numbers.settle(input.domain);
        let name = Arc::clone(group.name());
        let known = self.groups(&input.gateway.groups).find(&name);
        if known.is_some_and(|known| known.kind() != group.kind()) {
            return Err(AclError::NoSuchGroup { group: name.to_string() });
        }
        if group.is_empty() {
            return Err(AclError::EmptyGroup { group: name.to_string() });
        }
        let before = self.changed_groups.insert(Arc::clone(&name), (group, said.clone()));
        let done = self.follow_group(input, &name);
        if done.is_err() {
            match before {
                Some(before) => drop(self.changed_groups.insert(name, before)),
                None => drop(self.changed_groups.remove(&name)),
            }
        }
        done
    }

    /// Gives all rules that name a group the members that it has now.
    fn follow_group(&mut self, input: Input<'_>, name: &Arc<str>) -> Result<AclEdited, AclError> {
        let mut lists = Vec::new();
        let groups = self.groups(&input.gateway.groups);
        let mut rules = 0;
        for (number, list) in (0..).zip(&self.lists) {
            let Some(list) = list else { continue };
            if !list.order.iter().any(|entry| groups::names(list.rule(entry)).any(|own| own == name)) {
                continue;
            }
            let mut entries: Vec<Entry> = list.order.iter().cloned().collect();
            let mut boxes = 0_usize;
            for entry in &mut entries {
                let rule = list.rule(entry);
                if groups::names(rule).any(|own| own == name) {
                    let resolved = groups.resolve(rule);
                    let rule = resolved.map_err(|group| AclError::NoSuchGroup { group: group.to_string() })?;
                    entry.width = width(&rule);
                    rules += 1;
                    let (declared, said) = match &entry.text {
                        Text::Declared(index) => (Some(*index), None),
                        Text::Own(own) => (own.declared, own.said.clone()),
                    };
                    entry.text = Text::Own(Arc::new(Own { rule, declared, said }));
                }
                boxes = boxes.saturating_add(entry.width as usize);
            }
            let most = input.means().limit;
            if boxes > most.saturating_mul(2) {
                let full = Error::TooManyRules { rules: boxes, most };
                return Err(AclError::NoRoom { list: list.name.to_string(), full });
            }
            // It is the same list: the group is what is not as it was declared.
            let edited = list.edited;
            lists.extend(self.changed(number, entries).map(|list| (number, List { edited, ..list })));
        }
        self.adopt(input, lists, Vec::new())?;
        Ok(AclEdited { rules, ..AclEdited::default() })
    }

    fn create(&mut self, input: Input<'_>, list: AclList, said: &Said) -> Result<AclEdited, AclError> {
        self.numbers.settle(input.domain);
        if self.named(&list.name).is_ok() {
            return Err(AclError::Exists { list: list.name });
        }
        let vacant = self.lists.iter().position(Option::is_none).unwrap_or(self.lists.len()) as u32;
        let choice = choice(&list, input.map);
        if let Some(place) = list.rules.iter().position(|rule| rule.log).filter(|_| choice.is_none()) {
            return Err(AclError::NoSampler { list: list.name, place: place + 1 });
        }
        let rules = self.checked_rules(input.gateway, &list)?;
        self.admit(input, vacant, &rules, 0)?;
        let entries: Vec<Entry> =
            rules.into_iter().map(|rule| new_entry(rule, self.numbers.allocate(), said)).collect();
        let added: Vec<u32> = entries.iter().map(|entry| entry.number).collect();
        let number = self.numbers.allocate();
        self.put(
            vacant,
            List {
                name: list.name.as_str().into(),
                order: Order::spread(entries),
                default: list.default,
                number,
                choice,
                edited: true,
                created: Some(said.clone()),
                declared: AclList { rules: Arc::new([]), ..list },
            },
        );
        self.show();
        Ok(AclEdited { rules: added.len(), added, deleted: 0 })
    }

    fn checked_rules(&self, gateway: &Gateway, list: &AclList) -> Result<Vec<AclRule>, AclError> {
        let groups = self.groups(&gateway.groups);
        let resolve = |rule| groups.resolve(rule).map_err(|group| AclError::NoSuchGroup { group: group.to_string() });
        list.rules.iter().map(resolve).collect()
    }

    fn delete(&mut self, input: Input<'_>, name: &str) -> Result<AclEdited, AclError> {
        self.numbers.settle(input.domain);
        let number = self.named(name)?;
        let index = self.indices.iter().position(|&own| own == number);
        if let Some(index) = index {
            let named = |interface: &&crate::model::Interface| {
                let mut all = interface.access.acl_in.iter().chain(&interface.access.acl_out);
                all.any(|own| usize::from(own.0) == index)
            };
            let interfaces = input.gateway.interfaces.iter().filter(named).map(|interface| interface.name.clone());
            let (list, interfaces): (_, Vec<String>) = (name.to_owned(), interfaces.collect());
            return Err(if interfaces.is_empty() {
                AclError::Declared { list }
            } else {
                AclError::InUse { list, interfaces }
            });
        }
        let deleted = self.list(number).map_or(0, |list| list.order.len());
        self.take_out(number);
        Ok(AclEdited { deleted, ..AclEdited::default() })
    }
}

/// What is wrong with a place.
enum Wrong {
    Rule(u32),
    Index(usize),
}

/// The index of a place in rules.
fn index_in(entries: &[Entry], at: At) -> Result<usize, Wrong> {
    let of = |rule| entries.iter().position(|entry| entry.number == rule).ok_or(Wrong::Rule(rule));
    match at {
        At::Index(index) if index > entries.len() => Err(Wrong::Index(index)),
        At::Index(index) => Ok(index),
        At::End => Ok(entries.len()),
        At::Before(rule) => of(rule),
        At::After(rule) => of(rule).map(|index| index + 1),
    }
}

/// The boxes of a rule.
struct Boxes {
    v4: Vec<Rule<u32>>,
    v6: Vec<Rule<u128>>,
}

impl Boxes {
    fn of(means: Means<'_>, rule: &AclRule) -> Boxes {
        Boxes { v4: means.boxes(rule), v6: means.boxes(rule) }
    }

    /// There is one of a family at most.
    fn is_one(&self) -> bool {
        self.v4.len() <= 1 && self.v6.len() <= 1
    }
}

impl Kept {
    /// A rule will come; gives whether readers have to know.
    fn expect(&mut self, boxes: &Boxes) -> bool {
        // Both are asked.
        self.v4.expect(&boxes.v4) | self.v6.expect(&boxes.v6)
    }

    /// A rule is gone; gives whether readers may know.
    fn forget(&mut self, boxes: &Boxes) -> bool {
        self.v4.forget(&boxes.v4) | self.v6.forget(&boxes.v6)
    }

    /// Puts a rule in at a place of a list, if that is one of its own.
    fn insert(&mut self, means: Means<'_>, list: u32, at: u64, boxes: &Boxes, identity: u32) -> Result<(), Error> {
        let Some(position) = self.position(list) else { return Ok(()) };
        let at = place(position, at);
        self.v4.insert(means, at, &boxes.v4, identity)?;
        let done = self.v6.insert(means, at, &boxes.v6, identity);
        if done.is_err() {
            // If it stays, it is taken out with those of other chains.
            let _ = self.v4.remove(at);
        }
        done
    }

    /// Takes the rule at a place of a list out.
    fn remove(&mut self, list: u32, at: u64) -> Result<(), Error> {
        let Some(position) = self.position(list) else { return Ok(()) };
        let at = place(position, at);
        self.v4.remove(at)?;
        self.v6.remove(at)
    }

    /// Puts a rule in where it is not.
    fn restore(&mut self, means: Means<'_>, list: u32, at: u64, boxes: &Boxes, identity: u32) {
        let Some(at) = self.position(list).map(|position| place(position, at)) else { return };
        if self.v4.writer.get(at).is_none() {
            // It was there a moment ago.
            let _ = self.v4.insert(means, at, &boxes.v4, identity);
        }
        if self.v6.writer.get(at).is_none() {
            let _ = self.v6.insert(means, at, &boxes.v6, identity);
        }
    }

    /// Forgets a rule that was expected, and takes it out if it is in already; gives whether it is in nowhere.
    fn undo(&mut self, list: u32, at: u64, boxes: &Boxes, is_in: bool) -> bool {
        let Some(position) = self.position(list) else { return true };
        self.forget(boxes);
        let in_v4 = self.v4.writer.get(place(position, at)).is_some();
        if is_in || in_v4 { self.remove(list, at).is_ok() } else { true }
    }
}

impl<K: Bits> Classifier<K> {
    fn expect(&mut self, boxes: &[Rule<K>]) -> bool {
        let before = self.transport;
        self.transport += boxes.iter().filter(|rule| asks_transport(rule)).count();
        before == 0 && self.transport > 0
    }

    fn forget(&mut self, boxes: &[Rule<K>]) -> bool {
        let before = self.transport;
        self.transport -= boxes.iter().filter(|rule| asks_transport(rule)).count();
        before > 0 && self.transport == 0
    }

    fn insert(&mut self, means: Means<'_>, at: u64, boxes: &[Rule<K>], identity: u32) -> Result<(), Error> {
        let Some(rule) = boxes.first() else { return Ok(()) };
        if self.boxes >= means.limit {
            return Err(Error::TooManyRules { rules: self.boxes + 1, most: means.limit });
        }
        self.writer.insert(at, rule.clone(), identity)?;
        self.boxes += 1;
        Ok(())
    }

    fn remove(&mut self, at: u64) -> Result<(), Error> {
        if self.writer.remove(at)?.is_some() {
            self.boxes -= 1;
        }
        Ok(())
    }
}

fn new_entry(rule: AclRule, number: u32, said: &Said) -> Entry {
    let width = width(&rule);
    let said = Some(said.clone());
    Entry { place: 0, width, number, text: Text::Own(Arc::new(Own { rule, declared: None, said })) }
}

impl Compiler {
    /// Changes an access list, at once for all packets; `said` is who says so, and when. `gateway` is the model in force, and
    /// `map` its numbers. `publish` puts a root into force: it is called once, twice, or not at all where no root has to
    /// know; the caller is no reader.
    ///
    /// # Errors
    /// When there is no such list, rule or place, a rule can not be had, or there is no room. Then nothing has changed.
    pub fn edit_acl(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        list: &str,
        edit: AclEdit,
        said: &Said,
        mut publish: impl FnMut(Root),
    ) -> Result<AclEdited, AclError> {
        let domain = self.domain.clone();
        let input = Input { domain: &domain, gateway, map };
        match self.acl.edit(input, list, edit, said)? {
            Step::Done(edited) => Ok(edited),
            Step::Next(edited) => {
                publish(self.root());
                Ok(edited)
            }
            Step::Insert(pending) => {
                if pending.tell {
                    self.acl.show();
                    publish(self.root());
                    domain.synchronize();
                }
                let (edited, tell) = self.acl.insert(input, pending)?;
                if tell {
                    publish(self.root());
                }
                Ok(edited)
            }
        }
    }

    /// Gives a group that rules of access lists name other members: all rules that name it have them at once. A group that is
    /// not there comes.
    ///
    /// # Errors
    /// When it is of another kind, it would have no members, or there is no room. Then nothing has changed.
    pub fn replace_acl_group(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        group: AclGroup,
        said: &Said,
        publish: impl FnOnce(Root),
    ) -> Result<AclEdited, AclError> {
        let domain = self.domain.clone();
        let edited = self.acl.replace_group(Input { domain: &domain, gateway, map }, group, said)?;
        publish(self.root());
        Ok(edited)
    }

    /// Makes an access list that is not declared, and that stays until it is deleted, or declared.
    ///
    /// # Errors
    /// When there is one of its name, a rule can not be had, or there is no room. Then nothing has changed.
    pub fn create_acl(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        list: AclList,
        said: &Said,
    ) -> Result<AclEdited, AclError> {
        let domain = self.domain.clone();
        self.acl.create(Input { domain: &domain, gateway, map }, list, said)
    }

    /// Deletes an access list that was made while the gateway ran.
    ///
    /// # Errors
    /// When there is no such list, interfaces name it, or it is declared.
    pub fn delete_acl(&mut self, (gateway, map): (&Gateway, &Map), list: &str) -> Result<AclEdited, AclError> {
        let domain = self.domain.clone();
        self.acl.delete(Input { domain: &domain, gateway, map }, list)
    }

    /// Changes to access lists and groups that ended with the last models; once.
    pub fn lost_acl_edits(&mut self) -> Vec<LostEdits> {
        std::mem::take(&mut self.acl.lost)
    }
}
