//! Flooding: a frame leaves by all ports that it may reach.
//!
//! Each port but one gets a copy; the last port, or the gateway's own station, gets the frame itself. Copies leave at once, a port
//! at a time, before other frames of the vector. Copies for ports with egress lists and for tunnels go round again instead, as they
//! have nodes to pass.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, VECTOR, Vector};

use super::super::stage::Stage;
use super::super::{Context, discard, output, savi, wire};
use super::egress::{is_too_long, leave, may};
use super::frame::open_port;
use super::own::own;
use crate::graph::record::{BridgedTo, Fate};
use crate::graph::session::Carried;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::bridge::{Bridge, Port};
use crate::root::{Interface, TUNNEL};

/// Why a frame is flooded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its station is not known.
    Unknown,
    /// It goes to all stations.
    Broadcast,
    /// It goes to a group of stations.
    Multicast,
}

/// A frame to be flooded.
#[derive(Clone, Copy)]
pub(super) struct Flooded {
    pub(super) place: u8,
    /// The number of its bridge.
    pub(super) bridge: u16,
    /// The port that it came in by.
    pub(super) from: Port,
    pub(super) kind: Kind,
    /// It goes to no port whose list learns by first use.
    pub(super) spares: bool,
}

/// The frames of a vector that are flooded.
pub(super) struct List {
    all: [Flooded; VECTOR],
    length: usize,
}

impl List {
    const NOTHING: Flooded =
        Flooded { place: 0, bridge: 0, from: Port { interface: 0, group: 0 }, kind: Kind::Unknown, spares: false };

    pub(super) fn new() -> List {
        List { all: [List::NOTHING; VECTOR], length: 0 }
    }

    /// Adds a frame; there are at most as many as a vector has packets.
    pub(super) fn push(&mut self, flooded: Flooded) {
        if let Some(slot) = self.all.get_mut(self.length) {
            *slot = flooded;
            self.length += 1;
        }
    }
}

/// No port.
const NOWHERE: u16 = u16::MAX;

/// Floods frames. `pieces` is empty before and after.
#[cold]
pub(super) fn run(context: &mut Context<'_>, pieces: &mut Vector, vector: &mut Vector, list: &List) {
    for run in list.all[..list.length].chunk_by(|one, other| one.bridge == other.bridge) {
        // All of them have a bridge.
        let Some(bridge) = run.first().and_then(|first| context.root.bridges.get(first.bridge)) else { continue };
        let mut admitted = List::new();
        for flooded in run {
            match admit(context, bridge, flooded, &vector[flooded.place]) {
                Ok(()) => {
                    let spares = flooded.kind == Kind::Multicast && savi::is_solicitation(&vector[flooded.place]);
                    admitted.push(Flooded { spares, ..*flooded });
                }
                Err(reason) => context.next.refuse(&mut vector[flooded.place], flooded.place, reason),
            }
        }
        flood(context, pieces, vector, &admitted.all[..admitted.length], bridge);
    }
}

/// Checks whether a bridge floods a frame, and counts it.
fn admit(context: &Context<'_>, bridge: &Bridge, flooded: &Flooded, packet: &Packet) -> Result<(), Reason> {
    let floods = match flooded.kind {
        Kind::Unknown => bridge.floods.unknown,
        Kind::Broadcast => bridge.floods.broadcast,
        Kind::Multicast => bridge.floods.multicast,
    };
    // The gateway's own station gets its frames in any case.
    if !floods && !is_for_own(bridge, flooded) {
        return Err(Reason::BridgeFloodOff);
    }
    if let Some(limit) = &bridge.storm
        && !may(limit, context, wire::frames(packet))
    {
        if let Some(counters) = bridge.counters.get(context.worker) {
            counters.storm.add(1);
        }
        return Err(Reason::BridgeStorm);
    }
    if let Some(counters) = bridge.counters.get(context.worker) {
        let counter = match flooded.kind {
            Kind::Unknown => &counters.unknown,
            Kind::Broadcast => &counters.broadcast,
            Kind::Multicast => &counters.multicast,
        };
        counter.add(1);
    }
    Ok(())
}

/// The gateway's own station gets a frame of this kind.
fn is_for_own(bridge: &Bridge, flooded: &Flooded) -> bool {
    bridge.has_station() && flooded.from.interface != bridge.station && flooded.kind != Kind::Unknown
}

fn flood(context: &mut Context<'_>, pieces: &mut Vector, vector: &mut Vector, run: &[Flooded], bridge: &Bridge) {
    let root = context.root;
    let reaches = |flooded: &Flooded, port: &Port| {
        let floods = match flooded.kind {
            Kind::Unknown => bridge.floods.unknown,
            Kind::Broadcast => bridge.floods.broadcast,
            Kind::Multicast => bridge.floods.multicast,
        };
        floods && flooded.from.may_reach(port)
    };
    let is_spared = |flooded: &Flooded, interface: &Interface| flooded.spares && savi::is_spared(root, interface);
    let goes = |flooded: &Flooded, port: &Port| {
        open_port(root, port).is_some_and(|own| reaches(flooded, port) && !is_spared(flooded, own))
    };
    // The port that takes each frame itself.
    let mut last = [NOWHERE; VECTOR];
    for (number, port) in (0..).zip(&*bridge.ports) {
        let Some(interface) = open_port(root, port) else { continue };
        for (last, flooded) in last.iter_mut().zip(run) {
            let fits = || !is_too_long(&vector[flooded.place], interface);
            let goes = reaches(flooded, port) && !is_spared(flooded, interface);
            if goes && !is_for_own(bridge, flooded) && fits() {
                *last = number;
            }
        }
    }
    for (number, port) in (0..).zip(&*bridge.ports) {
        let Some(interface) = open_port(root, port) else { continue };
        for (&last, flooded) in last.iter().zip(run) {
            if last != number && reaches(flooded, port) && !is_spared(flooded, interface) {
                copy(context, pieces, &vector[flooded.place], interface, bridge);
            }
        }
        send(context, pieces, interface);
    }
    for (&last, flooded) in last.iter().zip(run) {
        let (place, index) = (flooded.place, flooded.bridge);
        let packet = &mut vector[place];
        if context.recorder.is_on() {
            let ports = bridge.ports.iter().filter(|port| goes(flooded, port)).count() as u16;
            context.record(packet, Fate::Bridged { bridge: index, to: BridgedTo::All(ports) });
        }
        let interface = bridge.port(last).and_then(|port| open_port(root, port));
        match interface {
            _ if is_for_own(bridge, flooded) => own(context, packet, place, (index, bridge)),
            None => {
                // If a port is there, the frame is too long for it.
                let is_long = bridge.ports.iter().any(|port| goes(flooded, port));
                let reason = if is_long { Reason::MtuExceeded } else { Reason::BridgeNoPort };
                context.next.refuse(packet, place, reason);
            }
            Some(interface) => match leave(root, packet, interface) {
                Ok(node) => context.next.push(node, place),
                Err(reason) => context.next.refuse(packet, place, reason),
            },
        }
    }
}

/// Makes a copy of a frame for a port. There is none where buffers have run out, or where it would exceed the MTU.
fn copy(context: &mut Context<'_>, pieces: &mut Vector, packet: &Packet, interface: &Interface, bridge: &Bridge) {
    let counters = bridge.counters.get(context.worker);
    if is_too_long(packet, interface) {
        counters.inspect(|counters| counters.lost.add(1));
        return;
    }
    let Some(mut copy) = packet.duplicate(context.cache) else {
        counters.inspect(|counters| counters.lost.add(1));
        return;
    };
    // The frame itself may belong to a session.
    Carried::clear(&mut copy);
    copy.set_translation(0);
    counters.inspect(|counters| counters.copies.add(1));
    context.counters.created.add(1);
    let refused = match leave(context.root, &mut copy, interface) {
        Ok(Node::Output) if interface.port != TUNNEL => {
            if pieces.room() == 0 {
                send(context, pieces, interface);
            }
            // There is room now.
            let _ = pieces.push(copy);
            return;
        }
        Ok(_) => {
            copy.set_resume(Stage::Bridged as u8);
            context.requeue.push(copy).err().map(|copy| (copy, Reason::NoBuffer))
        }
        Err(reason) => Some((copy, reason)),
    };
    if let Some((mut copy, reason)) = refused {
        discard(context, &copy, reason);
        copy.recycle(context.cache);
    }
}

/// Sends copies by a port.
fn send(context: &mut Context<'_>, pieces: &mut Vector, interface: &Interface) {
    if pieces.is_empty() {
        return;
    }
    let mut frame = Indices::new();
    frame.fill(pieces.len());
    output::transmit(context, pieces, &frame, interface.port as usize);
    pieces.filled().iter_mut().for_each(|piece| piece.recycle(context.cache));
    pieces.clear();
}
