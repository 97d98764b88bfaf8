//! Injected time. Components read the time from a [`Clock`], so that replays and tests control it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant as StdInstant};

/// A point in time: nanoseconds since the clock's epoch (a live gateway's start; a replay's 1970-01-01).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// Returns the nanoseconds from `earlier` to `self`; 0 if `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A source of time, cheap to clone.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The machine's monotonic clock, counted from the clock's creation.
    Monotonic(StdInstant),
    /// Set by its owner only.
    Manual(ManualClock),
}

/// Sets the time of a [`Clock::Manual`].
#[derive(Debug, Clone, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Creates a clock at time 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward to `time`. An earlier time has no effect.
    pub fn set(&self, time: Time) {
        self.0.fetch_max(time.0, Ordering::Relaxed);
    }

    /// Advances the clock by `nanoseconds`.
    pub fn advance(&self, nanoseconds: u64) {
        self.0.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl Clock {
    /// Creates a clock that starts at 0 now.
    pub fn monotonic() -> Self {
        Clock::Monotonic(StdInstant::now())
    }

    /// Returns the current time.
    #[inline]
    pub fn now(&self) -> Time {
        match self {
            Clock::Monotonic(start) => Time(start.elapsed().as_nanos() as u64),
            Clock::Manual(hand) => Time(hand.0.load(Ordering::Relaxed)),
        }
    }

    /// Returns how long a thread that waits for `time` may sleep. A manual clock can move at any moment, so the thread
    /// checks it every millisecond.
    pub fn until(&self, time: Time) -> Duration {
        let left = Duration::from_nanos(time.since(self.now()));
        match self {
            Clock::Monotonic(_) => left,
            Clock::Manual(_) if left.is_zero() => left,
            Clock::Manual(_) => Duration::from_millis(1),
        }
    }
}

impl From<ManualClock> for Clock {
    fn from(hand: ManualClock) -> Self {
        Clock::Manual(hand)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_forward() {
        let hand = ManualClock::new();
        let clock = Clock::from(hand.clone());
        hand.set(Time(10));
        hand.set(Time(5));
        hand.advance(1);
        assert_eq!(clock.now(), Time(11));
        assert_eq!(Time(3).since(Time(5)), 0);
        assert_eq!(clock.until(Time(12)), Duration::from_millis(1));
        assert_eq!(clock.until(Time(u64::MAX)), Duration::from_millis(1));
        assert_eq!(clock.until(Time(3)), Duration::ZERO);
    }

    #[test]
    fn the_monotonic_clock_moves() {
        let clock = Clock::monotonic();
        let first = clock.now();
        while clock.now() == first {}
        assert!(clock.now() > first);
        let hour = Duration::from_secs(3600);
        let left = clock.until(Time(clock.now().0 + hour.as_nanos() as u64));
        assert!(left <= hour && left > hour / 2);
    }
}
