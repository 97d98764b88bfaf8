//! Token buckets on injected time.

use weir_base::clock::Time;

const SECOND: u64 = 1_000_000_000;

/// A token bucket: `rate` events per second, `burst` at once. A rate of 0 lets nothing pass.
#[derive(Debug, Clone)]
pub struct Limiter {
    /// Nanosecond-tokens: one event costs a second's worth, `rate` of them come in per nanosecond.
    level: u64,
    rate: u64,
    full: u64,
    last: Time,
}

impl Limiter {
    /// A full bucket. At least one event fits in unless the rate is 0.
    pub fn new(rate: u32, burst: u32) -> Self {
        let full = if rate == 0 { 0 } else { u64::from(burst.max(1)) * SECOND };
        Limiter { level: full, rate: u64::from(rate), full, last: Time(0) }
    }

    /// Takes a token if there is one.
    #[inline]
    pub fn admit(&mut self, now: Time) -> bool {
        self.admit_all(1, now)
    }

    /// Takes so many tokens if there is one, or all that there are.
    #[inline]
    pub fn admit_all(&mut self, events: u64, now: Time) -> bool {
        let gained = now.since(self.last).saturating_mul(self.rate);
        self.last = self.last.max(now);
        self.level = self.level.saturating_add(gained).min(self.full);
        let admitted = self.level >= SECOND;
        if admitted {
            self.level = self.level.saturating_sub(events.saturating_mul(SECOND));
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_its_burst_and_then_its_rate_pass() {
        let mut limiter = Limiter::new(100, 10);
        let at_once = (0..50).filter(|_| limiter.admit(Time(0))).count();
        assert_eq!(at_once, 10);
        // 10 s in steps of 1 ms, ten tries each: exactly 100 a second.
        let later =
            (1..=10_000u64).map(|ms| (0..10).filter(|_| limiter.admit(Time(ms * 1_000_000))).count()).sum::<usize>();
        assert_eq!(later, 1000);
        assert!(!Limiter::new(0, 10).admit(Time(SECOND)));
        assert!(!limiter.admit(Time(0)), "time that goes back gives no tokens");
    }
}
