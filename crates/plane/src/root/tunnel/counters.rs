//! Counters of a tunnel.

use crate::root::counters::{Counter, TrafficCounter};

/// Counters of a tunnel on one worker. Octets are those of inner packets, with the Ethernet header of frames.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct TunnelCounters {
    /// Put into the tunnel.
    pub outbound: TrafficCounter,
    /// Taken out.
    pub inbound: TrafficCounter,
    /// Packets of the tunnel that were dropped for what they are.
    pub refused: Counter,
    /// Inner packets that do not fit the path.
    pub too_long: Counter,
    /// Reports that lowered the path MTU.
    pub lowered: Counter,
}
