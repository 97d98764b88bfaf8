//! Receive queues: packets from the kernel.
//!
//! The length of a packet is known only after the read, and most packets are short. So a packet is read into a large
//! buffer. A long packet keeps it. A short one is copied to a small buffer, and the large buffer, which stays in the
//! CPU's cache, is used again. A scattering read (`readv`) into a small buffer and an overflow would avoid the copy,
//! but costs 200 ticks more than `read`; the copy of 64 octets is not measurable (`examples/tap_cost.rs`).

use std::os::fd::AsFd;

use rustix::io::Errno;
use weir_base::clock::Time;
use weir_packet::buffer::{Cache, MAX_FRAME, SMALL_FRAME};
use weir_packet::offload::VirtioHeader;
use weir_packet::packet::Packet;
use weir_packet::vector::Vector;
use weir_packet::wire::ethernet::{self, ethertype};

use super::mode::Mode;
use super::queue::{self, peer};
use crate::{Burst, Readiness, Receiver, count};

const HEADER: usize = VirtioHeader::LEN;
/// Octets of the longest packet for a small buffer, with a virtio_net_hdr in the headroom.
const SHORT: usize = HEADER + SMALL_FRAME;
/// Octets of the longest read.
const LONGEST: usize = HEADER + MAX_FRAME;
/// Nanoseconds between checks of a queue without a device.
const ABSENCE: u64 = 50_000_000;

pub(super) struct Queue {
    queue: queue::Queue,
    /// The addresses of the Ethernet header for network-layer packets.
    addresses: [u8; ethernet::ETHERTYPE],
    /// Buffer for the next read: empty, or of `LONGEST` octets.
    large: Packet,
    /// Replaces it while no large buffer is free.
    makeshift: Box<[u8]>,
    /// The last packet was long; the next one probably is, too.
    long: bool,
    /// The device is missing; time of the next check.
    absent: Option<Time>,
}

/// Result of a read.
enum Read {
    /// A packet with its virtio_net_hdr.
    Packet(Packet),
    /// A packet without a buffer.
    Lost,
    /// No buffer is free, and no packet was lost.
    Wait,
}

impl Queue {
    pub(super) fn new(queue: queue::Queue, mac: [u8; 6]) -> Self {
        let mut addresses = [0; ethernet::ETHERTYPE];
        addresses[..ethernet::SOURCE].copy_from_slice(&mac);
        addresses[ethernet::SOURCE..].copy_from_slice(&peer(mac));
        let makeshift = vec![0; LONGEST].into();
        Queue { queue, addresses, large: Packet::EMPTY, makeshift, long: false, absent: None }
    }

    /// Reads one packet into `small` or a large buffer. `patient`: large buffers will be returned, so a long packet
    /// waits instead of being lost.
    #[inline]
    fn read(&mut self, small: &mut Packet, cache: &mut Cache, patient: bool) -> Result<Read, Errno> {
        if small.is_empty() {
            *small = room(cache, SHORT);
        }
        if self.large.is_empty() {
            self.large = room(cache, LONGEST);
        }
        let makeshift = self.large.is_empty();
        if small.is_empty() || makeshift && self.long && patient {
            return Ok(Read::Wait);
        }
        let octets = if makeshift { &mut self.makeshift[..] } else { self.large.data_mut() };
        let len = rustix::io::read(&self.queue.file, &mut *octets)?;
        self.long = len > SHORT;
        if !self.long {
            let mut packet = small.take();
            packet.truncate(len);
            packet.data_mut().copy_from_slice(&octets[..len]);
            return Ok(Read::Packet(packet));
        }
        if makeshift {
            return Ok(Read::Lost);
        }
        let mut packet = self.large.take();
        packet.truncate(len);
        Ok(Read::Packet(packet))
    }

    /// Converts the octets of a read into a frame; `None` if they are malformed.
    #[inline]
    fn frame(&self, packet: &mut Packet) -> Option<()> {
        let header = VirtioHeader::parse(packet.data().first_chunk()?);
        packet.pull(HEADER).ok()?;
        let mut ethertype = [0; 2];
        if self.queue.mode == Mode::Tun {
            ethertype = match packet.data().first()? >> 4 {
                4 => ethertype::IPV4,
                6 => ethertype::IPV6,
                _ => return None,
            }
            .to_be_bytes();
        }
        if header != VirtioHeader::default() {
            packet.set_offload(header.offload(packet.len()).ok()?);
        }
        if self.queue.mode == Mode::Tun {
            let room = packet.push(ethernet::LENGTH).ok()?;
            room[..ethernet::ETHERTYPE].copy_from_slice(&self.addresses);
            room[ethernet::ETHERTYPE..].copy_from_slice(&ethertype);
        }
        Some(())
    }
}

impl Receiver for Queue {
    fn readiness(&self) -> Readiness<'_> {
        match self.absent {
            // The descriptor of a missing device is always readable.
            Some(until) => Readiness::At(until),
            None => Readiness::When(self.queue.file.as_fd()),
        }
    }

    fn receive(&mut self, vector: &mut Vector, cache: &mut Cache, now: Time) -> Burst {
        let before = vector.len();
        let mut small = Packet::EMPTY;
        let burst = loop {
            if vector.room() == 0 {
                break Burst::More;
            }
            match self.read(&mut small, cache, vector.len() > before) {
                Ok(Read::Packet(mut packet)) => {
                    if self.frame(&mut packet).is_none() {
                        count(&self.queue.counters.receive_errors, 1);
                        packet.recycle(cache);
                        continue;
                    }
                    if let Err(mut packet) = vector.push(packet) {
                        // The vector had room.
                        packet.recycle(cache);
                    }
                }
                Ok(Read::Lost) => count(&self.queue.counters.no_buffer, 1),
                Ok(Read::Wait) => break Burst::More,
                Err(Errno::INTR) => (),
                Err(error) => {
                    // EBADFD: the device is gone, and its files are detached.
                    self.absent = (error != Errno::AGAIN).then(|| Time(now.0.saturating_add(ABSENCE)));
                    break Burst::Idle;
                }
            }
        };
        small.recycle(cache);
        burst
    }
}

/// Returns a packet with room for `octets`, which begin with a virtio_net_hdr in the headroom. Empty if no buffer is
/// free.
#[inline]
fn room(cache: &mut Cache, octets: usize) -> Packet {
    let Some(mut packet) = Packet::new(cache, octets.saturating_sub(HEADER)) else { return Packet::EMPTY };
    // A new packet has headroom.
    let _ = packet.push(HEADER);
    packet
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use weir_packet::buffer::{Pool, PoolSize};
    use weir_packet::offload::{Checksum, Gso, Offload};

    use super::*;

    /// Returns the frame of the octets of a read.
    fn framed(mode: Mode, octets: &[u8]) -> Option<Packet> {
        let file = Arc::new(File::open("/dev/null").unwrap().into());
        let queue = Queue::new(super::super::Queue { file, counters: Arc::default(), mode }, [2, 0, 0, 0, 0, 1]);
        let mut cache = Pool::new(PoolSize { small: 1, large: 1 }).unwrap().cache();
        let mut packet = room(&mut cache, SHORT);
        packet.data_mut()[..octets.len()].copy_from_slice(octets);
        packet.truncate(octets.len());
        queue.frame(&mut packet)?;
        Some(packet)
    }

    fn with(header: VirtioHeader, packet: &[u8]) -> Vec<u8> {
        [&header.emit(), packet].concat()
    }

    #[test]
    fn a_packet_gets_the_header_that_it_lacks() {
        let header = VirtioHeader {
            flags: VirtioHeader::NEEDS_CSUM,
            gso_type: VirtioHeader::GSO_TCPV6,
            gso_size: 1440,
            csum_start: 40,
            csum_offset: 16,
            ..Default::default()
        };
        let packet = framed(Mode::Tun, &with(header, &[0x60; 80])).unwrap();
        assert_eq!(packet.data()[..14], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0xfe, 0x86, 0xdd]);
        assert_eq!(packet.data()[14..], [0x60; 80]);
        let offload = Offload { checksum: Checksum::Partial, gso: Gso::Tcp6, segment: 1440, start: 54, offset: 16 };
        assert_eq!(packet.offload(), offload);
        let packet = framed(Mode::Tap, &with(header, &[0x60; 80])).unwrap();
        assert_eq!((packet.data(), packet.offload()), (&[0x60; 80][..], Offload { start: 40, ..offload }));
    }

    #[test]
    fn malformed_packets_are_refused() {
        let plain = VirtioHeader::default();
        for packet in [&[][..], &[0x50; 40], &[0; 20]] {
            assert!(framed(Mode::Tun, &with(plain, packet)).is_none(), "{packet:?}");
        }
        for mode in [Mode::Tap, Mode::Tun] {
            assert!(framed(mode, &[0; 9]).is_none());
            let outside = VirtioHeader { flags: VirtioHeader::NEEDS_CSUM, csum_start: 70, csum_offset: 9, ..plain };
            assert!(framed(mode, &with(outside, &[0x45; 80])).is_none());
            assert!(framed(mode, &with(VirtioHeader { gso_type: 3, ..plain }, &[0x45; 80])).is_none());
        }
    }
}
