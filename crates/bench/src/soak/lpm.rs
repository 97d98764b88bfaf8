//! The long differential run: tables under random changes, every answer held against [`indexed`](weir_table::lpm::indexed).
//!
//! Each *shape* is a pool of prefixes of some character. Routes from it come and go, one by one, in transactions, and
//! in transactions that are dropped; after each step thousands of keys are looked up, at the edges of what changed and
//! elsewhere. Older tables are kept for a while, and must go on giving their old answers. Some tables have little room
//! and refuse routes, which must not change anything. In the end all routes go, and all memory must be free again.

use std::sync::Arc;

use weir_base::random::Random;
use weir_base::reclaim::{Domain, Reader};

use weir_table::lpm::indexed::Indexed;
use weir_table::lpm::sample::{Draw, inside_one, shapes};
use weir_table::lpm::{Full, Key, Limits, Prefix, Table, Value, Writer};

/// Keys that are looked up between two steps.
const KEYS_PER_STEP: usize = 4096;

/// Steps in one table before the next shape gets a fresh one.
const STEPS: usize = 400;

/// The report of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Lookups held against the oracle.
    pub lookups: u64,
    /// Routes added, changed or removed.
    pub updates: u64,
    /// Transactions, including dropped ones.
    pub transactions: u64,
    /// Routes that there was no room for.
    pub refusals: u64,
}

/// Runs at least so many lookups.
///
/// # Panics
/// At the first wrong answer, with the seed, the key and both answers.
pub fn run<K: Draw>(lookups: u64, seed: u64) -> Report {
    let mut random = Random::from_seed(seed);
    let mut report = Report::default();
    for round in 0.. {
        for shape in shapes::<K>(&mut random) {
            Run::new(&shape, &mut random)
                .run(&mut random, &mut report, lookups, || format!("seed {seed}, round {round}"));
            if report.lookups >= lookups {
                return report;
            }
        }
    }
    report
}

/// An older table, and what it must go on answering.
struct Kept<K: Key> {
    table: Arc<Table<K>>,
    oracle: Indexed<K>,
}

struct Run<'p, K: Draw> {
    pool: &'p [Prefix<K>],
    writer: Writer<K>,
    /// Whether there may be less room than the routes take.
    tight: bool,
    oracle: Indexed<K>,
    reader: Reader,
    kept: Vec<Kept<K>>,
    keys: Vec<K>,
    answers: Vec<u32>,
}

impl<'p, K: Draw> Run<'p, K> {
    fn new(pool: &'p [Prefix<K>], random: &mut Random) -> Self {
        let domain = Domain::new();
        let tight = random.chance(0.5);
        let max_bytes = if tight { empty::<K>() + (2048 << random.below(3)) } else { 64 << 20 };
        let limits = Limits { max_routes: pool.len(), max_bytes };
        Run {
            pool,
            writer: Writer::new(&domain, limits).expect("there is address space"),
            tight,
            oracle: Indexed::new(),
            reader: domain.reader().expect("the first reader"),
            kept: Vec::new(),
            keys: Vec::new(),
            answers: vec![0; KEYS_PER_STEP],
        }
    }

    fn run(&mut self, random: &mut Random, report: &mut Report, lookups: u64, place: impl Fn() -> String) {
        // The share of routes that are present drifts, so that tables fill up and empty again.
        let mut fill = 0.8;
        for step in 0..STEPS {
            if step % 50 == 49 {
                fill = [0.1, 0.5, 0.9][random.below(3) as usize];
            }
            self.keys.clear();
            match random.below(10) {
                0 => self.transaction(random, report, fill),
                _ => self.change_in_place(random, report, fill),
            }
            self.check(random, report, &place);
            if report.lookups >= lookups {
                break;
            }
        }
        self.kept.clear();
        for prefix in self.pool {
            assert_eq!(self.writer.remove(prefix), self.oracle.remove(prefix));
        }
        self.writer.collect();
        assert_eq!(self.writer.stats().bytes, empty::<K>(), "{}: memory is lost", place());
    }

    fn change_in_place(&mut self, random: &mut Random, report: &mut Report, fill: f64) {
        for _ in 0..1 + random.below(8) {
            let (prefix, value) = self.pick(random, fill);
            match value {
                Some(value) => {
                    let given = self.writer.insert(prefix, value);
                    report.refusals += inserted(&mut self.oracle, self.tight, given, prefix, value);
                }
                None => assert_eq!(self.writer.remove(&prefix), self.oracle.remove(&prefix)),
            }
            report.updates += 1;
        }
    }

    fn transaction(&mut self, random: &mut Random, report: &mut Report, fill: f64) {
        let before = Kept { table: self.writer.table(), oracle: self.oracle.clone() };
        let changes: Vec<_> = (0..1 + random.below(200)).map(|_| self.pick(random, fill)).collect();
        let mut transaction = self.writer.transaction();
        for (prefix, value) in changes {
            match value {
                Some(value) => {
                    let given = transaction.insert(prefix, value);
                    report.refusals += inserted(&mut self.oracle, self.tight, given, prefix, value);
                }
                None => assert_eq!(transaction.remove(&prefix), self.oracle.remove(&prefix)),
            }
            report.updates += 1;
        }
        report.transactions += 1;
        if random.chance(0.3) {
            drop(transaction);
            self.oracle = before.oracle;
            return;
        }
        transaction.commit();
        if random.chance(0.5) {
            self.kept.push(before);
        }
        while self.kept.len() > random.below(4) as usize {
            self.kept.swap_remove(random.below(self.kept.len() as u64) as usize);
        }
    }

    /// A prefix, and the value that it gets, or none if it goes. Both edges of it will be looked up.
    fn pick(&mut self, random: &mut Random, fill: f64) -> (Prefix<K>, Option<Value>) {
        let prefix = self.pool[random.below(self.pool.len() as u64) as usize];
        self.keys.extend([prefix.address(), prefix.last()]);
        // Few values, so that neighbours are often equal and runs join.
        let value = random.chance(fill).then(|| Value::new(1 + random.below(5) as u32).expect("not zero"));
        (prefix, value)
    }

    fn check(&mut self, random: &mut Random, report: &mut Report, place: &impl Fn() -> String) {
        self.keys.truncate(KEYS_PER_STEP / 2);
        while self.keys.len() < KEYS_PER_STEP {
            let prefix = &self.pool[random.below(self.pool.len() as u64) as usize];
            let key = match random.below(16) {
                0 => K::draw(random),
                1 => prefix.last(),
                2 => prefix.address(),
                _ => inside_one(prefix, random),
            };
            self.keys.push(key);
        }
        let guard = self.reader.pin();
        let current = self.writer.table();
        let kept = self.kept.iter().map(|kept| (&kept.table, &kept.oracle));
        for (table, oracle) in std::iter::once((&current, &self.oracle)).chain(kept) {
            for (keys, answers) in self.keys.chunks(256).zip(self.answers.chunks_mut(256)) {
                table.lookup_batch(&guard, keys, &mut answers[..keys.len()]);
            }
            for (&key, &answer) in self.keys.iter().zip(&self.answers) {
                let expected = oracle.lookup(key);
                assert_eq!(answer, expected, "{}: key {key:x?}", place());
            }
            report.lookups += self.keys.len() as u64;
        }
    }
}

/// Octets of a table without routes: its directory.
fn empty<K: Key>() -> usize {
    4 << K::DIRECTORY
}

/// Holds what an insertion gave against the oracle, which follows. How many routes were refused.
fn inserted<K: Draw>(
    oracle: &mut Indexed<K>,
    tight: bool,
    given: Result<Option<Value>, Full>,
    prefix: Prefix<K>,
    value: Value,
) -> u64 {
    match given {
        Ok(old) => {
            assert_eq!(old, oracle.insert(prefix, value));
            0
        }
        Err(full) => {
            assert!(tight && matches!(full, Full::Bytes(_)), "{full}");
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a share of `soak lpm`.
    #[test]
    fn ipv4_answers_as_the_oracle_does() {
        assert!(run::<u32>(2_000_000, 4).refusals > 20);
    }

    #[test]
    fn ipv6_answers_as_the_oracle_does() {
        assert!(run::<u128>(2_000_000, 5).refusals > 20);
    }
}
