//! A table of values for datagrams that are under way, each with a time-out.

use weir_base::clock::Time;

use super::Key;
use crate::parse::{self, Seed};

/// No slot.
const NONE: u32 = u32::MAX;

/// A bounded table of values by [`Key`]. All memory is taken when it is made. Each value stays for the same time, so the
/// oldest is always the first whose time is over; when the table is full, it also is the one that makes room.
///
/// Slots are found through chains that start at a keyed hash, of which there are twice as many as slots. Slots in use
/// are linked by age, free slots in a list.
#[derive(Debug)]
pub struct Table<T> {
    seed: Seed,
    /// Nanoseconds for which a value stays.
    lifetime: u64,
    slots: Vec<Slot<T>>,
    /// The first slot of each chain.
    chains: Vec<u32>,
    free: u32,
    oldest: u32,
    newest: u32,
    len: usize,
}

#[derive(Debug)]
struct Slot<T> {
    /// `None` when it is free.
    content: Option<(Key, T)>,
    since: Time,
    /// The next slot of the chain, or the next free one.
    next: u32,
    older: u32,
    newer: u32,
}

/// A value that had to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evicted<T> {
    /// The key of the datagram.
    pub key: Key,
    /// The value.
    pub value: T,
}

impl<T> Table<T> {
    /// A table for so many values, each of which stays for `lifetime` nanoseconds. Equal random bits give equal hashes.
    pub fn new(capacity: usize, lifetime: u64, random: [u64; 2]) -> Table<T> {
        let count = u32::try_from(capacity).unwrap_or(NONE - 1);
        let slots = (0..count).map(|number| Slot {
            content: None,
            since: Time(0),
            next: if number + 1 == count { NONE } else { number + 1 },
            older: NONE,
            newer: NONE,
        });
        Table {
            seed: Seed::new(random),
            lifetime,
            slots: slots.collect(),
            chains: vec![NONE; (2 * capacity).max(1)],
            free: if count == 0 { NONE } else { 0 },
            oldest: NONE,
            newest: NONE,
            len: 0,
        }
    }

    /// Values in the table.
    pub fn len(&self) -> usize {
        self.len
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many there can be.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Returns the value of a datagram, whether its time is over or not.
    pub fn find(&mut self, key: &Key) -> Option<&mut T> {
        let number = self.number(key)?;
        self.slots[number as usize].content.as_mut().map(|(_, value)| value)
    }

    /// Keeps a value for a datagram that has none yet, from `now` on. Returns what had to go for it: the oldest when the
    /// table is full, or the value itself when there is no room for any.
    pub fn insert(&mut self, key: Key, value: T, now: Time) -> Option<Evicted<T>> {
        if self.slots.is_empty() {
            return Some(Evicted { key, value });
        }
        let evicted = if self.free == NONE { self.take(self.oldest) } else { None };
        let chain = self.chain(&key);
        let number = self.free;
        let slot = &mut self.slots[number as usize];
        self.free = slot.next;
        *slot =
            Slot { content: Some((key, value)), since: now, next: self.chains[chain], older: self.newest, newer: NONE };
        self.chains[chain] = number;
        match self.slots.get_mut(self.newest as usize) {
            Some(newest) => newest.newer = number,
            None => self.oldest = number,
        }
        self.newest = number;
        self.len += 1;
        evicted
    }

    /// Takes out what is kept for a datagram.
    pub fn remove(&mut self, key: &Key) -> Option<T> {
        let number = self.number(key)?;
        self.take(number).map(|evicted| evicted.value)
    }

    /// Takes out the oldest value if its time is over.
    pub fn expire(&mut self, now: Time) -> Option<Evicted<T>> {
        if now < self.deadline()? {
            return None;
        }
        self.take(self.oldest)
    }

    /// When the time of the oldest value is over; `None` when there is none.
    pub fn deadline(&self) -> Option<Time> {
        let oldest = self.slots.get(self.oldest as usize)?;
        Some(Time(oldest.since.0.saturating_add(self.lifetime)))
    }

    /// Takes out the oldest value, whether its time is over or not.
    pub fn pop(&mut self) -> Option<Evicted<T>> {
        self.take(self.oldest)
    }

    fn chain(&self, key: &Key) -> usize {
        let [a, b, c, d] = key.identification.to_be_bytes();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let hash = parse::symmetric_hash_v6(&self.seed, key.protocol, (key.source, high), (key.destination, low));
        // The upper bits of the product: no division, and no power of two needed.
        ((u64::from(hash) * self.chains.len() as u64) >> 32) as usize
    }

    fn number(&self, key: &Key) -> Option<u32> {
        let mut number = self.chains[self.chain(key)];
        while let Some(slot) = self.slots.get(number as usize) {
            if slot.content.as_ref().is_some_and(|(other, _)| other == key) {
                return Some(number);
            }
            number = slot.next;
        }
        None
    }

    /// Empties a slot.
    fn take(&mut self, number: u32) -> Option<Evicted<T>> {
        let slot = self.slots.get_mut(number as usize)?;
        let (key, value) = slot.content.take()?;
        let (next, older, newer) = (slot.next, slot.older, slot.newer);
        slot.next = self.free;
        self.free = number;
        match self.slots.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        let chain = self.chain(&key);
        let mut before = self.chains[chain];
        if before == number {
            self.chains[chain] = next;
        } else {
            while self.slots[before as usize].next != number {
                before = self.slots[before as usize].next;
            }
            self.slots[before as usize].next = next;
        }
        self.len -= 1;
        Some(Evicted { key, value })
    }
}
