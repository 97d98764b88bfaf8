//! The headers in front of ESP in tunnel mode: IPv4 or IPv6 (RFC 4301, 5.1.2), and UDP (RFC 3948).

use std::net::IpAddr;

use crate::wire::{ipv4, ipv6, protocol, udp};

/// Where the UDP checksum of an IPv6 header with UDP lies, in octets from the start of the headers.
pub const UDP_CHECKSUM: usize = ipv6::LENGTH + udp::CHECKSUM;

/// The fields of an outer header that each packet has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// IPv4: the packet must not be fragmented.
    pub dont_fragment: bool,
    /// IPv4: the identification; packets that may be fragmented need one that does not repeat soon (RFC 6864).
    pub identification: u16,
    /// IPv6: the flow label, 20 bits.
    pub flow_label: u32,
}

/// The headers between two addresses of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outer {
    /// The headers, with zeros for the fields that each packet has of its own.
    octets: [u8; LONGEST],
    /// IPv4: the sum of the halves of words of its header.
    sum: u32,
    is_v4: bool,
    has_udp: bool,
}

/// Octets of the longest headers.
const LONGEST: usize = ipv6::LENGTH + udp::LENGTH;

impl Outer {
    /// Returns the headers from `source` to `destination`, with UDP between these ports if there are some. `None`: the
    /// addresses are of two families.
    #[must_use]
    pub fn new(source: IpAddr, destination: IpAddr, udp: Option<(u16, u16)>, hop_limit: u8) -> Option<Outer> {
        let protocol = if udp.is_some() { protocol::UDP } else { protocol::ESP };
        let mut octets = [0; LONGEST];
        let mut sum = 0;
        let ip = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let fields = ipv4::Fields {
                    tos: 0,
                    total_length: 0,
                    identification: 0,
                    dont_fragment: false,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl: hop_limit,
                    protocol,
                    source,
                    destination,
                };
                let mut header = fields.emit();
                header[ipv4::CHECKSUM..ipv4::CHECKSUM + 2].fill(0);
                sum = header.as_chunks().0.iter().map(|&half| u32::from(u16::from_be_bytes(half))).sum();
                octets[..ipv4::LENGTH].copy_from_slice(&header);
                ipv4::LENGTH
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let fields = ipv6::Fields {
                    traffic_class: 0,
                    flow_label: 0,
                    payload_length: 0,
                    next_header: protocol,
                    hop_limit,
                    source,
                    destination,
                };
                octets[..ipv6::LENGTH].copy_from_slice(&fields.emit());
                ipv6::LENGTH
            }
            _ => return None,
        };
        if let Some((source, destination)) = udp {
            let header = udp::Fields { source, destination, length: 0, checksum: 0 };
            octets[ip..ip + udp::LENGTH].copy_from_slice(&header.emit());
        }
        Some(Outer { octets, sum, is_v4: source.is_ipv4(), has_udp: udp.is_some() })
    }

    /// The headers are of IPv4.
    #[inline(always)]
    #[must_use]
    pub fn is_v4(&self) -> bool {
        self.is_v4
    }

    /// Octets of the IP header.
    #[inline(always)]
    #[must_use]
    pub fn ip_length(&self) -> usize {
        if self.is_v4 { ipv4::LENGTH } else { ipv6::LENGTH }
    }

    /// Octets of all headers in front of the SPI.
    #[inline(always)]
    #[must_use]
    pub fn length(&self) -> usize {
        self.ip_length() + if self.has_udp { udp::LENGTH } else { 0 }
    }

    /// UDP over IPv6: its checksum covers the sealed packet (RFC 8200, 8.1), so it is written after sealing.
    #[inline(always)]
    #[must_use]
    pub fn needs_checksum(&self) -> bool {
        self.has_udp && !self.is_v4
    }

    /// Writes the headers into the start of `out`, in front of so many octets of ESP. The UDP checksum is 0 (RFC 3948, 2.1).
    /// Returns `None`, and writes nothing, if there is no room or the packet would be too long for IP.
    #[inline(always)]
    pub fn write(&self, out: &mut [u8], esp: usize, marks: &Marks) -> Option<()> {
        let (ip, length) = (self.ip_length(), self.length());
        let behind_ip = u16::try_from(esp + length - ip).ok()?;
        let out = out.get_mut(..length)?;
        if self.is_v4 {
            self.write_v4(out.first_chunk_mut()?, behind_ip, marks)?;
        } else {
            self.write_v6(out.first_chunk_mut()?, behind_ip, marks);
        }
        if self.has_udp {
            let header = out.last_chunk_mut::<{ udp::LENGTH }>()?;
            header.copy_from_slice(&self.octets[ip..ip + udp::LENGTH]);
            header[UDP_LENGTH..UDP_LENGTH + 2].copy_from_slice(&behind_ip.to_be_bytes());
        }
        Some(())
    }

    #[inline(always)]
    fn write_v4(&self, out: &mut [u8; ipv4::LENGTH], behind_ip: u16, marks: &Marks) -> Option<()> {
        let total_length = behind_ip.checked_add(ipv4::LENGTH as u16)?;
        let dont = if marks.dont_fragment { ipv4::DONT_FRAGMENT } else { 0 };
        *out = *self.octets.first_chunk()?;
        out[ipv4::TOS] = marks.traffic_class;
        out[ipv4::TOTAL_LENGTH..][..2].copy_from_slice(&total_length.to_be_bytes());
        out[ipv4::IDENTIFICATION..][..2].copy_from_slice(&marks.identification.to_be_bytes());
        out[ipv4::FRAGMENT..][..2].copy_from_slice(&dont.to_be_bytes());
        let own = [marks.traffic_class.into(), total_length, marks.identification, dont];
        // Ten halves, and four: their carries are at most thirteen.
        let sum = self.sum + own.map(u32::from).iter().sum::<u32>();
        let sum = (sum >> 16) + (sum & 0xffff);
        out[ipv4::CHECKSUM..][..2].copy_from_slice(&(!((sum >> 16) + sum) as u16).to_be_bytes());
        Some(())
    }

    #[inline(always)]
    fn write_v6(&self, out: &mut [u8; ipv6::LENGTH], behind_ip: u16, marks: &Marks) {
        out.copy_from_slice(&self.octets[..ipv6::LENGTH]);
        let first = 6 << 28 | u32::from(marks.traffic_class) << 20 | (marks.flow_label & 0xf_ffff);
        out[..4].copy_from_slice(&first.to_be_bytes());
        out[ipv6::PAYLOAD_LENGTH..][..2].copy_from_slice(&behind_ip.to_be_bytes());
    }
}

/// The place of the length in a UDP header.
const UDP_LENGTH: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use crate::parse::{self, ParseFlags};

    const MARKS: Marks = Marks { traffic_class: 0xb9, dont_fragment: true, identification: 77, flow_label: 0x54321 };

    #[test]
    fn headers_parse_as_what_they_are() {
        for (from, to) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let [from, to]: [IpAddr; 2] = [from, to].map(|address| address.parse().unwrap());
            for udp in [None, Some((4500, 4501))] {
                let outer = Outer::new(from, to, udp, 64).unwrap();
                let mut packet = vec![0; outer.length() + 40];
                outer.write(&mut packet, 40, &MARKS).unwrap();
                let v4 = from.is_ipv4();
                let parsed = if v4 { parse::ipv4(&packet, 0) } else { parse::ipv6(&packet, 0) }.unwrap();
                assert_eq!(parsed.l3_length as usize, packet.len());
                assert_eq!(parsed.protocol, if udp.is_some() { protocol::UDP } else { protocol::ESP });
                assert_eq!(parsed.flags.contains(ParseFlags::IP4), v4);
                if v4 {
                    let header = ipv4::Header::new(&packet).unwrap();
                    assert!(checksum::is_valid(&packet[..20]) && header.dont_fragment());
                    assert_eq!((header.identification(), header.dscp(), header.ecn()), (77, 46, 1));
                } else {
                    let header = ipv6::Header::new(&packet).unwrap();
                    assert_eq!((header.flow_label(), header.dscp(), header.ecn()), (0x54321, 46, 1));
                }
                if udp.is_some() {
                    let header = udp::Fields::parse(&packet[outer.ip_length()..]).unwrap();
                    assert_eq!(
                        (header.source, header.destination, header.length, header.checksum),
                        (4500, 4501, 48, 0)
                    );
                }
                assert_eq!(outer.needs_checksum(), udp.is_some() && !v4);
                assert_eq!(outer.write(&mut packet, 65_536, &MARKS), None);
                assert_eq!(outer.write(&mut packet[..19], 1, &MARKS), None);
            }
        }
        assert_eq!(Outer::new("10.0.0.1".parse().unwrap(), "2001:db8::2".parse().unwrap(), None, 1), None);
    }
}
