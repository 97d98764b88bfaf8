//! Rules that cover many others come and go: what they cover is left out of the tree, and comes back.

use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_bench::alike::{self, Alike};
use weir_table::classify::sample::{self, Adverse, Packets};
use weir_table::classify::{Limits, NO_RULE, Rule, Span, Writer};

const LIMITS: Limits = Limits { rules: 1 << 20, bytes: 2 << 30 };

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

/// Rules that cover many others come and go.
fn covers_come_and_go<K: Packets>(rules: &[Rule<K>], seed: u64) {
    let (mut random, domain) = (Random::from_seed(seed), Domain::new());
    let mut writer = Writer::with_consulted(&domain, LIMITS).unwrap();
    writer.load((0..).zip(rules).map(|(place, rule)| (4 * place + 1, rule.clone(), place as u32))).unwrap();
    agrees(&domain, &writer, rules, &mut random);
    let mut there = Vec::from_iter(writer.iter().map(|(place, ..)| place));
    for change in 0..3000 {
        if random.chance(0.5) {
            // Rules that come early cover more.
            let at = random.below(there.len() as u64) as usize;
            let place = there.swap_remove(if random.chance(0.5) { at } else { at / 16 });
            assert!(writer.remove(place).unwrap().is_some());
        } else {
            let place = 4 * random.below(rules.len() as u64 / 8) + 2 + random.below(2);
            if writer.get(place).is_none() {
                let mut rule = rules[random.below(rules.len() as u64) as usize].clone();
                if random.chance(0.1) {
                    rule.source = Span::every();
                }
                writer.insert(place, rule, random.next() as u32 >> 1).unwrap();
                there.push(place);
            }
        }
        if change % 500 == 0 {
            agrees(&domain, &writer, rules, &mut random);
        }
    }
    agrees(&domain, &writer, rules, &mut random);
    // All go: what was left out goes with them.
    for place in there {
        assert!(writer.remove(place).unwrap().is_some());
    }
    writer.collect();
    assert!(writer.is_empty() && writer.stats().octets - writer.stats().waiting < 16 << 10, "{:?}", writer.stats());
}

#[test]
fn ipv4_rules_that_others_cover_come_back() {
    let mut random = Random::from_seed(7);
    covers_come_and_go(&Alike::Firewall.rules(10_000, &mut random), 8);
    covers_come_and_go(&sample::mixed::<u32>(8000, &mut random), 9);
}

#[test]
fn ipv6_rules_that_others_cover_come_back() {
    let mut random = Random::from_seed(10);
    let rules = alike::ipv6(&Alike::Firewall.rules(10_000, &mut random), 1);
    covers_come_and_go(&rules, 11);
    covers_come_and_go(&Adverse::Ranges.rules::<u128>(50_000, &mut random), 12);
}
