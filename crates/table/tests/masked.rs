//! Exact match of masked octets equals its naive specification, under random masks, entries and packets.

use proptest::prelude::*;
use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_table::flow::Secret;
use weir_table::masked::naive::Naive;
use weir_table::masked::{Full, Key, MOST_OCTETS, Mask, NO_ENTRY, Writer};

const SECRET: Secret =
    Secret::new([0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93]);

/// A mask with some octets that count, at random places.
fn mask(random: &mut Random) -> Vec<u8> {
    let len = 1 + random.below(MOST_OCTETS as u64) as usize;
    let mut mask = vec![0; len];
    for _ in 0..=random.below(8) {
        mask[random.below(len as u64) as usize] = [0xff, 0xff, 0xf0, 0x3f, 1][random.below(5) as usize];
    }
    if mask.iter().all(|&octet| octet == 0) {
        mask[len - 1] = 0xff;
    }
    mask
}

/// Few values for each octet, so that keys meet.
fn packet(random: &mut Random) -> Vec<u8> {
    let len = random.below(MOST_OCTETS as u64 + 40) as usize;
    (0..len).map(|_| [0x00, 0x01, 0x10, 0xff][random.below(4) as usize]).collect()
}

fn look_up(writer: &Writer, domain: &Domain, packets: &[Vec<u8>]) -> Vec<Option<u32>> {
    let mut reader = domain.reader().unwrap();
    let mut found = vec![0; packets.len()];
    writer.table().look_up(&reader.pin(), |index| &packets[index], &mut found);
    found.into_iter().map(|number| (number != NO_ENTRY).then_some(number)).collect()
}

fn key_of(mask: &Mask, packet: &[u8]) -> Option<Key> {
    mask.key(packet)
}

/// Cases of 800 lookups each: `PROPTEST_CASES`, 64 unless given; 125,000 for 10^8 lookups.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").map_or(64, |text| text.parse().expect("a number of cases"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn a_table_equals_its_specification(seed in any::<u64>()) {
        let mut random = Random::from_seed(seed);
        let octets = mask(&mut random);
        let mask = Mask::new(&octets).unwrap();
        let domain = Domain::new();
        let mut writer = Writer::new(&domain, mask.clone(), 400, SECRET);
        let mut naive = Naive::new(&octets);
        for round in 0..8 {
            for _ in 0..60 {
                let packet = packet(&mut random);
                let number = random.below(1000) as u32;
                match (key_of(&mask, &packet), random.below(3)) {
                    (None, _) => {}
                    (Some(key), 0) => {
                        prop_assert_eq!(writer.remove(&key), naive.look_up(&packet));
                        naive.remove(&packet);
                    }
                    (Some(key), _) => {
                        prop_assert_eq!(writer.insert(&key, number), Ok(naive.look_up(&packet)));
                        naive.insert(&packet, number);
                        prop_assert_eq!(writer.get(&key), Some(number));
                    }
                }
            }
            if round % 3 == 0 {
                writer.collect();
            }
            prop_assert_eq!(writer.len(), naive.len());
            let packets: Vec<Vec<u8>> = (0..100).map(|_| packet(&mut random)).collect();
            let wanted: Vec<Option<u32>> = packets.iter().map(|packet| naive.look_up(packet)).collect();
            prop_assert_eq!(look_up(&writer, &domain, &packets), wanted);
        }
    }
}

#[test]
fn a_table_takes_as_many_entries_as_it_is_for_and_no_more() {
    for granules in [1, 3, 8] {
        let octets = vec![0xff; 16 * granules];
        let mask = Mask::new(&octets).unwrap();
        let domain = Domain::new();
        let bound = 20_000;
        let mut writer = Writer::new(&domain, mask.clone(), bound, SECRET);
        let packet = |number: usize| -> Vec<u8> {
            let mut packet = vec![7; 16 * granules];
            packet[16 * granules - 8..].copy_from_slice(&(number as u64).to_be_bytes());
            packet
        };
        for number in 0..bound {
            assert_eq!(writer.insert(&mask.key(&packet(number)).unwrap(), number as u32), Ok(None));
        }
        assert_eq!(writer.insert(&mask.key(&packet(bound)).unwrap(), 1), Err(Full::Bound(bound)));
        let packets: Vec<Vec<u8>> = (0..bound + 100).map(packet).collect();
        let wanted: Vec<Option<u32>> = (0..bound + 100).map(|at| (at < bound).then_some(at as u32)).collect();
        assert_eq!(look_up(&writer, &domain, &packets), wanted);
        // Twice as many come and go as there is room for.
        for number in 0..2 * bound {
            assert_eq!(writer.remove(&mask.key(&packet(number)).unwrap()), Some(number as u32));
            writer.insert(&mask.key(&packet(number + bound)).unwrap(), (number + bound) as u32).unwrap();
        }
        assert_eq!((writer.len(), look_up(&writer, &domain, &packets[..10])), (bound, vec![None; 10]));
    }
}
