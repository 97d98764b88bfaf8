//! What an interface counts of source address validation, by family.

use crate::root::counters::{Counter, TrafficCounter};

use super::by::By;

/// Of one interface and family, on one worker.
#[derive(Debug, Default)]
pub struct SavCounters {
    /// Packets that were validated.
    pub checked: Counter,
    /// Of these, those that no rule knows the source of, and that were let pass for it.
    pub unknown: Counter,
    /// Packets that were not, being exempt.
    pub exempt: Counter,
    /// Those of the packets below that were dropped because more came than may pass.
    pub limited: Counter,
    /// Those of the packets below that were sent elsewhere than to their destination.
    pub redirected: Counter,
    /// Those that were not valid, in packets and octets of frames, by [`By`]: dropped, or let pass where the policy says so.
    pub invalid: [TrafficCounter; By::ALL.len()],
}
