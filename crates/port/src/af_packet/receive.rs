//! From the interface: frames that wait in the ring, and long ones in the socket's buffer.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::RecvFlags;
use weir_base::clock::Time;
use weir_packet::buffer::{Cache, MAX_FRAME};
use weir_packet::checksum;
use weir_packet::offload::{Gso, VirtioHeader};
use weir_packet::packet::Packet;
use weir_packet::vector::Vector;
use weir_packet::wire::ethernet::{self, ethertype};
use weir_packet::wire::vlan::{self, Tag};

use crate::sys::packet_ring::{ReceiveRing, Received};
use crate::sys::packet_socket::PacketSocket;
use crate::{Burst, PortCounters, Readiness, Receiver, count};

/// Octets of the two addresses, which a tag stands behind.
const ADDRESSES: usize = ethernet::ETHERTYPE;
/// Nanoseconds after which a queue without a device looks whether it has one again.
const ABSENCE: u64 = 50_000_000;
/// Nanoseconds that the first frame waits for a buffer. Others' packets wait behind it.
const PATIENCE: u64 = 1_000_000;

/// A socket and its ring.
#[derive(Debug)]
pub(super) struct Source {
    socket: Arc<PacketSocket>,
    ring: ReceiveRing,
    /// The slot of the next frame.
    next: usize,
}

impl Source {
    pub(super) fn new(socket: PacketSocket, ring: ReceiveRing) -> Source {
        Source { socket: Arc::new(socket), ring, next: 0 }
    }

    pub(super) fn socket(&self) -> Arc<PacketSocket> {
        Arc::clone(&self.socket)
    }
}

/// Where the control thread leaves a new socket for a queue.
#[derive(Debug, Default)]
pub(super) struct Doorstep {
    /// Something is there: looked at without the lock.
    left: AtomicBool,
    source: Mutex<Option<Source>>,
}

impl Doorstep {
    pub(super) fn leave(&self, source: Source) {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
        self.left.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<Source> {
        if !self.left.load(Ordering::Relaxed) {
            return None;
        }
        self.left.store(false, Ordering::Relaxed);
        self.source.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A receive queue.
pub(super) struct Queue {
    source: Source,
    doorstep: Arc<Doorstep>,
    offload: bool,
    counters: Arc<PortCounters>,
    /// Since when the first frame has been waiting for a buffer.
    starving: Option<Time>,
    /// When it was last asked for packets.
    asked: Time,
    /// The socket has no device; a new one is due.
    absent: Cell<bool>,
}

/// Why a frame is not delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// There is no buffer for it.
    NoBuffer,
    /// The kernel had no room for all of it.
    Cut,
    /// It is longer than any buffer, makes no sense, or is still to be cut where that is not wanted.
    Unusable,
}

/// The `virtio_net_hdr` of a frame to which nothing is left to be done and of which nothing is known.
const PLAIN: [u8; VirtioHeader::LEN] = [0; VirtioHeader::LEN];

impl Queue {
    pub(super) fn new(source: Source, doorstep: Arc<Doorstep>, offload: bool, counters: Arc<PortCounters>) -> Queue {
        Queue { source, doorstep, offload, counters, starving: None, asked: Time(0), absent: Cell::new(false) }
    }

    /// Moves the next frame into the vector, which has room; `None` when there is none.
    #[inline(always)]
    fn take(&mut self, vector: &mut Vector, cache: &mut Cache, now: Time) -> Option<Result<(), Refusal>> {
        let Source { socket, ring, next } = &mut self.source;
        let frame = ring.frame(*next)?;
        // The usual frame has no tag beside it, fits its slot, and nothing is left to be done to it.
        let special = libc::TP_STATUS_COPY | libc::TP_STATUS_VLAN_VALID;
        if frame.status & special == 0 && *frame.offload == PLAIN && frame.data.len() == frame.len {
            let Some(packet) = vector.add(cache, frame.len) else { return Some(Err(Refusal::NoBuffer)) };
            packet.data_mut().copy_from_slice(frame.data);
            packet.set_time(now);
            return Some(Ok(()));
        }
        Some(unusual(&frame, socket, cache, self.offload).map(|mut packet| {
            packet.set_time(now);
            // There is room.
            let _ = vector.push(packet);
        }))
    }

    /// Counts a frame that is not delivered.
    #[cold]
    fn lose(&mut self, refusal: Refusal) {
        let counter = match refusal {
            Refusal::NoBuffer => &self.counters.no_buffer,
            Refusal::Cut => &self.counters.kernel_drops,
            Refusal::Unusable => &self.counters.receive_errors,
        };
        count(counter, 1);
        let Source { socket, ring, next } = &mut self.source;
        if refusal == Refusal::NoBuffer
            && let Some(frame) = ring.frame(*next)
        {
            skip(&frame, socket);
        }
    }

    /// The first frame is worth waiting for: buffers come back as soon as others are sent.
    fn is_patient(&mut self, now: Time) -> bool {
        now.since(*self.starving.get_or_insert(now)) < PATIENCE
    }

    fn advance(&mut self) {
        self.source.ring.release(self.source.next);
        self.source.next += 1;
        self.starving = None;
    }
}

impl Receiver for Queue {
    fn readiness(&self) -> Readiness<'_> {
        let socket = &self.source.socket;
        // An error (that the device went down) would keep the descriptor readable.
        if socket.clear_error() || self.absent.get() {
            self.absent.set(socket.device().is_none());
        }
        if self.absent.get() {
            return Readiness::At(Time(self.asked.0.saturating_add(ABSENCE)));
        }
        Readiness::When(socket.as_fd())
    }

    fn receive(&mut self, vector: &mut Vector, cache: &mut Cache, now: Time) -> Burst {
        self.asked = now;
        while vector.room() > 0 {
            match self.take(vector, cache, now) {
                Some(Ok(())) => (),
                Some(Err(Refusal::NoBuffer)) if self.is_patient(now) => return Burst::More,
                Some(Err(refusal)) => self.lose(refusal),
                // Not before: what the old socket holds comes first.
                None => match self.doorstep.take() {
                    Some(source) => {
                        self.source = source;
                        self.absent.set(false);
                        continue;
                    }
                    None => return Burst::Idle,
                },
            }
            self.advance();
        }
        Burst::More
    }
}

/// A packet of a frame that is long, tagged, or offloaded in some way.
#[inline(never)]
fn unusual(frame: &Received<'_>, socket: &PacketSocket, cache: &mut Cache, offload: bool) -> Result<Packet, Refusal> {
    let copied = frame.status & libc::TP_STATUS_COPY != 0;
    if frame.data.len() < frame.len && !copied {
        return Err(Refusal::Cut);
    }
    let tag = tag(frame);
    let shift = if tag.is_some() { vlan::LENGTH } else { 0 };
    let state = VirtioHeader::parse(frame.offload).offload(frame.len).ok().filter(|state| {
        let length = ADDRESSES..=MAX_FRAME - shift;
        length.contains(&frame.len) && (offload || state.gso == Gso::None)
    });
    let Some(state) = state else {
        skip(frame, socket);
        return Err(Refusal::Unusable);
    };
    let mut packet = Packet::new(cache, frame.len).ok_or(Refusal::NoBuffer)?;
    if !copied {
        packet.data_mut().copy_from_slice(frame.data);
    } else if receive_long(socket, &mut packet).is_none() {
        packet.recycle(cache);
        return Err(Refusal::Unusable);
    }
    packet.set_offload(state);
    if let Some(tag) = tag {
        // There is headroom in a new packet.
        if let Ok(room) = packet.push(vlan::LENGTH) {
            room.copy_from_slice(&tag.emit());
        }
        packet.data_mut()[..ADDRESSES + vlan::LENGTH].rotate_left(vlan::LENGTH);
    }
    if !offload {
        checksum::complete(&mut packet);
    }
    Ok(packet)
}

/// Fills a packet from the socket's buffer; `None` when there is another frame than expected. What stands in front of the
/// frame is read into the headroom: one place is cheaper to read into than two.
fn receive_long(socket: &PacketSocket, packet: &mut Packet) -> Option<()> {
    packet.push(VirtioHeader::LEN).ok()?;
    let (len, _) = rustix::net::recv(socket, packet.data_mut(), RecvFlags::DONTWAIT).ok()?;
    (len == packet.len()).then_some(())?;
    packet.pull(VirtioHeader::LEN).ok()
}

/// Forgets a long frame that is in the socket's buffer, in front of those of the slots behind. What is not read of a frame
/// is gone.
#[cold]
fn skip(frame: &Received<'_>, socket: &PacketSocket) {
    if frame.status & libc::TP_STATUS_COPY != 0 {
        let _ = rustix::net::recv(socket, &mut [0u8; 1][..], RecvFlags::DONTWAIT);
    }
}

/// The tag that the kernel took off, to be put back.
fn tag(frame: &Received<'_>) -> Option<Tag> {
    let (tpid, tci) = frame.tag;
    let tpid = if frame.status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { tpid } else { ethertype::VLAN };
    (frame.status & libc::TP_STATUS_VLAN_VALID != 0).then_some(Tag { tpid, tci })
}
