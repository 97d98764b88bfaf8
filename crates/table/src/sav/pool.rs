//! Shared values: equal values are stored once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::lpm::Folding;

/// Values by number, each with the count of its users.
pub(super) struct Pool<T> {
    numbers: HashMap<Arc<T>, u32, Folding>,
    things: Vec<Option<(Arc<T>, u32)>>,
    free: Vec<u32>,
}

impl<T: Eq + Hash> Pool<T> {
    pub(super) fn new() -> Pool<T> {
        Pool { numbers: HashMap::with_hasher(Folding::random()), things: Vec::new(), free: Vec::new() }
    }

    /// Returns the number of a value, with one more user.
    pub(super) fn take(&mut self, thing: T) -> u32 {
        self.find(&thing).unwrap_or_else(|| self.add(thing))
    }

    /// Returns the number of an existing value, with one more user.
    pub(super) fn find(&mut self, thing: &T) -> Option<u32> {
        let number = *self.numbers.get(thing)?;
        self.share(number);
        Some(number)
    }

    /// Adds a new value and returns its number.
    pub(super) fn add(&mut self, thing: T) -> u32 {
        let thing = Arc::new(thing);
        let slot = Some((Arc::clone(&thing), 1));
        let number = match self.free.pop() {
            Some(number) => {
                self.things[number as usize] = slot;
                number
            }
            None => {
                self.things.push(slot);
                (self.things.len() - 1) as u32
            }
        };
        self.numbers.insert(thing, number);
        number
    }

    /// Returns the value of a number.
    ///
    /// # Panics
    /// If the number has no value.
    pub(super) fn thing(&self, number: u32) -> &T {
        &self.things[number as usize].as_ref().expect("a number is of a thing with users").0
    }

    /// Adds a user of a value.
    pub(super) fn share(&mut self, number: u32) {
        self.things[number as usize].as_mut().expect("a number is of a thing with users").1 += 1;
    }

    /// Removes a user of a value. Returns the value after the last user.
    pub(super) fn give(&mut self, number: u32) -> Option<Arc<T>> {
        let slot = &mut self.things[number as usize];
        let (thing, users) = slot.as_mut().expect("a number is of a thing with users");
        *users -= 1;
        if *users > 0 {
            return None;
        }
        self.numbers.remove(thing);
        self.free.push(number);
        slot.take().map(|(thing, _)| thing)
    }

    /// Returns the approximate octets of memory. `beyond` returns the octets that a value refers to.
    pub(super) fn octets(&self, beyond: impl Fn(&T) -> usize) -> usize {
        let counts = 2 * size_of::<usize>();
        let things = self.things.iter().flatten().map(|(thing, _)| size_of::<T>() + counts + beyond(thing));
        self.numbers.capacity() * 8 / 7 * (size_of::<(Arc<T>, u32)>() + 1)
            + self.things.capacity() * size_of::<Option<(Arc<T>, u32)>>()
            + self.free.capacity() * 4
            + things.sum::<usize>()
    }
}
