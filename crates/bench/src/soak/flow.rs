//! The flow table under growth, ageing and collisions: every answer is held against the naive specification.
//!
//! Each table has a bound and a pool of keys, from which entries come and go. It grows in steps between them, and groups are visited
//! as by ageing. The hashes of some pools have few values, so that buckets and groups are full. After each step keys of the pool are
//! looked up by the vector, in both ways that nodes have, and values are written through the lookup.

use std::hash::Hash;

use weir_base::random::Random;
use weir_table::flow::naive::Naive;
use weir_table::flow::{BATCH, Full, HALF, Key, Lines, Packed, Place, Secret, Table, VECTOR};

/// Keys that are looked up between two steps.
const KEYS: usize = 4096;
/// Steps in one table.
const STEPS: usize = 25;
/// Entries that come or go in a step, at most.
const CHANGES: u64 = 2000;
/// Keys of a pool, at most.
const POOL: u64 = 60_000;

/// The report of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Lookups held against the specification.
    pub lookups: u64,
    /// Lookups among them that found an entry.
    pub found: u64,
    /// Entries added.
    pub added: u64,
    /// Entries removed one by one.
    pub removed: u64,
    /// Entries removed by visits of their group.
    pub aged: u64,
    /// Entries that there was no room for.
    pub refused: u64,
    /// Tables.
    pub tables: u64,
    /// Groups of the largest table.
    pub groups: usize,
}

/// A key of a pool, whose hash may have few values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Pooled<K> {
    key: K,
    /// The bits of its first word that the hash has; 0 without a bound.
    hashed: K,
}

impl<K: Key> Key for Pooled<K> {
    fn hash(&self, secret: &Secret) -> u64 {
        self.hashed.hash(secret)
    }
}

/// The keys of a family.
pub trait Keys: Key + Hash + Send {
    /// The key of these words.
    fn of(words: [u64; 2]) -> Self;
}

impl Keys for [u64; 2] {
    fn of(words: [u64; 2]) -> Self {
        words
    }
}

impl Keys for [u64; 5] {
    fn of([first, second]: [u64; 2]) -> Self {
        [first, 0, second, first >> 32, second << 16]
    }
}

/// Runs at least so many lookups.
///
/// # Panics
/// At the first wrong answer, with the seed and the table.
pub fn run<K: Keys>(lookups: u64, seed: u64) -> Report {
    let mut random = Random::from_seed(seed);
    let mut report = Report::default();
    while report.lookups < lookups {
        report.tables += 1;
        match random.below(2) {
            0 => Twins::<K, Packed>::new(&mut random, seed, report.tables).run(&mut random, &mut report, lookups),
            _ => Twins::<K, Lines>::new(&mut random, seed, report.tables).run(&mut random, &mut report, lookups),
        }
    }
    report
}

/// A table and its specification, changed alike.
struct Twins<K, A> {
    table: Table<Pooled<K>, u64, A>,
    naive: Naive<Pooled<K>, u64>,
    pool: u64,
    /// Values of hashes of the pool's keys; `None`: as many as keys.
    hashes: Option<u64>,
    /// For messages.
    place: String,
}

impl<K: Keys, A: Copy> Twins<K, A> {
    fn new(random: &mut Random, seed: u64, number: u64) -> Self {
        let pool = 1 + random.below(POOL);
        let hashes = [None, None, None, Some(1), Some(8), Some(300)][random.below(6) as usize];
        let small = [1 + random.below(3) as usize, 200, 1 + random.below(POOL) as usize];
        let most = if random.chance(0.4) { small[random.below(3) as usize] } else { usize::MAX };
        let secret = Secret::new(std::array::from_fn(|_| random.next()));
        let place = format!("seed {seed}, table {number}: {pool} keys, {hashes:?} hashes, bound {most}");
        Twins { table: Table::new(most, secret), naive: Naive::new(most), pool, hashes, place }
    }

    fn key(&self, number: u64) -> Pooled<K> {
        let of = |number: u64| K::of([number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number << 7]);
        Pooled { key: of(number), hashed: of(self.hashes.map_or(number, |hashes| number % hashes)) }
    }

    fn run(mut self, random: &mut Random, report: &mut Report, lookups: u64) {
        // The share of keys that are present drifts, so that tables fill up and empty again.
        let mut fill = 0.8;
        for step in 0..STEPS {
            if step % 10 == 9 {
                fill = [0.1, 0.5, 0.9][random.below(3) as usize];
            }
            self.change(random, report, fill);
            self.check(random, report);
            if report.lookups >= lookups {
                break;
            }
        }
        report.groups = report.groups.max(self.table.groups());
    }

    fn change(&mut self, random: &mut Random, report: &mut Report, fill: f64) {
        match random.below(8) {
            0 => self.age(random, report),
            1 => {
                // Room that no entry takes.
                self.table.prepare(random.below(CHANGES) as usize);
            }
            2 => {
                let most = self.table.most().max(1);
                let own = if most == usize::MAX { most } else { 1 + random.below(2 * most as u64) as usize };
                self.table.set_most(own);
                self.naive.set_most(own);
            }
            _ => {}
        }
        for _ in 0..random.below(CHANGES) {
            let key = self.key(random.below(self.pool));
            match random.chance(fill) {
                true => self.insert(key, random.next(), report),
                false => {
                    let value = self.naive.remove(&key);
                    assert_eq!(self.table.remove(&key), value, "{}: {key:x?} is removed", self.place);
                    report.removed += u64::from(value.is_some());
                }
            }
        }
    }

    fn insert(&mut self, key: Pooled<K>, value: u64, report: &mut Report) {
        if self.naive.value(&key).is_some() {
            return;
        }
        while !self.table.prepare(1) {}
        let given = self.table.insert(key, value);
        match given {
            // A group of keys whose hashes meet.
            Err(Full::Crowded) => {
                assert!(self.hashes.is_some(), "{}: a group is full at {} entries", self.place, self.table.len());
            }
            Err(Full::Bound) | Ok(_) => {
                assert_eq!(given.map(drop), self.naive.insert(key, value), "{}: {key:x?} is added", self.place);
            }
        }
        *(if given.is_ok() { &mut report.added } else { &mut report.refused }) += 1;
    }

    /// Visits some groups, and forgets about one in eight of their entries.
    fn age(&mut self, random: &mut Random, report: &mut Report) {
        let odd = random.next() | 1;
        let goes = |value: u64| value.wrapping_mul(odd) >> 61 == 0;
        for _ in 0..1 + random.below(8) {
            let group = random.below(1 + self.table.groups() as u64) as usize;
            let mut gone = Vec::new();
            self.table.retain_in(group, |key, &value| {
                if goes(value) {
                    gone.push((*key, value));
                }
                !goes(value)
            });
            for (key, value) in gone {
                assert_eq!(self.naive.remove(&key), Some(value), "{}: {key:x?} is forgotten", self.place);
                report.aged += 1;
            }
        }
    }

    fn check(&mut self, random: &mut Random, report: &mut Report) {
        assert_eq!(self.table.len(), self.naive.len(), "{}", self.place);
        let keys: Vec<Pooled<K>> = (0..KEYS).map(|_| self.key(random.below(self.pool + self.pool / 8 + 1))).collect();
        let expected: Vec<Option<u64>> = keys.iter().map(|key| self.naive.value(key).copied()).collect();
        match random.below(3) {
            0 => self.find_each(&keys, &expected),
            1 => self.look_up_halves(&keys, &expected),
            _ => self.look_up(&keys, &expected, random),
        }
        report.lookups += KEYS as u64;
        report.found += expected.iter().flatten().count() as u64;
    }

    /// Finds keys by the vector, and the keys that surely are not there.
    fn find_each(&self, keys: &[Pooled<K>], expected: &[Option<u64>]) {
        for (keys, expected) in keys.chunks(VECTOR).zip(expected.chunks(VECTOR)) {
            let mut places = [Place::NONE; VECTOR];
            self.table.find_each(keys, &mut places);
            for ((key, &place), &expected) in keys.iter().zip(&places).zip(expected) {
                assert_eq!(self.table.value(place).copied(), expected, "{}: {key:x?}", self.place);
            }
            for (keys, expected) in keys.as_chunks::<8>().0.iter().zip(expected.as_chunks::<8>().0) {
                let absent = self.table.absent(keys);
                let wrong = (0..8).find(|&at| absent >> at & 1 != 0 && expected[at].is_some());
                assert_eq!(wrong, None, "{}: of {keys:x?} one is said to be absent", self.place);
            }
        }
    }

    /// Looks up keys while others are sought.
    fn look_up_halves(&mut self, keys: &[Pooled<K>], expected: &[Option<u64>]) {
        let mut lookup = self.table.lookup();
        let mut halves = keys.chunks(HALF).zip(expected.chunks(HALF));
        let mut compared: Option<(usize, Half<'_, K>)> = None;
        loop {
            let next = halves.next();
            next.into_iter().flat_map(|(keys, _)| keys).for_each(|key| lookup.seek(*key));
            let (first, (keys, expected)) = compared.unwrap_or_default();
            for (slot, (key, &expected)) in (first..).zip(keys.iter().zip(expected)) {
                assert_eq!(lookup.value(slot).map(|value| *value), expected, "{}: {key:x?}", self.place);
                assert_eq!(lookup.place(slot) == Place::NONE, expected.is_none(), "{}: {key:x?}", self.place);
            }
            let Some((keys, expected)) = next else { break };
            compared = Some((lookup.compare_half(), (keys, expected)));
        }
    }

    /// Looks up keys in batches, and writes some of their values.
    fn look_up(&mut self, keys: &[Pooled<K>], expected: &[Option<u64>], random: &mut Random) {
        let mut written = Vec::new();
        let mut lookup = self.table.lookup();
        for (keys, expected) in keys.chunks(BATCH).zip(expected.chunks(BATCH)) {
            keys.iter().for_each(|key| lookup.seek(*key));
            lookup.compare();
            for (slot, (key, &expected)) in keys.iter().zip(expected).enumerate() {
                // A key that was written in this turn has another value by now.
                let expected = written.iter().rev().find(|(own, _)| own == key).map_or(expected, |(_, own)| Some(*own));
                let value = lookup.value(slot);
                assert_eq!(value.as_deref().copied(), expected, "{}: {key:x?}", self.place);
                if let Some(value) = value.filter(|_| random.below(256) == 0) {
                    *value = random.next();
                    written.push((*key, *value));
                }
            }
        }
        for (key, value) in written {
            if self.naive.remove(&key).is_some() {
                // The bound may be smaller by now than the number of entries.
                let most = self.table.most();
                self.naive.set_most(usize::MAX);
                assert_eq!(self.naive.insert(key, value), Ok(()), "{}: {key:x?} is written", self.place);
                self.naive.set_most(most);
            }
        }
    }
}

/// Keys with what the specification has for them.
type Half<'a, K> = (&'a [Pooled<K>], &'a [Option<u64>]);

#[cfg(test)]
mod tests {
    use super::*;

    fn all_happens(report: Report) {
        let Report { lookups, found, added, removed, aged, refused, tables, groups } = report;
        assert!(lookups >= 500_000 && found > lookups / 50 && found < lookups, "{report:?}");
        assert!(added > 1_000 && removed > 100 && aged > 10 && refused > 10, "{report:?}");
        assert!(tables > 1 && groups > 1, "{report:?}");
    }

    /// Runs a share of `soak flow`.
    #[test]
    fn keys_of_ipv4_are_found_as_by_the_specification() {
        all_happens(run::<[u64; 2]>(1_000_000, 1));
    }

    #[test]
    fn keys_of_ipv6_are_found_as_by_the_specification() {
        all_happens(run::<[u64; 5]>(1_000_000, 2));
    }
}
