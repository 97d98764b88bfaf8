//! The capabilities of a port: the work that it takes over from the gateway, and its use of packet buffers.

use weir_packet::buffer::MAX_FRAME;
use weir_packet::checksum;
use weir_packet::offload::{Checksum, Gso};
use weir_packet::packet::Packet;

use crate::sys::ethtool;

/// States the capabilities of all queues of a port. They do not change while the port is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Work that the gateway may leave undone in packets that it transmits.
    pub transmit: Offloads,
    /// Work that the sender may have left undone in received packets.
    pub receive: Offloads,
    /// Received packets state whether their checksum was verified ([`Checksum::Valid`]).
    pub verified: bool,
    /// The port can register the region of the buffer pool ([`crate::Context::pool`]) and exchange buffers without a copy.
    pub registers_buffers: bool,
    /// Filters of the device, which choose packets by their fields before the gateway has them.
    pub filters: Filters,
    /// Octets that transmit queues write in front of a frame, inside its buffer.
    pub headroom: usize,
    /// Octets that transmit queues write behind a frame, inside its buffer.
    pub tailroom: usize,
}

/// The answer of a device to the question for its filters (ethtool n-tuple).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Filters {
    /// There is no device.
    #[default]
    None,
    /// It takes none, for the reason of this error of the system.
    Refused(i32),
    /// It has so many.
    Taken(u32),
}

impl Filters {
    /// Queries a device.
    pub(crate) fn of(device: &str) -> Filters {
        ethtool::filters(device).map_or_else(|why| Filters::Refused(why.raw_os_error()), Filters::Taken)
    }
}

/// Work left undone in packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offloads {
    /// Segmentation of super-packets.
    pub segmentation: Segmentation,
    /// Completion of partial checksums.
    pub checksums: Checksums,
}

/// Kinds of super-packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segmentation {
    /// TCP over IPv4.
    pub tcp4: bool,
    /// TCP over IPv6.
    pub tcp6: bool,
    /// UDP over IPv4 and IPv6.
    pub udp: bool,
    /// Octets of the largest super-packet, with its link-layer header; 0 without any kind.
    pub largest: usize,
}

/// Kinds of partial checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checksums {
    /// The Internet checksum (RFC 1071) of TCP, UDP and ICMPv6.
    pub internet: bool,
    /// The CRC32c of SCTP (RFC 9260, 6.8).
    pub crc32c: bool,
}

impl Offloads {
    /// Everything: the port records or discards packets as they are.
    pub(crate) const AS_IS: Offloads = Offloads {
        segmentation: Segmentation { tcp4: true, tcp6: true, udp: true, largest: MAX_FRAME },
        checksums: Checksums { internet: true, crc32c: true },
    };
}

impl Segmentation {
    /// Returns whether a packet of this kind and length is included. A packet without segments always is.
    #[inline]
    pub fn includes(&self, gso: Gso, octets: usize) -> bool {
        let kind = match gso {
            Gso::None => return true,
            Gso::Tcp4 => self.tcp4,
            Gso::Tcp6 => self.tcp6,
            Gso::Udp => self.udp,
        };
        kind && octets <= self.largest
    }
}

impl Checksums {
    /// Completes the partial checksum of a packet unless its kind is included.
    #[inline]
    pub(crate) fn complete_others(&self, packet: &mut Packet) {
        let offload = packet.offload();
        let included = if offload.is_crc() { self.crc32c } else { self.internet };
        if offload.checksum == Checksum::Partial && !included {
            checksum::complete(packet);
        }
    }
}

impl Capabilities {
    /// Returns the names of the capabilities for operators, such as `tx-tcp4` and `rx-checksum`.
    pub fn names(&self) -> Vec<&'static str> {
        let (tx, rx) = (&self.transmit, &self.receive);
        let all = [
            (tx.segmentation.tcp4, "tx-tcp4"),
            (tx.segmentation.tcp6, "tx-tcp6"),
            (tx.segmentation.udp, "tx-udp"),
            (tx.checksums.internet, "tx-checksum"),
            (tx.checksums.crc32c, "tx-crc32c"),
            (rx.segmentation.tcp4, "rx-tcp4"),
            (rx.segmentation.tcp6, "rx-tcp6"),
            (rx.segmentation.udp, "rx-udp"),
            (rx.checksums.internet, "rx-checksum"),
            (rx.checksums.crc32c, "rx-crc32c"),
            (self.verified, "rx-verified"),
            (self.registers_buffers, "registered-buffers"),
        ];
        all.into_iter().filter_map(|(has, name)| has.then_some(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::buffer::{Pool, PoolSize};
    use weir_packet::offload::Offload;

    use super::*;

    #[test]
    fn super_packets_are_included_by_kind_and_length() {
        let tcp4 = Segmentation { tcp4: true, largest: 9000, ..Segmentation::default() };
        for (gso, octets, included) in [
            (Gso::Tcp4, 9000, true),
            (Gso::Tcp4, 9001, false),
            (Gso::Tcp6, 100, false),
            (Gso::Udp, 100, false),
            (Gso::None, 9001, true),
        ] {
            assert_eq!(tcp4.includes(gso, octets), included, "{gso:?} {octets}");
        }
    }

    #[test]
    fn other_partial_checksums_are_completed() {
        let mut cache = Pool::new(PoolSize { small: 1, large: 0 }).unwrap().cache();
        let mut packet = Packet::copy_of(&mut cache, &[1; 60]).unwrap();
        let internet = Offload { checksum: Checksum::Partial, start: 34, offset: 16, ..Offload::default() };
        let crc32c = Offload { offset: Offload::SCTP_CHECKSUM, ..internet };
        let only_internet = Checksums { internet: true, crc32c: false };
        for (checksums, before, after) in [
            (only_internet, internet, internet),
            (only_internet, crc32c, Offload::default()),
            (Checksums::default(), internet, Offload::default()),
            (Offloads::AS_IS.checksums, crc32c, crc32c),
        ] {
            packet.set_offload(before);
            checksums.complete_others(&mut packet);
            assert_eq!(packet.offload(), after, "{checksums:?}");
        }
    }
}
