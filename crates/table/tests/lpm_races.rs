//! Longest-prefix match changed under readers on other threads, in tables that are small enough for Miri:
//!
//!     cargo +nightly miri test -p weir-table --test lpm_races
//!
//! takes some minutes and finds reads that race with writes, and pointers that are used where they are not valid.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_table::lpm::indexed::Indexed;
use weir_table::lpm::sample::{self, Draw};
use weir_table::lpm::{Limits, Prefix, Value, Writer};

const LIMITS: Limits = Limits { max_routes: 1000, max_bytes: 1 << 20 };
const CHANGES: usize = if cfg!(miri) { 24 } else { 20_000 };
const KEYS: usize = if cfg!(miri) { 12 } else { 256 };

fn value(value: u32) -> Value {
    Value::new(value).unwrap()
}

/// Prefixes around one address: some at every depth, and enough in one place to fill the largest node and make an array.
fn pool<K: Draw>(random: &mut Random) -> Vec<Prefix<K>> {
    let site = K::draw(random);
    let beside = |shared: u8, random: &mut Random| {
        let len = (shared + random.below(12) as u8).clamp(15, K::BITS);
        Prefix::new(site.splice(shared, K::draw(random)), len).unwrap()
    };
    let mut pool = vec![Prefix::ALL];
    for shared in [0, 16, 24, K::BITS - 24, K::BITS - 8] {
        pool.extend((0..6).map(|_| beside(shared, random)));
    }
    let (bits, count) = if K::BITS == 128 { (9, 90) } else { (6, 20) };
    let place = K::DIRECTORY + 8;
    pool.extend(
        (0..count)
            .map(|number| Prefix::new(site.truncate(place).place(place, bits, 2 * number), place + bits).unwrap()),
    );
    pool
}

/// Every answer of a reader must be one that was right at some time during the lookup.
fn changes_are_seen_whole<K: Draw>(seed: u64) {
    let mut random = Random::from_seed(seed);
    let pool = pool::<K>(&mut random);
    let keys = sample::inside(&pool, KEYS, &mut random);
    let domain = Domain::new();
    let mut writer = Writer::<K>::new(&domain, LIMITS).unwrap();
    let mut oracle = Indexed::new();
    for prefix in &pool {
        oracle.insert(*prefix, value(3));
        writer.insert(*prefix, value(3)).unwrap();
    }
    let answer = |oracle: &Indexed<K>| -> Vec<u32> { keys.iter().map(|&key| oracle.lookup(key)).collect() };
    let mut answers = vec![answer(&oracle)];
    let changes: Vec<_> = (0..CHANGES)
        .map(|_| {
            let prefix = pool[random.below(pool.len() as u64) as usize];
            let new = random.chance(0.5).then(|| value(1 + random.below(9) as u32));
            match new {
                Some(value) => oracle.insert(prefix, value),
                None => oracle.remove(&prefix),
            };
            answers.push(answer(&oracle));
            (prefix, new)
        })
        .collect();
    let table = writer.table();
    let (begun, done, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let looked_up = AtomicUsize::new(0);
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut reader = domain.reader().unwrap();
            let mut out = [0; KEYS];
            while !stop.load(Ordering::Relaxed) {
                let first = done.load(Ordering::SeqCst);
                table.lookup_batch(&reader.pin(), &keys, &mut out);
                let last = begun.load(Ordering::SeqCst);
                for (position, answer) in out.iter().enumerate() {
                    let valid = answers[first..=last].iter().any(|answers| answers[position] == *answer);
                    assert!(valid, "key {:x?}: {answer}", keys[position]);
                }
                looked_up.fetch_add(1, Ordering::Relaxed);
            }
        });
        for (number, (prefix, new)) in changes.iter().enumerate() {
            begun.store(number + 1, Ordering::SeqCst);
            match new {
                Some(value) => writer.insert(*prefix, *value).unwrap(),
                None => writer.remove(prefix),
            };
            // Blocks are used again as early as can be.
            writer.collect();
            done.store(number + 1, Ordering::SeqCst);
            // Half of the changes wait until the reader is at work.
            while number == CHANGES / 2 && looked_up.load(Ordering::Relaxed) == 0 && !reading.is_finished() {
                thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(looked_up.into_inner() > 0, "nothing was looked up while routes changed");
}

/// A reader that holds an older table gets its old answers, until it drops it, whatever becomes of the current one.
fn older_tables_stay<K: Draw>(seed: u64) {
    let mut random = Random::from_seed(seed);
    let pool = pool::<K>(&mut random);
    let keys = sample::inside(&pool, KEYS, &mut random);
    let domain = Domain::new();
    let mut writer = Writer::<K>::new(&domain, LIMITS).unwrap();
    for round in 0..if cfg!(miri) { 1 } else { 200 } {
        let mut oracle = Indexed::new();
        for prefix in &pool {
            let value = value(1 + random.below(9) as u32);
            oracle.insert(*prefix, value);
            writer.insert(*prefix, value).unwrap();
        }
        let answers: Vec<u32> = keys.iter().map(|&key| oracle.lookup(key)).collect();
        let older = writer.table();
        let mut transaction = writer.transaction();
        for prefix in pool.iter().step_by(3) {
            transaction.insert(*prefix, value(10)).unwrap();
        }
        transaction.commit();
        let mut dropped = writer.transaction();
        for prefix in pool.iter().step_by(2) {
            dropped.remove(prefix);
        }
        drop(dropped);
        thread::scope(|scope| {
            let (domain, keys, answers) = (&domain, &keys, &answers);
            scope.spawn(move || {
                let mut reader = domain.reader().unwrap();
                let mut out = [0; KEYS];
                for _ in 0..if cfg!(miri) { 3 } else { 50 } {
                    older.lookup_batch(&reader.pin(), keys, &mut out);
                    assert_eq!(out[..], answers[..], "round {round}");
                }
            });
            // Half of this happens while the older table is there, and the rest in the memory that only it had.
            for prefix in &pool {
                writer.remove(prefix);
                writer.collect();
            }
            for prefix in &pool {
                writer.insert(*prefix, value(11)).unwrap();
            }
        });
    }
}

#[test]
fn ipv4_changes_are_seen_whole() {
    changes_are_seen_whole::<u32>(1);
}

#[test]
fn ipv6_changes_are_seen_whole() {
    changes_are_seen_whole::<u128>(1);
}

#[test]
fn ipv4_older_tables_stay() {
    older_tables_stay::<u32>(2);
}

#[test]
fn ipv6_older_tables_stay() {
    older_tables_stay::<u128>(2);
}
