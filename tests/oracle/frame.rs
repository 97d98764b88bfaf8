//! Frames and captures, built and read without weir's code.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The hardware address of every interface of these tests.
pub(crate) const GATEWAY: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];

/// The hardware address that frames come from.
pub(crate) const HOST: [u8; 6] = [0x02, 0, 0, 0, 0, 0x77];

pub(crate) const HOP_BY_HOP: u8 = 0;
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ROUTING: u8 = 43;
pub(crate) const FRAGMENT: u8 = 44;
pub(crate) const AH: u8 = 51;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const NONE: u8 = 59;
pub(crate) const DESTINATION: u8 = 60;
pub(crate) const SCTP: u8 = 132;
pub(crate) const MOBILITY: u8 = 135;

/// Returns an Ethernet frame to the gateway, with 802.1Q tags.
pub(crate) fn ethernet(tags: &[u16], packet: &[u8]) -> Vec<u8> {
    ethernet_to(GATEWAY, tags, packet)
}

/// Returns an Ethernet frame to a station, with 802.1Q tags. The packet's version decides the ethertype.
pub(crate) fn ethernet_to(station: [u8; 6], tags: &[u16], packet: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(18 + packet.len());
    frame.extend(station);
    frame.extend(HOST);
    for tag in tags {
        frame.extend([0x81, 0x00]);
        frame.extend(tag.to_be_bytes());
    }
    frame.extend(if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] });
    frame.extend(packet);
    frame
}

/// The fields of an IPv4 header that tests choose.
#[derive(Debug, Clone)]
pub(crate) struct Ipv4 {
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
    pub(crate) protocol: u8,
    pub(crate) tos: u8,
    pub(crate) id: u16,
    /// Offset in octets.
    pub(crate) offset: usize,
    pub(crate) more: bool,
    pub(crate) options: Vec<u8>,
}

impl Ipv4 {
    pub(crate) fn new(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8) -> Ipv4 {
        Ipv4 { source, destination, protocol, tos: 0, id: 0, offset: 0, more: false, options: Vec::new() }
    }

    pub(crate) fn packet(&self, payload: &[u8]) -> Vec<u8> {
        assert!(self.options.len().is_multiple_of(4) && self.options.len() <= 40 && self.offset.is_multiple_of(8));
        let header = 20 + self.options.len();
        let mut packet = vec![0x40 | (header / 4) as u8, self.tos];
        packet.extend(((header + payload.len()) as u16).to_be_bytes());
        packet.extend(self.id.to_be_bytes());
        packet.extend((u16::from(self.more) << 13 | (self.offset / 8) as u16).to_be_bytes());
        packet.extend([64, self.protocol, 0, 0]);
        packet.extend(self.source.octets());
        packet.extend(self.destination.octets());
        packet.extend(&self.options);
        let sum = checksum(&[&packet]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(payload);
        packet
    }
}

/// Returns an IPv6 packet: `next` is the type of the first header in `payload`.
pub(crate) fn ipv6(source: Ipv6Addr, destination: Ipv6Addr, class: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60 | class >> 4, class << 4, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(payload);
    packet
}

/// Returns an IPv6 fragment header. `offset` is in octets.
pub(crate) fn fragment_header(next: u8, offset: usize, more: bool, id: u32) -> Vec<u8> {
    let mut header = vec![next, 0];
    header.extend((offset as u16 | u16::from(more)).to_be_bytes());
    header.extend(id.to_be_bytes());
    header
}

/// Returns an IPv6 extension header of 8 octets: its first six octets of content are given.
pub(crate) fn extension(next: u8, content: [u8; 6]) -> Vec<u8> {
    let mut header = vec![next, 0];
    header.extend(content);
    header
}

/// Returns six octets of padding options (PadN).
pub(crate) const PADDING: [u8; 6] = [1, 4, 0, 0, 0, 0];

/// Returns an IPv6 authentication header of 24 octets.
pub(crate) fn authentication(next: u8) -> Vec<u8> {
    let mut header = vec![next, 4, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1];
    header.extend([0xaa; 12]);
    header
}

/// The Internet checksum (RFC 1071) over parts of an even length, but for the last one.
pub(crate) fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum of a transport segment with its pseudo header; 0 where the segment's own checksum is right.
pub(crate) fn transport_checksum(source: IpAddr, destination: IpAddr, protocol: u8, segment: &[u8]) -> u16 {
    let mut pseudo = Vec::new();
    for address in [source, destination] {
        match address {
            IpAddr::V4(address) => pseudo.extend(address.octets()),
            IpAddr::V6(address) => pseudo.extend(address.octets()),
        }
    }
    pseudo.extend((segment.len() as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, protocol]);
    checksum(&[&pseudo, segment])
}

/// Returns a TCP segment of 20 octets.
pub(crate) fn tcp(source: IpAddr, destination: IpAddr, ports: (u16, u16), flags: u8) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(ports.0.to_be_bytes());
    segment.extend(ports.1.to_be_bytes());
    segment.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0x10, 0, 0, 0, 0, 0]);
    let sum = transport_checksum(source, destination, TCP, &segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

/// Returns a UDP datagram.
pub(crate) fn udp(source: IpAddr, destination: IpAddr, ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend(ports.0.to_be_bytes());
    datagram.extend(ports.1.to_be_bytes());
    datagram.extend(((8 + data.len()) as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(data);
    let sum = transport_checksum(source, destination, UDP, &datagram);
    datagram[6..8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
    datagram
}

/// Returns an ICMP or ICMPv6 message with four octets `rest` behind its checksum.
pub(crate) fn icmp(source: IpAddr, destination: IpAddr, kind: u8, code: u8, rest: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend(rest);
    message.extend(data);
    let sum = match source {
        IpAddr::V4(_) => checksum(&[&message]),
        IpAddr::V6(_) => transport_checksum(source, destination, ICMPV6, &message),
    };
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// A frame and the time of its arrival in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Timed {
    pub(crate) time: u64,
    pub(crate) frame: Vec<u8>,
}

/// When captures begin: 2026-01-01T00:00:00Z.
const START: u64 = 1_767_225_600_000_000_000;

/// Gives frames times that lie `gap` nanoseconds apart.
pub(crate) fn paced(frames: impl IntoIterator<Item = Vec<u8>>, gap: u64) -> Vec<Timed> {
    frames.into_iter().enumerate().map(|(number, frame)| Timed { time: START + number as u64 * gap, frame }).collect()
}

/// The link type of Ethernet in captures.
pub(crate) const ETHERNET: u32 = 1;

/// The link type of `tcpdump -i any` in captures.
pub(crate) const LINUX_SLL2: u32 = 276;

/// Returns a pcap file with times in nanoseconds.
pub(crate) fn capture(link: u32, packets: &[Timed]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xa1b2_3c4d_u32.to_le_bytes());
    file.extend([2, 0, 4, 0]);
    file.extend([0; 8]);
    file.extend(262_144_u32.to_le_bytes());
    file.extend(link.to_le_bytes());
    for packet in packets {
        file.extend(((packet.time / 1_000_000_000) as u32).to_le_bytes());
        file.extend(((packet.time % 1_000_000_000) as u32).to_le_bytes());
        file.extend((packet.frame.len() as u32).to_le_bytes());
        file.extend((packet.frame.len() as u32).to_le_bytes());
        file.extend(&packet.frame);
    }
    file
}

/// Returns the frames of a pcap file.
///
/// # Panics
/// When it is none, or ends inside a packet.
pub(crate) fn frames(file: &[u8]) -> Vec<Vec<u8>> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four octets"));
    assert!([0xa1b2_3c4d, 0xa1b2_c3d4].contains(&word(0)), "a pcap file of this machine's byte order");
    let (mut at, mut frames) = (24, Vec::new());
    while at < file.len() {
        let length = word(at + 8) as usize;
        frames.push(file[at + 16..at + 16 + length].to_vec());
        at += 16 + length;
    }
    frames
}

/// Returns the packet in a frame, without Ethernet header, tags and padding.
pub(crate) fn packet(frame: &[u8]) -> &[u8] {
    let mut at = 12;
    while frame[at..at + 2] == [0x81, 0x00] || frame[at..at + 2] == [0x88, 0xa8] {
        at += 4;
    }
    let packet = &frame[at + 2..];
    let length = match packet[0] >> 4 {
        4 => usize::from(u16::from_be_bytes([packet[2], packet[3]])),
        _ => 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])),
    };
    &packet[..length]
}
