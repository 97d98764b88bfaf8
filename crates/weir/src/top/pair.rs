//! Two readings, and the rates between them.

use std::time::Duration;

use super::reading::Reading;

/// The latest reading and an earlier one of the same process.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub(super) before: Option<Reading>,
    pub(super) now: Reading,
}

impl Pair {
    /// Makes the pair of a first reading, which gives no rates yet.
    pub(super) fn first(now: Reading) -> Pair {
        Pair { before: None, now }
    }

    /// Takes the next reading. A reading that follows the latest one within less than `least` takes its place, as rates over
    /// so short a time say little. Another process begins anew.
    #[must_use]
    pub(super) fn then(self, next: Reading, least: Duration) -> Pair {
        if next.version.pid != self.now.version.pid {
            return Pair::first(next);
        }
        let soon = next.taken.saturating_duration_since(self.now.taken) < least;
        let before = if soon { self.before } else { Some(self.now) };
        Pair { before, now: next }
    }

    /// Returns the seconds between the readings; `None` if there is one only.
    pub(super) fn seconds(&self) -> Option<f64> {
        let before = self.before.as_ref()?;
        let seconds = self.now.taken.saturating_duration_since(before.taken).as_secs_f64();
        (seconds > 0.0).then_some(seconds)
    }

    /// Returns the rate of a counter. A counter that was cleared between the readings counts from 0.
    pub(super) fn rate(&self, then: Option<u64>, now: u64) -> Option<f64> {
        let seconds = self.seconds()?;
        let then = then?;
        let more = if now < then { now } else { now - then };
        Some(more as f64 / seconds)
    }
}
