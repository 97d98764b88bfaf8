//! Mappings of inside endpoints to outside endpoints that do not depend on destinations (RFC 4787, 4.1).
//!
//! A mapping lasts as long as a translation holds it. An outside endpoint is of one mapping at most. An inside endpoint has
//! one mapping of each number at most. A mapping that has lost its number to another one is of use to the translations that hold
//! it, and to no others.

use weir_table::flow::{Secret, Table};

use super::tuple::Tuple;
use crate::root::family::Family;

/// An address, and a port or identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Endpoint<K> {
    pub(crate) address: K,
    pub(crate) word: u16,
}

impl<K: Family> Endpoint<K> {
    /// The source of a tuple's packets.
    pub(crate) fn source(tuple: &Tuple<K>) -> Endpoint<K> {
        Endpoint { address: tuple.source, word: tuple.words[0] }
    }

    /// The destination of a tuple's packets.
    pub(crate) fn destination(tuple: &Tuple<K>) -> Endpoint<K> {
        Endpoint { address: tuple.destination, word: tuple.words[1] }
    }
}

/// The mappings that a translation holds belong to one, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MappedBy {
    /// The number of the mappings.
    pub(crate) number: u32,
    /// The outside interface.
    pub(crate) interface: u32,
    /// The version of the rules.
    pub(crate) version: u64,
}

/// A mapping, by its outside endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mapping<K> {
    pub(crate) inside: Endpoint<K>,
    /// [`NO_NUMBER`] if another one has got it.
    pub(crate) number: u32,
    pub(crate) interface: u32,
    /// Translations that hold it.
    uses: u32,
    /// The last version of the rules that gave it.
    version: u64,
}

/// The number of no rule's mappings.
const NO_NUMBER: u32 = 0;

/// The mappings of a family.
pub(super) struct Mappings<K: Family> {
    by_outside: Table<K::FlowKey, Mapping<K>>,
    by_inside: Table<K::FlowKey, Endpoint<K>>,
}

impl<K: Family> Mappings<K> {
    pub(super) fn new(secret: Secret) -> Mappings<K> {
        Mappings { by_outside: Table::new(0, secret), by_inside: Table::new(0, secret) }
    }

    pub(super) fn set_most(&mut self, entries: usize) {
        self.by_outside.set_most(entries);
        self.by_inside.set_most(entries);
    }

    /// Allocates memory for so many more, in part; gives whether all of it is there.
    pub(super) fn prepare(&mut self, more: usize) -> bool {
        self.by_outside.prepare(more) & self.by_inside.prepare(more)
    }

    pub(super) fn octets(&self) -> usize {
        self.by_outside.octets() + self.by_inside.octets()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_outside.is_empty()
    }

    /// The mapping of an outside endpoint, for packets like those of a tuple.
    pub(super) fn of_outside(&self, like: &Tuple<K>, outside: Endpoint<K>) -> Option<&Mapping<K>> {
        self.by_outside.value(self.by_outside.find(&key(like, outside, 0))?)
    }

    /// The outside endpoint of an inside endpoint.
    pub(super) fn of_inside(&self, like: &Tuple<K>, inside: Endpoint<K>, number: u32) -> Option<Endpoint<K>> {
        self.by_inside.value(self.by_inside.find(&key(like, inside, number))?).copied()
    }

    /// Holds the mapping between two endpoints, which begins if it is not there. A mapping of another number gets this one, unless
    /// the rules in force have given the inside endpoint another mapping of this number: then it keeps the number that it has, or
    /// begins without one. A mapping that older rules gave loses the number: its translations are still to be matched, and may
    /// end. False, with nothing changed, if the outside endpoint is of another inside endpoint, or there is no room.
    pub(super) fn hold(&mut self, like: &Tuple<K>, inside: Endpoint<K>, outside: Endpoint<K>, by: MappedBy) -> bool {
        let known = self.of_outside(like, outside).copied();
        if known.is_some_and(|own| own.inside != inside) {
            return false;
        }
        let is_same = known.is_some_and(|own| own.number == by.number);
        let other = if is_same { None } else { self.of_inside(like, inside, by.number) };
        let is_in_force =
            |other: &Endpoint<K>| self.of_outside(like, *other).is_some_and(|own| own.version == by.version);
        let gets_number = !is_same && !other.as_ref().is_some_and(is_in_force);
        let new = Mapping { inside, number: by.number, interface: by.interface, uses: 0, version: by.version };
        if known.is_none() && self.by_outside.insert(key(like, outside, 0), new).is_err() {
            return false;
        }
        if gets_number && !self.give_number(like, inside, outside, by.number) {
            if known.is_none() {
                self.by_outside.remove(&key(like, outside, 0));
            }
            return false;
        }
        if gets_number {
            if let Some(own) = other.and_then(|other| self.of_outside_mut(like, other)) {
                own.number = NO_NUMBER;
            }
            if let Some(known) = known {
                self.by_inside.remove(&key(like, inside, known.number));
            }
        }
        if let Some(own) = self.of_outside_mut(like, outside) {
            let given =
                if is_same || gets_number { new } else { known.unwrap_or(Mapping { number: NO_NUMBER, ..new }) };
            *own = Mapping { uses: own.uses + 1, ..given };
        }
        true
    }

    fn of_outside_mut(&mut self, like: &Tuple<K>, outside: Endpoint<K>) -> Option<&mut Mapping<K>> {
        self.by_outside.value_mut(self.by_outside.find(&key(like, outside, 0))?)
    }

    /// Gives an inside endpoint this outside endpoint by mappings of a number. False if there is no room.
    fn give_number(&mut self, like: &Tuple<K>, inside: Endpoint<K>, outside: Endpoint<K>, number: u32) -> bool {
        let at = key(like, inside, number);
        match self.by_inside.find(&at).and_then(|place| self.by_inside.value_mut(place)) {
            Some(own) => *own = outside,
            None => return self.by_inside.insert(at, outside).is_ok(),
        }
        true
    }

    /// A translation holds the mapping of an outside endpoint no longer.
    pub(super) fn release(&mut self, like: &Tuple<K>, outside: Endpoint<K>) {
        let Some(own) = self.of_outside_mut(like, outside) else { return };
        own.uses -= 1;
        if own.uses == 0 {
            let (inside, number) = (own.inside, own.number);
            self.by_outside.remove(&key(like, outside, 0));
            self.by_inside.remove(&key(like, inside, number));
        }
    }
}

/// The key of an endpoint, with the protocol and zone of a tuple.
fn key<K: Family>(like: &Tuple<K>, endpoint: Endpoint<K>, number: u32) -> K::FlowKey {
    let kind = u64::from(like.zone) << 16 | u64::from(like.protocol) << 8 | u64::from(like.query & !1);
    K::flow_key(endpoint.address, K::from(number), u64::from(endpoint.word) << 48 | kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIKE: Tuple<u32> = Tuple { source: 0, destination: 0, words: [0; 2], protocol: 17, query: 0, zone: 3 };

    fn at(address: u32, word: u16) -> Endpoint<u32> {
        Endpoint { address, word }
    }

    fn mappings() -> Mappings<u32> {
        let mut mappings = Mappings::new(Secret::new([1, 2, 3, 4]));
        mappings.set_most(100);
        while !mappings.prepare(10) {}
        mappings
    }

    #[test]
    fn endpoints_have_one_mapping_that_lasts_as_long_as_it_is_held() {
        let mut mappings = mappings();
        let by = MappedBy { number: 1, interface: 5, version: 7 };
        let (inside, outside) = (at(10, 7), at(99, 6000));
        assert!(mappings.hold(&LIKE, inside, outside, by) && mappings.hold(&LIKE, inside, outside, by));
        assert_eq!(mappings.of_inside(&LIKE, inside, 1), Some(outside));
        assert_eq!(mappings.of_outside(&LIKE, outside).map(|own| own.inside), Some(inside));
        assert_eq!(mappings.of_outside(&Tuple { protocol: 6, ..LIKE }, outside), None);
        assert!(!mappings.hold(&LIKE, at(11, 7), outside, by), "the outside endpoint is taken");
        mappings.release(&LIKE, outside);
        assert!(!mappings.is_empty());
        mappings.release(&LIKE, outside);
        assert!(mappings.is_empty() && mappings.by_inside.is_empty());
    }

    #[test]
    fn a_mapping_gets_another_number_unless_that_one_has_the_inside_endpoint() {
        let mut mappings = mappings();
        let by = |number| MappedBy { number, interface: number, version: 7 };
        let (inside, one, other) = (at(10, 7), at(99, 6000), at(98, 6000));
        assert!(mappings.hold(&LIKE, inside, one, by(1)) && mappings.hold(&LIKE, inside, other, by(2)));
        assert!(mappings.hold(&LIKE, inside, one, by(2)), "its translations go on");
        assert_eq!(mappings.of_outside(&LIKE, one).map(|own| (own.number, own.uses)), Some((1, 2)));
        assert_eq!(mappings.of_inside(&LIKE, inside, 2), Some(other));
        assert!(mappings.hold(&LIKE, inside, at(97, 6000), by(2)), "one may begin without a number");
        assert_eq!(mappings.of_outside(&LIKE, at(97, 6000)).map(|own| (own.number, own.uses)), Some((NO_NUMBER, 1)));
        assert_eq!(mappings.of_inside(&LIKE, inside, 2), Some(other));
        mappings.release(&LIKE, at(97, 6000));
        assert!(mappings.hold(&LIKE, inside, one, by(3)));
        assert_eq!((mappings.of_inside(&LIKE, inside, 1), mappings.by_inside.len()), (None, 2));
        let own = mappings.of_outside(&LIKE, one).copied();
        assert_eq!(own, Some(Mapping { inside, number: 3, interface: 3, uses: 3, version: 7 }));
    }

    #[test]
    fn a_mapping_that_is_not_matched_again_loses_its_number_to_one_that_is() {
        let mut mappings = mappings();
        let by = |number, version| MappedBy { number, interface: 5, version };
        let (inside, one, other) = (at(10, 7), at(99, 6000), at(98, 6000));
        assert!(mappings.hold(&LIKE, inside, one, by(1, 7)) && mappings.hold(&LIKE, inside, other, by(2, 7)));
        assert!(mappings.hold(&LIKE, inside, one, by(2, 8)));
        assert_eq!(mappings.of_inside(&LIKE, inside, 2), Some(one));
        assert_eq!(mappings.of_inside(&LIKE, inside, 1), None);
        assert!(!mappings.hold(&LIKE, at(11, 7), other, by(2, 8)), "the translations of the other keep its endpoint");
        mappings.release(&LIKE, other);
        assert_eq!((mappings.of_outside(&LIKE, other), mappings.of_inside(&LIKE, inside, 2)), (None, Some(one)));
        mappings.release(&LIKE, one);
        mappings.release(&LIKE, one);
        assert!(mappings.is_empty() && mappings.by_inside.is_empty());
    }
}
