//! The progress of a session in one octet: all that its usual packets need to know of it.

use weir_packet::wire::protocol;

use super::state::{Progress, Way};

/// Numbers of time-outs: states by classes of protocols, and some to spare.
pub(super) const LASTING: usize = 32;

/// The number of the session's time-out, and the directions in which packets without SYN, FIN and RST change nothing but counts and
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace(u8);

/// The bit of a direction.
#[inline(always)]
fn steady(way: Way) -> u8 {
    if way == Way::Original { 1 << 6 } else { 1 << 7 }
}

/// The class of a protocol, of three: those of a class have the same time-outs.
fn class(protocol: u8) -> u8 {
    match protocol {
        protocol::UDP | protocol::UDP_LITE => 1,
        protocol::ICMP | protocol::ICMPV6 => 2,
        _ => 0,
    }
}

impl Pace {
    /// Computes it again, after the progress changed or a packet confirmed the session.
    pub(super) fn of(progress: &Progress, protocol: u8, confirmed: bool) -> Pace {
        let of = |way| if confirmed && progress.is_steady(way) { steady(way) } else { 0 };
        Pace((3 * progress.state() as u8 + class(protocol)) | of(Way::Original) | of(Way::Reply))
    }

    /// The number of the time-out.
    #[inline(always)]
    pub(super) fn lasting(self) -> usize {
        usize::from(self.0) % LASTING
    }

    /// A packet of a direction without SYN, FIN and RST changes nothing but counts and time.
    #[inline(always)]
    pub(super) fn is_steady(self, way: Way) -> bool {
        self.0 & steady(way) != 0
    }
}
