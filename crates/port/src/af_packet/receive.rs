//! Receive queues: frames in the ring, and long frames in the socket's buffer.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use weir_base::clock::Time;
use weir_packet::buffer::{Cache, MAX_FRAME};
use weir_packet::offload::VirtioHeader;
use weir_packet::packet::Packet;
use weir_packet::vector::Vector;
use weir_packet::wire::ethernet::{self, ethertype};
use weir_packet::wire::vlan::{self, Tag};

use crate::sys::packet_ring::{ReceiveRing, Received};
use crate::sys::packet_socket::PacketSocket;
use crate::{Burst, Offloads, PortCounters, Readiness, Receiver, count};

/// Octets of the two addresses, in front of a tag.
const ADDRESSES: usize = ethernet::ETHERTYPE;
/// Nanoseconds that the first frame may wait for a buffer. All later frames wait behind it.
const PATIENCE: u64 = 1_000_000;
/// Errors of a socket that are skipped for one frame.
const ERRORS: usize = 8;
/// Octets at the start of a long frame that identify it among frames of its length.
const LIKENESS: usize = 128;

#[derive(Debug)]
pub(super) struct Source {
    socket: Arc<PacketSocket>,
    ring: ReceiveRing,
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

/// Passes a new socket from the control thread to a queue.
#[derive(Debug, Default)]
pub(super) struct Doorstep {
    /// A socket is there; read without the lock.
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

pub(super) struct Queue {
    source: Source,
    doorstep: Arc<Doorstep>,
    offloads: Offloads,
    counters: Arc<PortCounters>,
    /// Time since which the first frame waits for a buffer.
    starving: Option<Time>,
}

/// Reason why a frame is not delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// No buffer is free.
    NoBuffer,
    /// The kernel had no room for the whole frame.
    Cut,
    /// The frame is longer than any buffer, malformed, or a super-packet that the port does not state.
    Unusable,
}

/// The `virtio_net_hdr` of a frame without offload state.
const PLAIN: [u8; VirtioHeader::LEN] = [0; VirtioHeader::LEN];

impl Queue {
    pub(super) fn new(
        source: Source,
        doorstep: Arc<Doorstep>,
        offloads: Offloads,
        counters: Arc<PortCounters>,
    ) -> Queue {
        Queue { source, doorstep, offloads, counters, starving: None }
    }

    /// Moves the next frame into the vector, which has room. `None`: no frame is ready.
    #[inline(always)]
    fn take(&mut self, vector: &mut Vector, cache: &mut Cache) -> Option<Result<(), Refusal>> {
        let Source { socket, ring, next } = &mut self.source;
        let frame = ring.frame(*next)?;
        // The usual frame has no tag in its slot header, fits its slot, and has no offload state.
        let special = libc::TP_STATUS_COPY | libc::TP_STATUS_VLAN_VALID;
        if frame.status & special == 0 && *frame.offload == PLAIN && frame.data.len() == frame.len {
            let Some(packet) = vector.add(cache, frame.len) else { return Some(Err(Refusal::NoBuffer)) };
            packet.data_mut().copy_from_slice(frame.data);
            return Some(Ok(()));
        }
        Some(unusual(&frame, socket, cache, &self.offloads).map(|packet| {
            // The vector has room.
            let _ = vector.push(packet);
        }))
    }

    /// Counts a frame that is not delivered, and skips it.
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

    /// Returns whether the first frame may still wait for a buffer: buffers return when packets are sent.
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
        // A pending error (device down) would keep the descriptor readable. Without a device it never becomes readable;
        // the control thread wakes the worker after it left a new socket.
        socket.clear_error();
        Readiness::When(socket.as_fd())
    }

    fn receive(&mut self, vector: &mut Vector, cache: &mut Cache, now: Time) -> Burst {
        while vector.room() > 0 {
            match self.take(vector, cache) {
                Some(Ok(())) => (),
                Some(Err(Refusal::NoBuffer)) if self.is_patient(now) => return Burst::More,
                Some(Err(refusal)) => self.lose(refusal),
                // Frames of the old socket come first.
                None => match self.doorstep.take() {
                    Some(source) => {
                        self.source = source;
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

/// Returns the packet of a frame that is long, tagged or has offload state.
#[inline(never)]
fn unusual(
    frame: &Received<'_>,
    socket: &PacketSocket,
    cache: &mut Cache,
    offloads: &Offloads,
) -> Result<Packet, Refusal> {
    let copied = frame.status & libc::TP_STATUS_COPY != 0;
    if frame.data.len() < frame.len && !copied {
        return Err(Refusal::Cut);
    }
    let tag = tag(frame);
    let shift = if tag.is_some() { vlan::LENGTH } else { 0 };
    let state = VirtioHeader::parse(frame.offload).offload(frame.len).ok().filter(|state| {
        let length = ADDRESSES..=MAX_FRAME - shift;
        length.contains(&frame.len) && offloads.segmentation.includes(state.gso, frame.len)
    });
    let Some(state) = state else {
        skip(frame, socket);
        return Err(Refusal::Unusable);
    };
    let mut packet = Packet::new(cache, frame.len).ok_or(Refusal::NoBuffer)?;
    if !copied {
        packet.data_mut().copy_from_slice(frame.data);
    } else if receive_long(socket, frame, &mut packet).is_none() {
        packet.recycle(cache);
        return Err(Refusal::Unusable);
    }
    packet.set_offload(state);
    if let Some(tag) = tag {
        // A new packet has headroom.
        if let Ok(room) = packet.push(vlan::LENGTH) {
            room.copy_from_slice(&tag.emit());
        }
        packet.data_mut()[..ADDRESSES + vlan::LENGTH].rotate_left(vlan::LENGTH);
    }
    offloads.checksums.complete_others(&mut packet);
    Ok(packet)
}

/// Fills a packet from the socket's buffer; `None` if its frame is not there. Reads the `virtio_net_hdr` into the
/// headroom, because one read into adjacent octets is cheaper than two.
///
/// The kernel puts a copy into the buffer for every marked slot, in the order of the slots, and only this queue removes
/// copies. So the buffer may hold copies of earlier slots, in front of this slot's copy; no later copy can be missing.
fn receive_long(socket: impl AsFd, frame: &Received<'_>, packet: &mut Packet) -> Option<()> {
    packet.push(VirtioHeader::LEN).ok()?;
    let start = frame.data.len().min(LIKENESS);
    loop {
        let len = take_copy(&socket, packet.data_mut())?;
        if len == packet.len() && packet.data()[VirtioHeader::LEN..][..start] == frame.data[..start] {
            return packet.pull(VirtioHeader::LEN).ok();
        }
    }
}

/// Removes the copy of a long frame from the socket's buffer, in front of the later ones. The unread part of a frame is
/// discarded.
#[cold]
fn skip(frame: &Received<'_>, socket: &PacketSocket) {
    if frame.status & libc::TP_STATUS_COPY != 0 {
        // A buffer shorter than the `virtio_net_hdr` would be refused.
        let _ = take_copy(socket, &mut [0; VirtioHeader::LEN]);
    }
}

/// Removes the first frame from the socket's buffer and copies as much as fits. Returns its length with
/// `virtio_net_hdr`; `None` if there is none.
fn take_copy(socket: impl AsFd, octets: &mut [u8]) -> Option<usize> {
    for _ in 0..ERRORS {
        match rustix::net::recv(&socket, &mut *octets, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
            Ok((_, len)) => return Some(len),
            Err(Errno::AGAIN) => return None,
            // A pending error (device down) comes before any frame, and reading clears it.
            Err(_) => (),
        }
    }
    None
}

/// Returns the tag that the kernel removed.
fn tag(frame: &Received<'_>) -> Option<Tag> {
    let (tpid, tci) = frame.tag;
    let tpid = if frame.status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { tpid } else { ethertype::VLAN };
    (frame.status & libc::TP_STATUS_VLAN_VALID != 0).then_some(Tag { tpid, tci })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use weir_packet::buffer::{Pool, PoolSize};

    use super::*;

    /// Returns a long frame.
    fn long(number: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![7; length];
        frame[60] = number;
        frame
    }

    /// Returns the frame that is found for a slot in a buffer of copies.
    fn found(buffer: &UnixDatagram, frame: &[u8]) -> Option<Vec<u8>> {
        let mut cache = Pool::new(PoolSize { small: 1, large: 1 }).unwrap().cache();
        let mut packet = Packet::new(&mut cache, frame.len()).unwrap();
        let (status, offload, data) = (libc::TP_STATUS_COPY, &PLAIN, &frame[..1970]);
        let slot = Received { status, len: frame.len(), tag: (0, 0), offload, data };
        receive_long(buffer, &slot, &mut packet).map(|()| packet.data().to_vec())
    }

    #[test]
    fn copies_that_were_left_over_are_passed_over() {
        let (kernel, buffer) = UnixDatagram::pair().unwrap();
        let copy = |frame: &[u8]| kernel.send(&[&PLAIN, frame].concat()).unwrap();
        let frames = [long(1, 5000), long(2, 5000), long(3, 6000), long(4, 4000), long(5, 5000), long(6, 5000)];
        frames.iter().for_each(|frame| {
            copy(frame);
        });
        // Copies of earlier slots were not taken: of the same length, longer, shorter.
        assert!(found(&buffer, &frames[1]).unwrap() == frames[1]);
        assert!(found(&buffer, &frames[4]).unwrap() == frames[4]);
        assert!(found(&buffer, &frames[5]).unwrap() == frames[5], "in step again");
        assert_eq!(found(&buffer, &frames[5]), None);
    }
}
