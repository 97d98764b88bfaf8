//! All access lists, and the sections and chains that they are compiled to.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_base::reclaim::{Domain, Stamp};
use weir_table::classify::Rule;

use super::chains::{Arranged, Compiled};
use super::dropped::LostEdits;
use super::list::List;
use super::nested::Live;
use super::numbers::{self, Numbers};
use super::resolve::All;
use super::section::{self, Means, Sequence};
use crate::compile::map::Map;
use crate::compile::noted::Noted;
use crate::compile::rubbish::Rubbish;
use crate::compile::segments;
use crate::model::{
    AclAction, AclDefault, AclLimit, AclRule, Gateway, Groups, Interface, RateLimit, RatePer, Rejection,
};
use crate::root::acl::{Access, Special};
use crate::root::sampler::Choice;
use crate::root::sav::Meters;

/// All lists, and what they are compiled to.
pub(in crate::compile) struct Store {
    /// By the list's number, which it keeps as long as there is one of its name.
    pub(super) lists: Vec<Option<List>>,
    /// By the model's index of a list: its number.
    pub(super) indices: Vec<u32>,
    /// By the model's index of an interface: its number.
    pub(super) interfaces: Vec<u32>,
    /// Interfaces with lists.
    pub(super) attached: Vec<Attached>,
    pub(super) compiled: Compiled,
    pub(super) changed: Changed,
    pub(super) numbers: Numbers,
    pub(super) access: Access,
    /// Some list is per segment; roots share this.
    per_segment: Arc<AtomicBool>,
    /// Rules of all lists.
    pub(super) rules: usize,
    /// The groups of the model, and the groups with live edits.
    pub(super) declared_groups: Groups,
    pub(super) live_groups: Live,
    /// Edits that ended and were not reported yet.
    pub(super) lost: Vec<LostEdits>,
    /// Replaced parts, to be freed while no reader waits.
    pub(in crate::compile) rubbish: Rubbish,
    /// The packets that rules match which went in or out in place since the last root.
    noted: Noted,
}

/// The lists of an interface.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Attached {
    /// The interface's number.
    pub(super) interface: u32,
    /// The number of its zone.
    pub(super) zone: u16,
    /// Its lists for ingress and for egress.
    pub(super) lists: [Option<Sequence>; 2],
}

/// The last change.
#[derive(Clone, Copy)]
pub(super) enum Changed {
    /// Sections, which came with a root.
    Sections,
    /// Rules, in place, before this stamp was taken.
    Rules(Stamp),
}

/// The input of a compilation.
#[derive(Clone, Copy)]
pub(in crate::compile) struct Input<'a> {
    pub(in crate::compile) domain: &'a Domain,
    pub(in crate::compile) gateway: &'a Gateway,
    pub(in crate::compile) map: &'a Map,
}

impl<'a> Input<'a> {
    pub(super) fn means(&self) -> Means<'a> {
        Means { domain: self.domain, limit: self.gateway.limits.acl_rules as usize, interfaces: &self.map.interfaces }
    }
}

impl Store {
    pub(in crate::compile) fn new(workers: usize) -> Store {
        Store {
            lists: Vec::new(),
            indices: Vec::new(),
            interfaces: Vec::new(),
            attached: Vec::new(),
            compiled: Compiled::new(),
            changed: Changed::Sections,
            numbers: Numbers::new(workers),
            access: Access::default(),
            per_segment: Arc::default(),
            rules: 0,
            declared_groups: Groups::default(),
            live_groups: Live::default(),
            lost: Vec::new(),
            rubbish: Rubbish::default(),
            noted: Noted::default(),
        }
    }

    /// Returns what says whether lists are per segment.
    pub(in crate::compile) fn per_segment(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.per_segment)
    }

    /// Returns the lists for the next root.
    pub(in crate::compile) fn current(&self) -> &Access {
        &self.access
    }

    /// Sets how many rules of copies lists may come to before they are shared, from the next change on.
    pub(in crate::compile) fn share(&mut self, most_copied: usize) {
        self.compiled.most_copied = most_copied;
    }

    /// Takes the changes that ended with the last models.
    pub(in crate::compile) fn take_lost(&mut self) -> Vec<LostEdits> {
        std::mem::take(&mut self.lost)
    }

    /// Frees what readers have passed.
    pub(in crate::compile) fn collect(&mut self) {
        self.compiled.collect();
    }

    /// Updates the lists for the next root.
    pub(in crate::compile) fn show(&mut self) {
        self.compiled.show(&mut self.access);
        self.access.pages = self.numbers.pages();
        let mut reflecting = vec![false; self.attached.iter().map(|of| usize::from(of.zone) + 1).max().unwrap_or(0)];
        for Attached { zone, lists, .. } in &self.attached {
            let mut lists = lists.iter().flatten().flat_map(|lists| lists.iter());
            reflecting[usize::from(*zone)] |= lists.any(|&list| self.list(list).is_some_and(|list| list.reflects));
        }
        self.access.reflecting = reflecting.into();
        self.access.hastens = self.numbers.hasten();
        self.access.limits = self.numbers.limit();
        self.access.limits_bits = self.numbers.limit_bits();
        self.per_segment.store(segments::of_lists(&self.access), Ordering::Release);
    }

    /// Rules have changed, and readers see it with the next root.
    pub(in crate::compile) fn count_change(&mut self) {
        self.access.changes += 1;
    }

    /// Some rules of a list have gone in or out, and readers see it.
    pub(super) fn count_edit(&mut self, domain: &Domain, list: u32, (v4, v6): (&[Rule<u32>], &[Rule<u128>])) {
        self.changed = Changed::Rules(domain.stamp());
        let is_per_segment = v4.iter().any(|rule| segments::of_flags(rule.flags.mask()))
            || v6.iter().any(|rule| segments::of_flags(rule.flags.mask()));
        if is_per_segment {
            self.per_segment.store(true, Ordering::Release);
        }
        self.access.edits.fetch_add(1, Ordering::Release);
        let has = |of: &&Attached| of.lists.iter().flatten().any(|lists| lists.contains(&list));
        let interfaces: Vec<u32> = self.attached.iter().filter(has).map(|of| of.interface).collect();
        self.noted.rules(v4, v6, &interfaces);
    }

    /// Some rules went in or out in place since the last root.
    pub(in crate::compile) fn has_noted(&self) -> bool {
        !self.noted.is_empty()
    }

    /// The packets that these match, for the next root.
    pub(in crate::compile) fn take_noted(&mut self) -> Noted {
        std::mem::take(&mut self.noted)
    }

    /// Replaces the sections and chains in force.
    pub(super) fn install(&mut self, arranged: Arranged) {
        self.rubbish.push(self.compiled.install(arranged));
        self.changed = Changed::Sections;
    }

    pub(super) fn groups<'a>(&'a self, declared: &'a Groups) -> All<'a> {
        All { live: &self.live_groups, declared }
    }

    pub(super) fn list(&self, number: u32) -> Option<&List> {
        self.lists.get(number as usize)?.as_ref()
    }

    /// The sequence of an interface and direction.
    pub(super) fn sequence_of(&self, gateway: &Gateway, interface: &Interface, output: bool) -> Sequence {
        sequence(&gateway.lists_of(interface, output), |name| self.number_of(name))
    }

    /// The number of a list.
    pub(super) fn number_of(&self, name: &str) -> Option<u32> {
        let found = self.lists.iter().position(|list| list.as_ref().is_some_and(|list| *list.name == *name));
        found.map(|number| number as u32)
    }

    /// Names of lists, with their numbers.
    pub(super) fn names(&self) -> impl Iterator<Item = (Arc<str>, u32)> {
        (0..).zip(&self.lists).filter_map(|(number, list)| Some((Arc::clone(&list.as_ref()?.name), number)))
    }

    /// The numbers that the list of a number has and that another does not have, which is to come in its place.
    pub(super) fn only_before(&self, number: u32, list: &List) -> Vec<u32> {
        let Some(before) = self.list(number) else { return Vec::new() };
        let kept: HashSet<u32> = list.numbers().collect();
        before.numbers().filter(|number| !kept.contains(number)).collect()
    }

    /// Replaces a list, and sets the meanings of its numbers. Releases the numbers that only the replaced list had: `gone`.
    pub(super) fn put(&mut self, number: u32, list: List, gone: Vec<u32>) {
        if self.lists.len() <= number as usize {
            self.lists.resize_with(number as usize + 1, || None);
        }
        self.rules += list.order.len();
        let reflects = list.order.iter().any(|entry| reflects(list.rule(entry).action));
        let list = List { reflects, ..list };
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
    pub(super) fn take_out(&mut self, number: u32) {
        if let Some(list) = self.lists.get_mut(number as usize).and_then(Option::take) {
            self.rules -= list.order.len();
            self.numbers.release(list.numbers().collect());
            self.rubbish.push(list);
        }
    }

    /// Updates the special effects of the rules of a list.
    pub(super) fn refresh_specials(&mut self, number: u32) {
        let Some(list) = self.lists.get(number as usize).and_then(Option::as_ref) else { return };
        for entry in list.order.iter() {
            let special = special(list.rule(entry), list.choice, self.numbers.special(entry.number));
            self.numbers.set_special(entry.number, special);
        }
        let special = match list.default {
            AclDefault::Action(action) if section::is_special(action) => Some(Special {
                sample: None,
                meter: None,
                rejection: rejection(action),
                reflects: reflects(action),
                flow: None,
            }),
            _ => None,
        };
        self.numbers.set_special(list.number, special);
    }
}

/// The numbers of lists with these names, each once: behind its first place a list matches nothing any more. Lists that are not
/// there are left out.
pub(super) fn sequence(named: &[&str], number: impl Fn(&str) -> Option<u32>) -> Sequence {
    let mut sequence: Vec<u32> = Vec::with_capacity(named.len());
    for number in named.iter().filter_map(|name| number(name)) {
        if !sequence.contains(&number) {
            sequence.push(number);
        }
    }
    sequence.into()
}

/// Returns the special effects of a rule. Its token bucket keeps its fill.
pub(super) fn special(rule: &AclRule, choice: Option<Choice>, before: Option<&Special>) -> Option<Special> {
    if !section::found(rule, 0).is_special() {
        return None;
    }
    let meter = rule.limit.map(|AclLimit { unit, rate, burst }| {
        let limit = RateLimit { unit, rate, burst, per: RatePer::Rule };
        let kept = before.and_then(|before| before.meter.as_ref()).filter(|meter| meter.limit() == limit);
        kept.map_or_else(|| Arc::new(Meters::new(limit, 1, false)), Arc::clone)
    });
    let sample = choice.filter(|_| rule.log);
    let AclRule { action, flow, .. } = *rule;
    Some(Special { sample, meter, rejection: rejection(action), reflects: reflects(action), flow })
}

pub(super) fn reflects(action: AclAction) -> bool {
    action == AclAction::Reflect
}

fn rejection(action: AclAction) -> Rejection {
    if let AclAction::Reject(how) = action { how } else { Rejection::Usual }
}
