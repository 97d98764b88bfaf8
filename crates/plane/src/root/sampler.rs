//! Samplers, as the root has them: how much each takes, and what it counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::clock::Time;
use weir_base::random::Random;

use crate::model;
use crate::root::counters::Counter;
use crate::stats::SamplerStats;

/// Octets of a packet that a sample has at most.
pub const SNAP: usize = 256;

const SECOND: u64 = 1_000_000_000;

/// The choice of a packet, and its sampler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Number of the sampler.
    pub sampler: u32,
    /// Of how many packets one is taken.
    pub one_in: u32,
    /// It is taken if 64 random bits are no more than this: of 2⁶⁴ values, 2⁶⁴ / `one_in`.
    threshold: u64,
}

impl Choice {
    /// One packet of `one_in` for the sampler of a number; all of them for 0 and 1.
    pub fn new(sampler: u32, one_in: u32) -> Choice {
        let one_in = one_in.max(1);
        Choice { sampler, one_in, threshold: u64::MAX / u64::from(one_in) }
    }

    #[inline(always)]
    pub(crate) fn is_taken(&self, random: &mut Random) -> bool {
        random.next() <= self.threshold
    }
}

/// A sampler. Numbers are kept, and with them what is counted, from version to version of the root; one that goes away
/// leaves a hole.
#[derive(Debug, Clone)]
pub struct Sampler {
    /// It exists in this version.
    pub present: bool,
    /// Its name.
    pub name: Arc<str>,
    /// Octets of each packet that are kept at most.
    pub snap: u16,
    limit: Limit,
    /// By worker.
    counters: Arc<[SamplerCounters]>,
}

impl Sampler {
    /// The sampler of a model, which goes on with what was counted under its name `before`.
    pub(crate) fn new(model: &model::Sampler, workers: usize, before: Option<&Sampler>) -> Sampler {
        let state = before.map_or_else(Arc::default, |before| Arc::clone(&before.limit.state));
        let counters = || (0..workers).map(|_| SamplerCounters::default()).collect();
        Sampler {
            present: true,
            name: before.map_or_else(|| model.name.as_str().into(), |before| Arc::clone(&before.name)),
            snap: model.snap_length.min(SNAP as u16),
            limit: Limit::new(model.rate, state),
            counters: before.map_or_else(counters, |before| Arc::clone(&before.counters)),
        }
    }

    /// The same, which no policy can name any more.
    pub(crate) fn gone(&self) -> Sampler {
        Sampler { present: false, ..self.clone() }
    }

    /// There is still room in this second.
    #[inline]
    pub(crate) fn admits(&self, now: Time) -> bool {
        self.limit.admit(now)
    }

    pub(crate) fn counters(&self, worker: usize) -> Option<&SamplerCounters> {
        self.counters.get(worker)
    }

    /// Returns the sum of the counters over all workers.
    pub fn stats(&self) -> SamplerStats {
        let sum = |of: fn(&SamplerCounters) -> &Counter| self.counters.iter().map(|worker| of(worker).value()).sum();
        SamplerStats {
            name: self.name.to_string(),
            offered: sum(|counters| &counters.offered),
            taken: sum(|counters| &counters.taken),
            over_rate: sum(|counters| &counters.over_rate),
            ring_full: sum(|counters| &counters.ring_full),
        }
    }
}

/// The counters of a sampler on one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SamplerCounters {
    /// Packets of which some are taken.
    pub offered: Counter,
    /// Packets that were sampled.
    pub taken: Counter,
    /// Packets that were not sampled because of the rate limit.
    pub over_rate: Counter,
    /// Packets that were not sampled because the ring had no room.
    pub ring_full: Counter,
}

/// The limit on samples per second over all workers, as the generic cell rate algorithm (ITU-T I.371, annex A). One
/// atomic word holds the time at which the last sample will be paid for. Workers read it only for packets that chance
/// has selected, and write it no more often than the rate.
#[derive(Debug, Clone)]
pub(crate) struct Limit {
    state: Arc<AtomicU64>,
    /// Nanoseconds that a sample has to be paid with; rounded up, so that the rate is not exceeded.
    interval: u64,
    /// How far ahead of time that may be.
    tolerance: u64,
}

impl Limit {
    pub(crate) fn new(rate: u32, state: Arc<AtomicU64>) -> Limit {
        let rate = u64::from(rate.max(1));
        let interval = SECOND.div_ceil(rate);
        // A tenth of a second's worth at once, or one.
        Limit { state, interval, tolerance: (rate / 10).saturating_sub(1) * interval }
    }

    #[inline]
    pub(crate) fn admit(&self, now: Time) -> bool {
        let pay = |paid: u64| {
            let start = paid.max(now.0);
            (start - now.0 <= self.tolerance).then(|| start.saturating_add(self.interval))
        };
        self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many_is_taken_and_no_pattern_is_seen() {
        for one_in in [1, 2, 3, 10, 100, 1000] {
            let (choice, mut random) = (Choice::new(0, one_in), Random::from_seed(u64::from(one_in)));
            const PACKETS: u32 = 3_000_000;
            let (mut taken, mut even) = (0u32, 0u32);
            for packet in 0..PACKETS {
                if choice.is_taken(&mut random) {
                    taken += 1;
                    even += u32::from(packet % 2 == 0);
                }
            }
            // A binomial distribution: five standard deviations are exceeded once in 1.7 million seeds.
            let within =
                |count: u32, of: f64, p: f64| (f64::from(count) - of * p).abs() <= 5.0 * (of * p * (1.0 - p)).sqrt();
            assert!(within(taken, f64::from(PACKETS), 1.0 / f64::from(one_in)), "{taken} at 1 in {one_in}");
            if one_in > 1 {
                assert!(within(even, f64::from(taken), 0.5), "{even} of {taken} at 1 in {one_in}");
            }
        }
        assert_eq!(Choice::new(0, 0), Choice::new(0, 1));
        let mut random = Random::from_seed(1);
        assert!((0..10_000).all(|_| Choice::new(0, 1).is_taken(&mut random)));
        let rare = Choice::new(0, u32::MAX);
        assert!((0..10_000).filter(|_| rare.is_taken(&mut random)).count() <= 1);
    }

    #[test]
    fn a_rate_holds_for_all_workers_together() {
        let state = Arc::<AtomicU64>::default();
        for rate in [1, 3, 7, 10, 1000, 100_000] {
            state.store(0, Ordering::Relaxed);
            // Two workers, who share the state, and a try every 2 µs for ten seconds.
            let limits = [Limit::new(rate, Arc::clone(&state)), Limit::new(rate, Arc::clone(&state))];
            let tries = (0..5_000_000u64).map(|n| (n % 2, Time(n * 2_000)));
            let taken = tries.filter(|&(worker, now)| limits[worker as usize].admit(now)).count();
            let most = u64::from(rate) * 10 + u64::from(rate / 10).max(1);
            assert!(taken as u64 <= most, "{taken} > {most}");
            // Rounding loses less than a thousandth.
            assert!(taken as f64 >= f64::from(rate) * 10.0 * 0.999, "{taken} at {rate}");
        }
        // A quiet hour earns no more than what fits at once.
        let limit = Limit::new(100, Arc::default());
        assert_eq!((0..1000).filter(|_| limit.admit(Time(3600 * SECOND))).count(), 10);
    }

    #[test]
    fn what_was_counted_and_paid_outlives_a_reload() {
        let model = |rate| model::Sampler {
            name: "s".into(),
            pcap: None,
            ipfix: None,
            snap_length: 128,
            rate,
            origin: model::Origin::default(),
        };
        let before = Sampler::new(&model(1), 2, None);
        before.counters(1).unwrap().taken.add(5);
        assert!(before.admits(Time(0)) && !before.admits(Time(1)));
        let after = Sampler::new(&model(1), 2, Some(&before.gone()));
        assert!(!after.admits(Time(SECOND - 1)) && after.admits(Time(SECOND)));
        assert_eq!((after.stats().taken, after.present), (5, true));
        assert!(after.counters(2).is_none());
    }
}
