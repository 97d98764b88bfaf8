//! Packets that a port is given, and how they count.

use weir_packet::packet::Packet;
use weir_packet::segment;
use weir_packet::vector::{Indices, VECTOR, Vector};

use super::Context;
use crate::graph::outlet::{Destination, Sender};
use crate::reason::Reason;
use crate::root::{NONE, Root};

/// The way of the packets at each place, as it counts: looked at before a port may take packets out of their places.
pub(super) type Lengths = [Length; VECTOR];

/// The amounts that a packet counts.
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
    pub(super) const NONE: Length = Length { interface: NONE, packets: 0, octets: 0 };

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
