//! Security policy databases become classifiers: one for each family and direction, whose rules stand in the order of their
//! priorities.
//!
//! An SPD is compiled again if anything in it differs from the one in force; else all versions share it. Rules that stay
//! keep their numbers and their counters. Flows that match no rule that came, went or moved keep their policies.

mod alike;
mod history;
mod identity;
mod sas;
mod side;
mod sides;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::reclaim::Domain;
use weir_table::classify::NO_RULE;
use weir_table::recent::Refused;

use super::map::Map;
use super::noted::{NOTED, Noted};
use super::reuse::{self, Source};
use super::rubbish::Rubbish;
use super::table_full::TableFull;
use crate::model::{Gateway, Spd, SpdAction, SpdIndex, SpdRule};
use crate::root::Interface;
use crate::root::family::Family;
use crate::root::spd::{self, Action, Cached, NONE, Policy, PolicyCounters, Spds};
use alike::Alike;
use history::History;
use identity::{Key, Ordered, anywhere, counted};
use sas::{NO_SA, Sas};
use side::{Side, boxes_of};
use sides::{Caches, Writers, sides};

/// The counters of a rule, by worker.
type Counters = Arc<[PolicyCounters]>;

/// An SPD in force.
struct Compiled {
    model: Spd,
    sas: Sas,
    history: History,
    /// The rules that came, went or moved with this version.
    changed: Vec<SpdRule>,
    _writers: (Writers<u32>, Writers<u128>),
    current: Arc<spd::Spd>,
}

/// The SPDs of the model in force.
#[derive(Default)]
pub(in crate::compile) struct Store {
    compiled: Vec<Option<Compiled>>,
    current: Spds,
    /// The number of the SPD of a new name that was made last, and of the cache.
    ids: AtomicU64,
    caches: AtomicU64,
}

/// The SPDs of a model, for which there is room.
pub(in crate::compile) struct Prepared(Vec<Source<Compiled>>);

impl Store {
    /// Compiles the SPDs of a model.
    ///
    /// # Errors
    /// When there is no room: then nothing has changed.
    pub(in crate::compile) fn prepare(
        &self,
        domain: &Domain,
        workers: usize,
        (gateway, map): (&Gateway, &Map),
    ) -> Result<Prepared, TableFull> {
        let of = |(index, model): (u16, &Spd)| {
            let sas = Sas::of(model, map);
            let known = |own: &Compiled| is_same(&own.model, model) && own.sas == sas && own.current.index.0 == index;
            reuse::find(&self.compiled, known, || self.compile(domain, workers, SpdIndex(index), (model, sas.clone())))
        };
        (0..).zip(&gateway.spds).map(of).collect::<Result<_, _>>().map(Prepared)
    }

    fn compile(
        &self,
        domain: &Domain,
        workers: usize,
        index: SpdIndex,
        (model, sas): (&Spd, Sas),
    ) -> Result<Compiled, TableFull> {
        let before = self.named(&model.name);
        let (ordered, old) = (Ordered::of(model, &sas), before.map(|own| Ordered::of(&own.model, &own.sas)));
        let (numbers, count) = ordered.numbers(old.as_ref().zip(before.map(|own| &*own.current.numbers)));
        let policies = self.policies(workers, (model, &sas), (&numbers, count));
        let is_shared = policies.iter().flatten().any(|policy| !policy.shares.is_empty());
        let full = |full: Refused| TableFull {
            table: format!("spd {}", model.name),
            prefix: String::new(),
            origin: model.origin,
            full: full.into(),
        };
        let version = next_version(before.map_or(0, |own| own.current.version));
        let changed = old.map_or_else(Vec::new, |old| ordered.changed_since(&old));
        let history = before.map_or_else(|| History::begun(version), |own| own.history.with(version, &changed));
        let caches = self.cached(model, before, workers).map_err(full)?;
        let (v4, of_v4) = sides::<u32>(domain, model, &numbers, caches, &history)?;
        let caches = self.cached(model, before, workers).map_err(full)?;
        let (v6, of_v6) = sides::<u128>(domain, model, &numbers, caches, &history)?;
        let id = before.map_or_else(|| self.ids.fetch_add(1, Ordering::Relaxed), |own| own.current.id);
        let numbers = numbers.into();
        let current = Arc::new(spd::Spd { index, v4, v6, id, version, policies, numbers, is_shared });
        Ok(Compiled { model: model.clone(), sas, history, changed, _writers: (of_v4, of_v6), current })
    }

    /// The policies of an SPD, by number.
    fn policies(
        &self,
        workers: usize,
        (model, sas): (&Spd, &Sas),
        (numbers, count): (&[u32], usize),
    ) -> Box<[Option<Policy>]> {
        let mut counters = self.counters(&model.name);
        let Alike { mut others, mut shares } = Alike::of(model, &sas.own, numbers);
        let mut policies: Vec<Option<Policy>> = (0..count).map(|_| None).collect();
        for (at, (rule, key)) in model.rules.iter().zip(counted(&model.rules, sas)).enumerate() {
            let new = || (0..workers).map(|_| PolicyCounters::default()).collect();
            policies[numbers[at] as usize] = Some(Policy {
                action: match rule.action {
                    SpdAction::Protect(_) => Action::Protect(sas.own[at]),
                    SpdAction::Bypass => Action::Bypass,
                    SpdAction::Discard => Action::Discard,
                },
                place: at as u32,
                alike: std::mem::take(&mut others[at]).into(),
                shares: std::mem::take(&mut shares[at]).into(),
                counters: Arc::clone(counters.entry(key).or_insert_with(new)),
            });
        }
        policies.into()
    }

    /// The SPD of this name in force.
    fn named(&self, name: &str) -> Option<&Compiled> {
        self.compiled.iter().flatten().find(|own| own.model.name == name)
    }

    /// The caches of an SPD: those of the SPD before, as far as they are of the same size.
    fn cached<K: Family>(&self, model: &Spd, before: Option<&Compiled>, workers: usize) -> Result<Caches<K>, Refused> {
        let cache = model.cache;
        let before = before.filter(|own| own.model.cache.flows == cache.flows);
        let mut kept = before.map_or([None, None], |own| K::of(&*own.current).cached.clone());
        let mut of = |output: usize, is_on: bool| {
            let new = || {
                let id = self.caches.fetch_add(1, Ordering::Relaxed) + 1;
                Cached::new(id, cache.flows, workers).map(Arc::new)
            };
            is_on.then(|| kept[output].take().map_or_else(new, Ok)).transpose()
        };
        Ok([of(0, cache.inbound)?, of(1, cache.outbound)?])
    }

    /// The counters of the SPD of this name in force.
    fn counters(&self, name: &str) -> HashMap<Key, Counters> {
        let Some(own) = self.named(name) else { return HashMap::new() };
        let counters = (0..).map_while(|place| own.current.at(place).map(|policy| Arc::clone(&policy.counters)));
        counted(&own.model.rules, &own.sas).into_iter().zip(counters).collect()
    }

    /// Puts the SPDs of a model into force. Returns the flows that their changes concern.
    pub(in crate::compile) fn commit(
        &mut self,
        Prepared(mut sources): Prepared,
        (gateway, map): (&Gateway, &Map),
        interfaces: &mut [Interface],
        rubbish: &mut Rubbish,
    ) -> Noted {
        let mut changed: Vec<(SpdIndex, Vec<SpdRule>)> = Vec::new();
        for source in &mut sources {
            if let Source::New(own) = source {
                changed.push((own.current.index, std::mem::take(&mut own.changed)));
            }
        }
        let is_same = sources.len() == self.compiled.len()
            && sources.iter().enumerate().all(|(at, source)| matches!(source, Source::Kept(own) if *own == at));
        let version = self.current.version + u64::from(!is_same);
        reuse::replace(&mut self.compiled, sources, rubbish);
        let list = self.compiled.iter().flatten().map(|own| Arc::clone(&own.current)).collect();
        self.current = Spds { list, by_sa: self.by_sa(), version };
        for (interface, &number) in gateway.interfaces.iter().zip(&map.interfaces) {
            interfaces[number as usize].spd = interface.spd.map_or(NONE, |index| index.0);
        }
        let mut noted = Noted::default();
        for (index, rules) in changed {
            let has = (0..).zip(&*interfaces).filter(|(_, own)| own.spd == index.0).map(|(number, _)| number);
            note(&mut noted, &rules, &has.collect::<Vec<u32>>());
        }
        noted
    }

    /// The indices of SPDs by the number of a pair of SAs.
    fn by_sa(&self) -> Arc<[Box<[u16]>]> {
        let mut all: Vec<Vec<u16>> = Vec::new();
        for own in self.compiled.iter().flatten() {
            let index = own.current.index.0;
            for &sa in own.sas.own.iter().filter(|&&sa| sa != NO_SA) {
                let sa = sa as usize;
                if all.len() <= sa {
                    all.resize(sa + 1, Vec::new());
                }
                if all[sa].last() != Some(&index) {
                    all[sa].push(index);
                }
            }
        }
        all.into_iter().map(Vec::into_boxed_slice).collect()
    }

    /// The SPDs of the next root.
    pub(in crate::compile) fn current(&self) -> &Spds {
        &self.current
    }
}

/// Two SPDs of one name do the same, wherever their lines stand.
fn is_same(own: &Spd, other: &Spd) -> bool {
    (&own.name, own.cache) == (&other.name, other.cache)
        && own.rules.iter().map(anywhere).eq(other.rules.iter().map(anywhere))
}

/// The version after another. Neither 0 nor the answer for no rule is one.
fn next_version(version: u32) -> u32 {
    match version.wrapping_add(1) {
        0 | NO_RULE => 1,
        next => next,
    }
}

/// Notes the flows that rules of an SPD match, which came, went or moved; `interfaces` are those with the SPD.
fn note(noted: &mut Noted, rules: &[SpdRule], interfaces: &[u32]) {
    // Rules about packets that come in have the same prefixes on their other sides.
    let v4: Vec<_> = rules.iter().flat_map(|rule| boxes_of::<u32>(rule, Side::Output)).collect();
    let v6: Vec<_> = rules.iter().flat_map(|rule| boxes_of::<u128>(rule, Side::Output)).collect();
    match v4.len() + v6.len() > NOTED {
        true => interfaces.iter().for_each(|&number| noted.interface(number)),
        false => noted.rules(&v4, &v6, interfaces),
    }
}
