//! `output`: hands packets to the egress ports.

use weir_packet::packet::Packet;
use weir_packet::parse;
use weir_packet::vector::{Indices, VECTOR, Vector};

use super::transmission::{self, Lengths};
use super::{Context, captured, session, supers, wire};
use crate::graph::flags::ORIGINATED;
use crate::graph::nesting;
use crate::graph::outlet::Outlet;
use crate::graph::record::Fate;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::{BRIDGE, NONE, TUNNEL};

/// Sorts packets by egress port, and sends each port its own, in the order in which they arrived.
pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    if context.taps.is_active() {
        captured::leave(context, vector, frame);
    }
    let adjacencies = context.root.adjacencies.view();
    let mut lengths = Lengths::new();
    let mut ports = [NONE; VECTOR];
    let (mut only, mut several, mut supers) = (None, false, false);
    for &place in frame.places() {
        let packet = &vector[place];
        let way = adjacencies.get(packet.forwarding());
        let (port, interface) = way.map_or((NONE, NONE), |adjacency| (adjacency.port, adjacency.interface));
        lengths.set(place, packet, interface);
        ports[usize::from(place)] = port;
        supers |= may_be_super(packet);
        several |= *only.get_or_insert(port) != port;
    }
    let Some(only) = only else { return };
    if supers {
        lengths.set_supers(vector, frame);
    }
    if context.sessions.is_active() {
        frame.places().iter().for_each(|&place| session::pass(context, &vector[place]));
    }
    if !several && only < BRIDGE {
        return send(context, vector, frame, (only as usize, supers), &mut lengths);
    }
    for &place in frame.places() {
        match context.next.ports.get_mut(ports[usize::from(place)] as usize) {
            Some(port) => port.push(place),
            None if ports[usize::from(place)] == TUNNEL => into_tunnel(context, &mut vector[place], place),
            None if ports[usize::from(place)] == BRIDGE => onto_bridge(context, &mut vector[place], place),
            None => context.next.refuse(&mut vector[place], place, Reason::NoPort),
        }
    }
    for port in 0..context.next.ports.len() {
        let frame = std::mem::take(&mut context.next.ports[port]);
        if !frame.is_empty() {
            send(context, vector, &frame, (port, supers), &mut lengths);
        }
    }
}

/// Sends packets by a port; what it does not send is dropped.
pub(super) fn transmit(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices, port: usize) {
    if context.taps.is_active() {
        captured::leave(context, vector, frame);
    }
    let adjacencies = context.root.adjacencies.view();
    let mut lengths = Lengths::new();
    let mut supers = false;
    for &place in frame.places() {
        let packet = &vector[place];
        supers |= may_be_super(packet);
        let interface = adjacencies.get(packet.forwarding()).map_or(NONE, |adjacency| adjacency.interface);
        lengths.set(place, packet, interface);
    }
    if supers {
        lengths.set_supers(vector, frame);
    }
    send(context, vector, frame, (port, supers), &mut lengths);
}

/// A packet is a super-packet, or may become part of one at interfaces that merge packets which were in a tunnel.
#[inline(always)]
fn may_be_super(packet: &Packet) -> bool {
    packet.is_to_be_segmented() | (nesting::taken_off(packet) > 0)
}

/// Sends packets by a port. `supers`: some of them may be super-packets, or parts of one.
fn send(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    (port, supers): (usize, bool),
    lengths: &mut Lengths,
) {
    let admitted;
    let mut frame = frame;
    if context.root.ethertypes_out {
        admitted = admit(context, vector, frame, lengths);
        frame = &admitted;
    }
    if context.recorder.is_on() {
        for &place in frame.places() {
            record(context, vector, place);
        }
    }
    if supers | context.root.merges_all {
        let outlet = context.transmitters.get(port).and_then(Option::as_ref);
        if let Some(takes) = outlet.and_then(Outlet::segmentation) {
            return supers::send(context, vector, frame, lengths, (port, takes));
        }
    }
    transmission::hand_over(context, vector, frame, port, lengths);
}

/// Sends a packet of the interface of a tunnel into the tunnel, if the interface lets it out.
#[cold]
fn into_tunnel(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    let number = context.root.adjacencies.get(packet.forwarding() as usize).map_or(NONE, |own| own.interface);
    if context.root.ethertypes_out && !is_listed(context, packet, number) {
        return context.next.refuse(packet, place, Reason::AclEthertype);
    }
    context.next.push(Node::TunnelEncap, place);
}

/// Sends a frame of the gateway's own station to the bridge, if the interface lets it out.
#[cold]
fn onto_bridge(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    let number = context.root.adjacencies.get(packet.forwarding() as usize).map_or(NONE, |own| own.interface);
    if context.root.ethertypes_out && !is_listed(context, packet, number) {
        return context.next.refuse(packet, place, Reason::AclEthertype);
    }
    if let Some(interface) = context.root.interfaces.get(number as usize) {
        interface.counters[context.worker].tx.add(1, packet.len() as u64);
    }
    // The ports that it leaves by have lists of their own.
    session::has_passed(packet);
    context.next.push(Node::BridgeOutput, place);
}

/// Drops the frames of whose ethertype their interface lets none out; gives the others.
#[cold]
fn admit(context: &mut Context<'_>, vector: &Vector, frame: &Indices, lengths: &Lengths) -> Indices {
    let mut admitted = Indices::new();
    for &place in frame.places() {
        let packet = &vector[place];
        match is_listed(context, packet, lengths.interface(place)) {
            true => admitted.push(place),
            false => super::discard(context, packet, Reason::AclEthertype),
        }
    }
    admitted
}

/// An interface lets frames of the ethertype of a frame out; one that it does not let out is counted.
#[cold]
fn is_listed(context: &mut Context<'_>, packet: &Packet, number: u32) -> bool {
    let interface = context.root.interfaces.get(number as usize);
    let named = interface.and_then(|interface| Some((interface, interface.ethertypes_out.as_deref()?)));
    let Some((interface, list)) = named else { return true };
    if parse::ethernet(packet.data()).is_ok_and(|l2| list.contains(&l2.ethertype)) {
        return true;
    }
    interface.counters[context.worker].ethertypes.1.add(wire::packets(packet));
    if !packet.state().contains(ORIGINATED) {
        context.record(packet, Fate::Unlisted { interface: number, output: true });
    }
    false
}

#[cold]
fn record(context: &mut Context<'_>, vector: &Vector, place: u8) {
    let packet = &vector[place];
    let adjacency = context.root.adjacencies.get(packet.forwarding() as usize);
    if let Some(interface) = adjacency.map(|adjacency| adjacency.interface) {
        let created = packet.state().contains(ORIGINATED);
        context.record(packet, Fate::Transmitted { interface, created });
    }
}
