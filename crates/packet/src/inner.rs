//! The packet of IP inside of a packet: in VXLAN (RFC 7348, 5), in GTP-U (3GPP TS 29.281, 5.1), or straight behind the outer
//! IP header (RFC 2003, RFC 2473).

use crate::identify::{VNI_IS_THERE, datagram};
use crate::packet::Packet;
use crate::parse::{self, Parsed};
use crate::wire::ethernet::ethertype;
use crate::wire::protocol;

/// The headers between the outer IP header and the inner one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// UDP, VXLAN and Ethernet, with at most two tags.
    Vxlan,
    /// UDP and GTPv1-U, with its options and extension headers.
    Gtp,
    /// None.
    Ip,
}

/// A packet inside of another one.
#[derive(Debug, Clone, Copy)]
pub struct Inner<'p> {
    /// Its octets, from its IP header on; perhaps more octets follow.
    pub octets: &'p [u8],
    /// Its parts, as places in the octets.
    pub parsed: Parsed,
}

impl Carrier {
    /// Finds the inner packet of a parsed packet. `None`: there is none, or it is not whole or malformed.
    #[must_use]
    pub fn inner_of(self, packet: &Packet) -> Option<Inner<'_>> {
        let (octets, version) = match self {
            Carrier::Vxlan => {
                let payload = datagram(packet)?;
                let frame = payload.get(VXLAN..).filter(|_| payload[0] & VNI_IS_THERE != 0)?;
                let l2 = parse::ethernet(frame).ok()?;
                let version = match l2.ethertype {
                    ethertype::IPV4 => 4,
                    ethertype::IPV6 => 6,
                    _ => return None,
                };
                (frame.get(usize::from(l2.l3)..)?, version)
            }
            Carrier::Gtp => {
                let octets = user_data(datagram(packet)?)?;
                (octets, octets.first()? >> 4)
            }
            Carrier::Ip if packet.l4_offset() > 0 => {
                let version = match packet.protocol() {
                    protocol::IPIP => 4,
                    protocol::IPV6 => 6,
                    _ => return None,
                };
                (packet.data().get(packet.l4_offset()..)?, version)
            }
            Carrier::Ip => return None,
        };
        let parsed = match version {
            4 => parse::ipv4(octets, 0),
            6 => parse::ipv6(octets, 0),
            _ => return None,
        };
        Some(Inner { octets, parsed: parsed.ok()? })
    }
}

/// Octets of the header of VXLAN.
const VXLAN: usize = 8;

/// The type of a GTP-U message that carries a packet of a user (3GPP TS 29.281, 6.1).
const G_PDU: u8 = 255;

/// More extension headers than a message has.
const MOST_HEADERS: usize = 16;

/// Returns the octets behind the header of a GTP-U message that carries a packet of a user.
fn user_data(message: &[u8]) -> Option<&[u8]> {
    const GTP: usize = 8;
    let [flags, kind, ..] = *message.first_chunk::<GTP>()?;
    // Version 1, and GTP, not GTP'.
    if flags >> 4 != 0b0011 || kind != G_PDU {
        return None;
    }
    // Some option is there: then the fields of all are (5.1).
    if flags & 0b111 == 0 {
        return message.get(GTP..);
    }
    let [_, _, _, mut next] = *message.get(GTP..)?.first_chunk()?;
    let mut at = GTP + 4;
    if flags & 0b100 == 0 {
        return message.get(at..);
    }
    for _ in 0..MOST_HEADERS {
        if next == 0 {
            return message.get(at..);
        }
        // Lengths count words of 4 octets, and the last octet names the next header (5.2.1).
        let length = 4 * usize::from(*message.get(at)?);
        at += length;
        next = *message.get(at.checked_sub(1).filter(|_| length > 0)?)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Pool, PoolSize};
    use crate::checksum;

    fn ip4(number: u8, payload: &[u8]) -> Vec<u8> {
        let length = (20 + payload.len() as u16).to_be_bytes();
        let mut header = [0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, number, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = checksum::of(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        [&header[..], payload].concat()
    }

    fn ip6(number: u8, payload: &[u8]) -> Vec<u8> {
        let mut header = vec![0x60, 0, 0, 0, 0, payload.len() as u8, number, 64];
        header.extend([0x20; 32]);
        header.extend(payload);
        header
    }

    fn udp(to: u16, payload: &[u8]) -> Vec<u8> {
        let [a, b] = to.to_be_bytes();
        [&[0x30, 0x39, a, b, 0, 8 + payload.len() as u8, 0, 0], payload].concat()
    }

    /// Returns protocol and place of the transport header of the inner packet.
    fn found(outer: &[u8], carrier: Carrier) -> Option<(u8, u16)> {
        let mut cache = Pool::new(PoolSize { small: 2, large: 0 }).unwrap().cache();
        let mut packet = Packet::copy_of(&mut cache, outer).unwrap();
        let parsed = if outer[0] >> 4 == 4 { parse::ipv4(outer, 0) } else { parse::ipv6(outer, 0) };
        packet.set_parsed(&parsed.unwrap());
        carrier.inner_of(&packet).map(|inner| (inner.parsed.protocol, inner.parsed.l4))
    }

    #[test]
    fn inner_packets_are_found_behind_each_carrier() {
        let (four, six) = (ip4(17, &udp(53, &[])), ip6(6, &[0; 20]));
        let frame = |tags: &[u8], kind: [u8; 2], inner: &[u8]| [&[2; 12][..], tags, &kind, inner].concat();
        let vxlan = |frame: &[u8]| ip4(17, &udp(4789, &[&[8, 0, 0, 0, 0, 0, 5, 0], frame].concat()));
        let tag = [0x81, 0, 0, 5];
        assert_eq!(found(&vxlan(&frame(&[], [8, 0], &four)), Carrier::Vxlan), Some((17, 20)));
        assert_eq!(found(&vxlan(&frame(&tag, [0x86, 0xdd], &six)), Carrier::Vxlan), Some((6, 40)));
        assert_eq!(found(&vxlan(&frame(&[], [8, 6], &four)), Carrier::Vxlan), None);
        assert_eq!(found(&vxlan(&frame(&[], [8, 0], &four[..27])), Carrier::Vxlan), None);
        assert_eq!(found(&vxlan(&[2; 9]), Carrier::Vxlan), None);
        assert_eq!(found(&ip4(17, &udp(4789, &[0; 60])), Carrier::Vxlan), None);
        let gtp = |header: &[u8], inner: &[u8]| ip4(17, &udp(2152, &[header, inner].concat()));
        assert_eq!(found(&gtp(&[0x30, 255, 0, 0, 0, 0, 0, 9], &four), Carrier::Gtp), Some((17, 20)));
        assert_eq!(found(&gtp(&[0x32, 255, 0, 0, 0, 0, 0, 9, 0, 1, 0, 0x85], &six), Carrier::Gtp), Some((6, 40)));
        let extended = [0x34, 255, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0x85, 1, 0, 9, 0xc0, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(found(&gtp(&extended, &four), Carrier::Gtp), Some((17, 20)));
        // A length of nothing, another message, another version, and a header that ends early.
        for wrong in [
            &[0x34, 255, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0x85, 0, 0, 0, 0][..],
            &[0x30, 1, 0, 0, 0, 0, 0, 9],
            &[0x50, 255, 0, 0, 0, 0, 0, 9],
            &[0x20, 255, 0, 0, 0, 0, 0, 9],
        ] {
            assert_eq!(found(&gtp(wrong, &four), Carrier::Gtp), None, "{wrong:x?}");
        }
        assert_eq!(found(&gtp(&extended[..13], &[]), Carrier::Gtp), None);
        assert_eq!(found(&ip4(4, &four), Carrier::Ip), Some((17, 20)));
        assert_eq!(found(&ip6(41, &six), Carrier::Ip), Some((6, 40)));
        assert_eq!(found(&ip4(41, &six), Carrier::Ip), Some((6, 40)));
        assert_eq!(found(&ip4(4, &six), Carrier::Ip), None);
        assert_eq!(found(&four, Carrier::Ip), None);
    }
}
