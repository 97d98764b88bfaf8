//! The identifiers in packets of tunnels and of IPsec: an SPI of ESP (RFC 4303, 2.1) or AH (RFC 4302, 2.4), a VNI of VXLAN
//! (RFC 7348, 5), a session of L2TPv3 (RFC 3931, 4.1) and a TEID of GTP (3GPP TS 29.060, 6).

use crate::packet::Packet;
use crate::parse::ParseFlags;
use crate::wire::{ipv6, protocol, udp};

/// A kind of identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Identifier {
    /// The SPI of ESP, also behind UDP on port 4500 (RFC 3948, 2.1).
    Esp,
    /// The SPI of AH.
    Ah,
    /// The VNI of VXLAN, in UDP.
    Vni,
    /// The session of L2TPv3 over IP.
    Session,
    /// The TEID of GTP-U or GTP-C, in UDP.
    Teid,
}

impl Identifier {
    /// All kinds.
    pub const ALL: [Identifier; 5] =
        [Identifier::Esp, Identifier::Ah, Identifier::Vni, Identifier::Session, Identifier::Teid];

    /// The largest value.
    #[must_use]
    pub const fn most(self) -> u32 {
        match self {
            Identifier::Vni => (1 << 24) - 1,
            _ => u32::MAX,
        }
    }

    /// Reads the identifier of this kind in a parsed packet. `None`: the packet has none, or it is a later fragment.
    #[must_use]
    #[inline]
    pub fn of(self, packet: &Packet) -> Option<u32> {
        match self {
            Identifier::Esp => spi(packet),
            Identifier::Ah => ah(packet),
            Identifier::Vni => {
                let [flags, _, _, _, a, b, c, _] = *datagram(packet)?.first_chunk()?;
                (flags & VNI_IS_THERE != 0).then(|| u32::from_be_bytes([0, a, b, c]))
            }
            Identifier::Session => {
                // Session 0 is that of control messages (RFC 3931, 4.1.1.2).
                let header = (packet.protocol() == L2TP).then(|| packet.l4_header::<4>()).flatten()?;
                Some(u32::from_be_bytes(*header))
            }
            Identifier::Teid => teid(datagram(packet)?),
        }
    }
}

/// The flag of VXLAN's header that says that there is a VNI.
pub(crate) const VNI_IS_THERE: u8 = 1 << 3;

/// The protocol number of L2TPv3 over IP.
const L2TP: u8 = 115;

/// The UDP port of ESP in UDP.
pub const NAT_TRAVERSAL: u16 = 4500;

/// The payload of a datagram.
#[inline]
pub(crate) fn datagram(packet: &Packet) -> Option<&[u8]> {
    if packet.protocol() != protocol::UDP || packet.l4_offset() == 0 {
        return None;
    }
    packet.data().get(packet.l4_offset() + udp::LENGTH..)
}

fn spi(packet: &Packet) -> Option<u32> {
    if packet.protocol() == protocol::ESP {
        return packet.l4_header::<4>().map(|spi| u32::from_be_bytes(*spi));
    }
    let payload = datagram(packet)?;
    let [a, b, c, d] = *packet.l4_header::<4>()?;
    let ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    // Four octets of 0 are the marker of IKE (RFC 3948, 2.2), and a keepalive has one octet.
    let spi = u32::from_be_bytes(*payload.first_chunk()?);
    (ports.contains(&NAT_TRAVERSAL) && spi != 0).then_some(spi)
}

/// The SPI of AH. IPv6 packets have it among their extension headers, which the parser walks past.
fn ah(packet: &Packet) -> Option<u32> {
    let spi = |header: &[u8]| header.get(4..8)?.first_chunk().map(|spi| u32::from_be_bytes(*spi));
    if packet.flags().contains(ParseFlags::IP4) {
        return if packet.protocol() == protocol::AH { spi(packet.l4_header::<8>()?) } else { None };
    }
    let header = packet.l3();
    let (mut next, mut at) = (*header.get(ipv6::NEXT_HEADER)?, ipv6::LENGTH);
    // The parser has walked past no more than these.
    for _ in 0..MOST_HEADERS {
        if next == protocol::AH {
            return spi(header.get(at..)?);
        }
        if !protocol::is_extension(next) {
            return None;
        }
        let [follows, length] = *header.get(at..)?.first_chunk()?;
        // Behind the header of a later fragment is data.
        if next == protocol::FRAGMENT && u16::from_be_bytes(*header.get(at + 2..)?.first_chunk()?) >> 3 != 0 {
            return None;
        }
        // A fragment header has 8 octets, and no length (RFC 8200, 4.5).
        at += if next == protocol::FRAGMENT { 8 } else { 8 + 8 * usize::from(length) };
        next = follows;
    }
    None
}

/// More extension headers than a packet may have.
const MOST_HEADERS: usize = 16;

/// The TEID of a header of GTPv1, which always has one, or of GTPv2-C, which may have one (3GPP TS 29.274, 5.1).
fn teid(payload: &[u8]) -> Option<u32> {
    let [flags, _, _, _, a, b, c, d] = *payload.first_chunk()?;
    let has = match flags >> 5 {
        1 => flags & 1 << 4 != 0,
        2 => flags & 1 << 3 != 0,
        _ => false,
    };
    has.then(|| u32::from_be_bytes([a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Pool, PoolSize};
    use crate::parse;

    /// The packet with these octets behind the addresses of an IP header without link layer.
    fn packet(v4: bool, number: u8, rest: &[u8]) -> Packet {
        let mut octets = match v4 {
            true => {
                let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, number, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
                header[3] = 20 + rest.len() as u8;
                let sum = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum::<u32>();
                let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                header
            }
            false => {
                let mut header = vec![0x60, 0, 0, 0, 0, rest.len() as u8, number, 64];
                header.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
                header.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
                header
            }
        };
        octets.extend(rest);
        let mut cache = Pool::new(PoolSize { small: 2, large: 0 }).unwrap().cache();
        let mut packet = Packet::copy_of(&mut cache, &octets).unwrap();
        let parsed = if v4 { parse::ipv4(packet.data(), 0) } else { parse::ipv6(packet.data(), 0) };
        packet.set_parsed(&parsed.unwrap());
        packet
    }

    fn udp(to: u16, payload: &[u8]) -> Vec<u8> {
        let [a, b] = to.to_be_bytes();
        [&[0x30, 0x39, a, b, 0, 8 + payload.len() as u8, 0, 0], payload].concat()
    }

    fn all(packet: &Packet) -> Vec<(Identifier, u32)> {
        Identifier::ALL.into_iter().filter_map(|kind| Some((kind, kind.of(packet)?))).collect()
    }

    #[test]
    fn each_kind_is_read_where_it_stands() {
        for v4 in [true, false] {
            let esp = packet(v4, 50, &[0, 0, 0x10, 1, 0, 0, 0, 1]);
            assert_eq!(all(&esp), [(Identifier::Esp, 0x1001)]);
            let in_udp = packet(v4, 17, &udp(4500, &[0, 0, 0x10, 2, 0]));
            assert_eq!(all(&in_udp), [(Identifier::Esp, 0x1002)]);
            for payload in [&[0, 0, 0, 0, 9][..], &[0xff], &[]] {
                assert_eq!(all(&packet(v4, 17, &udp(4500, payload))), []);
            }
            let vxlan = packet(v4, 17, &udp(4789, &[8, 0, 0, 0, 0, 1, 2, 0]));
            assert_eq!(all(&vxlan), [(Identifier::Vni, 0x0102)]);
            assert_eq!(all(&packet(v4, 17, &udp(4789, &[0, 0, 0, 0, 0, 1, 2, 0]))), []);
            assert_eq!(all(&packet(v4, 115, &[0, 0, 0, 7, 1])), [(Identifier::Session, 7)]);
            let gtp = packet(v4, 17, &udp(2152, &[0x30, 0xff, 0, 0, 0xa, 0, 0, 9]));
            assert_eq!(all(&gtp), [(Identifier::Teid, 0x0a00_0009)]);
            assert_eq!(all(&packet(v4, 17, &udp(2123, &[0x40, 1, 0, 0, 0xa, 0, 0, 9]))), []);
            let gtp = packet(v4, 17, &udp(2123, &[0x48, 1, 0, 0, 0xb, 0, 0, 9]));
            assert!(all(&gtp).contains(&(Identifier::Teid, 0x0b00_0009)));
            assert_eq!(all(&packet(v4, 6, &[0x48; 20])), []);
        }
    }

    #[test]
    fn ah_is_found_among_extension_headers() {
        let ah = [17, 4, 0, 0, 0, 0, 0x20, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let inner = udp(7, &[]);
        assert_eq!(all(&packet(true, 51, &[&ah[..], &inner].concat())), [(Identifier::Ah, 0x2001)]);
        // Its length counts words of 4 octets, less 2 (RFC 4302, 2.2).
        assert_eq!(all(&packet(false, 51, &[&ah[..], &inner].concat())), [(Identifier::Ah, 0x2001)]);
        let options = [51, 0, 1, 4, 0, 0, 0, 0];
        let behind = packet(false, 60, &[&options[..], &ah, &inner].concat());
        assert_eq!(all(&behind), [(Identifier::Ah, 0x2001)]);
        assert_eq!(all(&packet(false, 60, &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &inner].concat())), []);
    }
}
