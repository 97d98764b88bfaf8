//! Due times of the packets of a stream.

use std::sync::{Arc, OnceLock};

use weir_base::clock::Time;

const SECOND: u128 = 1_000_000_000;

/// A rate, from the first read of any queue of the generator.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    rate: u64,
    start: Arc<OnceLock<Time>>,
}

impl Pace {
    /// Creates a rate of `rate` packets per second; all queues share `start`.
    pub(super) fn new(rate: u64, start: Arc<OnceLock<Time>>) -> Pace {
        Pace { rate, start }
    }

    /// Returns the number of packets due by now: the first at once, packet `n` after `n / rate` seconds. Packets that
    /// were not taken in time stay due.
    pub(super) fn due(&self, now: Time) -> u64 {
        let elapsed = now.since(*self.start.get_or_init(|| now));
        let intervals = u128::from(elapsed) * u128::from(self.rate) / SECOND;
        u64::try_from(intervals).unwrap_or(u64::MAX - 1) + 1
    }

    /// Returns the due time of packet `n`, the first instant at which [`Pace::due`] counts it; `None` before the start.
    pub(super) fn time(&self, n: u64) -> Option<Time> {
        let start = self.start.get()?;
        let after = (u128::from(n) * SECOND).div_ceil(u128::from(self.rate));
        Some(Time(u64::try_from(u128::from(start.0) + after).unwrap_or(u64::MAX)))
    }

    /// Returns the due time of packet `n` in seconds after the start, precise enough to order packets.
    pub(super) fn moment(&self, n: u64) -> f64 {
        n as f64 / self.rate as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_fall_due_one_by_one() {
        let pace = Pace::new(3, Arc::default());
        let due: Vec<u64> =
            [5, 333_333_338, 333_333_339, 1_000_000_004, 1_000_000_005].map(|now| pace.due(Time(now))).into();
        assert_eq!(due, [1, 1, 2, 3, 4]);
        assert_eq!(pace.due(Time(1)), 1, "a clock that goes back takes nothing back");
        assert_eq!(Pace::new(u64::MAX, Arc::default()).due(Time(7)), 1);
    }

    #[test]
    fn a_packet_is_due_at_its_time_and_not_before() {
        for rate in [1, 3, 7, 999_983, 1_000_000_000, u64::MAX] {
            let pace = Pace::new(rate, Arc::default());
            assert_eq!(pace.time(5), None, "nobody knows when it starts");
            pace.due(Time(11));
            for n in [1, 2, 3, 1000, 1 << 30] {
                let time = pace.time(n).unwrap();
                assert!(pace.due(time) > n && (time.0 == 11 || pace.due(Time(time.0 - 1)) <= n), "{n} at {rate}/s");
            }
        }
        let late = Pace::new(1, Arc::default());
        late.due(Time(1));
        assert_eq!(late.time(u64::MAX), Some(Time(u64::MAX)));
    }
}
