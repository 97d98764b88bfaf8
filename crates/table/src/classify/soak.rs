//! The long differential run: rules of many characters come and go, every answer held against an oracle while they do.
//!
//! A writer changes a classifier, and a reader looks up vectors of packets meanwhile, in steps: the reader has an oracle of
//! its own, which it keeps as far as the writer has got. While a change is under way, an answer has to be right either
//! before or after it; else it has to be right.
//!
//! The oracle of long runs is *indexed*: rules by the first bits of either address that they decide. It is held against the
//! specification before it is trusted: each vector is partly looked up in both.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use weir_base::random::Random;
use weir_base::reclaim::{Domain, Reader};

use super::sample::{self, Adverse, Packets};
use super::{Fields, Limits, NO_RULE, Rule, Table, Writer, naive};

/// Packets that are looked up together.
const VECTOR: usize = 256;

/// Vectors for each change.
const VECTORS: usize = 4;

/// Changes that a set of rules gets, at most: then the next set.
const CHANGES: usize = 20_000;

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Answers held against the oracle.
    pub lookups: u64,
    /// Of these, against the specification too.
    pub specified: u64,
    /// Rules that came.
    pub added: u64,
    /// Rules that went.
    pub removed: u64,
}

/// Looks up so many packets at least: in made sets, and in those given, of up to `rules` rules each.
///
/// # Panics
/// If an answer is wrong, with the seed.
pub fn run<K: Packets>(lookups: u64, rules: usize, seed: u64, sets: &[Vec<Rule<K>>]) -> Report {
    let mut random = Random::from_seed(seed);
    let mut report = Report::default();
    while report.lookups < lookups {
        let mut all: Vec<Vec<Rule<K>>> = vec![sample::mixed(rules, &mut random)];
        all.extend(Adverse::ALL.map(|set| set.rules(rules.min(3000), &mut random)));
        all.extend(sets.iter().map(|set| {
            let step = set.len().div_ceil(rules).max(1);
            set.iter().step_by(step).cloned().collect()
        }));
        let share = (lookups / all.len() as u64).max(VECTOR as u64);
        for (number, set) in all.into_iter().enumerate() {
            if report.lookups >= lookups {
                break;
            }
            one_set(
                &set,
                share.min(lookups - report.lookups),
                &mut random,
                &mut report,
                &format!("seed {seed}, set {number}"),
            );
        }
    }
    report
}

/// A change of a rule, by its number in the set.
#[derive(Clone, Copy, Debug)]
enum Change {
    Add(u64, usize),
    Remove(u64),
}

/// What the reader is told.
enum Told {
    /// This is about to be done.
    Begun(Change),
    /// It has been.
    Done,
}

fn one_set<K: Packets>(set: &[Rule<K>], lookups: u64, random: &mut Random, report: &mut Report, what: &str) {
    let domain = Domain::new();
    let mut writer =
        Writer::new(&domain, Limits { rules: set.len() + 1, bytes: 1 << 30 }).expect("there is address space");
    let mut there: Vec<(u64, usize)> = Vec::new();
    let mut absent: Vec<usize> = (0..set.len()).collect();
    // Half of the rules are there at the beginning, at random places.
    for _ in 0..set.len() / 2 {
        there.push((random.next() >> 1, absent.swap_remove(random.below(absent.len() as u64) as usize)));
    }
    there.sort_unstable();
    there.dedup_by_key(|(place, _)| *place);
    let load = there.iter().map(|(place, rule)| (*place, set[*rule].clone(), *rule as u32));
    writer.load(load).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut oracle = Oracle::new();
    there.iter().for_each(|(place, rule)| oracle.insert(*place, set[*rule].clone(), *rule as u32));

    let (tell, told) = sync_channel(0);
    let (table, reader) = (writer.table(), domain.reader().expect("there are few readers"));
    let seed = random.next();
    let changes = (lookups as usize).div_ceil(VECTOR * VECTORS * 2).clamp(1, CHANGES);
    thread::scope(|scope| {
        let reading = scope.spawn(move || {
            Reading { set, oracle, table: &table, reader, random: Random::from_seed(seed), what }.run(&told, lookups)
        });
        for _ in 0..changes {
            let add = !absent.is_empty() && (there.is_empty() || random.chance(0.5));
            let change = if add {
                let rule = absent.swap_remove(random.below(absent.len() as u64) as usize);
                Change::Add(random.next() >> 1, rule)
            } else {
                let (place, rule) = there.swap_remove(random.below(there.len() as u64) as usize);
                absent.push(rule);
                Change::Remove(place)
            };
            // If the reader is gone, it has panicked, and joining it says so.
            if tell.send(Told::Begun(change)).is_err() {
                break;
            }
            match change {
                Change::Add(place, rule) => {
                    let added = writer.insert(place, set[rule].clone(), rule as u32);
                    added.unwrap_or_else(|error| panic!("{what}: {error}"));
                    there.push((place, rule));
                    report.added += 1;
                }
                Change::Remove(place) => {
                    assert!(writer.remove(place).is_ok_and(|rule| rule.is_some()), "{what}: a rule is lost");
                    report.removed += 1;
                }
            }
            if tell.send(Told::Done).is_err() {
                break;
            }
        }
        drop(tell);
        let (lookups, specified) = reading.join().expect("an answer was wrong");
        report.lookups += lookups;
        report.specified += specified;
    });
}

struct Reading<'r, K: Packets> {
    set: &'r [Rule<K>],
    oracle: Oracle<K>,
    table: &'r Table<K>,
    reader: Reader,
    random: Random,
    what: &'r str,
}

impl<K: Packets> Reading<'_, K> {
    fn run(mut self, told: &Receiver<Told>, lookups: u64) -> (u64, u64) {
        let (mut looked_up, mut specified) = (0, 0);
        let mut change = None;
        let mut over = false;
        while !over || looked_up < lookups {
            match if over { None } else { told.recv().ok() } {
                Some(Told::Begun(begun)) => change = Some(begun),
                Some(Told::Done) => {
                    if let Some(done) = change.take() {
                        self.apply(done);
                    }
                }
                None => over = true,
            }
            // While a change is under way, one vector, so that it meets the change; afterwards several.
            for _ in 0..if change.is_some() { 1 } else { VECTORS } {
                specified += self.vector(change);
                looked_up += VECTOR as u64;
            }
        }
        (looked_up, specified)
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Add(place, rule) => self.oracle.insert(place, self.set[rule].clone(), rule as u32),
            Change::Remove(place) => self.oracle.remove(place),
        }
    }

    /// Looks up a vector, while a change may be under way. How many answers were held against the specification.
    fn vector(&mut self, change: Option<Change>) -> u64 {
        let random = &mut self.random;
        let packets: Vec<Fields<K>> = (0..VECTOR).map(|_| sample::near(self.set, random)).collect();
        let mut found = [0; VECTOR];
        self.table.lookup_each(&self.reader.pin(), &packets, &mut found);
        for (packet, found) in packets.iter().zip(found) {
            let before = self.oracle.lookup(packet, None);
            let right = found == before
                || match change {
                    None => false,
                    Some(Change::Add(_, rule)) => found == rule as u32 && self.set[rule].matches(packet),
                    Some(Change::Remove(place)) => found == self.oracle.lookup(packet, Some(place)),
                };
            assert!(right, "{}: {found} instead of {before}, change {change:?}, packet {packet:x?}", self.what);
        }
        // The oracle itself, against each rule.
        let held = &packets[..if change.is_none() { 1 } else { 0 }];
        held.iter().for_each(|packet| {
            assert_eq!(
                self.oracle.lookup(packet, None),
                self.oracle.all.lookup(packet),
                "{}: the oracle is wrong",
                self.what
            );
        });
        held.len() as u64
    }
}

/// The first bits of the source, and of the destination, where they are decided.
type Part<K> = (Option<K>, Option<K>);

/// Rules with their identities, by place.
type Placed<K> = BTreeMap<u64, (Rule<K>, u32)>;

/// Rules by the first bits of both addresses, if they decide so many, else by those of one, else of none.
struct Oracle<K> {
    all: naive::Classifier<K>,
    parts: BTreeMap<Part<K>, Placed<K>>,
}

impl<K: Packets> Oracle<K> {
    const LEN: u8 = if K::BITS == 32 { 12 } else { 40 };

    fn new() -> Oracle<K> {
        Oracle { all: naive::Classifier::new(), parts: BTreeMap::new() }
    }

    fn part(rule: &Rule<K>) -> Part<K> {
        let of = |span: super::Span<K>| {
            let (low, high) = (span.low().truncate(Self::LEN), span.high().truncate(Self::LEN));
            (low == high).then_some(low)
        };
        (of(rule.source), of(rule.destination))
    }

    fn insert(&mut self, place: u64, rule: Rule<K>, identity: u32) {
        self.parts.entry(Self::part(&rule)).or_default().insert(place, (rule.clone(), identity));
        self.all.insert(place, rule, identity);
    }

    fn remove(&mut self, place: u64) {
        let part = self.all.get(place).map(Self::part);
        if let Some(part) = part {
            self.parts.get_mut(&part).map(|rules| rules.remove(&place));
            self.all.remove(place);
        }
    }

    /// The first rule that matches, but for the one at a place.
    fn lookup(&self, packet: &Fields<K>, but: Option<u64>) -> u32 {
        let (source, destination) = (packet.source().truncate(Self::LEN), packet.destination().truncate(Self::LEN));
        let parts = [(Some(source), Some(destination)), (Some(source), None), (None, Some(destination)), (None, None)];
        let first = |rules: &Placed<K>| {
            rules
                .iter()
                .find(|(place, (rule, _))| Some(**place) != but && rule.matches(packet))
                .map(|(place, (_, identity))| (*place, *identity))
        };
        let found = parts.iter().filter_map(|part| self.parts.get(part)).filter_map(first).min();
        found.map_or(NO_RULE, |(_, identity)| identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_is_right() {
        for (rules, lookups) in [(30, 200_000), (400, 300_000)] {
            let report = run::<u32>(lookups, rules, 1, &[]);
            assert!(report.lookups >= lookups && report.added > 30 && report.removed > 30, "{report:?}");
            let report = run::<u128>(lookups, rules, 2, &[]);
            assert!(report.lookups >= lookups && report.specified > 100, "{report:?}");
        }
    }
}
