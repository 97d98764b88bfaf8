//! MAC tables: which port of a bridge leads to a station.
//!
//! All workers of a gateway read and write one table. A bucket is one cache line of five entries, each a word with the address
//! and the port, and the second at which the station was seen last. An address has two buckets; the second is used when the
//! first is full. A lookup reads one line in nearly all cases.
//!
//! The table is written only when something is new: a station, a move, or a time of last use that has become old by a 32nd of
//! the ageing time. So lines of active stations stay in the caches of all workers. An entry changes by one exchange of its word,
//! and a worker that loses the exchange leaves the entry to the next frame. Two workers may enter one station at the same time,
//! at different places; each looks for the other's entry afterwards, and the later place is emptied.

mod memory;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memory::{Bucket, Buckets, WAYS};

/// The entry is configured: it neither ages nor moves.
const STATIC: u64 = 1 << 15;

/// Ports have smaller numbers.
pub const MOST_PORTS: u16 = 1 << 15;

/// The result of learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// The station is where it was.
    Known,
    /// The station was not known.
    New,
    /// The station was known on another port.
    Moved,
    /// The station is on another port, and may not move now.
    Held,
    /// The station is configured on another port.
    Static,
    /// There is no room for another station.
    Full,
}

/// An entry, as it is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The address, in the lower 48 bits.
    pub mac: u64,
    /// The port.
    pub port: u16,
    /// It is configured.
    pub is_static: bool,
    /// Seconds since the station was seen, up to a 32nd of the ageing time more.
    pub age: u32,
}

/// A table.
pub struct MacTable {
    buckets: Buckets,
    secret: [u64; 2],
    most: u32,
    ageing: u32,
    /// Seconds by which a time of last use may be late.
    slack: u32,
    count: Box<AtomicU32>,
}

/// The two buckets of an address.
#[derive(Clone, Copy)]
struct Home([usize; 2]);

fn mac_of(word: u64) -> u64 {
    word >> 16
}

fn port_of(word: u64) -> u16 {
    (word & (STATIC - 1)) as u16
}

fn word_of(mac: u64, port: u16) -> u64 {
    mac << 16 | u64::from(port) & (STATIC - 1)
}

impl MacTable {
    /// An empty table for so many stations, which are forgotten `ageing` seconds after they were seen last (0: never).
    pub fn new(most: u32, ageing: u32, secret: [u64; 2]) -> MacTable {
        MacTable {
            buckets: Buckets::new((most as usize / 2 + 1).next_power_of_two()),
            // The second factor has to be odd to lose no bits.
            secret: [secret[0], secret[1] | 1],
            most,
            ageing,
            slack: ageing / 32,
            count: Box::default(),
        }
    }

    /// Stations that it may have.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Seconds after which a station is forgotten.
    pub fn ageing(&self) -> u32 {
        self.ageing
    }

    /// Entries, old ones that are not removed yet included.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    /// It has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Octets of memory.
    pub fn octets(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// Buckets, for [`MacTable::sweep`].
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    #[inline(always)]
    fn home(&self, mac: u64) -> Home {
        let product = u128::from(mac ^ self.secret[0]) * u128::from(self.secret[1]);
        let hash = (product >> 64) as u64 ^ product as u64;
        // Each half as a fraction of the number of buckets, which is below 2^32.
        let buckets = self.buckets.len() as u64;
        Home([hash & u64::from(u32::MAX), hash >> 32].map(|half| ((half * buckets) >> 32) as usize))
    }

    /// Prefetches the bucket that an address is in, most likely.
    #[inline(always)]
    pub fn prefetch(&self, mac: u64) {
        let Home([first, _]) = self.home(mac);
        if let Some(bucket) = self.buckets.get(first) {
            weir_base::prefetch::read(bucket);
        }
    }

    #[inline(always)]
    fn is_old(&self, word: u64, seen: u32, now: u32) -> bool {
        self.ageing != 0 && word & STATIC == 0 && now.saturating_sub(seen) > self.ageing.saturating_add(self.slack)
    }

    /// Finds the entry of an address, too old or not.
    #[inline(always)]
    fn find(&self, Home(home): Home, mac: u64) -> Option<(&Bucket, usize, u64)> {
        for bucket in home.into_iter().filter_map(|at| self.buckets.get(at)) {
            for way in 0..WAYS {
                let word = bucket.words[way].load(Ordering::Relaxed);
                if mac_of(word) == mac && word != 0 {
                    return Some((bucket, way, word));
                }
            }
        }
        None
    }

    /// The port that leads to a station.
    #[inline]
    pub fn lookup(&self, mac: u64, now: u32) -> Option<u16> {
        let (bucket, way, word) = self.find(self.home(mac), mac)?;
        (!self.is_old(word, bucket.seen[way].load(Ordering::Relaxed), now)).then_some(port_of(word))
    }

    /// Returns whether a station is configured on another port than this one.
    #[inline]
    pub fn is_static_elsewhere(&self, mac: u64, port: u16) -> bool {
        self.find(self.home(mac), mac).is_some_and(|(_, _, word)| word & STATIC != 0 && port_of(word) != port)
    }

    /// Notes that a station sends by a port. `may_move` is called if it was known on another one, and says whether it may move.
    #[inline]
    pub fn learn(&self, mac: u64, port: u16, now: u32, may_move: impl FnOnce() -> bool) -> Learned {
        let home = self.home(mac);
        let Some((bucket, way, word)) = self.find(home, mac) else { return self.insert(home, mac, port, now, 0) };
        let seen = &bucket.seen[way];
        let last = seen.load(Ordering::Relaxed);
        if port_of(word) == port {
            if now.wrapping_sub(last) <= self.slack {
                return Learned::Known;
            }
            seen.store(now, Ordering::Relaxed);
            // Another station might have had the place by now.
            return if self.is_old(word, last, now) { Learned::New } else { Learned::Known };
        }
        self.change(bucket, way, word, (mac, port), now, may_move)
    }

    /// Moves a station to another port.
    #[cold]
    fn change(
        &self,
        bucket: &Bucket,
        way: usize,
        word: u64,
        (mac, port): (u64, u16),
        now: u32,
        may_move: impl FnOnce() -> bool,
    ) -> Learned {
        if word & STATIC != 0 {
            return Learned::Static;
        }
        let was_old = self.is_old(word, bucket.seen[way].load(Ordering::Relaxed), now);
        if !was_old && !may_move() {
            return Learned::Held;
        }
        bucket.seen[way].store(now, Ordering::Relaxed);
        // Another worker was faster: the next frame of the station finds what it wrote.
        let _ = bucket.words[way].compare_exchange(word, word_of(mac, port), Ordering::SeqCst, Ordering::Relaxed);
        if was_old { Learned::New } else { Learned::Moved }
    }

    /// Enters a station that has no entry.
    #[cold]
    fn insert(&self, Home(home): Home, mac: u64, port: u16, now: u32, flags: u64) -> Learned {
        let new = word_of(mac, port) | flags;
        for at in home {
            let Some(bucket) = self.buckets.get(at) else { continue };
            for way in 0..WAYS {
                let word = bucket.words[way].load(Ordering::Relaxed);
                let is_free = word == 0;
                if !is_free && !self.is_old(word, bucket.seen[way].load(Ordering::Relaxed), now) {
                    continue;
                }
                if is_free && !self.reserve() {
                    continue;
                }
                bucket.seen[way].store(now, Ordering::Relaxed);
                if bucket.words[way].compare_exchange(word, new, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                    self.remove_twins(Home(home), mac);
                    return Learned::New;
                }
                if is_free {
                    self.release();
                }
            }
        }
        Learned::Full
    }

    /// Makes room for one more entry, if there may be one.
    fn reserve(&self) -> bool {
        let more = |count| (count < self.most).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn release(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Empties all places of an address but the first.
    fn remove_twins(&self, Home([one, other]): Home, mac: u64) {
        // Both workers walk in the same order, whichever order the hash gives the buckets.
        let mut is_first = true;
        for at in [one, other].into_iter().take(if one == other { 1 } else { 2 }) {
            let Some(bucket) = self.buckets.get(at) else { continue };
            for word in &bucket.words {
                let mut found = word.load(Ordering::SeqCst);
                if found == 0 || mac_of(found) != mac || std::mem::take(&mut is_first) {
                    continue;
                }
                // The station may move while its entry is removed.
                while found != 0 && mac_of(found) == mac && !self.empty(word, found) {
                    found = word.load(Ordering::SeqCst);
                }
            }
        }
    }

    /// Empties a place that has this word.
    fn empty(&self, place: &AtomicU64, word: u64) -> bool {
        let was = place.compare_exchange(word, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if was {
            self.release();
        }
        was
    }

    /// Enters a configured station. Returns false if there is no room.
    pub fn fix(&self, mac: u64, port: u16) -> bool {
        let home = self.home(mac);
        if let Some((bucket, way, word)) = self.find(home, mac) {
            self.empty(&bucket.words[way], word);
        }
        self.insert(home, mac, port, 0, STATIC) == Learned::New
    }

    /// Enters the stations of another table that are learned and not too old, each on the port that `port` gives; those for
    /// which it gives none are left out.
    pub fn adopt(&self, other: &MacTable, now: u32, port: impl Fn(u16) -> Option<u16>) {
        for bucket in &*other.buckets {
            for (word, seen) in bucket.words.iter().zip(&bucket.seen) {
                let (word, seen) = (word.load(Ordering::Relaxed), seen.load(Ordering::Relaxed));
                if word == 0 || word & STATIC != 0 || self.is_old(word, seen, now) {
                    continue;
                }
                let home = self.home(mac_of(word));
                if let Some(port) = port(port_of(word)).filter(|_| self.find(home, mac_of(word)).is_none()) {
                    self.insert(home, mac_of(word), port, seen, 0);
                }
            }
        }
    }

    /// Removes the stations of some buckets that are too old. Returns how many that were.
    pub fn sweep(&self, from: usize, buckets: usize, now: u32) -> usize {
        let swept = self.buckets.iter().skip(from).take(buckets);
        swept.map(|bucket| self.empty_some(bucket, |word, seen| self.is_old(word, seen, now))).sum()
    }

    /// Removes learned stations on ports of which `is_meant` holds. Returns how many that were.
    pub fn clear(&self, is_meant: impl Fn(u16) -> bool) -> usize {
        let some = |word: u64| word & STATIC == 0 && is_meant(port_of(word));
        self.buckets.iter().map(|bucket| self.empty_some(bucket, |word, _| some(word))).sum()
    }

    fn empty_some(&self, bucket: &Bucket, is_meant: impl Fn(u64, u32) -> bool) -> usize {
        let emptied = bucket.words.iter().zip(&bucket.seen).filter(|(place, seen)| {
            let word = place.load(Ordering::Relaxed);
            word != 0 && is_meant(word, seen.load(Ordering::Relaxed)) && self.empty(place, word)
        });
        emptied.count()
    }

    /// All entries that are not too old, by address.
    pub fn entries(&self, now: u32) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.len());
        for bucket in &*self.buckets {
            for (word, seen) in bucket.words.iter().zip(&bucket.seen) {
                let (word, seen) = (word.load(Ordering::Relaxed), seen.load(Ordering::Relaxed));
                if word == 0 || self.is_old(word, seen, now) {
                    continue;
                }
                let is_static = word & STATIC != 0;
                let age = if is_static { 0 } else { now.saturating_sub(seen) };
                entries.push(Entry { mac: mac_of(word), port: port_of(word), is_static, age });
            }
        }
        entries.sort_unstable();
        entries
    }
}

impl std::fmt::Debug for MacTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MacTable").field("most", &self.most).field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    // As random as the words of a gateway: a product by a word of few bits fills few buckets.
    const SECRET: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];

    #[test]
    fn a_station_is_forgotten_after_its_time_and_never_before() {
        let table = MacTable::new(16, 320, SECRET);
        assert_eq!(table.learn(5, 1, 100, || panic!("no move")), Learned::New);
        // The time of last use is not written for each frame: the last one here is at 110.
        for now in 100..=110 {
            assert_eq!(table.learn(5, 1, now, || panic!("no move")), Learned::Known);
        }
        assert_eq!(table.lookup(5, 110 + 320), Some(1));
        assert_eq!(table.lookup(5, 110 + 320 + 11), None);
        assert_eq!((table.len(), table.sweep(0, table.buckets(), 110 + 320)), (1, 0));
        assert_eq!((table.sweep(0, table.buckets(), 110 + 331), table.len()), (1, 0));
    }

    #[test]
    fn a_station_moves_if_it_may_and_a_configured_one_stays() {
        let table = MacTable::new(16, 0, SECRET);
        assert!(table.fix(9, 3));
        assert_eq!(table.learn(9, 4, 7, || panic!("never moves")), Learned::Static);
        assert_eq!(table.learn(9, 3, 7, || panic!("no move")), Learned::Known);
        assert_eq!(table.learn(8, 1, 7, || panic!("no move")), Learned::New);
        assert_eq!(table.learn(8, 2, 7, || false), Learned::Held);
        assert_eq!(table.lookup(8, 7), Some(1));
        assert_eq!(table.learn(8, 2, u32::MAX, || true), Learned::Moved);
        assert_eq!((table.lookup(8, u32::MAX), table.lookup(9, u32::MAX)), (Some(2), Some(3)));
        assert_eq!((table.clear(|_| true), table.len(), table.lookup(9, 0)), (1, 1, Some(3)));
    }

    #[test]
    fn a_full_table_takes_no_more_until_some_are_old() {
        let table = MacTable::new(1000, 300, SECRET);
        let new = (0..2000u64).filter(|mac| table.learn(mac + 1, 0, 10, || true) == Learned::New).count();
        assert!((995..=1000).contains(&new), "{new}");
        assert_eq!(table.len(), new);
        assert_eq!(table.learn(5000, 0, 10, || true), Learned::Full);
        // Old entries make room before they are removed.
        let new = (5000..5500u64).filter(|&mac| table.learn(mac, 1, 1000, || true) == Learned::New).count();
        assert!(new > 400, "{new}");
        assert!(table.len() <= 1000);
    }

    #[test]
    fn a_table_in_huge_pages_is_empty_at_first_and_finds_its_stations() {
        let table = MacTable::new(100_000, 0, SECRET);
        assert!(matches!(table.buckets, Buckets::Region(..)) && table.octets() == 65_536 * 64);
        assert!(table.entries(1).is_empty());
        for mac in 1..=50_000u64 {
            assert_eq!(table.learn(mac << 12, (mac % 7) as u16, 1, || panic!("no move")), Learned::New);
        }
        for mac in 1..=50_000u64 {
            assert_eq!(table.lookup(mac << 12, 1), Some((mac % 7) as u16));
        }
        assert_eq!((table.lookup(50_001 << 12, 1), table.len()), (None, 50_000));
    }

    #[test]
    fn another_table_takes_over_what_its_ports_have() {
        let (old, new) =
            (MacTable::new(100, 300, SECRET), MacTable::new(50, 300, SECRET.map(|word| word.rotate_left(7))));
        for mac in 1..=60 {
            old.learn(mac, (mac % 3) as u16, mac as u32, || true);
        }
        assert!(new.fix(3, 5));
        new.adopt(&old, 60, |port| (port != 1).then_some(port + 10));
        let entries = new.entries(60);
        assert_eq!(entries.len(), 40);
        assert!(entries.iter().all(|own| own.mac % 3 != 1 && (own.mac == 3) == own.is_static));
        let own = entries.iter().find(|own| own.mac == 8).unwrap();
        assert_eq!((own.port, own.age), (12, 52));
    }

    #[test]
    fn workers_that_learn_the_same_stations_leave_one_entry_each() {
        let table = MacTable::new(4096, 0, SECRET);
        std::thread::scope(|scope| {
            for port in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..20u64 {
                        for mac in 1..=2000u64 {
                            table.learn(mac + round % 2 * 500, port, 1, || true);
                        }
                        table.clear(|own| own == port && round % 5 == 4);
                    }
                });
            }
        });
        for mac in 1..=2500 {
            table.learn(mac, 1, 1, || true);
        }
        let entries = table.entries(1);
        let mut macs: Vec<u64> = entries.iter().map(|entry| entry.mac).collect();
        macs.dedup();
        assert_eq!((macs.len(), entries.len(), table.len()), (2500, 2500, 2500));
    }

    proptest! {
        /// The table and a map do the same.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((1u64..60, 0u16..4, 0u32..40, prop::bool::ANY, 0u8..20), 1..400)) {
            let table = MacTable::new(1000, 64, SECRET);
            let mut naive: HashMap<u64, (u16, u32)> = HashMap::new();
            let mut now = 1000;
            for (mac, port, step, may, kind) in steps {
                now += step * u32::from(kind == 0);
                let is_old = |seen: u32| now - seen > 64 + 2;
                match kind {
                    1 => {
                        table.clear(|own| own == port);
                        naive.retain(|_, own| own.0 != port);
                    }
                    2 => {
                        table.sweep(0, table.buckets(), now);
                        naive.retain(|_, own| !is_old(own.1));
                        prop_assert_eq!(table.len(), naive.len());
                    }
                    3..8 => {
                        let expected = naive.get(&mac).filter(|own| !is_old(own.1)).map(|own| own.0);
                        prop_assert_eq!(table.lookup(mac, now), expected);
                    }
                    _ => {
                        let learned = table.learn(mac, port, now, || may);
                        let expected = match naive.get_mut(&mac) {
                            None => Learned::New,
                            Some(own) if is_old(own.1) => {
                                *own = (port, now);
                                Learned::New
                            }
                            Some(own) if own.0 == port => {
                                own.1 = if now - own.1 > 2 { now } else { own.1 };
                                Learned::Known
                            }
                            Some(own) if may => {
                                *own = (port, now);
                                Learned::Moved
                            }
                            Some(_) => Learned::Held,
                        };
                        if expected == Learned::New {
                            naive.insert(mac, (port, now));
                        }
                        prop_assert_eq!(learned, expected);
                    }
                }
            }
            let mut expected: Vec<(u64, u16)> =
                naive.iter().filter(|own| now - own.1.1 <= 66).map(|(&mac, own)| (mac, own.0)).collect();
            expected.sort_unstable();
            let entries: Vec<(u64, u16)> = table.entries(now).iter().map(|own| (own.mac, own.port)).collect();
            prop_assert_eq!(entries, expected);
        }
    }
}
