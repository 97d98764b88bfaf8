//! Prefetching of SAs. Without it, packets of a batch that belong to many SAs would wait for the lines of each SA in turn.

use std::net::IpAddr;
use std::sync::Arc;

use weir_base::prefetch;
use weir_packet::packet::Packet;
use weir_packet::vector::Vector;

use super::super::{Context, next_hop};
use super::arrival::{Arrival, arrival};
use super::jobs::BATCH;
use crate::root::ipsec::Sa;
use crate::root::{NONE, Root};

/// Prefetches the SAs that a batch of packets is sealed for.
#[inline]
pub(super) fn outbound(context: &Context<'_>, vector: &Vector, places: &[u8]) {
    let mut numbers = [NONE; BATCH];
    for (number, &place) in numbers.iter_mut().zip(places) {
        *number = vector[place].forwarding();
    }
    sas(context, &numbers[..places.len().min(BATCH)], |sa| {
        if let Some(outbound) = &sa.outbound {
            prefetch::read(Arc::as_ptr(&outbound.key));
            prefetch::read(Arc::as_ptr(&outbound.sequence));
        }
    });
}

/// Prefetches the SAs that a batch of packets is opened for.
#[inline]
pub(super) fn inbound(context: &Context<'_>, vector: &Vector, places: &[u8]) {
    let mut seen = [None; BATCH];
    for (seen, &place) in seen.iter_mut().zip(places) {
        *seen = see(context.root, &vector[place]);
    }
    let seen = &seen[..places.len().min(BATCH)];
    if seen.iter().all(|one| one.is_some_and(|one| Some(one.spi) == seen[0].map(|first| first.spi))) {
        return;
    }
    let spis = &context.root.ipsec.spis;
    for one in seen.iter().flatten() {
        spis.prefetch(one.vrf, one.destination, one.spi);
    }
    let mut numbers = [NONE; BATCH];
    for (number, one) in numbers.iter_mut().zip(seen) {
        // Another pair with this SPI costs the prefetch, and nothing else.
        let found = one.and_then(|one| spis.find(one.vrf, one.destination, one.spi, |_| true));
        *number = found.unwrap_or(NONE);
    }
    let numbers = &numbers[..seen.len()];
    sas(context, numbers, |sa| {
        if let Some(inbound) = &sa.inbound {
            prefetch::read(Arc::as_ptr(&inbound.key));
            prefetch::read(Arc::as_ptr(&inbound.window));
        }
    });
    for (one, &number) in seen.iter().zip(numbers) {
        let inbound = context.root.ipsec.sa(number).and_then(|sa| sa.inbound.as_ref());
        if let (Some(one), Some(inbound)) = (one, inbound) {
            inbound.window.prefetch(one.low);
        }
    }
}

/// The fields of a packet of ESP that name its SA.
#[derive(Clone, Copy)]
struct Seen {
    vrf: u16,
    destination: IpAddr,
    spi: u32,
    /// The lower half of its number.
    low: u32,
}

#[inline(always)]
fn see(root: &Root, packet: &Packet) -> Option<Seen> {
    let Arrival::Esp(at) = arrival(root, packet) else { return None };
    let &[a, b, c, d, e, f, g, h] = packet.data().get(at..)?.first_chunk::<8>()?;
    let vrf = root.interfaces.get(packet.interface() as usize)?.vrf;
    let destination = next_hop::destination(packet)?;
    Some(Seen { vrf, destination, spi: u32::from_be_bytes([a, b, c, d]), low: u32::from_be_bytes([e, f, g, h]) })
}

/// All packets belong to one SA, whose lines come with the first of them.
#[inline(always)]
fn is_one(numbers: &[u32]) -> bool {
    numbers.iter().all(|number| *number == numbers[0])
}

/// Prefetches in steps, as each line has the address of the next: the places of SAs, SAs, and `then` what SAs point to.
#[inline(always)]
fn sas(context: &Context<'_>, numbers: &[u32], then: impl Fn(&Sa)) {
    if is_one(numbers) {
        return;
    }
    let ipsec = &context.root.ipsec;
    for &number in numbers {
        ipsec.prefetch(number);
    }
    for sa in numbers.iter().filter_map(|&number| ipsec.sa(number)) {
        prefetch::value(sa);
    }
    for sa in numbers.iter().filter_map(|&number| ipsec.sa(number)) {
        prefetch::read(&raw const sa.counters[context.worker]);
        then(sa);
    }
}
