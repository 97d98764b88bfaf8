//! Keys and routes for measurements and long tests.

use std::collections::HashSet;

use weir_base::random::Random;

use super::hash::Folding;
use super::key::{Key, Prefix};

/// Draws random addresses of a family.
pub trait Draw: Key {
    /// Number of routes of each length in the Internet's table (of 2026: 901,899 of IPv4, 160,147 of IPv6).
    const LENGTHS: &'static [(u8, u32)];

    /// Returns a uniformly random address.
    fn draw(random: &mut Random) -> Self;

    /// Returns a random address of the space that is assigned to networks.
    fn draw_given_out(random: &mut Random) -> Self;

    /// Returns the address with its bits past `len` replaced by those of `tail`.
    #[must_use]
    fn splice(self, len: u8, tail: Self) -> Self;

    /// Appends the octets of the address, as in a packet.
    fn octets(self, out: &mut Vec<u8>);
}

impl Draw for u32 {
    #[rustfmt::skip]
    const LENGTHS: &'static [(u8, u32)] = &[
        (8, 16), (9, 13), (10, 38), (11, 103), (12, 299), (13, 581), (14, 1203), (15, 2100), (16, 13490), (17, 8235),
        (18, 13798), (19, 24870), (20, 42611), (21, 50750), (22, 108_623), (23, 96510), (24, 537_698), (25, 20), (26, 3),
        (27, 11), (28, 18), (29, 17), (30, 3), (31, 3), (32, 886),
    ];

    fn draw(random: &mut Random) -> u32 {
        random.next() as u32
    }

    fn draw_given_out(random: &mut Random) -> u32 {
        (1 << 24) + random.below(223 << 24) as u32
    }

    fn splice(self, len: u8, tail: u32) -> u32 {
        self.truncate(len) | (tail & !u32::MAX.truncate(len))
    }

    fn octets(self, out: &mut Vec<u8>) {
        out.extend(self.to_be_bytes());
    }
}

impl Draw for u128 {
    #[rustfmt::skip]
    const LENGTHS: &'static [(u8, u32)] = &[
        (16, 1), (19, 1), (20, 16), (21, 3), (22, 7), (23, 8), (24, 30), (25, 8), (26, 15), (27, 20), (28, 193),
        (29, 4371), (30, 650), (31, 284), (32, 22548), (33, 2926), (34, 2603), (35, 1043), (36, 5996), (37, 880),
        (38, 1617), (39, 1377), (40, 13418), (41, 903), (42, 2301), (43, 1001), (44, 14365), (45, 1553), (46, 3039),
        (47, 3153), (48, 75488), (49, 11), (50, 3), (52, 1), (55, 1), (56, 24), (58, 20), (60, 2), (64, 184), (112, 2),
        (122, 1), (124, 4), (125, 9), (126, 19), (127, 42), (128, 6),
    ];

    fn draw(random: &mut Random) -> u128 {
        u128::from(random.next()) << 64 | u128::from(random.next())
    }

    fn draw_given_out(random: &mut Random) -> u128 {
        const BLOCKS: [u128; 7] = [0x240, 0x260, 0x280, 0x2a0, 0x2a1, 0x2c0, 0x263];
        BLOCKS[random.below(7) as usize] << 116 | u128::draw(random) >> 12
    }

    fn splice(self, len: u8, tail: u128) -> u128 {
        self.truncate(len) | (tail & !u128::MAX.truncate(len))
    }

    fn octets(self, out: &mut Vec<u8>) {
        out.extend(self.to_be_bytes());
    }
}

/// Returns uniformly random addresses.
pub fn uniform<K: Draw>(count: usize, random: &mut Random) -> Vec<K> {
    (0..count).map(|_| K::draw(random)).collect()
}

/// Returns addresses under random ones of the prefixes, with random bits past the prefix.
///
/// # Panics
/// If there are no prefixes.
pub fn inside<K: Draw>(prefixes: &[Prefix<K>], count: usize, random: &mut Random) -> Vec<K> {
    assert!(!prefixes.is_empty(), "keys need prefixes to lie in");
    (0..count).map(|_| inside_one(&prefixes[random.below(prefixes.len() as u64) as usize], random)).collect()
}

/// Returns a random address under a prefix.
pub fn inside_one<K: Draw>(prefix: &Prefix<K>, random: &mut Random) -> K {
    prefix.address().splice(prefix.len(), K::draw(random))
}

/// Returns distinct prefixes in the order of addresses, with lengths as in [`Draw::LENGTHS`]. The share `nested` lies
/// inside a shorter prefix. The others lie in the space that is assigned to networks (1.0.0.0 to 223.255.255.255; the
/// /12s of unicast assignments under 2000::/3 in IANA's registry), outside of each other while there is room.
///
/// # Panics
/// If the family has too few prefixes of these lengths.
pub fn mixed<K: Draw>(count: usize, nested: f64, random: &mut Random) -> Vec<Prefix<K>> {
    let all: u32 = K::LENGTHS.iter().map(|(_, number)| number).sum();
    let length = |random: &mut Random| {
        let mut place = random.below(u64::from(all)) as u32;
        let of = K::LENGTHS.iter().find(|(_, number)| {
            let here = place < *number;
            place = place.saturating_sub(*number);
            here
        });
        of.expect("the place is below the sum").0
    };
    let mut lengths: Vec<u8> = (0..count).map(|_| length(random)).collect();
    // Shorter ones first, so that the outer prefixes are known.
    lengths.sort_unstable();
    let mut drawn: Vec<Prefix<K>> = Vec::with_capacity(count);
    let mut known = HashSet::with_capacity_and_hasher(count, Folding::random());
    for len in lengths {
        let shorter = drawn.partition_point(|prefix| prefix.len() < len);
        let inner = shorter > 0 && random.chance(nested);
        let least = drawn.first().map_or(len, Prefix::len);
        let mut tries = 0;
        let prefix = loop {
            tries += 1;
            // Few short prefixes may have no room.
            let address = if inner && tries <= 50 {
                inside_one(&drawn[random.below(shorter as u64) as usize], random)
            } else {
                K::draw_given_out(random)
            };
            let prefix = Prefix::new(address, len).expect("the family has this length");
            let covered = || (least..len).any(|len| known.contains(&prefix.shorten(len)));
            if !known.contains(&prefix) && (inner || tries > 50 || !covered()) {
                break prefix;
            }
            assert!(tries < 10_000, "{count} prefixes are too many for the family");
        };
        known.insert(prefix);
        drawn.push(prefix);
    }
    drawn.sort_unstable();
    drawn
}

/// Pools of prefixes, of every character that matters to the structure.
pub fn shapes<K: Draw>(random: &mut Random) -> Vec<Vec<Prefix<K>>> {
    let bits = u64::from(K::BITS);
    let prefix = |key: K, len: u64| Prefix::new(key, len as u8).expect("the length is in range");
    let site = K::draw(random);
    let near = |random: &mut Random, shared: u8| site.splice(shared, K::draw(random));

    // Every length along one path, so that each removal uncovers the next shorter.
    let nested = (0..=bits).map(|len| prefix(site, len)).collect();
    // The last level filled up, with what covers it.
    let hosts = (0..600)
        .map(|_| {
            let key = near(random, K::BITS - 8);
            prefix(key, bits - random.below(3).pow(3))
        })
        .collect();
    // All lengths, crowded into few blocks.
    let crowded = (0..1500)
        .map(|_| {
            let shared = random.below(bits / 2) as u8;
            let key = near(random, shared);
            prefix(key, random.below(bits + 1))
        })
        .collect();
    // Lengths as in the Internet's table: many in the middle, gathered in some places.
    let places: Vec<K> = (0..40).map(|_| K::draw(random)).collect();
    let internet = (0..2500)
        .map(|_| {
            let place = places[random.below(40) as usize];
            let len = bits / 4 + random.below(bits / 8) + random.below(bits / 8 + 1);
            prefix(place.splice((bits / 4) as u8, K::draw(random)), len)
        })
        .collect();
    // About as many in one place as make a node an array, with covers that come and go above them, and nodes further
    // down; at the beginning of a frame, and at the end of one.
    let mut crossing = |start: u8| {
        let one = |_| {
            let key = near(random, start);
            let deep = if random.chance(0.3) { random.below(bits / 3) } else { 0 };
            prefix(key, (u64::from(start) + 1 + random.below(11) + deep).min(bits))
        };
        (0..400).map(one).collect()
    };
    let (crossing_first, crossing_last) = (crossing(K::DIRECTORY), crossing((K::DIRECTORY + 24).min(K::BITS - 8)));
    // Short ones, which repaint everything below.
    let short = (0..300)
        .map(|_| {
            let len = if random.chance(0.5) { random.below(14) } else { random.below(28) };
            prefix(K::draw(random), len)
        })
        .collect();
    vec![crossing_last, crossing_first, nested, hosts, crowded, internet, short]
}
