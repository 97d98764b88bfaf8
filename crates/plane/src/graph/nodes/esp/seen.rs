//! Packets of ESP that came in, and the numbers of their SAs.

use std::net::IpAddr;

use weir_packet::packet::Packet;
use weir_packet::vector::{VECTOR, Vector};

use super::super::next_hop;
use super::arrival::{Arrival, arrival};
use crate::reason::Reason;
use crate::root::{NONE, Root};

/// The fields of a packet of ESP that name its SA.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) destination: IpAddr,
    pub(super) vrf: u16,
    pub(super) spi: u32,
}

/// A packet of ESP.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) name: Name,
    /// The lower half of its sequence number.
    pub(super) low: u32,
    /// The offset of the SPI.
    pub(super) at: usize,
}

/// The packets of a frame; of each that is no packet of ESP, the reason to drop it.
pub(super) type AllSeen = [Result<Seen, Reason>; VECTOR];

/// Looks at packets, and prefetches where the numbers of their SAs are.
#[inline]
pub(super) fn see_all(root: &Root, vector: &Vector, places: &[u8]) -> AllSeen {
    let mut all = [Err(Reason::EspNoSa); VECTOR];
    let mut before = None;
    for (seen, &place) in all.iter_mut().zip(places) {
        *seen = see(root, &vector[place]);
        let name = seen.map(|seen| seen.name).ok();
        if name != before
            && let Some(Name { vrf, destination, spi }) = name
        {
            root.ipsec.spis.prefetch(vrf, destination, spi);
        }
        before = name;
    }
    all
}

#[inline(always)]
fn see(root: &Root, packet: &Packet) -> Result<Seen, Reason> {
    let Arrival::Esp(at) = arrival(root, packet) else { return Err(Reason::EspNoSa) };
    let front = packet.data().get(at..).and_then(|esp| esp.first_chunk::<8>());
    let &[a, b, c, d, e, f, g, h] = front.ok_or(Reason::EspMalformed)?;
    let vrf = root.interfaces.get(packet.interface() as usize).map_or(0, |interface| interface.vrf);
    let destination = next_hop::destination(packet).ok_or(Reason::EspNoSa)?;
    let name = Name { destination, vrf, spi: u32::from_be_bytes([a, b, c, d]) };
    Ok(Seen { name, low: u32::from_be_bytes([e, f, g, h]), at })
}

/// Finds the number of each packet's SA, or that of another SA with its SPI; [`NONE`] if no SA has it. No SA is looked at.
#[inline]
pub(super) fn numbers(root: &Root, seen: &[Result<Seen, Reason>]) -> [u32; VECTOR] {
    let mut numbers = [NONE; VECTOR];
    let mut before = (None, NONE);
    for (number, seen) in numbers.iter_mut().zip(seen) {
        let name = seen.map(|seen| seen.name).ok();
        if name != before.0 {
            let find = |Name { vrf, destination, spi }| root.ipsec.spis.find(vrf, destination, spi, |_| true);
            before = (name, name.and_then(find).unwrap_or(NONE));
        }
        *number = before.1;
    }
    numbers
}
