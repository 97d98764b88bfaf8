//! Exact match of masked octets under changes: every answer is held against a map, and a share of them against the naive
//! specification, too.
//!
//! Each table has a random mask over up to 128 octets. Entries come and go one by one, and after each step packets are looked up,
//! most of which are those of an entry, or differ from one in an octet that counts or does not.

use std::collections::HashMap;

use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_table::flow::Secret;
use weir_table::masked::naive::Naive;
use weir_table::masked::{Full, Key, MOST_OCTETS, Mask, NO_ENTRY, Writer};

/// Packets that are looked up between two steps.
const PACKETS: usize = 2048;
/// Steps in one table.
const STEPS: usize = 60;
/// Changes of a step.
const CHANGES: usize = 200;
/// Packets of a step that the naive specification answers, too.
const SPECIFIED: usize = 8;

/// The report of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Lookups held against the map.
    pub lookups: u64,
    /// Lookups held against the specification, too.
    pub specified: u64,
    /// Entries added or changed.
    pub added: u64,
    /// Entries removed.
    pub removed: u64,
    /// Entries that there was no room for.
    pub refused: u64,
    /// Tables.
    pub tables: u64,
}

/// Runs at least so many lookups.
///
/// # Panics
/// At the first wrong answer, with the seed and the table.
pub fn run(lookups: u64, seed: u64) -> Report {
    let mut random = Random::from_seed(seed);
    let mut report = Report::default();
    while report.lookups < lookups {
        report.tables += 1;
        one(&mut random, &mut report, lookups, seed);
    }
    report
}

/// Draws a mask with some octets that count.
fn mask(random: &mut Random) -> Vec<u8> {
    let len = 1 + random.below(MOST_OCTETS as u64) as usize;
    let mut mask = vec![0; len];
    for _ in 0..1 + random.below(20) {
        mask[random.below(len as u64) as usize] = 1 + random.below(255) as u8;
    }
    mask
}

fn packet(random: &mut Random) -> Vec<u8> {
    let len = random.below(2 * MOST_OCTETS as u64) as usize;
    (0..len).map(|_| random.below(256) as u8).collect()
}

/// Changes and looks up one table.
fn one(random: &mut Random, report: &mut Report, lookups: u64, seed: u64) {
    let octets = mask(random);
    let Ok(mask) = Mask::new(&octets) else { return };
    let bound = 1 + random.below(4000) as usize;
    let domain = Domain::new();
    let secret = Secret::new(std::array::from_fn(|_| random.next()));
    let mut writer = Writer::new(&domain, mask.clone(), bound, secret);
    let mut reader = domain.reader().expect("a new domain has free slots");
    let mut map: HashMap<Key, u32> = HashMap::new();
    let mut naive = Naive::new(&octets);
    let mut known: Vec<Vec<u8>> = Vec::new();
    for step in 0..STEPS {
        for _ in 0..CHANGES {
            let drawn = match random.below(3) {
                0 if !known.is_empty() => known[random.below(known.len() as u64) as usize].clone(),
                _ => packet(random),
            };
            let Some(key) = mask.key(&drawn) else { continue };
            if random.chance(0.4) {
                assert_eq!(writer.remove(&key), map.remove(&key), "seed {seed}, table {}, a removal", report.tables);
                naive.remove(&drawn);
                report.removed += 1;
                continue;
            }
            let number = random.below(1 << 20) as u32;
            match writer.insert(&key, number) {
                Ok(before) => {
                    assert_eq!(before, map.insert(key, number), "seed {seed}, table {}, an entry", report.tables);
                    naive.insert(&drawn, number);
                    known.push(drawn);
                    report.added += 1;
                }
                Err(Full::Bound(most)) => {
                    assert_eq!(map.len(), most, "seed {seed}, table {}: refused", report.tables);
                    report.refused += 1;
                }
                Err(Full::Crowded) => report.refused += 1,
            }
        }
        if random.chance(0.3) {
            writer.collect();
        }
        assert_eq!(writer.len(), map.len());
        let packets: Vec<Vec<u8>> = (0..PACKETS).map(|_| near(random, &known)).collect();
        let mut found = vec![0; PACKETS];
        writer.table().look_up(&reader.pin(), |index| &packets[index], &mut found);
        for (at, (packet, &found)) in packets.iter().zip(&found).enumerate() {
            let found = (found != NO_ENTRY).then_some(found);
            let wanted = mask.key(packet).and_then(|key| map.get(&key).copied());
            let place = || format!("seed {seed}, table {}, step {step}: {packet:02x?}", report.tables);
            assert_eq!(found, wanted, "{}", place());
            if at < SPECIFIED {
                assert_eq!(found, naive.look_up(packet), "{}, by the specification", place());
                report.specified += 1;
            }
        }
        report.lookups += PACKETS as u64;
        if report.lookups >= lookups {
            return;
        }
    }
}

/// Draws a packet: of an entry, or of one with an octet changed, cut or lengthened, or any.
fn near(random: &mut Random, known: &[Vec<u8>]) -> Vec<u8> {
    if known.is_empty() || random.chance(0.1) {
        return packet(random);
    }
    let mut packet = known[random.below(known.len() as u64) as usize].clone();
    match random.below(4) {
        0 if !packet.is_empty() => {
            let at = random.below(packet.len() as u64) as usize;
            packet[at] ^= 1 << random.below(8);
        }
        1 => packet.truncate(random.below(packet.len() as u64 + 1) as usize),
        2 => packet.push(random.below(256) as u8),
        _ => {}
    }
    packet
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_short_run_finds_nothing_wrong() {
        let report = super::run(1_000_000, 3);
        assert!(report.lookups >= 1_000_000 && report.tables > 3 && report.removed > 1000, "{report:?}");
    }
}
