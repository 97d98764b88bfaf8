//! Packets by the fields that rules match: for classifiers, for the peer, and as frames.

use std::net::{IpAddr, Ipv4Addr};

use weir_packet::checksum::{self, Sum, pseudo_v4, pseudo_v6};
use weir_packet::parse::martian;
use weir_packet::wire::{MacAddress, ethernet, icmpv4, icmpv6, ipv4, ipv6, protocol, tcp, udp};
use weir_plane::family::Family;
use weir_table::classify::sample::Packets;
use weir_table::classify::{Fields, Rule};

use super::text::text;
use crate::alike;

/// The sender of the frames, which is not resolved.
const SENDER: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

/// A family.
pub(super) trait Ip: Packets + Family {
    /// As reports name it.
    const NAME: &'static str;
    /// Its ICMP.
    const ICMP: u8;
    /// Octets of a frame, from the Ethernet header to the end of the payload.
    const SIZE: usize;
    /// Returns whether a packet is forwarded: neither its source nor its destination is unused, and its fields are as
    /// rules see them.
    fn is_forwarded(packet: &Packet<Self>) -> bool;
    /// The header of a packet with so many octets after it.
    fn header(packet: &Packet<Self>, payload: usize) -> Vec<u8>;
    /// Rules that are to this family what those are to IPv4.
    fn like(rules: &[Rule<u32>]) -> Vec<Rule<Self>>;
    /// Rules and packets as the peer reads them, if it has this family.
    fn for_peers(rules: &[Rule<Self>], packets: &[Packet<Self>]) -> Option<(String, Vec<u8>)>;
    /// The sum of what is not in the packet but counts in checksums of its payload of so many octets.
    fn pseudo(packet: &Packet<Self>, payload: usize) -> Sum;
}

/// The fields that rules match of a packet that is no fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet<K> {
    pub(super) source: K,
    pub(super) destination: K,
    pub(super) protocol: u8,
    /// Of UDP and TCP; else zeros.
    pub(super) ports: (u16, u16),
    /// The flags of TCP or the type of ICMP; else zero.
    pub(super) octet: u8,
    /// The code of ICMP; else zero.
    pub(super) code: u8,
}

impl<K: Ip> Packet<K> {
    /// As ClassBench has fields: with ports whatever the protocol is, and with flags, or the type of ICMP, in the upper octet
    /// of 16 bits, and its code in the lower one.
    pub(super) fn fields(&self) -> Fields<K> {
        Fields::new(self.source, self.destination, self.protocol)
            .with_ports(self.ports.0, self.ports.1)
            .with_flags(u16::from_be_bytes([self.octet, self.code]))
    }

    /// In a frame of [`Ip::SIZE`] octets.
    pub(super) fn frame(&self, to: MacAddress) -> Vec<u8> {
        let link = ethernet::Fields { destination: to, source: SENDER, ethertype: K::ETHERTYPE }.emit();
        let length = K::SIZE - link.len() - K::header(self, 0).len();
        let (source, destination) = self.ports;
        let mut payload = vec![0; length];
        let place = match self.protocol {
            protocol::TCP => {
                let flags = tcp::Flags(self.octet);
                let header = tcp::Fields {
                    source,
                    destination,
                    sequence: 1,
                    acknowledgment: 1,
                    flags,
                    window: 1024,
                    checksum: 0,
                };
                payload[..tcp::LENGTH].copy_from_slice(&header.emit());
                Some(tcp::CHECKSUM)
            }
            protocol::UDP => {
                let header = udp::Fields { source, destination, length: length as u16, checksum: 0 };
                payload[..udp::LENGTH].copy_from_slice(&header.emit());
                Some(udp::CHECKSUM)
            }
            protocol::ICMP | protocol::ICMPV6 => {
                payload[..2].copy_from_slice(&[self.octet, self.code]);
                Some(if K::BITS == 32 { icmpv4::CHECKSUM } else { icmpv6::CHECKSUM })
            }
            _ => None,
        };
        if let Some(place) = place {
            // ICMP for IPv4 does without a pseudo header.
            let pseudo = if self.protocol == protocol::ICMP { Sum::new() } else { K::pseudo(self, length) };
            let sum = pseudo.bytes(&payload).checksum();
            let sum = if self.protocol == protocol::UDP { checksum::udp(sum) } else { sum };
            payload[place..][..2].copy_from_slice(&sum.to_be_bytes());
        }
        [&link[..], &K::header(self, length), &payload].concat()
    }
}

impl Packet<u32> {
    /// As `peer-acl` reads it.
    pub(super) fn record(&self) -> [u8; 16] {
        let mut record = [0; 16];
        record[0..4].copy_from_slice(&self.source.to_be_bytes());
        record[4..8].copy_from_slice(&self.destination.to_be_bytes());
        record[8..10].copy_from_slice(&self.ports.0.to_be_bytes());
        record[10..12].copy_from_slice(&self.ports.1.to_be_bytes());
        record[12..14].copy_from_slice(&[self.octet, self.code]);
        record[14] = self.protocol;
        record
    }
}

impl Ip for u32 {
    const NAME: &'static str = "ipv4";
    const ICMP: u8 = protocol::ICMP;
    /// 64 with the frame check sequence.
    const SIZE: usize = 60;

    fn is_forwarded(packet: &Packet<u32>) -> bool {
        // No multicast and nothing link-local, either: it is not forwarded.
        let goes = |address: Ipv4Addr| !martian::source_v4(address) && !address.is_link_local();
        goes(packet.source.into()) && goes(packet.destination.into())
    }

    fn header(packet: &Packet<u32>, payload: usize) -> Vec<u8> {
        let header = ipv4::Fields {
            tos: 0,
            total_length: (ipv4::LENGTH + payload) as u16,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: packet.protocol,
            source: packet.source.into(),
            destination: packet.destination.into(),
        };
        header.emit().to_vec()
    }

    fn pseudo(packet: &Packet<u32>, payload: usize) -> Sum {
        pseudo_v4(packet.source.into(), packet.destination.into(), packet.protocol, payload as u16)
    }

    fn like(rules: &[Rule<u32>]) -> Vec<Rule<u32>> {
        rules.to_vec()
    }

    fn for_peers(rules: &[Rule<u32>], packets: &[Packet<u32>]) -> Option<(String, Vec<u8>)> {
        Some((text(rules), packets.iter().flat_map(Packet::record).collect()))
    }
}

impl Ip for u128 {
    const NAME: &'static str = "ipv6";
    const ICMP: u8 = protocol::ICMPV6;
    const SIZE: usize = 78;

    fn is_forwarded(packet: &Packet<u128>) -> bool {
        // What is given out: 2000::/3. The authentication header is one that others follow.
        packet.source >> 125 == 1 && packet.destination >> 125 == 1 && packet.protocol != protocol::AH
    }

    fn header(packet: &Packet<u128>, payload: usize) -> Vec<u8> {
        let header = ipv6::Fields {
            traffic_class: 0,
            flow_label: 0,
            payload_length: payload as u16,
            next_header: packet.protocol,
            hop_limit: 64,
            source: packet.source.into(),
            destination: packet.destination.into(),
        };
        header.emit().to_vec()
    }

    fn pseudo(packet: &Packet<u128>, payload: usize) -> Sum {
        pseudo_v6(packet.source.into(), packet.destination.into(), packet.protocol, payload as u32)
    }

    fn like(rules: &[Rule<u32>]) -> Vec<Rule<u128>> {
        alike::ipv6(rules, 7)
    }

    fn for_peers(_: &[Rule<u128>], _: &[Packet<u128>]) -> Option<(String, Vec<u8>)> {
        None
    }
}

/// An address as models have it.
pub(super) fn address<K: Ip>(key: K) -> IpAddr {
    key.address()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets<K: Ip>() -> Vec<Packet<K>> {
        let mut random = weir_base::random::Random::from_seed(1);
        [protocol::TCP, protocol::UDP, K::ICMP, 47]
            .into_iter()
            .map(|protocol| {
                let ported = protocol == protocol::TCP || protocol == protocol::UDP;
                Packet {
                    source: K::draw_given_out(&mut random),
                    destination: K::draw_given_out(&mut random),
                    protocol,
                    ports: if ported { (1234, 80) } else { (0, 0) },
                    octet: if protocol == protocol::TCP { 0x12 } else { 0 },
                    code: 0,
                }
            })
            .collect()
    }

    #[test]
    fn frames_are_of_one_size_and_say_what_fields_say() {
        for packet in packets::<u32>() {
            let frame = packet.frame(SENDER);
            assert_eq!(frame.len(), 60);
            let datagram = &frame[ethernet::LENGTH..];
            let header = ipv4::Fields::parse(datagram).unwrap();
            assert_eq!((header.source.to_bits(), header.destination.to_bits()), (packet.source, packet.destination));
            assert_eq!((header.protocol, usize::from(header.total_length)), (packet.protocol, datagram.len()));
            if packet.protocol == protocol::TCP {
                let segment = tcp::Fields::parse(&datagram[ipv4::LENGTH..]).unwrap();
                assert_eq!((segment.source, segment.destination, segment.flags), (1234, 80, tcp::Flags(0x12)));
                assert!(u32::pseudo(&packet, 26).bytes(&datagram[ipv4::LENGTH..]).is_valid());
            }
        }
        assert!(packets::<u128>().iter().all(|packet| packet.frame(SENDER).len() == 78));
    }

    #[test]
    fn records_hold_the_fields() {
        let (source, destination, ports) = (0x0102_0304, 0x0506_0708, (0x0a0b, 0x0c0d));
        let packet = Packet { source, destination, protocol: 6, ports, octet: 0x12, code: 0 };
        assert_eq!(packet.record(), [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 0x12, 0, 6, 0]);
        assert_eq!((packet.fields().flags(), packet.fields().ports()), (Some(0x1200), Some((0x0a0b, 0x0c0d))));
    }
}
