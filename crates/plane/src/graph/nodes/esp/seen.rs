//! Packets of ESP that came in, and the numbers of their SAs.

use std::net::IpAddr;

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::{ipv4, ipv6};

use super::super::Context;
use super::arrival::{Arrival, arrival};
use crate::graph::flow::Unlearned;
use crate::reason::Reason;
use crate::root::ipsec::{Sa, SpiTable};
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
    /// The number of its SA, or of another SA with its SPI.
    pub(super) number: u32,
    /// The place in the table of SPIs where the search for it begins.
    home: u32,
    /// Its outer destination, if that is of IPv4.
    destination: u32,
    /// The number of its routing domain.
    vrf: u16,
    is_v4: bool,
}

/// The packets of a frame.
pub(super) type AllSeen = [Seen; VECTOR];

/// No packet.
pub(super) const UNSEEN: Seen =
    Seen { spi: 0, low: 0, at: 0, number: NONE, home: 0, destination: 0, vrf: 0, is_v4: false };

/// Looks at packets, and finds the numbers of their SAs. Drops packets that are no ESP, and packets whose SPI no SA has: no SA is
/// looked at. Returns the others.
#[inline]
pub(super) fn see_all(context: &mut Context<'_>, vector: &mut Vector, places: &[u8], all: &mut AllSeen) -> Indices {
    let root = context.root;
    let spis = &*root.ipsec.spis;
    let mut packets = Indices::new();
    for &place in places {
        let packet = &mut vector[place];
        context.notes.forget(place, Unlearned::Spd);
        match see(root, packet, &mut all[packets.len()]) {
            Ok(home) => {
                spis.prefetch(home);
                packets.push(place);
            }
            Err(reason) => context.next.refuse(packet, place, reason),
        }
    }
    let mut known = Indices::new();
    for (index, &place) in packets.places().iter().enumerate() {
        match spis.find_from(all[index].home, all[index].spi, |_| true) {
            Some(number) => {
                all[index].number = number;
                if known.len() != index {
                    all[known.len()] = all[index];
                }
                known.push(place);
            }
            None => context.next.refuse(&mut vector[place], place, Reason::EspNoSa),
        }
    }
    known
}

/// Looks at a packet, and notes what it is. Returns the place in the table of SPIs where the search for it begins.
#[inline(always)]
fn see(root: &Root, packet: &Packet, seen: &mut Seen) -> Result<u32, Reason> {
    let Arrival::Esp(at) = arrival(root, packet) else { return Err(Reason::EspNoSa) };
    let front = packet.data().get(at..).and_then(|esp| esp.first_chunk::<8>());
    let Some(&[a, b, c, d, e, f, g, h]) = front else { return Err(Reason::EspMalformed) };
    seen.spi = u32::from_be_bytes([a, b, c, d]);
    seen.low = u32::from_be_bytes([e, f, g, h]);
    seen.at = at as u32;
    seen.vrf = root.interfaces.get(packet.interface() as usize).map_or(0, |interface| interface.vrf);
    seen.is_v4 = packet.flags().contains(ParseFlags::IP4);
    let word = match seen.is_v4 {
        true => {
            let header = packet.l3_header::<{ ipv4::LENGTH }>().ok_or(Reason::EspNoSa)?;
            let [.., a, b, c, d] = *header;
            seen.destination = u32::from_be_bytes([a, b, c, d]);
            u64::from(seen.destination)
        }
        false => SpiTable::word(destination_v6(packet).ok_or(Reason::EspNoSa)?),
    };
    seen.home = root.ipsec.spis.home_of(seen.vrf, word, seen.spi);
    Ok(seen.home)
}

#[inline(always)]
fn destination_v6(packet: &Packet) -> Option<IpAddr> {
    let header = packet.l3_header::<{ ipv6::LENGTH }>()?;
    header.last_chunk::<16>().map(|octets| IpAddr::from(*octets))
}

impl Seen {
    /// The routing domain of the packet, and its destination.
    #[inline]
    pub(super) fn addressed(&self, packet: &Packet) -> Option<(u16, IpAddr)> {
        let destination = match self.is_v4 {
            true => IpAddr::from(self.destination.to_be_bytes()),
            false => destination_v6(packet)?,
        };
        Some((self.vrf, destination))
    }

    /// The packet is addressed to an SA.
    #[inline(always)]
    pub(super) fn is_for(&self, packet: &Packet, sa: &Sa) -> bool {
        let has_address = match sa.local {
            IpAddr::V4(local) => self.is_v4 && local.to_bits() == self.destination,
            IpAddr::V6(_) => !self.is_v4 && destination_v6(packet) == Some(sa.local),
        };
        has_address && self.vrf == sa.vrf
    }
}
