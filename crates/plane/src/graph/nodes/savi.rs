//! First come, first served (RFC 6620): reports the addresses that stations claim to the control side, which says whose they are. Nodes
//! only report, and drop what is not permitted.

use std::net::{IpAddr, Ipv6Addr};

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::wire::nd::{Fields, Message};
use weir_packet::wire::{MacAddress, icmpv6, ipv6, protocol};

use super::{Context, link};
use crate::graph::events::{Claim, Event, MOST_PREFIXES};
use crate::root::bindings::Bound;
use crate::root::{Interface, Root};

/// Reports a message of neighbour discovery, if it is a claim: a solicitation of duplicate address detection, or an advertisement
/// from behind a trusted interface.
#[cold]
pub(super) fn discovered(context: &mut Context<'_>, packet: &Packet, source: Ipv6Addr, fields: &Fields) {
    let root = context.root;
    let number = packet.interface();
    let Some(interface) = root.interfaces.get(number as usize) else { return };
    if root.bindings.lists.get(usize::from(interface.bindings)).is_none_or(|bound| !bound.watches) {
        return;
    }
    let (address, claim) = match *fields {
        Fields::NeighborSolicitation { target, .. } if source.is_unspecified() => (target, Claim::Solicited),
        Fields::NeighborAdvertisement { target, .. } if interface.slaac_trusted => (target, Claim::Advertised),
        _ => return,
    };
    // Before any report: else a flood would fill the ring to the control side.
    if !context.limits.link(number).hear.admit(context.now) {
        context.counters.events_lost.add(1);
        return;
    }
    report(context, packet, link::station(packet), (address, claim));
}

/// Reports the prefixes of a router advertisement from behind a trusted interface (RFC 6620, 3.2.1).
#[cold]
pub(super) fn advertised(context: &mut Context<'_>, packet: &Packet, message: &Message<'_>) {
    let root = context.root;
    let number = packet.interface();
    let Some(interface) = root.interfaces.get(number as usize).filter(|own| own.slaac_trusted) else { return };
    let watches = root.bindings.lists.get(usize::from(interface.bindings)).is_some_and(|bound| bound.watches);
    if !watches || message.prefixes().next().is_none() {
        return;
    }
    // Before any report: else a flood would fill the ring to the control side.
    if !context.limits.link(number).hear.admit(context.now) {
        context.counters.events_lost.add(1);
        return;
    }
    for prefix in message.prefixes().take(MOST_PREFIXES) {
        context.events.tell(Event::Prefix { interface: number, prefix }, &context.counters.events_lost);
    }
}

/// Reports a packet by which a station claims an address that it may not use yet.
#[cold]
pub(super) fn used(
    context: &mut Context<'_>,
    packet: &Packet,
    bound: &Bound,
    (mac, address): (MacAddress, IpAddr),
    how: Claim,
) {
    let IpAddr::V6(address) = address else { return };
    let number = packet.interface();
    let is_trusted = context.root.interfaces.get(number as usize).is_none_or(|own| own.slaac_trusted);
    // Packets have a limit of their own, so that a flood of them leaves the messages of neighbour discovery alone. A station sends
    // more of them: that one is not reported is no loss.
    if bound.watches && !is_trusted && context.limits.link(number).claim.admit(context.now) {
        report(context, packet, mac, (address, how));
    }
}

/// A frame is a solicitation of duplicate address detection. Bridges send these to no port whose list learns by first use (RFC 6620,
/// 3.2.3): the control side passes them on to the station that has the address.
pub(super) fn is_solicitation(packet: &Packet) -> bool {
    let parsed = packet.parsed();
    let is_icmp = parsed.protocol == protocol::ICMPV6 && parsed.flags.contains(ParseFlags::IP6 | ParseFlags::L4);
    let unspecified = || packet.l3_header::<{ ipv6::LENGTH }>().is_some_and(|header| header[8..24] == [0; 16]);
    is_icmp && parsed.transport(packet.data()).first() == Some(&icmpv6::kind::NEIGHBOR_SOLICITATION) && unspecified()
}

/// An interface gets no solicitations of duplicate address detection that bridges flood.
pub(super) fn is_spared(root: &Root, interface: &Interface) -> bool {
    root.bindings.lists.get(usize::from(interface.bindings)).is_some_and(|bound| bound.is_first_come)
}

fn report(context: &mut Context<'_>, packet: &Packet, mac: MacAddress, (address, claim): (Ipv6Addr, Claim)) {
    let event = Event::Claim { interface: packet.interface(), mac, address, claim };
    context.events.tell(event, &context.counters.events_lost);
}
