//! `bridge-forward` and `bridge-output`: finds the port of each frame.
//!
//! Stations of all frames of a vector are learned before any frame is looked up. So all frames of a vector to one station take the
//! same way, and keep their order.

use weir_packet::packet::Packet;
use weir_packet::segment;
use weir_packet::vector::{Indices, Vector};

use super::super::{Context, ethernet_input, ip_input};
use super::flood::{self, Flooded, Kind};
use super::{ingress, is_group, open_port, stations, tags};
use crate::graph::flags::ORIGINATED;
use crate::graph::record::{BridgedTo, Fate};
use crate::node::Node;
use crate::reason::Reason;
use crate::root::bridge::{Bridge, Port, number, second};
use crate::root::sav::Meters;
use crate::root::{Interface, Root};
use weir_packet::packet::State;
use weir_packet::wire::MacAddress;
use weir_table::mac::Learned;

/// The distance at which buckets of MAC tables are prefetched.
const AHEAD: usize = 16;

/// Forwards frames that came in by ports of bridges.
pub(in super::super) fn forward(context: &mut Context<'_>, pieces: &mut Vector, vector: &mut Vector, frame: &Indices) {
    let now = second(context.now);
    let places = frame.places();
    for (index, &place) in places.iter().enumerate() {
        if let Some(&ahead) = places.get(index + AHEAD) {
            prefetch(context.root, &vector[ahead]);
        }
        if let Err(reason) = learn(context, &vector[place], now) {
            vector[place].set_reason(reason.number());
        }
    }
    dispatch(context, pieces, vector, frame, ingress_of);
}

/// Forwards frames that leave by the gateway's own stations on bridges.
pub(in super::super) fn output(context: &mut Context<'_>, pieces: &mut Vector, vector: &mut Vector, frame: &Indices) {
    dispatch(context, pieces, vector, frame, station_of);
}

fn ingress_of<'r>(root: &'r Root, packet: &Packet) -> Option<(u16, &'r Bridge, Port)> {
    let (bridge, port, _) = ingress(root, packet)?;
    Some((root.interfaces.get(packet.interface() as usize)?.bridge.bridge, bridge, port))
}

/// The bridge of a frame of the gateway, and the gateway's station as its port.
fn station_of<'r>(root: &'r Root, packet: &Packet) -> Option<(u16, &'r Bridge, Port)> {
    let adjacency = root.adjacencies.get(packet.forwarding() as usize)?;
    let own = root.interfaces.get(adjacency.interface as usize)?.bridge.station;
    Some((own, root.bridges.get(own)?, Port { interface: adjacency.interface, group: 0 }))
}

#[inline(always)]
fn prefetch(root: &Root, packet: &Packet) {
    if let (Some((bridge, ..)), Some((destination, source))) = (ingress(root, packet), stations(packet)) {
        bridge.macs.prefetch(destination);
        bridge.macs.prefetch(source);
    }
}

/// Learns the station that sent a frame. A frame of a station that may not be where it is goes no further.
#[inline(always)]
fn learn(context: &mut Context<'_>, packet: &Packet, now: u32) -> Result<(), Reason> {
    let Some((bridge, _, port)) = ingress(context.root, packet) else { return Err(Reason::InterfaceGone) };
    if !bridge.learns {
        return Ok(());
    }
    let Some((_, source)) = stations(packet) else { return Err(Reason::TruncatedEthernet) };
    let may_move = || match &bridge.moves {
        Some(limit) => may(limit, context, packet),
        None => true,
    };
    match bridge.macs.learn(source, port, now, may_move) {
        Learned::Known => Ok(()),
        other => note(context, bridge, other),
    }
}

#[cold]
fn note(context: &Context<'_>, bridge: &Bridge, learned: Learned) -> Result<(), Reason> {
    let Some(counters) = bridge.counters.get(context.worker) else { return Ok(()) };
    match learned {
        Learned::Known => {}
        Learned::New => counters.learned.add(1),
        Learned::Moved => counters.moved.add(1),
        Learned::Full => counters.full.add(1),
        Learned::Held | Learned::Static => {
            counters.held.add(1);
            return Err(Reason::BridgeMove);
        }
    }
    Ok(())
}

/// A limit lets a packet pass.
#[cold]
pub(super) fn may(limit: &Meters, context: &Context<'_>, packet: &Packet) -> bool {
    let mut passes = false;
    let length = std::iter::once(packet.len() as u64);
    limit.take(0, limit.clock(context.now), length, |_, own| passes = own);
    if !passes {
        limit.refuse();
    }
    passes
}

/// The way of a frame.
enum To<'r> {
    /// Out by an interface.
    Port(&'r Interface, u32),
    /// To the gateway's own station.
    Own,
    /// To all ports.
    All(Kind),
}

/// Sends each frame to its port. `source` returns the bridge of a frame with its number, and the port that the frame came in by.
fn dispatch(
    context: &mut Context<'_>,
    pieces: &mut Vector,
    vector: &mut Vector,
    frame: &Indices,
    source: impl for<'r> Fn(&'r Root, &Packet) -> Option<(u16, &'r Bridge, Port)>,
) {
    let root = context.root;
    let now = second(context.now);
    let mut all = flood::List::new();
    let mut known = Indices::new();
    for &place in frame.places() {
        let packet = &mut vector[place];
        if packet.reason() != 0 {
            context.next.push(Node::Drop, place);
            continue;
        }
        let Some((index, bridge, from)) = source(root, packet) else {
            context.next.refuse(packet, place, Reason::InterfaceGone);
            continue;
        };
        match way(root, bridge, &from, packet, now) {
            Ok(To::Port(interface, number)) => {
                if let Some(counters) = bridge.counters.get(context.worker) {
                    counters.known.add(1);
                }
                if context.recorder.is_on() {
                    context.record(packet, Fate::Bridged { bridge: index, to: BridgedTo::Port(number) });
                }
                match leave(root, packet, interface) {
                    Ok(Node::Output) => known.push(place),
                    Ok(node) => context.next.push(node, place),
                    Err(reason) => context.next.refuse(packet, place, reason),
                }
            }
            Ok(To::Own) => own(context, packet, place, (index, bridge)),
            Ok(To::All(kind)) => all.push(Flooded { place, bridge: index, from, kind }),
            Err(reason) => context.next.refuse(packet, place, reason),
        }
    }
    context.next.extend(Node::Output, &known);
    if !all.is_empty() {
        flood::run(context, pieces, vector, &all);
    }
}

#[inline(always)]
fn way<'r>(root: &'r Root, bridge: &Bridge, from: &Port, packet: &Packet, now: u32) -> Result<To<'r>, Reason> {
    let (destination, _) = stations(packet).ok_or(Reason::TruncatedEthernet)?;
    if is_group(destination) {
        let is_broadcast = destination == number(MacAddress::BROADCAST.0);
        return Ok(To::All(if is_broadcast { Kind::Broadcast } else { Kind::Multicast }));
    }
    if destination == bridge.own_mac && bridge.has_station() {
        return if from.interface == bridge.station { Err(Reason::BridgeSamePort) } else { Ok(To::Own) };
    }
    let port = bridge.macs.lookup(destination, now).and_then(|port| bridge.port(port));
    match port.and_then(|port| Some((port, open_port(root, port)?))) {
        Some((port, interface)) if from.may_reach(port) => Ok(To::Port(interface, port.interface)),
        Some((port, _)) if port.interface == from.interface => Err(Reason::BridgeSamePort),
        Some(_) => Err(Reason::BridgeSplitHorizon),
        None => Ok(To::All(Kind::Unknown)),
    }
}

/// Has a frame leave by an interface: returns the node that it goes to.
#[inline(always)]
pub(super) fn leave(root: &Root, packet: &mut Packet, interface: &Interface) -> Result<Node, Reason> {
    let adjacency = root.adjacencies.get(interface.on_link as usize).ok_or(Reason::NoPort)?;
    if is_too_long(packet, interface) {
        return Err(Reason::MtuExceeded);
    }
    tags::put_on(packet, adjacency)?;
    packet.set_forwarding(interface.on_link);
    Ok(super::super::stage::bridged(interface, packet))
}

/// A frame carries more than the MTU of an interface.
#[inline(always)]
pub(super) fn is_too_long(packet: &Packet, interface: &Interface) -> bool {
    let length = packet.len().saturating_sub(packet.l3_offset());
    length > interface.mtu as usize && segment::longest(packet) > interface.mtu as usize
}

/// Gives a frame to the gateway's own station.
#[cold]
pub(super) fn own(context: &mut Context<'_>, packet: &mut Packet, place: u8, (index, bridge): (u16, &Bridge)) {
    let root = context.root;
    if let Some(counters) = bridge.counters.get(context.worker) {
        counters.own.add(1);
    }
    if context.recorder.is_on() {
        context.record(packet, Fate::Bridged { bridge: index, to: BridgedTo::Own });
    }
    debug_assert!(!packet.state().contains(ORIGINATED), "frames of the station do not come back to it");
    packet.set_interface(bridge.station);
    packet.set_state(State::EMPTY);
    packet.set_resume(0);
    if let Some(interface) = root.interfaces.get(bridge.station as usize) {
        interface.counters[context.worker].rx.add(1, packet.len() as u64);
    }
    let admitted = ethernet_input::admit_inner(context, packet);
    ip_input::conclude(context, packet, place, admitted);
}
