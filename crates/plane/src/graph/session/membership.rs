//! How packets belong to sessions.

use weir_packet::packet::Packet;

use super::state::Way;
use crate::graph::flags::{NAT_ERROR, NAT_REPLY};

/// How a packet belongs to a session: the session's number, and the packet's direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) number: u32,
    pub(crate) way: Way,
    /// The packet is an ICMP error about a packet of the session.
    pub(crate) is_error: bool,
}

impl Membership {
    /// The value of the table of tuples.
    #[inline]
    pub(crate) fn value(self) -> u32 {
        self.number << 1 | u32::from(self.way == Way::Reply)
    }

    /// The session and the direction of a value of the table of tuples: the session's number, and in the lowest bit the direction.
    #[inline(always)]
    pub(crate) fn of_value(value: u32) -> Membership {
        Membership { number: value >> 1, way: if value & 1 == 0 { Way::Original } else { Way::Reply }, is_error: false }
    }
}

/// The zone in which the session of a packet is noted: that of the interface that the packet came in by, or, where it leaves by
/// an interface of another zone, that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneOf {
    Ingress,
    Egress,
}

/// The note of a packet about its session, in [`Packet::flow`] and [`Packet::flow_out`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    /// Nothing was looked up.
    Unknown,
    /// It belongs to no session of the zone.
    None,
    /// It belongs to a session.
    Session(Membership),
}

/// The number of a translation that a packet's note has no room for, and those behind it.
pub(crate) const MOST_NOTED: u32 = (1 << 24) - 1;

/// The translation that a packet is noted to belong to.
#[inline]
pub(crate) fn translated(packet: &Packet) -> Option<Membership> {
    let number = packet.translation().checked_sub(1)?;
    let way = if packet.state().contains(NAT_REPLY) { Way::Reply } else { Way::Original };
    Some(Membership { number, way, is_error: packet.state().contains(NAT_ERROR) })
}

/// Notes the translation that a packet belongs to: once.
#[inline]
pub(crate) fn set_translated(packet: &mut Packet, member: Membership) {
    packet.set_translation(member.number + 1);
    if member.way == Way::Reply {
        packet.add_state(NAT_REPLY);
    }
    if member.is_error {
        packet.add_state(NAT_ERROR);
    }
}

impl Carried {
    #[inline]
    pub(crate) fn of(packet: &Packet, zone: ZoneOf) -> Carried {
        let word = match zone {
            ZoneOf::Ingress => packet.flow(),
            ZoneOf::Egress => packet.flow_out(),
        };
        match word {
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
    pub(crate) fn set(self, packet: &mut Packet, zone: ZoneOf) {
        let word = match self {
            Carried::Unknown => 0,
            Carried::None => 1,
            Carried::Session(Membership { number, way, is_error }) => {
                (number + 1) << 2 | u32::from(is_error) << 1 | u32::from(way == Way::Reply)
            }
        };
        match zone {
            ZoneOf::Ingress => packet.set_flow(word),
            ZoneOf::Egress => packet.set_flow_out(word),
        }
    }

    /// Forgets the notes of a packet.
    pub(crate) fn clear(packet: &mut Packet) {
        packet.set_flow(0);
        packet.set_flow_out(0);
    }
}
