//! Single-producer single-consumer ring. It carries packets between two workers, in order.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Separates the cache lines that each end writes.
#[repr(align(128))]
struct Padded<T>(T);

struct Shared<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Slots filled so far (wrapping); written by the producer.
    tail: Padded<AtomicUsize>,
    /// Slots emptied so far (wrapping); written by the consumer.
    head: Padded<AtomicUsize>,
}

// SAFETY: the producer accesses slot i only while it is empty, the consumer only while it is full. The release/acquire
// pairs on `tail` and `head` transfer it. T moves between threads, hence T: Send.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}

/// The producing end of a ring.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    tail: usize,
    /// The consumer's head at the last load: avoids a shared load while there is room.
    head: usize,
}

/// The consuming end of a ring.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: usize,
}

/// Creates a ring for `capacity` values, rounded up to a power of two.
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let slots = (0..capacity.max(2).next_power_of_two()).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let shared = Arc::new(Shared { slots, tail: Padded(AtomicUsize::new(0)), head: Padded(AtomicUsize::new(0)) });
    (Producer { shared: shared.clone(), tail: 0, head: 0 }, Consumer { shared, head: 0 })
}

impl<T: Send> Producer<T> {
    /// Adds a value; returns it if the ring is full. The consumer sees it after [`Producer::flush`].
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        let capacity = self.shared.slots.len();
        if self.tail.wrapping_sub(self.head) == capacity {
            self.head = self.shared.head.0.load(Ordering::Acquire);
            if self.tail.wrapping_sub(self.head) == capacity {
                return Err(value);
            }
        }
        let slot = &self.shared.slots[self.tail & (capacity - 1)];
        // SAFETY: fewer than `capacity` slots lie between head and tail, so this one is empty. The consumer does not
        // access it before `tail` is published.
        unsafe { (*slot.get()).write(value) };
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Returns how many values can be pushed now, at least.
    #[inline]
    pub fn room(&mut self) -> usize {
        self.head = self.shared.head.0.load(Ordering::Acquire);
        self.shared.slots.len() - self.tail.wrapping_sub(self.head)
    }

    /// Returns whether the consumer was dropped. No value will be taken then.
    #[inline]
    pub fn is_abandoned(&self) -> bool {
        // Only the two ends hold the ring.
        Arc::strong_count(&self.shared) == 1
    }

    /// Passes up to `limit` values that a dropped consumer left, oldest first, to `take`. Returns their number; 0 while
    /// the consumer exists.
    pub fn reclaim(&mut self, limit: usize, mut take: impl FnMut(T)) -> usize {
        // `get_mut` synchronises with the drop of the consumer.
        let Some(shared) = Arc::get_mut(&mut self.shared) else { return 0 };
        let mask = shared.slots.len() - 1;
        let head = shared.head.0.get_mut();
        let count = self.tail.wrapping_sub(*head).min(limit);
        for _ in 0..count {
            // SAFETY: slots between head and tail are full, and no other reader exists. Advancing head before `take`
            // prevents a second read if `take` panics.
            let value = unsafe { shared.slots[*head & mask].get_mut().assume_init_read() };
            *head = head.wrapping_add(1);
            take(value);
        }
        self.head = *head;
        count
    }

    /// Makes pushed values visible to the consumer.
    #[inline]
    pub fn flush(&mut self) {
        self.shared.tail.0.store(self.tail, Ordering::Release);
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.tail.0.store(self.tail, Ordering::Release);
    }
}

impl<T: Send> Consumer<T> {
    /// Passes up to `limit` values, oldest first, to `take`. Returns their number.
    #[inline]
    pub fn pop(&mut self, limit: usize, mut take: impl FnMut(T)) -> usize {
        let ready = self.len().min(limit);
        let mask = self.shared.slots.len() - 1;
        for _ in 0..ready {
            let slot = &self.shared.slots[self.head & mask];
            // SAFETY: head < tail as the producer published, so the slot is full. The acquire load in `len` makes its
            // contents visible. Advancing head before `take` prevents a second read if `take` panics.
            let value = unsafe { (*slot.get()).assume_init_read() };
            self.head = self.head.wrapping_add(1);
            take(value);
        }
        if ready > 0 {
            self.shared.head.0.store(self.head, Ordering::Release);
        }
        ready
    }

    /// Returns the number of ready values.
    #[inline]
    pub fn len(&self) -> usize {
        self.shared.tail.0.load(Ordering::Acquire).wrapping_sub(self.head)
    }

    /// Returns whether no value is ready.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // Both ends were dropped and have published their positions.
        let mask = self.slots.len() - 1;
        let (mut head, tail) = (*self.head.0.get_mut(), *self.tail.0.get_mut());
        while head != tail {
            // SAFETY: slots between head and tail are full, and no other reader exists.
            unsafe { self.slots[head & mask].get_mut().assume_init_drop() };
            head = head.wrapping_add(1);
        }
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        // Publishes the head even if `take` panicked during a `pop`: moved values are not dropped again.
        self.shared.head.0.store(self.head, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_arrive_once_and_in_order() {
        let (mut producer, mut consumer) = ring::<u64>(64);
        let sender = std::thread::spawn(move || {
            let mut next = 0;
            while next < 1_000_000 {
                if producer.push(next).is_ok() {
                    next += 1;
                } else {
                    std::thread::yield_now();
                }
                producer.flush();
            }
        });
        let mut expected = 0;
        while expected < 1_000_000 {
            if consumer.pop(32, |value| {
                assert_eq!(value, expected);
                expected += 1;
            }) == 0
            {
                std::thread::yield_now();
            }
        }
        sender.join().unwrap();
        assert!(consumer.is_empty());
    }

    #[test]
    fn a_full_ring_gives_the_value_back_and_drops_what_is_left() {
        let token = Arc::new(());
        let (mut producer, mut consumer) = ring(2);
        assert!(producer.push(token.clone()).is_ok());
        assert!(producer.push(token.clone()).is_ok());
        assert!(producer.push(token.clone()).is_err());
        producer.flush();
        assert_eq!(consumer.pop(1, drop), 1);
        assert_eq!(consumer.len(), 1);
        drop((producer, consumer));
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn what_a_consumer_leaves_behind_can_be_taken_back() {
        let (mut producer, mut consumer) = ring(4);
        (0..4).for_each(|value| producer.push(value).unwrap());
        producer.flush();
        consumer.pop(1, drop);
        assert!(!producer.is_abandoned());
        assert_eq!(producer.reclaim(9, |_| panic!("the consumer is there")), 0);
        drop(consumer);
        assert!(producer.is_abandoned());
        // Values before a flush count, too.
        producer.push(4).unwrap();
        let mut back = Vec::new();
        assert_eq!(producer.reclaim(3, |value| back.push(value)), 3);
        assert_eq!(producer.room(), 3);
        assert_eq!(producer.reclaim(9, |value| back.push(value)), 1);
        assert_eq!((back, producer.room()), (vec![1, 2, 3, 4], 4));
    }
}
