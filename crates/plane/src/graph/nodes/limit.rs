//! Limits on super-packets: as many of their segments pass as there is room for.

use weir_packet::packet::Packet;
use weir_packet::segment;

use super::{Context, wire};
use crate::reason::Reason;
use crate::root::sav::Meters;

/// The octets that a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Octets {
    /// From the IP header on.
    FromIp,
    /// Of the whole frame.
    OfFrame,
}

/// Takes a packet out of a bucket, by its octets from the IP header on. Returns the reason to drop it if there is no room for it.
/// Of a super-packet, as many segments stay as there is room for.
pub(super) fn packet(
    context: &mut Context<'_>,
    packet: &mut Packet,
    (meters, bucket): (&Meters, usize),
    reason: Reason,
) -> Option<Reason> {
    if packet.is_to_be_segmented() {
        return segments(context, packet, (meters, bucket), Octets::FromIp, reason);
    }
    let octets = std::iter::once((packet.len() - packet.l3_offset()) as u64);
    let mut over = false;
    meters.take(bucket, meters.clock(context.now), octets, |_, passes| over = !passes);
    if over {
        meters.refuse();
    }
    over.then_some(reason)
}

/// Takes the segments of a super-packet out of a bucket. Segments that pass stay in the packet, the others count as dropped. Returns
/// the reason to drop the packet if none passes.
#[cold]
pub(super) fn segments(
    context: &mut Context<'_>,
    packet: &mut Packet,
    (meters, bucket): (&Meters, usize),
    counted: Octets,
    reason: Reason,
) -> Option<Reason> {
    let before = wire::frames(packet);
    let lengths = lengths(packet, counted);
    // All but the last are equally long: once one does not pass, those behind it stay away, too.
    let mut passed = 0;
    meters.take(bucket, meters.clock(context.now), lengths, |index, passes| {
        if passes && passed == index {
            passed += 1;
        }
    });
    if passed == 0 {
        (0..before.0).for_each(|_| meters.refuse());
        return Some(reason);
    }
    if segment::keep(packet, passed).is_err() {
        return None;
    }
    let after = wire::frames(packet);
    let gone = before.0 - after.0;
    if gone > 0 {
        (0..gone).for_each(|_| meters.refuse());
        context.counters.drops[reason as usize].add(gone);
        context.counters.created.add(gone);
        if let Some(interface) = context.root.interfaces.get(packet.interface() as usize) {
            interface.counters[context.worker].dropped.add(gone, before.1 - after.1);
        }
    }
    None
}

/// The lengths of the segments of a packet.
pub(super) fn lengths(packet: &Packet, counted: Octets) -> impl Iterator<Item = u64> + Clone + use<> {
    let ((packets, octets), own) = match counted {
        Octets::FromIp => (wire::counts(packet), packet.len() - packet.l3_offset()),
        Octets::OfFrame => (wire::frames(packet), packet.len()),
    };
    // The packet has them once, and each segment once.
    let headers = (octets - own as u64).checked_div(packets - 1).unwrap_or(0);
    let payload = own as u64 - headers;
    let segment = if packets > 1 { packet.offload().segment.into() } else { payload };
    (0..packets).map(move |index| headers + segment.min(payload - index * segment))
}
