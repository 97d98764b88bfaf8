//! Packets that wait for the hardware address of their next hop (RFC 1122, 2.3.2.2; RFC 4861, 7.2.2).
//!
//! A worker has one store. It holds a queue for each neighbour with held packets, found by a keyed hash of interface
//! and address, and a list of these queues in order of age. All memory is taken when the bounds are set.
//!
//! Packets leave a queue in four ways. If the neighbour is resolved, or the route has changed, the whole queue moves to
//! the list of released packets, to be looked up again. If the neighbour does not answer in time, the queue moves there
//! with a reason. If the queue is full, its oldest packet is dropped. If the store is full, the oldest packet of the
//! same neighbour is dropped, or else that of the neighbour that has been unresolved for longest, as it is least likely
//! to answer. So a scan of unused addresses shortens the wait of other packets, and locks none out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_base::clock::Time;
use weir_packet::packet::Packet;
use weir_packet::parse::{self, Seed};

use crate::graph::slots::{Chain, Slots};
use crate::model::NeighborDiscovery;
use crate::reason::Reason;

/// No slot, no queue.
const NONE: u32 = u32::MAX;

/// Nanoseconds after which an unresolved neighbour is reported again.
const ASK_AGAIN: u64 = 1_000_000_000;

/// Nanoseconds after which a report is repeated if the ring to the control side had no room.
const TELL_AGAIN: u64 = 100_000_000;

/// The neighbour that packets are held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// Number of the interface.
    pub(crate) interface: u32,
    /// The next hop, or on a connected prefix the destination.
    pub(crate) address: IpAddr,
}

/// The disposition of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// It goes on waiting.
    Wait,
    /// Its packets are looked up again.
    Release,
    /// Its packets are dropped.
    Refuse(Reason),
}

/// A packet was not taken.
#[derive(Debug)]
pub(crate) struct NoRoom(pub(crate) Packet);

struct Queue {
    key: Key,
    packets: Chain,
    /// When the first packet came.
    since: Time,
    /// The time of the last report to the control side.
    asked: Option<Time>,
    /// The queue that began before, in the list of waiting queues.
    previous: u32,
    /// The queue that began after, in the list of waiting queues; or the next free one.
    next: u32,
}

/// The store.
pub(crate) struct Hold {
    seed: Seed,
    slots: Slots,
    queues: Vec<Queue>,
    /// Numbers of queues by the hash of their keys, by linear probing; never more than half full.
    index: Vec<u32>,
    free_queue: u32,
    /// The queues that wait, by age.
    oldest: u32,
    newest: u32,
    /// Packets that may leave.
    leaving: Chain,
    waiting: u32,
    most: u32,
    most_each: u32,
    timeout: u64,
    /// The next time at which a report or time-out is due. The queues need no pass before it, however many packets
    /// arrive.
    due: Time,
    /// The version of the root that the queues were last held against.
    pub(crate) generation: u64,
}

impl Hold {
    /// A store that takes nothing before its bounds are set.
    pub(crate) fn new(seed: Seed) -> Hold {
        Hold {
            seed,
            slots: Slots::new(0),
            queues: Vec::new(),
            index: vec![NONE],
            free_queue: NONE,
            oldest: NONE,
            newest: NONE,
            leaving: Chain::EMPTY,
            waiting: 0,
            most: 0,
            most_each: 0,
            timeout: 0,
            due: Time(0),
            generation: 0,
        }
    }

    /// Sets the bounds, and takes the memory that they need. What waits goes on waiting; memory is never given back.
    pub(crate) fn bound(&mut self, settings: &NeighborDiscovery) {
        self.most = u32::from(settings.hold_total);
        self.most_each = u32::from(settings.hold);
        self.timeout = u64::from(settings.retransmit_time) * u64::from(settings.probes.max(1)) * 1_000_000;
        self.due = Time(0);
        self.slots.grow(self.most as usize);
        while self.queues.len() < self.most as usize {
            let number = self.queues.len() as u32;
            let key = Key { interface: NONE, address: IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
            self.queues.push(Queue {
                key,
                packets: Chain::EMPTY,
                since: Time(0),
                asked: None,
                previous: NONE,
                next: self.free_queue,
            });
            self.free_queue = number;
        }
        let places = (2 * self.queues.len()).next_power_of_two();
        if self.index.len() < places {
            self.index = vec![NONE; places];
            let mut number = self.oldest;
            while number != NONE {
                self.enter(number);
                number = self.queues[number as usize].next;
            }
        }
    }

    /// No packet is here.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0 && self.leaving.is_empty()
    }

    /// Octets of memory.
    pub(crate) fn bytes(total: u16) -> usize {
        let total = usize::from(total);
        Slots::octets(total) + total * size_of::<Queue>() + (2 * total).next_power_of_two() * size_of::<u32>()
    }

    /// Takes a packet in at the end of its queue. Returns the one that had to make room, if one had to.
    pub(crate) fn push(&mut self, key: Key, packet: Packet, now: Time) -> Result<Option<Packet>, NoRoom> {
        if self.most == 0 || self.most_each == 0 {
            return Err(NoRoom(packet));
        }
        let own = self.find(key);
        // The only packet of a queue is replaced: its neighbour has been waited for since that one came.
        if let Some(number) = own
            && let packets = self.queues[number as usize].packets
            && packets.len() == 1
            && (self.most_each == 1 || self.waiting + self.leaving.len() >= self.most)
            && let Some(first) = self.slots.first_mut(packets)
        {
            return Ok(Some(std::mem::replace(first, packet)));
        }
        let evicted = match own {
            Some(number) if self.queues[number as usize].packets.len() >= self.most_each => self.evict(number),
            // What may leave needs its slots until it has left.
            own if self.waiting + self.leaving.len() >= self.most => {
                match own.or((self.oldest != NONE).then_some(self.oldest)) {
                    Some(number) => self.evict(number),
                    None => return Err(NoRoom(packet)),
                }
            }
            _ => None,
        };
        // The queue may have been emptied, and so have ended, just now.
        let number = match self.find(key) {
            Some(number) => number,
            None => self.begin(key, now),
        };
        self.slots.push(&mut self.queues[number as usize].packets, packet).map_err(NoRoom)?;
        self.waiting += 1;
        Ok(evicted)
    }

    /// Reports an unresolved neighbour, at most once a second. The closure returns whether the ring had room.
    pub(crate) fn ask(&mut self, key: Key, now: Time, tell: impl FnOnce(Key) -> bool) {
        if let Some(number) = self.find(key) {
            self.queues[number as usize].ask(now, tell);
        }
    }

    /// Repeats the reports of neighbours that are unresolved for a second, and times out packets that were held too
    /// long.
    pub(crate) fn look_after(&mut self, now: Time, mut tell: impl FnMut(Key) -> bool) {
        if now < self.due {
            return;
        }
        while self.oldest != NONE && now.since(self.queues[self.oldest as usize].since) >= self.timeout {
            self.part(self.oldest, Some(Reason::NoNeighbor));
        }
        let mut due = match self.queues.get(self.oldest as usize) {
            Some(oldest) => oldest.since.0.saturating_add(self.timeout),
            None => u64::MAX,
        };
        let mut number = self.oldest;
        while number != NONE {
            let queue = &mut self.queues[number as usize];
            queue.ask(now, &mut tell);
            due = due.min(match queue.asked {
                Some(asked) => asked.0.saturating_add(ASK_AGAIN),
                None => now.0.saturating_add(TELL_AGAIN),
            });
            number = queue.next;
        }
        self.due = Time(due);
    }

    /// Gives up everything that waits.
    pub(crate) fn give_up(&mut self) {
        while self.oldest != NONE {
            self.part(self.oldest, Some(Reason::NoNeighbor));
        }
    }

    /// Decides about every queue under a new version of the root, by its first packet.
    pub(crate) fn decide(&mut self, generation: u64, mut decide: impl FnMut(Key, &Packet) -> Disposition) {
        self.generation = generation;
        let mut number = self.oldest;
        while number != NONE {
            let queue = &self.queues[number as usize];
            let next = queue.next;
            // A queue has a packet as long as it waits.
            let Some(first) = self.slots.first(queue.packets) else { break };
            match decide(queue.key, first) {
                Disposition::Wait => {}
                Disposition::Release => self.part(number, None),
                Disposition::Refuse(reason) => self.part(number, Some(reason)),
            }
            number = next;
        }
    }

    /// The next packet that may leave, in order. It has a reason if it is to be dropped.
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        self.slots.pop(&mut self.leaving)
    }

    /// When this store is to be looked after, if nothing comes before; at times too early, never too late.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        match (self.leaving.len(), self.waiting) {
            (0, 0) => None,
            (0, _) => Some(self.due),
            _ => Some(Time(0)),
        }
    }

    fn place(&self, key: Key) -> usize {
        let address = match key.address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let interface = Ipv6Addr::from(u128::from(key.interface));
        parse::symmetric_hash_v6(&self.seed, 0, (address, 0), (interface, 0)) as usize & (self.index.len() - 1)
    }

    fn find(&self, key: Key) -> Option<u32> {
        let mut place = self.place(key);
        loop {
            let number = self.index[place];
            if number == NONE {
                return None;
            }
            if self.queues[number as usize].key == key {
                return Some(number);
            }
            place = (place + 1) & (self.index.len() - 1);
        }
    }

    fn enter(&mut self, number: u32) {
        let mut place = self.place(self.queues[number as usize].key);
        while self.index[place] != NONE {
            place = (place + 1) & (self.index.len() - 1);
        }
        self.index[place] = number;
    }

    /// Begins a queue, the newest in the list of waiting queues. One is free: there is a queue for every slot.
    fn begin(&mut self, key: Key, now: Time) -> u32 {
        let number = self.free_queue;
        self.free_queue = self.queues[number as usize].next;
        self.queues[number as usize] =
            Queue { key, packets: Chain::EMPTY, since: now, asked: None, previous: self.newest, next: NONE };
        match self.queues.get_mut(self.newest as usize) {
            Some(newest) => newest.next = number,
            None => self.oldest = number,
        }
        self.newest = number;
        self.enter(number);
        // A report that found no room is repeated soon.
        self.due = self.due.min(Time(now.0.saturating_add(self.timeout.min(TELL_AGAIN))));
        number
    }

    /// Ends a queue: it is found no more, and its memory is free.
    fn end(&mut self, number: u32) {
        let Queue { key, previous, next, .. } = self.queues[number as usize];
        match self.queues.get_mut(previous as usize) {
            Some(queue) => queue.next = next,
            None => self.oldest = next,
        }
        match self.queues.get_mut(next as usize) {
            Some(queue) => queue.previous = previous,
            None => self.newest = previous,
        }
        let mask = self.index.len() - 1;
        let mut hole = self.place(key);
        while self.index[hole] != number {
            hole = (hole + 1) & mask;
        }
        // An entry behind the hole that may stand in it moves there, or probing would end too early.
        let mut place = hole;
        loop {
            place = (place + 1) & mask;
            let other = self.index[place];
            if other == NONE {
                break;
            }
            let wanted = self.place(self.queues[other as usize].key);
            if place.wrapping_sub(wanted) & mask >= place.wrapping_sub(hole) & mask {
                self.index[hole] = other;
                hole = place;
            }
        }
        self.index[hole] = NONE;
        self.queues[number as usize].next = self.free_queue;
        self.free_queue = number;
    }

    /// Takes the oldest packet out of a queue.
    fn evict(&mut self, number: u32) -> Option<Packet> {
        let packet = self.slots.pop(&mut self.queues[number as usize].packets)?;
        self.waiting -= 1;
        if self.queues[number as usize].packets.is_empty() {
            self.end(number);
        }
        Some(packet)
    }

    /// Moves the packets of a queue to the list of released packets.
    fn part(&mut self, number: u32, reason: Option<Reason>) {
        let packets = self.queues[number as usize].packets;
        if let Some(reason) = reason {
            self.slots.refuse(packets, reason);
        }
        self.slots.join(&mut self.leaving, packets);
        self.waiting -= packets.len();
        self.end(number);
    }
}

impl Queue {
    fn ask(&mut self, now: Time, tell: impl FnOnce(Key) -> bool) {
        if self.asked.is_none_or(|asked| now.since(asked) >= ASK_AGAIN) && tell(self.key) {
            self.asked = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, VecDeque};

    use weir_base::random::Random;

    use super::*;

    fn key(number: u32) -> Key {
        Key { interface: number % 3, address: IpAddr::from([10, 0, (number >> 8) as u8, number as u8]) }
    }

    fn packet(ordinal: u32) -> Packet {
        let mut packet = Packet::EMPTY;
        packet.set_forwarding(ordinal);
        packet
    }

    fn hold(each: u16, total: u16) -> Hold {
        let mut hold = Hold::new(Seed::new([1, 2]));
        hold.bound(&NeighborDiscovery { hold: each, hold_total: total, ..NeighborDiscovery::default() });
        hold
    }

    /// A store that is evidently right: queues in the order in which they began.
    #[derive(Default)]
    struct Naive {
        queues: Vec<(Key, Time, VecDeque<u32>)>,
        leaving: VecDeque<(u32, bool)>,
    }

    impl Naive {
        fn push(&mut self, key: Key, ordinal: u32, now: Time, each: usize, total: usize) -> Result<Option<u32>, ()> {
            let count: usize = self.queues.iter().map(|queue| queue.2.len()).sum();
            let own = self.queues.iter().position(|queue| queue.0 == key);
            let victim = match own {
                Some(own) if self.queues[own].2.len() >= each => Some(own),
                _ if count + self.leaving.len() < total => None,
                Some(own) => Some(own),
                None if self.queues.is_empty() => return Err(()),
                None => Some(0),
            };
            let evicted = victim.and_then(|victim| self.queues[victim].2.pop_front());
            // A queue whose only packet makes room goes on.
            self.queues.retain(|queue| !queue.2.is_empty() || queue.0 == key);
            match self.queues.iter_mut().find(|queue| queue.0 == key) {
                Some(queue) => queue.2.push_back(ordinal),
                None => self.queues.push((key, now, VecDeque::from([ordinal]))),
            }
            Ok(evicted)
        }

        fn part(&mut self, which: impl Fn(&(Key, Time, VecDeque<u32>)) -> bool, refused: bool) {
            let leaving = &mut self.leaving;
            self.queues.retain(|queue| {
                let part = which(queue);
                if part {
                    leaving.extend(queue.2.iter().map(|&ordinal| (ordinal, refused)));
                }
                !part
            });
        }
    }

    #[test]
    fn it_does_what_its_naive_twin_does() {
        let mut random = Random::from_seed(5);
        for (each, total, keys) in [(4, 16, 8), (1, 8, 40), (32, 64, 300), (8, 1, 3)] {
            let (mut hold, mut naive) = (hold(each, total), Naive::default());
            let mut now = Time(0);
            for ordinal in 1..20_000 {
                now.0 += random.below(100_000_000);
                match random.below(12) {
                    0 => {
                        hold.look_after(now, |_| true);
                        naive.part(|queue| now.since(queue.1) >= 3_000_000_000, true);
                    }
                    1 => {
                        let chosen = random.below(4) as u8;
                        hold.decide(1, |key, _| match key.address {
                            IpAddr::V4(address) if address.octets()[3] % 4 == chosen => Disposition::Release,
                            _ => Disposition::Wait,
                        });
                        let chosen =
                            |key: Key| matches!(key.address, IpAddr::V4(address) if address.octets()[3] % 4 == chosen);
                        naive.part(|queue| chosen(queue.0), false);
                    }
                    2 | 3 => {
                        for _ in 0..random.below(8) {
                            let left = hold.pop().map(|packet| (packet.forwarding(), packet.reason() != 0));
                            assert_eq!(left, naive.leaving.pop_front());
                        }
                    }
                    _ => {
                        let key = key(random.below(keys) as u32);
                        let ours = hold.push(key, packet(ordinal), now).map_err(drop);
                        let theirs = naive.push(key, ordinal, now, each.into(), total.into());
                        assert_eq!(ours.map(|evicted| evicted.map(|packet| packet.forwarding())), theirs);
                    }
                }
                let count: usize = naive.queues.iter().map(|queue| queue.2.len()).sum();
                assert_eq!(hold.waiting as usize, count);
                assert_eq!(hold.is_empty(), count + naive.leaving.len() == 0);
                let since = naive.queues.first().map(|queue| queue.1.0);
                assert_eq!(hold.queues.get(hold.oldest as usize).map(|queue| queue.since.0), since);
            }
        }
    }

    #[test]
    fn neighbours_are_asked_for_once_a_second() {
        let mut hold = hold(4, 16);
        let mut asked: HashMap<u32, u32> = HashMap::new();
        for ms in 0..2900u64 {
            let now = Time(ms * 1_000_000);
            let key = key((ms % 2) as u32);
            drop(hold.push(key, packet(1), now).unwrap());
            hold.ask(key, now, |key| {
                *asked.entry(key.interface).or_default() += 1;
                ms > 0 // the first time the ring has no room
            });
        }
        assert_eq!(asked, HashMap::from([(0, 4), (1, 3)]));
        let mut told = 0;
        let mut look_after = |hold: &mut Hold, at| {
            let due = hold.deadline().unwrap();
            assert!(due <= Time(at), "{due:?}");
            hold.look_after(Time(at), |_| {
                told += 1;
                true
            });
        };
        look_after(&mut hold, 2_900_000_000);
        assert_eq!(hold.deadline(), Some(Time(3_000_000_000)));
        look_after(&mut hold, 3_000_000_000);
        assert_eq!((told, hold.deadline()), (0, Some(Time(0))), "some may leave now");
        assert_eq!(std::iter::from_fn(|| hold.pop()).count(), 4);
        assert_eq!(hold.deadline(), Some(Time(3_001_000_000)));
        hold.look_after(Time(3_001_000_000), |_| panic!("nobody waits any more"));
        assert_eq!(std::iter::from_fn(|| hold.pop()).count(), 4);
        assert!(hold.is_empty() && hold.deadline().is_none());
    }

    #[test]
    fn bounds_grow_while_packets_wait() {
        let mut hold = hold(100, 4);
        for number in 0..4 {
            assert!(hold.push(key(number), packet(number), Time(0)).unwrap().is_none());
        }
        hold.bound(&NeighborDiscovery { hold: 1, hold_total: 2000, ..NeighborDiscovery::default() });
        for number in 4..2000 {
            assert!(hold.push(key(number), packet(number), Time(0)).unwrap().is_none());
        }
        assert_eq!(hold.push(key(7), packet(2000), Time(0)).unwrap().unwrap().forwarding(), 7);
        hold.give_up();
        let left: Vec<u32> = std::iter::from_fn(|| hold.pop()).map(|packet| packet.forwarding()).collect();
        assert_eq!(left.len(), 2000);
        assert!(left[..6] == [0, 1, 2, 3, 4, 5] && left[7] == 2000);
        let none = Hold::new(Seed::new([1, 2])).push(key(1), packet(9), Time(0));
        assert_eq!(none.unwrap_err().0.forwarding(), 9);
    }
}
