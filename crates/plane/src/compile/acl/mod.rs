//! Access lists, compiled: lists of the model become chains of the root.
//!
//! Interfaces and directions that name the same lists in the same order share a *chain*. That is one *section* or some: a
//! classifier of each family for lists that are asked one behind the other (`cut` says when there are several, which
//! chains share). Sections are kept from version to version while their lists mean the same; else they are made anew beside
//! the old ones, so that a version that does not come about changes nothing.
//!
//! Rules have *numbers*, over all lists, by which they are counted (`numbers`). A rule keeps its number for as long as its
//! list has the same rule, wherever in the list that is.
//!
//! What is changed while the gateway runs (`edit`) stays with a list, or with a group, through versions that declare it as
//! it was; one that is declared otherwise is the configuration's again. Where interfaces or groups are gone that were
//! named, what named them goes, and nothing else (`carry`). It is told what is gone ([`LostEdits`]).

mod arrange;
mod beside;
mod carry;
mod cut;
mod edit;
mod groups;
mod in_place;
mod lost;
mod made;
mod nested;
mod numbers;
mod order;
mod same;
mod section;
mod show;
mod stage;

use std::collections::HashSet;
use std::sync::Arc;

use weir_base::reclaim::Domain;

pub use edit::{AclChange, AclEdit, AclEdited, AclError, AclPlan, AclRestored, At};
pub use groups::AclGroup;
pub use lost::{Lost, LostEdits, LostRule, RuleLost};
pub use nested::AclMembers;
pub use order::Said;
pub use show::AclDecision;

use arrange::Link;
use cut::Room;
use groups::All;
use in_place::Changed;
use nested::Live;
use numbers::Numbers;
use order::{Entry, Order, Text};
use section::{Means, Section, Sequence};
use stage::Slot;
pub(in crate::compile) use stage::Staged;

use super::boxes::count;
use super::{Map, Rubbish};
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
    /// Sequences that interfaces name, each once: the first chains are theirs.
    sequences: Vec<Sequence>,
    sections: Vec<Section>,
    chains: Vec<Link>,
    /// What may come one by one until sections have to be others.
    room: Room,
    /// Rules of copies that lists may come to before they are kept once.
    most_copied: usize,
    changed: Changed,
    numbers: Numbers,
    access: Access,
    /// Rules of all lists.
    rules: usize,
    /// The groups of the model, and those that are not as it has them.
    declared_groups: Groups,
    live_groups: Live,
    /// What was lost and not asked for yet.
    lost: Vec<LostEdits>,
    /// What ran before, to be freed when nobody waits.
    pub(super) rubbish: Rubbish,
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

    /// The numbers of its rules, and of its default.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        self.order.iter().map(|entry| entry.number).chain([self.number])
    }

    /// Rules that came while the gateway ran.
    fn live(&self) -> usize {
        let is_live = |entry: &&Entry| matches!(&entry.text, Text::Own(own) if own.said.is_some());
        self.order.iter().filter(is_live).count()
    }

    fn lost(&self) -> LostEdits {
        LostEdits { of: stage::table(&self.name), rules: self.live(), lost: Lost::All }
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

impl Store {
    pub(super) fn new(workers: usize) -> Store {
        Store {
            lists: Vec::new(),
            indices: Vec::new(),
            interfaces: Vec::new(),
            sequences: Vec::new(),
            sections: Vec::new(),
            chains: Vec::new(),
            room: Room::default(),
            most_copied: cut::MOST_COPIED,
            changed: Changed::Sections,
            numbers: Numbers::new(workers),
            access: Access::default(),
            rules: 0,
            declared_groups: Groups::default(),
            live_groups: Live::default(),
            lost: Vec::new(),
            rubbish: Rubbish::default(),
        }
    }

    /// Puts it into force, and gives interfaces their chains.
    pub(super) fn commit(&mut self, mut staged: Staged, input: Input<'_>, interfaces: &mut [Interface]) {
        let Input { gateway, map, .. } = input;
        self.numbers.settle(input.domain);
        let mut gone: Vec<bool> = self.lists.iter().map(Option::is_some).collect();
        self.indices = staged.lists.iter().map(Slot::number).collect();
        let declared = gateway.acls.iter().map(Some).chain(staged.created.iter().map(|_| None)).collect::<Vec<_>>();
        for (slot, declared) in staged.lists.into_iter().chain(staged.created).zip(declared) {
            if let Some(gone) = gone.get_mut(slot.number() as usize) {
                *gone = false;
            }
            match slot {
                Slot::Keep(number, moved) => {
                    let Some(list) = self.lists[number as usize].as_mut() else { continue };
                    if let Some(moved) = moved {
                        list.order = moved.order;
                    }
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
                    let gone = staged.gone.remove(&number).unwrap_or_default();
                    self.put(number, List { choice, ..*list }, gone);
                }
            }
        }
        for (number, _) in (0..).zip(gone).filter(|(_, gone)| *gone) {
            self.take_out(number);
        }
        self.install(staged.arranged);
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
        self.live_groups = staged.live_groups;
        self.lost.extend(staged.lost);
        self.show();
    }

    /// What the root is to have.
    pub(super) fn current(&self) -> &Access {
        &self.access
    }

    /// Frees what readers have passed.
    pub(super) fn collect(&mut self) {
        self.sections.iter_mut().for_each(Section::collect);
    }

    /// Has the next root have what there is now.
    fn show(&mut self) {
        self.show_chains();
        self.access.pages = self.numbers.pages();
    }

    fn groups<'a>(&'a self, declared: &'a Groups) -> All<'a> {
        All { live: &self.live_groups, declared }
    }

    fn list(&self, number: u32) -> Option<&List> {
        self.lists.get(number as usize)?.as_ref()
    }

    /// Names of lists, with their numbers.
    fn names(&self) -> impl Iterator<Item = (Arc<str>, u32)> {
        (0..).zip(&self.lists).filter_map(|(number, list)| Some((Arc::clone(&list.as_ref()?.name), number)))
    }

    /// The numbers that the list of a number has and that another does not have, which is to come in its place.
    fn only_before(&self, number: u32, list: &List) -> Vec<u32> {
        let Some(before) = self.list(number) else { return Vec::new() };
        let kept: HashSet<u32> = list.numbers().collect();
        before.numbers().filter(|number| !kept.contains(number)).collect()
    }

    /// Puts a list in the place of another, and says what its numbers stand for. Those that only the other had are given up:
    /// `gone`.
    fn put(&mut self, number: u32, list: List, gone: Vec<u32>) {
        if self.lists.len() <= number as usize {
            self.lists.resize_with(number as usize + 1, || None);
        }
        self.rules += list.order.len();
        let before = self.lists[number as usize].replace(list);
        self.rules -= before.as_ref().map_or(0, |before| before.order.len());
        self.rubbish.push(before);
        let Some(list) = &self.lists[number as usize] else { return };
        for entry in list.order.iter() {
            self.numbers.give(entry.number, numbers::Means::Rule(number, entry.place));
        }
        self.numbers.give(list.number, numbers::Means::Default(number));
        self.numbers.release(gone);
        self.refresh_specials(number);
    }

    /// Forgets a list.
    fn take_out(&mut self, number: u32) {
        if let Some(list) = self.lists.get_mut(number as usize).and_then(Option::take) {
            self.rules -= list.order.len();
            self.numbers.release(list.numbers().collect());
            self.rubbish.push(list);
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
            AclDefault::Action(action) if section::is_special(action) => {
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
    if !section::found(rule, 0).is_special() {
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

#[cfg(test)]
mod tests;
