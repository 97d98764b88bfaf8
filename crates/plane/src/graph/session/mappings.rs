//! Mappings of inside endpoints to outside endpoints that do not depend on destinations (RFC 4787, 4.1).
//!
//! A mapping lasts as long as a translation holds it. An outside endpoint is of one mapping at most. An inside endpoint has
//! one mapping of each number at most.

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
}

/// A mapping, by its outside endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mapping<K> {
    pub(crate) inside: Endpoint<K>,
    pub(crate) number: u32,
    pub(crate) interface: u32,
    /// Translations that hold it.
    uses: u32,
}

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

    /// Holds the mapping between two endpoints, which begins if it is not there. A mapping of another number gets this one.
    /// False, with nothing changed, if one of the endpoints has another mapping, or there is no room.
    pub(super) fn hold(&mut self, like: &Tuple<K>, inside: Endpoint<K>, outside: Endpoint<K>, by: MappedBy) -> bool {
        let at = key(like, outside, 0);
        let known = self.by_outside.find(&at).and_then(|place| self.by_outside.value(place)).copied();
        let is_same = known.is_some_and(|own| own.inside == inside && own.number == by.number);
        if !is_same {
            let is_other = known.is_some_and(|own| own.inside != inside);
            if is_other || self.of_inside(like, inside, by.number).is_some() {
                return false;
            }
            if self.by_inside.insert(key(like, inside, by.number), outside).is_err() {
                return false;
            }
        }
        let Some(known) = known else {
            let new = Mapping { inside, number: by.number, interface: by.interface, uses: 1 };
            let has_room = self.by_outside.insert(at, new).is_ok();
            if !has_room {
                self.by_inside.remove(&key(like, inside, by.number));
            }
            return has_room;
        };
        if known.number != by.number {
            self.by_inside.remove(&key(like, inside, known.number));
        }
        if let Some(own) = self.by_outside.find(&at).and_then(|place| self.by_outside.value_mut(place)) {
            (own.number, own.interface) = (by.number, by.interface);
            own.uses += 1;
        }
        true
    }

    /// A translation holds the mapping of an outside endpoint no longer.
    pub(super) fn release(&mut self, like: &Tuple<K>, outside: Endpoint<K>) {
        let at = key(like, outside, 0);
        let Some(own) = self.by_outside.find(&at).and_then(|place| self.by_outside.value_mut(place)) else { return };
        own.uses -= 1;
        if own.uses == 0 {
            let (inside, number) = (own.inside, own.number);
            self.by_outside.remove(&at);
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
        let by = MappedBy { number: 1, interface: 5 };
        let (inside, outside) = (at(10, 7), at(99, 6000));
        assert!(mappings.hold(&LIKE, inside, outside, by) && mappings.hold(&LIKE, inside, outside, by));
        assert_eq!(mappings.of_inside(&LIKE, inside, 1), Some(outside));
        assert_eq!(mappings.of_outside(&LIKE, outside).map(|own| own.inside), Some(inside));
        assert_eq!(mappings.of_outside(&Tuple { protocol: 6, ..LIKE }, outside), None);
        assert!(!mappings.hold(&LIKE, at(11, 7), outside, by), "the outside endpoint is taken");
        assert!(!mappings.hold(&LIKE, inside, at(99, 6001), by), "the inside endpoint has another");
        mappings.release(&LIKE, outside);
        assert!(!mappings.is_empty());
        mappings.release(&LIKE, outside);
        assert!(mappings.is_empty() && mappings.by_inside.is_empty());
    }

    #[test]
    fn a_mapping_gets_another_number_unless_that_one_has_the_inside_endpoint() {
        let mut mappings = mappings();
        let by = |number| MappedBy { number, interface: number };
        let inside = at(10, 7);
        assert!(mappings.hold(&LIKE, inside, at(99, 6000), by(1)) && mappings.hold(&LIKE, inside, at(98, 6000), by(2)));
        assert!(!mappings.hold(&LIKE, inside, at(99, 6000), by(2)));
        assert!(mappings.hold(&LIKE, inside, at(99, 6000), by(3)));
        assert_eq!((mappings.of_inside(&LIKE, inside, 1), mappings.by_inside.len()), (None, 2));
        let own = mappings.of_outside(&LIKE, at(99, 6000)).copied();
        assert_eq!(own, Some(Mapping { inside, number: 3, interface: 3, uses: 2 }));
    }
}
