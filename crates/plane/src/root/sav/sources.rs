//! The sources of invalid packets: a small table for each worker, which that worker alone writes and all threads may
//! read.
//!
//! A place holds a prefix of sources on an interface and the cause that found them not valid, and what came from there.
//! Places stand in sets of [`WAYS`], found by a seeded hash. The one with the fewest packets makes room for a prefix that has
//! none: heavy senders stay, however many sources are forged beside them. The sum of all places that made room is kept.
//!
//! A place keeps its first source, and how many leading bits all of its sources have in common with that one. Reports name
//! this source, and the shortest prefix that covers all of them, and no address that did not send. Both are exact as long
//! as every packet is entered.
//!
//! Of a vector [`ENTRIES`] packets are entered at most, so that a flood costs its packets little: where more are not valid,
//! each group of as many as follow one another is entered as one of them, taken at random. So sums are exact where few
//! packets of a vector are not valid, and what is expected of them is right in any case.
//!
//! Readers take a place as it is between two changes of who it belongs to (a sequence lock): the word that says so is odd
//! while it changes hands. Clearing the table begins another round, and places of earlier ones count as free.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use ipnet::IpNet;
use weir_base::clock::Time;

use super::by::By;

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

/// The invalid packets of one prefix, interface and cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spoofed {
    /// Number of the interface.
    pub interface: u32,
    /// The first source that was entered.
    pub source: IpAddr,
    /// Leading bits that all sources that were entered have in common with `source`: those of the prefix at least.
    pub common: u8,
    /// Packets.
    pub packets: u64,
    /// Octets of their frames.
    pub octets: u64,
    /// The check that found the packets invalid.
    pub by: By,
    /// When the last of them came.
    pub last: Time,
}

impl Spoofed {
    /// The prefix that is counted together.
    pub fn prefix(&self) -> IpNet {
        let bits = if self.source.is_ipv4() { PREFIX_LENGTHS.0 } else { PREFIX_LENGTHS.1 };
        around(self.source, bits)
    }

    /// The longest prefix that covers all sources that were entered.
    pub fn seen(&self) -> IpNet {
        around(self.source, self.common)
    }

    /// Adds what another worker counted for the same prefix and cause on the same interface.
    pub fn merge(&mut self, other: &Spoofed) {
        self.common = self.common.min(other.common).min(in_common(self.source, other.source));
        self.packets += other.packets;
        self.octets += other.octets;
        self.last = self.last.max(other.last);
    }
}

fn around(source: IpAddr, bits: u8) -> IpNet {
    let net = IpNet::new(source, bits).expect("no more bits than the address has");
    net.trunc()
}

/// Leading bits that two addresses of one family have in common.
fn in_common(one: IpAddr, other: IpAddr) -> u8 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros() as u8,
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros() as u8,
        _ => 0,
    }
}

/// The counts of prefixes that were evicted.
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
    /// The bits of the prefix, and above them the cause and the family: see [`Entry::prefix`].
    prefix: AtomicU64,
    /// The first source, behind its prefix: see [`Entry::rest`].
    first: AtomicU64,
    /// The last bits of the first source, and below them the bits in common: see [`Entry::end`].
    end: AtomicU64,
    packets: AtomicU64,
    octets: AtomicU64,
    last: AtomicU64,
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
    /// The round that the last `clear` started.
    wanted: AtomicU64,
}

/// In the word of a prefix: it is of IPv6.
const V6: u64 = 1 << 63;
/// In the word of a prefix: where its cause is. A prefix of IPv6 has the 48 bits below.
const BY: u32 = 56;
/// In the word of the last bits of a source: where these are. The bits in common, 128 at most, are below.
const END: u32 = 8;

/// A source and a cause, as a place has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    /// Family, cause and prefix: which place the packet counts in.
    prefix: u64,
    /// The first 64 bits of the source behind its prefix; the 8 of IPv4 stand in front.
    rest: u64,
    /// The last 16 bits of an IPv6 source, shifted by [`END`].
    end: u64,
}

impl Entry {
    #[inline(always)]
    fn new(source: IpAddr, by: By) -> Entry {
        let by = (by as u64) << BY;
        match source {
            IpAddr::V4(source) => {
                let bits = source.to_bits();
                let prefix = u64::from(bits >> (32 - PREFIX_LENGTHS.0));
                Entry { prefix: by | prefix, rest: u64::from(bits) << (32 + PREFIX_LENGTHS.0), end: 0 }
            }
            IpAddr::V6(source) => {
                let bits = source.to_bits();
                let prefix = (bits >> (128 - PREFIX_LENGTHS.1)) as u64;
                Entry { prefix: V6 | by | prefix, rest: (bits >> 16) as u64, end: u64::from(bits as u16) << END }
            }
        }
    }

    /// Bits of the prefix, and of the whole address.
    #[inline(always)]
    fn lengths(self) -> (u32, u32) {
        if self.prefix & V6 == 0 { (u32::from(PREFIX_LENGTHS.0), 32) } else { (u32::from(PREFIX_LENGTHS.1), 128) }
    }

    /// Leading bits that this source has in common with another of the same prefix.
    #[inline(always)]
    fn common(self, rest: u64, end: u64) -> u64 {
        let (before, all) = self.lengths();
        let behind = match self.rest ^ rest {
            0 => 64 + ((self.end ^ end) >> END << 48).leading_zeros(),
            differs => differs.leading_zeros(),
        };
        u64::from((before + behind).min(all))
    }

    /// The source, and its cause.
    fn source(self) -> Option<(IpAddr, By)> {
        let by = *By::ALL.get((self.prefix >> BY & 0x7f) as usize)?;
        let prefix = self.prefix & ((1 << PREFIX_LENGTHS.1) - 1);
        let source = if self.prefix & V6 == 0 {
            Ipv4Addr::from_bits(
                (prefix as u32) << (32 - PREFIX_LENGTHS.0) | (self.rest >> (32 + PREFIX_LENGTHS.0)) as u32,
            )
            .into()
        } else {
            let behind = u128::from(self.rest) << 16 | u128::from((self.end >> END) as u16);
            Ipv6Addr::from_bits(u128::from(prefix) << (128 - PREFIX_LENGTHS.1) | behind).into()
        };
        Some((source, by))
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
        let entry = Entry::new(source, by);
        let owner = round << 32 | u64::from(interface);
        let first = self.set(interface, entry.prefix);
        let set = &self.places[first..first + WAYS];
        let is_own = |place: &&Place| {
            place.owner.load(Ordering::Relaxed) == owner && place.prefix.load(Ordering::Relaxed) == entry.prefix
        };
        let place = match set.iter().find(is_own) {
            Some(place) => place,
            None => self.take_over(set, round, owner, entry),
        };
        // The first source stays while the place is its prefix's: readers cannot see parts of two.
        let (rest, end) = (place.first.load(Ordering::Relaxed), place.end.load(Ordering::Relaxed));
        let common = entry.common(rest, end);
        if common < end & ((1 << END) - 1) {
            place.end.store(end >> END << END | common, Ordering::Relaxed);
        }
        let add = |sum: &AtomicU64, by: u64| sum.store(sum.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        add(&place.packets, packets);
        add(&place.octets, octets);
        place.last.store(now.0, Ordering::Relaxed);
    }

    /// Gives a place of a set to another prefix: one that is free, or else that with the fewest packets.
    #[cold]
    fn take_over<'s>(&self, set: &'s [Place], round: u64, owner: u64, entry: Entry) -> &'s Place {
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
        place.prefix.store(entry.prefix, Ordering::Relaxed);
        place.first.store(entry.rest, Ordering::Relaxed);
        place.end.store(entry.end | u64::from(entry.lengths().1), Ordering::Relaxed);
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
            let (owner, packets, octets) = (load(&place.owner), load(&place.packets), load(&place.octets));
            let entry = Entry { prefix: load(&place.prefix), rest: load(&place.first), end: load(&place.end) };
            let last = Time(load(&place.last));
            fence(Ordering::Acquire);
            let same = before % 2 == 0 && place.version.load(Ordering::Relaxed) == before;
            if !same || before == 0 || owner >> 32 != round || packets == 0 {
                return None;
            }
            let (source, by) = entry.source()?;
            let common = (entry.end & ((1 << END) - 1)) as u8;
            Some(Spoofed { interface: owner as u32, source, common, packets, octets, by, last })
        })
    }

    /// Returns the counts of prefixes that were evicted since the table was cleared.
    pub fn lost(&self) -> Lost {
        if self.round.load(Ordering::Acquire) != self.wanted.load(Ordering::Relaxed) {
            return Lost::default();
        }
        let [prefixes, packets, octets] = [0, 1, 2].map(|index: usize| self.lost[index].load(Ordering::Relaxed));
        Lost { prefixes, packets, octets }
    }

    /// Forgets everything: the worker sees so before it counts the next packet.
    pub fn clear(&self) {
        // The lower 32 bits of a round distinguish it from others.
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
        all.sort_by_key(|row| (row.interface, row.source));
        let row = |interface, source: &str, common, packets, octets, by, last| {
            let source = source.parse().unwrap();
            Spoofed { interface, source, common, packets, octets, by, last: Time(last) }
        };
        let expected = [
            row(7, "10.0.1.0", 24, 256, 256 * 60, By::Acl, 255),
            row(7, "2001:db8:1:2::3", 60, 2, 200, By::Special, 401),
            row(7, "2001:db8:2::1", 128, 1, 100, By::Special, 402),
            row(8, "10.0.1.9", 32, 1, 60, By::Table, 300),
        ];
        assert_eq!((all, sources.lost()), (expected.to_vec(), Lost::default()));
        sources.clear();
        assert_eq!(sources.read().count(), 0);
        sources.add(8, v4(0x0a_00_01, 9), (1, 60), By::Table, Time(500));
        assert_eq!(sources.read().collect::<Vec<_>>(), [row(8, "10.0.1.9", 32, 1, 60, By::Table, 500)]);
    }

    #[test]
    fn the_first_source_and_what_all_have_in_common_are_kept() {
        let sources = Sources::new([7, 9]);
        let add = |source: &str, by| sources.add(1, source.parse().unwrap(), (1, 60), by, Time(1));
        let seen = || {
            let mut rows: Vec<_> = sources
                .read()
                .map(|row| (row.source.to_string(), row.seen().to_string(), row.prefix().to_string(), row.packets))
                .collect();
            rows.sort();
            rows
        };
        let row = |source: &str, seen: &str, prefix: &str, packets| {
            (source.to_owned(), seen.to_owned(), prefix.to_owned(), packets)
        };
        for _ in 0..100 {
            add("203.0.113.70", By::Table);
        }
        assert_eq!(seen(), [row("203.0.113.70", "203.0.113.70/32", "203.0.113.0/24", 100)]);
        add("203.0.113.65", By::Table);
        add("203.0.113.71", By::Table);
        assert_eq!(seen(), [row("203.0.113.70", "203.0.113.64/29", "203.0.113.0/24", 102)]);
        add("203.0.113.255", By::Table);
        assert_eq!(seen(), [row("203.0.113.70", "203.0.113.0/24", "203.0.113.0/24", 103)]);
        // Another cause has another entry: its packets do not count for the first.
        add("203.0.113.0", By::Special);
        let special = row("203.0.113.0", "203.0.113.0/32", "203.0.113.0/24", 1);
        assert_eq!(seen(), [special, row("203.0.113.70", "203.0.113.0/24", "203.0.113.0/24", 103)]);
        sources.clear();
        // Every bit of an address is kept, and every length of what is in common.
        let first = Ipv6Addr::from_bits(0x2001_0db8_1234_5678_9abc_def0_1357_9bdf);
        for bits in (48..128).rev() {
            let other = Ipv6Addr::from_bits(first.to_bits() ^ 1 << (127 - bits));
            sources.add(2, first.into(), (1, 60), By::Link, Time(1));
            sources.add(2, other.into(), (1, 60), By::Link, Time(1));
            let rows: Vec<_> = sources.read().map(|row| (row.source, row.common, row.by)).collect();
            assert_eq!(rows, [(first.into(), bits, By::Link)]);
        }
        sources.clear();
        let first = Ipv4Addr::from_bits(0xc0a8_5a5a);
        for bits in (24..32).rev() {
            let other = Ipv4Addr::from_bits(first.to_bits() ^ 1 << (31 - bits));
            sources.add(2, first.into(), (1, 60), By::Acl, Time(1));
            sources.add(2, other.into(), (1, 60), By::Acl, Time(1));
            let rows: Vec<_> = sources.read().map(|row| (row.source, row.common, row.by)).collect();
            assert_eq!(rows, [(first.into(), bits, By::Acl)]);
        }
    }

    #[test]
    fn workers_are_taken_together() {
        let row = |source: &str, common, packets| Spoofed {
            interface: 1,
            source: source.parse().unwrap(),
            common,
            packets,
            octets: 60 * packets,
            by: By::Table,
            last: Time(packets),
        };
        let mut sum = row("203.0.113.70", 32, 3);
        sum.merge(&row("203.0.113.70", 32, 4));
        assert_eq!((sum.seen().to_string(), sum.packets, sum.last), ("203.0.113.70/32".to_owned(), 7, Time(4)));
        sum.merge(&row("203.0.113.65", 30, 1));
        assert_eq!(
            (sum.source, sum.seen().to_string()),
            ("203.0.113.70".parse().unwrap(), "203.0.113.64/29".to_owned())
        );
        let mut sum = row("2001:db8::1", 128, 1);
        sum.merge(&row("2001:db8::2", 64, 1));
        assert_eq!(sum.seen().to_string(), "2001:db8::/64");
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
            .map(|row| match row.source {
                IpAddr::V4(source) => (source.to_bits() >> 8, row.packets),
                IpAddr::V6(_) => unreachable!(),
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
        let of = |prefix: u64| {
            let rest = (u128::from(prefix) * 0x1_0001_0001_0001_0001) & ((1 << 80) - 1);
            IpAddr::V6(Ipv6Addr::from_bits(u128::from(prefix) << 80 | rest))
        };
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for row in sources.read() {
                        // Each prefix has one source, and sends packets of a length of its own.
                        let IpAddr::V6(source) = row.source else { unreachable!() };
                        let prefix = (source.to_bits() >> 80) as u64;
                        assert_eq!(row.octets % (100 + prefix % 1000), 0, "{row:?}");
                        assert_eq!((of(prefix), row.common), (row.source, 128), "parts of one source");
                        rows.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            let mut random = Random::from_seed(4);
            for _ in 0..400_000 {
                let prefix = random.below(20_000);
                sources.add(0, of(prefix), (1, 100 + prefix % 1000), By::Acl, Time(1));
            }
            // The reader may not have had a CPU until now.
            while rows.load(Ordering::Relaxed) == 0 && !reader.is_finished() {
                std::thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
