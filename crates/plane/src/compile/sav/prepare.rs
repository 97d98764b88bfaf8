//! From policies of a model to validators of a root.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};

use ipnet::IpNet;
use weir_table::sav::{self as sav_table, NoRoom, Set};

use super::actions::is_distinct;
use super::dynamic::Dynamic;
use super::engine::{Meaning, Shape};
use super::exempt;
use super::feasible;
use super::input::Input;
use super::kept::{Kept, Own, Store, Stored, unknown_is_valid};
use super::lists::{allowlisted, are_of_other_modes};
use super::rules::{self, Rules};
use crate::compile::hops::Routing;
use crate::compile::rib::Rib;
use crate::compile::rubbish::Rubbish;
use crate::compile::table_full::TableFull;
use crate::model::{Gateway, InterfaceKind, Mechanism, SavLayout, SavPolicy, SavRules, Urpf, UrpfMode};
use crate::root::Interface;
use crate::root::sampler::Choice;
use crate::root::sav::{self, Broadcasts, By, Check, Paths, Reverse, Validator, Validators};

/// The result of [`Store::prepare`]: to be put into force, or dropped.
pub(in crate::compile) struct Staged {
    slots: Vec<Slot>,
    exemptions: exempt::All,
    reverse: Reverse,
}

/// The tables of a policy, by its place in the model.
enum Slot {
    /// It needs none.
    None,
    /// The tables at this place of the store.
    Keep(usize),
    /// Others.
    Fresh(Box<Kept>),
}

impl Store {
    /// Makes the tables that a model wants and that are not there yet.
    pub(in crate::compile) fn prepare(&self, input: Input<'_>) -> Result<Staged, TableFull> {
        let mut slots = Vec::new();
        let mut exemptions = exempt::All::new();
        for policy in &input.gateway.sav {
            if let Some(own) = exempt::prepare(&self.exemptions, policy).map_err(|full| full_table(policy, full))? {
                exemptions.insert(policy.name.clone(), own);
            }
            slots.push(match policy.mechanism.rules() {
                Some(rules) => self.slot(input, policy, rules).map_err(|full| full_table(policy, full))?,
                None => Slot::None,
            });
        }
        feasible::bring_up(&self.feasible, input)?;
        Ok(Staged { slots, exemptions, reverse: Reverse::new(input.sets, input.numbers.len()) })
    }

    fn slot(&self, input: Input<'_>, policy: &SavPolicy, rules: &SavRules) -> Result<Slot, NoRoom> {
        let place = self.kept.iter().position(|kept| *kept.name == *policy.name);
        let before = place.map(|place| &self.kept[place]);
        // What was said stays with the policy as long as it is a table.
        let nothing = Dynamic::default();
        let is_table = matches!(policy.mechanism, Mechanism::Table { .. });
        let said = before.map(|kept| &kept.dynamic).filter(|_| is_table).unwrap_or(&nothing);
        let shape = shape(input, policy, rules);
        let shape = if are_of_other_modes(&rules::counts(&rules.list), said) { shape.of_modes() } else { shape };
        if let Some(kept) = before
            && kept.shape.does_for(&shape)
            && kept.rules.same(&kept.numbers, &rules.list, &input.map.interfaces)
            && (kept.dynamic.is_empty() || kept.named == input.numbers.len())
        {
            return Ok(Slot::Keep(place.unwrap_or_default()));
        }
        let own = Rules::new(&rules.list);
        let mut fresh = Kept {
            name: policy.name.as_str().into(),
            allowlisted: allowlisted(&own, &input.map.interfaces, said, input.numbers),
            rules: own,
            numbers: input.map.interfaces.clone(),
            named: input.numbers.len(),
            v4: Own::new(input.domain, &shape, input.workers)?,
            v6: Own::new(input.domain, &shape, input.workers)?,
            shape,
            dynamic: Dynamic::default(),
        };
        fresh.fill(said, input.numbers)?;
        Ok(Slot::Fresh(Box::new(fresh)))
    }

    /// Puts the tables into force, and gives interfaces their validators.
    pub(in crate::compile) fn commit(
        &mut self,
        staged: Staged,
        input: Input<'_>,
        interfaces: &mut [Interface],
        rubbish: &mut Rubbish,
    ) {
        let mut old: Vec<Option<Kept>> = std::mem::take(&mut self.kept).into_iter().map(Some).collect();
        let mut places = Vec::new();
        for (policy, slot) in input.gateway.sav.iter().zip(staged.slots) {
            let kept = match slot {
                Slot::None => None,
                Slot::Keep(place) => old[place].take().map(|mut kept| {
                    if let Some(rules) = policy.mechanism.rules() {
                        // They mean the same, and may stand elsewhere.
                        kept.rules.adopt(&rules.list);
                        kept.numbers.clone_from(&input.map.interfaces);
                        // Nothing that was said depends on names that are new.
                        kept.named = input.numbers.len();
                    }
                    kept
                }),
                Slot::Fresh(mut fresh) => {
                    let before = old.iter_mut().flatten().find(|kept| kept.name == fresh.name);
                    if let Some(before) = before
                        && matches!(policy.mechanism, Mechanism::Table { .. })
                    {
                        fresh.dynamic = std::mem::take(&mut before.dynamic);
                    }
                    Some(*fresh)
                }
            };
            places.push(kept.map(|kept| {
                self.kept.push(kept);
                self.kept.len() - 1
            }));
        }
        rubbish.push(old);
        self.actions.adopt(input);
        self.exemptions = staged.exemptions;
        for &number in &input.map.interfaces {
            let interface = &mut interfaces[number as usize];
            interface.broadcasts = Arc::new(Broadcasts::new(&interface.addresses));
        }
        self.validators = Validators {
            v4: self.validators(input, &places, interfaces).into(),
            v6: self.validators(input, &places, interfaces).into(),
            reverse: staged.reverse,
            paths: Paths::new(input.paths),
            exempts: exempt::families(self.exemptions.values()),
        };
    }

    /// Makes the validators of a family that interfaces want, and gives interfaces their numbers.
    fn validators<K: Stored>(
        &self,
        input: Input<'_>,
        places: &[Option<usize>],
        interfaces: &mut [Interface],
    ) -> Vec<Validator<K>> {
        let Input { gateway, map, .. } = input;
        let mut all: Vec<Validator<K>> = Vec::new();
        let mut known: HashMap<Reading, u16> = HashMap::new();
        for (index, wanted) in (0..).zip(&gateway.interfaces) {
            let interface = &mut interfaces[map.interfaces[index as usize] as usize];
            let Some(at) = *K::of(&wanted.sav) else { continue };
            let policy = &gateway.sav[usize::from(at.0)];
            let reading = Reading {
                policy: at.0,
                vrf: match policy.mechanism {
                    Mechanism::Urpf(Urpf { vrf: Some(vrf), .. }) => map.vrfs[usize::from(vrf.0)],
                    Mechanism::Urpf(_) => interface.vrf,
                    _ => 0,
                },
                card: match policy.mechanism {
                    Mechanism::Table { layout: SavLayout::Cards(_), .. } => card(gateway, index),
                    _ => 0,
                },
            };
            let number = *known.entry(reading).or_insert_with(|| {
                let kept = places[usize::from(at.0)].map(|place| &self.kept[place]);
                if let Some(check) = self.check(policy, reading, kept.map(K::own)) {
                    all.push(self.validator(input, policy, reading, check, kept));
                    (all.len() - 1) as u16
                } else {
                    sav::NONE
                }
            });
            *K::number_of(&mut interface.sav) = number;
        }
        all
    }

    /// Returns the check for readers of a policy. It always exists: tables were made for the model.
    fn check<K: Stored>(&self, policy: &SavPolicy, reading: Reading, own: Option<&Own<K>>) -> Option<Check<K>> {
        match policy.mechanism {
            Mechanism::Acl(_) | Mechanism::Table { .. } => own?.engine.check(reading.card),
            Mechanism::Urpf(Urpf { mode: UrpfMode::Feasible, default_route: default, .. }) => {
                let feasible = self.feasible.lock().unwrap_or_else(PoisonError::into_inner);
                let feasible = feasible.get(usize::from(reading.vrf))?.as_ref()?;
                Some(Check::Rules { table: K::feasible(feasible).reading(), default })
            }
            Mechanism::Urpf(Urpf { mode, default_route: default, .. }) => {
                Some(Check::Route { vrf: reading.vrf, strict: mode == UrpfMode::Strict, default })
            }
        }
    }

    fn validator<K: Stored>(
        &self,
        input: Input<'_>,
        policy: &SavPolicy,
        reading: Reading,
        check: Check<K>,
        kept: Option<&Kept>,
    ) -> Validator<K> {
        let sample =
            policy.sample.map(|sampling| Choice::new(input.map.samplers[usize::from(sampling.to.0)], sampling.one_in));
        Validator {
            policy: reading.policy,
            card: reading.card,
            by: By::of(&policy.mechanism),
            action: self.actions.action(policy),
            meters: self.actions.meters(policy).map(|both| Arc::clone(*K::of(&both))),
            redirect: input.redirects.get(usize::from(reading.policy)).and_then(|both| *K::of(both)),
            sample,
            exempt: self.exemptions.get(&policy.name).and_then(|own| own.of::<K>()),
            link: policy.link_check,
            special: policy.special,
            unknown_is_valid: unknown_is_valid(policy, kept),
            check,
            hits: kept.and_then(|kept| K::own(kept).hits.clone()),
        }
    }

    /// Follows changes of routes that are no part of a model. Returns prefixes for which the tables of
    /// [`UrpfMode::Feasible`] had no room.
    pub(in crate::compile) fn follow_routes(
        &mut self,
        vrf: u16,
        (rib, routing): (&Rib, &Routing),
        sets: &[Vec<u32>],
        prefixes: &BTreeSet<IpNet>,
    ) -> Vec<IpNet> {
        let before = self.back(vrf);
        let refused = feasible::follow(&self.feasible, vrf, (rib, routing, sets), prefixes);
        if let (Some(before), Some(now)) = (before, self.back(vrf)) {
            renew_back(&mut self.validators.v4, &before.0, &now.0);
            renew_back(&mut self.validators.v6, &before.1, &now.1);
        }
        refused
    }

    /// Returns whether a VRF has tables of routes back.
    pub(in crate::compile) fn follows(&self, vrf: u16) -> bool {
        let feasible = self.feasible.lock().unwrap_or_else(PoisonError::into_inner);
        feasible.get(usize::from(vrf)).is_some_and(Option::is_some)
    }

    /// Gives the validators other multipath sets; there are `interfaces`.
    pub(in crate::compile) fn renew_sets(&mut self, paths: &[Vec<u32>], sets: &[Vec<u32>], interfaces: usize) {
        self.validators.reverse = Reverse::new(sets, interfaces);
        self.validators.paths = Paths::new(paths);
    }

    /// The views of a VRF's tables of routes back.
    fn back(&self, vrf: u16) -> Option<(sav_table::Reading<u32>, sav_table::Reading<u128>)> {
        let feasible = self.feasible.lock().unwrap_or_else(PoisonError::into_inner);
        let feasible = feasible.get(usize::from(vrf))?.as_ref()?;
        Some((feasible.v4.reading(), feasible.v6.reading()))
    }

    /// Returns the validators for the root.
    pub(in crate::compile) fn current(&self) -> &Validators {
        &self.validators
    }

    /// Gives the validators what the tables are now.
    pub(super) fn refresh(&mut self, gateway: &Gateway, place: usize) {
        let kept = &self.kept[place];
        let renew = Renewed { gateway, kept };
        self.validators.v4 = renew.of(&self.validators.v4);
        self.validators.v6 = renew.of(&self.validators.v6);
    }
}

/// Gives the validators that read a table of routes back its new version.
fn renew_back<K: Stored>(all: &mut Arc<[Validator<K>]>, before: &sav_table::Reading<K>, now: &sav_table::Reading<K>) {
    let reads =
        |validator: &Validator<K>| matches!(&validator.check, Check::Rules { table, .. } if table.is_same(before));
    if before.is_same(now) || !all.iter().any(reads) {
        return;
    }
    let renew = |validator: &Validator<K>| {
        let mut validator = validator.clone();
        if let Check::Rules { table, .. } = &mut validator.check
            && table.is_same(before)
        {
            *table = now.clone();
        }
        validator
    };
    *all = all.iter().map(renew).collect();
}

/// The new view of a policy's readers after its tables have changed.
struct Renewed<'a> {
    gateway: &'a Gateway,
    kept: &'a Kept,
}

impl Renewed<'_> {
    fn of<K: Stored>(&self, all: &[Validator<K>]) -> Arc<[Validator<K>]> {
        let own = K::own(self.kept);
        let renewed = all.iter().map(|validator| {
            let mut validator = validator.clone();
            let policy = &self.gateway.sav[usize::from(validator.policy)];
            if *policy.name == *self.kept.name {
                if let Some(check) = own.engine.check(validator.card) {
                    validator.check = check;
                }
                validator.unknown_is_valid = unknown_is_valid(policy, Some(self.kept));
                validator.hits.clone_from(&own.hits);
            }
            validator
        });
        renewed.collect()
    }
}

/// The properties by which readers of one policy see different tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Reading {
    policy: u16,
    vrf: u16,
    card: usize,
}

/// Returns the line card of an interface, by its place in the model's list. Interfaces without one share the card
/// behind the last. A VLAN interface without one is on its parent's.
fn card(gateway: &Gateway, index: u32) -> usize {
    let of = |index: u32| gateway.line_cards.iter().position(|card| card.interfaces.iter().any(|own| own.0 == index));
    let parent = match gateway.interfaces[index as usize].kind {
        InterfaceKind::Vlan { parent, .. } => Some(parent.0),
        InterfaceKind::Port { .. } | InterfaceKind::Ipsec | InterfaceKind::Tunnel(_) | InterfaceKind::Bridge(_) => None,
    };
    of(index).or_else(|| of(parent?)).unwrap_or(gateway.line_cards.len())
}

fn shape(input: Input<'_>, policy: &SavPolicy, rules: &SavRules) -> Shape {
    let gateway = input.gateway;
    let limits = input.limits(gateway.limits.sav_prefixes, is_distinct(policy));
    let meaning = match policy.mechanism {
        Mechanism::Table { matching, layout, .. } => {
            let cards = match layout {
                SavLayout::Merged => Vec::new(),
                SavLayout::Cards(_) => cards(gateway, &input.map.interfaces),
            };
            Meaning::Nested(matching, layout, cards)
        }
        _ => Meaning::Ordered,
    };
    Shape { meaning, hits: rules.hits, limits }
}

/// The interfaces of each card, by number.
fn cards(gateway: &Gateway, numbers: &[u32]) -> Vec<Set> {
    let mut cards = vec![Vec::new(); gateway.line_cards.len() + 1];
    for (index, &number) in (0..).zip(numbers) {
        cards[card(gateway, index)].push(number);
    }
    cards.into_iter().map(Set::from_iter).collect()
}

fn full_table(policy: &SavPolicy, full: NoRoom) -> TableFull {
    TableFull { table: format!("sav {}", policy.name), prefix: String::new(), origin: policy.origin, full }
}
