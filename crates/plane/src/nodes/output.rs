//! `output`: hands packets to the egress ports.

use weir_packet::packet::Packet;
use weir_packet::vector::{Frame, VECTOR, Vector};

use super::{Context, ORIGINATED};
use crate::reason::Reason;
use crate::record::Fate;
use crate::root::{NONE, Root};

/// Sorts packets by egress port, and sends each port its own.
pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Frame) {
    let root = context.root;
    let port = |packet: &Packet| {
        let adjacency = root.adjacencies.get(packet.forwarding() as usize);
        adjacency.map_or(NONE, |adjacency| adjacency.port)
    };
    let Some(&first) = frame.places().first() else { return };
    let only = port(&vector[first]);
    if frame.places().iter().all(|&place| port(&vector[place]) == only) {
        return transmit(context, vector, frame, only as usize);
    }
    for &place in frame.places() {
        match context.next.ports.get_mut(port(&vector[place]) as usize) {
            Some(port) => port.push(place),
            None => context.next.refuse(&mut vector[place], place, Reason::NoPort),
        }
    }
    for port in 0..context.next.ports.len() {
        let frame = std::mem::take(&mut context.next.ports[port]);
        if !frame.is_empty() {
            transmit(context, vector, &frame, port);
        }
    }
}

/// Sends packets by a port; what it does not take is dropped.
pub(super) fn transmit(context: &mut Context<'_>, vector: &mut Vector, frame: &Frame, port: usize) {
    if context.recorder.is_some() {
        for &place in frame.places() {
            record(context, vector, place);
        }
    }
    // Looked at before the port may take packets out of their places.
    let mut lengths = [(NONE, 0u32); VECTOR];
    for (length, &place) in lengths.iter_mut().zip(frame.places()) {
        let packet = &vector[place];
        let adjacency = context.root.adjacencies.get(packet.forwarding() as usize);
        *length = (adjacency.map_or(NONE, |adjacency| adjacency.interface), packet.len() as u32);
    }
    let sent = match context.transmitters.get_mut(port) {
        Some(Some(transmitter)) => transmitter.transmit(vector, frame, context.cache, context.now),
        _ => 0,
    };
    context.counters.transmitted.add(sent as u64);
    count(context.root, context.worker, &lengths[..sent.min(frame.len())]);
    for &place in &frame.places()[sent..] {
        let gone = context.transmitters.get(port).is_none_or(Option::is_none);
        let reason = if gone { Reason::NoPort } else { Reason::TransmitFull };
        super::discard(context, &vector[place], reason);
    }
}

/// Counts what was sent, interface by interface: one addition for each run of packets.
#[inline]
fn count(root: &Root, worker: usize, sent: &[(u32, u32)]) {
    for run in sent.chunk_by(|one, other| one.0 == other.0) {
        if let Some(interface) = root.interfaces.get(run[0].0 as usize) {
            let bytes = run.iter().map(|&(_, length)| u64::from(length)).sum();
            interface.counters[worker].tx.add(run.len() as u64, bytes);
        }
    }
}

#[cold]
fn record(context: &mut Context<'_>, vector: &Vector, place: u8) {
    let packet = &vector[place];
    let adjacency = context.root.adjacencies.get(packet.forwarding() as usize);
    if let Some(interface) = adjacency.map(|adjacency| adjacency.interface) {
        let created = packet.flags().contains(ORIGINATED);
        context.record(packet, Fate::Transmitted { interface, created });
    }
}
