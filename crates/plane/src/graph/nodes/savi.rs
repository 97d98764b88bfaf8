//! First come, first served (RFC 6620): reports the addresses that stations claim to the control side, which says whose they are. Nodes
//! only report, and drop what is not permitted.

use std::net::{IpAddr, Ipv6Addr};

use weir_packet::packet::Packet;
use weir_packet::wire::MacAddress;
use weir_packet::wire::nd::Fields;

use super::{Context, link};
use crate::graph::events::{Claim, Event};
use crate::root::bindings::Bound;

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

/// Reports a packet whose source the station may not use yet.
#[cold]
pub(super) fn used(context: &mut Context<'_>, packet: &Packet, bound: &Bound, mac: MacAddress, address: IpAddr) {
    let IpAddr::V6(address) = address else { return };
    let number = packet.interface();
    let is_trusted = context.root.interfaces.get(number as usize).is_none_or(|own| own.slaac_trusted);
    // Packets have a limit of their own, so that a flood of them leaves the messages of neighbour discovery alone. A station sends
    // more of them: that one is not reported is no loss.
    if bound.watches && !is_trusted && context.limits.link(number).claim.admit(context.now) {
        report(context, packet, mac, (address, Claim::Used));
    }
}

fn report(context: &mut Context<'_>, packet: &Packet, mac: MacAddress, (address, claim): (Ipv6Addr, Claim)) {
    let event = Event::Claim { interface: packet.interface(), mac, address, claim };
    context.events.tell(event, &context.counters.events_lost);
}
