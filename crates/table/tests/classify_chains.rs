//! Rules that nothing separates: chains of leaves, their changes, and other trees at the limit of their depth.

use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_table::classify::{Error, Fields, Limits, NO_RULE, Rule, Span, Upper, Writer};
use weir_table::lpm::Prefix;
use weir_table::sav::Set;

const UDP: u8 = 17;
const TCP: u8 = 6;

/// From any host to any.
fn udp(source: (u16, u16), destination: (u16, u16)) -> Rule<u32> {
    let [source, destination] = [source, destination].map(|(low, high)| Span::new(low, high).unwrap());
    Rule { protocol: Some(UDP), upper: Upper::Ports { source, destination }, ..Rule::any() }
}

/// No rule is for destination ports from here on.
const PAST: u16 = 62_000;

/// Ranges of ports that overlap each other all.
fn wide(random: &mut Random) -> Rule<u32> {
    let mut range = || (random.below(30_000) as u16, 35_000 + random.below(25_000) as u16);
    udp(range(), range())
}

/// One that values of ports part, and bits do not: those of both its ends differ.
fn narrow(random: &mut Random) -> Rule<u32> {
    let middle = 8192 * (1 + random.below(7)) as u16;
    udp((middle - 1 - random.below(1500) as u16, middle + random.below(1500) as u16), (10, 60_000))
}

fn writer(domain: &Domain, rules: &[Rule<u32>]) -> Writer<u32> {
    let mut writer = Writer::new(domain, Limits { rules: 1 << 20, bytes: 1 << 30 }).unwrap();
    writer.load((0..).zip(rules).map(|(place, rule)| (place, rule.clone(), place as u32))).unwrap();
    writer
}

/// Result of a linear search.
fn first(rules: &[(u64, Rule<u32>)], packet: &Fields<u32>) -> u32 {
    rules.iter().find(|(_, rule)| rule.matches(packet)).map_or(NO_RULE, |(place, _)| *place as u32)
}

/// Most match no rule, and so are looked up to the end.
fn packets(random: &mut Random, count: usize) -> Vec<Fields<u32>> {
    let mut packet = |port| {
        let protocol = if random.chance(0.1) { TCP } else { UDP };
        Fields::new(random.next() as u32, random.next() as u32, protocol).with_ports(random.next() as u16, port)
    };
    (0..count)
        .map(|number| packet(if number % 8 == 0 { 20_000 + number as u16 } else { PAST + number as u16 }))
        .collect()
}

fn agrees(domain: &Domain, writer: &Writer<u32>, random: &mut Random) {
    let mut rules = Vec::from_iter(writer.iter().map(|(place, rule, _)| (place, rule.clone())));
    rules.sort_unstable_by_key(|(place, _)| *place);
    let (table, mut reader) = (writer.table(), domain.reader().unwrap());
    let packets = packets(random, 512);
    let mut found = vec![0; packets.len()];
    table.lookup_each(&reader.pin(), &packets, &mut found);
    for (packet, found) in packets.iter().zip(found) {
        assert_eq!(found, first(&rules, packet), "{packet:?}");
    }
}

/// The leaves of a long chain become nodes that cut, one by one: packets that match nothing pass them all.
#[test]
fn nodes_in_a_long_chain_are_looked_up() {
    let mut random = Random::from_seed(1);
    let (links, of_link) = (8, 16_384);
    // A third is too few to cut for, and enough when a quarter of all, which are others, have gone.
    let is_narrow = |rule: usize| rule.is_multiple_of(3);
    let mut rules = Vec::from_iter((0..links * of_link).map(|rule| match is_narrow(rule) {
        true => narrow(&mut random),
        false => wide(&mut random),
    }));
    // Below a node: the rests of the first one are looked up by all packets, one after the other.
    for _ in 0..3000 {
        let source = Prefix::new(random.next() as u32, 32).unwrap().into();
        rules.push(Rule { source, protocol: Some(TCP), ..Rule::any() });
    }
    let domain = Domain::new();
    let mut writer = writer(&domain, &rules);
    agrees(&domain, &writer, &mut random);
    let rebuilt = writer.stats().rebuilt;
    for link in (0..links).rev() {
        let others = (link * of_link..).filter(|rule| !is_narrow(*rule));
        others.take(of_link / 4 + 1).for_each(|rule| assert!(writer.remove(rule as u64).unwrap().is_some()));
    }
    assert!(writer.stats().rebuilt >= rebuilt + links as u64);
    agrees(&domain, &writer, &mut random);
}

/// Rules of a leaf of vectors of bits go without its being built anew, and come back to their places.
#[test]
fn rules_are_taken_out_of_a_leaf_and_come_back() {
    let mut random = Random::from_seed(6);
    // They overlap, and none covers another.
    let mut rules = Vec::from_iter((0..3000).map(|rule| udp((rule, 30_000 + rule), (10, 60_000))));
    // All that a packet may have.
    rules.insert(0, udp((0, u16::MAX), (0, u16::MAX)));
    let domain = Domain::new();
    let mut writer = writer(&domain, &rules);
    // It covers the others, which come back all at once.
    assert_eq!(writer.remove(0), Ok(Some(0)));
    let rebuilt = writer.stats().rebuilt;
    assert!(rebuilt < 8 && writer.worst().overlapping >= 2900, "{:?}", writer.worst());
    for place in 1..500 {
        assert_eq!(writer.remove(place), Ok(Some(place as u32)));
    }
    assert_eq!(writer.stats().rebuilt, rebuilt);
    agrees(&domain, &writer, &mut random);
    for place in (0..500).rev() {
        writer.insert(place, wide(&mut random), place as u32).unwrap();
        if place % 50 == 0 {
            agrees(&domain, &writer, &mut random);
        }
    }
    for place in 0..3000 {
        assert_eq!(writer.remove(place), Ok(Some(place as u32)));
        if place % 500 == 0 {
            agrees(&domain, &writer, &mut random);
        }
    }
    agrees(&domain, &writer, &mut random);
}

/// Rules of parts that were built anew as 200 more came behind all.
fn rebuilt_for_more(writer: &mut Writer<u32>, mut rule: impl FnMut() -> Rule<u32>) -> u64 {
    let before = writer.stats().rebuilt_rules;
    for place in 0..200 {
        writer.insert(30_000 + place, rule(), 30_000 + place as u32).unwrap();
    }
    writer.stats().rebuilt_rules - before
}

#[test]
fn a_rule_comes_to_the_end_of_a_chain_without_rebuilding_it() {
    let mut random = Random::from_seed(2);
    let rules = Vec::from_iter((0..20_000).map(|_| wide(&mut random)));
    let domain = Domain::new();
    let mut writer = writer(&domain, &rules);
    let rebuilt = rebuilt_for_more(&mut writer, || wide(&mut random));
    // Now and then, of these and none that were there.
    assert!(rebuilt <= 200 / 32 * 250, "{:?}", writer.stats());
    agrees(&domain, &writer, &mut random);
}

#[test]
fn what_all_rules_share_parts_nothing() {
    let mut random = Random::from_seed(3);
    let host: Prefix<u32> = "192.0.2.1/32".parse().unwrap();
    let shared = |rule: Rule<u32>| Rule { destination: host.into(), ..rule };
    let rules = Vec::from_iter((0..1000).map(|_| shared(wide(&mut random))));
    let domain = Domain::new();
    let mut writer = writer(&domain, &rules);
    let rebuilt = rebuilt_for_more(&mut writer, || shared(wide(&mut random)));
    assert!(rebuilt <= 200 / 32 * 1300, "{:?}", writer.stats());
    agrees(&domain, &writer, &mut random);
}

#[test]
fn a_chain_goes_with_its_rules() {
    let mut random = Random::from_seed(4);
    let rules = Vec::from_iter((0..24_000).map(|_| wide(&mut random)));
    let domain = Domain::new();
    let mut writer = writer(&domain, &rules);
    // In another order than they came in.
    let mut places = Vec::from_iter(0..24_000u64);
    while places.len() > 10 {
        let place = places.swap_remove(random.below(places.len() as u64) as usize);
        assert_eq!(writer.remove(place), Ok(Some(place as u32)));
    }
    writer.collect();
    let stats = writer.stats();
    assert!(stats.octets - stats.waiting < 16 << 10, "{stats:?}");
    agrees(&domain, &writer, &mut random);
}

#[test]
fn a_rule_of_more_interfaces_than_there_is_room_for_is_refused() {
    let domain = Domain::new();
    let mut writer = writer(&domain, &[]);
    let of = |interfaces: u32| Rule { interfaces: Some((0..interfaces).collect::<Set>()), ..Rule::<u32>::any() };
    let refused = Error::TooManyInterfaces { place: 7, interfaces: 16_001, most: 16_000 };
    assert_eq!(writer.insert(7, of(16_001), 1), Err(refused));
    assert_eq!(writer.load([(7, of(16_001), 1)]), Err(refused));
    writer.insert(7, of(16_000), 1).unwrap();
    let (table, mut reader) = (writer.table(), domain.reader().unwrap());
    let by = |interface| Fields::new(1, 2, UDP).with_interface(interface);
    let mut found = [0; 2];
    table.lookup_each(&reader.pin(), &[by(15_999), by(16_000)], &mut found);
    assert_eq!(found, [1, NO_RULE]);
    assert_eq!(writer.remove(7), Ok(Some(1)));
}

#[test]
fn interfaces_tell_rules_apart_that_nothing_else_does() {
    let domain = Domain::new();
    let on =
        |rule: u32| Rule { interfaces: Some([2 * rule, 2 * rule + 1].into_iter().collect()), ..Rule::<u32>::any() };
    for count in [9, 32, 33, 64, 200] {
        let rules = Vec::from_iter((0..count).map(on));
        let mut writer = writer(&domain, &rules);
        let check = |writer: &Writer<u32>| {
            let (table, mut reader) = (writer.table(), domain.reader().unwrap());
            let packets = Vec::from_iter((0..2 * count + 2).map(|by| Fields::new(1, 2, UDP).with_interface(by)));
            let mut found = vec![0; packets.len()];
            table.lookup_each(&reader.pin(), &packets, &mut found);
            for (packet, found) in packets.iter().zip(found) {
                let of = u64::from(packet.interface() / 2);
                assert_eq!(found, writer.get(of).map_or(NO_RULE, |(_, identity)| identity));
            }
        };
        check(&writer);
        writer.remove(3).unwrap();
        check(&writer);
        writer.insert(3, on(3), 3).unwrap();
        check(&writer);
    }
}

/// Near the limit there is no room to build parts anew: rules come as long as there is room for them, and again when others
/// have gone.
#[test]
fn what_has_been_full_takes_rules_again() {
    let mut random = Random::from_seed(5);
    let domain = Domain::new();
    let mut writer = Writer::new(&domain, Limits { rules: 1 << 20, bytes: 400 << 10 }).unwrap();
    let host = |random: &mut Random| Rule::<u32> {
        source: Prefix::new(random.next() as u32, 32).unwrap().into(),
        ..Rule::any()
    };
    writer.load((0..50).map(|place| (place, host(&mut random), place as u32))).unwrap();
    let mut next = 50;
    let mut refused = 0;
    while refused < 2000 {
        match writer.insert(next, host(&mut random), next as u32) {
            Ok(()) => next += 1,
            Err(error) => {
                assert!(matches!(error, Error::Full { .. }));
                refused += 1;
            }
        }
    }
    let most = writer.len();
    assert!(most > 1000, "{most} rules of 128 octets and their share of leaves");
    for place in 0..20 {
        assert_eq!(writer.remove(place), Ok(Some(place as u32)));
    }
    for place in 0..10 {
        writer.insert(place, host(&mut random), place as u32).unwrap();
    }
    agrees(&domain, &writer, &mut random);
}
