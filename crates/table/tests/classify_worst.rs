//! Bounds of a lookup: lists that overlap, built at once and grown one by one, are searched in a bounded number of steps, or refused.

use std::ops::Range;

use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_table::classify::sample::{self, Adverse, Packets};
use weir_table::classify::{Error, Limits, NO_RULE, Rule, Span, Writer};
use weir_table::sav::Set;

const LIMITS: Limits = Limits { rules: 1 << 20, bytes: 2 << 30 };

/// Rules that overlap at most, in a chain and before it.
const MOST: usize = 3 * 16_384 + 1024;

/// Lookups agree with a linear search, for packets that match some of these rules, and for those beside them.
fn agrees<K: Packets>(domain: &Domain, writer: &Writer<K>, near: &[Rule<K>], random: &mut Random) {
    let mut rules: Vec<_> = writer.iter().collect();
    rules.sort_unstable_by_key(|(place, ..)| *place);
    let packets: Vec<_> = (0..256).map(|_| sample::near(near, random)).collect();
    let (table, mut reader) = (writer.table(), domain.reader().unwrap());
    let mut found = vec![0; packets.len()];
    table.lookup_each(&reader.pin(), &packets, &mut found);
    for (packet, found) in packets.iter().zip(found) {
        let right = rules.iter().find(|(_, rule, _)| rule.matches(packet)).map_or(NO_RULE, |(.., identity)| *identity);
        assert_eq!(found, right, "{packet:?}");
    }
}

/// Puts rules in one by one, each at the place of its number. Gives the number that is refused, if one is.
fn grow<K: Packets>(
    writer: &mut Writer<K>,
    rules: &[Rule<K>],
    order: impl Iterator<Item = usize>,
) -> Option<(usize, Error)> {
    order.into_iter().find_map(|rule| {
        let done = writer.insert(rule as u64, rules[rule].clone(), rule as u32);
        done.err().map(|error| (rule, error))
    })
}

/// Ranges around one address, the narrowest first: all overlap, none covers a later one, and no field parts them.
fn around(widths: Range<u32>) -> Vec<Rule<u32>> {
    let of = |width| Span::new((1 << 31) - 1 - width, (1 << 31) + width).unwrap();
    widths.map(|width| Rule { source: of(width), ..Rule::any() }).collect()
}

#[test]
fn more_rules_that_overlap_than_a_lookup_can_search_are_refused_at_once() {
    let (rules, domain) = (around(0..60_000), Domain::new());
    let mut writer = Writer::new(&domain, LIMITS).unwrap();
    let all = |rules: &[Rule<u32>]| Vec::from_iter((0..).zip(rules.to_vec()).map(|(at, rule)| (at, rule, at as u32)));
    let refused = Error::Overlap { most: 49_152, places: [0, 49_152] };
    assert_eq!(writer.load(all(&rules)), Err(refused));
    assert!(writer.is_empty() && writer.stats().octets - writer.stats().waiting < 1 << 10);
    writer.load(all(&rules[..49_152])).unwrap();
    let worst = writer.worst();
    assert!(worst.overlapping == 49_152 && worst.nodes == 2 && worst.ticks < 500, "{worst:?}");
    agrees(&domain, &writer, &rules, &mut Random::from_seed(1));
}

/// A rule that is refused has changed nothing, and when others have gone there is room for it.
#[test]
fn more_rules_that_overlap_than_a_lookup_can_search_are_refused_one_by_one() {
    let (rules, domain) = (around(0..60_000), Domain::new());
    let mut writer = Writer::new(&domain, LIMITS).unwrap();
    let (refused, error) = grow(&mut writer, &rules, 0..rules.len()).expect("there are too many");
    assert!(matches!(error, Error::Overlap { most: 49_152, .. }), "{error}");
    assert!((49_152..=MOST).contains(&refused) && writer.len() == refused, "{refused}");
    let (worst, mut random) = (writer.worst(), Random::from_seed(2));
    assert!(worst.nodes <= 8 && worst.ticks < 700, "{worst:?}");
    agrees(&domain, &writer, &rules, &mut random);
    for place in (0..refused as u64).step_by(4) {
        assert_eq!(writer.remove(place), Ok(Some(place as u32)));
    }
    assert_eq!(grow(&mut writer, &rules, refused..refused + 1000), None);
    agrees(&domain, &writer, &rules, &mut random);
}

/// A link of a chain has room for fewer rules where they name many interfaces.
#[test]
fn rules_that_name_many_interfaces_nest_no_deeper_than_others() {
    let (mut random, domain) = (Random::from_seed(3), Domain::new());
    let mut one = || {
        let interfaces = (0..8).map(|_| random.below(100_000) as u32).collect::<Set>();
        Rule::<u32> { interfaces: Some(interfaces), ..Rule::any() }
    };
    let rules = Vec::from_iter((0..5000).map(|_| one()));
    let mut writer = Writer::new(&domain, LIMITS).unwrap();
    writer.load((0..1100).map(|rule| (rule, rules[rule as usize].clone(), rule as u32))).unwrap();
    let mut most = 0;
    for (rule, own) in rules.iter().enumerate().skip(1100) {
        match writer.insert(rule as u64, own.clone(), rule as u32) {
            Ok(()) => most = most.max(writer.worst().nodes),
            Err(error) => {
                assert!(matches!(error, Error::Overlap { most: 3072, .. }), "{error}");
                assert!(rule >= 3072 && writer.len() == rule, "{rule}");
                break;
            }
        }
    }
    assert!(writer.len() < rules.len() && most <= 8, "{most}");
    agrees(&domain, &writer, &rules, &mut Random::from_seed(4));
}

/// One set that all rules name takes no more room than one interface.
#[test]
fn interfaces_that_the_same_rules_name_count_once() {
    let (mut random, domain) = (Random::from_seed(5), Domain::new());
    let all: Set = (0..4000).collect();
    let rules = Adverse::Ranges.rules::<u32>(5000, &mut random);
    let rules = Vec::from_iter(rules.into_iter().map(|rule| Rule { interfaces: Some(all.clone()), ..rule }));
    let mut writer = Writer::new(&domain, LIMITS).unwrap();
    writer.load((0..).zip(&rules).map(|(place, rule)| (place, rule.clone(), place as u32))).unwrap();
    assert_eq!(writer.worst().nodes, 0, "one list of vectors of bits");
    agrees(&domain, &writer, &rules, &mut random);
}

/// Equal rules after others that nothing parts: all but few are left out, and come back when the first goes.
fn equal_rules<K: Packets>(order: impl Iterator<Item = usize>) {
    let (mut random, domain) = (Random::from_seed(6), Domain::new());
    let mut rules = Adverse::Ranges.rules::<K>(2000, &mut random);
    rules.extend(vec![rules[1999].clone(); 58_000]);
    let mut writer = Writer::new(&domain, LIMITS).unwrap();
    assert_eq!(grow(&mut writer, &rules, order), None);
    let worst = writer.worst();
    assert!(worst.nodes <= 8 && worst.ticks < 300, "{worst:?}");
    agrees(&domain, &writer, &rules[..2000], &mut random);
    for place in (0..3000).chain(58_000..60_000) {
        assert_eq!(writer.remove(place), Ok(Some(place as u32)));
        if place % 500 == 0 {
            agrees(&domain, &writer, &rules[..2000], &mut random);
        }
    }
    agrees(&domain, &writer, &rules[..2000], &mut random);
}

#[test]
fn equal_rules_one_by_one_stay_quick_to_look_up() {
    equal_rules::<u32>(0..60_000);
}

#[test]
fn equal_rules_of_ipv6_one_by_one_the_last_first_stay_quick_to_look_up() {
    equal_rules::<u128>((0..60_000).rev());
}

/// Hard lists in any order: what others cover is left out, so few rules are searched, and hosts that differ in few bits are parted
/// by a hash.
fn hard_lists_stay_quick<K: Packets>(seed: u64) {
    const RULES: usize = 10_000;
    let mut random = Random::from_seed(seed);
    for (set, most) in
        [(Adverse::Lengths, 130), (Adverse::Ranges, 150), (Adverse::Addresses, 150), (Adverse::Sparse, 100)]
    {
        let rules = set.rules::<K>(RULES, &mut random);
        for order in 0..3 {
            let domain = Domain::new();
            let mut writer = Writer::new(&domain, LIMITS).unwrap();
            match order {
                0 => writer.load((0..).zip(&rules).map(|(at, rule)| (at, rule.clone(), at as u32))).unwrap(),
                1 => assert_eq!(grow(&mut writer, &rules, 0..RULES), None),
                _ => assert_eq!(grow(&mut writer, &rules, (0..RULES).rev()), None),
            }
            let worst = writer.worst();
            assert!(worst.ticks < most && worst.overlapping <= 2048, "{set:?}, order {order}: {worst:?}");
            agrees(&domain, &writer, &rules, &mut random);
        }
    }
}

#[test]
fn hard_lists_of_ipv4_stay_quick_to_look_up() {
    hard_lists_stay_quick::<u32>(13);
}

#[test]
fn hard_lists_of_ipv6_stay_quick_to_look_up() {
    hard_lists_stay_quick::<u128>(14);
}

/// Rules that cover others cover one another, too: the widest ones go first, then the rules under them.
#[test]
fn rules_that_cover_one_another_go_in_any_order() {
    let (mut random, domain) = (Random::from_seed(15), Domain::new());
    let mut rules = Adverse::Lengths.rules::<u32>(20_000, &mut random);
    rules.extend(Adverse::Ranges.rules::<u32>(2000, &mut random));
    for seed in [16, 17] {
        let mut random = Random::from_seed(seed);
        let mut writer = Writer::new(&domain, LIMITS).unwrap();
        // The first half at once, the others one by one.
        let one = |place: usize| (place as u64, rules[place].clone(), place as u32);
        writer.load((0..rules.len()).step_by(2).map(one)).unwrap();
        assert_eq!(grow(&mut writer, &rules, (1..rules.len()).step_by(2)), None);
        agrees(&domain, &writer, &rules, &mut random);
        let mut places = Vec::from_iter(0..rules.len());
        if seed == 17 {
            (1..places.len()).rev().for_each(|last| places.swap(last, random.below(last as u64 + 1) as usize));
        }
        for (gone, place) in places.into_iter().enumerate() {
            assert_eq!(writer.remove(place as u64), Ok(Some(place as u32)));
            if gone % 2000 == 0 {
                agrees(&domain, &writer, &rules, &mut random);
            }
        }
        writer.collect();
        assert!(writer.is_empty() && writer.stats().octets - writer.stats().waiting < 16 << 10, "{:?}", writer.stats());
    }
}
