//! A worker's way out by a port, and the account of the packets that took it.

use std::collections::VecDeque;

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::packet::Packet;
use weir_packet::segment;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_port::{Segmentation, Transmitter};

use crate::graph::counters::WorkerCounters;
use crate::graph::flags::ORIGINATED;
use crate::reason::Reason;
use crate::root::{NONE, Root};

/// A transmit queue, and whether it is to be kicked.
///
/// A packet counts as transmitted once the port has sent it. Some ports send when they are kicked, after the graph has run:
/// their packets count as held until then.
pub(crate) struct Outlet {
    queue: Box<dyn Transmitter>,
    /// The super-packets that it takes; `None`: packets end there.
    segmentation: Option<Segmentation>,
    /// It was given packets in the vector under way, or some of before still wait in it.
    due: bool,
    /// Places of the last frame whose packets the port cannot send.
    refused: Indices,
    /// Packets that the queue took and that it has not reported yet, in order.
    unsettled: VecDeque<Parcel>,
}

/// A packet on its way out, as it is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parcel {
    /// Number of the interface that it came in by; [`NONE`]: it was made here.
    from: u32,
    /// Where it goes.
    to: Destination,
    /// Packets on the wire: the segments of a super-packet.
    packets: u32,
    /// Octets of their frames.
    length: u32,
}

/// Where a packet goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Destination {
    /// Out by the interface of this number.
    Link(u32),
    /// To the host, from the interface of this number.
    Host(u32),
}

impl Parcel {
    pub(crate) fn new(packet: &Packet, to: Destination) -> Parcel {
        let created = packet.state().contains(ORIGINATED);
        let (packets, length) = segment::on_wire(packet);
        Parcel { from: if created { NONE } else { packet.interface() }, to, packets, length }
    }

    fn count(self, sent: bool, books: &Books<'_>) {
        let counters = |number: u32| Some(&books.root.interfaces.get(number as usize)?.counters[books.worker]);
        match self.to {
            _ if !sent => {
                books.counters.drops[Reason::TransmitFailed as usize].add(1);
                if let Some(interface) = counters(self.from) {
                    interface.dropped.add(self.packets.into(), self.length.into());
                }
            }
            Destination::Link(to) => {
                books.counters.transmitted.add(1);
                if let Some(interface) = counters(to) {
                    interface.tx.add(self.packets.into(), self.length.into());
                }
            }
            Destination::Host(from) => {
                books.counters.local.add(1);
                if let Some(interface) = counters(from) {
                    interface.punt.add(self.packets.into(), self.length.into());
                }
            }
        }
    }
}

/// Where a worker's packets are counted.
pub(crate) struct Books<'a> {
    pub(crate) root: &'a Root,
    pub(crate) counters: &'a WorkerCounters,
    pub(crate) worker: usize,
}

/// The result of a port's transmission of packets.
pub(crate) struct Transmission<'a> {
    /// How many of them it took, the refused ones included: there was no room for the others.
    pub(crate) taken: usize,
    /// The indices of packets that it cannot send.
    pub(crate) refused: &'a Indices,
    /// The others that it took are sent; else they are counted later.
    pub(crate) at_once: bool,
}

/// Parts of a worker that a transmission uses.
pub(crate) struct Sender<'a> {
    pub(crate) cache: &'a mut Cache,
    pub(crate) counters: &'a WorkerCounters,
    pub(crate) now: Time,
}

impl Outlet {
    pub(crate) fn new(queue: Box<dyn Transmitter>) -> Outlet {
        let room = if queue.sends_later() { 8 * VECTOR } else { 0 };
        let segmentation = queue.segmentation();
        Outlet { queue, segmentation, due: false, refused: Indices::new(), unsettled: VecDeque::with_capacity(room) }
    }

    /// Transmits packets as [`Transmitter::transmit`] does. `to` returns the destination of each packet.
    #[inline]
    pub(crate) fn transmit(
        &mut self,
        vector: &mut Vector,
        frame: &Indices,
        sender: Sender<'_>,
        to: impl Fn(u8, &Packet) -> Destination,
    ) -> Transmission<'_> {
        // A queue that takes nothing needs the kick most.
        self.due |= !frame.is_empty();
        self.refused.clear();
        let (before, at_once) = (self.unsettled.len(), !self.queue.sends_later());
        if !at_once {
            // Before the transmission: the queue may take packets out of the vector.
            let parcel = |&place: &u8| Parcel::new(&vector[place], to(place, &vector[place]));
            self.unsettled.extend(frame.places().iter().map(parcel));
        }
        let taken = self.queue.transmit(vector, frame, &mut self.refused, sender.cache, sender.now).min(frame.len());
        if !at_once {
            self.unsettled.truncate(before + taken);
            if !self.refused.is_empty() {
                self.unrefuse(before, frame);
            }
            sender.counters.entrusted.add((self.unsettled.len() - before) as u64);
        }
        Transmission { taken, refused: &self.refused, at_once }
    }

    /// Forgets the parcels of refused packets: nothing will be reported of them.
    #[cold]
    fn unrefuse(&mut self, before: usize, frame: &Indices) {
        let taken = self.unsettled.split_off(before);
        let mut parcels = taken.into_iter().zip(frame.places());
        self.unsettled.extend(
            parcels.by_ref().filter_map(|(parcel, place)| (!self.refused.places().contains(place)).then_some(parcel)),
        );
    }

    /// Lets go what it was given, if there is anything: not for nodes, as this may be a system call.
    #[inline]
    pub(crate) fn kick(&mut self, books: &Books<'_>) {
        if self.due {
            self.queue.kick();
            self.due = self.queue.is_pending();
            self.settle(books);
        }
    }

    /// Pushes out what is buffered. Failures are counted by the port.
    pub(crate) fn flush(&mut self, books: &Books<'_>) {
        let _ = self.queue.flush();
        self.due = self.queue.is_pending();
        self.settle(books);
    }

    /// Pushes out what is buffered, at last: what the port has no room for is dropped.
    pub(crate) fn close(mut self, books: &Books<'_>) {
        self.queue.close();
        self.settle(books);
        // A queue that forgets to report packets has not sent them.
        let lost = self.unsettled.len();
        self.unsettled.drain(..).for_each(|parcel| parcel.count(false, books));
        books.counters.settled.add(lost as u64);
    }

    /// Counts the packets that the queue reports.
    fn settle(&mut self, books: &Books<'_>) {
        while let Some(outcome) = self.queue.outcome() {
            let packets = outcome.packets.min(self.unsettled.len());
            self.unsettled.drain(..packets).for_each(|parcel| parcel.count(outcome.sent, books));
            books.counters.settled.add(packets as u64);
        }
    }

    /// The super-packets that the port takes; `None`: packets end there.
    #[inline(always)]
    pub(crate) fn segmentation(&self) -> Option<Segmentation> {
        self.segmentation
    }

    /// Places of the last frame whose packets the port cannot send.
    pub(crate) fn refused(&self) -> &Indices {
        &self.refused
    }

    /// Something waits in it for another kick.
    pub(crate) fn is_pending(&self) -> bool {
        self.due
    }
}
