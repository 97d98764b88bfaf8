//! Packets that the session table refuses, as it is full.

use std::fmt;
use std::time::{Duration, Instant};

use crate::render::number::plural;

/// The time between two reports.
const PAUSE: Duration = Duration::from_secs(60);

/// A report that the session table is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Full {
    /// Packets that were dropped since the last report, as they would have opened a session.
    pub(crate) refused: u64,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packets = plural(self.refused, "packet");
        write!(f, "the session table is full: {packets} for new sessions dropped (session-limit)")
    }
}

/// The refused packets that were reported.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    refused: u64,
    reported: Option<Instant>,
}

impl Refusals {
    /// Takes the packets that were refused since the start. Returns the packets that no report has, once a minute at most.
    pub(crate) fn step(&mut self, now: Instant, refused: u64) -> Option<Full> {
        let since = refused.saturating_sub(self.refused);
        let is_due = self.reported.is_none_or(|then| now.duration_since(then) >= PAUSE);
        if since == 0 || !is_due {
            return None;
        }
        *self = Refusals { refused, reported: Some(now) };
        Some(Full { refused: since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_packets_are_reported_once_a_minute() {
        let (begin, mut refusals) = (Instant::now(), Refusals::default());
        let mut at = |seconds, refused| {
            let found = refusals.step(begin + Duration::from_secs(seconds), refused);
            found.map(|full| (full.refused, full.to_string()))
        };
        assert_eq!(at(0, 0), None);
        let text = "the session table is full: 1 packet for new sessions dropped (session-limit)";
        assert_eq!(at(1, 1), Some((1, text.to_owned())));
        assert_eq!(at(60, 500), None);
        assert_eq!(at(61, 501).map(|own| own.0), Some(500), "all since the last report");
        assert_eq!(at(200, 501), None, "there is room again");
        assert_eq!(at(300, 503).map(|own| own.0), Some(2));
    }
}
