//! From the kernel.
//!
//! How long a packet is shows when it has been read, and most are short: a buffer of 64 KiB for each would be a waste. So
//! a packet is read into a large buffer; a long one keeps it, a short one is copied to a small buffer, and the next one
//! is read into the same large one, which stays in the CPU's cache. A scattering read (`readv`) into a small buffer with
//! an overflow behind it would spare the copy, but costs 200 ticks more than `read`; the copy of 64 octets is lost in the
//! spread of the measurement (`examples/tap_cost.rs`).

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

/// Octets of a virtio_net_hdr.
const HEADER: usize = VirtioHeader::LEN;
/// Octets of the longest packet that a small buffer takes, with a virtio_net_hdr in its headroom.
const SHORT: usize = HEADER + SMALL_FRAME;
/// Octets of the longest read.
const LONGEST: usize = HEADER + MAX_FRAME;
/// Nanoseconds after which a queue without a device looks whether it has one again.
const ABSENCE: u64 = 50_000_000;

/// A receive queue.
pub(super) struct Queue {
    queue: queue::Queue,
    /// The Ethernet header in front of network-layer packets, without its type.
    addresses: [u8; ethernet::ETHERTYPE],
    /// Where the next packet is read to: empty, or of `LONGEST` octets.
    large: Packet,
    /// The same when no large buffer is left.
    makeshift: Box<[u8]>,
    /// The last packet was a long one; the next is likely to be, too.
    long: bool,
    /// There is no device; look again then.
    absent: Option<Time>,
}

/// What one read gave.
enum Read {
    /// A packet with its virtio_net_hdr.
    Packet(Packet),
    /// One for which there was no buffer.
    Lost,
    /// None can be taken for want of buffers, and nothing is lost.
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

    /// Reads one packet into `small`, or a large one. `patient`: large buffers will come free, so a packet that wants one
    /// had better wait than get lost.
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

    /// Makes a frame of what was read; `None` when it makes no sense.
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
            // The descriptor would be "readable" all the time.
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
                    packet.set_time(now);
                    if let Err(mut packet) = vector.push(packet) {
                        // There was room a moment ago.
                        packet.recycle(cache);
                    }
                }
                Ok(Read::Lost) => count(&self.queue.counters.no_buffer, 1),
                Ok(Read::Wait) => break Burst::More,
                Err(Errno::INTR) => (),
                Err(error) => {
                    // EBADFD: the device is gone, its files are attached to nothing.
                    self.absent = (error != Errno::AGAIN).then(|| Time(now.0.saturating_add(ABSENCE)));
                    break Burst::Idle;
                }
            }
        };
        small.recycle(cache);
        burst
    }
}

/// A packet with room for `octets` that begin with a virtio_net_hdr, which goes into the headroom. Empty when no buffer
/// is left.
#[inline]
fn room(cache: &mut Cache, octets: usize) -> Packet {
    let Some(mut packet) = Packet::new(cache, octets.saturating_sub(HEADER)) else { return Packet::EMPTY };
    // There is headroom in a new packet.
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

    /// What becomes of octets that were read.
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
    fn what_makes_no_sense_is_refused() {
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
