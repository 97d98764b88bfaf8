//! Source address validation, compiled: policies of the model become validators of the root.
//!
//! The tables of a policy are kept from version to version where the rules mean the same; else they are made anew beside
//! the old ones, so that a version that does not come about changes nothing. What comes while the gateway runs
//! ([`Edit`]) changes the tables in place: readers see a batch by the next version.

mod actions;
mod dynamic;
mod edit;
mod engine;
mod exempt;
mod explain;
mod explain_lists;
mod feasible;
mod lists;
mod rules;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ipnet::IpNet;
use weir_base::reclaim::Domain;
use weir_table::sav::{Limits, NoRoom, Set};

pub(crate) use actions::is_distinct;
pub use actions::{Stage, StageError};
pub use dynamic::{Edit, EntryKey, MAX_SOURCES, Names, Said};
pub use edit::{Edited, Problem, SavError, SavPlan};
pub use engine::Occupancy;
pub use explain::{Decision, Named, Nearest};

use actions::Actions;
use dynamic::Dynamic;
use edit::Means;
use engine::{Engine, Entries, Meaning, Shape};
use explain::Facts;
use feasible::Feasible;
use lists::{allowlisted, are_of_other_modes};
use rules::{Family, Rules, Sets};

use super::pass::Routing;
use super::{Compiler, Map, Rubbish, TableFull, most_bytes};
use crate::model::{
    Gateway, InterfaceIndex, InterfaceKind, Mechanism, PerFamily, SavAction, SavLayout, SavPolicy, SavRule, SavRules,
    Scope, Urpf, UrpfMode,
};
use crate::record;
use crate::rib::Rib;
use crate::root::{Interface, Root};
use crate::sample::Choice;
use crate::sav::{self, Broadcasts, By, Check, Hits, Paths, Reverse, Validator, Validators};
use crate::stats::SavEntryRow;

/// All policies' tables.
#[derive(Default)]
pub(super) struct Store {
    kept: Vec<Kept>,
    /// By number of the VRF: of those where routes that are not the best count.
    feasible: Mutex<Vec<Option<Feasible>>>,
    validators: Validators,
    actions: Actions,
    exemptions: exempt::All,
}

/// The tables of a policy.
struct Kept {
    name: Arc<str>,
    rules: Rules,
    /// The numbers of the model's interfaces when the rules were compiled.
    numbers: Vec<u32>,
    /// How many interfaces had names then.
    named: usize,
    shape: Shape,
    v4: Own<u32>,
    v6: Own<u128>,
    dynamic: Dynamic,
    /// The interfaces of which the tables know that they have allowlists.
    allowlisted: Set,
}

/// One family's.
struct Own<K: Family> {
    engine: Engine<K>,
    hits: Option<Arc<Hits>>,
    /// What was counted by a number for others, before it became that of a prefix.
    bases: HashMap<u32, u64>,
}

impl<K: Family> Own<K> {
    fn new(domain: &Domain, shape: &Shape, workers: usize) -> Result<Own<K>, NoRoom> {
        // Number 0 is that of sources without a rule.
        let hits = shape.hits.then(|| Arc::new(Hits::new(workers, 2 * shape.limits.prefixes + 1)));
        Ok(Own { engine: Engine::new(domain, shape)?, hits, bases: HashMap::new() })
    }
}

/// Names of interfaces to their numbers.
pub(super) type Numbers = HashMap<String, u32>;

/// What [`Store::prepare`] found out: to be put into force, or dropped.
pub(super) struct Staged {
    slots: Vec<Slot>,
    exemptions: exempt::All,
    reverse: Reverse,
}

/// The tables of a policy, by its place in the model.
enum Slot {
    /// It needs none.
    None,
    /// Those at this place of the store.
    Keep(usize),
    /// Others.
    Fresh(Box<Kept>),
}

/// What a version is compiled from.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) domain: &'a Domain,
    pub(super) workers: usize,
    pub(super) gateway: &'a Gateway,
    pub(super) map: &'a Map,
    pub(super) numbers: &'a Numbers,
    pub(super) ribs: &'a [Rib],
    pub(super) routing: &'a Routing,
    /// The interfaces of each multipath set.
    pub(super) sets: &'a [Vec<u32>],
    /// The adjacencies of each.
    pub(super) paths: &'a [Vec<u32>],
    /// Where policies redirect packets to, by place in the model: adjacencies.
    pub(super) redirects: &'a [PerFamily<Option<u32>>],
}

impl Input<'_> {
    /// Those of a table of so many prefixes, each with a row of its own or not.
    fn limits(&self, prefixes: u32, distinct: bool) -> Limits {
        let prefixes = prefixes as usize;
        Limits {
            prefixes,
            bytes: most_bytes(prefixes),
            sets: self.gateway.limits.sav_sets,
            // Room to grow: with another width all is made anew.
            interfaces: (self.numbers.len() as u32).next_power_of_two().max(64),
            distinct,
        }
    }
}

impl Store {
    /// Makes the tables that a model wants and that are not there yet.
    pub(super) fn prepare(&self, input: Input<'_>) -> Result<Staged, TableFull> {
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
        self.feasible(input)?;
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
    pub(super) fn commit(
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
    fn validators<K: Family>(
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

    /// What decides for those who read a policy so. There always is something: tables were made for what the model wants.
    fn check<K: Family>(&self, policy: &SavPolicy, reading: Reading, own: Option<&Own<K>>) -> Option<Check<K>> {
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

    fn validator<K: Family>(
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

    /// What the root is to have.
    pub(super) fn current(&self) -> &Validators {
        &self.validators
    }

    /// Gives the validators what the tables are now.
    fn refresh(&mut self, gateway: &Gateway, place: usize) {
        let kept = &self.kept[place];
        let renew = Renewed { gateway, kept };
        self.validators.v4 = renew.of(&self.validators.v4);
        self.validators.v6 = renew.of(&self.validators.v6);
    }

    fn place(&self, policy: &str) -> Option<usize> {
        self.kept.iter().position(|kept| *kept.name == *policy)
    }
}

/// What readers of a policy see once its tables have changed.
struct Renewed<'a> {
    gateway: &'a Gateway,
    kept: &'a Kept,
}

impl Renewed<'_> {
    fn of<K: Family>(&self, all: &[Validator<K>]) -> Arc<[Validator<K>]> {
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

/// Whether sources are valid that no rule knows.
fn unknown_is_valid(policy: &SavPolicy, kept: Option<&Kept>) -> bool {
    policy.mechanism.rules().is_some_and(|rules| rules.incremental) || kept.is_some_and(Kept::is_open)
}

/// What makes readers of one policy see different tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Reading {
    policy: u16,
    vrf: u16,
    card: usize,
}

/// The card of an interface, by its place in the model's list; those that none has share the one behind the last. A VLAN
/// interface that none has is where its parent is.
fn card(gateway: &Gateway, index: u32) -> usize {
    let of = |index: u32| gateway.line_cards.iter().position(|card| card.interfaces.iter().any(|own| own.0 == index));
    let parent = match gateway.interfaces[index as usize].kind {
        InterfaceKind::Vlan { parent, .. } => Some(parent.0),
        InterfaceKind::Port { .. } => None,
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

impl Kept {
    /// Writes all rules, and what was said beside them, into empty tables.
    fn fill(&mut self, said: &Dynamic, numbers: &Numbers) -> Result<(), NoRoom> {
        self.v4.engine.fill(entries(&self.rules, &self.numbers, &self.shape, said, numbers))?;
        self.v6.engine.fill(entries(&self.rules, &self.numbers, &self.shape, said, numbers))
    }
}

/// All that tables of a family hold.
fn entries<K: Family>(
    rules: &Rules,
    interfaces: &[u32],
    shape: &Shape,
    said: &Dynamic,
    numbers: &Numbers,
) -> Entries<K> {
    let mut sets = Sets::new(interfaces);
    match shape.meaning {
        Meaning::Ordered => return rules.ordered(&mut sets),
        Meaning::Modes(_) => return lists::entries(rules, interfaces, said, numbers),
        Meaning::Nested(..) => {}
    }
    let mut all = rules.nested::<K>(&mut sets);
    let mut named = NamedSets::new(numbers);
    let mut more: Vec<(weir_table::lpm::Prefix<K>, Option<Set>)> = said
        .iter()
        .filter_map(|(_, key, said)| Some((K::prefix(key.prefix)?, Some(named.of(&said.interfaces)))))
        .collect();
    if !more.is_empty() {
        all.append(&mut more);
        all.sort_by_key(|(prefix, _)| *prefix);
        all.dedup_by(|(prefix, more), (kept, set)| {
            let same = prefix == kept;
            if same && let (Some(more), Some(set)) = (more, set) {
                *set = set.union(more);
            }
            same
        });
    }
    Entries::Nested(all)
}

/// The numbers of interfaces that are named, found once for each list.
struct NamedSets<'a> {
    numbers: &'a Numbers,
    known: HashMap<*const Arc<str>, Set>,
}

impl<'a> NamedSets<'a> {
    fn new(numbers: &'a Numbers) -> Self {
        NamedSets { numbers, known: HashMap::new() }
    }

    /// Names that no interface has (any more) stand for nothing.
    fn of(&mut self, names: &Names) -> Set {
        let numbers = self.numbers;
        let number = |name: &Arc<str>| numbers.get(&**name).copied();
        self.known.entry(names.as_ptr()).or_insert_with(|| names.iter().filter_map(number).collect()).clone()
    }
}

impl Compiler {
    /// Changes what a source says of the table of a policy, at a time in seconds of the Unix epoch: gives the version that
    /// follows. `gateway` is the model in force.
    ///
    /// # Errors
    /// When the policy has no table, a change can not be made, or there is no room. Then nothing has changed.
    pub fn edit_sav(
        &mut self,
        gateway: &Gateway,
        policy: &str,
        source: &str,
        edits: &[Edit],
        time: u64,
    ) -> Result<(Edited, Root), SavError> {
        let (store, means) = self.means(gateway);
        let edited = store.edit(means, policy, source, edits, time)?;
        Ok((edited, self.root()))
    }

    /// Makes a source say these entries of the table of a policy and no others.
    ///
    /// # Errors
    /// As for [`Compiler::edit_sav`]; what is wrong with an entry is told by its place.
    pub fn replace_sav(
        &mut self,
        gateway: &Gateway,
        policy: &str,
        source: &str,
        entries: &[(EntryKey, Names)],
        time: u64,
    ) -> Result<(Edited, Root), SavError> {
        let plan = self.plan_sav(gateway, policy, source, entries, time)?;
        let done = self.carry_out_sav(gateway, plan);
        drop(self.take_rubbish());
        done
    }

    /// The first part of [`Compiler::replace_sav`], which takes nearly all of its time where most of a table changes. The
    /// second has to follow before anything else changes.
    ///
    /// # Errors
    /// As there.
    pub fn plan_sav(
        &self,
        gateway: &Gateway,
        policy: &str,
        source: &str,
        entries: &[(EntryKey, Names)],
        time: u64,
    ) -> Result<SavPlan, SavError> {
        let Compiler { domain, settings, numbers, sav, .. } = self;
        let means = Means { domain, workers: settings.workers, gateway, numbers: &numbers.interfaces };
        sav.plan(means, policy, source, entries, time)
    }

    /// The second part.
    ///
    /// # Errors
    /// When there is no room. Then nothing has changed.
    pub fn carry_out_sav(&mut self, gateway: &Gateway, plan: SavPlan) -> Result<(Edited, Root), SavError> {
        let Compiler { domain, settings, numbers, sav, rubbish, .. } = self;
        let means = Means { domain, workers: settings.workers, gateway, numbers: &numbers.interfaces };
        let edited = sav.carry_out(means, plan, rubbish)?;
        Ok((edited, self.root()))
    }

    /// Has all prefixes of tables been hit by nothing.
    pub fn clear_sav(&mut self) {
        for kept in &mut self.sav.kept {
            kept.v4.clear_hits();
            kept.v6.clear_hits();
        }
    }

    /// Has another action than the configured one in force for a policy from a time on, in seconds of the Unix epoch, or
    /// again the configured one: gives the version that follows. `gateway` is the model in force.
    ///
    /// # Errors
    /// When there is no such policy, or it does not say what the action needs.
    pub fn stage_sav(
        &mut self,
        gateway: &Gateway,
        policy: &str,
        action: Option<SavAction>,
        time: u64,
    ) -> Result<Root, StageError> {
        self.sav.stage(gateway, policy, action, time)?;
        Ok(self.root())
    }

    /// The action that is in force for a policy in the place of the configured one.
    pub fn sav_stage(&self, policy: &str) -> Option<Stage> {
        self.sav.stage_of(policy)
    }

    /// Policies whose stages ended with the last model, as they are gone or lack what the stage needs; once.
    pub fn ended_sav_stages(&mut self) -> Vec<String> {
        self.sav.ended_stages()
    }

    /// Octets of a policy's rules on which packets are not validated.
    pub fn sav_exempt_octets(&self, policy: &str) -> usize {
        self.sav.exemptions.get(policy).map_or(0, exempt::Exemptions::octets)
    }

    /// Octets of the buckets by which a policy limits what is not valid.
    pub fn sav_meter_octets(&self, policy: &str) -> usize {
        self.sav.meter_octets(policy)
    }

    fn means<'a>(&'a mut self, gateway: &'a Gateway) -> (&'a mut Store, Means<'a>) {
        let Compiler { domain, settings, numbers, sav, .. } = self;
        (sav, Means { domain, workers: settings.workers, gateway, numbers: &numbers.interfaces })
    }

    /// What was decided about a source that came in by an interface (its number), where a node found this.
    pub fn sav_decision(
        &self,
        (gateway, map, root): (&Gateway, &Map, &Root),
        policy: u16,
        interface: u32,
        source: IpAddr,
        said: record::Said,
    ) -> Option<Decision> {
        self.sav.decision(Facts { gateway, map, ribs: &self.ribs, root }, policy, interface, source, said)
    }

    /// How full the tables of a policy are, if it has any.
    pub fn sav_occupancy(&self, policy: &str) -> Option<PerFamily<Occupancy>> {
        let kept = &self.sav.kept[self.sav.place(policy)?];
        Some(PerFamily { v4: kept.v4.engine.occupancy(), v6: kept.v6.engine.occupancy() })
    }

    /// Who says how many entries of a policy's table, with the octets that all of it takes; and those of counters of hits.
    pub fn sav_sources(&self, policy: &str) -> (Vec<(String, usize)>, usize, usize) {
        let Some(kept) = self.sav.place(policy).map(|place| &self.sav.kept[place]) else { return Default::default() };
        let sources = kept.dynamic.sources().map(|(name, entries)| (name.to_string(), entries)).collect();
        let hits = [&kept.v4.hits, &kept.v6.hits].into_iter().flatten().map(|hits| hits.octets()).sum();
        (sources, kept.dynamic.octets(), hits)
    }

    /// The entries of a policy, those of the configuration first, in its order, then the others by prefix: those that
    /// `wanted` says of their prefix, `most` at most; and how many there are of these in all.
    pub fn sav_entries(
        &self,
        gateway: &Gateway,
        policy: &str,
        wanted: impl Fn(IpNet) -> bool,
        most: usize,
    ) -> (Vec<SavEntryRow>, usize) {
        let Some(kept) = self.sav.place(policy).map(|place| &self.sav.kept[place]) else { return Default::default() };
        let configured = kept.rules.list.iter().filter(|rule| wanted(rule.prefix));
        let mut said: Vec<_> = kept.dynamic.iter().filter(|(_, key, _)| wanted(key.prefix)).collect();
        let total = configured.clone().count() + said.len();
        let mut rows: Vec<SavEntryRow> = configured.take(most).map(|rule| kept.row_of_rule(gateway, rule)).collect();
        let order = |(a, one, _): &(&Arc<str>, EntryKey, _), (b, other, _): &(&Arc<str>, EntryKey, _)| {
            one.cmp(other).then_with(|| a.cmp(b))
        };
        let left = most - rows.len();
        // Of a million only some may be wanted.
        if (1..said.len()).contains(&left) {
            said.select_nth_unstable_by(left, order);
        }
        said.truncate(left);
        said.sort_unstable_by(order);
        rows.extend(said.into_iter().map(|(source, EntryKey { prefix, mode }, said)| SavEntryRow {
            prefix,
            interfaces: said.interfaces.iter().map(|name| name.to_string()).collect(),
            scope: Scope::of(mode),
            permit: mode.permits(),
            source: source.to_string(),
            origin: String::new(),
            time: Some(said.time),
            hits: kept.hits(prefix),
        }));
        (rows, total)
    }
}

impl Kept {
    fn row_of_rule(&self, gateway: &Gateway, rule: &SavRule) -> SavEntryRow {
        let name = |index: &InterfaceIndex| gateway.interfaces[index.0 as usize].name.clone();
        SavEntryRow {
            prefix: rule.prefix,
            interfaces: rule.interfaces.iter().map(name).collect(),
            scope: rule.scope,
            permit: rule.permit,
            source: "file".to_owned(),
            origin: gateway.origins.place(rule.origin).map_or_else(String::new, |place| place.to_string()),
            time: None,
            hits: self.hits(rule.prefix),
        }
    }

    /// Packets that hit a prefix, where they are counted.
    fn hits(&self, prefix: IpNet) -> Option<u64> {
        match prefix {
            IpNet::V4(_) => self.v4.hits(&u32::prefix(prefix)?),
            IpNet::V6(_) => self.v6.hits(&u128::prefix(prefix)?),
        }
    }
}
