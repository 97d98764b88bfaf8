//! Sequence numbers of an outbound SA. They are the IVs of ciphers that need unique ones, so none is ever given twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_packet::esp::Window;

/// The numbers of one key: given in ascending order, and none that is not reserved.
#[derive(Debug)]
pub struct Sequence {
    /// The next one.
    next: AtomicU64,
    /// The first one that is not reserved.
    reserved: AtomicU64,
    /// A hard lifetime is over: none is given.
    expired: AtomicBool,
}

/// Sequences by the digest of their key.
pub type Sequences = Vec<([u8; 16], Arc<Sequence>)>;

/// Windows by the identity of their inbound SA.
pub type Windows = Vec<([u8; 16], Arc<Window>)>;

/// Numbers that outlive a gateway: those of packets that its SAs have sent and received.
#[derive(Debug, Default, Clone)]
pub struct Numbers {
    /// Of outbound SAs.
    pub sequences: Sequences,
    /// Of inbound SAs.
    pub windows: Windows,
}

/// Numbers that were given: `count` from `first` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The first.
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl Sequence {
    /// A sequence from 1 on of which no number is reserved.
    #[must_use]
    pub fn closed() -> Sequence {
        Sequence { next: AtomicU64::new(1), reserved: AtomicU64::new(1), expired: AtomicBool::new(false) }
    }

    /// A sequence from 1 on of which all numbers are reserved: for replays, which send nothing.
    #[must_use]
    pub fn open() -> Sequence {
        Sequence { reserved: AtomicU64::new(u64::MAX), ..Sequence::closed() }
    }

    /// Gives up to `count` numbers of at most `last`. Any number of threads may take some.
    #[inline]
    pub fn take(&self, count: u64, last: u64) -> Taken {
        self.take_within(count, last, |_| u64::MAX)
    }

    /// As [`Sequence::take`], of numbers before an end that `end` gives for the next number.
    #[inline]
    pub(super) fn take_within(&self, count: u64, last: u64, end: impl Fn(u64) -> u64) -> Taken {
        // Acquire and release: who takes a number sees what those have written before who took lesser ones.
        let mut first = self.next.load(Ordering::Acquire);
        loop {
            // Acquire: numbers that are reserved are so on disk, which happened before.
            let end = self.reserved.load(Ordering::Acquire).min(last.saturating_add(1)).min(end(first));
            let count = count.min(end.saturating_sub(first));
            if count == 0 || self.is_expired() {
                return Taken { first, count: 0 };
            }
            match self.next.compare_exchange_weak(first, first + count, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Taken { first, count },
                Err(other) => first = other,
            }
        }
    }

    /// A hard lifetime of the SA is over.
    #[inline(always)]
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }

    /// Gives no numbers any more, or gives numbers again.
    pub fn set_expired(&self, is_expired: bool) {
        self.expired.store(is_expired, Ordering::Relaxed);
    }

    /// The number that is given next.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// The first number that is not reserved.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Begins with a number, if none was given yet: for the thread that reserves, before the first reservation.
    pub fn begin(&self, first: u64) {
        self.next.fetch_max(first, Ordering::Relaxed);
    }

    /// Lets the numbers before `end` be given. They have to be on disk.
    pub fn reserve(&self, end: u64) {
        self.reserved.fetch_max(end, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_end_where_they_are_reserved_and_at_the_last() {
        let sequence = Sequence::closed();
        assert_eq!(sequence.take(5, u64::MAX).count, 0);
        sequence.begin(100);
        sequence.reserve(103);
        assert_eq!(sequence.take(2, u64::MAX), Taken { first: 100, count: 2 });
        assert_eq!(sequence.take(2, u64::MAX), Taken { first: 102, count: 1 });
        assert_eq!(sequence.take(2, u64::MAX), Taken { first: 103, count: 0 });
        sequence.reserve(101);
        assert_eq!(sequence.reserved(), 103, "no reservation is taken back");
        let open = Sequence::open();
        open.begin(u64::from(u32::MAX) - 1);
        assert_eq!(open.take(9, u32::MAX.into()), Taken { first: u64::from(u32::MAX) - 1, count: 2 });
        assert_eq!(open.take(9, u32::MAX.into()).count, 0, "without extended numbers, 2^32 - 1 is the last");
        open.begin(u64::MAX - 3);
        assert_eq!(open.take(9, u64::MAX).count, 3);
        assert_eq!(open.take(9, u64::MAX).count, 0, "they never wrap");
    }

    #[test]
    fn threads_get_different_numbers() {
        let sequence = Sequence::open();
        let taken: Vec<Taken> = std::thread::scope(|scope| {
            let take = || (0..1000).map(|count| sequence.take(count % 7 + 1, u64::MAX)).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let mut seen = HashSet::new();
        for Taken { first, count } in taken {
            assert!((first..first + count).all(|number| seen.insert(number)));
        }
        assert_eq!(seen.len() as u64, sequence.next() - 1);
    }
}
