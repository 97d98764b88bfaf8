//! `bridge-forward` and `bridge-output`: finds the port of each frame.
//!
//! Stations of all frames of a vector are learned before any frame is looked up. So all frames of a vector to one station take the
//! same way, and keep their order.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::MacAddress;
use weir_table::mac::Learned;

use super::super::Context;
use super::egress::{Egress, Egresses, may};
use super::flood::{self, Flooded, Kind};
use super::frame::{Ingress, Ingresses, is_group, stations};
use super::own::own;
use crate::graph::record::{BridgedTo, Fate};
use crate::node::Node;
use crate::reason::Reason;
use crate::root::Root;
use crate::root::bridge::{Bridge, Port, number, second};

/// The distance at which buckets of MAC tables are prefetched.
const AHEAD: usize = 16;

/// Forwards frames that came in by ports of bridges.
#[inline(never)]
pub(in super::super) fn forward(context: &mut Context<'_>, pieces: &mut Vector, vector: &mut Vector, frame: &Indices) {
    let now = second(context.now);
    let places = frame.places();
    let (mut own, mut ahead_of) = (Ingresses::new(context.root), Ingresses::new(context.root));
    for (index, &place) in places.iter().enumerate() {
        if let Some(&ahead) = places.get(index + AHEAD) {
            prefetch(&mut ahead_of, &vector[ahead]);
        }
        if let Err(reason) = learn(context, own.of(&vector[place]), &vector[place], now) {
            vector[place].set_reason(reason.number());
        }
    }
    let mut own = Ingresses::new(context.root);
    dispatch(context, pieces, vector, frame, |packet| own.of(packet));
}

/// Forwards frames that leave by the gateway's own stations on bridges.
pub(in super::super) fn output(context: &mut Context<'_>, pieces: &mut Vector, vector: &mut Vector, frame: &Indices) {
    let root = context.root;
    dispatch(context, pieces, vector, frame, |packet| station_of(root, packet));
}

/// The bridge of a frame of the gateway, and the gateway's station as its port.
fn station_of<'r>(root: &'r Root, packet: &Packet) -> Option<Ingress<'r>> {
    let adjacency = root.adjacencies.get(packet.forwarding() as usize)?;
    let index = root.interfaces.get(adjacency.interface as usize)?.bridge.station;
    let port = Port { interface: adjacency.interface, group: 0 };
    // It is no port of the bridge, and nothing is learned from its frames.
    Some(Ingress { index, bridge: root.bridges.get(index)?, port, number: u16::MAX })
}

#[inline(always)]
fn prefetch(own: &mut Ingresses<'_>, packet: &Packet) {
    if let (Some(Ingress { bridge, .. }), Some((destination, source))) = (own.of(packet), stations(packet)) {
        bridge.macs.prefetch(destination);
        bridge.macs.prefetch(source);
    }
}

/// Learns the station that sent a frame. A frame of a station that may not be where it is goes no further.
#[inline(always)]
fn learn(context: &Context<'_>, own: Option<Ingress<'_>>, packet: &Packet, now: u32) -> Result<(), Reason> {
    let Some(Ingress { bridge, number, .. }) = own else { return Err(Reason::InterfaceGone) };
    let Some((_, source)) = stations(packet) else { return Err(Reason::TruncatedEthernet) };
    if !bridge.learns {
        return match bridge.macs.is_static_elsewhere(source, number) {
            true => note(context, bridge, Learned::Static, (source, number)),
            false => Ok(()),
        };
    }
    let may_move = || match &bridge.moves {
        Some(limit) => may(limit, context, (1, packet.len() as u64)),
        None => true,
    };
    match bridge.macs.learn(source, number, now, may_move) {
        Learned::Known => Ok(()),
        other => note(context, bridge, other, (source, number)),
    }
}

/// Counts a frame of a station that was not where it is now.
#[cold]
fn note(context: &Context<'_>, bridge: &Bridge, learned: Learned, (source, port): (u64, u16)) -> Result<(), Reason> {
    let Some(counters) = bridge.counters.get(context.worker) else { return Ok(()) };
    if matches!(learned, Learned::Moved | Learned::Held | Learned::Static) {
        counters.mover.set(source << 16 | u64::from(port));
    }
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

/// The way of a frame.
enum To<'r> {
    /// Out by an interface.
    Port(Egress<'r>, u32),
    /// To the gateway's own station.
    Own,
    /// To all ports.
    All(Kind),
}

/// Sends each frame to its port. `source` returns the bridge of a frame, and the port that the frame came in by.
#[inline(always)]
fn dispatch<'a>(
    context: &mut Context<'a>,
    pieces: &mut Vector,
    vector: &mut Vector,
    frame: &Indices,
    mut source: impl FnMut(&Packet) -> Option<Ingress<'a>>,
) {
    let root = context.root;
    let now = second(context.now);
    let mut all = None;
    let mut known = Indices::new();
    let mut egresses = Egresses::new(root);
    let mut tally = Tally { worker: context.worker, bridge: None, known: 0 };
    for &place in frame.places() {
        let packet = &mut vector[place];
        if packet.reason() != 0 {
            context.next.push(Node::Drop, place);
            continue;
        }
        let Some(Ingress { index, bridge, port: from, .. }) = source(packet) else {
            context.next.refuse(packet, place, Reason::InterfaceGone);
            continue;
        };
        match way(&mut egresses, bridge, &from, packet, now) {
            Ok(To::Port(egress, number)) => {
                tally.add(bridge);
                if context.recorder.is_on() {
                    context.record(packet, Fate::Bridged { bridge: index, to: BridgedTo::Port(number) });
                }
                match egress.leave(root, packet) {
                    Ok(Node::Output) => known.push(place),
                    Ok(node) => context.next.push(node, place),
                    Err(reason) => context.next.refuse(packet, place, reason),
                }
            }
            Ok(To::Own) => own(context, packet, place, (index, bridge)),
            Ok(To::All(kind)) => {
                let all = all.get_or_insert_with(flood::List::new);
                all.push(Flooded { place, bridge: index, from, kind, spares: false });
            }
            Err(reason) => context.next.refuse(packet, place, reason),
        }
    }
    tally.note();
    context.next.extend(Node::Output, &known);
    if let Some(all) = all {
        flood::run(context, pieces, vector, &all);
    }
}

/// Frames to known stations, counted together as long as they are of one bridge.
struct Tally<'r> {
    worker: usize,
    bridge: Option<&'r Bridge>,
    known: u64,
}

impl<'r> Tally<'r> {
    #[inline(always)]
    fn add(&mut self, bridge: &'r Bridge) {
        if !self.bridge.is_some_and(|own| std::ptr::eq(own, bridge)) {
            self.note();
            *self = Tally { bridge: Some(bridge), known: 0, ..*self };
        }
        self.known += 1;
    }

    #[inline(never)]
    fn note(&self) {
        if let Some(counters) = self.bridge.and_then(|bridge| bridge.counters.get(self.worker)) {
            counters.known.add(self.known);
        }
    }
}

#[inline(always)]
fn way<'r>(
    egresses: &mut Egresses<'r>,
    bridge: &Bridge,
    from: &Port,
    packet: &Packet,
    now: u32,
) -> Result<To<'r>, Reason> {
    let (destination, _) = stations(packet).ok_or(Reason::TruncatedEthernet)?;
    if is_group(destination) {
        let is_broadcast = destination == number(MacAddress::BROADCAST.0);
        return Ok(To::All(if is_broadcast { Kind::Broadcast } else { Kind::Multicast }));
    }
    if destination == bridge.own_mac && bridge.has_station() {
        return if from.interface == bridge.station { Err(Reason::BridgeSamePort) } else { Ok(To::Own) };
    }
    let port = bridge.macs.lookup(destination, now).and_then(|port| bridge.port(port));
    match port.and_then(|port| Some((port, egresses.of(port)?))) {
        Some((port, egress)) if from.may_reach(port) => Ok(To::Port(egress, port.interface)),
        Some((port, _)) if port.interface == from.interface => Err(Reason::BridgeSamePort),
        Some(_) => Err(Reason::BridgeSplitHorizon),
        None => Ok(To::All(Kind::Unknown)),
    }
}
