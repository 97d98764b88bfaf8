//! Counters of a pair of SAs.

use crate::root::counters::{Counter, TrafficCounter};

/// Counters of a pair of SAs on one worker. Octets are those of inner packets from their IP header on.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SaCounters {
    /// Encrypted.
    pub outbound: TrafficCounter,
    /// Decrypted.
    pub inbound: TrafficCounter,
    /// Received before, or behind the window.
    pub replayed: Counter,
    /// Left behind by the window without having come.
    pub lost: Counter,
    /// Integrity check values that do not match.
    pub auth_failed: Counter,
    /// Packets whose lengths, padding or protocol the SA does not allow.
    pub malformed: Counter,
    /// Dummy packets.
    pub dummies: Counter,
    /// Decrypted packets that fit no policy of the SA.
    pub selector: Counter,
    /// Outbound packets behind the last sequence number.
    pub exhausted: Counter,
    /// Outbound packets for which no sequence number was reserved.
    pub unreserved: Counter,
    /// Packets of either direction behind a hard lifetime.
    pub expired: Counter,
    /// Dummy packets that were sent.
    pub dummies_sent: Counter,
    /// Keepalives that were sent.
    pub keepalives: Counter,
}
