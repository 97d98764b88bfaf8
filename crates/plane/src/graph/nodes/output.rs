//! `output`: hands packets to the egress ports.

use weir_packet::packet::Packet;
use weir_packet::parse;
use weir_packet::segment;
use weir_packet::vector::{Indices, VECTOR, Vector};

use super::{Context, session, supers};
use crate::graph::flags::ORIGINATED;
use crate::graph::outlet::{Destination, Outlet, Sender};
use crate::graph::record::Fate;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::{NONE, Root, TUNNEL};

/// The way of the packets at each place, as it counts: looked at before a port may take packets out of their places.
pub(super) type Lengths = [Length; VECTOR];

/// The counts of a packet.
#[derive(Clone, Copy)]
pub(super) struct Length {
    /// The interface that it leaves by.
    pub(super) interface: u32,
    /// Packets on the wire: the segments of a super-packet.
    packets: u32,
    /// Octets of their frames.
    octets: u32,
}

impl Length {
    const NONE: Length = Length { interface: NONE, packets: 0, octets: 0 };

    #[inline(always)]
    pub(super) fn of(packet: &Packet, interface: u32) -> Length {
        let (packets, octets) = segment::on_wire(packet);
        Length { interface, packets, octets }
    }

    /// The packets that it counts more than another.
    pub(super) fn more_than(&self, other: &Length) -> u32 {
        self.packets.saturating_sub(other.packets)
    }
}

/// Lengths of no packets.
pub(super) fn no_lengths() -> Lengths {
    [Length::NONE; VECTOR]
}

/// Sorts packets by egress port, and sends each port its own, in the order in which they arrived.
pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let adjacencies = context.root.adjacencies.view();
    let mut lengths = [Length::NONE; VECTOR];
    let mut ports = [NONE; VECTOR];
    let (mut only, mut several) = (None, false);
    for &place in frame.places() {
        let packet = &vector[place];
        let way = adjacencies.get(packet.forwarding());
        let (port, interface) = way.map_or((NONE, NONE), |adjacency| (adjacency.port, adjacency.interface));
        lengths[usize::from(place)] = Length::of(packet, interface);
        ports[usize::from(place)] = port;
        several |= *only.get_or_insert(port) != port;
    }
    let Some(only) = only else { return };
    if context.sessions.is_active() {
        frame.places().iter().for_each(|&place| session::pass(context, &vector[place]));
    }
    if !several && only != TUNNEL {
        return send(context, vector, frame, only as usize, &mut lengths);
    }
    for &place in frame.places() {
        match context.next.ports.get_mut(ports[usize::from(place)] as usize) {
            Some(port) => port.push(place),
            None if ports[usize::from(place)] == TUNNEL => into_tunnel(context, &mut vector[place], place),
            None => context.next.refuse(&mut vector[place], place, Reason::NoPort),
        }
    }
    for port in 0..context.next.ports.len() {
        let frame = std::mem::take(&mut context.next.ports[port]);
        if !frame.is_empty() {
            send(context, vector, &frame, port, &mut lengths);
        }
    }
}

/// Sends packets by a port; what it does not send is dropped.
pub(super) fn transmit(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices, port: usize) {
    let adjacencies = context.root.adjacencies.view();
    let mut lengths = [Length::NONE; VECTOR];
    for &place in frame.places() {
        let packet = &vector[place];
        let interface = adjacencies.get(packet.forwarding()).map_or(NONE, |adjacency| adjacency.interface);
        lengths[usize::from(place)] = Length::of(packet, interface);
    }
    send(context, vector, frame, port, &mut lengths);
}

fn send(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices, port: usize, lengths: &mut Lengths) {
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
    let outlet = context.transmitters.get(port).and_then(Option::as_ref);
    if let Some(takes) = outlet.and_then(Outlet::segmentation) {
        return supers::send(context, vector, frame, lengths, (port, takes));
    }
    hand_over(context, vector, frame, port, lengths);
}

/// Hands packets to a port as they are; what it does not send is dropped.
pub(super) fn hand_over(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    port: usize,
    lengths: &Lengths,
) {
    let Context { transmitters, cache, now, counters, .. } = context;
    let Some(Some(outlet)) = transmitters.get_mut(port) else {
        frame.places().iter().for_each(|&place| super::discard(context, &vector[place], Reason::NoPort));
        return;
    };
    let to = |place: u8, _: &_| Destination::Link(lengths[usize::from(place)].interface);
    let done = outlet.transmit(vector, frame, Sender { cache, counters, now: *now }, to);
    let (taken, at_once) = (done.taken, done.at_once);
    if !done.refused.is_empty() {
        settle(context, vector, &frame.places()[..taken], port, at_once.then_some(lengths));
    } else if at_once {
        counters.transmitted.add(taken as u64);
        count(context.root, context.worker, lengths, &frame.places()[..taken]);
    }
    for &place in &frame.places()[taken..] {
        super::discard(context, &vector[place], Reason::TransmitFull);
    }
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

/// Drops the packets that a port took and cannot send. Counts the others as sent if `lengths` is given.
#[cold]
#[inline(never)]
fn settle(context: &mut Context<'_>, vector: &Vector, taken: &[u8], port: usize, lengths: Option<&Lengths>) {
    let Some(Some(outlet)) = context.transmitters.get(port) else { return };
    let refused = outlet.refused().clone();
    if let Some(lengths) = lengths {
        let mut sent = Indices::new();
        taken.iter().filter(|place| !refused.places().contains(place)).for_each(|&place| sent.push(place));
        context.counters.transmitted.add(sent.len() as u64);
        count(context.root, context.worker, lengths, sent.places());
    }
    refused.places().iter().for_each(|&place| super::discard(context, &vector[place], Reason::TransmitFailed));
}

/// Drops the frames of whose ethertype their interface lets none out; gives the others.
#[cold]
fn admit(context: &mut Context<'_>, vector: &Vector, frame: &Indices, lengths: &Lengths) -> Indices {
    let mut admitted = Indices::new();
    for &place in frame.places() {
        let packet = &vector[place];
        match is_listed(context, packet, lengths[usize::from(place)].interface) {
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
    interface.counters[context.worker].ethertypes.1.add(1);
    if !packet.state().contains(ORIGINATED) {
        context.record(packet, Fate::Unlisted { interface: number, output: true });
    }
    false
}

/// Counts what was sent, interface by interface: one addition for each run of packets.
#[inline(always)]
fn count(root: &Root, worker: usize, lengths: &Lengths, sent: &[u8]) {
    let of = |place: u8| lengths[usize::from(place)];
    for run in sent.chunk_by(|&one, &other| of(one).interface == of(other).interface) {
        if let Some(interface) = root.interfaces.get(of(run[0]).interface as usize) {
            let (mut packets, mut octets) = (0, 0);
            for &place in run {
                packets += u64::from(of(place).packets);
                octets += u64::from(of(place).octets);
            }
            interface.counters[worker].tx.add(packets, octets);
        }
    }
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
