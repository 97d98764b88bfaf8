//! Classifiers against the specification.

use proptest::prelude::*;
use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_table::classify::sample::{self, Packets};
use weir_table::classify::{
    Error, Fields, Fragment, Limits, MOST_RULES, NO_RULE, Rule, Small, Span, Upper, Writer, naive,
};

fn specification<K: Packets>(rules: &[Rule<K>]) -> naive::Classifier<K> {
    let mut specification = naive::Classifier::new();
    for (place, rule) in rules.iter().enumerate() {
        specification.insert(place as u64, rule.clone(), place as u32);
    }
    specification
}

fn small_agrees<K: Packets>(seed: u64, rules: usize) {
    let mut random = Random::from_seed(seed);
    let rules = sample::mixed::<K>(rules, &mut random);
    let specification = specification(&rules);
    let small = Small::build(rules.iter().zip(0..)).unwrap();
    let packets: Vec<Fields<K>> = (0..300).map(|_| sample::near(&rules, &mut random)).collect();
    let mut found = vec![0; packets.len()];
    small.lookup_each(&packets, &mut found);
    for (packet, found) in packets.iter().zip(found) {
        assert_eq!(found, specification.lookup(packet), "{packet:x?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_small_list_finds_the_first_match_ipv4(seed: u64, rules in 0usize..300) {
        small_agrees::<u32>(seed, rules);
    }

    #[test]
    fn a_small_list_finds_the_first_match_ipv6(seed: u64, rules in 0usize..300) {
        small_agrees::<u128>(seed, rules);
    }
}

#[test]
fn a_list_of_the_most_rules_agrees() {
    small_agrees::<u32>(1, MOST_RULES);
    small_agrees::<u128>(2, MOST_RULES);
}

/// Lists of few rules, most of which end with one for all packets: all packets may have a rule before the last one is compared.
fn few_agree<K: Packets>(seed: u64) {
    let mut random = Random::from_seed(seed);
    let mut rules = sample::mixed::<K>(random.below(4) as usize, &mut random);
    if random.below(4) > 0 {
        let at = random.below(rules.len() as u64 + 1) as usize;
        rules.insert(at, Rule::any());
    }
    let specification = specification(&rules);
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let mut writer = Writer::new(&domain, limits(1 << 10)).unwrap();
    writer.load(rules.iter().enumerate().map(|(place, rule)| (place as u64, rule.clone(), place as u32))).unwrap();
    for count in [1, 2, 17, 300] {
        let packets: Vec<Fields<K>> = (0..count).map(|_| sample::near(&rules, &mut random)).collect();
        let mut found = vec![0; packets.len()];
        writer.table().lookup_each(&reader.pin(), &packets, &mut found);
        for (packet, found) in packets.iter().zip(found) {
            assert_eq!(found, specification.lookup(packet), "{packet:x?}");
        }
    }
}

#[test]
fn lists_of_few_rules_agree() {
    for seed in 0..200 {
        few_agree::<u32>(seed);
        few_agree::<u128>(seed);
    }
}

/// Most samples are to match some rule, and not the same: else they would test little.
#[test]
fn samples_match_many_rules() {
    let (mut hit, mut none) = (0, 0);
    // A wide rule may come early in one of the lists.
    for seed in 0..10 {
        let mut random = Random::from_seed(seed);
        let rules = sample::mixed::<u32>(200, &mut random);
        let specification = specification(&rules);
        let mut hits = vec![0; rules.len()];
        for _ in 0..5000 {
            match specification.lookup(&sample::near(&rules, &mut random)) {
                NO_RULE => none += 1,
                rule => hits[rule as usize] += 1,
            }
        }
        hit += hits.iter().filter(|hits| **hits > 0).count();
    }
    assert!((2500..37_500).contains(&none), "{none}");
    assert!(hit > 800, "{hit}");
}

#[test]
fn what_a_packet_does_not_have_does_not_match() {
    let web =
        Rule::<u32> { upper: Upper::Ports { source: Span::<u16>::ALL, destination: Span::only(80) }, ..Rule::any() };
    let ports =
        Rule::<u32> { upper: Upper::Ports { source: Span::<u16>::ALL, destination: Span::<u16>::ALL }, ..Rule::any() };
    let echo = Rule::<u32> { upper: Upper::Icmp { kind: Span::only(8), code: Span::<u8>::ALL }, ..Rule::any() };
    let rest = Rule::<u32> { fragments: Fragment::Later.into(), ..Rule::any() };
    let rules = Small::build([(&web, 0), (&ports, 1), (&echo, 2), (&rest, 3)]).unwrap();
    let packet = Fields::new(1, 2, 6);
    let packets = [
        packet.with_ports(1, 80),
        packet.with_ports(1, 81),
        packet.with_icmp(8, 0),
        packet.with_icmp(0, 80),
        packet,
        packet.with_fragment(Fragment::Later),
        packet.with_fragment(Fragment::Later).with_ports(1, 80),
        packet.with_fragment(Fragment::First),
    ];
    let mut found = [0; 8];
    rules.lookup_each(&packets, &mut found);
    assert_eq!(found, [0, 1, 2, NO_RULE, NO_RULE, 3, 0, NO_RULE]);
}

#[test]
fn lists_are_bounded() {
    let any = Rule::<u32>::any();
    let many = vec![any.clone(); MOST_RULES + 1];
    let refused = Small::build(many.iter().zip(0..)).map(|_| ());
    assert_eq!(refused, Err(Error::TooManyRules { rules: MOST_RULES + 1, most: MOST_RULES }));
    let refused = Small::build([(&any, 0), (&any, NO_RULE)]).map(|_| ());
    assert_eq!(refused, Err(Error::ReservedIdentity { place: 1 }));
    let mut found = [0];
    Small::build([]).unwrap().lookup_each(&[Fields::<u32>::default()], &mut found);
    assert_eq!(found, [NO_RULE]);
}

fn limits(rules: usize) -> Limits {
    Limits { rules, bytes: 64 << 20 }
}

fn tree_agrees<K: Packets>(seed: u64, count: usize) {
    let mut random = Random::from_seed(seed);
    let rules = sample::mixed::<K>(count, &mut random);
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let mut writer = Writer::new(&domain, limits(1 << 16)).unwrap();
    let mut specification = naive::Classifier::new();
    let half = rules.len() / 2;
    writer
        .load(rules[..half].iter().enumerate().map(|(place, rule)| (7 * place as u64, rule.clone(), place as u32)))
        .unwrap();
    for (place, rule) in rules[..half].iter().enumerate() {
        specification.insert(7 * place as u64, rule.clone(), place as u32);
    }
    let mut check = |writer: &Writer<K>, specification: &naive::Classifier<K>, random: &mut Random| {
        let packets: Vec<Fields<K>> = (0..300).map(|_| sample::near(&rules, random)).collect();
        let mut found = vec![0; packets.len()];
        writer.table().lookup_each(&reader.pin(), &packets, &mut found);
        for (packet, found) in packets.iter().zip(found) {
            assert_eq!(found, specification.lookup(packet), "{packet:x?}");
        }
    };
    check(&writer, &specification, &mut random);
    for round in 0..3 {
        for (number, rule) in rules.iter().enumerate().skip(half) {
            let place = random.below(8 * rules.len() as u64);
            let refused = writer.insert(place, rule.clone(), number as u32);
            if specification.iter().any(|(taken, ..)| taken == place) {
                assert_eq!(refused, Err(Error::PlaceTaken { place }));
            } else {
                assert_eq!(refused, Ok(()));
                specification.insert(place, rule.clone(), number as u32);
            }
        }
        check(&writer, &specification, &mut random);
        let places: Vec<u64> = specification.iter().map(|(place, ..)| place).collect();
        for place in places {
            if random.chance([0.3, 0.9, 1.0][round]) {
                assert_eq!(writer.remove(place).unwrap(), specification.remove(place));
            }
        }
        check(&writer, &specification, &mut random);
        assert_eq!(writer.len(), specification.iter().count());
    }
    assert!(writer.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_tree_finds_the_first_match_ipv4(seed: u64, rules in 0usize..1000) {
        tree_agrees::<u32>(seed, rules);
    }

    #[test]
    fn a_tree_finds_the_first_match_ipv6(seed: u64, rules in 0usize..1000) {
        tree_agrees::<u128>(seed, rules);
    }
}

/// Rules that nothing parts, at the edge of what there is room for: refused as a whole, and all as before.
#[test]
fn what_is_full_refuses_and_stays_as_it_is() {
    let mut random = Random::from_seed(9);
    let rules = sample::Adverse::Ranges.rules::<u32>(3000, &mut random);
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let mut writer = Writer::new(&domain, Limits { rules: 1 << 16, bytes: 700 << 10 }).unwrap();
    let mut specification = naive::Classifier::new();
    let mut refused = 0;
    for (number, rule) in rules.iter().enumerate() {
        match writer.insert(number as u64, rule.clone(), number as u32) {
            Ok(()) => drop(specification.insert(number as u64, rule.clone(), number as u32)),
            Err(Error::Full { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        if refused > 20 {
            break;
        }
    }
    assert!(refused > 20 && writer.len() > 100, "{refused} refused, {} there", writer.len());
    let all = rules.iter().enumerate().skip(1500).map(|(place, rule)| (1 << 20 | place as u64, rule.clone(), 0));
    assert!(matches!(writer.load(all), Err(Error::Full { .. })));
    let packets: Vec<Fields<u32>> = (0..2000).map(|_| sample::near(&rules, &mut random)).collect();
    let mut found = vec![0; packets.len()];
    writer.table().lookup_each(&reader.pin(), &packets, &mut found);
    for (packet, found) in packets.iter().zip(found) {
        assert_eq!(found, specification.lookup(packet), "{packet:x?}");
    }
    let places: Vec<u64> = specification.iter().map(|(place, ..)| place).collect();
    for place in places {
        assert_eq!(writer.remove(place).unwrap(), specification.remove(place));
    }
    writer.collect();
    let stats = writer.stats();
    assert!(writer.is_empty() && stats.octets <= 4096, "{stats:?}");
}
