//! Sequence numbers of an outbound SA that several workers share.
//!
//! A worker takes numbers for a batch of packets, seals these, and sends them. Meanwhile other workers may take greater numbers and
//! send them before. The peer's window bears that only so far. So each worker shows the least number that it has taken and not
//! sent, and takes no number that is a quarter of the window or more above the least number of another one. Nobody waits: a
//! worker that gets no number puts its packets aside for its next round.
//!
//! Why it holds: of two numbers `low < high`, the second was taken by a compare-and-exchange from a value of the sequence behind
//! `low`, so the exchange that took `low` was seen, and the least number of its worker, shown before that, too. Either `low` was sent
//! by then, or `high` is less than a quarter of the window above it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Sequence, Taken};

/// A worker has taken no number that it has not sent.
const NOTHING: u64 = u64::MAX;

/// The state that workers show one another.
#[derive(Debug)]
pub struct Sharing {
    /// Numbers by which packets may be reordered.
    span: u64,
    workers: Box<[Least]>,
}

/// The least number that a worker has taken and not sent.
#[derive(Debug)]
#[repr(align(64))]
struct Least(AtomicU64);

impl Sharing {
    /// Returns the state of so many workers, for a peer with a window of so many numbers; 0: it has none.
    #[must_use]
    pub fn new(workers: usize, window: u32) -> Sharing {
        let span = if window == 0 { NOTHING } else { u64::from(window / 4).max(1) };
        Sharing { span, workers: (0..workers).map(|_| Least(AtomicU64::new(NOTHING))).collect() }
    }

    /// Is of so many workers, for a peer with a window of so many numbers.
    #[must_use]
    pub fn is_for(&self, workers: usize, window: u32) -> bool {
        self.workers.len() == workers && self.span == Sharing::new(0, window).span
    }

    /// Gives a worker up to `count` numbers of at most `last`, as far as reordering is bounded. `is_gone`: a worker has failed, and
    /// will send nothing.
    pub fn take(
        &self,
        (sequence, last): (&Sequence, u64),
        worker: usize,
        count: u64,
        is_gone: impl Fn(usize) -> bool,
    ) -> Taken {
        let own = &self.workers[worker].0;
        let has_some = own.load(Ordering::Relaxed) != NOTHING;
        let taken = sequence.take_within(count, last, |first| {
            if !has_some {
                // The exchange that takes the number makes it visible.
                own.store(first, Ordering::Relaxed);
            }
            let others = self.workers.iter().enumerate().filter(|&(number, _)| number != worker && !is_gone(number));
            // Acquire: a number that is sent has left for its port, which happened before.
            let least = others.map(|(_, least)| least.0.load(Ordering::Acquire)).min().unwrap_or(NOTHING);
            least.saturating_add(self.span)
        });
        if taken.count == 0 && !has_some {
            own.store(NOTHING, Ordering::Release);
        }
        taken
    }

    /// A worker has sent all numbers that it has taken.
    pub fn sent(&self, worker: usize) {
        self.workers[worker].0.store(NOTHING, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_worker_gets_no_number_far_above_one_that_another_has_not_sent() {
        let (sharing, sequence) = (Sharing::new(3, 32), Sequence::open());
        let take = |worker, count| sharing.take((&sequence, u64::MAX), worker, count, |_| false);
        assert_eq!(take(0, 4), Taken { first: 1, count: 4 });
        assert_eq!(take(1, 30), Taken { first: 5, count: 4 }, "up to 8 from 1 on");
        assert_eq!(take(2, 1).count, 0);
        assert_eq!(take(0, 20), Taken { first: 9, count: 4 }, "its own numbers bound it not, but those of worker 1 do");
        sharing.sent(0);
        assert_eq!(take(2, 9).count, 0, "worker 1 has 5");
        sharing.sent(1);
        assert_eq!(take(2, 100), Taken { first: 13, count: 100 });
        assert_eq!(take(1, 100).count, 0);
        let alone = sharing.take((&sequence, u64::MAX), 1, 100, |number| number == 2);
        assert_eq!(alone, Taken { first: 113, count: 100 }, "a worker that has failed sends nothing");
        assert!(sharing.is_for(3, 32) && !sharing.is_for(3, 64) && !sharing.is_for(2, 32));
    }

    #[test]
    fn threads_reorder_less_than_a_quarter_of_the_window() {
        const WINDOW: u32 = 32;
        let (sharing, sequence, sent) = (Sharing::new(4, WINDOW), Sequence::open(), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (sharing, sequence, sent) = (&sharing, &sequence, &sent);
                scope.spawn(move || {
                    let mut left = 5000;
                    while left > 0 {
                        let count = (1 + left % 7).min(left);
                        let taken = sharing.take((sequence, u64::MAX), worker, count, |_| false);
                        if left % 3 == 0 {
                            std::thread::yield_now();
                        }
                        sent.lock().unwrap().extend(taken.first..taken.first + taken.count);
                        sharing.sent(worker);
                        left -= taken.count;
                    }
                });
            }
        });
        let sent = sent.into_inner().unwrap();
        assert_eq!(sent.len(), 20_000);
        let mut greatest = 0;
        for number in sent {
            greatest = greatest.max(number);
            assert!(greatest - number < u64::from(WINDOW) / 4, "{number} behind {greatest}");
        }
    }
}
