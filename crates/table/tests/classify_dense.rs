//! Dense leaves, of rules that nothing parts: what is found in them as rules come and go, and what they take.

use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_table::classify::sample::{self, Adverse, Packets};
use weir_table::classify::{Error, Limits, NO_RULE, Rule, Span, Upper, Writer};
use weir_table::sav::Set;

/// Fields of rules.
#[derive(Clone, Copy, Debug)]
enum Asked {
    /// Ranges of ports.
    Ports,
    /// Ranges of addresses.
    Addresses,
    /// All fields.
    All,
    /// The least and the greatest values of fields, and those beside them.
    Extremes,
}

fn writer<K: Packets>(domain: &Domain, rules: &[Rule<K>], bytes: usize) -> Writer<K> {
    let mut writer = Writer::new(domain, Limits { rules: 1 << 20, bytes }).unwrap();
    writer.load((0..).zip(rules).map(|(place, rule)| (place, rule.clone(), place as u32))).unwrap();
    writer
}

/// A range between two of the values that are most likely to be taken for others.
fn extreme(random: &mut Random) -> Span<u16> {
    let mut value = || [0, 1, 2, 1023, 1024, 32_767, 32_768, 65_533, 65_534, 65_535][random.below(10) as usize];
    let (a, b): (u16, u16) = (value(), value());
    Span::new(a.min(b), a.max(b)).unwrap()
}

fn rules<K: Packets>(asked: Asked, count: usize, random: &mut Random) -> Vec<Rule<K>> {
    let mixed = sample::mixed::<K>(count, random);
    let ports = Adverse::Ranges.rules::<K>(count, random);
    let addresses = Adverse::Addresses.rules::<K>(count, random);
    let mut rules = Vec::with_capacity(count);
    for (number, ((mixed, ports), addresses)) in mixed.into_iter().zip(ports).zip(addresses).enumerate() {
        rules.push(match asked {
            Asked::Ports => ports,
            Asked::Addresses => addresses,
            Asked::All => Rule {
                source: addresses.source,
                destination: addresses.destination,
                upper: if number % 3 == 0 { mixed.upper } else { ports.upper },
                ..mixed
            },
            Asked::Extremes => {
                let some = [0, 1, 5, u32::MAX - 1, u32::MAX];
                let mut interface = || some[random.below(5) as usize];
                // There may be none at all.
                let set = [Vec::new(), vec![interface()], vec![interface(), interface(), interface()]];
                let interfaces = (number % 3 == 0).then(|| set[number / 3 % 3].iter().copied().collect::<Set>());
                let upper = Upper::Ports { source: extreme(random), destination: extreme(random) };
                Rule { upper, protocol: mixed.protocol, interfaces, ..addresses }
            }
        });
    }
    rules
}

fn agrees<K: Packets>(domain: &Domain, writer: &Writer<K>, pool: &[Rule<K>], random: &mut Random) {
    let mut rules = Vec::from_iter(writer.iter());
    rules.sort_unstable_by_key(|(place, ..)| *place);
    let (table, mut reader) = (writer.table(), domain.reader().unwrap());
    let packets = Vec::from_iter((0..512).map(|_| sample::near(pool, random)));
    let mut found = vec![0; packets.len()];
    table.lookup_each(&reader.pin(), &packets, &mut found);
    for (packet, found) in packets.iter().zip(found) {
        let right = rules.iter().find(|(_, rule, _)| rule.matches(packet)).map_or(NO_RULE, |(.., identity)| *identity);
        assert_eq!(found, right, "{packet:?}");
    }
}

/// Rules come and go at random places, others than had been there.
fn churn<K: Packets>(asked: Asked, count: usize, changes: usize) {
    let mut random = Random::from_seed(count as u64);
    let pool = rules::<K>(asked, count + 64, &mut random);
    let domain = Domain::new();
    let mut writer = writer(&domain, &pool[..count], 1 << 30);
    agrees(&domain, &writer, &pool, &mut random);
    for change in 0..changes {
        let place = random.below(count as u64 + 64);
        if writer.get(place).is_some() {
            assert!(writer.remove(place).unwrap().is_some());
        } else {
            let rule = pool[random.below(pool.len() as u64) as usize].clone();
            writer.insert(place, rule, random.next() as u32 >> 1).unwrap();
        }
        if change % (changes / 3) == 0 {
            agrees(&domain, &writer, &pool, &mut random);
        }
    }
    agrees(&domain, &writer, &pool, &mut random);
}

/// On both sides of what words, parts, and leaves hold.
fn churns<K: Packets>() {
    for asked in [Asked::Ports, Asked::Addresses, Asked::All, Asked::Extremes] {
        for count in [63, 64, 65, 511, 512, 513, 1024, 1537, 5000] {
            churn::<K>(asked, count, 400);
        }
    }
    churn::<K>(Asked::Ports, 16_383, 2000);
    churn::<K>(Asked::All, 16_385, 2000);
    // Until a leaf is thin.
    churn::<K>(Asked::All, 2000, 3000);
}

#[test]
fn ipv4_rules_come_and_go() {
    churns::<u32>();
}

#[test]
fn ipv6_rules_come_and_go() {
    churns::<u128>();
}

/// Near the limit there is no room for a leaf beside the one that it is to replace: then this is not tried for each rule.
#[test]
fn leaves_that_can_not_be_built_anew_are_not_tried_each_time() {
    let mut random = Random::from_seed(5);
    // No rule covers a later one.
    let rules = Adverse::Nested.rules::<u32>(6000, &mut random);
    let domain = Domain::new();
    let used = writer(&domain, &rules[..5000], 1 << 30).stats().octets;
    let mut writer = writer(&domain, &rules[..5000], used + used * 6 / 10);
    let before = writer.stats().rebuilt_rules;
    for (place, rule) in (5000..).zip(&rules[5000..]) {
        writer.insert(place, rule.clone(), place as u32).unwrap();
    }
    let rebuilt = writer.stats().rebuilt_rules - before;
    assert!(rebuilt < 20 * 6000, "{rebuilt}");
    agrees(&domain, &writer, &rules, &mut random);
}

/// A leaf has a row for each interface that its rules name.
#[test]
fn many_interfaces_take_no_more_than_their_share() {
    let mut random = Random::from_seed(6);
    let mut interfaces = |_| Some((0..8).map(|_| random.below(100_000) as u32).collect::<Set>());
    let rules = Vec::from_iter((0..16_384).map(|rule| Rule::<u32> { interfaces: interfaces(rule), ..Rule::any() }));
    let domain = Domain::new();
    let mut full = Writer::new(&domain, Limits { rules: 16_384, bytes: 1 << 30 }).unwrap();
    let refused = full.load((0..).zip(&rules).map(|(place, rule)| (place, rule.clone(), place as u32)));
    assert_eq!(refused, Err(Error::Overlap { most: 3072, places: [0, 3072] }));
    let rules = &rules[..3072];
    let writer = writer(&domain, rules, 1 << 30);
    let stats = writer.stats();
    assert!(stats.octets / stats.rules < 1024, "{stats:?}");
    agrees(&domain, &writer, rules, &mut Random::from_seed(7));
}

/// Blocks that a reader may access still count.
#[test]
fn leaves_that_wait_for_readers_count() {
    let mut random = Random::from_seed(8);
    let rules = Adverse::Nested.rules::<u32>(4000, &mut random);
    let domain = Domain::new();
    let mut writer = writer(&domain, &rules[..3000], 1 << 30);
    let mut reader = domain.reader().unwrap();
    let guard = reader.pin();
    let of_leaf = writer.stats().octets;
    let rebuilt = writer.stats().rebuilt;
    for (place, rule) in (3000..).zip(&rules[3000..]) {
        writer.insert(place, rule.clone(), place as u32).unwrap();
    }
    let times = (writer.stats().rebuilt - rebuilt) as usize;
    assert!(times > 2 && writer.stats().waiting > of_leaf, "{times}: {:?}", writer.stats());
    drop(guard);
    writer.collect();
    assert!(writer.stats().waiting < of_leaf / 2, "{:?}", writer.stats());
}
