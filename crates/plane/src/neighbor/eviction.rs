//! Which neighbour makes room for another.
//!
//! Each is in one of four classes, from the one that is worth least. Within a class, the interface that has most of it
//! gives, and there the one that has been in the class for longest: a flood on one link displaces itself.
//!
//! A neighbour known only from its own packets is evicted before a neighbour that is being resolved. Otherwise a full
//! table of such neighbours would leave room for one resolution at a time.

use std::collections::{BTreeSet, HashMap};

/// The eviction class of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Class {
    /// It spoke to us, but never answered us.
    Unconfirmed,
    /// A solicitation was sent and not answered yet: the hardware address is unknown, or known only from the
    /// neighbour's own packets.
    Incomplete,
    /// It answered once, and is not in use.
    Idle,
    /// It answered us, and is in use or answered just now.
    Busy,
}

impl Class {
    /// All of them, from the one that is worth least.
    pub(super) const ALL: [Class; 4] = [Class::Unconfirmed, Class::Incomplete, Class::Idle, Class::Busy];
}

/// Where a neighbour stands in its class: to be given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) class: Class,
    interface: u32,
    number: u64,
}

#[derive(Debug, Default)]
struct Queues {
    /// By interface: (number, neighbour).
    members: HashMap<u32, BTreeSet<(u64, u32)>>,
    /// (Members, interface).
    sizes: BTreeSet<(usize, u32)>,
    total: usize,
}

/// Everyone's place. All operations take logarithmic time.
#[derive(Debug, Default)]
pub(super) struct Order {
    classes: [Queues; 4],
    next: u64,
}

impl Order {
    /// Puts a neighbour at the end of its class.
    pub(super) fn join(&mut self, class: Class, interface: u32, neighbor: u32) -> Place {
        let number = self.next;
        self.next += 1;
        let queues = &mut self.classes[class as usize];
        let members = queues.members.entry(interface).or_default();
        queues.sizes.remove(&(members.len(), interface));
        members.insert((number, neighbor));
        queues.sizes.insert((members.len(), interface));
        queues.total += 1;
        Place { class, interface, number }
    }

    /// Takes it out.
    pub(super) fn leave(&mut self, place: Place, neighbor: u32) {
        let queues = &mut self.classes[place.class as usize];
        let Some(members) = queues.members.get_mut(&place.interface) else { return };
        let before = members.len();
        if !members.remove(&(place.number, neighbor)) {
            return;
        }
        queues.total -= 1;
        queues.sizes.remove(&(before, place.interface));
        if members.is_empty() {
            queues.members.remove(&place.interface);
        } else {
            queues.sizes.insert((members.len(), place.interface));
        }
    }

    /// Returns the neighbour of a class that is evicted first.
    pub(super) fn first(&self, class: Class) -> Option<u32> {
        let queues = &self.classes[class as usize];
        let (_, interface) = queues.sizes.last()?;
        queues.members.get(interface)?.first().map(|(_, neighbor)| *neighbor)
    }

    /// How many are in a class.
    pub(super) fn count(&self, class: Class) -> usize {
        self.classes[class as usize].total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_fullest_interface_goes_first() {
        let mut order = Order::default();
        let places: Vec<Place> = [(1, 10), (2, 20), (2, 21), (2, 22), (1, 11)]
            .map(|(interface, neighbor)| order.join(Class::Idle, interface, neighbor))
            .into();
        assert_eq!((order.first(Class::Idle), order.count(Class::Idle)), (Some(20), 5));
        order.leave(places[1], 20);
        order.leave(places[1], 20);
        order.leave(places[2], 21);
        assert_eq!((order.first(Class::Idle), order.count(Class::Idle)), (Some(10), 3));
        order.leave(places[0], 10);
        order.leave(places[4], 11);
        assert_eq!(order.first(Class::Idle), Some(22));
        order.leave(places[3], 22);
        assert_eq!((order.first(Class::Idle), order.count(Class::Idle)), (None, 0));
        assert_eq!(order.first(Class::Incomplete), None);
    }
}
