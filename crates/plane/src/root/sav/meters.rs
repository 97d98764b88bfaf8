//! How many packets pass that are not valid: token buckets that workers share.
//!
//! A bucket is one word that holds a time: the time at which the bucket would be full again (the generic cell rate
//! algorithm, ITU-T I.371, annex A). The unit of time is the unit of the rate, packets or bits: the clock advances by
//! `rate` units a second. So a packet takes a whole number and no rate is rounded. Several workers that use one bucket
//! together take no more than one worker would. The clock wraps around after 2⁶⁴ units. A bucket counts as full if its
//! time is further ahead than a worker could have set it: it was unused for that long.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::clock::Time;

use crate::model::{RateLimit, RateUnit};

/// Rates and bursts beyond this are no limits: it leaves room to add them up.
const MOST: u64 = 1 << 61;

/// Seconds that a worker may be late, between its look at the clock and its question, and still see what others took. It is
/// short beside the time after which the clock runs over: 21 days at 10¹³ bits a second.
const LATE: u64 = 16;

/// Words between buckets that workers should not disturb each other by.
const APART: usize = 8;

/// A rate, and how far a bucket may be ahead of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pace {
    bits: bool,
    rate: u64,
    burst: u64,
    /// How far a time may be ahead of a worker's clock.
    ahead: u64,
}

/// The buckets of a policy. All have the same rate.
#[derive(Debug)]
pub struct Meters {
    limit: RateLimit,
    pace: Pace,
    words: Box<[AtomicU64]>,
    stride: usize,
    /// Apart from what every packet reads.
    refused: Box<AtomicU64>,
}

impl Meters {
    /// Creates full buckets. With `apart`, each has a cache line of its own, for few buckets that all workers use.
    pub fn new(limit: RateLimit, buckets: usize, apart: bool) -> Meters {
        let stride = if apart { APART } else { 1 };
        let (rate, burst) = (limit.rate.clamp(1, MOST), limit.burst.clamp(1, MOST));
        let ahead = burst + rate.saturating_mul(LATE).min(MOST);
        let pace = Pace { bits: limit.unit == RateUnit::Bits, rate, burst, ahead };
        Meters {
            limit,
            pace,
            words: (0..buckets * stride).map(|_| AtomicU64::new(0)).collect(),
            stride,
            refused: Box::default(),
        }
    }

    /// The same buckets, and full ones behind them: so many in all. What is taken meanwhile is not seen.
    pub fn grown(&self, buckets: usize) -> Meters {
        let grown = Meters::new(self.limit, buckets, self.stride > 1);
        for (new, old) in grown.words.iter().zip(&self.words) {
            new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        grown
    }

    /// Returns the limit.
    pub fn limit(&self) -> RateLimit {
        self.limit
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.len() / self.stride
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Counts a packet that was dropped because a bucket was empty.
    #[cold]
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Packets that were counted so since the last [`Meters::clear`].
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts from 0 again. Buckets stay as full as they are.
    pub fn clear(&self) {
        self.refused.store(0, Ordering::Relaxed);
    }

    /// Octets of memory.
    pub fn octets(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// A clock that counts what the rate is of, at a time.
    #[inline]
    pub fn clock(&self, now: Time) -> Clock {
        // No product of two words overflows, and the clock runs over.
        Clock((u128::from(now.0) * u128::from(self.pace.rate) / 1_000_000_000) as u64)
    }

    /// Takes as much as there is in a bucket for packets of these lengths, in octets, one after another: `passes` learns of
    /// each whether there was enough for it. None is where there is no bucket.
    #[inline]
    pub fn take(
        &self,
        bucket: usize,
        Clock(now): Clock,
        lengths: impl Iterator<Item = u64> + Clone,
        mut passes: impl FnMut(usize, bool),
    ) {
        let Some(word) = self.words.get(bucket * self.stride) else {
            return (0..lengths.count()).for_each(|index| passes(index, false));
        };
        let Pace { bits, burst, ahead: most, .. } = self.pace;
        let cost = |length: u64| if bits { length * 8 } else { 1 };
        let mut full_at = word.load(Ordering::Relaxed);
        loop {
            let ahead = full_at.wrapping_sub(now);
            let used = if ahead <= most { ahead } else { 0 };
            let mut left = burst.saturating_sub(used);
            let before = left;
            for cost in lengths.clone().map(cost) {
                left -= if cost <= left { cost } else { 0 };
            }
            if before > left {
                let then = now.wrapping_add(used + (before - left));
                if let Err(found) = word.compare_exchange_weak(full_at, then, Ordering::Relaxed, Ordering::Relaxed) {
                    full_at = found;
                    continue;
                }
            }
            let mut left = before;
            for (index, cost) in lengths.map(cost).enumerate() {
                let enough = cost <= left;
                left -= if enough { cost } else { 0 };
                passes(index, enough);
            }
            return;
        }
    }
}

/// The time in units of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock(u64);

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::model::RatePer;

    const SECOND: u64 = 1_000_000_000;

    fn meters(unit: RateUnit, rate: u64, burst: u64) -> Meters {
        Meters::new(RateLimit { unit, rate, burst, per: RatePer::Interface }, 4, true)
    }

    fn asked(meters: &Meters, now: u64, lengths: &[u64]) -> u64 {
        let mut passed = 0;
        let clock = meters.clock(Time(now));
        meters
            .take(1, clock, lengths.iter().copied(), |index, passes| passed += if passes { lengths[index] } else { 0 });
        passed
    }

    #[test]
    fn ten_seconds_are_exact_whatever_the_rate() {
        for rate in [1, 7, 999, 1000, 123_457, 1_000_003] {
            let burst = (rate / 10).max(1);
            let meters = meters(RateUnit::Packets, rate, burst);
            assert_eq!(asked(&meters, 5, &vec![1; 3 * burst as usize]), burst, "{rate}: the burst and no more");
            // As many as could pass twice over, in a thousand steps that are no round numbers.
            let each = vec![1; (rate / 50) as usize + 2];
            let passed: u64 = (1..=1000).map(|step| asked(&meters, 5 + step * SECOND / 100, &each)).sum();
            assert!(passed.abs_diff(10 * rate) <= 1, "{rate}: {passed}");
        }
    }

    #[test]
    fn bits_are_exact_for_packets_of_any_length() {
        for rate in [64_000u64, 9_999_991, 1_000_000_000] {
            let meters = meters(RateUnit::Bits, rate, rate / 100 + 12_000);
            let lengths: Vec<u64> = (0..200u64).map(|index| 60 + index * 7919 % 1455).collect();
            let mut passed = 0;
            // At the second that the burst is used up, ten seconds begin.
            asked(&meters, 0, &vec![1500; (rate / 100 / 12_000) as usize + 1]);
            let steps = 10_000.max(rate * 10 / 8 / 50_000).min(200_000);
            for step in 1..=steps {
                let now = (u128::from(step) * u128::from(10 * SECOND) / u128::from(steps)) as u64;
                // More than may pass: many vectors where a step is long.
                for _ in 0..=rate * 10 / steps / 8 / 100_000 {
                    passed += asked(&meters, now, &lengths);
                }
            }
            let error = (passed * 8).abs_diff(10 * rate) as f64 / (10 * rate) as f64;
            assert!(error < 0.01 + 12_000.0 / (10.0 * rate as f64), "{rate}: {passed} octets, {error}");
        }
    }

    #[test]
    fn a_packet_longer_than_the_burst_never_passes_and_others_do() {
        let meters = meters(RateUnit::Bits, 8_000, 8_000);
        assert_eq!(asked(&meters, 9 * SECOND, &[1001, 400, 1500, 600, 1]), 1000);
        assert_eq!(asked(&meters, 90 * SECOND, &[1001]), 0);
    }

    #[test]
    fn buckets_are_alone_and_those_that_are_not_there_are_empty() {
        let meters = meters(RateUnit::Packets, 1, 1);
        let clock = meters.clock(Time(0));
        let mut seen = Vec::new();
        for bucket in [0, 3, 3, 4] {
            meters.take(bucket, clock, std::iter::once(60), |_, passes| seen.push(passes));
        }
        assert_eq!(seen, [true, true, false, false]);
        assert_eq!((meters.len(), meters.octets()), (4, 256));
    }

    #[test]
    fn the_clock_may_run_over_and_go_back() {
        // 2⁶⁴ units are 184 s of this rate.
        let rate = 100_000_000_000_000_000;
        let meters = meters(RateUnit::Bits, rate, rate / 10);
        for second in 1..1000 {
            let one = rate / 8;
            let passed = asked(&meters, second * SECOND, &[one / 10, one / 10, one]);
            assert_eq!(passed, one / 10, "second {second}");
            assert_eq!(asked(&meters, second * SECOND - 1000, &[one / 10]), 0, "a worker that is late gets nothing");
        }
    }

    #[test]
    fn grown_ones_go_on() {
        let meters = meters(RateUnit::Packets, 1, 10);
        assert_eq!(asked(&meters, 0, &[1; 7]), 7);
        let grown = meters.grown(9);
        assert_eq!((grown.len(), asked(&grown, 0, &[1; 7])), (9, 3));
    }

    #[test]
    fn threads_together_take_no_more_than_one() {
        let meters = meters(RateUnit::Packets, 1_000_000, 20_000);
        let (passed, step) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let now = step.fetch_add(1, Ordering::Relaxed);
                        if now > 20_000 {
                            break;
                        }
                        // Ten seconds in steps of half a millisecond, 500 packets' worth each.
                        let taken = asked(&meters, now * SECOND / 2000, &[1; 700]);
                        passed.fetch_add(taken, Ordering::Relaxed);
                    }
                });
            }
        });
        // Who looked at the clock and was late with the question got little or nothing, and left that in the bucket.
        let left = asked(&meters, 10 * SECOND, &vec![1; 30_000]);
        assert_eq!(passed.into_inner() + left, 10_000_000 + 20_000, "{left} left");
    }
}
