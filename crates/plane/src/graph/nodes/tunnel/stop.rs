//! Reasons for which a packet does not go into its tunnel at once.

use crate::reason::Reason;

/// Why a packet is not put into a tunnel now.
pub(super) enum Stop {
    Reason(Reason),
    /// An error goes to its source.
    Aloud(Reason),
    /// It is cut first, into the segments that the kernel left uncut.
    Segment,
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Stop {
        Stop::Reason(reason)
    }
}
