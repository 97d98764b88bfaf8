//! Access lists, compiled: lists of the model become chains of the root.
//!
//! A *chain* is a classifier of each family for a sequence of lists; interfaces and directions that name the same lists in
//! the same order share it. Chains are kept from version to version while their lists mean the same; else they are made
//! anew beside the old ones, so that a version that does not come about changes nothing.
//!
//! Rules have *numbers*, over all lists, by which they are counted ([`numbers`]). A rule keeps its number for as long as its
//! list has the same rule, wherever in the list that is.

mod chain;
mod numbers;
mod order;
mod same;

use std::collections::HashMap;
use std::sync::Arc;

use weir_base::reclaim::Domain;
use weir_table::classify::Error;
use weir_table::sav::NoRoom;

use chain::{Full, Kept, Means, Sequence};
use numbers::Numbers;
pub use order::Said;
use order::{DEFAULT, Entry, Order, Text};
use same::{Known, same_list};

use super::boxes::count;
use super::{Map, TableFull};
use crate::acl::{self, Access, NONE, Special};
use crate::model::{
    AclAction, AclDefault, AclIndex, AclLimit, AclList, AclRule, Gateway, PerFamily, RateLimit, RatePer, Rejection,
};
use crate::root::Interface;
use crate::sample::Choice;
use crate::sav::Meters;

/// All lists, and what they are compiled to.
pub(super) struct Store {
    /// By the list's number, which it keeps as long as there is one of its name.
    lists: Vec<Option<List>>,
    /// By the model's index of a list: its number.
    indices: Vec<u32>,
    /// By the model's index of an interface: its number.
    interfaces: Vec<u32>,
    chains: Vec<Kept>,
    numbers: Numbers,
    access: Access,
}

/// A list as it runs.
struct List {
    name: Arc<str>,
    declared: AclList,
    order: Order,
    default: AclDefault,
    /// The number of the default.
    number: u32,
    /// How packets of rules that log are sampled.
    choice: Option<Choice>,
}

impl List {
    /// A rule of it.
    fn rule<'l>(&'l self, entry: &'l Entry) -> &'l AclRule {
        match &entry.text {
            Text::Declared(index) => &self.declared.rules[*index as usize],
            Text::Own(own) => &own.rule,
        }
    }
}

/// What a version is compiled from.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) domain: &'a Domain,
    pub(super) gateway: &'a Gateway,
    pub(super) map: &'a Map,
}

impl<'a> Input<'a> {
    fn means(&self) -> Means<'a> {
        Means { domain: self.domain, limit: self.gateway.limits.acl_rules as usize, interfaces: &self.map.interfaces }
    }
}

/// What [`Store::prepare`] made: to be put into force, or given back.
#[derive(Default)]
pub(super) struct Staged {
    lists: Vec<Slot>,
    chains: Vec<ChainSlot>,
    /// By the model's index of an interface: its chains, in and out.
    interfaces: Vec<(u16, u16)>,
    /// Numbers that are new.
    fresh: Vec<u32>,
}

/// A list of the model, with its number.
enum Slot {
    /// As it runs.
    Keep(u32),
    /// Anew.
    Fresh(u32, Box<List>),
}

impl Slot {
    fn number(&self) -> u32 {
        let (Slot::Keep(number) | Slot::Fresh(number, _)) = self;
        *number
    }
}

enum ChainSlot {
    /// That at this place of the store.
    Keep(usize),
    /// Another.
    Fresh(Box<Kept>),
}

impl Store {
    pub(super) fn new(workers: usize) -> Store {
        Store {
            lists: Vec::new(),
            indices: Vec::new(),
            interfaces: Vec::new(),
            chains: Vec::new(),
            numbers: Numbers::new(workers),
            access: Access::default(),
        }
    }

    /// Makes what a model wants and what is not there yet. All roots that were made so far are out.
    pub(super) fn prepare(&mut self, input: Input<'_>) -> Result<Staged, TableFull> {
        self.numbers.settle(input.domain);
        let mut staged = Staged::default();
        match self.stage(input, &mut staged) {
            Ok(()) => Ok(staged),
            Err(full) => {
                self.abandon(staged);
                Err(full)
            }
        }
    }

    /// Forgets what was made.
    pub(super) fn abandon(&mut self, staged: Staged) {
        self.numbers.take_back(staged.fresh);
    }

    fn stage(&mut self, input: Input<'_>, staged: &mut Staged) -> Result<(), TableFull> {
        let Input { gateway, map, .. } = input;
        let limit = input.means().limit;
        let names: HashMap<Arc<str>, u32> = self.names().collect();
        let mut used = 0;
        let mut vacant = (0..).filter(|&number| self.lists.get(number as usize).is_none_or(Option::is_none));
        let mut slots = Vec::new();
        for list in &gateway.acls {
            let before = names.get(list.name.as_str()).copied();
            let number = before.or_else(|| vacant.next()).unwrap_or_default();
            let before = before.and_then(|number| self.list(number));
            let is_same = |before: &&List| same_list(&before.declared, &self.interfaces, list, &map.interfaces);
            let kept = before.filter(is_same);
            used += kept.map_or(list.rules.len(), |kept| kept.order.len());
            let too_many = |rules, rule: Option<&AclRule>| TableFull {
                table: format!("acl {}", list.name),
                prefix: String::new(),
                origin: rule.map_or(list.origin, |rule| rule.origin),
                full: NoRoom::Rules(Error::TooManyRules { rules, most: limit }),
            };
            if used > limit {
                return Err(too_many(used, list.rules.get(list.rules.len().saturating_sub(used - limit))));
            }
            if kept.is_none() {
                let mut boxes = 0_usize;
                for rule in &*list.rules {
                    boxes = boxes.saturating_add(count(rule));
                    // Each may be about the family that it comes to more in.
                    if boxes > limit.saturating_mul(2) {
                        return Err(too_many(boxes, Some(rule)));
                    }
                }
            }
            slots.push((number, kept.is_some()));
        }
        for (list, (number, keep)) in gateway.acls.iter().zip(slots) {
            staged.lists.push(match keep {
                true => Slot::Keep(number),
                false => Slot::Fresh(number, Box::new(self.anew(input, number, list, &mut staged.fresh))),
            });
        }
        self.stage_chains(input, staged)
    }

    /// A list as it was declared. Rules that it has already keep their numbers.
    fn anew(&mut self, input: Input<'_>, number: u32, declared: &AclList, fresh: &mut Vec<u32>) -> List {
        let before = self.lists.get(number as usize).and_then(Option::as_ref);
        let mut known = before.map_or_else(Known::default, |before| {
            let rules: Vec<_> = before.order.iter().map(|entry| (before.rule(entry), entry.number)).collect();
            Known::new(rules.into_iter(), &self.interfaces)
        });
        let default = before.map(|before| before.number);
        let mut allocate = || {
            let number = self.numbers.allocate();
            fresh.push(number);
            number
        };
        let entries = (0..).zip(&*declared.rules).map(|(index, rule)| Entry {
            place: 0,
            width: width(rule),
            number: known.take(rule, &input.map.interfaces).unwrap_or_else(&mut allocate),
            text: Text::Declared(index),
        });
        let order = Order::spread(entries.collect());
        List {
            name: declared.name.as_str().into(),
            order,
            default: declared.default,
            number: default.unwrap_or_else(allocate),
            choice: None,
            declared: declared.clone(),
        }
    }

    fn stage_chains(&self, input: Input<'_>, staged: &mut Staged) -> Result<(), TableFull> {
        let fresh: HashMap<u32, &List> = staged
            .lists
            .iter()
            .filter_map(|slot| match slot {
                Slot::Keep(_) => None,
                Slot::Fresh(number, list) => Some((*number, &**list)),
            })
            .collect();
        // A list that a chain has is there.
        let list = |number: u32| -> &List {
            let kept = || self.list(number).expect("a chain's list");
            fresh.get(&number).copied().unwrap_or_else(kept)
        };
        let mut known: HashMap<Sequence, u16> = HashMap::new();
        let mut chains = Vec::new();
        let mut chain = |named: &[AclIndex]| -> Result<u16, TableFull> {
            let sequence = sequence(named, |index| staged.lists[usize::from(index.0)].number());
            if sequence.is_empty() {
                return Ok(NONE);
            }
            if let Some(&number) = known.get(&sequence) {
                return Ok(number);
            }
            let kept = self.chains.iter().position(|kept| kept.sequence == sequence);
            let slot = match kept.filter(|_| sequence.iter().all(|number| !fresh.contains_key(number))) {
                Some(place) => ChainSlot::Keep(place),
                None => {
                    let kept = Kept::build(input.means(), Arc::clone(&sequence), list);
                    ChainSlot::Fresh(Box::new(kept.map_err(|full| table_full(full, list))?))
                }
            };
            let number = chains.len() as u16;
            known.insert(sequence, number);
            chains.push(slot);
            Ok(number)
        };
        let mut interfaces = Vec::with_capacity(input.gateway.interfaces.len());
        for interface in &input.gateway.interfaces {
            interfaces.push((chain(&interface.access.acl_in)?, chain(&interface.access.acl_out)?));
        }
        staged.chains = chains;
        staged.interfaces = interfaces;
        Ok(())
    }

    /// Puts it into force, and gives interfaces their chains.
    pub(super) fn commit(&mut self, staged: Staged, input: Input<'_>, interfaces: &mut [Interface]) {
        let Input { gateway, map, .. } = input;
        let mut gone: Vec<bool> = self.lists.iter().map(Option::is_some).collect();
        self.indices = staged.lists.iter().map(Slot::number).collect();
        for (slot, declared) in staged.lists.into_iter().zip(&gateway.acls) {
            let choice = choice(declared, map);
            match slot {
                Slot::Keep(number) => {
                    gone[number as usize] = false;
                    let Some(list) = self.lists[number as usize].as_mut() else { continue };
                    // It means the same, and may stand elsewhere.
                    list.declared = declared.clone();
                    if list.choice != choice {
                        list.choice = choice;
                        self.refresh_specials(number);
                    }
                }
                Slot::Fresh(number, list) => {
                    if let Some(gone) = gone.get_mut(number as usize) {
                        *gone = false;
                    }
                    self.put(number, List { choice, ..*list });
                }
            }
        }
        for (number, _) in (0..).zip(gone).filter(|(_, gone)| *gone) {
            self.take_out(number);
        }
        let mut old: Vec<Option<Kept>> = std::mem::take(&mut self.chains).into_iter().map(Some).collect();
        let chains = staged.chains.into_iter().filter_map(|slot| match slot {
            ChainSlot::Keep(place) => old[place].take(),
            ChainSlot::Fresh(kept) => Some(*kept),
        });
        self.chains = chains.collect();
        for ((wanted, &number), &(input, output)) in
            gateway.interfaces.iter().zip(&map.interfaces).zip(&staged.interfaces)
        {
            let interface = &mut interfaces[number as usize];
            interface.acl_in = PerFamily { v4: input, v6: input };
            interface.acl_out = PerFamily { v4: output, v6: output };
            debug_assert_eq!(input == NONE, wanted.access.acl_in.is_empty());
        }
        self.access.input = staged.interfaces.iter().any(|(input, _)| *input != NONE);
        self.access.output = staged.interfaces.iter().any(|(_, output)| *output != NONE);
        self.interfaces.clone_from(&map.interfaces);
        self.show();
    }

    /// What the root is to have.
    pub(super) fn current(&self) -> &Access {
        &self.access
    }

    /// Frees what readers have passed.
    pub(super) fn collect(&mut self) {
        self.chains.iter_mut().for_each(Kept::collect);
    }

    /// Has the next root have what there is now.
    fn show(&mut self) {
        self.access.v4 = self.chains.iter().map(|kept| kept.v4.chain()).collect();
        self.access.v6 = self.chains.iter().map(|kept| kept.v6.chain()).collect();
        self.access.pages = self.numbers.pages();
    }

    fn list(&self, number: u32) -> Option<&List> {
        self.lists.get(number as usize)?.as_ref()
    }

    /// Names of lists, with their numbers.
    fn names(&self) -> impl Iterator<Item = (Arc<str>, u32)> {
        (0..).zip(&self.lists).filter_map(|(number, list)| Some((Arc::clone(&list.as_ref()?.name), number)))
    }

    /// Puts a list in the place of another, and says what its numbers stand for. Those that only the other had are given up.
    fn put(&mut self, number: u32, list: List) {
        if self.lists.len() <= number as usize {
            self.lists.resize_with(number as usize + 1, || None);
        }
        let before = self.lists[number as usize].replace(list);
        let Some(list) = &self.lists[number as usize] else { return };
        let mut kept: Vec<u32> = Vec::with_capacity(list.order.len() + 1);
        for entry in list.order.iter() {
            self.numbers.give(entry.number, numbers::Means::Rule(number, entry.place));
            kept.push(entry.number);
        }
        self.numbers.give(list.number, numbers::Means::Default(number));
        kept.push(list.number);
        kept.sort_unstable();
        let had = before.iter().flat_map(|list| list.order.iter().map(|entry| entry.number).chain([list.number]));
        let gone = had.filter(|number| kept.binary_search(number).is_err()).collect();
        self.numbers.release(gone);
        self.refresh_specials(number);
    }

    /// Forgets a list.
    fn take_out(&mut self, number: u32) {
        if let Some(list) = self.lists.get_mut(number as usize).and_then(Option::take) {
            self.numbers.release(list.order.iter().map(|entry| entry.number).chain([list.number]).collect());
        }
    }

    /// Says again what the rules of a list ask for beside their verdicts.
    fn refresh_specials(&mut self, number: u32) {
        let Some(list) = self.lists.get(number as usize).and_then(Option::as_ref) else { return };
        for entry in list.order.iter() {
            let special = special(list.rule(entry), list.choice, self.numbers.special(entry.number));
            self.numbers.set_special(entry.number, special);
        }
        let special = match list.default {
            AclDefault::Action(action) if chain::is_special(action) => {
                Some(Special { sample: None, meter: None, rejection: rejection(action) })
            }
            _ => None,
        };
        self.numbers.set_special(list.number, special);
    }
}

/// The numbers of lists that an interface names, each once: behind its first place a list matches nothing any more.
fn sequence(named: &[AclIndex], number: impl Fn(AclIndex) -> u32) -> Sequence {
    let mut sequence: Vec<u32> = Vec::with_capacity(named.len());
    for number in named.iter().map(|&index| number(index)) {
        if !sequence.contains(&number) {
            sequence.push(number);
        }
    }
    sequence.into()
}

/// Places that a rule takes in its list: one for each of its boxes.
fn width(rule: &AclRule) -> u32 {
    u32::try_from(count(rule)).unwrap_or(u32::MAX).max(1)
}

fn choice(declared: &AclList, map: &Map) -> Option<Choice> {
    declared.sample.map(|sampling| Choice::new(map.samplers[usize::from(sampling.to.0)], sampling.one_in))
}

/// What a rule asks for beside its verdict. Its bucket stays as full as it is.
fn special(rule: &AclRule, choice: Option<Choice>, before: Option<&Special>) -> Option<Special> {
    if !chain::found(rule, 0).is_special() {
        return None;
    }
    let meter = rule.limit.map(|AclLimit { unit, rate, burst }| {
        let limit = RateLimit { unit, rate, burst, per: RatePer::Rule };
        let kept = before.and_then(|before| before.meter.as_ref()).filter(|meter| meter.limit() == limit);
        kept.map_or_else(|| Arc::new(Meters::new(limit, 1, false)), Arc::clone)
    });
    Some(Special { sample: choice.filter(|_| rule.log), meter, rejection: rejection(rule.action) })
}

fn rejection(action: AclAction) -> Rejection {
    if let AclAction::Reject(how) = action { how } else { Rejection::Usual }
}

fn table_full<'l>(full: Full, list: impl Fn(u32) -> &'l List) -> TableFull {
    let list = list(full.list);
    TableFull {
        table: format!("acl {}", list.name),
        prefix: String::new(),
        origin: full.rule.unwrap_or(list.declared.origin),
        full: NoRoom::Rules(full.error),
    }
}

#[cfg(test)]
mod tests;
