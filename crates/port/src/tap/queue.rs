//! The common part of both directions of a queue, and the remote MAC of a tun.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::mode::Mode;
use crate::counters::PortCounters;

/// State of a queue that both directions need.
pub(super) struct Queue {
    pub(super) file: Arc<OwnedFd>,
    pub(super) counters: Arc<PortCounters>,
    pub(super) mode: Mode,
}

/// Returns the remote MAC of a tun: locally administered, and different from that of the interface.
pub(super) fn peer(mac: [u8; 6]) -> [u8; 6] {
    let [first, rest @ .., last] = mac;
    let mut peer = [first & !1 | 2, 0, 0, 0, 0, !last];
    peer[1..5].copy_from_slice(&rest);
    peer
}
