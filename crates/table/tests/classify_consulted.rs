//! Which fields had a part in answers, against the specification.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use proptest::prelude::*;
use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_table::classify::sample::{self, Packets};
use weir_table::classify::{Consulted, Fields, Limits, Masked, NO_RULE, Rule, Table, Writer, naive};

const LIMITS: Limits = Limits { rules: 1 << 16, bytes: 64 << 20 };

type Answers = (Vec<u32>, Vec<Consulted>);

fn lookup<K: Packets>(table: &Table<K>, domain: &Domain, packets: &[Fields<K>]) -> Answers {
    let mut reader = domain.reader().unwrap();
    let (mut found, mut consulted) = (vec![0; packets.len()], vec![Consulted::OUTSIDE; packets.len()]);
    table.lookup_consulted_each(&reader.pin(), packets, &mut found, &mut consulted);
    (found, consulted)
}

fn specified<K: Packets>(specification: &naive::Classifier<K>, packets: &[Fields<K>]) -> Answers {
    packets.iter().map(|packet| (specification.lookup(packet), specification.consulted(packet))).unzip()
}

fn agrees<K: Packets>(seed: u64, count: usize) {
    let mut random = Random::from_seed(seed);
    let rules = sample::mixed::<K>(count, &mut random);
    let domain = Domain::new();
    let mut writer = Writer::with_consulted(&domain, LIMITS).unwrap();
    let table = writer.table();
    let mut specification = naive::Classifier::new();
    let check = |specification: &naive::Classifier<K>, random: &mut Random| {
        let packets: Vec<Fields<K>> = (0..300).map(|_| sample::near(&rules, random)).collect();
        assert_eq!(lookup(&table, &domain, &packets), specified(specification, &packets));
        assert_eq!(table.matched(), specification.matched());
    };
    check(&specification, &mut random);
    let half = rules.len() / 2;
    let placed = |(place, rule): (usize, &Rule<K>)| (7 * place as u64, rule.clone(), place as u32);
    writer.load(rules[..half].iter().enumerate().map(placed)).unwrap();
    for (place, rule, identity) in rules[..half].iter().enumerate().map(placed) {
        specification.insert(place, rule, identity);
    }
    check(&specification, &mut random);
    for (number, rule) in rules.iter().enumerate().skip(half) {
        let place = random.below(8 * rules.len() as u64);
        if writer.insert(place, rule.clone(), number as u32).is_ok() {
            specification.insert(place, rule.clone(), number as u32);
        }
    }
    check(&specification, &mut random);
    for share in [0.3, 0.9, 1.0] {
        let places: Vec<u64> = specification.iter().map(|(place, ..)| place).collect();
        for place in places.into_iter().filter(|_| random.chance(share)) {
            assert_eq!(writer.remove(place).unwrap(), specification.remove(place));
        }
        check(&specification, &mut random);
    }
    assert!(table.matched().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn fields_that_had_a_part_are_told_ipv4(seed: u64, rules in 0usize..400) {
        agrees::<u32>(seed, rules);
    }

    #[test]
    fn fields_that_had_a_part_are_told_ipv6(seed: u64, rules in 0usize..400) {
        agrees::<u128>(seed, rules);
    }
}

/// Samples are to have answers that depend on each field, and on none.
#[test]
fn samples_differ_in_what_they_depend_on() {
    let mut counts = [0; 4];
    // A wide rule may come early in one of the lists.
    for seed in 0..10 {
        let mut random = Random::from_seed(seed);
        let rules = sample::mixed::<u32>(100, &mut random);
        let mut specification = naive::Classifier::new();
        for (place, rule) in rules.iter().enumerate() {
            specification.insert(place as u64, rule.clone(), place as u32);
        }
        for _ in 0..2000 {
            let consulted = specification.consulted(&sample::near(&rules, &mut random));
            let fields =
                [Consulted::FLAGS, Consulted::FRAGMENT, Consulted::DSCP].map(|field| consulted.contains(field));
            counts.iter_mut().zip(fields).for_each(|(count, has)| *count += usize::from(has));
            counts[3] += usize::from(consulted.is_empty());
        }
    }
    assert!(counts.iter().all(|count| *count > 200), "{counts:?}");
}

#[test]
fn what_comes_after_the_answer_has_no_part_in_it() {
    let domain = Domain::new();
    let mut writer = Writer::with_consulted(&domain, LIMITS).unwrap();
    let from = |source: &str| Rule::<u32> {
        source: source.parse::<weir_table::lpm::Prefix<u32>>().unwrap().into(),
        ..Rule::any()
    };
    let syn = Masked::new(2, 2);
    writer.insert(10, from("10.1.0.0/16"), 1).unwrap();
    writer.insert(20, Rule { flags: syn, ..from("10.0.0.0/8") }, 2).unwrap();
    writer.insert(30, Rule { dscp: Some(46), ..from("10.0.0.0/8") }, 3).unwrap();
    let packet = |source: u32| Fields::new(source, 1, 6).with_ports(1, 2);
    let packets = [
        packet(0x0a01_0000).with_flags(2),
        packet(0x0a02_0000).with_flags(2),
        packet(0x0a02_0000).with_flags(16),
        packet(0x0a02_0000).with_dscp(46),
        packet(0x0b00_0000).with_flags(2),
    ];
    let (found, consulted) = lookup(&writer.table(), &domain, &packets);
    assert_eq!(found, [1, 2, NO_RULE, 3, NO_RULE]);
    let both = Consulted::FLAGS | Consulted::DSCP;
    assert_eq!(consulted, [Consulted::NONE, Consulted::FLAGS, both, both, Consulted::NONE]);
    assert_eq!(format!("{both:?}"), r#"{"flags", "dscp"}"#);

    // A writer without this option reports the fields of all rules.
    let mut plain = Writer::new(&domain, LIMITS).unwrap();
    plain.load(writer.iter().map(|(place, rule, identity)| (place, rule.clone(), identity))).unwrap();
    assert_eq!(lookup(&plain.table(), &domain, &packets), (found, vec![both; 5]));
    assert!(plain.stats().octets < writer.stats().octets);
}

/// Changes under readers: while none is under way, answers and fields are those of the specification; while one is, each is of
/// before or after.
#[test]
fn changes_under_readers() {
    let mut random = Random::from_seed(8);
    let rules = sample::mixed::<u32>(60, &mut random);
    let packets: Vec<Fields<u32>> = (0..200).map(|_| sample::near(&rules, &mut random)).collect();
    let domain = Domain::new();
    let mut writer = Writer::with_consulted(&domain, LIMITS).unwrap();
    let mut specification = naive::Classifier::new();
    let mut answers = vec![specified(&specification, &packets)];
    let changes: Vec<(u64, Option<usize>)> = (0..3000)
        .map(|_| {
            let place = random.below(60);
            let rule = specification.get(place).is_none().then(|| random.below(60) as usize);
            match rule {
                Some(rule) => specification.insert(place, rules[rule].clone(), rule as u32),
                None => specification.remove(place),
            };
            answers.push(specified(&specification, &packets));
            (place, rule)
        })
        .collect();
    let table = writer.table();
    let (begun, done, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let (quiet, looked) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let first = done.load(Ordering::SeqCst);
                let (found, consulted) = lookup(&table, &domain, &packets);
                let last = begun.load(Ordering::SeqCst);
                // A lookup that overlaps several changes may see a later one and not an earlier one (`Table`).
                let checked = if last - first <= 1 { packets.len() } else { 0 };
                for place in 0..checked {
                    let valid = &answers[first..=last];
                    assert!(valid.iter().any(|(all, _)| all[place] == found[place]), "{:?}", packets[place]);
                    let either = valid.iter().fold(Consulted::NONE, |either, (_, all)| either | all[place]);
                    let right =
                        if first == last { either == consulted[place] } else { either.contains(consulted[place]) };
                    assert!(right, "{:?}: {:?} instead of {either:?}", packets[place], consulted[place]);
                }
                quiet.fetch_add(usize::from(first == last), Ordering::Relaxed);
                looked.fetch_add(1, Ordering::Relaxed);
            }
        });
        for (number, (place, rule)) in changes.iter().enumerate() {
            begun.store(number + 1, Ordering::SeqCst);
            match rule {
                Some(rule) => writer.insert(*place, rules[*rule].clone(), *rule as u32).unwrap(),
                None => assert!(writer.remove(*place).unwrap().is_some()),
            }
            writer.collect();
            done.store(number + 1, Ordering::SeqCst);
            if number % 100 == 0 {
                // Of two more lookups, one begins while nothing changes. A reader that has panicked is reported at the
                // end.
                let enough = looked.load(Ordering::Relaxed) + 2;
                while looked.load(Ordering::Relaxed) < enough && !reading.is_finished() {
                    thread::yield_now();
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (quiet, looked) = (quiet.into_inner(), looked.into_inner());
    assert!(quiet > 0 && looked > quiet, "{quiet} of {looked}");
}
