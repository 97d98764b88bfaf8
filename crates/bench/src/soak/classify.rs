//! The long differential run: rules of many characters come and go, every answer held against an oracle while they do.
//!
//! A writer changes a classifier, and a reader looks up vectors of packets meanwhile, in steps: the reader has an oracle of
//! its own, which it keeps as far as the writer has got. While a change is under way, an answer has to be right either
//! before or after it; else it has to be right.
//!
//! The reader keeps a pool of packets, with the place of the first matching rule for each. An added rule changes it
//! only for packets that match the rule, a removed rule only for packets whose first it was. So after each change all
//! packets are looked up again, and a result is compared without a pass over the rules. Some packets are drawn again
//! after each change; an *indexed* oracle decides them, with rules by the first bits of either address. After each
//! change, one packet of the pool is compared with the specification, including the fields that contributed to its
//! result.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use weir_base::random::Random;
use weir_base::reclaim::{Domain, Reader};

use weir_table::classify::sample::{self, Adverse, Packets};
use weir_table::classify::{Consulted, Error, Fields, Limits, NO_RULE, Rule, Table, Writer, naive};

/// Packets that are looked up together.
const VECTOR: usize = 256;

/// Packets that are looked up after each change, in runs that are long enough.
const MOST_PACKETS: usize = 16_384;

/// Changes of a set that a run is to have before it takes more packets.
const CHANGES: usize = 200;

/// Of so many packets, one is drawn anew after each change.
const DRAWN_ANEW: usize = 64;

/// The report of a run.
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

/// Looks up so many packets at least: in made sets, and in those given, of up to `rules` rules each, as many in each.
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

/// The report of a run with hard lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hard {
    /// Answers held against the specification.
    pub lookups: u64,
    /// Lists that were refused, as too many of their rules overlap.
    pub refused: u64,
    /// The ticks that the slowest lookup in any of the others may take, as estimated.
    pub ticks: usize,
}

/// Builds lists of so many rules that are made to be hard: at once, and one by one from the first to the last, from the last to
/// the first, and in random order. A quarter of the rules goes then. Holds answers against the specification, before and after.
///
/// # Panics
/// If an answer is wrong, or a list is refused for anything but rules that overlap.
pub fn hard<K: Packets>(rules: usize, seed: u64) -> Hard {
    let mut random = Random::from_seed(seed);
    let mut report = Hard::default();
    for set in Adverse::ALL {
        let rules = set.rules::<K>(rules, &mut random);
        for order in 0..4 {
            let what = format!("seed {seed}, {} rules of {set:?}, order {order}", rules.len());
            let domain = Domain::new();
            let limits = Limits { rules: rules.len(), bytes: 3 << 30 };
            let mut writer = Writer::new(&domain, limits).expect("there is address space");
            let one = |rule: usize| (rule as u64, rules[rule].clone(), rule as u32);
            let mut numbers = Vec::from_iter(0..rules.len());
            match order {
                2 => numbers.reverse(),
                3 => {
                    (1..numbers.len()).rev().for_each(|last| numbers.swap(last, random.below(last as u64 + 1) as usize))
                }
                _ => {}
            }
            let done = match order {
                0 => writer.load(numbers.iter().map(|rule| one(*rule))),
                _ => numbers.iter().try_for_each(|rule| {
                    let (place, rule, identity) = one(*rule);
                    writer.insert(place, rule, identity)
                }),
            };
            match done {
                Ok(()) => report.ticks = report.ticks.max(writer.worst().ticks),
                Err(Error::Overlap { .. }) => report.refused += 1,
                Err(error) => panic!("{what}: {error}"),
            }
            report.lookups += specified(&domain, &writer, &rules, &mut random, &what);
            for rule in numbers.iter().step_by(4) {
                writer.remove(*rule as u64).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            report.lookups += specified(&domain, &writer, &rules, &mut random, &what);
        }
    }
    report
}

/// Looks packets up that are near to rules, whose places are their numbers, and holds the answers against each rule that is there.
fn specified<K: Packets>(
    domain: &Domain,
    writer: &Writer<K>,
    rules: &[Rule<K>],
    random: &mut Random,
    what: &str,
) -> u64 {
    let packets = Vec::from_iter((0..VECTOR).map(|_| sample::near(rules, random)));
    let (table, mut reader) = (writer.table(), domain.reader().expect("there are few readers"));
    let mut found = [0; VECTOR];
    table.lookup_each(&reader.pin(), &packets, &mut found);
    for (packet, found) in packets.iter().zip(found) {
        let mut there =
            (0..rules.len()).filter(|rule| rules[*rule].matches(packet) && writer.get(*rule as u64).is_some());
        let right = there.next().map_or(NO_RULE, |rule| rule as u32);
        assert_eq!(found, right, "{what}: packet {packet:x?}");
    }
    VECTOR as u64
}

/// A change of a rule, by its number in the set.
#[derive(Clone, Copy, Debug)]
enum Change {
    Add(u64, usize),
    Remove(u64),
}

/// A message to the reader.
enum Told {
    /// This is about to be done.
    Begun(Change),
    /// It has been.
    Done,
}

fn one_set<K: Packets>(set: &[Rule<K>], lookups: u64, random: &mut Random, report: &mut Report, what: &str) {
    let domain = Domain::new();
    let mut writer = Writer::with_consulted(&domain, Limits { rules: set.len() + 1, bytes: 1 << 30 })
        .expect("there is address space");
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
    let packets = (lookups as usize / CHANGES).clamp(VECTOR, MOST_PACKETS) / VECTOR * VECTOR;
    let changes = (lookups as usize).div_ceil(packets);
    thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let random = Random::from_seed(seed);
            let mut reading =
                Reading { set, oracle, table: &table, reader, random, what, packets: vec![], first: vec![] };
            (0..packets).for_each(|_| reading.draw());
            reading.run(&told, lookups)
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
    packets: Vec<Fields<K>>,
    /// Of each packet, the first rule that matches.
    first: Vec<First>,
}

impl<K: Packets> Reading<'_, K> {
    /// Draws one more packet.
    fn draw(&mut self) {
        let packet = sample::near(self.set, &mut self.random);
        self.first.push(self.oracle.lookup(&packet, None));
        self.packets.push(packet);
    }

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
            if let Some(change) = change {
                // One vector, so that it meets the change.
                looked_up += self.meet(change);
            } else {
                looked_up += self.look_up_all();
                specified += self.specify();
            }
        }
        (looked_up, specified)
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Add(place, rule) => {
                let first = (place, rule as u32);
                let matched = &self.set[rule];
                for (packet, known) in self.packets.iter().zip(&mut self.first) {
                    if first < *known && matched.matches(packet) {
                        *known = first;
                    }
                }
                self.oracle.insert(place, matched.clone(), rule as u32);
            }
            Change::Remove(place) => {
                self.oracle.remove(place);
                for (packet, known) in self.packets.iter().zip(&mut self.first) {
                    if known.0 == place {
                        *known = self.oracle.lookup(packet, None);
                    }
                }
            }
        }
        for _ in 0..self.packets.len().div_ceil(DRAWN_ANEW) {
            let gone = self.random.below(self.packets.len() as u64) as usize;
            self.packets.swap_remove(gone);
            self.first.swap_remove(gone);
            self.draw();
        }
    }

    /// Looks up a vector while a change is under way.
    fn meet(&mut self, change: Change) -> u64 {
        let start = self.random.below((self.packets.len() - VECTOR + 1) as u64) as usize;
        let packets = &self.packets[start..start + VECTOR];
        let mut found = [0; VECTOR];
        self.table.lookup_each(&self.reader.pin(), packets, &mut found);
        for ((packet, found), before) in packets.iter().zip(found).zip(&self.first[start..]) {
            let right = found == before.1
                || match change {
                    Change::Add(place, rule) => {
                        found == rule as u32 && place < before.0 && self.set[rule].matches(packet)
                    }
                    Change::Remove(place) => before.0 == place && found == self.oracle.lookup(packet, Some(place)).1,
                };
            assert!(right, "{}: {found}, not {before:?}, change {change:?}, packet {packet:x?}", self.what);
        }
        VECTOR as u64
    }

    fn look_up_all(&mut self) -> u64 {
        let guard = self.reader.pin();
        let mut found = [0; VECTOR];
        for (packets, first) in self.packets.chunks(VECTOR).zip(self.first.chunks(VECTOR)) {
            let found = &mut found[..packets.len()];
            self.table.lookup_each(&guard, packets, found);
            if let Some(wrong) = (0..found.len()).find(|place| found[*place] != first[*place].1) {
                panic!("{}: {}, not {:?}, packet {:x?}", self.what, found[wrong], first[wrong], packets[wrong]);
            }
        }
        self.packets.len() as u64
    }

    /// Holds what is known of one packet against the specification, and the fields that had a part in its answer.
    fn specify(&mut self) -> u64 {
        let place = self.random.below(self.packets.len() as u64) as usize;
        let packet = self.packets[place];
        let (mut found, mut consulted) = ([0], [Consulted::NONE]);
        self.table.lookup_consulted_each(&self.reader.pin(), &[packet], &mut found, &mut consulted);
        let specified = self.oracle.all.lookup(&packet);
        assert_eq!(self.first[place].1, specified, "{}: the oracle is wrong, packet {packet:x?}", self.what);
        assert_eq!(found, [specified], "{}: packet {packet:x?}", self.what);
        assert_eq!(consulted, [self.oracle.all.consulted(&packet)], "{}: packet {packet:x?}", self.what);
        1
    }
}

/// The place and the identity of a rule, or the last of all places and [`NO_RULE`].
type First = (u64, u32);

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
        let of = |span: weir_table::classify::Span<K>| {
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
    fn lookup(&self, packet: &Fields<K>, but: Option<u64>) -> First {
        let (source, destination) = (packet.source().truncate(Self::LEN), packet.destination().truncate(Self::LEN));
        let parts = [(Some(source), Some(destination)), (Some(source), None), (None, Some(destination)), (None, None)];
        let first = |rules: &Placed<K>| {
            rules
                .iter()
                .find(|(place, (rule, _))| Some(**place) != but && rule.matches(packet))
                .map(|(place, (_, identity))| (*place, *identity))
        };
        parts.iter().filter_map(|part| self.parts.get(part)).filter_map(first).min().unwrap_or((u64::MAX, NO_RULE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_lists_are_right_in_any_order() {
        let (ipv4, ipv6) = (hard::<u32>(5000, 3), hard::<u128>(5000, 4));
        for report in [ipv4, ipv6] {
            assert_eq!((report.lookups, report.refused), (2 * 4 * 6 * 256, 0));
            assert!(report.ticks < 600, "{report:?}");
        }
    }

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
