//! The numbers that the compiler gave, so that the next version can give the same.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use crate::root::Kind;

/// The identity of an adjacency: equal keys keep their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Terminal(Kind),
    /// Interface number, and the next hop (or any neighbour on the link).
    NextHop(u32, Option<IpAddr>),
}

/// A multipath set: (adjacency, weight), sorted by interface and address.
pub(super) type Paths = Vec<(u32, u32)>;

/// The numbers given so far.
#[derive(Clone, Default)]
pub(super) struct Numbers {
    pub(super) interfaces: HashMap<String, u32>,
    pub(super) samplers: HashMap<String, u32>,
    /// Ways that sessions of classifier tables give, in words.
    pub(super) ways: HashMap<String, u32>,
    pub(super) sas: HashMap<String, u32>,
    /// Zones, and VRFs that are zones: their names do not equal.
    pub(super) zones: HashMap<String, u32>,
    pub(super) vrfs: Numbered<String>,
    pub(super) adjacencies: Numbered<Key>,
    pub(super) sets: Numbered<Paths>,
}

/// Numbers for keys; a number is free again when nothing used its key in a whole compilation.
#[derive(Clone)]
pub(super) struct Numbered<K> {
    numbers: HashMap<K, u32>,
    used: Vec<bool>,
    free: Vec<u32>,
}

impl<K> Default for Numbered<K> {
    fn default() -> Self {
        Numbered { numbers: HashMap::new(), used: Vec::new(), free: Vec::new() }
    }
}

impl<K: Clone + Eq + Hash> Numbered<K> {
    pub(super) fn begin(&mut self) {
        self.used.fill(false);
    }

    /// The number of a key, and whether it is new.
    pub(super) fn number(&mut self, key: &K) -> (u32, bool) {
        if let Some(&number) = self.numbers.get(key) {
            self.used[number as usize] = true;
            return (number, false);
        }
        let number = self.free.pop().unwrap_or(self.used.len() as u32);
        if number as usize == self.used.len() {
            self.used.push(true);
        }
        self.used[number as usize] = true;
        self.numbers.insert(key.clone(), number);
        (number, true)
    }

    /// The number of a key that has one.
    pub(super) fn known(&self, key: &K) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    /// Every key with its number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, u32)> {
        self.numbers.iter().map(|(key, &number)| (key, number))
    }

    /// Numbers given so far, and which of them this compilation has used.
    pub(super) fn used(&self) -> &[bool] {
        &self.used
    }

    /// Keys that have a number.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Frees the number of a key at once. Forwarding tables are versions, as the root is: a reader of a table with the
    /// number also reads the version of the root in which the number had its meaning.
    pub(super) fn release(&mut self, key: &K) {
        if let Some(number) = self.numbers.remove(key) {
            self.used[number as usize] = false;
            self.free.push(number);
        }
    }

    /// Frees what was not used, for the next compilation: the root of this one knows nothing of it.
    pub(super) fn end(&mut self) {
        let Numbered { numbers, used, free } = self;
        numbers.retain(|_, number| {
            let keep = used[*number as usize];
            if !keep {
                free.push(*number);
            }
            keep
        });
    }
}

/// The number of a name; new names get the next one. Never reused: packets on their way between workers carry it, and
/// samples on their way to who reads them.
pub(super) fn assign(numbers: &mut HashMap<String, u32>, name: &str) -> u32 {
    let next = numbers.len() as u32;
    *numbers.entry(name.to_owned()).or_insert(next)
}
