//! Packets that a port is given, and how they count.

use weir_packet::packet::Packet;
use weir_packet::segment;
use weir_packet::vector::{Indices, VECTOR, Vector};

use super::Context;
use crate::graph::outlet::{Destination, Sender};
use crate::reason::Reason;
use crate::root::{NONE, Root};

/// The way of the packets at each place, as it counts: looked at before a port may take packets out of their places.
pub(super) struct Lengths {
    of: [Length; VECTOR],
    /// For each place, the packets on the wire beside the first; `None`: no packet is a super-packet.
    more: Option<[u16; VECTOR]>,
}

/// The amounts that a packet counts.
#[derive(Clone, Copy)]
struct Length {
    /// The interface that it leaves by.
    interface: u32,
    /// Octets of its frame, or of the frames of its segments.
    octets: u32,
}

impl Lengths {
    /// Lengths of no packets.
    pub(super) fn new() -> Lengths {
        Lengths { of: [Length { interface: NONE, octets: 0 }; VECTOR], more: None }
    }

    /// Sets the length of a packet that is no super-packet.
    #[inline(always)]
    pub(super) fn set(&mut self, place: u8, packet: &Packet, interface: u32) {
        self.of[usize::from(place)] = Length { interface, octets: packet.len() as u32 };
    }

    /// Sets the lengths of the super-packets of a frame.
    #[cold]
    #[inline(never)]
    pub(super) fn set_supers(&mut self, vector: &Vector, frame: &Indices) {
        let supers = frame.places().iter().filter(|&&place| vector[place].is_to_be_segmented());
        supers.for_each(|&place| self.set_super(place, &vector[place]));
    }

    /// Sets the length of a super-packet.
    pub(super) fn set_super(&mut self, place: u8, packet: &Packet) {
        let (packets, octets) = segment::on_wire(packet);
        self.of[usize::from(place)].octets = octets;
        // A packet of 64 KiB has fewer segments.
        self.more.get_or_insert([0; VECTOR])[usize::from(place)] = packets.saturating_sub(1) as u16;
    }

    /// The interface that the packet at a place leaves by.
    #[inline(always)]
    pub(super) fn interface(&self, place: u8) -> u32 {
        self.of[usize::from(place)].interface
    }

    /// The packets on the wire of the packet at a place, beside the first.
    pub(super) fn more(&self, place: u8) -> u32 {
        self.more.as_ref().map_or(0, |more| more[usize::from(place)].into())
    }
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
    let to = |place: u8, _: &_| Destination::Link(lengths.interface(place));
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

/// Counts what was sent, interface by interface: one addition for each run of packets.
#[inline(always)]
fn count(root: &Root, worker: usize, lengths: &Lengths, sent: &[u8]) {
    for run in sent.chunk_by(|&one, &other| lengths.interface(one) == lengths.interface(other)) {
        if let Some(interface) = root.interfaces.get(lengths.interface(run[0]) as usize) {
            let octets = run.iter().map(|&place| u64::from(lengths.of[usize::from(place)].octets)).sum();
            let more: u64 = match &lengths.more {
                None => 0,
                Some(more) => run.iter().map(|&place| u64::from(more[usize::from(place)])).sum(),
            };
            interface.counters[worker].tx.add(run.len() as u64 + more, octets);
        }
    }
}
