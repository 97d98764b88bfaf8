//! Classifiers changed under readers on other threads, small enough for Miri:
//!
//!     cargo +nightly miri test -p weir-table --test classify_races
//!
//! takes some minutes and finds reads that race with writes, and pointers that are used where they are not valid.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_table::classify::sample::{self, Adverse, Packets};
use weir_table::classify::{Fields, Limits, NO_RULE, Rule, Writer};

const LIMITS: Limits = Limits { rules: 5000, bytes: 64 << 20 };
const CHANGES: usize = if cfg!(miri) { 16 } else { 5000 };
/// Of lists of rules that nothing parts, which take longer.
const DENSE_CHANGES: usize = if cfg!(miri) { 2 } else { 5000 };
const PACKETS: usize = if cfg!(miri) { 8 } else { 256 };

/// A lookup sees each of the changes that are made meanwhile or does not, in no order. So what it finds was there at some
/// time during the lookup, and no earlier rule that matches was there all the time. Rules are at the places of their
/// numbers; at the beginning, all but the last are there.
fn changes_are_seen_whole<K: Packets>(rules: &[Rule<K>], changes: usize, random: &mut Random) {
    let packets: Vec<Fields<K>> = (0..PACKETS).map(|_| sample::near(rules, random)).collect();
    let matching: Vec<Vec<usize>> =
        packets.iter().map(|packet| (0..rules.len()).filter(|rule| rules[*rule].matches(packet)).collect()).collect();
    let domain = Domain::new();
    let mut writer = Writer::with_consulted(&domain, LIMITS).unwrap();
    let placed = |rule: usize| (rule as u64, rules[rule].clone(), rule as u32);
    writer.load((0..rules.len() - 1).map(placed)).unwrap();
    // Which rules are there after so many changes.
    let mut there = vec![vec![true; rules.len()]];
    there[0][rules.len() - 1] = false;
    let changes: Vec<usize> = (0..changes)
        .map(|number| {
            let rule = if number == 0 { rules.len() - 1 } else { random.below(rules.len() as u64) as usize };
            let mut next = there[number].clone();
            next[rule] = !next[rule];
            there.push(next);
            rule
        })
        .collect();
    let table = writer.table();
    let (begun, done, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let (looked_up, half) = (AtomicUsize::new(0), changes.len() / 2);
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut reader = domain.reader().unwrap();
            let (mut found, mut consulted) = ([0; PACKETS], [Default::default(); PACKETS]);
            while !stop.load(Ordering::Relaxed) {
                let first = done.load(Ordering::SeqCst);
                table.lookup_consulted_each(&reader.pin(), &packets, &mut found, &mut consulted);
                let last = begun.load(Ordering::SeqCst);
                let there = &there[first..=last];
                for (number, found) in found.iter().enumerate() {
                    let always = matching[number].iter().find(|rule| there.iter().all(|there| there[**rule]));
                    let right = match *found {
                        NO_RULE => always.is_none(),
                        rule => {
                            let rule = rule as usize;
                            matching[number].contains(&rule)
                                && always.is_none_or(|always| rule <= *always)
                                && there.iter().any(|there| there[rule])
                        }
                    };
                    assert!(right, "{found}, packet {:x?}", packets[number]);
                }
                looked_up.fetch_add(1, Ordering::Relaxed);
            }
        });
        for (number, rule) in changes.into_iter().enumerate() {
            let (place, rule, identity) = placed(rule);
            begun.store(number + 1, Ordering::SeqCst);
            if writer.remove(place).unwrap().is_none() {
                writer.insert(place, rule, identity).unwrap();
            }
            // Blocks are used again as early as can be.
            writer.collect();
            done.store(number + 1, Ordering::SeqCst);
            // Half of the changes wait until the reader is at work. The scope reports a reader that has panicked.
            while number == half && looked_up.load(Ordering::Relaxed) == 0 && !reading.is_finished() {
                thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(looked_up.into_inner() > 0, "nothing was looked up while rules changed");
}

#[test]
fn ipv4_changes_are_seen_whole() {
    let mut random = Random::from_seed(1);
    let rules = sample::mixed::<u32>(if cfg!(miri) { 40 } else { 300 }, &mut random);
    changes_are_seen_whole(&rules, CHANGES, &mut random);
}

#[test]
fn ipv6_changes_are_seen_whole() {
    let mut random = Random::from_seed(2);
    let rules = sample::mixed::<u128>(if cfg!(miri) { 30 } else { 300 }, &mut random);
    changes_are_seen_whole(&rules, CHANGES, &mut random);
}

/// Rules that nothing parts lie in a list of their own: rules go out of it as it is, and it is replaced as a whole for those
/// that have come.
#[test]
fn dense_leaves_change_in_place_and_are_replaced_whole() {
    let mut random = Random::from_seed(3);
    let rules = Adverse::Nested.rules::<u32>(if cfg!(miri) { 66 } else { 200 }, &mut random);
    changes_are_seen_whole(&rules, DENSE_CHANGES, &mut random);
    if !cfg!(miri) {
        let rules = Adverse::Ranges.rules::<u32>(3000, &mut random);
        changes_are_seen_whole(&rules, DENSE_CHANGES, &mut random);
        let rules = Adverse::Addresses.rules::<u128>(2000, &mut random);
        changes_are_seen_whole(&rules, DENSE_CHANGES, &mut random);
    }
}
