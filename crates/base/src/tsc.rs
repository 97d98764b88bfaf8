//! The CPU's time-stamp counter, the unit of all stated costs.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns the time-stamp counter in ticks. The read does not serialise: use it for spans of hundreds of ticks or more.
///
/// CPUs without the counter return nanoseconds since the first call.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC exists on every x86-64 CPU; Linux leaves it enabled for user space.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Returns the ticks per second. The first call measures them against the monotonic clock for 20 ms.
pub fn frequency() -> f64 {
    static FREQUENCY: OnceLock<f64> = OnceLock::new();
    *FREQUENCY.get_or_init(|| {
        let (instant, start) = (Instant::now(), ticks());
        std::thread::sleep(Duration::from_millis(20));
        (ticks() - start) as f64 / instant.elapsed().as_secs_f64()
    })
}
