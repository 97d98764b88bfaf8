//! The counters of source address validation on an interface, by family.

use crate::root::counters::{Counter, TrafficCounter};

use super::by::By;

/// Of one interface and family, on one worker.
#[derive(Debug, Default)]
pub struct SavCounters {
    /// Packets that were validated.
    pub checked: Counter,
    /// Valid packets whose source is unknown and that the policy let pass for it.
    pub unknown: Counter,
    /// Packets that were not, being exempt.
    pub exempt: Counter,
    /// Invalid packets that were dropped by a limit.
    pub limited: Counter,
    /// Invalid packets that were redirected.
    pub redirected: Counter,
    /// Invalid packets, and octets of their frames, by [`By`]: dropped, or passed where the policy permits it.
    pub invalid: [TrafficCounter; By::ALL.len()],
}
