//! Access lists, compiled: lists of the model become chains of the root.
//!
//! A *chain* is a classifier of each family for a sequence of lists; interfaces and directions that name the same lists in
//! the same order share it. Chains are kept from version to version while their lists mean the same; else they are made
//! anew beside the old ones, so that a version that does not come about changes nothing.
//!
//! Rules have *numbers*, over all lists, by which they are counted ([`numbers`]). A rule keeps its number for as long as its
//! list has the same rule, wherever in the list that is.

//!
//! What is changed while the gateway runs ([`edit`]) stays with a list, or with a group, through versions that declare it as
//! it was; one that is declared otherwise is the configuration's again, and it is told what is gone ([`LostEdits`]).

mod chain;
mod edit;
mod groups;
mod numbers;
mod order;
mod same;
mod show;

use std::collections::HashMap;
use std::sync::Arc;

use weir_base::reclaim::Domain;
use weir_table::classify::Error;
use weir_table::sav::NoRoom;

pub use edit::{AclChange, AclEdit, AclEdited, AclError, At};
pub use groups::AclGroup;
pub use order::Said;
pub use show::AclDecision;

use chain::{Full, Kept, Means, Sequence};
use groups::{All, Changed, declared};
use numbers::Numbers;
use order::{Entry, Order, Own, Text};
use same::{Known, same_list, same_rule};

use super::boxes::count;
use super::{Map, TableFull};
use crate::acl::{Access, NONE, Special};
use crate::model::{
    AclAction, AclDefault, AclIndex, AclLimit, AclList, AclRule, Gateway, Groups, PerFamily, RateLimit, RatePer,
    Rejection,
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
    /// Rules of all lists.
    rules: usize,
    /// The groups of the model, and those whose members were changed.
    declared_groups: Groups,
    changed_groups: Changed,
    /// What was lost and not asked for yet.
    lost: Vec<LostEdits>,
}

/// Changes that were made while the gateway ran, and that ended with a new model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostEdits {
    /// What they were made to: `acl edge-in`, `group servers`.
    pub of: String,
    /// Rules that had come and are gone.
    pub rules: usize,
}

/// A list as it runs.
struct List {
    name: Arc<str>,
    /// As it was declared; without rules, if it was not.
    declared: AclList,
    /// Who made it, if it was not declared.
    created: Option<Said>,
    /// It was changed since.
    edited: bool,
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

    /// Rules that came while the gateway ran.
    fn live(&self) -> usize {
        let is_live = |entry: &&Entry| matches!(&entry.text, Text::Own(own) if own.said.is_some());
        self.order.iter().filter(is_live).count()
    }

    fn lost(&self) -> LostEdits {
        LostEdits { of: format!("acl {}", self.name), rules: self.live() }
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
    /// In the order of the model.
    lists: Vec<Slot>,
    /// Those that were made while the gateway ran, and stay.
    created: Vec<Slot>,
    changed_groups: Changed,
    lost: Vec<LostEdits>,
    chains: Vec<ChainSlot>,
    /// By the model's index of an interface: its chains, in and out.
    interfaces: Vec<(u16, u16)>,
    /// Numbers that are new.
    fresh: Vec<u32>,
}

/// A list, with its number.
enum Slot {
    /// It means what it meant; with other texts, where what rules name has other indices.
    Keep(u32, Option<Order>),
    /// Anew.
    Fresh(u32, Box<List>),
}

impl Slot {
    fn number(&self) -> u32 {
        let (Slot::Keep(number, _) | Slot::Fresh(number, _)) = self;
        *number
    }
}

/// How what was changed while the gateway ran goes over to another model.
struct Carry<'a> {
    groups: All<'a>,
    old: &'a [u32],
    new: &'a [u32],
    /// By the number of an interface: its index in the new model.
    indices: HashMap<u32, u32>,
    /// Groups or indices are not what they were.
    differs: bool,
}

/// What becomes of a list that is declared as it was.
enum Carried {
    Same,
    /// The same rules, with other indices.
    Moved(Order),
    /// Rules whose groups have other members.
    Changed(Vec<Entry>),
}

impl Carry<'_> {
    /// `None`: what a rule names is not there any more.
    fn carry(&self, list: &List) -> Option<Carried> {
        let is_own = |entry: &Entry| matches!(entry.text, Text::Own(_));
        if !self.differs || !list.order.iter().any(is_own) {
            return Some(Carried::Same);
        }
        let mut order = list.order.clone();
        let mut same = true;
        for entry in order.iter_mut() {
            let Text::Own(own) = &entry.text else { continue };
            let rule = groups::reindexed(&own.rule, self.old, &self.indices)?;
            let rule = self.groups.resolve(&rule).ok()?;
            same &= same_rule(&own.rule, self.old, &rule, self.new);
            entry.width = width(&rule);
            entry.text = Text::Own(Arc::new(Own { rule, declared: own.declared, said: own.said.clone() }));
        }
        Some(if same { Carried::Moved(order) } else { Carried::Changed(order.iter().cloned().collect()) })
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
            rules: 0,
            declared_groups: Groups::default(),
            changed_groups: Changed::new(),
            lost: Vec::new(),
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
        self.stage_groups(input, staged);
        let indices: HashMap<u32, u32> = map.interfaces.iter().copied().zip(0..).collect();
        let groups = All { changed: &staged.changed_groups.clone(), declared: &gateway.groups };
        let differs =
            self.interfaces != map.interfaces || gateway.groups != self.declared_groups || !staged.lost.is_empty();
        let old = self.interfaces.clone();
        let carry = Carry { groups, old: &old, new: &map.interfaces, indices, differs };
        let names: HashMap<Arc<str>, u32> = self.names().collect();
        let declared: std::collections::HashSet<&str> = gateway.acls.iter().map(|list| list.name.as_str()).collect();
        let mut bounds = Bounds { limit: input.means().limit, used: 0 };
        for number in 0..self.lists.len() as u32 {
            let Some(list) = self.list(number).filter(|list| !declared.contains(&*list.name)) else { continue };
            let carried = if list.created.is_some() { carry.carry(list) } else { None };
            match carried {
                Some(carried) => {
                    bounds.used += list.order.len();
                    staged.created.push(self.carried(number, list, carried, None));
                }
                None if list.edited => staged.lost.push(list.lost()),
                None => {}
            }
        }
        let taken = self.lists.iter().map(Option::is_some).collect::<Vec<_>>();
        let mut vacant = (0..).filter(|&number| !taken.get(number as usize).copied().unwrap_or(false));
        for list in &gateway.acls {
            let known = names.get(list.name.as_str()).copied();
            let number = known.or_else(|| vacant.next()).unwrap_or_default();
            let before = known.and_then(|number| self.list(number));
            let same = before
                .filter(|before| before.created.is_none() && same_list(&before.declared, &old, list, &map.interfaces));
            if let Some((before, carried)) = same.and_then(|before| Some((before, carry.carry(before)?))) {
                bounds.used += before.order.len();
                bounds.check(list, 0)?;
                staged.lists.push(self.carried(number, before, carried, Some(list)));
                continue;
            }
            staged.lost.extend(before.filter(|before| before.edited).map(List::lost));
            bounds.used += list.rules.len();
            bounds.check(list, list.rules.len())?;
            let list = self.anew(&carry, number, list, &mut staged.fresh);
            staged.lists.push(Slot::Fresh(number, Box::new(list)));
        }
        self.stage_chains(input, staged)
    }

    /// Finds out which groups keep the members that they were given.
    fn stage_groups(&self, input: Input<'_>, staged: &mut Staged) {
        let Input { gateway, map, .. } = input;
        let indices: HashMap<u32, u32> = map.interfaces.iter().copied().zip(0..).collect();
        for (name, (group, said)) in &self.changed_groups {
            let (before, after) = (declared(&self.declared_groups, name), declared(&gateway.groups, name));
            let is_same = match (before, after) {
                (Some(before), Some(after)) => before.same(&self.interfaces, &after, &map.interfaces),
                (None, None) => true,
                _ => false,
            };
            match group.reindexed(&self.interfaces, &indices).filter(|_| is_same) {
                Some(group) => drop(staged.changed_groups.insert(Arc::clone(name), (group, said.clone()))),
                None => staged.lost.push(LostEdits { of: format!("group {name}"), rules: 0 }),
            }
        }
    }

    /// A list that goes on.
    fn carried(&self, number: u32, list: &List, carried: Carried, declared: Option<&AclList>) -> Slot {
        match carried {
            Carried::Same => Slot::Keep(number, None),
            Carried::Moved(order) => Slot::Keep(number, Some(order)),
            Carried::Changed(entries) => {
                let declared = declared.unwrap_or(&list.declared).clone();
                let order = Order::spread(entries);
                Slot::Fresh(
                    number,
                    Box::new(List {
                        name: Arc::clone(&list.name),
                        declared,
                        order,
                        created: list.created.clone(),
                        ..*list
                    }),
                )
            }
        }
    }

    /// A list as it was declared. Rules that it has already keep their numbers.
    fn anew(&mut self, carry: &Carry<'_>, number: u32, declared: &AclList, fresh: &mut Vec<u32>) -> List {
        let before = self.lists.get(number as usize).and_then(Option::as_ref);
        let mut known = before.map_or_else(Known::default, |before| {
            let rules: Vec<_> = before.order.iter().map(|entry| (before.rule(entry), entry.number)).collect();
            Known::new(rules.into_iter(), carry.old)
        });
        let default = before.map(|before| before.number);
        let mut allocate = || {
            let number = self.numbers.allocate();
            fresh.push(number);
            number
        };
        let entries = (0..).zip(&*declared.rules).map(|(index, rule)| {
            let number = known.take(rule, carry.new).unwrap_or_else(&mut allocate);
            let changed = carry.groups.concern(rule).then(|| carry.groups.resolve(rule).ok()).flatten();
            let width = width(changed.as_ref().unwrap_or(rule));
            let own = |rule| Text::Own(Arc::new(Own { rule, declared: Some(index), said: None }));
            Entry { place: 0, width, number, text: changed.map_or(Text::Declared(index), own) }
        });
        let order = Order::spread(entries.collect());
        List {
            name: declared.name.as_str().into(),
            order,
            default: declared.default,
            number: default.unwrap_or_else(allocate),
            choice: None,
            declared: declared.clone(),
            created: None,
            edited: false,
        }
    }

    fn stage_chains(&self, input: Input<'_>, staged: &mut Staged) -> Result<(), TableFull> {
        let fresh: HashMap<u32, &List> = staged
            .lists
            .iter()
            .filter_map(|slot| match slot {
                Slot::Keep(..) => None,
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
        let declared = gateway.acls.iter().map(Some).chain(staged.created.iter().map(|_| None)).collect::<Vec<_>>();
        for (slot, declared) in staged.lists.into_iter().chain(staged.created).zip(declared) {
            if let Some(gone) = gone.get_mut(slot.number() as usize) {
                *gone = false;
            }
            match slot {
                Slot::Keep(number, order) => {
                    let Some(list) = self.lists[number as usize].as_mut() else { continue };
                    list.order = order.unwrap_or_else(|| std::mem::take(&mut list.order));
                    let Some(declared) = declared else { continue };
                    // It means the same, and may stand elsewhere.
                    list.declared = declared.clone();
                    let choice = choice(declared, map);
                    if list.choice != choice {
                        list.choice = choice;
                        self.refresh_specials(number);
                    }
                }
                Slot::Fresh(number, list) => {
                    let choice = declared.map_or(list.choice, |declared| choice(declared, map));
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
        self.declared_groups.clone_from(&gateway.groups);
        self.changed_groups = staged.changed_groups;
        self.lost.extend(staged.lost);
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

    fn groups<'a>(&'a self, declared: &'a Groups) -> All<'a> {
        All { changed: &self.changed_groups, declared }
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
        self.rules += list.order.len();
        let before = self.lists[number as usize].replace(list);
        self.rules -= before.as_ref().map_or(0, |before| before.order.len());
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
            self.rules -= list.order.len();
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

/// What lists may have, and have.
struct Bounds {
    limit: usize,
    used: usize,
}

impl Bounds {
    /// Refuses a list whose last rules, so many of them new, are too many, or that comes to too many boxes.
    fn check(&self, list: &AclList, new: usize) -> Result<(), TableFull> {
        let Bounds { limit, used } = *self;
        let too_many = |rules, rule: Option<&AclRule>| TableFull {
            table: format!("acl {}", list.name),
            prefix: String::new(),
            origin: rule.map_or(list.origin, |rule| rule.origin),
            full: NoRoom::Rules(Error::TooManyRules { rules, most: limit }),
        };
        if used > limit {
            return Err(too_many(used, list.rules.get(new.saturating_sub(used - limit))));
        }
        let mut boxes = 0_usize;
        for rule in &list.rules[..new] {
            boxes = boxes.saturating_add(count(rule));
            // Each may be about the family that it comes to more in.
            if boxes > limit.saturating_mul(2) {
                return Err(too_many(boxes, Some(rule)));
            }
        }
        Ok(())
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
