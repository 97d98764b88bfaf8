//! Transmit queues: short frames through the ring, long frames through a second socket.
//!
//! Frames are written into slots. [`Transmitter::kick`] makes one system call per vector, and the kernel sends them. A
//! long frame keeps its position: the slots before it are submitted first, then it is sent, then the slots behind it.
//!
//! # Outcome of a frame
//! The kernel takes slots in order. It stops at a frame that the device cannot take (queue full, down, gone) or that it
//! refuses, and would try this frame for ever. From there on the queue sends frames singly through the second socket,
//! which reports each outcome. Once all are sent, the next frame uses the slot where the kernel stopped.
//!
//! A frame counts as sent when the kernel has taken it ([`Transmitter::outcome`]), not when it is in its slot. A frame
//! that the device cannot send for its length or kind is refused at once.
//!
//! A round may have more packets than the ring has slots, with fragments and released packets. If the ring is full,
//! [`Transmitter::transmit`] kicks once. If it is still full then, the device is too slow.

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
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::ethernet::{self, ethertype};
use weir_packet::wire::vlan;

use crate::outcome::Outcomes;
use crate::sys::packet_ring::{LONGEST, Progress, TransmitRing};
use crate::sys::packet_socket::PacketSocket;
use crate::{Offloads, Outcome, PortCounters, Segmentation, Transmitter, count, virtio};

/// Slots of a transmit ring: 2 MiB, four vectors.
pub(super) const SLOTS: usize = 1024;

/// Smallest start of a partial checksum that the kernel accepts, in octets from the start of the frame.
const LEAST_START: u16 = 20;
/// Attempts of a closing queue to send its last frames.
const LAST_TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_micros(200);

/// A transmit queue. Positions in the ring count up without end; the slot is the position modulo the number of slots.
pub(super) struct Queue {
    ring: TransmitRing,
    ringed: Arc<PacketSocket>,
    plain: Arc<PacketSocket>,
    offloads: Offloads,
    /// Octets of the longest frame without a tag that the device sends now.
    longest: Arc<AtomicUsize>,
    counters: Arc<PortCounters>,
    next: usize,
    /// All frames before this position were submitted to the kernel.
    submitted: usize,
    /// All frames before this position were taken by the kernel or sent singly.
    settled: usize,
    /// Position at which the kernel stopped.
    stopped: Option<usize>,
    /// Long frames with their `virtio_net_hdr`, each with the position before which it is sent.
    long: VecDeque<(usize, Packet)>,
    outcomes: Outcomes,
}

enum Acceptance {
    /// The packet will be sent.
    Taken,
    /// The packet cannot be sent.
    Refused,
    /// The ring is full.
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

    /// Puts a packet into the ring or the list of long frames.
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
        // The kernel copies the octets of the header at once; for the others it would allocate a page.
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

    /// Returns whether a frame is longer than the device sends. The kernel does not check frames with a
    /// `virtio_net_hdr`, and drivers differ. One tag does not count.
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
        // In the headroom: adjacent octets are cheaper to send than two parts.
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

    /// Makes the kernel take the frames before `until`. Returns `false` if it has no room for some.
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
                // The kernel stopped early; the next call returns the reason.
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

    /// Sends the frames before `until` through the second socket.
    #[cold]
    fn send_singly(&mut self, until: usize) {
        for place in self.settled..until {
            let sent = rustix::net::send(&self.plain, self.ring.frame(place), SendFlags::DONTWAIT).is_ok();
            self.settle(sent);
            self.ring.withdraw(place);
        }
        self.settled = until;
    }

    /// Records the outcome of the next packet.
    fn settle(&mut self, sent: bool) {
        if !sent {
            count(&self.counters.transmit_errors, 1);
        }
        self.outcomes.add(1, sent);
    }

    /// Withdraws all frames that the kernel has no room for.
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

    /// Tries to send all frames.
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
    fn segmentation(&self) -> Option<Segmentation> {
        Some(self.offloads.segmentation)
    }

    fn transmit(
        &mut self,
        vector: &mut Vector,
        frame: &Indices,
        refused: &mut Indices,
        _: &mut Cache,
        _: Time,
    ) -> usize {
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

/// A queue that could not be opened. Refuses all packets.
pub(super) struct Closed(pub(super) Arc<PortCounters>);

impl Transmitter for Closed {
    fn transmit(&mut self, _: &mut Vector, frame: &Indices, refused: &mut Indices, _: &mut Cache, _: Time) -> usize {
        count(&self.0.transmit_errors, frame.len() as u64);
        refused.extend(frame);
        frame.len()
    }
}
