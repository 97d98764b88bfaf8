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
    ip: Ip,
    udp: Option<(u16, u16)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ip {
    V4(ipv4::Fields),
    V6(ipv6::Fields),
}

impl Outer {
    /// Returns the headers from `source` to `destination`, with UDP between these ports if there are some. `None`: the
    /// addresses are of two families.
    #[must_use]
    pub fn new(source: IpAddr, destination: IpAddr, udp: Option<(u16, u16)>, hop_limit: u8) -> Option<Outer> {
        let protocol = if udp.is_some() { protocol::UDP } else { protocol::ESP };
        let ip = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Ip::V4(ipv4::Fields {
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
            }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Ip::V6(ipv6::Fields {
                traffic_class: 0,
                flow_label: 0,
                payload_length: 0,
                next_header: protocol,
                hop_limit,
                source,
                destination,
            }),
            _ => return None,
        };
        Some(Outer { ip, udp })
    }

    /// The headers are of IPv4.
    #[inline(always)]
    #[must_use]
    pub fn is_v4(&self) -> bool {
        matches!(self.ip, Ip::V4(_))
    }

    /// Octets of the IP header.
    #[inline(always)]
    #[must_use]
    pub fn ip_length(&self) -> usize {
        if self.is_v4() { ipv4::LENGTH } else { ipv6::LENGTH }
    }

    /// Octets of all headers in front of the SPI.
    #[inline(always)]
    #[must_use]
    pub fn length(&self) -> usize {
        self.ip_length() + if self.udp.is_some() { udp::LENGTH } else { 0 }
    }

    /// UDP over IPv6: its checksum covers the sealed packet (RFC 8200, 8.1), so it is written after sealing.
    #[inline(always)]
    #[must_use]
    pub fn needs_checksum(&self) -> bool {
        self.udp.is_some() && !self.is_v4()
    }

    /// Writes the headers into the start of `out`, in front of so many octets of ESP. The UDP checksum is 0 (RFC 3948, 2.1).
    /// Returns `None`, and writes nothing, if there is no room or the packet would be too long for IP.
    #[inline]
    pub fn write(&self, out: &mut [u8], esp: usize, marks: &Marks) -> Option<()> {
        let (ip, udp) = (self.ip_length(), self.length() - self.ip_length());
        let behind_ip = u16::try_from(esp + udp).ok()?;
        let out = out.get_mut(..ip + udp)?;
        match &self.ip {
            Ip::V4(fields) => {
                let total_length = behind_ip.checked_add(ipv4::LENGTH as u16)?;
                let Marks { traffic_class: tos, dont_fragment, identification, .. } = *marks;
                let header = ipv4::Fields { tos, total_length, identification, dont_fragment, ..*fields };
                header.emit_into(out.first_chunk_mut()?);
            }
            Ip::V6(fields) => {
                let Marks { traffic_class, flow_label, .. } = *marks;
                let header = ipv6::Fields { traffic_class, flow_label, payload_length: behind_ip, ..*fields };
                out[..ip].copy_from_slice(&header.emit());
            }
        }
        if let Some((source, destination)) = self.udp {
            let header = udp::Fields { source, destination, length: behind_ip, checksum: 0 };
            out[ip..].copy_from_slice(&header.emit());
        }
        Some(())
    }
}

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
