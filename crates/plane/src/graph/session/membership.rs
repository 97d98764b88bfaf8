//! How packets belong to sessions.

use weir_packet::packet::Packet;

use super::state::Way;

/// How a packet belongs to a session: the session's number, and the packet's direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) number: u32,
    pub(crate) way: Way,
    /// The packet is an ICMP error about a packet of the session.
    pub(crate) is_error: bool,
}

/// The note of a packet about its session, in [`Packet::flow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    /// Nothing was looked up.
    Unknown,
    /// It belongs to no session of the zone that it came in by.
    None,
    /// It belongs to a session.
    Session(Membership),
}

impl Carried {
    #[inline]
    pub(crate) fn of(packet: &Packet) -> Carried {
        match packet.flow() {
            0 => Carried::Unknown,
            1 => Carried::None,
            word => Carried::Session(Membership {
                number: (word >> 2) - 1,
                way: if word & 1 == 0 { Way::Original } else { Way::Reply },
                is_error: word & 2 != 0,
            }),
        }
    }

    #[inline]
    pub(crate) fn set(self, packet: &mut Packet) {
        let word = match self {
            Carried::Unknown => 0,
            Carried::None => 1,
            Carried::Session(Membership { number, way, is_error }) => {
                (number + 1) << 2 | u32::from(is_error) << 1 | u32::from(way == Way::Reply)
            }
        };
        packet.set_flow(word);
    }
}
