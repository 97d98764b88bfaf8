//! The long differential run: all meanings and layouts under random changes, every verdict held against
//! [`indexed`](weir_table::sav::indexed) while the changes go on.
//!
//! Each *shape* is a pool of prefixes of some character. A writer sets entries of it and takes them out, one by one, in
//! batches, and by building all tables anew. Readers look up vectors of sources at the same time, each in all tables.
//!
//! A reader has an oracle of its own. It knows the version of the rules that was complete when it began to read, and
//! the version that had begun when its vector was done: each verdict must be right in one of these versions. The tables
//! must agree with each other by the same measure: a merged table, one with a row for each prefix, and tables per line
//! card, looked up in either order. Beside them are tables of lists of all modes. Replaced tables are kept for a while,
//! and must still give their old verdicts, although their rows have become free in the newer table.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use weir_base::random::Random;
use weir_base::reclaim::{Domain, Reader};

use weir_table::lpm::Prefix;
use weir_table::lpm::sample::{Draw, inside_one, mixed};

use weir_table::sav::indexed::Indexed;
use weir_table::sav::{
    AnyCovering, CardReading, Cards, Limits, Lists, Match, Merged, Mode, Modes, MostSpecific, Order, Ordered, Pair,
    Reading, Rule, Set, Verdict,
};

/// Sources that are looked up together.
const VECTOR: usize = 256;

/// Readers of each family.
const READERS: usize = 2;

/// The number of vectors that a reader looks up in a version, before it waits for the next one.
const VECTORS: u32 = 8;

/// Versions that a reader may lag behind.
const LAG: usize = 16;

/// The interfaces of each line card.
const CARDS: [&[u32]; 3] = [&[0, 1, 2], &[3, 64], &[5, 127, 128]];

/// The report of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Verdicts held against the oracle.
    pub lookups: u64,
    /// Entries set or taken out.
    pub entries: u64,
    /// Changes of one entry.
    pub singles: u64,
    /// Changes of many together.
    pub batches: u64,
    /// Tables built anew.
    pub rebuilt: u64,
}

/// Runs at least so many lookups, over all shapes and over `real`, if it is not empty.
///
/// # Panics
/// At the first wrong verdict, with the seed, the source and the interface.
pub fn run<K: Draw>(lookups: u64, seed: u64, real: &[Prefix<K>]) -> Report {
    let mut random = Random::from_seed(seed);
    let mut report = Report::default();
    for round in 0.. {
        let mut pools = shapes::<K>(&mut random);
        if !real.is_empty() {
            pools.push(real.to_vec());
        }
        let share = lookups.div_ceil(pools.len() as u64).min(100_000_000);
        for (shape, pool) in pools.iter().enumerate() {
            if report.lookups >= lookups {
                return report;
            }
            let until = share.min(lookups - report.lookups);
            run_shape(pool, random.next(), until, &mut report, &format!("seed {seed}, round {round}, shape {shape}"));
        }
    }
    report
}

/// Pools of prefixes, of every character that matters.
pub fn shapes<K: Draw>(random: &mut Random) -> Vec<Vec<Prefix<K>>> {
    let prefix = |key: K, len: u8| Prefix::new(key, len).expect("the length is in range");
    let site = K::draw(random);
    // Every length along a few paths that part at different depths.
    let chains = (0..6u8)
        .flat_map(|number| {
            let path = site.splice(number * (K::BITS / 6), K::draw(random));
            (0..=K::BITS).map(move |len| prefix(path, len))
        })
        .collect();
    // Siblings that differ in the last bits of a long common prefix, with what covers them.
    let siblings = (0..800)
        .map(|_| {
            let deep = K::BITS - random.below(12) as u8;
            let key = site.splice(K::BITS - 12, K::draw(random));
            prefix(key, if random.chance(0.1) { random.below(u64::from(K::BITS)) as u8 } else { deep })
        })
        .collect();
    // Lengths as real ones have, a fifth nested; and the same crowded into a corner.
    let real = mixed(3000, 0.2, random);
    let corner = mixed::<K>(1500, 0.4, random)
        .into_iter()
        .map(|one| prefix(site.splice(K::BITS / 8, one.address()), one.len().max(K::BITS / 8)))
        .collect();
    // Short ones, whose states are those of all that lies inside.
    let short = (0..300)
        .map(|_| {
            let len = if random.chance(0.5) { random.below(6) } else { random.below(24) };
            prefix(K::draw(random), len as u8)
        })
        .collect();
    vec![chains, siblings, real, corner, short]
}

type Changes<K, E> = Vec<(Prefix<K>, Option<E>)>;

/// The changes between a version and the one before.
struct Step<K> {
    sets: Changes<K, Set>,
    rules: Changes<K, Vec<Rule>>,
    lists: Changes<K, Lists>,
}

/// The expected verdicts of a version.
#[derive(Clone)]
struct Oracle<K> {
    sets: Indexed<K, Set>,
    rules: Indexed<K, Vec<Rule>>,
    lists: Indexed<K, Lists>,
}

impl<K: Draw> Oracle<K> {
    fn new() -> Self {
        Oracle { sets: Indexed::default(), rules: Indexed::default(), lists: Indexed::default() }
    }

    fn apply(&mut self, step: &Step<K>) {
        step.sets.iter().for_each(|(prefix, set)| self.sets.set(*prefix, set.clone()));
        step.rules.iter().for_each(|(prefix, rules)| self.rules.set(*prefix, rules.clone()));
        step.lists.iter().for_each(|(prefix, lists)| self.lists.set(*prefix, lists.clone()));
    }

    /// Most specific, any covering, ordered; and lists of all modes, most specific and any covering.
    fn verdicts(&self, source: K, interface: u32) -> [Verdict; 5] {
        [
            self.sets.most_specific(source, interface),
            self.sets.any_covering(source, interface),
            self.rules.ordered(source, interface),
            self.lists.modes(Match::MostSpecific, source, interface),
            self.lists.modes(Match::AnyCovering, source, interface),
        ]
    }
}

/// All tables.
struct Tables<K: Draw> {
    most_specific: Merged<K, MostSpecific>,
    counted: Merged<K, MostSpecific>,
    any_covering: Merged<K, AnyCovering>,
    ordered: Merged<K, Ordered>,
    modes: Merged<K, Modes<false>>,
    modes_counted: Merged<K, Modes<false>>,
    modes_any: Merged<K, Modes<true>>,
    cards: [Cards<K>; 2],
}

const MATCHES: [Match; 2] = [Match::MostSpecific, Match::AnyCovering];

impl<K: Draw> Tables<K> {
    fn new(domain: &Domain, prefixes: usize) -> Self {
        let limits = Limits {
            // One more for that of no bits.
            prefixes: prefixes + 1,
            bytes: (64 << 20).max(prefixes * 400),
            sets: 20 * prefixes as u32 + 1000,
            interfaces: 130,
            distinct: false,
        };
        let cards = || CARDS.iter().map(|interfaces| interfaces.iter().copied().collect());
        let room = "the limits are wide";
        Tables {
            most_specific: Merged::new(domain, limits).expect(room),
            counted: Merged::new(domain, Limits { distinct: true, prefixes: 20 * prefixes, ..limits }).expect(room),
            any_covering: Merged::new(domain, limits).expect(room),
            ordered: Merged::new(domain, limits).expect(room),
            modes: Merged::new(domain, limits).expect(room),
            modes_counted: Merged::new(domain, Limits { distinct: true, prefixes: 20 * prefixes, ..limits })
                .expect(room),
            modes_any: Merged::new(domain, limits).expect(room),
            cards: MATCHES.map(|matching| Cards::new(domain, matching, cards(), limits).expect(room)),
        }
    }

    fn set(&mut self, step: &Step<K>) {
        let room = "the limits are wide";
        for (prefix, set) in &step.sets {
            self.most_specific.set(*prefix, set.clone()).expect(room);
            self.counted.set(*prefix, set.clone()).expect(room);
            self.any_covering.set(*prefix, set.clone()).expect(room);
        }
        for (prefix, rules) in &step.rules {
            self.ordered.set(*prefix, rules.clone()).expect(room);
        }
        match &step.lists[..] {
            [(prefix, lists)] => {
                self.modes.set(*prefix, lists.clone()).expect(room);
                self.modes_counted.set(*prefix, lists.clone()).expect(room);
                self.modes_any.set(*prefix, lists.clone()).expect(room);
            }
            // Which interfaces have allowlists is not to be seen before the lists are.
            _ => self.change_lists(step),
        }
        self.cards.iter_mut().for_each(|cards| cards.change(step.sets.clone()).expect(room));
    }

    fn change(&mut self, step: &Step<K>) {
        let room = "the limits are wide";
        self.most_specific.change(step.sets.clone()).expect(room);
        self.counted.change(step.sets.clone()).expect(room);
        self.any_covering.change(step.sets.clone()).expect(room);
        self.ordered.change(step.rules.clone()).expect(room);
        self.change_lists(step);
        self.cards.iter_mut().for_each(|cards| cards.change(step.sets.clone()).expect(room));
    }

    fn change_lists(&mut self, step: &Step<K>) {
        let room = "the limits are wide";
        self.modes.change(step.lists.clone()).expect(room);
        self.modes_counted.change(step.lists.clone()).expect(room);
        self.modes_any.change(step.lists.clone()).expect(room);
    }

    /// Makes the changes by building each table anew.
    fn rebuild(&mut self, step: &Step<K>) {
        fn after<K: Draw, M: weir_table::sav::Meaning>(
            table: &Merged<K, M>,
            changes: &Changes<K, M::Entry>,
        ) -> Vec<(Prefix<K>, M::Entry)> {
            let mut all: std::collections::BTreeMap<_, _> =
                table.iter().map(|(prefix, entry, _)| (prefix, entry.clone())).collect();
            for (prefix, entry) in changes {
                match entry {
                    Some(entry) => drop(all.insert(*prefix, entry.clone())),
                    None => drop(all.remove(prefix)),
                }
            }
            all.into_iter().collect()
        }
        let room = "the limits are wide";
        let (sets, rules) = (after(&self.most_specific, &step.sets), after(&self.ordered, &step.rules));
        let lists = after(&self.modes, &step.lists);
        self.modes.replace_all(lists.clone()).expect(room);
        self.modes_counted.replace_all(lists.clone()).expect(room);
        self.modes_any.replace_all(lists).expect(room);
        self.most_specific.replace_all(sets.clone()).expect(room);
        self.counted.replace_all(sets.clone()).expect(room);
        self.any_covering.replace_all(sets.clone()).expect(room);
        self.ordered.replace_all(rules).expect(room);
        self.cards.iter_mut().for_each(|cards| cards.replace_all(sets.clone()).expect(room));
    }

    fn readings(&self) -> Readings<K> {
        let cards = |cards: &Cards<K>| {
            (0..CARDS.len()).map(|card| cards.reading(card).expect("there is this card")).collect::<Vec<_>>()
        };
        Readings {
            merged: [
                self.most_specific.reading(),
                self.counted.reading(),
                self.any_covering.reading(),
                self.ordered.reading(),
            ],
            modes: [self.modes.reading(), self.modes_counted.reading(), self.modes_any.reading()],
            cards: [cards(&self.cards[0]), cards(&self.cards[1])],
        }
    }
}

/// The readers' views of all tables.
#[derive(Clone)]
struct Readings<K: Draw> {
    merged: [Reading<K>; 4],
    modes: [Reading<K, Pair>; 3],
    cards: [Vec<CardReading<K>>; 2],
}

/// A vector of questions, and the verdicts of all tables.
struct Vector<K> {
    sources: Vec<K>,
    interfaces: Vec<u32>,
    /// Each with the place of the meaning.
    verdicts: Vec<(usize, Vec<Verdict>)>,
    rows: Vec<u32>,
    lengths: Vec<u32>,
}

impl<K: Draw> Vector<K> {
    fn new() -> Self {
        Vector {
            sources: Vec::new(),
            interfaces: vec![0; VECTOR],
            verdicts: [0, 0, 1, 2, 3, 3, 4, 0, 0, 1, 1]
                .map(|meaning| (meaning, vec![Verdict::Unknown; VECTOR]))
                .to_vec(),
            rows: vec![0; VECTOR],
            lengths: vec![0; VECTOR],
        }
    }

    /// Looks up a vector in all tables.
    fn ask(&mut self, readings: &Readings<K>, reader: &mut Reader, pool: &[Prefix<K>], random: &mut Random) {
        let any = |random: &mut Random| pool[random.below(pool.len() as u64) as usize];
        self.sources.clear();
        self.sources.extend((0..VECTOR).map(|_| match random.below(16) {
            0 => K::draw(random),
            1 => any(random).last(),
            2 => any(random).address(),
            // Next to a prefix.
            3 => {
                let beside = any(random);
                beside.address().splice(beside.len().saturating_sub(1), K::draw(random))
            }
            _ => inside_one(&any(random), random),
        }));
        let card = random.below(CARDS.len() as u64) as usize;
        let of_card = CARDS[card];
        self.interfaces.fill_with(|| of_card[random.below(of_card.len() as u64) as usize]);
        let guard = reader.pin();
        let (merged, others) = self.verdicts.split_at_mut(readings.merged.len());
        let (modes, cards) = others.split_at_mut(readings.modes.len());
        for (reading, (_, verdicts)) in readings.merged.iter().zip(merged) {
            reading.rows_batch(&guard, &self.sources, &mut self.rows);
            for ((verdict, &row), &interface) in verdicts.iter_mut().zip(&self.rows).zip(&self.interfaces) {
                *verdict = reading.verdict(row, interface);
            }
        }
        for (reading, (_, verdicts)) in readings.modes.iter().zip(modes) {
            reading.rows_batch(&guard, &self.sources, &mut self.rows);
            for ((verdict, &row), &interface) in verdicts.iter_mut().zip(&self.rows).zip(&self.interfaces) {
                *verdict = reading.verdict(row, interface);
            }
        }
        let orders =
            readings.cards.iter().flat_map(|cards| [Order::Serial, Order::Parallel].map(|order| (cards, order)));
        for ((cards, order), (_, verdicts)) in orders.zip(cards) {
            let (source, interface) = (|place: usize| self.sources[place], |place: usize| self.interfaces[place]);
            cards[card].check_each(&guard, order, source, interface, &mut self.rows, &mut self.lengths, verdicts);
        }
    }

    /// The places where a verdict is not right, of those given; all verdicts there are marked that are.
    fn wrong(&self, oracle: &Oracle<K>, among: impl Iterator<Item = (usize, u16)>) -> Vec<(usize, u16)> {
        let still = |(place, open): (usize, u16)| {
            let right = oracle.verdicts(self.sources[place], self.interfaces[place]);
            let answers = self.verdicts.iter().enumerate();
            let wrong = answers.filter(|(_, (meaning, verdicts))| verdicts[place] != right[*meaning]);
            let open = wrong.fold(0, |wrong, (table, _)| wrong | 1 << table) & open;
            (open != 0).then_some((place, open))
        };
        among.filter_map(still).collect()
    }

    fn lookups(&self) -> u64 {
        (self.sources.len() * self.verdicts.len()) as u64
    }

    fn explain(&self, (place, open): (usize, u16), what: &str) -> String {
        let (source, interface) = (self.sources[place], self.interfaces[place]);
        let said: Vec<_> = self.verdicts.iter().map(|(_, verdicts)| verdicts[place]).collect();
        format!("{what}: source {source:x?} by {interface}: tables {open:#b} are wrong; all said {said:?}")
    }
}

/// The state that the writer shares with the readers.
struct Shared<K: Draw> {
    /// The readings of the last complete version, and its number.
    current: Mutex<(u64, Arc<Readings<K>>)>,
    /// The last version that has begun.
    begun: AtomicU64,
    lookups: AtomicU64,
    stop: AtomicBool,
}

/// Ends the readers, also when the writer panics.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn run_shape<K: Draw>(pool: &[Prefix<K>], seed: u64, lookups: u64, report: &mut Report, place: &str) {
    let domain = Domain::new();
    let tables = Tables::new(&domain, pool.len());
    let shared = Shared {
        current: Mutex::new((0, Arc::new(tables.readings()))),
        begun: AtomicU64::new(0),
        lookups: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let mut channels = Vec::new();
        for number in 0..READERS as u64 {
            let (sender, steps) = sync_channel(LAG);
            channels.push(sender);
            let (shared, reader) = (&shared, domain.reader().expect("there are few readers"));
            let random = Random::from_seed(seed ^ (number + 1));
            scope.spawn(move || read(pool, shared, reader, &steps, random, place));
        }
        let _stop = Stop(&shared.stop);
        let reader = domain.reader().expect("there are few readers");
        let mut run = Writing {
            pool,
            tables,
            oracle: Oracle::new(),
            version: 0,
            fill: 0.7,
            place: 0,
            lists: BTreeMap::new(),
            named: BTreeMap::new(),
            kept: Vec::new(),
        };
        run.write(&shared, &channels, lookups, reader, Random::from_seed(seed), report, place);
    });
    report.lookups += shared.lookups.load(Ordering::Relaxed);
}

/// Runs a reader: looks up vectors, and compares the verdicts with the versions that were in force.
fn read<K: Draw>(
    pool: &[Prefix<K>],
    shared: &Shared<K>,
    mut reader: Reader,
    steps: &Receiver<Arc<Step<K>>>,
    mut random: Random,
    what: &str,
) {
    let (mut oracle, mut version) = (Oracle::new(), 0);
    let (mut vector, mut asked) = (Vector::new(), 0);
    let all = (1 << vector.verdicts.len()) - 1;
    // Steps come before their version begins, so those of versions that have begun are there, unless the writer ended.
    let advance = |oracle: &mut Oracle<K>, version: &mut u64| {
        let Ok(step) = steps.recv() else { return false };
        oracle.apply(&step);
        *version += 1;
        true
    };
    while !shared.stop.load(Ordering::Relaxed) {
        let (complete, readings) = shared.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if complete < version || (complete == version && asked == VECTORS) {
            // Perhaps a version had begun that is not complete yet.
            thread::yield_now();
            continue;
        }
        while version < complete {
            if !advance(&mut oracle, &mut version) {
                return;
            }
            asked = 0;
        }
        while asked < VECTORS {
            asked += 1;
            vector.ask(&readings, &mut reader, pool, &mut random);
            let begun = shared.begun.load(Ordering::Acquire);
            let mut wrong = vector.wrong(&oracle, (0..VECTOR).map(|place| (place, all)));
            let ahead = begun > version && !wrong.is_empty();
            while version < begun && !wrong.is_empty() {
                if !advance(&mut oracle, &mut version) {
                    return;
                }
                wrong = vector.wrong(&oracle, wrong.into_iter());
            }
            if let Some(&first) = wrong.first() {
                panic!("{}", vector.explain(first, &format!("{what}, versions {complete} to {begun}")));
            }
            shared.lookups.fetch_add(vector.lookups(), Ordering::Relaxed);
            if ahead {
                // The oracle is of a later version than these readings may be.
                asked = 0;
                break;
            }
        }
    }
}

/// A replaced table, and the verdicts that it must still give.
struct Kept<K: Draw> {
    readings: Readings<K>,
    oracle: Oracle<K>,
}

struct Writing<'p, K: Draw> {
    pool: &'p [Prefix<K>],
    tables: Tables<K>,
    oracle: Oracle<K>,
    version: u64,
    /// The share of prefixes that get entries; it drifts, so that tables fill up and empty again.
    fill: f64,
    /// The place of the last rule.
    place: u64,
    /// The lists of each prefix.
    lists: BTreeMap<Prefix<K>, Lists>,
    /// How many allowlists of prefixes each interface stands in.
    named: BTreeMap<u32, usize>,
    kept: Vec<Kept<K>>,
}

impl<K: Draw> Writing<'_, K> {
    #[expect(clippy::too_many_arguments, reason = "what a run consists of")]
    fn write(
        &mut self,
        shared: &Shared<K>,
        channels: &[SyncSender<Arc<Step<K>>>],
        lookups: u64,
        mut reader: Reader,
        mut random: Random,
        report: &mut Report,
        what: &str,
    ) {
        let mut vector = Vector::new();
        let all = (1 << vector.verdicts.len()) - 1;
        while shared.lookups.load(Ordering::Relaxed) < lookups {
            // At first, many; then what is rare.
            let kind = match self.version {
                0 => 38,
                1..=3 => 39,
                _ => random.below(40),
            };
            let count = match kind {
                _ if self.version == 0 => self.pool.len() as u64,
                0..30 => 1,
                30..39 => 1 + random.below(1 + self.pool.len() as u64 / 8),
                _ => 1 + random.below(1 + self.pool.len() as u64 / 2),
            };
            if kind == 39 {
                self.fill = [0.1, 0.5, 0.9][random.below(3) as usize];
            }
            let step = Arc::new(self.step(count as usize, &mut random));
            for channel in channels {
                // A reader that is gone has panicked: so will the scope.
                if channel.send(Arc::clone(&step)).is_err() {
                    return;
                }
            }
            self.version += 1;
            shared.begun.store(self.version, Ordering::Release);
            let before = (kind >= 30 && random.chance(0.3))
                .then(|| Kept { readings: self.tables.readings(), oracle: self.oracle.clone() });
            match kind {
                0..30 => {
                    self.tables.set(&step);
                    report.singles += 1;
                }
                30..39 => {
                    self.tables.change(&step);
                    report.batches += 1;
                }
                _ => {
                    self.tables.rebuild(&step);
                    report.rebuilt += 1;
                }
            }
            report.entries += (step.sets.len() + step.rules.len() + step.lists.len()) as u64;
            self.oracle.apply(&step);
            let readings = self.tables.readings();
            // Where nothing was painted, the older table is still the current one.
            let replaced = |kept: &Kept<K>| {
                kept.readings.merged.iter().zip(&readings.merged).all(|(before, after)| !before.is_same(after))
                    && kept.readings.modes.iter().zip(&readings.modes).all(|(before, after)| !before.is_same(after))
            };
            self.kept.extend(before.filter(replaced));
            *shared.current.lock().unwrap_or_else(PoisonError::into_inner) = (self.version, Arc::new(readings));
            while self.kept.len() > random.below(4) as usize {
                self.kept.swap_remove(random.below(self.kept.len() as u64) as usize);
            }
            for kept in &self.kept {
                vector.ask(&kept.readings, &mut reader, self.pool, &mut random);
                let wrong = vector.wrong(&kept.oracle, (0..VECTOR).map(|place| (place, all)));
                if let Some(&first) = wrong.first() {
                    panic!("{}", vector.explain(first, &format!("{what}, an older table at version {}", self.version)));
                }
                shared.lookups.fetch_add(vector.lookups(), Ordering::Relaxed);
            }
        }
    }

    /// Changes of some prefixes of the pool.
    fn step(&mut self, count: usize, random: &mut Random) -> Step<K> {
        let mut step = Step { sets: Vec::with_capacity(count), rules: Vec::with_capacity(count), lists: Vec::new() };
        let allowlisted = self.allowlisted();
        for _ in 0..count {
            let prefix = self.pool[random.below(self.pool.len() as u64) as usize];
            let here = random.chance(self.fill);
            step.sets.push((prefix, here.then(|| some(random))));
            let prefix = self.pool[random.below(self.pool.len() as u64) as usize];
            let rules = here.then(|| (0..1 + random.below(2)).map(|_| self.rule(random)).collect());
            step.rules.push((prefix, rules));
            let prefix = self.pool[random.below(self.pool.len() as u64) as usize];
            let lists = here.then(|| lists(random));
            self.note(prefix, lists.clone());
            step.lists.push((prefix, lists));
        }
        // The prefix of no bits says which interfaces have allowlists.
        let now = self.allowlisted();
        if now != allowlisted || step.lists.iter().any(|(prefix, _)| *prefix == Prefix::ALL) {
            let lists = self.lists.get(&Prefix::ALL).cloned().unwrap_or_default().with_allowlisted(now);
            step.lists.push((Prefix::ALL, Some(lists).filter(|lists| !lists.is_empty())));
        }
        step
    }

    /// The interfaces with allowlists.
    fn allowlisted(&self) -> Set {
        self.named.keys().copied().collect()
    }

    fn note(&mut self, prefix: Prefix<K>, lists: Option<Lists>) {
        for interface in lists.iter().filter_map(|lists| lists.of(Mode::InterfaceAllow)).flat_map(Set::iter) {
            *self.named.entry(interface).or_default() += 1;
        }
        let before = match lists {
            Some(lists) => self.lists.insert(prefix, lists),
            None => self.lists.remove(&prefix),
        };
        for interface in before.iter().filter_map(|lists| lists.of(Mode::InterfaceAllow)).flat_map(Set::iter) {
            *self.named.entry(interface).or_default() -= 1;
        }
        self.named.retain(|_, count| *count > 0);
    }

    /// A rule at a place that no other has.
    fn rule(&mut self, random: &mut Random) -> Rule {
        self.place += 1;
        Rule {
            // An order that is not that of the changes: multiplying by an odd number loses nothing.
            place: self.place.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            interfaces: some(random),
            permit: random.chance(0.6),
        }
    }
}

/// Draws lists of some modes. Some interfaces never have allowlists, so that the other lists decide, too.
fn lists(random: &mut Random) -> Lists {
    let mut lists = Lists::default();
    for _ in 0..1 + random.below(2) {
        match random.below(8) {
            0 => lists.add(Mode::InterfaceAllow, &[0, 3, 127].into_iter().filter(|_| random.chance(0.3)).collect()),
            1 | 2 => lists.add(Mode::InterfaceBlock, &some(random)),
            3..=5 => lists.add(Mode::PrefixAllow, &some(random)),
            _ => lists.add(Mode::PrefixBlock, &some(random)),
        }
    }
    lists
}

/// A set of the cards' interfaces, sometimes with one that no card has.
fn some(random: &mut Random) -> Set {
    let all: Vec<u32> = CARDS.concat();
    (0..random.below(4))
        .map(|_| if random.chance(0.05) { 77 } else { all[random.below(all.len() as u64) as usize] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a share of `soak sav`.
    #[test]
    fn ipv4_verdicts_are_the_oracles() {
        let report = run::<u32>(2_000_000, 4, &[]);
        assert!(report.singles > 20 && report.batches > 5 && report.rebuilt > 2, "{report:?}");
    }

    #[test]
    fn ipv6_verdicts_are_the_oracles() {
        let report = run::<u128>(2_000_000, 6, &[]);
        assert!(report.singles > 20 && report.batches > 5 && report.rebuilt > 2, "{report:?}");
    }
}
