//! The transport headers of later fragments, which only the first fragment of a datagram has, for rules that match them
//! (shallow virtual reassembly). Datagrams are not reassembled. A worker remembers the header of a first fragment for a
//! while, and holds later fragments that arrive before it.
//!
//! All tables are bounded. A datagram is remembered for exactly two seconds, whichever call finds it expired:
//! identifications are reused, and an idle worker may find a vector before it finds the time. If there is no room for
//! another datagram, the oldest is forgotten.
//! Fragments are held for two seconds at most, with limits for each datagram and in all. A fragment without room, or
//! that times out, is dropped, so that no part passes of a datagram that a rule would have refused. A flood of later
//! fragments cannot displace datagrams whose first fragment has arrived: a fragment without a slot to wait in is not
//! remembered either.
//!
//! A datagram that has two first fragments which do not say the same is refused from then on: one of them was sent to
//! pass the rules, and the other to be put together (RFC 1858; RFC 5722 has all overlaps refused in IPv6). So is every later
//! fragment that reaches back into the header itself (RFC 3128).

use weir_base::clock::Time;
use weir_packet::packet::{Packet, Shown};
use weir_packet::reassembly::{Evicted, Key, Table};

use crate::graph::slots::{Chain, Slots};
use crate::reason::Reason;

/// Datagrams that a worker remembers.
pub(crate) const DATAGRAMS: usize = 1024;
/// Fragments that wait at a worker.
pub(crate) const WAITING: usize = 256;
/// Fragments that wait for the same first one: more than those of the longest datagram that came over Ethernet.
const EACH: u32 = 64;
/// Nanoseconds that a datagram is remembered, and that fragments wait.
const LIFETIME: u64 = 2_000_000_000;

/// The transport header as rules see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upper {
    /// Ports, and flags if it is TCP's.
    Ports(u16, u16, Option<u8>),
    /// Type and code of ICMP.
    Icmp(u8, u8),
    /// Nothing.
    Bare,
}

/// The fields of the first fragment of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    /// The protocol, behind all extension headers.
    pub(crate) protocol: u8,
    /// Its header.
    pub(crate) upper: Upper,
    /// The identifier of an ICMP request or reply; 0 if the fragment lacks it.
    pub(crate) identifier: u16,
    /// The end, in octets of the fragmented data, of the fields that rules match: no other fragment may begin before
    /// it.
    pub(crate) end: u16,
}

impl First {
    /// The notes that a later fragment carries.
    pub(crate) fn shown(&self) -> Shown {
        let Upper::Ports(source, destination, flags) = self.upper else {
            return match self.upper {
                Upper::Icmp(kind, code) => {
                    Shown::new(ICMP, self.protocol, 0, [u16::from_be_bytes([kind, code]), self.identifier])
                }
                _ => Shown::new(BARE, self.protocol, 0, [0; 2]),
            };
        };
        let kind = if flags.is_some() { FLAGS } else { PORTS };
        Shown::new(kind, self.protocol, flags.unwrap_or(0), [source, destination])
    }

    /// The first fragment's header by the notes of a later one, if it has any.
    pub(crate) fn of_shown(shown: Shown) -> Option<First> {
        let [first, second] = shown.words;
        let (upper, identifier) = match shown.kind {
            PORTS => (Upper::Ports(first, second, None), 0),
            FLAGS => (Upper::Ports(first, second, Some(shown.flags)), 0),
            ICMP => {
                let [kind, code] = first.to_be_bytes();
                (Upper::Icmp(kind, code), second)
            }
            BARE => (Upper::Bare, 0),
            _ => return None,
        };
        Some(First { protocol: shown.protocol, upper, identifier, end: 0 })
    }
}

/// The kinds of notes of a fragment.
const PORTS: u8 = 1;
const FLAGS: u8 = 2;
const ICMP: u8 = 3;
const BARE: u8 = 4;

/// The state of the datagram of a later fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Later {
    /// This is its first fragment.
    Of(First),
    /// Its first fragment has not come.
    Wait,
    /// Its fragments contradict each other.
    Refuse,
}

#[derive(Debug)]
enum Entry {
    Known(First),
    Refused,
    Waiting(Chain),
}

/// The fragments that a worker remembers.
pub(crate) struct Fragments {
    table: Table<Entry>,
    slots: Slots,
    leaving: Chain,
    giving_up: bool,
}

impl Fragments {
    /// Takes all memory at once. Equal random bits give equal hashes.
    pub(crate) fn new(random: [u64; 2]) -> Fragments {
        Fragments {
            table: Table::new(DATAGRAMS, LIFETIME, random),
            slots: Slots::new(WAITING),
            leaving: Chain::EMPTY,
            giving_up: false,
        }
    }

    /// Octets of memory of a worker: of what it remembers, and of what waits, without its buffers.
    pub(crate) const fn octets() -> (usize, usize) {
        (DATAGRAMS * (size_of::<Key>() + size_of::<Entry>() + 32), Slots::octets(WAITING))
    }

    /// Datagrams that are remembered.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Remembers the fields of a first fragment. Fragments held for it may leave.
    ///
    /// # Errors
    /// When another first fragment said something else.
    pub(crate) fn first(&mut self, key: Key, first: First, now: Time) -> Result<(), Reason> {
        self.age(now);
        match self.table.find(&key) {
            Some(Entry::Known(known)) if *known == first => return Ok(()),
            Some(entry @ (Entry::Known(_) | Entry::Refused)) => {
                *entry = Entry::Refused;
                return Err(Reason::AclFragment);
            }
            Some(Entry::Waiting(_)) => {
                // For as long as any other, from now on.
                if let Some(Entry::Waiting(chain)) = self.table.remove(&key) {
                    self.slots.join(&mut self.leaving, chain);
                }
            }
            None => {}
        }
        let evicted = self.table.insert(key, Entry::Known(first), now);
        self.forget(evicted);
        Ok(())
    }

    /// Refuses the rest of a datagram whose first fragment was dropped behind the rules, for lack of a session.
    pub(crate) fn refuse(&mut self, key: &Key) {
        if let Some(entry @ Entry::Known(_)) = self.table.find(key) {
            *entry = Entry::Refused;
        }
    }

    /// Returns the state of the datagram of a fragment whose data starts at this octet.
    pub(crate) fn later(&mut self, key: &Key, offset: u16, now: Time) -> Later {
        self.age(now);
        match self.table.find(key) {
            None | Some(Entry::Waiting(_)) => Later::Wait,
            Some(Entry::Known(first)) if offset >= first.end => Later::Of(*first),
            Some(Entry::Known(_) | Entry::Refused) => Later::Refuse,
        }
    }

    /// Has a fragment wait for the first of its datagram, which has not come. Gives it back if there is no room.
    pub(crate) fn wait(&mut self, key: Key, packet: Packet, now: Time) -> Result<(), Packet> {
        self.age(now);
        let known = match self.table.find(&key) {
            Some(Entry::Waiting(chain)) if chain.len() < EACH => true,
            Some(_) => return Err(packet),
            None => false,
        };
        if self.giving_up {
            return Err(packet);
        }
        if known {
            let Some(Entry::Waiting(chain)) = self.table.find(&key) else { return Err(packet) };
            return self.slots.push(chain, packet);
        }
        let mut chain = Chain::EMPTY;
        self.slots.push(&mut chain, packet)?;
        let evicted = self.table.insert(key, Entry::Waiting(chain), now);
        self.forget(evicted);
        Ok(())
    }

    /// Gives up what has waited too long; all of it, if everything has waited long enough.
    pub(crate) fn expire(&mut self, now: Time) {
        while self.giving_up
            && let Some(left) = self.table.pop()
        {
            self.forget(Some(left));
        }
        self.age(now);
    }

    /// Forgets what is older than it may be.
    fn age(&mut self, now: Time) {
        while let Some(expired) = self.table.expire(now) {
            self.forget(Some(expired));
        }
    }

    /// Everything has waited long enough.
    pub(crate) fn give_up(&mut self) {
        self.giving_up = true;
    }

    /// The next fragment that may leave. It has a reason if it is to be dropped.
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        self.slots.pop(&mut self.leaving)
    }

    /// When there is something to do, if nothing comes before.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        if !self.leaving.is_empty() || self.giving_up && !self.table.is_empty() {
            Some(Time(0))
        } else {
            self.table.deadline()
        }
    }

    /// Drops what waited for the first fragment of a datagram that is remembered no more.
    fn forget(&mut self, evicted: Option<Evicted<Entry>>) {
        let Some(Evicted { value: Entry::Waiting(chain), .. }) = evicted else { return };
        self.slots.refuse(chain, Reason::AclFragment);
        self.slots.join(&mut self.leaving, chain);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use weir_packet::buffer::{Pool, PoolSize};

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const WEB: First = First { protocol: 6, upper: Upper::Ports(1000, 80, Some(2)), identifier: 0, end: 20 };

    fn key(identification: u32) -> Key {
        let address = Ipv6Addr::LOCALHOST;
        Key { source: address, destination: address, identification, protocol: 6, scope: 0 }
    }

    struct Bench {
        fragments: Fragments,
        pool: Pool,
    }

    impl Bench {
        fn new() -> Bench {
            let pool = Pool::new(PoolSize { small: 2048, large: 1 }).unwrap();
            Bench { fragments: Fragments::new([1, 2]), pool }
        }

        fn wait(&mut self, identification: u32, mark: u8, now: u64) -> bool {
            let mut cache = self.pool.cache();
            let packet = Packet::copy_of(&mut cache, &[mark]).unwrap();
            let refused = self.fragments.wait(key(identification), packet, Time(now)).err();
            let waits = refused.is_none();
            refused.into_iter().for_each(|mut packet| packet.recycle(&mut cache));
            waits
        }

        /// The marks of what may leave, and whether each is to be dropped.
        fn leaving(&mut self) -> Vec<(u8, bool)> {
            let mut cache = self.pool.cache();
            let pop = std::iter::from_fn(|| self.fragments.pop());
            pop.map(|mut packet| {
                let of = (packet.data()[0], packet.reason() != 0);
                packet.recycle(&mut cache);
                of
            })
            .collect()
        }
    }

    #[test]
    fn later_fragments_get_what_the_first_says() {
        let mut bench = Bench::new();
        assert_eq!(bench.fragments.later(&key(1), 1480, Time(0)), Later::Wait);
        assert_eq!(bench.fragments.first(key(1), WEB, Time(0)), Ok(()));
        assert_eq!(bench.fragments.first(key(1), WEB, Time(1)), Ok(()), "a repetition");
        assert_eq!(bench.fragments.later(&key(1), 1480, Time(1)), Later::Of(WEB));
        assert_eq!(bench.fragments.later(&key(1), 24, Time(1)), Later::Of(WEB));
        assert_eq!(bench.fragments.later(&key(1), 16, Time(1)), Later::Refuse, "within the header");
        assert_eq!(bench.fragments.later(&key(2), 1480, Time(1)), Later::Wait);
        assert!(!bench.wait(1, 0, 1), "there is nothing to wait for");
        assert_eq!(bench.fragments.deadline(), Some(Time(2 * SECOND)));
        bench.fragments.expire(Time(2 * SECOND));
        assert_eq!(
            (bench.fragments.later(&key(1), 1480, Time(2 * SECOND)), bench.fragments.deadline()),
            (Later::Wait, None)
        );
    }

    #[test]
    fn nobody_is_judged_by_what_is_too_old() {
        // Nothing looked at the time between.
        const LATE: Time = Time(2 * SECOND);
        let mut bench = Bench::new();
        assert_eq!(bench.fragments.first(key(1), WEB, Time(0)), Ok(()));
        assert_eq!(bench.fragments.later(&key(1), 80, Time(2 * SECOND - 1)), Later::Of(WEB));
        assert_eq!(bench.fragments.later(&key(1), 80, LATE), Later::Wait);
        assert!(bench.wait(1, 1, LATE.0), "for the first of another datagram with the same number");
        let other = First { upper: Upper::Ports(1000, 22, Some(2)), ..WEB };
        assert_eq!(bench.fragments.first(key(1), other, LATE), Ok(()));
        assert_eq!(bench.leaving(), [(1, false)]);

        // The first fragment of another datagram contradicts none.
        const LATER: Time = Time(4 * SECOND);
        assert_eq!(bench.fragments.first(key(1), WEB, LATER), Ok(()));
        assert_eq!(bench.fragments.later(&key(1), 80, LATER), Later::Of(WEB));
        // What waited in vain is not let pass by one that comes too late, nor joined by others.
        assert!(bench.wait(2, 2, LATER.0));
        assert_eq!(bench.fragments.first(key(2), WEB, Time(6 * SECOND)), Ok(()));
        assert_eq!(bench.leaving(), [(2, true)]);
        assert!(bench.wait(3, 3, 6 * SECOND) && bench.wait(3, 4, 8 * SECOND));
        assert_eq!(bench.leaving(), [(3, true)]);
        assert_eq!(bench.fragments.deadline(), Some(Time(10 * SECOND)));
    }

    #[test]
    fn those_that_wait_leave_in_their_order() {
        let mut bench = Bench::new();
        assert!(bench.wait(1, 1, 0) && bench.wait(2, 2, 0) && bench.wait(1, 3, SECOND));
        assert_eq!(bench.fragments.deadline(), Some(Time(2 * SECOND)));
        assert_eq!(bench.fragments.first(key(1), WEB, Time(SECOND)), Ok(()));
        assert_eq!(bench.fragments.deadline(), Some(Time(0)));
        assert_eq!(bench.leaving(), [(1, false), (3, false)]);
        bench.fragments.expire(Time(2 * SECOND));
        assert_eq!(bench.leaving(), [(2, true)], "in vain");
        assert_eq!(
            bench.fragments.later(&key(1), 80, Time(2 * SECOND)),
            Later::Of(WEB),
            "known for two seconds since it came"
        );
        bench.fragments.expire(Time(3 * SECOND));
        assert_eq!(bench.fragments.len(), 0);
    }

    #[test]
    fn two_first_fragments_that_differ_end_it() {
        let mut bench = Bench::new();
        assert_eq!(bench.fragments.first(key(1), WEB, Time(0)), Ok(()));
        let other = First { upper: Upper::Ports(1000, 22, Some(2)), ..WEB };
        for first in [other, other, WEB] {
            assert_eq!(bench.fragments.first(key(1), first, Time(1)), Err(Reason::AclFragment));
            assert_eq!(bench.fragments.later(&key(1), 80, Time(1)), Later::Refuse);
            assert!(!bench.wait(1, 0, 1));
        }
    }

    #[test]
    fn everything_is_bounded_and_slots_come_back() {
        let mut bench = Bench::new();
        for _ in 0..3 {
            assert!((0..EACH).all(|_| bench.wait(1, 1, 0)));
            assert!(!bench.wait(1, 1, 0), "enough of one");
            let all = (2..1000).filter(|&other| bench.wait(other, 2, 0)).count();
            assert_eq!(all, WAITING - EACH as usize);
            bench.fragments.expire(Time(2 * SECOND));
            assert_eq!(bench.leaving().len(), WAITING);
        }
        // First fragments evict the oldest datagram, and the fragments held for it.
        assert!(bench.wait(0, 7, 0));
        for identification in 1..=DATAGRAMS as u32 {
            assert_eq!(bench.fragments.first(key(identification), WEB, Time(0)), Ok(()));
        }
        assert_eq!(bench.leaving(), [(7, true)]);
        assert_eq!(bench.fragments.len(), DATAGRAMS);
        // A fragment without a slot to wait in does not evict a datagram.
        let waited = (5000..6000).filter(|&other| bench.wait(other, 2, 0)).count();
        assert_eq!(waited, WAITING);
        assert_eq!(bench.fragments.later(&key(WAITING as u32 + 1), 80, Time(0)), Later::Of(WEB));
        assert_eq!(bench.fragments.later(&key(WAITING as u32), 80, Time(0)), Later::Wait);
        bench.fragments.give_up();
        assert_eq!(bench.fragments.deadline(), Some(Time(0)));
        bench.fragments.expire(Time(0));
        assert_eq!(bench.leaving().len(), WAITING);
        assert_eq!((bench.fragments.deadline(), bench.wait(1, 1, 0)), (None, false));
    }
}
