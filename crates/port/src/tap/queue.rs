//! A queue of a tap or tun device, and the station behind a tun.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::mode::Mode;
use crate::counters::PortCounters;

/// What both directions of a queue need.
pub(super) struct Queue {
    pub(super) file: Arc<OwnedFd>,
    pub(super) counters: Arc<PortCounters>,
    pub(super) mode: Mode,
}

/// The address of the station behind a tun: locally administered, and never that of the interface itself.
pub(super) fn peer(mac: [u8; 6]) -> [u8; 6] {
    let [first, rest @ .., last] = mac;
    let mut peer = [first & !1 | 2, 0, 0, 0, 0, !last];
    peer[1..5].copy_from_slice(&rest);
    peer
}
