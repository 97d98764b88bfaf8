//! The headers in front of an inner packet, made once for each tunnel and copied for each packet.

use std::net::IpAddr;

use super::kind::{Carrier, Id, Inner};
use crate::checksum;
use crate::wire::ethernet::ethertype;
use crate::wire::{geneve, gre, gue, ipv4, ipv6, protocol, udp, vxlan};

/// Octets of all headers, at most: IPv6, UDP, and the longest header of a carrier.
const MOST: usize = ipv6::LENGTH + udp::LENGTH + gre::MOST;

/// Copies octets, and tries each of some lengths first: a copy of a length that is known here needs no call.
macro_rules! copy {
    ($from:expr, $to:expr, $($length:literal)*) => {
        match $to.len() {
            $($length => $to.copy_from_slice(&$from[..$length]),)*
            length => $to.copy_from_slice($from.get(..length)?),
        }
    };
}

/// The carrier of a tunnel with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The carrier.
    pub carrier: Carrier,
    /// The identifier.
    pub id: Id,
    /// The destination port of UDP.
    pub port: u16,
    /// GUE: inner packets follow UDP at once (variant 1).
    pub direct: bool,
    /// GRE: the header has a checksum.
    pub checksum: bool,
}

impl Shape {
    /// Returns the octets of the carrier's own header, behind UDP or IP.
    #[must_use]
    pub fn length(&self) -> usize {
        match self.carrier {
            Carrier::Vxlan => vxlan::LENGTH,
            Carrier::Geneve => geneve::LENGTH,
            Carrier::Gue if self.direct => 0,
            Carrier::Gue => gue::LENGTH,
            Carrier::Gre => self.gre().length(),
            Carrier::Ip => 0,
        }
    }

    /// Returns the octets of all headers over IPv4 or IPv6.
    #[must_use]
    pub fn headers(&self, v4: bool) -> usize {
        let ip = if v4 { ipv4::LENGTH } else { ipv6::LENGTH };
        ip + if self.carrier.port().is_some() { udp::LENGTH } else { 0 } + self.length()
    }

    fn gre(&self) -> gre::Fields {
        let key = (self.id != Id::NONE).then_some(self.id.0 as u32);
        gre::Fields { checksum: self.checksum.then_some(0), key, sequence: None, protocol: 0 }
    }
}

/// The fields of an outer header that each packet has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// The TTL or hop limit.
    pub ttl: u8,
    /// IPv4: the packet must not be fragmented.
    pub dont_fragment: bool,
    /// IPv4: the identification; packets that may be fragmented need one that does not repeat soon (RFC 6864).
    pub identification: u16,
    /// IPv6: the flow label, 20 bits.
    pub flow_label: u32,
    /// The source port of UDP.
    pub source_port: u16,
}

/// The headers between two addresses of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
pub struct Outer {
    bytes: [u8; MOST],
    /// The sum of the addresses of IPv4, as words of 16 bits.
    addresses: u32,
    length: u8,
    ip: u8,
    carrier: Carrier,
    direct: bool,
}

impl Outer {
    /// Makes the headers from `source` to `destination`. `None`: the addresses are of two families.
    #[must_use]
    pub fn new(source: IpAddr, destination: IpAddr, shape: &Shape) -> Option<Outer> {
        let is_udp = shape.carrier.port().is_some();
        let number = match shape.carrier {
            _ if is_udp => protocol::UDP,
            Carrier::Gre => protocol::GRE,
            _ => protocol::IPIP,
        };
        let mut all = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = ipv4::Fields {
                    tos: 0,
                    total_length: 0,
                    identification: 0,
                    dont_fragment: false,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl: 0,
                    protocol: number,
                    source,
                    destination,
                };
                let mut header = header.emit().to_vec();
                header[ipv4::CHECKSUM..][..2].fill(0);
                header
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = ipv6::Fields {
                    traffic_class: 0,
                    flow_label: 0,
                    payload_length: 0,
                    next_header: number,
                    hop_limit: 0,
                    source,
                    destination,
                };
                header.emit().to_vec()
            }
            _ => return None,
        };
        let ip = all.len() as u8;
        if is_udp {
            all.extend(udp::Fields { source: 0, destination: shape.port, length: 0, checksum: 0 }.emit());
        }
        match shape.carrier {
            Carrier::Vxlan => all.extend(vxlan::Fields { vni: shape.id.0 as u32 }.emit()),
            Carrier::Geneve => {
                let vni = shape.id.0 as u32;
                let protocol = ethertype::TRANSPARENT_BRIDGING;
                all.extend(geneve::Fields { options_length: 0, control: false, critical: false, protocol, vni }.emit());
            }
            Carrier::Gue if shape.direct => {}
            Carrier::Gue => {
                all.extend(gue::Fields { control: false, extensions: 0, protocol: protocol::IPIP, flags: 0 }.emit());
            }
            Carrier::Gre => all.extend(&shape.gre().emit()[..shape.gre().length()]),
            Carrier::Ip => {}
        }
        let mut bytes = [0; MOST];
        bytes[..all.len()].copy_from_slice(&all);
        let words = all[ipv4::SOURCE..ipv4::LENGTH].as_chunks::<2>().0.iter();
        let addresses = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
        Some(Outer { bytes, addresses, length: all.len() as u8, ip, carrier: shape.carrier, direct: shape.direct })
    }

    /// Returns whether the headers are of IPv4.
    #[inline(always)]
    #[must_use]
    pub fn is_v4(&self) -> bool {
        usize::from(self.ip) == ipv4::LENGTH
    }

    /// Returns the octets of the IP header.
    #[inline(always)]
    #[must_use]
    pub fn ip_length(&self) -> usize {
        usize::from(self.ip)
    }

    /// Returns the octets of all headers.
    #[inline(always)]
    #[must_use]
    pub fn length(&self) -> usize {
        usize::from(self.length)
    }

    /// Returns the protocol of IP in front of an inner packet.
    #[inline(always)]
    #[must_use]
    pub fn protocol(&self, inner: Inner) -> u8 {
        match self.carrier {
            Carrier::Vxlan | Carrier::Geneve | Carrier::Gue => protocol::UDP,
            Carrier::Gre => protocol::GRE,
            Carrier::Ip if inner == Inner::V6 => protocol::IPV6,
            Carrier::Ip => protocol::IPIP,
        }
    }

    /// Writes the headers into the start of `out`, in front of so many octets of inner packet. Checksums over inner packets are 0.
    /// Returns `None` if there is no room or the packet would be too long for IP; what it wrote is of no use then.
    #[inline]
    pub fn write(&self, out: &mut [u8], payload: usize, inner: Inner, marks: &Marks) -> Option<()> {
        let (ip, length) = (self.ip_length(), self.length());
        let behind_ip = u16::try_from(length - ip + payload).ok()?;
        let out = out.get_mut(..length)?;
        copy!(self.bytes, out, 20 24 28 32 36 40 44 48 52 56);
        let Marks { traffic_class, ttl, dont_fragment, identification, flow_label, source_port } = *marks;
        if let Some((header, behind)) = self.is_v4().then(|| out.split_first_chunk_mut::<{ ipv4::LENGTH }>()).flatten()
        {
            let total = behind_ip.checked_add(ipv4::LENGTH as u16)?;
            let fragment = if dont_fragment { ipv4::DONT_FRAGMENT } else { 0 };
            let first = u16::from_be_bytes([0x45, traffic_class]);
            let hops = u16::from_be_bytes([ttl, self.protocol(inner)]);
            // Nine words of 16 bits: the first fold carries little, and the second nothing.
            let sum =
                [first, total, identification, fragment, hops].map(u32::from).iter().sum::<u32>() + self.addresses;
            let sum = (sum & 0xffff) + (sum >> 16);
            let checksum = !((sum + (sum >> 16)) as u16);
            let long = |upper: u16, lower: u16| (u32::from(upper) << 16 | u32::from(lower)).to_be_bytes();
            header[..4].copy_from_slice(&long(first, total));
            header[4..8].copy_from_slice(&long(identification, fragment));
            header[8..12].copy_from_slice(&long(hops, checksum));
            self.write_carrier(behind, behind_ip, inner, source_port);
        } else if let Some((header, behind)) = out.split_first_chunk_mut::<{ ipv6::LENGTH }>() {
            let first = 6 << 28 | u32::from(traffic_class) << 20 | flow_label & 0xf_ffff;
            header[..4].copy_from_slice(&first.to_be_bytes());
            header[ipv6::PAYLOAD_LENGTH..][..2].copy_from_slice(&behind_ip.to_be_bytes());
            header[ipv6::NEXT_HEADER] = self.protocol(inner);
            header[ipv6::HOP_LIMIT] = ttl;
            self.write_carrier(behind, behind_ip, inner, source_port);
        }
        Some(())
    }

    /// Completes what follows the IP header.
    #[inline(always)]
    fn write_carrier(&self, out: &mut [u8], length: u16, inner: Inner, source_port: u16) {
        match self.carrier {
            Carrier::Vxlan | Carrier::Geneve | Carrier::Gue => {
                if let Some((header, behind)) = out.split_first_chunk_mut::<{ udp::LENGTH }>() {
                    header[..2].copy_from_slice(&source_port.to_be_bytes());
                    header[4..6].copy_from_slice(&length.to_be_bytes());
                    if let Some(number) = behind.get_mut(1).filter(|_| self.carrier == Carrier::Gue && !self.direct) {
                        *number = if inner == Inner::V6 { protocol::IPV6 } else { protocol::IPIP };
                    }
                }
            }
            Carrier::Gre => {
                let kind = if inner == Inner::V6 { ethertype::IPV6 } else { ethertype::IPV4 };
                if let Some(place) = out.get_mut(2..4) {
                    place.copy_from_slice(&kind.to_be_bytes());
                }
            }
            Carrier::Ip => {}
        }
    }
}

/// Completes the checksum of GRE in octets from its header on (RFC 2784, 2.5).
pub fn complete_gre(bytes: &mut [u8]) {
    let sum = checksum::of(bytes);
    if let Some(place) = bytes.get_mut(gre::LENGTH..gre::LENGTH + 2) {
        place.copy_from_slice(&sum.to_be_bytes());
    }
}

/// Completes the checksum of UDP in an IPv6 packet whose UDP header follows its IPv6 header (RFC 8200, 8.1).
pub fn complete_udp(packet: &mut [u8]) {
    let Ok(header) = ipv6::Header::new(packet) else { return };
    let (source, destination) = (header.source(), header.destination());
    let Some(datagram) = packet.get_mut(ipv6::LENGTH..) else { return };
    let sum = checksum::pseudo_v6(source, destination, protocol::UDP, datagram.len() as u32).bytes(datagram);
    if let Some(place) = datagram.get_mut(udp::CHECKSUM..udp::LENGTH) {
        place.copy_from_slice(&checksum::udp(sum.checksum()).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::read::{is_intact_gre, read};
    use super::*;
    use crate::parse::{self, ParseFlags};

    fn shape() -> impl Strategy<Value = Shape> {
        let carrier = proptest::sample::select(Carrier::ALL.to_vec());
        (carrier, any::<u32>(), any::<bool>(), any::<u16>(), any::<bool>()).prop_map(
            |(carrier, id, key, port, flag)| {
                let id = match carrier {
                    Carrier::Vxlan | Carrier::Geneve => Id::network(id >> 8),
                    Carrier::Gre => Id::key(key.then_some(id)),
                    Carrier::Gue | Carrier::Ip => Id::NONE,
                };
                Shape { carrier, id, port, direct: flag, checksum: flag }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            shape in shape(), v4: bool, inner_v6: bool, payload in proptest::collection::vec(any::<u8>(), 20..200),
            class: u8, ttl in 1u8.., df: bool, label in 0u32..1 << 20, identification: u16, source_port: u16
        ) {
            let (from, to): (IpAddr, IpAddr) = match v4 {
                true => ([192, 0, 2, 1].into(), [192, 0, 2, 2].into()),
                false => ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2].into()),
            };
            let inner = match (shape.carrier.is_ethernet(), inner_v6) {
                (true, _) => Inner::Ethernet,
                (_, true) => Inner::V6,
                _ => Inner::V4,
            };
            let marks = Marks {
                traffic_class: class, ttl, dont_fragment: df, identification, flow_label: label, source_port
            };
            let outer = Outer::new(from, to, &shape).unwrap();
            prop_assert_eq!(outer.length(), shape.headers(v4));
            let mut packet = vec![0; outer.length()];
            packet.extend(&payload);
            if inner != Inner::Ethernet {
                packet[outer.length()] = if inner == Inner::V6 { 0x60 } else { 0x45 };
            }
            outer.write(&mut packet, payload.len(), inner, &marks).unwrap();
            let parsed = if v4 { parse::ipv4(&packet, 0) } else { parse::ipv6(&packet, 0) }.unwrap();
            prop_assert_eq!(parsed.l3_length as usize, packet.len());
            prop_assert_eq!(parsed.protocol, outer.protocol(inner));
            prop_assert_eq!(usize::from(parsed.l4), outer.ip_length());
            if v4 {
                let header = ipv4::Header::new(&packet).unwrap();
                prop_assert!(checksum::is_valid(&packet[..20]));
                let mut zeroed = packet[..20].to_vec();
                zeroed[ipv4::CHECKSUM..][..2].fill(0);
                prop_assert_eq!(&checksum::of(&zeroed).to_be_bytes()[..], &packet[ipv4::CHECKSUM..][..2]);
                prop_assert_eq!((header.dscp() << 2 | header.ecn(), header.ttl()), (class, ttl));
                prop_assert_eq!((header.dont_fragment(), header.identification()), (df, identification));
            } else {
                let header = ipv6::Header::new(&packet).unwrap();
                prop_assert_eq!((header.traffic_class(), header.hop_limit()), (class, ttl));
                prop_assert_eq!(header.flow_label(), label);
            }
            let at = outer.ip_length();
            let carried = if shape.carrier.port().is_some() {
                let header = udp::Fields::parse(&packet[at..]).unwrap();
                prop_assert_eq!((header.source, header.destination), (source_port, shape.port));
                prop_assert_eq!(usize::from(header.length), packet.len() - at);
                at + udp::LENGTH
            } else {
                at
            };
            let opened = read(shape.carrier, parsed.protocol, &packet[carried..]).unwrap();
            prop_assert_eq!((opened.id, opened.inner), (shape.id, inner));
            prop_assert_eq!(carried + opened.header, outer.length());
            prop_assert_eq!(parsed.flags.contains(ParseFlags::IP4), v4);
            if shape.carrier == Carrier::Gre && shape.checksum {
                complete_gre(&mut packet[at..]);
                prop_assert!(is_intact_gre(&packet[at..]));
                *packet.last_mut().unwrap() ^= 1;
                prop_assert!(!is_intact_gre(&packet[at..]));
            }
            prop_assert_eq!(outer.write(&mut packet, 65_536, inner, &marks), None);
            prop_assert_eq!(outer.write(&mut packet[..10], 1, inner, &marks), None);
        }
    }

    #[test]
    fn a_checksum_over_ipv6_is_right() {
        let shape = Shape { carrier: Carrier::Vxlan, id: Id::network(1), port: 4789, direct: false, checksum: false };
        let [from, to]: [IpAddr; 2] = ["2001:db8::1", "2001:db8::2"].map(|address| address.parse().unwrap());
        let outer = Outer::new(from, to, &shape).unwrap();
        let mut packet = vec![0x5a; outer.length() + 61];
        let marks = Marks {
            traffic_class: 0,
            ttl: 64,
            dont_fragment: true,
            identification: 0,
            flow_label: 0,
            source_port: 50_000,
        };
        outer.write(&mut packet, 61, Inner::Ethernet, &marks).unwrap();
        complete_udp(&mut packet);
        let (IpAddr::V6(from), IpAddr::V6(to)) = (from, to) else { unreachable!() };
        let length = packet.len() as u32 - 40;
        assert!(checksum::pseudo_v6(from, to, protocol::UDP, length).bytes(&packet[40..]).is_valid());
        assert!(packet[46..48] != [0, 0]);
        assert_eq!(Outer::new([10, 0, 0, 1].into(), from.into(), &shape), None);
    }
}
