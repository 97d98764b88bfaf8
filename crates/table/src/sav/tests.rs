//! Every meaning against its specification, in both families, through any sequence of changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use weir_base::reclaim::Domain;

use super::indexed::Indexed;
use super::*;
use crate::lpm::{Key, Prefix};

const LIMITS: Limits = Limits { prefixes: 1000, bytes: 1 << 22, sets: 500, interfaces: 130, distinct: false };

trait Family: Key {
    /// The address that begins with an octet, and goes on with zeros or ones.
    fn of(octet: u8, ones: bool) -> Self;
}

impl Family for u32 {
    fn of(octet: u8, ones: bool) -> u32 {
        u32::from(octet) << 24 | if ones { u32::MAX >> 8 } else { 0 }
    }
}

impl Family for u128 {
    fn of(octet: u8, ones: bool) -> u128 {
        u128::from(octet) << 120 | if ones { u128::MAX >> 8 } else { 0 }
    }
}

fn address<K: Family>() -> impl Strategy<Value = K> {
    // Few, so that prefixes nest and sources find them.
    (any::<u8>(), any::<bool>()).prop_map(|(octet, ones)| K::of(octet & 0b1010_0011, ones))
}

fn prefix<K: Family>() -> impl Strategy<Value = Prefix<K>> {
    let len = prop_oneof![3 => 0..9u8, 1 => K::BITS - 2..=K::BITS, 1 => 0..=K::BITS];
    (address::<K>(), len).prop_map(|(address, len)| Prefix::new(address, len).expect("the family has this length"))
}

fn set() -> impl Strategy<Value = Set> {
    vec(prop_oneof![0..4u32, Just(64), Just(129)], 0..4).prop_map(Set::from_iter)
}

/// Lists of any modes, at least one. Few interfaces have allowlists, so that the other lists are used, too.
fn lists() -> impl Strategy<Value = Lists> {
    let set = |mode| match mode {
        Mode::InterfaceAllow => vec(prop_oneof![Just(1u32), Just(64)], 0..2).prop_map(Set::from_iter).boxed(),
        _ => set().boxed(),
    };
    let one = prop::sample::select(Mode::ALL.to_vec()).prop_flat_map(move |mode| (Just(mode), set(mode)));
    vec(one, 1..4).prop_map(|all| {
        let mut lists = Lists::default();
        all.iter().for_each(|(mode, set)| lists.add(*mode, set));
        lists
    })
}

/// Changes, and whether they are made together or one by one.
type Step<K, E> = (bool, Vec<(Prefix<K>, Option<E>)>);

type Steps<K, E> = Vec<Step<K, E>>;

fn steps<K: Family, E: std::fmt::Debug + Clone + 'static>(
    entry: impl Strategy<Value = E> + 'static,
) -> impl Strategy<Value = Steps<K, E>> {
    vec((any::<bool>(), vec((prefix::<K>(), weighted(0.8, entry)), 1..12)), 1..8)
}

/// Makes the changes, and calls `same` after each step for every source and interface that may differ.
fn run<K: Family, M: Meaning>(
    steps: Steps<K, M::Entry>,
    says: impl Fn(&BTreeMap<Prefix<K>, M::Entry>, &Indexed<K, M::Entry>, K, u32) -> (Verdict, Verdict),
) -> Result<(), TestCaseError> {
    let domain = Domain::new();
    let mut reader = domain.reader().expect("there is room");
    let mut merged = Merged::<K, M>::new(&domain, LIMITS).unwrap();
    let mut counted = Merged::<K, M>::new(&domain, Limits { distinct: true, ..LIMITS }).unwrap();
    let (mut entries, mut indexed) = (BTreeMap::new(), Indexed::default());
    for (together, step) in steps {
        let before: BTreeMap<_, _> =
            entries.keys().map(|prefix| (*prefix, counted.counter_of(prefix).expect("it is there"))).collect();
        let mut stays = before.clone();
        for (prefix, entry) in &step {
            if entry.is_none() {
                stays.remove(prefix);
            }
            indexed.set(*prefix, entry.clone());
            match entry.clone() {
                Some(entry) => entries.insert(*prefix, entry),
                None => entries.remove(prefix),
            };
        }
        let mut rebuilt = Merged::<K, M>::new(&domain, LIMITS).unwrap();
        if together {
            merged.change(step.clone()).expect("there is room");
            counted.change(step.clone()).expect("there is room");
            // What was there before is of no consequence.
            rebuilt.change(step).expect("there is room");
        } else {
            for (prefix, entry) in step {
                merged.set(prefix, entry.clone()).expect("there is room");
                counted.set(prefix, entry).expect("there is room");
            }
        }
        // In another order than theirs.
        let all = entries.iter().rev().map(|(prefix, entry)| (*prefix, entry.clone()));
        rebuilt.replace_all(all).expect("there is room");
        for table in [&merged, &counted, &rebuilt] {
            prop_assert_eq!(table.occupancy().0, entries.len());
            prop_assert!(
                table.iter().map(|(prefix, entry, _)| (prefix, entry)).eq(entries.iter().map(|(p, e)| (*p, e)))
            );
            prop_assert!(table.iter().all(|(prefix, _, row)| table.row_of(&prefix) == Some(row)));
        }
        // Each prefix has a number of its own, which stays with it.
        let numbers: BTreeMap<_, _> =
            entries.keys().map(|prefix| (counted.counter_of(prefix).expect("it is there"), *prefix)).collect();
        prop_assert_eq!((numbers.len(), counted.sets().0), (entries.len(), entries.len()));
        prop_assert!(numbers.keys().all(|&number| (1..=2 * LIMITS.prefixes as u32).contains(&number)));
        for (prefix, number) in stays {
            prop_assert_eq!(numbers.get(&number), Some(&prefix));
        }
        let readings = [merged.reading(), counted.reading(), rebuilt.reading()];
        let guard = reader.pin();
        // All that prefixes begin with, and some that none does.
        for octet in (0..=255u8).filter(|octet| octet & 0b0101_0000 == 0) {
            for ones in [false, true] {
                let source = K::of(octet, ones);
                let covering: Vec<_> = entries.iter().filter(|(prefix, _)| prefix.contains(source)).rev().collect();
                prop_assert!(merged.covering(source).iter().map(|(p, e)| (p, *e)).eq(covering.iter().copied()));
                let mut row = [0];
                readings[1].rows(&guard, |_| source, &mut row);
                let number = numbers.get(&readings[1].counter(row[0]));
                prop_assert_eq!(number, covering.first().map(|(prefix, _)| *prefix));
                prop_assert_eq!(merged.counter_of(&Prefix::new(source, 8).expect("it has 8 bits")), None);
                // There are words for 192 interfaces: what is above is not in the row after.
                for interface in [0, 1, 3, 64, 129, 192, 4000] {
                    let (naive, quick) = says(&entries, &indexed, source, interface);
                    prop_assert_eq!(naive, quick, "the oracles: {:?} by {}", source, interface);
                    // An interface without room is invalid, also if the default verdict is valid.
                    let no_room = <M::Cell as Cell>::BITS > 1 && interface > 160;
                    let naive = if no_room { Verdict::Invalid } else { naive };
                    for reading in &readings {
                        prop_assert_eq!(
                            reading.check(&guard, source, interface),
                            naive,
                            "{:?} by {}",
                            source,
                            interface
                        );
                    }
                }
            }
        }
    }
    // Nothing is left of what is taken out.
    let all: Vec<_> = entries.into_keys().map(|prefix| (prefix, None)).collect();
    merged.change(all.clone()).expect("less needs no room");
    counted.change(all).expect("less needs no room");
    for table in [merged, counted] {
        prop_assert_eq!((table.occupancy().0, table.sets().0), (0, 0));
    }
    Ok(())
}

fn sets<K: Family>(entries: &BTreeMap<Prefix<K>, Set>) -> Vec<(Prefix<K>, Set)> {
    entries.iter().map(|(prefix, set)| (*prefix, set.clone())).collect()
}

fn most_specific<K: Family>(steps: Steps<K, Set>) -> Result<(), TestCaseError> {
    run::<K, MostSpecific>(steps, |entries, indexed, source, interface| {
        (naive::most_specific(&sets(entries), source, interface), indexed.most_specific(source, interface))
    })
}

fn any_covering<K: Family>(steps: Steps<K, Set>) -> Result<(), TestCaseError> {
    run::<K, AnyCovering>(steps, |entries, indexed, source, interface| {
        (naive::any_covering(&sets(entries), source, interface), indexed.any_covering(source, interface))
    })
}

/// Gives each rule a place of its own, in the order in which they come.
fn placed<K: Family>(steps: Steps<K, Vec<(Set, bool)>>) -> Steps<K, Vec<Rule>> {
    let mut place = 0;
    let mut rule = |(interfaces, permit): (Set, bool)| {
        // An order that is not that of the changes.
        place += 1;
        Rule { place: place * 7919 % 1009, interfaces, permit }
    };
    let mut step = |(together, step): Step<K, Vec<(Set, bool)>>| {
        let one = |(prefix, rules): (Prefix<K>, Option<Vec<_>>)| {
            (prefix, rules.map(|rules| rules.into_iter().map(&mut rule).collect()))
        };
        (together, step.into_iter().map(one).collect())
    };
    steps.into_iter().map(&mut step).collect()
}

fn ordered<K: Family>(steps: Steps<K, Vec<(Set, bool)>>) -> Result<(), TestCaseError> {
    run::<K, Ordered>(placed(steps), |entries, indexed, source, interface| {
        let mut list: Vec<_> =
            entries.iter().flat_map(|(prefix, rules)| rules.iter().map(move |rule| (prefix, rule))).collect();
        list.sort_by_key(|(_, rule)| rule.place);
        let list: Vec<_> =
            list.into_iter().map(|(prefix, rule)| (*prefix, rule.interfaces.clone(), rule.permit)).collect();
        (naive::ordered(&list, source, interface), indexed.ordered(source, interface))
    })
}

/// Names the interfaces with allowlists at the prefix of no bits, in each step in which they become others.
fn with_allowlisted<K: Family>(steps: Steps<K, Lists>) -> Steps<K, Lists> {
    let (mut entries, mut before) = (BTreeMap::<Prefix<K>, Lists>::new(), Set::default());
    let all = Prefix::ALL;
    let mut step = |(together, mut step): Step<K, Lists>| {
        for (prefix, lists) in &step {
            match lists.clone() {
                Some(lists) => drop(entries.insert(*prefix, lists)),
                None => drop(entries.remove(prefix)),
            }
        }
        let of = |lists: &Lists| lists.of(Mode::InterfaceAllow).into_iter().flat_map(Set::iter).collect::<Vec<_>>();
        let allowlisted: Set = entries.values().flat_map(of).collect();
        if allowlisted != before || step.iter().any(|(prefix, _)| *prefix == all) {
            let lists = entries.get(&all).cloned().unwrap_or_default().with_allowlisted(allowlisted.clone());
            step.push((all, Some(lists).filter(|lists| !lists.is_empty())));
        }
        before = allowlisted;
        (together, step)
    };
    steps.into_iter().map(&mut step).collect()
}

fn modes<K: Family, const ANY_COVERING: bool>(steps: Steps<K, Lists>) -> Result<(), TestCaseError> {
    let matching = Modes::<ANY_COVERING>::MATCH;
    run::<K, Modes<ANY_COVERING>>(with_allowlisted(steps), |entries, indexed, source, interface| {
        let of = |(prefix, lists): (&Prefix<K>, &Lists)| {
            Mode::ALL.map(|mode| lists.of(mode).map(|set| (*prefix, mode, set.clone())))
        };
        let all: Vec<_> = entries.iter().flat_map(of).flatten().collect();
        (naive::modes(&all, matching, source, interface), indexed.modes(matching, source, interface))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn lists_of_all_modes_decide_in_their_order(v4 in steps::<u32, _>(lists()), v6 in steps::<u128, _>(lists())) {
        modes::<u32, false>(v4.clone())?;
        modes::<u32, true>(v4)?;
        modes::<u128, false>(v6.clone())?;
        modes::<u128, true>(v6)?;
    }

    #[test]
    fn the_most_specific_decides(v4 in steps::<u32, _>(set()), v6 in steps::<u128, _>(set())) {
        most_specific(v4)?;
        most_specific(v6)?;
    }

    #[test]
    fn any_that_covers_is_enough(v4 in steps::<u32, _>(set()), v6 in steps::<u128, _>(set())) {
        any_covering(v4)?;
        any_covering(v6)?;
    }

    #[test]
    fn the_first_decides(
        v4 in steps::<u32, _>(vec((set(), any::<bool>()), 1..3)),
        v6 in steps::<u128, _>(vec((set(), any::<bool>()), 1..3)),
    ) {
        ordered(v4)?;
        ordered(v6)?;
    }
}

fn of(interfaces: &[u32]) -> Option<Set> {
    Some(interfaces.iter().copied().collect())
}

#[test]
fn what_has_no_room_changes_nothing() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let net = |text: &str| text.parse::<Prefix<u32>>().unwrap();
    let small = Limits { prefixes: 4, sets: 3, ..LIMITS };
    let mut merged = Merged::<u32, AnyCovering>::new(&domain, small).unwrap();
    merged
        .change([(net("10.0.0.0/8"), of(&[1])), (net("10.1.0.0/16"), of(&[2])), (net("10.2.0.0/16"), of(&[3]))])
        .unwrap();
    let mut said = |merged: &Merged<u32, AnyCovering>| -> Vec<Verdict> {
        let guard = &reader.pin();
        let each = |source| (0..6).map(move |interface| merged.reading().check(guard, source, interface));
        [0x0a00_0001, 0x0a01_0001, 0x0a02_0001, 0x0b00_0001].into_iter().flat_map(each).collect()
    };
    let before = said(&merged);
    // Three sets are in use: those of /8 and the two unions.
    assert_eq!((merged.occupancy(), merged.sets()), ((3, 4), (3, 3)));
    assert_eq!(merged.set(net("11.0.0.0/8"), of(&[4])), Err(NoRoom::Sets(3)));
    // The second of these finds no room: the first is undone, and so is what follows for those inside.
    let many = [(net("10.0.0.0/8"), of(&[1, 2, 3])), (net("11.0.0.0/8"), of(&[9])), (net("12.0.0.0/8"), of(&[8]))];
    assert_eq!(merged.change(many), Err(NoRoom::Sets(3)));
    assert_eq!((said(&merged), merged.occupancy(), merged.sets()), (before.clone(), (3, 4), (3, 3)));
    let many = (0..3).map(|n| (net(&format!("10.{}.0.0/16", 7 + n)), of(&[1])));
    assert!(matches!(merged.change(many), Err(NoRoom::Prefixes(_))));
    assert_eq!((said(&merged), merged.occupancy(), merged.sets()), (before, (3, 4), (3, 3)));
    merged.set(net("10.3.0.0/16"), of(&[1])).unwrap();
    assert_eq!(merged.occupancy().0, 4);
}

/// A reused row must not be visible to readers with its earlier number.
#[test]
fn readers_see_what_was_right_at_some_time() {
    let domain = Domain::new();
    let few = Limits { sets: 4, ..LIMITS };
    let net = |text: &str| text.parse::<Prefix<u32>>().unwrap();
    let mut merged = Merged::<u32, MostSpecific>::new(&domain, few).unwrap();
    // Interface 9 is never valid; of 1 and 2 always one.
    merged.set(net("10.0.0.0/8"), of(&[1])).unwrap();
    merged.set(net("11.0.0.0/8"), of(&[9])).unwrap();
    let reading = merged.reading();
    let stop = Arc::new(AtomicBool::new(false));
    let looked: Arc<[AtomicU64; 2]> = Arc::default();
    let readers: Vec<_> = (0..2)
        .map(|number| {
            let (reading, stop, domain) = (reading.clone(), Arc::clone(&stop), domain.clone());
            let looked = Arc::clone(&looked);
            std::thread::spawn(move || {
                let mut reader = domain.reader().unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let guard = reader.pin();
                    for _ in 0..64 {
                        let mut rows = [0; 1];
                        reading.rows(&guard, |_| 0x0a00_0001, &mut rows);
                        let valid = |interface| reading.verdict(rows[0], interface) == Verdict::Valid;
                        assert!(!valid(9) && (valid(1) != valid(2)), "row {}", rows[0]);
                        looked[number].fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    let mut round = 0u32;
    while round < 300 || looked.iter().any(|looked| looked.load(Ordering::Relaxed) < 2000) {
        // Each set is new, so its row was used before; unused rows of the four wait for readers.
        let set = [1 + round % 2, 10 + round % 100];
        merged.set(net("10.0.0.0/8"), of(&set)).unwrap();
        round += 1;
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().unwrap();
    }
}

/// Tables per line card say what one table says, in either order.
fn cards<K: Family>(steps: Steps<K, Set>, matching: Match) -> Result<(), TestCaseError> {
    let domain = Domain::new();
    let mut reader = domain.reader().expect("there is room");
    let all: [&[u32]; 3] = [&[0, 2, 64], &[1, 3, 129], &[100]];
    let sets = all.map(|interfaces| interfaces.iter().copied().collect::<Set>());
    let mut tables = Cards::<K>::new(&domain, matching, sets, LIMITS).unwrap();
    let (mut entries, mut indexed) = (BTreeMap::new(), Indexed::default());
    for (change, step) in steps {
        for (prefix, entry) in &step {
            indexed.set(*prefix, entry.clone());
            match entry.clone() {
                Some(entry) => entries.insert(*prefix, entry),
                None => entries.remove(prefix),
            };
        }
        if change {
            tables.change(step).expect("there is room");
        } else {
            tables.replace_all(entries.clone()).expect("there is room");
        }
        prop_assert_eq!(tables.occupancy(), (entries.len(), LIMITS.prefixes));
        prop_assert!(entries.iter().all(|(prefix, entry)| tables.get(prefix).as_ref() == Some(entry)));
        let sources: Vec<K> = (0..=255u8)
            .filter(|octet| octet & 0b0101_0000 == 0)
            .flat_map(|o| [K::of(o, false), K::of(o, true)])
            .collect();
        let guard = reader.pin();
        for (card, interfaces) in all.iter().enumerate() {
            let reading = tables.reading(card).expect("there is this card");
            for &interface in *interfaces {
                let expected: Vec<Verdict> = sources
                    .iter()
                    .map(|&source| match matching {
                        Match::MostSpecific => indexed.most_specific(source, interface),
                        Match::AnyCovering => indexed.any_covering(source, interface),
                    })
                    .collect();
                for order in [Order::Serial, Order::Parallel] {
                    let (mut rows, mut lengths) = (vec![0; sources.len()], vec![0; sources.len()]);
                    let mut verdicts = vec![Verdict::Unknown; sources.len()];
                    let source = |place: usize| sources[place];
                    reading.check_each(&guard, order, source, |_| interface, &mut rows, &mut lengths, &mut verdicts);
                    prop_assert_eq!(&verdicts, &expected, "{:?} by {}", order, interface);
                }
                prop_assert_eq!(reading.check(&guard, sources[3], interface), expected[3]);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn cards_say_what_one_table_says(v4 in steps::<u32, _>(set()), v6 in steps::<u128, _>(set())) {
        for matching in [Match::MostSpecific, Match::AnyCovering] {
            cards(v4.clone(), matching)?;
            cards(v6.clone(), matching)?;
        }
    }
}

/// Figures 1, 6 and 7 of the draft: p1 from if1 and if2, p2 from if3, p3 from all; if1 on the first card, if2 and if3 on
/// the second.
#[test]
fn the_drafts_example() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let net = |number: u8| format!("2001:db8:{number}::/48").parse::<Prefix<u128>>().unwrap();
    let rules = [(net(1), of(&[1, 2])), (net(2), of(&[3])), (net(3), of(&[1, 2, 3]))];
    for matching in [Match::MostSpecific, Match::AnyCovering] {
        let cards = [of(&[1]), of(&[2, 3])].map(|set| set.unwrap());
        let mut tables = Cards::new(&domain, matching, cards, LIMITS).unwrap();
        tables.change(rules.clone()).unwrap();
        let guard = reader.pin();
        let check = |number: u8, interface: u32| {
            let reading = tables.reading(usize::from(interface > 1)).unwrap();
            reading.check(&guard, net(number).address() | 1, interface)
        };
        let row = |number| [check(number, 1), check(number, 2), check(number, 3)];
        use Verdict::*;
        assert_eq!(row(1), [Valid, Valid, Invalid]);
        // "A packet from p2 entering if1 will be rejected, and a packet from p4 entering if1 will be permitted."
        assert_eq!(row(2), [Invalid, Invalid, Valid]);
        assert_eq!(row(3), [Valid, Valid, Valid]);
        assert_eq!(row(4), [Unknown, Unknown, Unknown]);
    }
}

fn v4(text: &str) -> Prefix<u32> {
    text.parse().unwrap()
}

#[test]
fn what_has_no_room_says_of_what() {
    let domain = Domain::new();
    let mut merged = Merged::<u32, MostSpecific>::new(&domain, Limits { prefixes: 2, sets: 1, ..LIMITS }).unwrap();
    merged.change([(v4("10.0.0.0/8"), of(&[1])), (v4("11.0.0.0/8"), of(&[1]))]).unwrap();
    assert_eq!(merged.set(v4("12.0.0.0/8"), of(&[1])).unwrap_err().to_string(), "the table is full: 2 routes");
    let error = merged.set(v4("11.0.0.0/8"), of(&[2])).unwrap_err().to_string();
    assert!(error.starts_with("the table is full: 1 different sets of interfaces"), "{error}");
    // The same in a table that is built anew: the older one stays.
    let three = ["1.0.0.0/8", "2.0.0.0/8", "3.0.0.0/8"].map(|net| (v4(net), of(&[1]).unwrap()));
    assert!(matches!(merged.replace_all(three), Err(NoRoom::Prefixes(_))));
    assert_eq!((merged.occupancy(), merged.get(&v4("11.0.0.0/8"))), ((2, 2), of(&[1]).as_ref()));
    // A million million interfaces are too many for any system.
    let wide = Limits { sets: u32::MAX, interfaces: u32::MAX, ..LIMITS };
    let error = Merged::<u32, MostSpecific>::new(&domain, wide).unwrap_err();
    assert!(matches!(error, NoRoom::AddressSpace { octets, .. } if octets > 1 << 55), "{error}");
}

/// Octets run out in the middle of a batch: nothing of it is done, also where each prefix has a row and a number.
#[test]
fn a_batch_without_octets_changes_nothing() {
    for distinct in [false, true] {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let limits = Limits { prefixes: 100_000, bytes: 64 << 10, distinct, ..LIMITS };
        let mut merged = Merged::<u32, AnyCovering>::new(&domain, limits).unwrap();
        let some = (0..100u32).map(|n| (Prefix::new(n << 20, 28).unwrap(), of(&[n % 3])));
        merged.change(some).unwrap();
        let said = |merged: &Merged<u32, AnyCovering>, reader: &mut weir_base::reclaim::Reader| {
            let (reading, guard) = (merged.reading(), reader.pin());
            let source = |n: u32| (0..5).map(|interface| reading.check(&guard, n << 20, interface)).collect::<Vec<_>>();
            (0..2000).map(source).collect::<Vec<_>>()
        };
        let state = |merged: &Merged<u32, AnyCovering>| {
            let numbers: Vec<_> = merged.iter().map(|(prefix, ..)| merged.counter_of(&prefix)).collect();
            (merged.occupancy(), merged.sets(), numbers)
        };
        let before = (said(&merged, &mut reader), state(&merged));
        let many: Vec<_> = (0..50_000u32).map(|n| (Prefix::new(n << 16, 27).unwrap(), of(&[4, n % 3]))).collect();
        let taken_out = (0..50u32).map(|n| (Prefix::new(n << 20, 28).unwrap(), None));
        for _ in 0..3 {
            let error = merged.change(taken_out.clone().chain(many.clone())).unwrap_err();
            assert_eq!(error, NoRoom::Prefixes(crate::lpm::Full::Bytes(64 << 10)));
            assert!((said(&merged, &mut reader), state(&merged)) == before);
        }
        // Less finds room, and more again where it was.
        merged.change(taken_out.clone()).unwrap();
        assert_eq!(merged.occupancy().0, 50);
        merged.change((0..50u32).map(|n| (Prefix::new(n << 20, 28).unwrap(), of(&[n % 3])))).unwrap();
        assert!(said(&merged, &mut reader) == before.0);
    }
}

/// A number serves another prefix once it is free, and there are twice as many as prefixes.
#[test]
fn numbers_of_prefixes_are_used_again() {
    let domain = Domain::new();
    let limits = Limits { prefixes: 3, distinct: true, ..LIMITS };
    let mut merged = Merged::<u32, MostSpecific>::new(&domain, limits).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..50u32 {
        let nets: Vec<_> = (0..3).map(|n| Prefix::new((round * 3 + n) << 24, 8).unwrap()).collect();
        merged.change(nets.iter().map(|net| (*net, of(&[1])))).unwrap();
        // All of them get other sets, and so other rows, twice over.
        for interface in [2, 3] {
            let before: Vec<_> = nets.iter().map(|net| (merged.counter_of(net), merged.row_of(net))).collect();
            merged.change(nets.iter().map(|net| (*net, of(&[interface])))).unwrap();
            for (net, (counter, row)) in nets.iter().zip(before) {
                assert_eq!(merged.counter_of(net), counter);
                assert_ne!(merged.row_of(net), row);
            }
        }
        seen.extend(nets.iter().map(|net| merged.counter_of(net).unwrap()));
        assert_eq!(merged.sets(), (3, 6));
        // One goes and comes back in one change, and goes again.
        merged.change([(nets[0], None), (nets[0], of(&[5])), (nets[1], None), (nets[1], of(&[5]))]).unwrap();
        assert_eq!((merged.occupancy().0, merged.sets().0), (3, 3));
        merged.change([(nets[0], of(&[6])), (nets[0], None), (nets[1], None), (nets[2], None)]).unwrap();
        assert_eq!((merged.occupancy().0, merged.sets().0), (0, 0));
    }
    assert!(seen.len() >= 3 && seen.into_iter().all(|number| (1..=6).contains(&number)));
}

/// Which changes older readings see.
#[test]
fn a_single_change_is_seen_at_once_unless_prefixes_lie_inside() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let mut merged = Merged::<u32, AnyCovering>::new(&domain, LIMITS).unwrap();
    merged.change([(v4("10.0.0.0/8"), of(&[1])), (v4("10.1.0.0/16"), of(&[2]))]).unwrap();
    let older = merged.reading();
    let mut check = |reading: &Reading<u32>, source, interface| reading.check(&reader.pin(), source, interface);
    merged.set(v4("10.1.0.0/16"), of(&[3])).unwrap();
    assert_eq!(check(&older, 0x0a01_0000, 3), Verdict::Valid);
    assert!(older.is_same(&merged.reading()));
    merged.set(v4("10.0.0.0/8"), of(&[4])).unwrap();
    assert_eq!(check(&older, 0x0a00_0000, 4), Verdict::Invalid);
    assert_eq!(check(&older, 0x0a01_0000, 1), Verdict::Valid);
    assert!(!older.is_same(&merged.reading()));
    assert_eq!(check(&merged.reading(), 0x0a01_0000, 4), Verdict::Valid);
    // What changes nothing gives no other table.
    let current = merged.reading();
    merged.change([(v4("10.0.0.0/8"), of(&[4])), (v4("77.0.0.0/8"), None)]).unwrap();
    assert!(current.is_same(&merged.reading()));
}

/// The reported memory: includes all that grows with the entries, and nothing else grows.
#[test]
fn memory_is_shown() {
    let domain = Domain::new();
    let limits = Limits { prefixes: 50_000, bytes: 64 << 20, sets: 50_000, ..LIMITS };
    let mut random = weir_base::random::Random::from_seed(1);
    let nets: Vec<Prefix<u128>> = crate::lpm::sample::mixed(20_000, 0.2, &mut random);
    let with = |sets: u32| {
        let mut merged = Merged::<u128, MostSpecific>::new(&domain, limits).unwrap();
        let empty = (merged.octets(), merged.control_octets());
        // The bits of a number: all different.
        let set = |n: u32| (0..14).filter(|bit| n >> bit & 1 != 0).collect::<Set>();
        let entries = nets.iter().zip(0..).map(|(net, n)| (*net, set(n % sets)));
        merged.replace_all(entries).unwrap();
        (merged.octets() - empty.0, merged.control_octets() - empty.1)
    };
    let (few, many) = (with(10), with(10_000));
    // The smallest node has 32 octets; a prefix is 17 octets for the control side, and its numbers 12. Some wider.
    assert!((20_000 * 32..20_000 * 100).contains(&few.0), "{few:?}");
    assert!((20_000 * 29..20_000 * 200).contains(&few.1), "{few:?}");
    // A row of 130 interfaces has 24 octets, and a mark; a set, two maps and references for the control side.
    assert!((9_900 * 25..11_000 * 60).contains(&(many.0 - few.0)), "{few:?} {many:?}");
    assert!((9_900 * 60..11_000 * 600).contains(&(many.1 - few.1)), "{few:?} {many:?}");
}

/// The same of lists, of which there are several at a prefix: the sets of all of them are counted.
#[test]
fn memory_of_lists_is_shown() {
    let domain = Domain::new();
    let nets = (0..4000u32).map(|n| Prefix::<u32>::new(n << 12, 20).unwrap());
    let with = |modes: &[Mode]| {
        let mut merged =
            Merged::<u32, Modes<false>>::new(&domain, Limits { prefixes: 5000, sets: 9000, ..LIMITS }).unwrap();
        // Seven of 130 interfaces, each time others; and in the other lists none of the first's.
        let set = |n: u32, from: u32| -> Set {
            (0..7).map(|place| from + 18 * place + n / 8u32.pow(place) % 8 + n % 2).collect()
        };
        let lists = |n: u32| {
            let mut lists = Lists::default();
            let from = |mode: Mode| if mode == Mode::PrefixAllow { 0 } else { 9 };
            modes.iter().for_each(|mode| lists.add(*mode, &set(n, from(*mode))));
            lists
        };
        merged.replace_all(nets.clone().zip(0..).map(|(net, n)| (net, lists(n)))).unwrap();
        merged.control_octets()
    };
    // Sets that are the same are counted where they are used: by the lists, and by what these come to.
    let octets = 4000 * (2 * size_of::<usize>() + 7 * size_of::<u32>());
    let (one, two) = (with(&[Mode::PrefixAllow]), with(&[Mode::PrefixAllow, Mode::InterfaceBlock]));
    let all = with(&Mode::ALL);
    assert!((octets..3 * octets).contains(&(two - one)), "{octets} {one} {two}");
    assert!((octets..5 * octets).contains(&(all - two)), "{octets} {two} {all}");
}

/// If one of the tables has no room, none of them has changed.
#[test]
fn cards_change_together() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    for matching in [Match::MostSpecific, Match::AnyCovering] {
        let few = Limits { sets: 2, prefixes: 300, ..LIMITS };
        let cards = [[0, 1, 2], [3, 4, 5], [6, 7, 8]].map(Set::from_iter);
        let mut tables = Cards::<u32>::new(&domain, matching, cards, few).unwrap();
        tables.change([(v4("10.0.0.0/8"), of(&[0, 3, 6])), (v4("10.1.0.0/16"), of(&[1, 4, 7]))]).unwrap();
        let mut said = |tables: &Cards<u32>| {
            let guard = reader.pin();
            let check =
                |source, interface| tables.reading(interface as usize / 3).unwrap().check(&guard, source, interface);
            let all = (0..9).flat_map(|interface| (0..300).map(move |net| (net << 16 | 10 << 24, interface)));
            all.map(|(source, interface)| check(source, interface)).collect::<Vec<_>>()
        };
        let before = (said(&tables), tables.sets(), tables.occupancy());
        // Each set of the last card is another: of 256 prefixes, more than there are rows for.
        let bits = |n: u32| (0..3).filter(move |bit| (n % 7 + 1) >> bit & 1 != 0).map(|bit| 6 + bit);
        let net = |n: u32| Prefix::new(n << 16 | 10 << 24, 16 + (n % 17) as u8).unwrap();
        let many: Vec<_> = (0..256).map(|n| (net(n), Some([1, 4].into_iter().chain(bits(n)).collect()))).collect();
        let held: Vec<_> = (0..3).map(|card| tables.reading(card).unwrap()).collect();
        assert!(matches!(tables.change(many.clone()), Err(NoRoom::Sets(_))), "{matching:?}");
        assert!((said(&tables), tables.sets(), tables.occupancy()) == before);
        drop(held);
        assert!(tables.replace_all(many.into_iter().map(|(net, set)| (net, set.unwrap()))).is_err());
        assert!((said(&tables), tables.sets(), tables.occupancy()) == before);
        tables.change([(v4("11.0.0.0/8"), of(&[0, 3, 6]))]).unwrap();
        assert!(said(&tables) != before.0);
        assert!(tables.octets() > 0 && tables.control_octets() > 0);
    }
}
