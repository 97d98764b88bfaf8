//! Transmit queues: one system call per packet, which returns when the kernel side has received it.

use rustix::io::Errno;
use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::offload::{Checksum, Gso, Offload, VirtioHeader};
use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::ethernet::{self, ethertype};

use super::mode::Mode;
use super::queue;
use crate::{Offloads, Segmentation, Transmitter, count, virtio};

pub(super) struct Queue {
    queue: queue::Queue,
    offloads: Offloads,
}

impl Queue {
    pub(super) fn new(queue: queue::Queue, offloads: Offloads) -> Self {
        Queue { queue, offloads }
    }

    /// Sends one packet. Afterwards it is unchanged, except for a completed checksum.
    #[inline]
    fn send(&self, packet: &mut Packet) -> Result<(), Errno> {
        if !self.offloads.segmentation.includes(packet.offload().gso, packet.len()) {
            return Err(Errno::INVAL);
        }
        self.offloads.checksums.complete_others(packet);
        // One write of adjacent octets: a gathering write (`writev`) costs 200 ticks more.
        match self.queue.mode {
            Mode::Tap => {
                let header = header(packet.data(), packet.offload());
                self.write_behind(header, packet)
            }
            Mode::Tun => {
                let link: [u8; ethernet::LENGTH] = *ip_link(packet.data()).ok_or(Errno::INVAL)?;
                let mut offload = packet.offload();
                offload.start = offload.start.saturating_sub(ethernet::LENGTH as u16);
                let header = header(&packet.data()[ethernet::LENGTH..], offload);
                packet.pull(ethernet::LENGTH).map_err(|_| Errno::INVAL)?;
                let result = self.write_behind(header, packet);
                // The room that `pull` released.
                if let Ok(room) = packet.push(ethernet::LENGTH) {
                    room.copy_from_slice(&link);
                }
                result
            }
        }
    }

    /// Writes a packet with a header in its headroom.
    #[inline]
    fn write_behind(&self, header: [u8; VirtioHeader::LEN], packet: &mut Packet) -> Result<(), Errno> {
        // Without headroom the packet is refused.
        packet.push(VirtioHeader::LEN).map_err(|_| Errno::INVAL)?.copy_from_slice(&header);
        let result = loop {
            match rustix::io::write(&self.queue.file, packet.data()) {
                Err(Errno::INTR) => (),
                result => break result.map(drop),
            }
        };
        let _ = packet.pull(VirtioHeader::LEN);
        result
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
        for (done, &place) in frame.places().iter().enumerate() {
            match self.send(&mut vector[place]) {
                Ok(()) => (),
                // The kernel has no room now.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return done,
                // The device is down (EIO) or gone (EBADFD): the others would fail, too.
                Err(Errno::IO | Errno::BADFD) => {
                    let rest = &frame.places()[done..];
                    count(&self.queue.counters.transmit_errors, rest.len() as u64);
                    rest.iter().for_each(|&place| refused.push(place));
                    return frame.len();
                }
                // The kernel refuses this packet only.
                Err(_) => {
                    count(&self.queue.counters.transmit_errors, 1);
                    refused.push(place);
                }
            }
        }
        frame.len()
    }
}

/// Returns the `virtio_net_hdr` of a packet.
#[inline]
fn header(data: &[u8], offload: Offload) -> [u8; VirtioHeader::LEN] {
    match offload {
        Offload { checksum: Checksum::Unknown, gso: Gso::None, .. } => [0; VirtioHeader::LEN],
        offload => virtio::header(data, &offload).emit(),
    }
}

/// Returns the Ethernet header of an IP packet.
#[inline]
fn ip_link(frame: &[u8]) -> Option<&[u8; ethernet::LENGTH]> {
    let (header, packet) = frame.split_first_chunk()?;
    let ethertype = u16::from_be_bytes([header[ethernet::ETHERTYPE], header[ethernet::ETHERTYPE + 1]]);
    let version = packet.first()? >> 4;
    matches!((ethertype, version), (ethertype::IPV4, 4) | (ethertype::IPV6, 6)).then_some(header)
}
