//! Packets of ESP that came in, and the numbers of their SAs.

use std::net::IpAddr;

use weir_packet::packet::Packet;
use weir_packet::vector::{VECTOR, Vector};

use super::super::next_hop;
use super::arrival::{Arrival, arrival};
use crate::reason::Reason;
use crate::root::{NONE, Root};

/// A packet of ESP. Its fields are words that are written and read one by one: what is read as a whole right after it was written
/// in parts makes the CPU wait.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// Its SPI.
    pub(super) spi: u32,
    /// The lower half of its sequence number.
    pub(super) low: u32,
    /// The offset of the SPI.
    pub(super) at: u32,
    /// The number of its SA, or of another SA with its SPI; [`NONE`] if no SA has it.
    pub(super) number: u32,
    /// The place in the table of SPIs where the search for it begins.
    home: u32,
    /// The reason to drop it: it is no packet of ESP, or no SA has its SPI.
    pub(super) reason: Option<Reason>,
}

/// The packets of a frame.
pub(super) type AllSeen = [Seen; VECTOR];

/// No packet.
pub(super) const UNSEEN: Seen = Seen { spi: 0, low: 0, at: 0, number: NONE, home: 0, reason: Some(Reason::EspNoSa) };

/// Looks at packets, and finds the numbers of their SAs. No SA is looked at.
#[inline]
pub(super) fn see_all(root: &Root, vector: &Vector, places: &[u8], all: &mut AllSeen) {
    let spis = &*root.ipsec.spis;
    for (seen, &place) in all.iter_mut().zip(places) {
        see(root, &vector[place], seen);
        spis.prefetch(seen.home);
    }
    for seen in all.iter_mut().take(places.len()).filter(|seen| seen.reason.is_none()) {
        match spis.find_from(seen.home, seen.spi, |_| true) {
            Some(number) => seen.number = number,
            None => seen.reason = Some(Reason::EspNoSa),
        }
    }
}

#[inline(always)]
fn see(root: &Root, packet: &Packet, seen: &mut Seen) {
    let Arrival::Esp(at) = arrival(root, packet) else { return };
    let front = packet.data().get(at..).and_then(|esp| esp.first_chunk::<8>());
    let Some(&[a, b, c, d, e, f, g, h]) = front else {
        seen.reason = Some(Reason::EspMalformed);
        return;
    };
    let Some((vrf, destination)) = addressed(root, packet) else { return };
    seen.spi = u32::from_be_bytes([a, b, c, d]);
    seen.low = u32::from_be_bytes([e, f, g, h]);
    seen.at = at as u32;
    seen.home = root.ipsec.spis.home(vrf, destination, seen.spi);
    seen.reason = None;
}

/// The routing domain of a packet, and its destination.
#[inline(always)]
pub(super) fn addressed(root: &Root, packet: &Packet) -> Option<(u16, IpAddr)> {
    let vrf = root.interfaces.get(packet.interface() as usize).map_or(0, |interface| interface.vrf);
    Some((vrf, next_hop::destination(packet)?))
}
