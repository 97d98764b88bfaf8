//! To the interface: short frames through the ring, long ones by a socket of their own.
//!
//! Frames are written into slots, which the kernel empties when it is called once for a vector ([`Transmitter::kick`]). A
//! long frame keeps its place between them: the slots in front of it are handed over first, then it is sent, then
//! those behind.
//!
//! # What becomes of a frame
//! The kernel takes slots in order. When it can not hand a frame to the device (its queue is full, it is down or gone), or
//! refuses the frame for what it is, it stops there, and would try the same frame again for ever. So from there on
//! frames go one by one through the second socket, which says of each what became of it. Once nothing is left, the next
//! frame is written where the kernel stopped.
//!
//! A frame counts as sent when the kernel has taken it ([`Transmitter::outcome`]), not when it is written into its slot. A
//! frame that the device cannot send for its length or kind is refused at once.
//!
//! A round may bring more than the ring holds, as fragments and packets that waited do. So when there is no room left, the
//! kernel is called once from inside [`Transmitter::transmit`]. If the ring is still full then, the device is too slow.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SendFlags;
use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::checksum;
use weir_packet::offload::{Checksum, Gso, VirtioHeader};
use weir_packet::packet::{NoRoom, Packet};
use weir_packet::vector::{Frame, VECTOR, Vector};
use weir_packet::wire::ethernet::{self, ethertype};
use weir_packet::wire::vlan;

use crate::outcome::Outcomes;
use crate::sys::packet_ring::{LONGEST, Progress, TransmitRing};
use crate::sys::packet_socket::PacketSocket;
use crate::{Offloads, Outcome, PortCounters, Transmitter, count, virtio};

/// Slots of a ring that is sent through: 2 MiB, four vectors.
pub(super) const SLOTS: usize = 1024;

/// The least place, in octets from the start of the frame, at which the kernel takes a partial checksum to start.
const LEAST_START: u16 = 20;
/// How often a queue that ends tries to get rid of what the kernel has no room for.
const LAST_TRIES: u32 = 500;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_micros(200);

/// A transmit queue. Places in the ring count on without end; slots are those modulo their number.
pub(super) struct Queue {
    ring: TransmitRing,
    ringed: Arc<PacketSocket>,
    plain: Arc<PacketSocket>,
    offloads: Offloads,
    /// Octets of the longest frame without a tag that the device sends now.
    longest: Arc<AtomicUsize>,
    counters: Arc<PortCounters>,
    /// Where the next frame is written.
    next: usize,
    /// Frames in front of it have been handed over to the kernel.
    submitted: usize,
    /// Frames in front of it have been taken by the kernel, or sent singly.
    settled: usize,
    /// Where the kernel stopped, once it has.
    stopped: Option<usize>,
    /// Long frames behind their `virtio_net_hdr`, each with the place in front of which it is to be sent.
    long: VecDeque<(usize, Packet)>,
    outcomes: Outcomes,
}

/// What a queue did with a packet.
enum Acceptance {
    /// It will be sent.
    Taken,
    /// It cannot be sent.
    Refused,
    /// There is no room for it.
    Full,
}

impl Queue {
    pub(super) fn new(
        ring: TransmitRing,
        ringed: Arc<PacketSocket>,
        plain: Arc<PacketSocket>,
        offloads: Offloads,
        longest: Arc<AtomicUsize>,
        counters: Arc<PortCounters>,
    ) -> Queue {
        let long = VecDeque::with_capacity(VECTOR);
        let outcomes = Outcomes::with_capacity(SLOTS + VECTOR);
        Queue {
            ring,
            ringed,
            plain,
            offloads,
            longest,
            counters,
            next: 0,
            submitted: 0,
            settled: 0,
            stopped: None,
            long,
            outcomes,
        }
    }

    /// Puts a packet into the ring or among the long ones.
    #[inline(always)]
    fn accept(&mut self, packet: &mut Packet) -> Acceptance {
        let mut offload = packet.offload();
        if offload.gso != Gso::None || offload.checksum == Checksum::Partial {
            let end = usize::from(offload.start) + usize::from(offload.offset) + 2;
            let nonsense = offload.checksum == Checksum::Partial && end > packet.len();
            if nonsense || !self.offloads.segmentation.includes(offload.gso, packet.len()) {
                return Acceptance::Refused;
            }
            if offload.gso != Gso::None {
                return self.accept_long(packet);
            }
            if offload.start < LEAST_START {
                checksum::complete(packet);
            }
            self.offloads.checksums.complete_others(packet);
            offload = packet.offload();
        }
        if packet.len() > self.longest.load(Ordering::Relaxed) && self.is_too_long(packet.data(), packet.len()) {
            return Acceptance::Refused;
        }
        if packet.len() > LONGEST {
            return self.accept_long(packet);
        }
        let mut header = VirtioHeader::default();
        if offload.checksum == Checksum::Partial {
            header = VirtioHeader::of(&offload, 0);
        }
        // What is said to be header is copied by the kernel at once; it would have to allocate a page for the rest.
        header.header_len = packet.len() as u16;
        if !self.ring.write(self.next, &header, packet.data()) {
            return Acceptance::Full;
        }
        self.next += 1;
        if self.long.is_empty() {
            self.submit(self.next);
        }
        Acceptance::Taken
    }

    /// A frame of this length, which begins like this, is longer than the device sends. The kernel does not look at the
    /// lengths of frames that have a `virtio_net_hdr`, and what drivers do with longer ones differs. One tag does not
    /// count.
    #[cold]
    fn is_too_long(&self, frame: &[u8], length: usize) -> bool {
        let kind = frame.get(ethernet::ETHERTYPE..ethernet::LENGTH).unwrap_or_default();
        let tagged = [ethertype::VLAN, ethertype::QINQ].iter().any(|tag| kind == tag.to_be_bytes());
        length > self.longest.load(Ordering::Relaxed) + if tagged { vlan::LENGTH } else { 0 }
    }

    #[inline(never)]
    fn accept_long(&mut self, packet: &mut Packet) -> Acceptance {
        if self.long.len() == VECTOR {
            return Acceptance::Full;
        }
        let offload = packet.offload();
        let header = virtio::header(packet.data(), &offload);
        let cut = usize::from(header.header_len) + usize::from(offload.segment);
        if offload.gso != Gso::None && self.is_too_long(packet.data(), cut.min(packet.len())) {
            return Acceptance::Refused;
        }
        // Into the headroom: what is in one place is cheaper to send than what is in two.
        match packet.push(VirtioHeader::LEN) {
            Ok(room) => room.copy_from_slice(&header.emit()),
            Err(NoRoom) => return Acceptance::Refused,
        }
        self.long.push_back((self.next, packet.take()));
        Acceptance::Taken
    }

    fn submit(&mut self, until: usize) {
        while self.submitted != until {
            self.ring.submit(self.submitted);
            self.submitted += 1;
        }
    }

    /// Has the kernel take the frames in front of `until`. `false` when it has no room for some.
    fn push(&mut self, until: usize) -> bool {
        self.submit(until);
        while self.settled != until && self.stopped.is_none() {
            let result = rustix::net::send(&self.ringed, &[], SendFlags::DONTWAIT);
            let before = self.settled;
            if self.ring.progress(until - 1) == Progress::Taken {
                self.settled = until;
            } else {
                while self.ring.progress(self.settled) == Progress::Taken {
                    self.settled += 1;
                }
            }
            self.outcomes.add(self.settled - before, true);
            if self.settled == until {
                return true;
            }
            match result {
                // It stopped early; the next call says why.
                Ok(1..) | Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return false,
                _ => self.stopped = Some(self.settled),
            }
        }
        if self.stopped.is_some() {
            self.send_singly(until);
        }
        true
    }

    /// Sends the frames in front of `until` by the other socket.
    #[cold]
    fn send_singly(&mut self, until: usize) {
        for place in self.settled..until {
            let sent = rustix::net::send(&self.plain, self.ring.frame(place), SendFlags::DONTWAIT).is_ok();
            self.settle(sent);
            self.ring.withdraw(place);
        }
        self.settled = until;
    }

    /// Notes the outcome of the next packet.
    fn settle(&mut self, sent: bool) {
        if !sent {
            count(&self.counters.transmit_errors, 1);
        }
        self.outcomes.add(1, sent);
    }

    /// Takes everything back that the kernel has no room for.
    fn give_up(&mut self) {
        for place in self.settled..self.submitted {
            self.ring.withdraw(place);
        }
        let lost = self.next - self.settled + self.long.len();
        count(&self.counters.transmit_errors, lost as u64);
        self.outcomes.add(lost, false);
        (self.submitted, self.settled) = (self.next, self.next);
        self.long.clear();
    }

    /// Tries to get rid of everything.
    fn drain(&mut self) {
        for _ in 0..LAST_TRIES {
            if !self.is_pending() {
                return;
            }
            self.kick();
            if self.is_pending() {
                thread::sleep(PAUSE);
            }
        }
    }
}

impl Transmitter for Queue {
    fn transmit(&mut self, vector: &mut Vector, frame: &Frame, refused: &mut Frame, _: &mut Cache, _: Time) -> usize {
        let mut kicked = false;
        for (done, &place) in frame.places().iter().enumerate() {
            loop {
                match self.accept(&mut vector[place]) {
                    Acceptance::Taken => break,
                    Acceptance::Refused => {
                        count(&self.counters.transmit_errors, 1);
                        refused.push(place);
                        break;
                    }
                    Acceptance::Full if kicked => return done,
                    Acceptance::Full => {
                        self.kick();
                        kicked = true;
                    }
                }
            }
        }
        frame.len()
    }

    fn sends_later(&self) -> bool {
        true
    }

    fn outcome(&mut self) -> Option<Outcome> {
        self.outcomes.take()
    }

    fn kick(&mut self) {
        loop {
            let until = self.long.front().map_or(self.next, |&(place, _)| place);
            if !self.push(until) {
                return;
            }
            let Some((_, packet)) = self.long.front() else { break };
            let sent = match rustix::net::send(&self.plain, packet.data(), SendFlags::DONTWAIT) {
                Ok(_) => true,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                Err(_) => false,
            };
            self.settle(sent);
            self.long.pop_front();
        }
        if let Some(place) = self.stopped.take() {
            (self.next, self.submitted, self.settled) = (place, place, place);
        }
    }

    fn is_pending(&self) -> bool {
        self.settled != self.next || !self.long.is_empty()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.kick();
        Ok(())
    }

    fn close(&mut self) {
        self.drain();
        self.give_up();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.close();
    }
}

/// A queue that could not be opened: refuses everything.
pub(super) struct Closed(pub(super) Arc<PortCounters>);

impl Transmitter for Closed {
    fn transmit(&mut self, _: &mut Vector, frame: &Frame, refused: &mut Frame, _: &mut Cache, _: Time) -> usize {
        count(&self.0.transmit_errors, frame.len() as u64);
        refused.extend(frame);
        frame.len()
    }
}
