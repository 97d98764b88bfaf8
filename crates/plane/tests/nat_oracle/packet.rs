//! Packets of the oracle, and their octets by RFC 791, 792, 768, 9293, 3828, 4340, 4443 and 8200. Addresses are numbers of 32 bits:
//! an IPv6 address is the prefix 2001:db8::/96 and such a number.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const DCCP: u8 = 33;
pub const GRE: u8 = 47;
pub const OSPF: u8 = 89;
pub const SCTP: u8 = 132;
pub const UDP_LITE: u8 = 136;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// Kinds of ICMP requests, and of their replies.
const KINDS: [(u16, u16); 2] = [(8, 0), (13, 14)];

/// Whether the protocol has ports.
pub fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}

/// Whether a kind of ICMP message is a request.
pub fn is_request(kind: u16) -> bool {
    KINDS.iter().any(|(request, _)| *request == kind)
}

/// The address of a number.
pub fn ip(v6: bool, address: u32) -> IpAddr {
    match v6 {
        true => Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(address)).into(),
        false => Ipv4Addr::from(address).into(),
    }
}

/// The fields that say which flow a packet belongs to. ICMP has the identifier as source port, and the kind as destination port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tuple {
    pub protocol: u8,
    pub source: u32,
    pub destination: u32,
    pub sport: u16,
    pub dport: u16,
}

impl Tuple {
    /// The tuple of the replies.
    pub fn turned(self) -> Tuple {
        let (sport, dport) = match self.protocol {
            ICMP => {
                let other = KINDS.iter().find_map(|&(one, other)| match self.dport {
                    kind if kind == one => Some(other),
                    kind if kind == other => Some(one),
                    _ => None,
                });
                (self.sport, other.unwrap_or(self.dport))
            }
            _ => (self.dport, self.sport),
        };
        Tuple { protocol: self.protocol, source: self.destination, destination: self.source, sport, dport }
    }
}

/// An ICMP error.
#[derive(Debug, Clone)]
pub struct Quote {
    /// Type, code, and the word behind the checksum.
    pub kind: (u8, u8, u32),
    pub packet: Packet,
    /// Octets of the quoted packet behind its IP header.
    pub kept: usize,
}

/// A packet.
#[derive(Debug, Clone)]
pub struct Packet {
    pub tuple: Tuple,
    /// TCP's.
    pub flags: u8,
    pub ttl: u8,
    /// Names the packet where it leaves: the identification, or the flow label.
    pub tag: u16,
    /// Octets of data.
    pub data: u8,
    /// The difference of its checksum to the right one.
    pub fault: u16,
    /// A datagram of UDP without checksum.
    pub unsummed: bool,
    /// TCP's option of the maximum segment size.
    pub mss: Option<u16>,
    pub quote: Option<Box<Quote>>,
}

/// The sum of RFC 1071, not inverted.
fn sum(octets: &[u8], start: u32) -> u32 {
    let words = octets.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    start + words.sum::<u32>()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

impl Packet {
    /// A packet of a tuple.
    pub fn new(tuple: Tuple, tag: u16) -> Packet {
        Packet { tuple, flags: 0, ttl: 64, tag, data: 4, fault: 0, unsummed: false, mss: None, quote: None }
    }

    /// The packet with another tuple.
    pub fn with(&self, tuple: Tuple) -> Packet {
        Packet { tuple, ..self.clone() }
    }

    /// The octets of the IP packet.
    pub fn octets(&self, v6: bool) -> Vec<u8> {
        let mut payload = self.payload(v6);
        let protocol = if v6 && self.tuple.protocol == ICMP { 58 } else { self.tuple.protocol };
        let ends = [self.tuple.source, self.tuple.destination].map(|address| match ip(v6, address) {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        });
        let pseudo = sum(&ends[0], sum(&ends[1], u32::from(protocol) + payload.len() as u32));
        let start = if self.tuple.protocol == ICMP && !v6 { 0 } else { pseudo };
        if let Some(at) = self.checksum_at().filter(|_| !(self.unsummed && self.tuple.protocol == UDP)) {
            let right = !folded(sum(&payload, start));
            // Zero has two forms (RFC 1624, 3): UDP has the one without zeros, and other protocols the one that an update gives.
            let given = match folded(u32::from(right) + u32::from(self.fault)) {
                0 | 0xffff if matches!(self.tuple.protocol, UDP | UDP_LITE) => 0xffff,
                0xffff => 0,
                given => given,
            };
            payload[at..at + 2].copy_from_slice(&given.to_be_bytes());
        }
        let mut octets = Vec::with_capacity(40 + payload.len());
        if v6 {
            octets.extend([0x60, 0]);
            octets.extend(self.tag.to_be_bytes());
            octets.extend((payload.len() as u16).to_be_bytes());
            octets.extend([protocol, self.ttl]);
            octets.extend(ends.concat());
        } else {
            octets.extend([0x45, 0]);
            octets.extend((20 + payload.len() as u16).to_be_bytes());
            octets.extend(self.tag.to_be_bytes());
            octets.extend([0, 0, self.ttl, protocol, 0, 0]);
            octets.extend(ends.concat());
            let header = !folded(sum(&octets, 0));
            octets[10..12].copy_from_slice(&header.to_be_bytes());
        }
        octets.extend(payload);
        octets
    }

    /// Where the payload has its checksum.
    pub fn checksum_at(&self) -> Option<usize> {
        match self.tuple.protocol {
            TCP => Some(16),
            UDP | UDP_LITE | DCCP => Some(6),
            ICMP => Some(2),
            _ => None,
        }
    }

    /// The options of TCP: the maximum segment size, sometimes behind the window scale.
    fn options(&self) -> Vec<u8> {
        let Some(mss) = self.mss else { return Vec::new() };
        let before: &[u8] = if self.tag.is_multiple_of(2) { &[] } else { &[1, 3, 3, 7] };
        [before, &[2, 4], &mss.to_be_bytes()].concat()
    }

    fn payload(&self, v6: bool) -> Vec<u8> {
        let Tuple { protocol, sport, dport, .. } = self.tuple;
        let ports = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
        let data: Vec<u8> = (0..self.data).map(|place| place ^ self.tag as u8).collect();
        let mut payload = Vec::new();
        match protocol {
            TCP => {
                payload.extend(ports);
                payload.extend(u32::from(self.tag).to_be_bytes());
                let options = self.options();
                let length = (5 + options.len() / 4) as u8;
                payload.extend([0, 0, 0, 1, length << 4, self.flags, 0x20, 0, 0, 0, 0, 0]);
                payload.extend(options);
            }
            UDP | UDP_LITE => {
                payload.extend(ports);
                payload.extend((8 + data.len() as u16).to_be_bytes());
                payload.extend([0, 0]);
            }
            DCCP => {
                payload.extend(ports);
                payload.extend([4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, self.tag as u8]);
            }
            SCTP => {
                payload.extend(ports);
                payload.extend([0, 0, 0, 1, 0xc0, 0xff, 0xee, self.tag as u8]);
            }
            ICMP => match &self.quote {
                Some(quote) => {
                    let (kind, code, rest) = quote.kind;
                    payload.extend([kind, code, 0, 0]);
                    payload.extend(rest.to_be_bytes());
                    let mut quoted = quote.packet.octets(v6);
                    quoted.truncate(if v6 { 40 } else { 20 } + quote.kept);
                    payload.extend(quoted);
                    return payload;
                }
                None => {
                    let kind = match (v6, dport) {
                        (true, 8) => 128,
                        (true, 0) => 129,
                        _ => dport as u8,
                    };
                    payload.extend([kind, 0, 0, 0]);
                    payload.extend(sport.to_be_bytes());
                    payload.extend(self.tag.to_be_bytes());
                    if matches!(dport, 13 | 14) {
                        payload.extend([0; 12]);
                        return payload;
                    }
                }
            },
            // The version of GRE, and no options.
            GRE => payload.extend([0, 0, 8, 0]),
            _ => {}
        }
        payload.extend(data);
        payload
    }
}

/// The tag of a packet.
pub fn tag(packet: &[u8]) -> u16 {
    let at = if packet[0] >> 4 == 6 { 2 } else { 4 };
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

/// The source address and port (or identifier) of a packet that left, and its destination address.
pub fn ends(packet: &[u8]) -> ((u32, u16), u32) {
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let address = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
    let (last, length, protocol, payload) = match packet[0] >> 4 {
        6 => (20, 16, packet[6], 40),
        _ => (12, 4, packet[9], 20),
    };
    let port = match protocol {
        ICMP | 58 => word(payload + 4),
        protocol if has_ports(protocol) => word(payload),
        _ => 0,
    };
    ((address(last), port), address(last + length))
}
