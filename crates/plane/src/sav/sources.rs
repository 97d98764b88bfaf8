//! Where packets come from that are not valid: a small table for each worker, which it alone writes and anybody reads.
//!
//! A place holds a prefix of sources on an interface, and what came from there. Places stand in sets of [`WAYS`], found by
//! a seeded hash, and the one with the fewest packets makes room for a prefix that has none: whoever sends much
//! stays, however many others are forged around him. What was counted for those that made room is known as a sum.
//!
//! Of a vector [`ENTRIES`] packets are entered at most, so that a flood costs its packets little: where more are not valid,
//! each group of as many as follow one another is entered as one of them, taken at random. So sums are exact where few
//! packets of a vector are not valid, and what is expected of them is right in any case.
//!
//! Readers take a place as it is between two changes of who it belongs to (a sequence lock): the word that says so is odd
//! while it changes hands. Clearing the table begins another round, and places of earlier ones count as free.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_base::clock::Time;

use super::By;

/// Places of a set.
const WAYS: usize = 8;
/// Sets.
const SETS: usize = 512;
/// Places of a worker's table.
pub const PLACES: usize = WAYS * SETS;

/// Packets of a vector that are entered at most.
pub(crate) const ENTRIES: usize = 32;

/// Bits of a prefix that count for one source, of IPv4 and of IPv6.
pub const PREFIX_LENGTHS: (u8, u8) = (24, 48);

/// What came from a prefix by an interface and was not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spoofed {
    /// Number of the interface.
    pub interface: u32,
    /// The prefix.
    pub prefix: IpNet,
    /// Packets.
    pub packets: u64,
    /// Octets of their frames.
    pub octets: u64,
    /// What found the last of them so.
    pub by: By,
    /// When that came.
    pub last: Time,
}

/// What was counted for prefixes that had to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Times that one had to.
    pub prefixes: u64,
    /// Packets that had been counted for them.
    pub packets: u64,
    /// Octets.
    pub octets: u64,
}

/// A place: one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place {
    /// Changes of hands, twice; odd while one is under way. 0: it has never been anybody's.
    version: AtomicU64,
    /// The round that it was taken in, and the number of the interface.
    owner: AtomicU64,
    /// The bits of the prefix, and above them which family it is of.
    prefix: AtomicU64,
    packets: AtomicU64,
    octets: AtomicU64,
    last: AtomicU64,
    by: AtomicU64,
}

impl Default for Sources {
    /// An empty table that is to be given a seed.
    fn default() -> Self {
        Sources::new([0; 2])
    }
}

/// The table of a worker.
#[derive(Debug)]
pub struct Sources {
    seed: [AtomicU64; 2],
    places: Box<[Place]>,
    /// The round of the worker's own sums below, and these.
    round: AtomicU64,
    lost: [AtomicU64; 3],
    /// The round that is asked for, by whoever clears.
    wanted: AtomicU64,
}

const V6: u64 = 1 << 63;

/// The bits of a source that count.
fn bits(source: IpAddr) -> u64 {
    match source {
        IpAddr::V4(source) => u64::from(source.to_bits() >> (32 - PREFIX_LENGTHS.0)),
        IpAddr::V6(source) => V6 | (source.to_bits() >> (128 - PREFIX_LENGTHS.1)) as u64,
    }
}

fn prefix(bits: u64) -> Option<IpNet> {
    let (v4, v6) = PREFIX_LENGTHS;
    if bits & V6 == 0 {
        let address = Ipv4Addr::from_bits((bits as u32) << (32 - v4));
        Some(IpNet::V4(Ipv4Net::new(address, v4).ok()?))
    } else {
        let address = Ipv6Addr::from_bits(u128::from(bits & !V6) << (128 - v6));
        Some(IpNet::V6(Ipv6Net::new(address, v6).ok()?))
    }
}

impl Sources {
    /// An empty table whose hash has this seed.
    pub fn new(seed: [u64; 2]) -> Sources {
        Sources {
            seed: seed.map(AtomicU64::new),
            places: (0..PLACES).map(|_| Place::default()).collect(),
            round: AtomicU64::new(1),
            lost: Default::default(),
            wanted: AtomicU64::new(1),
        }
    }

    /// Gives an empty table another seed.
    pub fn seed(&self, seed: [u64; 2]) {
        for (word, seed) in self.seed.iter().zip(seed) {
            word.store(seed, Ordering::Relaxed);
        }
    }

    /// The first place of the set of a prefix: a product of two keyed words, folded.
    #[inline]
    fn set(&self, interface: u32, bits: u64) -> usize {
        let [a, b] = [0, 1].map(|word: usize| self.seed[word].load(Ordering::Relaxed));
        let product = u128::from(bits ^ a) * u128::from(u64::from(interface).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b);
        let folded = (product ^ (product >> 64)) as u64;
        (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SETS.ilog2())) as usize * WAYS
    }

    /// Counts so many packets with these octets together; for the one worker.
    #[inline]
    pub fn add(&self, interface: u32, source: IpAddr, (packets, octets): (u64, u64), by: By, now: Time) {
        let round = self.wanted.load(Ordering::Relaxed);
        if self.round.load(Ordering::Relaxed) != round {
            self.lost.iter().for_each(|sum| sum.store(0, Ordering::Relaxed));
            self.round.store(round, Ordering::Release);
        }
        let bits = bits(source);
        let owner = round << 32 | u64::from(interface);
        let first = self.set(interface, bits);
        let set = &self.places[first..first + WAYS];
        let is_own = |place: &&Place| {
            place.owner.load(Ordering::Relaxed) == owner && place.prefix.load(Ordering::Relaxed) == bits
        };
        let place = match set.iter().find(is_own) {
            Some(place) => place,
            None => self.take_over(set, round, owner, bits),
        };
        let add = |sum: &AtomicU64, by: u64| sum.store(sum.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        add(&place.packets, packets);
        add(&place.octets, octets);
        place.last.store(now.0, Ordering::Relaxed);
        place.by.store(by as u64, Ordering::Relaxed);
    }

    /// Gives a place of a set to another prefix: one that is free, or else that with the fewest packets.
    #[cold]
    fn take_over<'s>(&self, set: &'s [Place], round: u64, owner: u64, bits: u64) -> &'s Place {
        let weight = |place: &Place| match place.owner.load(Ordering::Relaxed) >> 32 == round & u64::from(u32::MAX) {
            true => place.packets.load(Ordering::Relaxed),
            false => 0,
        };
        // A set is never empty.
        let place = set.iter().min_by_key(|place| weight(place)).unwrap_or(&set[0]);
        let packets = weight(place);
        if packets > 0 {
            let lost = [1, packets, place.octets.load(Ordering::Relaxed)];
            for (sum, more) in self.lost.iter().zip(lost) {
                sum.store(sum.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
            }
        }
        let version = place.version.load(Ordering::Relaxed);
        place.version.store(version + 1, Ordering::Relaxed);
        // No reader sees what follows, and the version as it was before.
        fence(Ordering::Release);
        place.owner.store(owner, Ordering::Relaxed);
        place.prefix.store(bits, Ordering::Relaxed);
        place.packets.store(0, Ordering::Relaxed);
        place.octets.store(0, Ordering::Relaxed);
        place.version.store(version + 2, Ordering::Release);
        place
    }

    /// All prefixes that have a place, while the worker goes on counting. One that changes hands as it is looked at is left
    /// out.
    pub fn read(&self) -> impl Iterator<Item = Spoofed> {
        let round = self.wanted.load(Ordering::Relaxed) & u64::from(u32::MAX);
        self.places.iter().filter_map(move |place| {
            let before = place.version.load(Ordering::Acquire);
            let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
            let (owner, bits, packets, octets) =
                (load(&place.owner), load(&place.prefix), load(&place.packets), load(&place.octets));
            let (last, by) = (load(&place.last), load(&place.by));
            fence(Ordering::Acquire);
            let same = before % 2 == 0 && place.version.load(Ordering::Relaxed) == before;
            if !same || before == 0 || owner >> 32 != round || packets == 0 {
                return None;
            }
            let by = *By::ALL.get(by as usize)?;
            Some(Spoofed { interface: owner as u32, prefix: prefix(bits)?, packets, octets, by, last: Time(last) })
        })
    }

    /// What was counted for prefixes that had to make room since the table was cleared.
    pub fn lost(&self) -> Lost {
        if self.round.load(Ordering::Acquire) != self.wanted.load(Ordering::Relaxed) {
            return Lost::default();
        }
        let [prefixes, packets, octets] = [0, 1, 2].map(|index: usize| self.lost[index].load(Ordering::Relaxed));
        Lost { prefixes, packets, octets }
    }

    /// Forgets everything: the worker sees so before it counts the next packet.
    pub fn clear(&self) {
        // A round is told from the others by 32 bits.
        self.wanted.fetch_add(1, Ordering::Relaxed);
    }

    /// Octets of memory.
    pub fn octets() -> usize {
        PLACES * size_of::<Place>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    use weir_base::random::Random;

    use super::*;

    fn v4(prefix: u32, host: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(prefix << 8 | u32::from(host)))
    }

    #[test]
    fn prefixes_of_an_interface_are_counted_together() {
        let sources = Sources::new([3, 5]);
        for host in 0..=255 {
            sources.add(7, v4(0x0a_00_01, host), (1, 60), By::Acl, Time(u64::from(host)));
        }
        sources.add(8, v4(0x0a_00_01, 9), (1, 60), By::Table, Time(300));
        let addresses = ["2001:db8:1:2::3", "2001:db8:1:9::4", "2001:db8:2::1"];
        for (time, address) in (400..).zip(addresses) {
            sources.add(7, address.parse().unwrap(), (1, 100), By::Special, Time(time));
        }
        let mut all: Vec<Spoofed> = sources.read().collect();
        all.sort_by_key(|row| (row.interface, row.prefix));
        let row = |interface, prefix: &str, packets, octets, by, last| {
            let prefix = prefix.parse().unwrap();
            Spoofed { interface, prefix, packets, octets, by, last: Time(last) }
        };
        let expected = [
            row(7, "10.0.1.0/24", 256, 256 * 60, By::Acl, 255),
            row(7, "2001:db8:1::/48", 2, 200, By::Special, 401),
            row(7, "2001:db8:2::/48", 1, 100, By::Special, 402),
            row(8, "10.0.1.0/24", 1, 60, By::Table, 300),
        ];
        assert_eq!((all, sources.lost()), (expected.to_vec(), Lost::default()));
        sources.clear();
        assert_eq!(sources.read().count(), 0);
        sources.add(8, v4(0x0a_00_01, 9), (1, 60), By::Table, Time(500));
        assert_eq!(sources.read().collect::<Vec<_>>(), [row(8, "10.0.1.0/24", 1, 60, By::Table, 500)]);
    }

    #[test]
    fn who_sends_much_stays_among_a_million_forged_ones() {
        let mut random = Random::from_seed(11);
        let sources = Sources::new([random.next(), random.next()]);
        let heavy: BTreeMap<u32, u64> = (0..100).map(|prefix| (prefix, 1000)).collect();
        for round in 0..1000u64 {
            heavy.keys().for_each(|&prefix| sources.add(1, v4(prefix, 1), (1, 60), By::Table, Time(round)));
            for _ in 0..1000 {
                sources.add(1, v4(1 << 16 | random.below(1 << 20) as u32, 1), (1, 60), By::Table, Time(round));
            }
        }
        let seen: BTreeMap<u32, u64> = sources
            .read()
            .map(|row| match row.prefix {
                IpNet::V4(net) => (net.network().to_bits() >> 8, row.packets),
                IpNet::V6(_) => unreachable!(),
            })
            .collect();
        assert_eq!(seen.len(), PLACES, "a full table");
        let kept = heavy.iter().filter(|(prefix, packets)| seen.get(prefix) == Some(packets)).count();
        assert_eq!(kept, 100);
        let lost = sources.lost();
        assert_eq!(seen.values().sum::<u64>() + lost.packets, 1_100_000, "nothing is counted twice or not at all");
        assert_eq!(lost.octets, 60 * lost.packets);
        sources.clear();
        assert_eq!((sources.read().count(), sources.lost()), (0, Lost::default()));
    }

    #[test]
    fn readers_never_see_one_prefix_with_the_counts_of_another() {
        let sources = Sources::new([1, 2]);
        let (done, rows) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for row in sources.read() {
                        // Each prefix sends packets of a length of its own.
                        let IpNet::V4(net) = row.prefix else { unreachable!() };
                        let length = 100 + u64::from(net.network().to_bits() >> 8) % 1000;
                        assert_eq!(row.octets % length, 0, "{row:?}");
                        rows.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            let mut random = Random::from_seed(4);
            for _ in 0..400_000 {
                let prefix = random.below(20_000) as u32;
                sources.add(0, v4(prefix, 1), (1, 100 + u64::from(prefix) % 1000), By::Acl, Time(1));
            }
            // The reader may not have had a CPU until now.
            while rows.load(Ordering::Relaxed) == 0 && !reader.is_finished() {
                std::thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
