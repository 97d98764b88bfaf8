//! Security policy databases become classifiers: one for each family and direction, whose rules stand in the order of their
//! priorities.
//!
//! An SPD is compiled again if anything in it differs from the one in force; else all versions share it. Rules that stay
//! keep their counters.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::reclaim::Domain;
use weir_table::classify::{self, Limits, Upper, Writer};
use weir_table::recent::Refused;
use weir_table::sav::NoRoom;

use super::boxes::{Bits, boxes, count_of, needs_transport};
use super::map::Map;
use super::reuse::{self, Source};
use super::rubbish::Rubbish;
use super::table_full::TableFull;
use crate::model::{AclRule, Gateway, Origin, SaIndex, Spd, SpdAction, SpdIndex, SpdRule, Transport};
use crate::root::Interface;
use crate::root::family::Family;
use crate::root::spd::{self, Action, Cached, NONE, Policy, PolicyCounters, Sides, Spds};

/// Octets of lookups' memory that a rule may take on average, and the least and most for a classifier.
const OCTETS_PER_RULE: usize = 4096;
const LEAST_OCTETS: usize = 4 << 20;
const MOST_OCTETS: usize = 4 << 30;

/// No pair of SAs.
const NO_SA: u32 = u32::MAX;

/// The caches of a family: of packets that come in, and of packets that leave.
type Caches<K> = [Option<Arc<Cached<K>>>; 2];

/// The counters of a rule, by worker.
type Counters = Arc<[PolicyCounters]>;

/// The classifiers of a family. Tables live as long as they do.
struct Writers<K: classify::Address> {
    _output: Writer<K>,
    _input: Writer<K>,
}

/// An SPD in force.
struct Compiled {
    model: Spd,
    /// The number of the pair of SAs of each rule, in order; [`NO_SA`] without one.
    sas: Vec<u32>,
    _writers: (Writers<u32>, Writers<u128>),
    current: Arc<spd::Spd>,
}

/// The SPDs of the model in force.
#[derive(Default)]
pub(super) struct Store {
    compiled: Vec<Option<Compiled>>,
    current: Spds,
    /// The number of the cache that was made last.
    caches: AtomicU64,
}

/// The SPDs of a model, for which there is room.
pub(super) struct Prepared(Vec<Source<Compiled>>);

impl Store {
    /// Compiles the SPDs of a model.
    ///
    /// # Errors
    /// When there is no room: then nothing has changed.
    pub(super) fn prepare(
        &self,
        domain: &Domain,
        workers: usize,
        (gateway, map): (&Gateway, &Map),
    ) -> Result<Prepared, TableFull> {
        let of = |(index, model): (u16, &Spd)| {
            let sas = sas(model, map);
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
        (model, sas): (&Spd, Vec<u32>),
    ) -> Result<Compiled, TableFull> {
        let mut before = self.counters(&model.name);
        let Alike { mut others, mut shares } = Alike::of(&model.rules, &sas);
        let is_shared = shares.iter().any(|shares| !shares.is_empty());
        let policy = |(at, ((rule, &sa), key)): (usize, ((&SpdRule, &u32), Key))| Policy {
            action: match rule.action {
                SpdAction::Protect(_) => Action::Protect(sa),
                SpdAction::Bypass => Action::Bypass,
                SpdAction::Discard => Action::Discard,
            },
            alike: std::mem::take(&mut others[at]).into(),
            shares: std::mem::take(&mut shares[at]).into(),
            counters: before.remove(&key).unwrap_or_else(|| (0..workers).map(|_| PolicyCounters::default()).collect()),
        };
        let rules = model.rules.iter().zip(&sas).zip(keys(&model.rules, &sas));
        let policies = rules.enumerate().map(policy).collect();
        let (mut v4, of_v4) = sides::<u32>(domain, model)?;
        let (mut v6, of_v6) = sides::<u128>(domain, model)?;
        let before = self.named(&model.name);
        let full = |full: Refused| TableFull {
            table: format!("spd {}", model.name),
            prefix: String::new(),
            origin: model.origin,
            full: full.into(),
        };
        v4.cached = self.cached(model, before, workers).map_err(full)?;
        v6.cached = self.cached(model, before, workers).map_err(full)?;
        // It comes back to an earlier value after 2^32 changes.
        let version = before.map_or(0, |own| own.current.version).wrapping_add(1).max(1);
        let current = Arc::new(spd::Spd { index, v4, v6, version, policies, is_shared });
        Ok(Compiled { model: model.clone(), sas, _writers: (of_v4, of_v6), current })
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
        let counters = own.current.policies.iter().map(|policy| Arc::clone(&policy.counters));
        keys(&own.model.rules, &own.sas).into_iter().zip(counters).collect()
    }

    /// Puts the SPDs of a model into force.
    pub(super) fn commit(
        &mut self,
        Prepared(sources): Prepared,
        (gateway, map): (&Gateway, &Map),
        interfaces: &mut [Interface],
        rubbish: &mut Rubbish,
    ) {
        let is_same = sources.len() == self.compiled.len()
            && sources.iter().enumerate().all(|(at, source)| matches!(source, Source::Kept(own) if *own == at));
        let version = self.current.version + u64::from(!is_same);
        reuse::replace(&mut self.compiled, sources, rubbish);
        let list = self.compiled.iter().flatten().map(|own| Arc::clone(&own.current)).collect();
        self.current = Spds { list, by_sa: self.by_sa(), version };
        for (interface, &number) in gateway.interfaces.iter().zip(&map.interfaces) {
            interfaces[number as usize].spd = interface.spd.map_or(NONE, |index| index.0);
        }
    }

    /// The indices of SPDs by the number of a pair of SAs.
    fn by_sa(&self) -> Arc<[Box<[u16]>]> {
        let mut all: Vec<Vec<u16>> = Vec::new();
        for own in self.compiled.iter().flatten() {
            let index = own.current.index.0;
            for &sa in own.sas.iter().filter(|&&sa| sa != NO_SA) {
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
    pub(super) fn current(&self) -> &Spds {
        &self.current
    }
}

/// The number of the pair of SAs of each rule.
fn sas(model: &Spd, map: &Map) -> Vec<u32> {
    let number = |rule: &SpdRule| match rule.action {
        SpdAction::Protect(sa) => map.sas.get(sa.0 as usize).copied().unwrap_or(NO_SA),
        SpdAction::Bypass | SpdAction::Discard => NO_SA,
    };
    model.rules.iter().map(number).collect()
}

/// Two SPDs of one name do the same, wherever their lines stand.
fn is_same(own: &Spd, other: &Spd) -> bool {
    (&own.name, own.cache) == (&other.name, other.cache)
        && own.rules.iter().map(anywhere).eq(other.rules.iter().map(anywhere))
}

/// A rule without its origin.
fn anywhere(rule: &SpdRule) -> SpdRule {
    let mut rule = rule.clone();
    rule.matches.origin = Origin::default();
    rule
}

/// A rule wherever it was declared, with the number of its pair of SAs for an index, and how many before it are the same.
type Key = (SpdRule, usize);

fn keys(rules: &[SpdRule], sas: &[u32]) -> Vec<Key> {
    let mut seen: HashMap<SpdRule, usize> = HashMap::new();
    let of = |(rule, &sa): (&SpdRule, &u32)| {
        let action = match rule.action {
            SpdAction::Protect(_) => SpdAction::Protect(SaIndex(sa)),
            other => other,
        };
        let rule = SpdRule { action, ..anywhere(rule) };
        let times = seen.entry(rule.clone()).or_default();
        *times += 1;
        (rule, *times)
    };
    rules.iter().zip(sas).map(of).collect()
}

/// For each rule that protects, the rules that protect the same packets.
struct Alike {
    /// The other ones with other SAs, each with its place.
    others: Vec<Vec<(u32, u32)>>,
    /// The places of the rules with which it shares its flows, itself among them, in the order of the list; none if there is no other.
    shares: Vec<Vec<u32>>,
}

impl Alike {
    fn of(rules: &[SpdRule], sas: &[u32]) -> Alike {
        let mut groups: HashMap<SpdRule, Vec<u32>> = HashMap::new();
        let group = |rule: &SpdRule| SpdRule {
            action: SpdAction::Bypass,
            matches: AclRule { origin: Origin::default(), ..rule.matches.clone() },
            shared: false,
            priority: 0,
            comment: None,
            ..rule.clone()
        };
        let protects = |rule: &SpdRule| matches!(rule.action, SpdAction::Protect(_));
        for (place, rule) in (0..).zip(rules).filter(|(_, rule)| protects(rule)) {
            groups.entry(group(rule)).or_default().push(place);
        }
        let mut alike = Alike { others: vec![Vec::new(); rules.len()], shares: vec![Vec::new(); rules.len()] };
        for places in groups.into_values().filter(|places| places.len() > 1) {
            let shared = places.iter().copied().filter(|&place| rules[place as usize].shared);
            let shared: Vec<u32> = shared.collect();
            for &place in &places {
                let others = places.iter().filter(|&&other| sas[other as usize] != sas[place as usize]);
                alike.others[place as usize] = others.map(|&other| (sas[other as usize], other)).collect();
            }
            for &place in shared.iter().filter(|_| shared.len() > 1) {
                alike.shares[place as usize] = shared.clone();
            }
        }
        alike
    }
}

/// The packets that come in and match a rule: source and destination are exchanged.
pub(crate) fn inbound(matches: &AclRule) -> AclRule {
    let transport = match &matches.transport {
        Transport::Ports { protocol, source, destination, flags } => Transport::Ports {
            protocol: *protocol,
            source: destination.clone(),
            destination: source.clone(),
            flags: *flags,
        },
        other => other.clone(),
    };
    AclRule { from: matches.to.clone(), to: matches.from.clone(), transport, ..matches.clone() }
}

fn sides<K: Bits>(domain: &Domain, model: &Spd) -> Result<(Sides<K>, Writers<K>), TableFull> {
    let output = classifier(domain, model, AclRule::clone)?;
    let input = classifier(domain, model, inbound)?;
    let of_family = |rule: &&SpdRule| count_of(&rule.matches, K::FAMILY) > 0;
    let is_opaque = model.rules.iter().filter(of_family).any(SpdRule::is_opaque);
    let needed = model.rules.iter().any(|rule| needs_transport(&rule.matches, K::FAMILY));
    let needs_transport = needed && !is_opaque;
    let sides =
        Sides { output: output.table(), input: input.table(), needs_transport, is_opaque, cached: [None, None] };
    Ok((sides, Writers { _output: output, _input: input }))
}

/// The classifier of a direction: rules in the order in which they are matched, with their places in the configuration.
fn classifier<K: Bits>(
    domain: &Domain,
    model: &Spd,
    matches: impl Fn(&AclRule) -> AclRule,
) -> Result<Writer<K>, TableFull> {
    let mut rules: Vec<(u64, classify::Rule<K>, u32)> = Vec::with_capacity(model.rules.len());
    for place in model.order() {
        let rule = &model.rules[place as usize];
        for mut own in boxes::<K>(&matches(&rule.matches), |interface| interface.0) {
            if rule.is_opaque() {
                own.upper = Upper::Bare;
            }
            rules.push((rules.len() as u64, own, place));
        }
    }
    let full = |full| TableFull {
        table: format!("spd {}", model.name),
        prefix: String::new(),
        origin: model.origin,
        full: NoRoom::Rules(full),
    };
    let bytes = rules.len().saturating_mul(OCTETS_PER_RULE).clamp(LEAST_OCTETS, MOST_OCTETS);
    let limits = Limits { rules: rules.len().max(1), bytes };
    let mut writer = Writer::new(domain, limits).map_err(full)?;
    writer.load(rules).map_err(full)?;
    Ok(writer)
}
