//! The room for data in fragments, and why there is none.

use crate::wire::ipv4;

/// Why a datagram is not fragmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Cannot {
    /// It is no valid datagram of the family.
    #[error("not a whole IP datagram")]
    Malformed,
    /// It says that it must not be: what is due is an ICMP error, fragmentation needed.
    #[error("the datagram must not be fragmented")]
    DontFragment,
    /// The link does not take the headers and 8 octets of data.
    #[error("no room for the headers and eight octets of data")]
    MtuTooSmall,
    /// One of its options has a length that does not fit.
    #[error(transparent)]
    Option(#[from] ipv4::BadOption),
    /// Its data would end beyond 65,535 octets in the whole datagram.
    #[error("the datagram that this is a fragment of is longer than any can be")]
    TooLong,
}

/// Octets of data that fit behind the headers of a fragment. The last fragment may use all of them, any other one only a
/// multiple of 8 (RFC 791 section 3.2, RFC 8200 section 4.5).
#[derive(Debug, Clone, Copy)]
pub(super) struct Room(pub(super) usize);

impl Room {
    /// Returns the room behind headers of this length on a link of this MTU.
    pub(super) fn behind(mtu: usize, headers: usize) -> Result<Room, Cannot> {
        let room = Room(mtu.saturating_sub(headers));
        if room.multiple() == 0 { Err(Cannot::MtuTooSmall) } else { Ok(room) }
    }

    /// Data of a fragment that is not the last.
    pub(super) fn multiple(self) -> usize {
        self.0 & !7
    }

    /// Data of the next fragment when so many octets are left.
    pub(super) fn next(self, left: usize) -> usize {
        if left <= self.0 { left } else { self.multiple() }
    }

    /// Fragments that so many octets need.
    pub(super) fn fragments(self, left: usize) -> usize {
        // The last one takes as much as fits; an empty rest needs none.
        if left == 0 { 0 } else { 1 + left.saturating_sub(self.0).div_ceil(self.multiple().max(1)) }
    }
}
