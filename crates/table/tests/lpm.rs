//! Longest-prefix match against its specification, at its limits, and under its readers.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use proptest::prelude::*;
use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_table::lpm::indexed::Indexed;
use weir_table::lpm::naive::Naive;
use weir_table::lpm::sample::{self, Draw};
use weir_table::lpm::{Full, Key, Limits, NO_ROUTE, Prefix, Value, Writer};

const WIDE: Limits = Limits { max_routes: 1 << 20, max_bytes: 64 << 20 };

fn value(value: u32) -> Value {
    Value::new(value).unwrap()
}

fn parse<K: Key>(text: &str) -> Prefix<K> {
    text.parse().unwrap()
}

#[derive(Clone, Debug)]
enum Change<K> {
    Insert(K, u8, u32),
    Remove(usize),
    Transaction(Vec<Change<K>>, bool),
}

/// Addresses that share much with each other, at all depths.
fn address<K: Draw>() -> impl Strategy<Value = K> {
    (0..=K::BITS, any::<u64>()).prop_map(|(shared, seed)| {
        let site = K::draw(&mut Random::from_seed(7));
        site.splice(shared, K::draw(&mut Random::from_seed(seed)))
    })
}

fn single<K: Draw>() -> impl Strategy<Value = Change<K>> {
    prop_oneof![
        3 => (address(), 0..=K::BITS, 1..4u32).prop_map(|(key, len, value)| Change::Insert(key, len, value)),
        2 => any::<usize>().prop_map(Change::Remove),
    ]
}

fn change<K: Draw>() -> impl Strategy<Value = Change<K>> {
    prop_oneof![
        8 => single(),
        1 => (prop::collection::vec(single(), 0..8), any::<bool>())
            .prop_map(|(changes, commit)| Change::Transaction(changes, commit)),
    ]
}

/// Both oracles and the table get the same changes, and must give the same answers.
fn agree<K: Draw>(changes: Vec<Change<K>>, mut keys: Vec<K>) -> Result<(), TestCaseError> {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let mut writer = Writer::<K>::new(&domain, WIDE).unwrap();
    let (mut naive, mut indexed) = (Naive::new(), Indexed::new());
    let mut check = |naive: &Naive<K>, indexed: &Indexed<K>, writer: &Writer<K>, keys: &[K]| {
        let guard = reader.pin();
        let mut answers = vec![0; keys.len()];
        let table = writer.table();
        table.lookup_batch(&guard, keys, &mut answers);
        for (&key, &answer) in keys.iter().zip(&answers) {
            let expected = naive.lookup(key);
            prop_assert_eq!(indexed.lookup(key), expected);
            prop_assert_eq!(answer, expected, "{:x?}", key);
            prop_assert_eq!(table.lookup(&guard, key), expected);
        }
        Ok(())
    };
    let victim = |naive: &Naive<K>, number: usize| {
        let mut routes: Vec<_> = naive.iter().map(|route| route.0).collect();
        routes.sort_unstable();
        (!routes.is_empty()).then(|| routes[number % routes.len()])
    };
    for change in changes {
        match change {
            Change::Insert(key, len, number) => {
                let prefix = Prefix::new(key, len).unwrap();
                keys.extend([prefix.address(), prefix.last()]);
                let old = naive.insert(prefix, value(number));
                prop_assert_eq!(indexed.insert(prefix, value(number)), old);
                prop_assert_eq!(writer.insert(prefix, value(number)), Ok(old));
            }
            Change::Remove(number) => {
                let Some(prefix) = victim(&naive, number) else { continue };
                let old = naive.remove(&prefix);
                prop_assert_eq!(indexed.remove(&prefix), old);
                prop_assert_eq!(writer.remove(&prefix), old);
            }
            Change::Transaction(changes, commit) => {
                let before = (naive.clone(), indexed.clone(), writer.table());
                let mut transaction = writer.transaction();
                for change in changes {
                    match change {
                        Change::Insert(key, len, number) => {
                            let prefix = Prefix::new(key, len).unwrap();
                            keys.extend([prefix.address(), prefix.last()]);
                            let old = naive.insert(prefix, value(number));
                            indexed.insert(prefix, value(number));
                            prop_assert_eq!(transaction.insert(prefix, value(number)), Ok(old));
                        }
                        Change::Remove(number) => {
                            let Some(prefix) = victim(&naive, number) else { continue };
                            let old = naive.remove(&prefix);
                            indexed.remove(&prefix);
                            prop_assert_eq!(transaction.remove(&prefix), old);
                        }
                        Change::Transaction(..) => unreachable!("transactions do not nest"),
                    }
                }
                if commit {
                    transaction.commit();
                } else {
                    drop(transaction);
                    (naive, indexed) = (before.0, before.1);
                }
            }
        }
        check(&naive, &indexed, &writer, &keys)?;
    }
    let routes = |iter: &mut dyn Iterator<Item = (Prefix<K>, Value)>| iter.collect::<HashMap<_, _>>();
    prop_assert_eq!(routes(&mut writer.iter()), routes(&mut naive.iter()));
    prop_assert_eq!(writer.len(), naive.iter().count());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ipv4_does_as_the_specification_says(
        changes in prop::collection::vec(change::<u32>(), 1..60), keys in prop::collection::vec(address(), 40)
    ) {
        agree(changes, keys)?;
    }

    #[test]
    fn ipv6_does_as_the_specification_says(
        changes in prop::collection::vec(change::<u128>(), 1..60), keys in prop::collection::vec(address(), 40)
    ) {
        agree(changes, keys)?;
    }
}

/// Readers look up all the time while routes come and go; every answer must be one that was right at some time between
/// the beginning and the end of the lookup.
fn readers_see_valid_answers<K: Draw>(seed: u64) {
    const CHANGES: usize = 3000;
    const KEYS: usize = 256;
    let mut random = Random::from_seed(seed);
    for pool in sample::shapes::<K>(&mut random) {
        let keys = sample::inside(&pool, KEYS, &mut random);
        // The whole course of events is fixed before, with the right answers after each change.
        let mut oracle = Indexed::new();
        let mut answers = vec![vec![NO_ROUTE; KEYS]];
        let changes: Vec<_> = (0..CHANGES)
            .map(|_| {
                let prefix = pool[random.below(pool.len() as u64) as usize];
                let new = random.chance(0.6).then(|| value(1 + random.below(1000) as u32));
                match new {
                    Some(value) => oracle.insert(prefix, value),
                    None => oracle.remove(&prefix),
                };
                answers.push(keys.iter().map(|&key| oracle.lookup(key)).collect());
                (prefix, new)
            })
            .collect();

        let domain = Domain::new();
        let mut writer = Writer::new(&domain, WIDE).unwrap();
        let table = writer.table();
        let (begun, done, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let looked_up = [const { AtomicUsize::new(0) }; 2];
        thread::scope(|scope| {
            let readers = looked_up.each_ref().map(|looked_up| {
                let (domain, table, keys, answers) = (&domain, &table, &keys, &answers);
                let (begun, done, stop) = (&begun, &done, &stop);
                scope.spawn(move || {
                    let mut reader = domain.reader().unwrap();
                    let mut out = [0; KEYS];
                    while !stop.load(Ordering::Relaxed) {
                        let first = done.load(Ordering::SeqCst);
                        table.lookup_batch(&reader.pin(), keys, &mut out);
                        let last = begun.load(Ordering::SeqCst);
                        for (position, &answer) in out.iter().enumerate() {
                            let mut valid = answers[first..=last].iter().map(|answers| answers[position]);
                            assert!(valid.any(|valid| valid == answer), "key {:x?}: {answer}", keys[position]);
                        }
                        looked_up.fetch_add(1, Ordering::Relaxed);
                    }
                })
            });
            let is_waited_for = || {
                let at_work = looked_up.iter().all(|looked_up| looked_up.load(Ordering::Relaxed) > 0);
                !at_work && readers.iter().all(|reader| !reader.is_finished())
            };
            for (number, (prefix, new)) in changes.iter().enumerate() {
                begun.store(number + 1, Ordering::SeqCst);
                match new {
                    Some(value) => writer.insert(*prefix, *value).unwrap(),
                    None => writer.remove(prefix),
                };
                done.store(number + 1, Ordering::SeqCst);
                // Half of the changes wait until both readers are at work.
                while number == changes.len() / 2 && is_waited_for() {
                    thread::yield_now();
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(looked_up.iter().all(|looked_up| looked_up.load(Ordering::Relaxed) > 0), "a reader looked nothing up");
    }
}

#[test]
fn ipv4_readers_see_valid_answers() {
    readers_see_valid_answers::<u32>(1);
}

#[test]
fn ipv6_readers_see_valid_answers() {
    readers_see_valid_answers::<u128>(2);
}

/// Sites below a place fill up and empty again, one by one, through every kind of block; after each step both edges of
/// every site are looked up, and what lies beside the place. Every third site has a longer prefix inside of it.
fn sites_come_and_go<K: Draw>(place: Prefix<K>, bits: u8, seed: u64) {
    let mut random = Random::from_seed(seed);
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let mut writer = Writer::<K>::new(&domain, WIDE).unwrap();
    let empty = writer.stats().bytes;
    let mut oracle = Indexed::new();
    let mut sites: Vec<Prefix<K>> = (0..1u64 << bits)
        .map(|number| Prefix::new(place.address().place(place.len(), bits, number), place.len() + bits).unwrap())
        .collect();
    let inner: Vec<Prefix<K>> = sites
        .iter()
        .step_by(3)
        .map(|site| Prefix::new(site.last(), (site.len() + 5).min(K::BITS)).unwrap())
        .filter(|inner| inner.len() > place.len() + bits)
        .collect();
    let mut keys: Vec<K> = inner.iter().map(|inner| inner.address()).collect();
    sites.extend(inner);
    keys.extend(sites.iter().flat_map(|site| [site.address(), site.last()]));
    keys.extend([K::ZERO, K::ZERO.saturate(0), place.address().saturate(place.len())]);
    let mut answers = vec![0; keys.len()];
    let mut check = |writer: &Writer<K>, oracle: &Indexed<K>| {
        writer.table().lookup_batch(&reader.pin(), &keys, &mut answers);
        for (&key, &answer) in keys.iter().zip(&answers) {
            assert_eq!(answer, oracle.lookup(key), "{place} by {bits} bits: {key:x?}");
        }
    };
    for covered in [false, true] {
        if covered {
            oracle.insert(place, value(9));
            writer.insert(place, value(9)).unwrap();
        }
        for removing in [false, true] {
            for index in (1..sites.len()).rev() {
                sites.swap(index, random.below(index as u64 + 1) as usize);
            }
            for (number, site) in sites.iter().enumerate() {
                if removing {
                    assert_eq!(writer.remove(site), oracle.remove(site));
                } else {
                    let value = value(10 + number as u32);
                    oracle.insert(*site, value);
                    writer.insert(*site, value).unwrap();
                }
                check(&writer, &oracle);
            }
        }
    }
    // The last one to go is the cover, with a default route beside it.
    oracle.insert(Prefix::ALL, value(1));
    writer.insert(Prefix::ALL, value(1)).unwrap();
    check(&writer, &oracle);
    assert_eq!(writer.remove(&place), oracle.remove(&place));
    check(&writer, &oracle);
    writer.collect();
    assert_eq!(writer.stats().bytes, empty);
}

#[test]
fn ipv4_blocks_change_their_kinds() {
    for (text, bits) in [("10.0.0.0/8", 8), ("10.1.0.0/17", 7), ("10.1.2.0/24", 8), ("255.255.255.0/24", 8)] {
        sites_come_and_go::<u32>(parse(text), bits, 11);
    }
}

/// At the beginning, in the middle and at the end of each frame, and across the ends.
#[test]
fn ipv6_blocks_change_their_kinds() {
    let address = "2001:db8:1234:5678:9abc:def0:1357";
    for (len, bits) in [
        (12, 8),
        (16, 8),
        (18, 9),
        (36, 8),
        (40, 8),
        (44, 8),
        (48, 8),
        (60, 9),
        (72, 8),
        (76, 8),
        (80, 8),
        (104, 8),
        (108, 8),
        (112, 8),
        (120, 8),
        (125, 3),
    ] {
        sites_come_and_go::<u128>(parse(&format!("{address}:2468/{len}")), bits, u64::from(len));
        // The end of the space, where the last slots of all frames are.
        sites_come_and_go::<u128>(Prefix::new(u128::MAX, len).unwrap(), bits, u64::from(len));
    }
}

/// A route is taken away from above what makes an array: the values that nodes below it have from the route go with it,
/// also when the array becomes a node by this.
#[test]
fn a_cover_is_removed_where_an_array_becomes_a_node() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    for sites in 20..32 {
        let mut writer = Writer::<u128>::new(&domain, WIDE).unwrap();
        let mut oracle = Indexed::new();
        let site = |number: u128, len| Prefix::new(0x2001_u128 << 112 | number << 104, len).unwrap();
        // A cover of the first slots of the array at bit 16; below slot 0, a node whose other runs come from it; sites
        // in every other of its slots. The last run of the cover becomes one with what is behind it: for one number of
        // sites this is the one run that the array had too many.
        let cover = site(0, 18);
        let inner = Prefix::new(site(0, 24).address() | 5 << 80, 48).unwrap();
        let mut routes = vec![(cover, 1), (inner, 2), (site(255, 24), 3)];
        routes.extend((1..2 * sites).step_by(2).map(|number| (site(number, 24), 3)));
        routes.extend((64..192).map(|number| (site(number, 24), 4 + number as u32)));
        for &(prefix, number) in &routes {
            writer.insert(prefix, value(number)).unwrap();
            oracle.insert(prefix, value(number));
        }
        let mut keys: Vec<u128> = routes.iter().flat_map(|(prefix, _)| [prefix.address(), prefix.last()]).collect();
        keys.push(inner.address() - 1);
        for prefix in (64..192).map(|number| site(number, 24)).chain([cover, inner]) {
            assert_eq!(writer.remove(&prefix), oracle.remove(&prefix));
            let mut answers = vec![0; keys.len()];
            writer.table().lookup_batch(&reader.pin(), &keys, &mut answers);
            for (&key, &answer) in keys.iter().zip(&answers) {
                assert_eq!(answer, oracle.lookup(key), "{sites} sites, {prefix} removed: {key:x?}");
            }
        }
    }
}

#[test]
fn blocks_wait_for_a_pinned_reader() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let mut writer = Writer::<u32>::new(&domain, WIDE).unwrap();
    for third in 0..=255u32 {
        writer.insert(Prefix::new(0x0a00_0000 | third << 8, 25).unwrap(), value(1 + third)).unwrap();
    }
    writer.collect();
    assert_eq!(writer.stats().waiting_bytes, 0);

    let guard = reader.pin();
    let before = writer.stats().bytes;
    for third in 0..=255u32 {
        writer.remove(&Prefix::new(0x0a00_0000 | third << 8, 25).unwrap());
    }
    writer.collect();
    let stats = writer.stats();
    assert!(stats.waiting_bytes > 0);
    // Nothing that the reader may look at was given out again.
    assert!(stats.bytes >= before);

    drop(guard);
    writer.collect();
    assert_eq!(writer.stats().waiting_bytes, 0);
    assert_eq!(writer.stats().bytes, Writer::<u32>::new(&domain, WIDE).unwrap().stats().bytes);
}

#[test]
fn nothing_leaks() {
    fn run<K: Draw>() {
        let mut random = Random::from_seed(3);
        let domain = Domain::new();
        let mut writer = Writer::<K>::new(&domain, WIDE).unwrap();
        let empty = writer.stats().bytes;
        for pool in sample::shapes::<K>(&mut random) {
            let old = writer.table();
            let mut transaction = writer.transaction();
            for prefix in &pool {
                transaction.insert(*prefix, value(1 + random.below(9) as u32)).unwrap();
            }
            transaction.commit();
            let mut dropped = writer.transaction();
            for prefix in pool.iter().step_by(2) {
                dropped.remove(prefix);
            }
            drop(dropped);
            for prefix in &pool {
                writer.remove(prefix);
            }
            writer.collect();
            drop(old);
            writer.collect();
            assert!(writer.is_empty());
            assert_eq!(writer.stats().bytes, empty);
        }
    }
    run::<u32>();
    run::<u128>();
}

#[test]
fn a_full_table_refuses_and_stays_as_it_was() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    // The directory, and as much again for blocks.
    let limits = Limits { max_routes: 1 << 20, max_bytes: 512 << 10 };
    let mut writer = Writer::<u128>::new(&domain, limits).unwrap();
    let mut oracle = Indexed::new();
    let mut random = Random::from_seed(5);
    for round in 0..3 {
        // One shape of routes after the other: memory that one has left serves the next.
        let len = [64, 128, 48][round];
        let mut refused = 0;
        let mut routes = Vec::new();
        while refused < 50 {
            let prefix = Prefix::new(0x2001_u128 << 112 | u128::draw(&mut random) >> 20, len).unwrap();
            match writer.insert(prefix, value(7)) {
                Ok(_) => {
                    oracle.insert(prefix, value(7));
                    routes.push(prefix);
                }
                Err(full) => {
                    assert_eq!(full, Full::Bytes(limits.max_bytes));
                    assert_eq!(writer.get(&prefix), None);
                    refused += 1;
                }
            }
            assert!(writer.stats().bytes <= limits.max_bytes);
        }
        assert!(routes.len() > 50, "round {round}: {}", routes.len());
        let keys = sample::inside(&routes, 4096, &mut random);
        let mut answers = vec![0; keys.len()];
        writer.table().lookup_batch(&reader.pin(), &keys, &mut answers);
        for (&key, &answer) in keys.iter().zip(&answers) {
            assert_eq!(answer, oracle.lookup(key));
        }
        for prefix in &routes {
            assert_eq!(writer.remove(prefix), Some(value(7)));
            oracle.remove(prefix);
        }
    }
}

/// Routes side by side that lead to the same place are one run, and take next to nothing. Without every other one, each
/// is a run of its own: the removals need far more than the limit, and are not refused.
#[test]
fn a_removal_that_needs_room_gets_it() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    // The directory, and a little more.
    let limits = Limits { max_routes: 1 << 20, max_bytes: 272 << 10 };
    let mut writer = Writer::<u128>::new(&domain, limits).unwrap();
    let site = |number: u128| Prefix::new(0x2001_0000 << 96 | number << 80, 48).unwrap();
    for number in 0..1 << 20 {
        writer.insert(site(number), value(7)).unwrap();
    }
    for number in (0..1 << 20).step_by(2) {
        assert_eq!(writer.remove(&site(number)), Some(value(7)));
    }
    assert!(writer.stats().bytes > 15 * limits.max_bytes);
    let keys: Vec<u128> = (0..1 << 20).map(|number| site(number).last()).chain([site(0).address() - 1]).collect();
    let mut answers = vec![0; keys.len()];
    writer.table().lookup_batch(&reader.pin(), &keys, &mut answers);
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, if number % 2 == 1 { 7 } else { NO_ROUTE }, "{number}");
    }
    // Until it is smaller again, there is no room for anything new.
    assert_eq!(writer.insert(parse("2001:db8::/49"), value(8)), Err(Full::Bytes(limits.max_bytes)));
}

/// An older table does not slow down changes.
#[test]
fn insertion_takes_no_longer_while_much_waits() {
    let domain = Domain::new();
    let mut writer = Writer::<u128>::new(&domain, WIDE).unwrap();
    let mut random = Random::from_seed(8);
    let mut routes = |count| -> Vec<_> {
        sample::uniform(count, &mut random).into_iter().map(|key| Prefix::new(key, 48).unwrap()).collect()
    };
    // The least of several rounds: something else may run.
    let mut insert = |writer: &mut Writer<u128>| {
        let round = |_| {
            let routes: Vec<Prefix<u128>> = routes(200);
            let start = Instant::now();
            for route in routes {
                writer.insert(route, value(1)).unwrap();
            }
            start.elapsed()
        };
        (0..20).map(round).min().unwrap()
    };
    let before = insert(&mut writer);
    let many: Vec<Prefix<u128>> = sample::uniform(200_000, &mut Random::from_seed(9))
        .into_iter()
        .map(|key| Prefix::new(key, 48).unwrap())
        .collect();
    for route in &many {
        writer.insert(*route, value(2)).unwrap();
    }
    let older = writer.table();
    let mut transaction = writer.transaction();
    for route in &many {
        transaction.insert(*route, value(3)).unwrap();
    }
    transaction.commit();
    assert!(writer.stats().waiting_bytes > 5 << 20);
    let after = insert(&mut writer);
    assert!(after < before * 8, "{before:?} and, with much that waits, {after:?}");
    drop(older);
    writer.collect();
    assert_eq!(writer.stats().waiting_bytes, 0);
}

#[test]
fn routes_are_bounded() {
    let domain = Domain::new();
    let mut writer = Writer::new(&domain, Limits { max_routes: 2, ..WIDE }).unwrap();
    let [a, b, c] = ["10.0.0.0/8", "0.0.0.0/0", "10.1.0.0/16"].map(parse::<u32>);
    assert_eq!(writer.insert(a, value(1)), Ok(None));
    assert_eq!(writer.insert(b, value(2)), Ok(None));
    assert_eq!(writer.insert(c, value(3)), Err(Full::Routes(2)));
    assert_eq!(writer.insert(b, value(4)), Ok(Some(value(2))));
    assert_eq!(writer.remove(&a), Some(value(1)));
    assert_eq!(writer.insert(c, value(3)), Ok(None));
    assert_eq!(writer.len(), 2);
}

#[test]
fn keys_come_as_numbers_as_octets_and_from_anywhere() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let guard = reader.pin();
    let mut writer = Writer::<u128>::new(&domain, WIDE).unwrap();
    writer.insert(parse("2001:db8::/32"), value(1)).unwrap();
    writer.insert(parse("2001:db8::1/128"), value(2)).unwrap();
    let table = writer.table();
    let keys = [0x2001_0db8 << 96, 0x2001_0db8 << 96 | 1, 0];
    let octets = keys.map(u128::to_be_bytes);
    let (mut a, mut b, mut c) = ([0; 3], [0; 3], [0; 3]);
    table.lookup_batch(&guard, &keys, &mut a);
    table.lookup_batch(&guard, &octets, &mut b);
    table.lookup_each(&guard, |index| keys[index], &mut c);
    assert_eq!((a, b, c), ([1, 2, NO_ROUTE], a, a));
}

#[test]
fn a_guard_of_another_domain_is_refused() {
    let table = Writer::<u32>::new(&Domain::new(), WIDE).unwrap().table();
    let stranger = Domain::new();
    let mut reader = stranger.reader().unwrap();
    let guard = reader.pin();
    assert!(catch_unwind(AssertUnwindSafe(|| table.lookup(&guard, 0))).is_err());
}

#[test]
fn values_are_checked() {
    assert_eq!(Value::new(NO_ROUTE), None);
    assert_eq!(Value::new(1 << 31), None);
    assert_eq!(Value::new((1 << 31) - 1), Some(Value::MAX));
}
