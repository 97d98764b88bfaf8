//! To the kernel: each packet is one call, which returns when the kernel's side has received it.

use std::io::IoSlice;

use rustix::io::Errno;
use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::offload::{Checksum, Gso, Offload, VirtioHeader};
use weir_packet::packet::Packet;
use weir_packet::vector::{Frame, Vector};
use weir_packet::wire::ethernet::{self, ethertype};

use super::Mode;
use crate::virtio::header_len;
use crate::{Transmitter, count};

/// A transmit queue.
pub(super) struct Queue {
    queue: super::Queue,
}

impl Queue {
    pub(super) fn new(queue: super::Queue) -> Self {
        Queue { queue }
    }

    #[inline]
    fn send(&self, packet: &Packet) -> Result<(), Errno> {
        let (mut data, mut offload) = (packet.data(), packet.offload());
        if self.queue.mode == Mode::Tun {
            data = network_layer(data).ok_or(Errno::INVAL)?;
            offload.start = offload.start.saturating_sub(ethernet::LENGTH as u16);
        }
        let header = match offload {
            Offload { checksum: Checksum::Unknown, gso: Gso::None, .. } => [0; VirtioHeader::LEN],
            offload => VirtioHeader::of(&offload, header_len(data, &offload)).emit(),
        };
        loop {
            match rustix::io::writev(&self.queue.file, &[IoSlice::new(&header), IoSlice::new(data)]) {
                Err(Errno::INTR) => (),
                result => return result.map(drop),
            }
        }
    }
}

impl Transmitter for Queue {
    fn transmit(&mut self, vector: &mut Vector, frame: &Frame, _: &mut Cache, _: Time) -> usize {
        for (done, &place) in frame.places().iter().enumerate() {
            match self.send(&vector[place]) {
                Ok(()) => (),
                // The kernel has no room at present.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return done,
                // The device is down (EIO) or gone (EBADFD): no use to try the others.
                Err(Errno::IO | Errno::BADFD) => {
                    count(&self.queue.counters.transmit_errors, (frame.len() - done) as u64);
                    return done;
                }
                // This packet is one that the kernel does not take; the next may be another matter.
                Err(_) => count(&self.queue.counters.transmit_errors, 1),
            }
        }
        frame.len()
    }
}

/// What is behind the Ethernet header, if it is an IP packet.
#[inline]
fn network_layer(frame: &[u8]) -> Option<&[u8]> {
    let (header, packet) = frame.split_at_checked(ethernet::LENGTH)?;
    let ethertype = u16::from_be_bytes([header[ethernet::ETHERTYPE], header[ethernet::ETHERTYPE + 1]]);
    let version = packet.first()? >> 4;
    matches!((ethertype, version), (ethertype::IPV4, 4) | (ethertype::IPV6, 6)).then_some(packet)
}
