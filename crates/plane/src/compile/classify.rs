//! Classifier tables become hash tables of masked octets. A table with the same contents keeps its own. A changed table is built
//! anew beside it, and no packet sees it before the whole model has found room. Sessions that stay keep their numbers, and with them
//! what they counted.

use std::collections::HashMap;
use std::sync::Arc;

use weir_base::reclaim::Domain;
use weir_table::flow::Secret;
use weir_table::masked::{Full, Writer};
use weir_table::sav::NoRoom;

use super::linked;
use super::map::Map;
use super::metadata::{self, Named, Numbers};
use super::numbers::assign;
use super::pass::Pass;
use super::rubbish::Rubbish;
use super::table_full::TableFull;
use crate::model::{AclLimit, ClassifyAction, ClassifyIndex, ClassifyTable, Gateway, Origin, RateLimit, RatePer};
use crate::root::classify::{Action, Classifiers, MissCounter, NONE, SessionCounter, Table, Way};
use crate::root::sampler::Choice;
use crate::root::sav::Meters;
use crate::stats::{ClassifyCount, ClassifyCounted};

/// Octets of a session beside its key: its number and its place.
const OCTETS_OF_NUMBER: u64 = 24;

/// Returns the octets of memory that a table takes at least, on so many workers.
pub fn octets_of_classify(table: &ClassifyTable, workers: u16) -> u64 {
    let keys = weir_table::masked::octets(&metadata::mask(table), table.size as usize);
    let counters = u64::from(workers) * size_of::<SessionCounter>() as u64;
    keys + u64::from(table.size) * (OCTETS_OF_NUMBER + counters)
}

/// Ways by their numbers, and the number of each action's way by table and action of the model.
pub(super) struct Ways {
    list: Vec<Way>,
    of: Vec<Vec<Option<u32>>>,
    /// By the model's index of a VRF: the number of the way of packets that a translation leads there.
    pub(super) of_vrfs: Vec<Option<u32>>,
}

impl Ways {
    /// Finds the next hops of sessions in a compilation.
    pub(super) fn new(pass: &mut Pass<'_>) -> Ways {
        let gateway = pass.gateway;
        let mut ways = Ways { list: Vec::new(), of: Vec::new(), of_vrfs: Vec::new() };
        for table in &gateway.classify {
            let numbers = table.actions.iter().map(|action| ways.way(pass, action)).collect();
            ways.of.push(numbers);
        }
        let shared = linked::shared(gateway, &pass.map.nat_groups);
        ways.of_vrfs = shared.into_iter().enumerate().map(|(at, is)| is.then(|| ways.way_into(pass, at))).collect();
        ways
    }

    /// Returns the number of the way into a VRF.
    fn way_into(&mut self, pass: &mut Pass<'_>, at: usize) -> u32 {
        let vrf = pass.map.vrfs[at];
        let number = assign(&mut pass.numbers.ways, &format!("translated {vrf}"));
        self.put(number, Way { v4: None, v6: None, vrf: Some(vrf), is_translated: true });
        number
    }

    fn put(&mut self, number: u32, way: Way) {
        if self.list.len() <= number as usize {
            self.list.resize(number as usize + 1, Way::default());
        }
        self.list[number as usize] = way;
    }

    fn way(&mut self, pass: &mut Pass<'_>, action: &ClassifyAction) -> Option<u32> {
        if action.vrf.is_none() && action.via.is_empty() {
            return None;
        }
        let vrf = action.vrf.map(|vrf| pass.map.vrfs[usize::from(vrf.0)]);
        let hop =
            |hop: &crate::model::NextHop| (pass.map.interfaces[hop.interface.0 as usize], hop.address, hop.weight);
        let hops: Vec<_> = action.via.iter().map(hop).collect();
        // A packet that is held keeps the number, so the number keeps its meaning.
        let number = assign(&mut pass.numbers.ways, &format!("{vrf:?} {hops:?}"));
        let [v4, v6] = [true, false].map(|v4| pass.everywhere(v4, &action.via));
        self.put(number, Way { v4, v6, vrf, is_translated: false });
        Some(number)
    }
}

/// A table, from model to model.
struct Kept {
    name: String,
    /// The number of the table, which no other one gets.
    id: u32,
    /// The first model under which numbers of sessions mean the same as now.
    since: u64,
    /// The numbers of the old table mean the same in this one, as far as it has them.
    keeps_numbers: bool,
    /// Sessions have gone since then: others may get their numbers.
    has_freed: bool,
    /// The table as it was compiled.
    model: ClassifyTable,
    named: Named,
    keys: Writer,
    action_of: Arc<[u32]>,
    /// The place of each session in the model by its number.
    place_of: Vec<u32>,
    counted: Arc<[Box<[SessionCounter]>]>,
    missed: Arc<[MissCounter]>,
    /// By action of the model: its bucket.
    meters: Vec<Option<Arc<Meters>>>,
    /// By number: packets and octets when the number was given, or when that was last cleared.
    before: Vec<(u64, u64)>,
    /// Packets without a session when that was last cleared.
    missed_before: u64,
}

/// The tables of the model in force.
pub(super) struct Store {
    kept: Vec<Kept>,
    secret: Secret,
    current: Classifiers,
    next_id: u32,
}

/// The tables of a model for which there is room.
pub(super) struct Prepared {
    /// The tables that differ, by name.
    new: HashMap<String, Kept>,
    /// By table and action of the model: the number of its sampler.
    choices: Vec<Vec<Option<Choice>>>,
}

impl Store {
    /// A store without tables, whose hashes depend on these random words.
    pub(super) fn new(random: [u64; 4]) -> Store {
        Store { kept: Vec::new(), secret: Secret::new(random), current: Classifiers::default(), next_id: 0 }
    }

    /// Builds the tables that differ from those in force.
    ///
    /// # Errors
    /// When there is no room: then nothing has changed.
    pub(super) fn prepare(
        &self,
        domain: &Domain,
        workers: usize,
        (gateway, map): (&Gateway, &Map),
    ) -> Result<Prepared, TableFull> {
        let mut new = HashMap::new();
        let numbers = Numbers::new(gateway, map);
        for table in &gateway.classify {
            let (kept, named) = (self.get(&table.name), numbers.named(table));
            if kept.is_none_or(|kept| kept.named != named || !is_same(&kept.model, table)) {
                new.insert(table.name.clone(), Kept::new(domain, workers, (table, named), self.secret, kept)?);
            }
        }
        let choice = |action: &ClassifyAction| {
            action.sample.map(|sampling| Choice::new(map.samplers[usize::from(sampling.to.0)], sampling.one_in))
        };
        let choices = gateway.classify.iter().map(|table| table.actions.iter().map(choice).collect()).collect();
        Ok(Prepared { new, choices })
    }

    /// Takes the tables of a model over. `number`: that of the model.
    pub(super) fn commit(
        &mut self,
        Prepared { mut new, choices }: Prepared,
        ways: Ways,
        (gateway, number): (&Gateway, u64),
        rubbish: &mut Rubbish,
    ) {
        let mut before: HashMap<String, Kept> =
            std::mem::take(&mut self.kept).into_iter().map(|kept| (kept.name.clone(), kept)).collect();
        let mut tables = Vec::with_capacity(gateway.classify.len());
        for (place, model) in gateway.classify.iter().enumerate() {
            let old = before.remove(&model.name);
            // One of the two is there: a table that differs is new.
            let kept = match (new.remove(&model.name), old) {
                (Some(mut new), old) => {
                    new.id = old.as_ref().map_or(self.next_id, |old| old.id);
                    new.since = old.as_ref().filter(|_| new.keeps_numbers).map_or(number, |old| old.since);
                    self.next_id += u32::from(old.is_none());
                    rubbish.push(old);
                    Some(new)
                }
                (None, old) => old,
            };
            let Some(mut kept) = kept else { continue };
            kept.model = model.clone();
            let actions = model.actions.iter().enumerate().map(|(at, action)| {
                let (way, sample) = (ways.of[place][at], choices[place][at]);
                let meter = kept.meters.get(at).cloned().flatten();
                let is_plain =
                    action.permit && way.is_none() && action.mark.is_none() && sample.is_none() && meter.is_none();
                Action { permit: action.permit, is_plain, way, mark: action.mark, meter, sample }
            });
            let [mark, interface, vrf] = model.start.counted(&model.mask);
            tables.push(Table {
                id: kept.id,
                start: model.start,
                compared: [mark, interface || vrf],
                family: model.family,
                keys: kept.keys.table(),
                action_of: Arc::clone(&kept.action_of),
                actions: actions.collect(),
                counted: Arc::clone(&kept.counted),
                missed: Arc::clone(&kept.missed),
                next: model.next.map_or(NONE, |next| next.0),
                permits_misses: model.permits_misses,
            });
            self.kept.push(kept);
        }
        rubbish.push(before);
        let any = |of: fn(&crate::model::Access) -> bool| gateway.interfaces.iter().any(|own| of(&own.access));
        self.current = Classifiers {
            tables: tables.into(),
            ways: ways.list.into(),
            input: any(|access| access.classify_in.is_some()),
            output: any(|access| access.classify_out.is_some()),
        };
    }

    /// Returns the tables for the root.
    pub(super) fn current(&self) -> &Classifiers {
        &self.current
    }

    fn get(&self, name: &str) -> Option<&Kept> {
        self.kept.iter().find(|kept| kept.name == name)
    }

    /// Returns what a table counted.
    pub(super) fn counted(&self, name: &str) -> Option<ClassifyCounted> {
        let kept = self.get(name)?;
        let sessions = kept.numbers().into_iter().map(|number| {
            let mut counted = ClassifyCount::default();
            if let Some(number) = number {
                let (packets, octets) = kept.total(number);
                let (packets_before, octets_before) = kept.before[number as usize];
                counted.packets = packets.saturating_sub(packets_before);
                counted.octets = octets.saturating_sub(octets_before);
                let last = kept.counted.iter().filter_map(|own| own.get(number as usize));
                counted.last = last.map(|own| own.last.value()).max().filter(|_| counted.packets > 0);
            }
            counted
        });
        Some(ClassifyCounted {
            sessions: sessions.collect(),
            missed: kept.missed().saturating_sub(kept.missed_before),
            octets: kept.octets(),
        })
    }

    /// Returns the octets of memory of a table.
    pub(super) fn octets(&self, name: &str) -> Option<usize> {
        self.get(name).map(Kept::octets)
    }

    /// Returns the name of a table by its number.
    pub(super) fn name(&self, id: u32) -> Option<&str> {
        self.kept.iter().find(|kept| kept.id == id).map(|kept| kept.name.as_str())
    }

    /// Returns the place of a session under the model in force, by the number that it had under a model; `None`: numbers have
    /// changed since, or sessions have gone.
    pub(super) fn place(&self, id: u32, number: u32, model: u64) -> Option<usize> {
        let kept = self.kept.iter().find(|kept| kept.id == id && model >= kept.since)?;
        let place = *kept.place_of.get(number as usize)?;
        (place != u32::MAX).then_some(place as usize)
    }

    /// Has all sessions counted nothing.
    pub(super) fn clear(&mut self) {
        for kept in &mut self.kept {
            kept.missed_before = kept.missed();
            let totals: Vec<_> = (0..kept.before.len() as u32).map(|number| kept.total(number)).collect();
            kept.before = totals;
        }
    }
}

/// A decision of a classifier table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassifyDecision {
    /// Number of the interface whose table it is, or is behind.
    pub interface: u32,
    /// The packet was leaving, not coming in.
    pub output: bool,
    /// The table.
    pub table: ClassifyIndex,
    /// The place of the session in the table; `None`: the packet matched none.
    pub session: Option<usize>,
    /// The packet passes, as far as rates let it.
    pub permit: bool,
}

/// Two models of a table have the same keys with the same actions; other parts are read anew for each root.
fn is_same(before: &ClassifyTable, now: &ClassifyTable) -> bool {
    let of = |of: &ClassifyTable| (of.size, of.start, of.family);
    of(before) == of(now)
        && before.mask == now.mask
        && before.actions == now.actions
        && (Arc::ptr_eq(&before.sessions, &now.sessions)
            || before.sessions.len() == now.sessions.len()
                && before
                    .sessions
                    .iter()
                    .zip(&*now.sessions)
                    .all(|(before, now)| (&before.value, before.action) == (&now.value, now.action)))
}

impl Kept {
    /// Builds a table. Sessions that `old` has keep their numbers.
    fn new(
        domain: &Domain,
        workers: usize,
        (model, named): (&ClassifyTable, Named),
        secret: Secret,
        old: Option<&Kept>,
    ) -> Result<Kept, TableFull> {
        let full = |origin: Origin, full: Full| TableFull {
            table: format!("classifier table {}", model.name),
            prefix: String::new(),
            origin,
            full: NoRoom::Masked(full),
        };
        let mask = metadata::mask(model);
        let size = model.size as usize;
        // Counters have room for each session that there may be.
        let old = old.filter(|old| old.model.size == model.size && old.counted.len() == workers);
        let of_keys = old.filter(|old| *old.keys.table().mask() == mask);
        let mut keys = Writer::new(domain, mask.clone(), size, secret);
        let mut taken = vec![false; size];
        let mut fresh = Vec::new();
        let (mut found, mut changed) = (0, false);
        let mut action_of = vec![u32::MAX; size];
        let mut place_of = vec![u32::MAX; size];
        for (place, session) in (0..).zip(&*model.sessions) {
            let key = metadata::key(&mask, session, (place as usize, &named));
            match of_keys.and_then(|old| old.keys.get(&key)) {
                Some(number) => {
                    keys.insert(&key, number).map_err(|why| full(session.origin, why))?;
                    taken[number as usize] = true;
                    let before = of_keys.map(|old| &old.model.actions[old.action_of[number as usize] as usize]);
                    (found, changed) = (found + 1, changed || before != Some(&model.actions[session.action as usize]));
                    (action_of[number as usize], place_of[number as usize]) = (session.action, place);
                }
                None => fresh.push((key, place, session)),
            }
        }
        let has_freed = of_keys.is_some_and(|old| old.has_freed || found < old.model.sessions.len());
        let keeps_numbers = of_keys.is_some() && !changed && (fresh.is_empty() || !has_freed);
        // Numbers that the old table does not use come first: packets that are on their way count for its sessions.
        let is_used = |number: usize| old.is_some_and(|old| old.action_of[number] != u32::MAX);
        let unused = (0..size).filter(|&number| !taken[number] && !is_used(number));
        let mut free = unused.chain((0..size).filter(|&number| !taken[number] && is_used(number)));
        let mut before = old.map_or_else(|| vec![(0, 0); size], |old| old.before.clone());
        for (key, place, session) in fresh {
            let Some(number) = free.next() else { return Err(full(session.origin, Full::Bound(size))) };
            keys.insert(&key, number as u32).map_err(|why| full(session.origin, why))?;
            (action_of[number], place_of[number]) = (session.action, place);
            before[number] = old.map_or((0, 0), |old| old.total(number as u32));
        }
        let counters = || (0..workers).map(|_| (0..size).map(|_| SessionCounter::default()).collect()).collect();
        let meter = |action: &ClassifyAction| {
            action.limit.map(|AclLimit { unit, rate, burst }| {
                Arc::new(Meters::new(RateLimit { unit, rate, burst, per: RatePer::Rule }, 1, false))
            })
        };
        Ok(Kept {
            name: model.name.clone(),
            id: 0,
            since: 0,
            keeps_numbers,
            has_freed: keeps_numbers && has_freed,
            model: model.clone(),
            named,
            keys,
            action_of: action_of.into(),
            place_of,
            counted: old.map_or_else(counters, |old| Arc::clone(&old.counted)),
            missed: old
                .map_or_else(|| (0..workers).map(|_| MissCounter::default()).collect(), |old| Arc::clone(&old.missed)),
            meters: model.actions.iter().map(meter).collect(),
            before,
            missed_before: old.map_or(0, |old| old.missed_before),
        })
    }

    /// Octets of memory.
    fn octets(&self) -> usize {
        self.keys.table().octets()
            + self.counted.iter().map(|own| size_of_val(&**own)).sum::<usize>()
            + size_of_val(&*self.action_of)
    }

    /// By the place of a session in the model: its number.
    fn numbers(&self) -> Vec<Option<u32>> {
        let mut numbers = vec![None; self.model.sessions.len()];
        for (number, &place) in (0..).zip(&self.place_of) {
            if let Some(own) = numbers.get_mut(place as usize) {
                *own = Some(number);
            }
        }
        numbers
    }

    /// Packets and octets of a number, of all workers.
    fn total(&self, number: u32) -> (u64, u64) {
        let of = self.counted.iter().filter_map(|own| own.get(number as usize));
        of.fold((0, 0), |(packets, octets), own| (packets + own.packets.value(), octets + own.octets.value()))
    }

    fn missed(&self) -> u64 {
        self.missed.iter().map(|own| own.packets.value()).sum()
    }
}
