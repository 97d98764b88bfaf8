//! The place of ESP in a packet in transport mode (RFC 4303, 3.1.1): behind the IPv4 header with its options, or behind the
//! IPv6 headers that nodes on the way look at.

use crate::checksum;
use crate::fragment::unfragmentable;
use crate::wire::{ipv4, ipv6};

/// A place in a packet, in octets from the start of its IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Where ESP begins, or will begin.
    pub at: usize,
    /// Where the octet lies that names what begins there.
    pub named_at: usize,
}

/// Returns the place of ESP in a whole packet that starts with its IP header; `None`: the packet is malformed.
#[must_use]
pub fn place(packet: &[u8]) -> Option<Place> {
    match packet.first()? >> 4 {
        4 => {
            let at = ipv4::Header::new(packet).ok()?.header_length();
            (at >= ipv4::LENGTH && at <= packet.len()).then_some(Place { at, named_at: ipv4::PROTOCOL })
        }
        6 => {
            let (at, named_at) = unfragmentable(packet)?;
            Some(Place { at, named_at })
        }
        _ => None,
    }
}

/// Gives a packet another length, and another protocol at a place. `length` counts from the start of its IP header. Returns
/// `None`, and changes nothing, if the length is beyond that of any packet.
pub fn rename(packet: &mut [u8], named_at: usize, protocol: u8, length: usize) -> Option<()> {
    let version = packet.first()? >> 4;
    match version {
        4 => {
            let total = u16::try_from(length).ok()?;
            let header = packet.get_mut(..usize::from(*packet.first()? & 0xf) * 4)?;
            let name = header.get_mut(named_at)?;
            *name = protocol;
            header.get_mut(ipv4::TOTAL_LENGTH..)?.get_mut(..2)?.copy_from_slice(&total.to_be_bytes());
            header.get_mut(ipv4::CHECKSUM..)?.get_mut(..2)?.fill(0);
            let sum = checksum::of(header);
            header[ipv4::CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
        }
        6 => {
            let payload = u16::try_from(length.checked_sub(ipv6::LENGTH)?).ok()?;
            let name = packet.get_mut(named_at)?;
            *name = protocol;
            packet.get_mut(ipv6::PAYLOAD_LENGTH..)?.get_mut(..2)?.copy_from_slice(&payload.to_be_bytes());
        }
        _ => return None,
    }
    Some(())
}

/// Moves the `headers` octets at the start of a packet so far back that they end where `payload` octets begin, over what was
/// between. Returns the octets that are left over at the start.
///
/// Returns `None`, and changes nothing, if the headers are longer than what is in front of the payload.
pub fn remove(packet: &mut [u8], headers: usize, payload: usize) -> Option<usize> {
    let left = payload.checked_sub(headers)?;
    if payload > packet.len() {
        return None;
    }
    packet.copy_within(..headers, left);
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::text::{Macs, PacketText};
    use crate::wire::{MacAddress, protocol};

    fn packet(text: &str) -> Vec<u8> {
        let macs = Macs { from: MacAddress([2; 6]), to: MacAddress([4; 6]) };
        text.parse::<PacketText>().unwrap().frame(macs)[14..].to_vec()
    }

    #[test]
    fn esp_comes_and_goes_and_the_packet_is_as_it_was() {
        for text in [
            "udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 length 60",
            "udp from 2001:db8::1 port 1 to 2001:db8::2 port 2",
        ] {
            let whole = packet(text);
            let Place { at, named_at } = place(&whole).unwrap();
            let mut sealed = [&whole[..at], &[0xaa; 16], &whole[at..]].concat();
            let length = sealed.len();
            rename(&mut sealed, named_at, protocol::ESP, length).unwrap();
            let parsed = if at == 20 { parse::ipv4(&sealed, 0) } else { parse::ipv6(&sealed, 0) }.unwrap();
            assert_eq!((parsed.protocol, usize::from(parsed.l4)), (protocol::ESP, at));
            let left = remove(&mut sealed, at, at + 16).unwrap();
            let mut back = sealed[left..].to_vec();
            rename(&mut back, named_at, protocol::UDP, whole.len()).unwrap();
            assert_eq!(back, whole);
        }
    }

    #[test]
    fn esp_stands_behind_hop_by_hop_and_routing_headers() {
        let mut whole = packet("254 from 2001:db8::1 to 2001:db8::2 length 80");
        whole[6] = protocol::HOP_BY_HOP;
        // Hop-by-hop options, a routing header without segments left, destination options.
        whole[40..48].copy_from_slice(&[protocol::ROUTING, 0, 1, 4, 0, 0, 0, 0]);
        whole[48..56].copy_from_slice(&[protocol::DESTINATION_OPTIONS, 0, 9, 0, 0, 0, 0, 0]);
        whole[56..64].copy_from_slice(&[protocol::UDP, 0, 1, 4, 0, 0, 0, 0]);
        assert_eq!(place(&whole), Some(Place { at: 56, named_at: 48 }));
    }

    #[test]
    fn what_is_no_packet_has_no_place() {
        for odd in [&[][..], &[0x45], &[0x44; 20], &[0x4f; 20], &[0x60; 39], &[0x10; 60]] {
            assert_eq!(place(odd), None, "{odd:02x?}");
        }
        let mut short = [0x45; 20];
        assert_eq!(rename(&mut short, 9, 50, 65_536), None);
        assert_eq!(remove(&mut short, 30, 20), None);
        assert_eq!(remove(&mut short, 10, 21), None);
    }
}
