//! The table is equal to its specification, whatever the keys, and as secret as it should be.

use proptest::prelude::*;
use weir_base::random::Random;

use super::bucket::{ENTRIES, Tags};
use super::naive::Naive;
use super::table::{SPLITS, USUAL};
use super::*;

/// A key whose hash has few values, so that buckets and groups are full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Colliding<const BITS: u32>(u64);

impl<const BITS: u32> Key for Colliding<BITS> {
    fn hash(&self, secret: &Secret) -> u64 {
        [self.0 & ((1 << BITS) - 1), 7].hash(secret)
    }
}

fn secret(seed: u64) -> Secret {
    let mut random = Random::from_seed(seed);
    Secret::new(std::array::from_fn(|_| random.next()))
}

/// Both, changed alike.
struct Twins<K, V> {
    table: Table<K, V>,
    naive: Naive<K, V>,
}

impl<K: Key + std::hash::Hash> Twins<K, u64> {
    fn new(most: usize) -> Self {
        Twins { table: Table::new(most, secret(1)), naive: Naive::new(most) }
    }

    /// Gives whether the key is new and has a place now. A group may be full of keys that collide.
    fn insert(&mut self, key: K, value: u64, crowds: bool) -> bool {
        while !self.table.prepare(1) {}
        if self.naive.value(&key).is_some() {
            return false;
        }
        match self.table.insert(key, value) {
            Err(Full::Crowded) => {
                assert!(crowds, "{} entries", self.table.len());
                false
            }
            Err(full) => {
                assert_eq!(self.naive.insert(key, value), Err(full));
                false
            }
            Ok(place) => {
                assert_eq!(self.naive.insert(key, value), Ok(()));
                assert_eq!((self.table.key(place), self.table.value(place)), (Some(&key), Some(&value)));
                true
            }
        }
    }

    fn check(&mut self, keys: &[K]) {
        assert_eq!(self.table.len(), self.naive.len());
        let mut lookup = self.table.lookup();
        for keys in keys.chunks(BATCH) {
            keys.iter().for_each(|key| lookup.seek(*key));
            lookup.compare();
            for (slot, key) in keys.iter().enumerate() {
                assert_eq!(lookup.value(slot).map(|value| *value), self.naive.value(key).copied());
                let place = lookup.place(slot);
                assert_eq!(place == Place::NONE, self.naive.value(key).is_none());
            }
            assert_eq!(lookup.value(keys.len()), None);
        }
        for keys in keys.as_chunks::<7>().0 {
            let absent = self.table.absent(keys);
            let is_there = |at: &usize| self.naive.value(&keys[*at]).is_some();
            assert!((0..7).filter(is_there).all(|at| absent >> at & 1 == 0) && absent >> 7 == 0);
        }
        for keys in keys.chunks(VECTOR) {
            let mut places = [Place::NONE; VECTOR];
            self.table.find_each(keys, &mut places);
            for (key, &place) in keys.iter().zip(&places) {
                assert_eq!(self.table.value(place), self.naive.value(key));
                assert_eq!(self.table.find(key), Some(place).filter(|_| place != Place::NONE));
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64),
    Remove(u64),
    Bound(usize),
    Prepare(usize),
}

fn steps(keys: u64) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..keys).prop_map(Step::Insert),
        4 => (0..keys).prop_map(Step::Remove),
        1 => (0..3000usize).prop_map(Step::Bound),
        1 => (0..3000usize).prop_map(Step::Prepare),
    ];
    prop::collection::vec(step, 0..1500)
}

fn run<K: Key + std::hash::Hash>(most: usize, steps: Vec<Step>, key: impl Fn(u64) -> K, keys: u64) {
    let mut twins = Twins::new(most);
    for step in steps {
        match step {
            Step::Insert(number) => {
                twins.insert(key(number), number + 1, true);
            }
            Step::Remove(number) => {
                let key = key(number);
                assert_eq!(twins.table.remove(&key), twins.naive.remove(&key));
            }
            Step::Bound(most) => {
                twins.table.set_most(most);
                twins.naive.set_most(most);
            }
            Step::Prepare(entries) => drop(twins.table.prepare(entries)),
        }
    }
    twins.check(&(0..keys).map(key).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_table_is_a_bounded_map(steps in steps(900), most in prop_oneof![Just(1), Just(2), Just(3), Just(5000usize)]) {
        run(most, steps.clone(), |number| [number, number << 32], 900);
        run(most, steps, |number| [0, number, 1, 2, 3], 900);
    }

    #[test]
    fn keys_that_collide_are_told_apart(steps in steps(900)) {
        run(5000, steps.clone(), Colliding::<0>, 900);
        run(5000, steps.clone(), Colliding::<3>, 900);
        run(5000, steps, Colliding::<8>, 900);
    }
}

#[test]
fn a_full_group_refuses_keys_until_one_goes() {
    let mut twins = Twins::new(10_000);
    let entered = (0..1000).filter(|&number| twins.insert(Colliding::<0>(number), number, true)).count();
    assert_eq!(entered, ENTRIES);
    assert_eq!(twins.table.remove(&Colliding(0)), Some(0));
    twins.naive.remove(&Colliding(0));
    assert!(twins.insert(Colliding::<0>(2000), 1, true));
    twins.check(&(0..2001).map(Colliding).collect::<Vec<_>>());
}

#[test]
fn growth_loses_nothing_and_no_group_is_full() {
    let mut twins = Twins::new(usize::MAX);
    let mut random = Random::from_seed(7);
    let mut keys: Vec<[u64; 2]> = Vec::new();
    for round in 0..1_000_000u64 {
        match random.below(5) {
            0 if !keys.is_empty() => {
                let key = keys.swap_remove(random.below(keys.len() as u64) as usize);
                assert_eq!(twins.table.remove(&key), twins.naive.remove(&key));
            }
            _ => {
                let key = [random.next(), round];
                assert!(twins.insert(key, round, false));
                keys.push(key);
            }
        }
    }
    twins.check(&keys);
    assert!(twins.naive.keys().count() == keys.len() && keys.len() > 500_000);
    let octets = twins.table.octets() as f64 / keys.len() as f64;
    assert!((40.0..100.0).contains(&octets), "{octets} octets an entry");
}

#[test]
fn a_step_of_growth_is_bounded() {
    let mut table: Table<[u64; 2], u32> = Table::new(1 << 20, secret(3));
    let mut steps = 0;
    while !table.prepare(100_000) {
        steps += 1;
    }
    assert_eq!(steps, 100_000usize.div_ceil(USUAL).div_ceil(SPLITS) - 1);
    table.set_most(10);
    assert!(table.prepare(usize::MAX), "no more than the bound");
}

#[test]
fn places_are_as_secret_as_the_secret() {
    let places = |seed| -> Vec<u32> {
        let mut table: Table<[u64; 2], u32> = Table::new(1000, secret(seed));
        while !table.prepare(1000) {}
        (0..1000).map(|number| table.insert([1, number], 0).unwrap().0).collect()
    };
    assert_eq!(places(1), places(1));
    let same = places(1).iter().zip(places(2)).filter(|(one, other)| **one == *other).count();
    assert!(same < 30, "{same} of 1000 keys have equal places under two secrets");
}

#[test]
fn no_place_is_out_of_bounds() {
    let mut table: Table<[u64; 2], u32> = Table::new(10, secret(1));
    while !table.prepare(10) {}
    let place = table.insert([1, 2], 3).unwrap();
    for number in (0..1 << 12).chain([u32::MAX, u32::MAX - 1, 1 << 31]) {
        let own = Place(number);
        assert_eq!(table.value(own).copied(), (own == place).then_some(3));
    }
}

#[test]
fn nearly_all_keys_that_are_not_there_are_absent_by_their_tags() {
    let mut table: Table<[u64; 2], u32> = Table::new(100_000, secret(1));
    assert_eq!(table.absent(&[[1, 2], [3, 4]]), 0b11);
    while !table.prepare(20_000) {}
    for number in 0..20_000 {
        table.insert([1, number], 0).unwrap();
    }
    let absent = (0..10_000u64).map(|number| table.absent(&[[2, number], [1, number]]));
    let absent: Vec<u64> = absent.collect();
    assert!(absent.iter().all(|bits| bits & 0b10 == 0));
    let found = absent.iter().filter(|&&bits| bits == 1).count();
    assert!(found > 9_900, "{found}");
}

#[test]
fn both_bodies_find_the_same_tags() {
    let mut random = Random::from_seed(5);
    for _ in 0..1000 {
        let mut tags = Tags::EMPTY;
        tags.away = random.next() as u16;
        for lane in 0..31 {
            tags.set(lane, random.below(4) as u16);
        }
        for tag in [0, 1, 2, 3, 4, tags.away] {
            assert_eq!(tags.matching(tag), tags.matching_portable(tag));
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
                // SAFETY: the CPU has the features.
                assert_eq!(unsafe { tags.matching_avx512(tag) }, tags.matching_portable(tag));
            }
        }
    }
}
