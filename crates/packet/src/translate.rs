//! Translation of addresses, ports and identifiers: in a packet, and in the packet that an ICMP error quotes.
//!
//! Checksums change by the difference of the changed fields (RFC 1624): a checksum that was wrong stays as wrong as it was. A
//! UDP checksum of zero means that there is none, and stays. A checksum that is left to be completed
//! ([`Checksum::Partial`]) holds the sum of the pseudo-header, so addresses change it and ports do not.
//!
//! The checksum of SCTP is a CRC over its ports, and none over addresses (RFC 9260, 6.8): its ports are left as they are.

use std::net::IpAddr;

use crate::checksum::{Delta, Sum};
use crate::offload::Checksum;
use crate::packet::Packet;
use crate::parse::{self, ParseFlags, Parsed};
use crate::wire::{be16, icmpv4, icmpv6, ipv4, ipv6, protocol};

/// The endpoints that a packet is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Source and destination port. An ICMP request or reply takes the first as its identifier, other packets without ports
    /// take neither.
    pub ports: [u16; 2],
}

/// Whether the ports or the identifier of packets of a protocol can be changed.
pub fn has_words(protocol: u8, is_query: bool) -> bool {
    is_query || protocol::has_ports(protocol) && protocol != protocol::SCTP
}

/// The change of the endpoints of whole packets of TCP or UDP that have the same ones: ports and the differences of checksums.
/// The new addresses are given beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change {
    /// As they stand in a packet.
    ports: [u8; 4],
    /// The difference of the addresses, in the order of octets of the CPU.
    addresses: Delta,
    /// The difference of addresses and ports, likewise.
    all: Delta,
}

impl Change {
    /// Computes the change from endpoints to others. `None`: packets of the protocol need [`translate`].
    pub fn new(protocol: u8, from: &Endpoints, to: &Endpoints) -> Option<Change> {
        if !matches!(protocol, protocol::TCP | protocol::UDP) {
            return None;
        }
        let addresses = match (from.source, from.destination, to.source, to.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination), IpAddr::V4(new_source), IpAddr::V4(new_destination)) => {
                let destination = Delta::long(destination.to_bits(), new_destination.to_bits());
                Delta::long(source.to_bits(), new_source.to_bits()).and(destination)
            }
            (IpAddr::V6(source), IpAddr::V6(destination), IpAddr::V6(new_source), IpAddr::V6(new_destination)) => {
                let destination = Delta::wide(destination.to_bits(), new_destination.to_bits());
                Delta::wide(source.to_bits(), new_source.to_bits()).and(destination)
            }
            _ => return None,
        };
        let words = Delta::word(from.ports[0], to.ports[0]).and(Delta::word(from.ports[1], to.ports[1]));
        let [source, destination] = to.ports.map(u32::from);
        Some(Change {
            ports: (source << 16 | destination).to_be_bytes(),
            addresses: addresses.in_native_order(),
            all: addresses.and(words).in_native_order(),
        })
    }

    /// Gives a whole packet of IPv4 with the endpoints that the change is from the ports and these addresses, source before destination
    /// as they stand in a packet. False, with nothing changed, if a checksum is left to the port, or a header is not whole: then
    /// [`translate`] does it.
    #[inline(always)]
    pub fn apply_v4(&self, packet: &mut Packet, addresses: [u8; 8]) -> bool {
        self.apply(packet, |header: &mut [u8; ipv4::LENGTH]| {
            mend::<{ ipv4::CHECKSUM }>(header, |checksum| self.addresses.apply(checksum));
            header[ipv4::SOURCE..].copy_from_slice(&addresses);
        })
    }

    /// As [`Change::apply_v4`], for a packet of IPv6.
    #[inline(always)]
    pub fn apply_v6(&self, packet: &mut Packet, source: u128, destination: u128) -> bool {
        self.apply(packet, |header: &mut [u8; ipv6::LENGTH]| {
            header[ipv6::SOURCE..][..16].copy_from_slice(&source.to_be_bytes());
            header[ipv6::DESTINATION..][..16].copy_from_slice(&destination.to_be_bytes());
        })
    }

    /// Changes the IP header, then the transport header, if both checksums are there, in the packet.
    #[inline(always)]
    fn apply<const N: usize>(&self, packet: &mut Packet, change: impl FnOnce(&mut [u8; N])) -> bool {
        if packet.offload().checksum == Checksum::Partial {
            return false;
        }
        match packet.protocol() {
            protocol::UDP => {
                let Some((header, udp)) = packet.headers_mut::<N, 8>() else { return false };
                change(header);
                udp[..4].copy_from_slice(&self.ports);
                mend::<6>(udp, |checksum| self.all.apply_udp(checksum));
            }
            protocol::TCP => {
                let Some((header, tcp)) = packet.headers_mut::<N, 18>() else { return false };
                change(header);
                tcp[..4].copy_from_slice(&self.ports);
                mend::<16>(tcp, |checksum| self.all.apply(checksum));
            }
            _ => return false,
        }
        true
    }
}

/// Changes the checksum at a place of a header, in the order of octets of the CPU.
#[inline(always)]
fn mend<const AT: usize>(header: &mut [u8], changed: impl FnOnce(u16) -> u16) {
    if let Some(field) = header.get_mut(AT..).and_then(<[u8]>::first_chunk_mut::<2>) {
        *field = changed(u16::from_ne_bytes(*field)).to_ne_bytes();
    }
}

/// Gives a parsed packet other endpoints. A packet of the other family is left as it is.
pub fn translate(packet: &mut Packet, to: &Endpoints) {
    let (parsed, is_partial) = (packet.parsed(), packet.offload().checksum == Checksum::Partial);
    change(packet.data_mut(), &parsed, to, is_partial);
}

/// Gives the packet that an ICMP error quotes other endpoints, and the error itself other addresses. Any other packet is left
/// as it is.
pub fn translate_error(packet: &mut Packet, source: IpAddr, destination: IpAddr, quoted: &Endpoints) {
    let (parsed, is_partial) = (packet.parsed(), packet.offload().checksum == Checksum::Partial);
    let Some(inner) = parse::quoted(&parsed, packet.data()) else { return };
    let start = usize::from(inner.l3);
    let frame = packet.data_mut();
    let sum = |frame: &[u8]| frame.get(start..).map_or(0, |quotation| Sum::new().bytes(quotation).folded());
    let before = sum(frame);
    change(frame, &inner, quoted, false);
    let after = sum(frame);
    if !is_partial {
        // The quotation stands at an even place of the message.
        apply(frame, usize::from(parsed.l4) + 2, |checksum| Delta::word(before, after).apply(checksum));
    }
    change(frame, &parsed, &Endpoints { source, destination, ports: [0; 2] }, is_partial);
}

/// Gives a packet within a frame other endpoints.
fn change(frame: &mut [u8], parsed: &Parsed, to: &Endpoints, is_partial: bool) {
    let Some(addresses) = set_addresses(frame, usize::from(parsed.l3), to) else { return };
    if parsed.flags.contains(ParseFlags::LATER_FRAGMENT) {
        return;
    }
    let l4 = usize::from(parsed.l4);
    let v4 = parsed.flags.contains(ParseFlags::IP4);
    let words = set_words(frame, l4, parsed.protocol, v4, to.ports);
    let (at, covers_addresses) = match parsed.protocol {
        protocol::TCP => (16, true),
        protocol::UDP | protocol::UDP_LITE | protocol::DCCP => (6, true),
        protocol::ICMP if v4 => (2, false),
        protocol::ICMPV6 if !v4 => (2, true),
        _ => return,
    };
    let addresses = if covers_addresses { addresses } else { Delta::NONE };
    if is_partial {
        // The sum of the pseudo-header stands there, not its complement.
        return apply(frame, l4 + at, |sum| !addresses.apply(!sum));
    }
    let delta = addresses.and(words);
    let is_udp = matches!(parsed.protocol, protocol::UDP | protocol::UDP_LITE);
    apply(frame, l4 + at, |checksum| if is_udp { delta.apply_udp(checksum) } else { delta.apply(checksum) });
    // A message of zeros alone has no word in which the two zeros of one's complement differ.
    if parsed.protocol == protocol::ICMP
        && frame.get(l4..).is_some_and(|message| message.iter().all(|&octet| octet == 0))
    {
        apply(frame, l4 + at, |_| 0xffff);
    }
}

/// Changes the checksum at a place of the frame, if all of it is there.
fn apply(frame: &mut [u8], at: usize, changed: impl FnOnce(u16) -> u16) {
    if let Some(field) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>) {
        *field = changed(u16::from_be_bytes(*field)).to_be_bytes();
    }
}

/// Sets the addresses of an IP header, and gives the change. `None`: the header is of another family, or not whole.
fn set_addresses(frame: &mut [u8], l3: usize, to: &Endpoints) -> Option<Delta> {
    let header = frame.get_mut(l3..)?;
    let version = header.first()? >> 4;
    match (version, to.source, to.destination) {
        (4, IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = header.first_chunk_mut::<{ ipv4::LENGTH }>()?;
            let addresses = header.last_chunk_mut::<8>()?;
            let old = u64::from_be_bytes(*addresses);
            let new = u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits());
            *addresses = new.to_be_bytes();
            let delta = Delta::long((old >> 32) as u32, (new >> 32) as u32).and(Delta::long(old as u32, new as u32));
            let checksum = be16(header, ipv4::CHECKSUM);
            header[ipv4::CHECKSUM..][..2].copy_from_slice(&delta.apply(checksum).to_be_bytes());
            Some(delta)
        }
        (6, IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = header.first_chunk_mut::<{ ipv6::LENGTH }>()?;
            let mut set = |at: usize, new: u128| -> Option<Delta> {
                let field = header.get_mut(at..)?.first_chunk_mut::<16>()?;
                let old = u128::from_be_bytes(*field);
                *field = new.to_be_bytes();
                Some(Delta::wide(old, new))
            };
            let source = set(ipv6::SOURCE, source.to_bits())?;
            Some(source.and(set(ipv6::DESTINATION, destination.to_bits())?))
        }
        _ => None,
    }
}

/// Sets the ports or the identifier of a transport header, and gives the change.
fn set_words(frame: &mut [u8], l4: usize, protocol: u8, v4: bool, to: [u16; 2]) -> Delta {
    let Some(header) = frame.get_mut(l4..) else { return Delta::NONE };
    if protocol::has_ports(protocol) {
        let Some(ports) = header.first_chunk_mut::<4>().filter(|_| has_words(protocol, false)) else {
            return Delta::NONE;
        };
        let old = [be16(ports, 0), be16(ports, 2)];
        ports[..2].copy_from_slice(&to[0].to_be_bytes());
        ports[2..].copy_from_slice(&to[1].to_be_bytes());
        return Delta::word(old[0], to[0]).and(Delta::word(old[1], to[1]));
    }
    let queries: &[(u8, u8)] = match (protocol, v4) {
        (protocol::ICMP, true) => &icmpv4::QUERIES,
        (protocol::ICMPV6, false) => &icmpv6::QUERIES,
        _ => return Delta::NONE,
    };
    let Some(message) = header.first_chunk_mut::<6>() else { return Delta::NONE };
    if !queries.iter().any(|&(request, reply)| [request, reply].contains(&message[0])) {
        return Delta::NONE;
    }
    let old = be16(message, 4);
    message[4..].copy_from_slice(&to[0].to_be_bytes());
    Delta::word(old, to[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Cache, Pool, PoolSize};
    use crate::checksum;
    use crate::offload::Offload;
    use crate::text::{Macs, PacketText};
    use crate::wire::MacAddress;

    const MACS: Macs = Macs { from: MacAddress([2; 6]), to: MacAddress([4; 6]) };

    fn frame(text: &str) -> Vec<u8> {
        text.parse::<PacketText>().unwrap().frame(MACS)
    }

    fn packet(cache: &mut Cache, frame: &[u8]) -> Packet {
        let parsed = if frame[14] >> 4 == 4 { parse::ipv4(frame, 14) } else { parse::ipv6(frame, 14) }.unwrap();
        let mut packet = Packet::copy_of(cache, frame).unwrap();
        packet.set_parsed(&parsed);
        packet
    }

    fn endpoints(source: &str, destination: &str, ports: [u16; 2]) -> Endpoints {
        Endpoints { source: source.parse().unwrap(), destination: destination.parse().unwrap(), ports }
    }

    #[test]
    fn a_translated_packet_is_the_one_that_would_have_been_sent() {
        let pool = Pool::new(PoolSize { small: 256, large: 1 }).unwrap();
        let mut cache = pool.cache();
        for (before, after, to) in [
            (
                "tcp from 10.0.0.5 port 4000 to 203.0.113.9 port 443 length 101",
                "tcp from 198.51.100.1 port 50123 to 203.0.113.9 port 8443 length 101",
                endpoints("198.51.100.1", "203.0.113.9", [50_123, 8443]),
            ),
            (
                "udp from 10.0.0.5 port 4000 to 203.0.113.9 port 53 length 600",
                "udp from 198.51.100.1 port 1 to 203.0.113.10 port 53 length 600",
                endpoints("198.51.100.1", "203.0.113.10", [1, 53]),
            ),
            (
                "udp from fd00::5 port 4000 to 2001:db8::9 port 53 length 600",
                "udp from 2001:db8:f::1 port 65535 to 2001:db8::9 port 53 length 600",
                endpoints("2001:db8:f::1", "2001:db8::9", [65_535, 53]),
            ),
            (
                "icmp from 10.0.0.5 to 203.0.113.9 type echo-request id 9 length 99",
                "icmp from 198.51.100.1 to 203.0.113.9 type echo-request id 4321 length 99",
                endpoints("198.51.100.1", "203.0.113.9", [4321, 4321]),
            ),
            (
                "icmp6 from fd00::5 to 2001:db8::9 type echo-reply id 9",
                "icmp6 from 2001:db8:f::1 to 2001:db8::9 type echo-reply id 4321",
                endpoints("2001:db8:f::1", "2001:db8::9", [4321, 4321]),
            ),
            (
                "gre from 10.0.0.5 to 203.0.113.9 length 60",
                "gre from 198.51.100.1 to 203.0.113.9 length 60",
                endpoints("198.51.100.1", "203.0.113.9", [7, 7]),
            ),
        ] {
            let mut packet = packet(&mut cache, &frame(before));
            translate(&mut packet, &to);
            assert_eq!(packet.data(), frame(after), "{before}");
        }
    }

    #[test]
    fn a_change_computed_before_gives_the_same_octets() {
        let pool = Pool::new(PoolSize { small: 256, large: 1 }).unwrap();
        let mut cache = pool.cache();
        for (text, from, to) in [
            (
                "tcp from 10.0.0.5 port 4000 to 203.0.113.9 port 443 length 101",
                endpoints("10.0.0.5", "203.0.113.9", [4000, 443]),
                endpoints("198.51.100.1", "203.0.113.9", [50_123, 8443]),
            ),
            (
                "udp from 10.0.0.5 port 4000 to 203.0.113.9 port 53 length 600",
                endpoints("10.0.0.5", "203.0.113.9", [4000, 53]),
                endpoints("198.51.100.1", "203.0.113.10", [1, 53]),
            ),
            (
                "udp from fd00::5 port 4000 to 2001:db8::9 port 53 length 600",
                endpoints("fd00::5", "2001:db8::9", [4000, 53]),
                endpoints("2001:db8:f::1", "2001:db8::9", [65_535, 53]),
            ),
            (
                "tcp from fd00::5 port 4000 to 2001:db8::9 port 53 length 600",
                endpoints("fd00::5", "2001:db8::9", [4000, 53]),
                endpoints("fd00::5", "2001:db8::a", [4000, 5353]),
            ),
        ] {
            let udp_checksum = if from.source.is_ipv6() { 60 } else { 40 };
            let all = [None, Some([0, 0]), Some([0xff, 0xff]), Some([0x12, 0x34])];
            for checksum in all {
                let mut octets = frame(text);
                if let (Some(checksum), true) = (checksum, text.starts_with("udp")) {
                    octets[udp_checksum..][..2].copy_from_slice(&checksum);
                }
                let (mut one, mut other) = (packet(&mut cache, &octets), packet(&mut cache, &octets));
                translate(&mut one, &to);
                let change = Change::new(one.protocol(), &from, &to).unwrap();
                let is_done = match (to.source, to.destination) {
                    (IpAddr::V4(source), IpAddr::V4(destination)) => {
                        let addresses = u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits());
                        change.apply_v4(&mut other, addresses.to_be_bytes())
                    }
                    (IpAddr::V6(source), IpAddr::V6(destination)) => {
                        change.apply_v6(&mut other, source.to_bits(), destination.to_bits())
                    }
                    _ => unreachable!("addresses are of one family"),
                };
                assert!(is_done && one.data() == other.data(), "{text} {checksum:?}");
            }
        }
        let (from, to) =
            (endpoints("10.0.0.5", "203.0.113.9", [0; 2]), endpoints("198.51.100.1", "203.0.113.9", [0; 2]));
        assert_eq!(Change::new(protocol::GRE, &from, &to), None);
        let mut partial = packet(&mut cache, &frame("tcp from 10.0.0.5 port 4000 to 203.0.113.9 port 443"));
        partial.set_offload(Offload { checksum: Checksum::Partial, start: 34, offset: 16, ..Offload::default() });
        let before = partial.data().to_vec();
        let change = Change::new(protocol::TCP, &from, &to).unwrap();
        assert!(!change.apply_v4(&mut partial, [1; 8]) && partial.data() == before);
    }

    #[test]
    fn a_missing_udp_checksum_stays_missing() {
        let pool = Pool::new(PoolSize { small: 256, large: 1 }).unwrap();
        let mut cache = pool.cache();
        let mut octets = frame("udp from 10.0.0.5 port 4000 to 203.0.113.9 port 53");
        octets[40..42].fill(0);
        let mut packet = packet(&mut cache, &octets);
        translate(&mut packet, &endpoints("198.51.100.1", "203.0.113.9", [1, 53]));
        assert_eq!(packet.data()[40..42], [0, 0]);
        assert!(checksum::is_valid(&packet.data()[14..34]));
    }

    #[test]
    fn a_partial_checksum_is_completed_to_the_right_one() {
        let pool = Pool::new(PoolSize { small: 256, large: 1 }).unwrap();
        let mut cache = pool.cache();
        let octets = frame("tcp from 10.0.0.5 port 4000 to 203.0.113.9 port 443 length 101");
        let mut packet = packet(&mut cache, &octets);
        let length = (octets.len() - 34) as u16;
        let pseudo = checksum::pseudo_v4([10, 0, 0, 5].into(), [203, 0, 113, 9].into(), protocol::TCP, length);
        packet.data_mut()[50..52].copy_from_slice(&pseudo.folded().to_be_bytes());
        packet.set_offload(Offload { checksum: Checksum::Partial, start: 34, offset: 16, ..Offload::default() });
        translate(&mut packet, &endpoints("198.51.100.1", "203.0.113.9", [50_000, 443]));
        checksum::complete(&mut packet);
        let whole = frame("tcp from 198.51.100.1 port 50000 to 203.0.113.9 port 443 length 101");
        assert_eq!(packet.data(), whole);
    }

    #[test]
    fn quotations_are_translated_whole_and_cut() {
        let pool = Pool::new(PoolSize { small: 256, large: 1 }).unwrap();
        let mut cache = pool.cache();
        for (family, from, to, text, quoted, ports) in [
            (
                "icmp",
                "203.0.113.77",
                ("198.51.100.1", "10.0.0.5"),
                "udp from 198.51.100.1 port 50000 to 203.0.113.9 port 53 length 90",
                "udp from 10.0.0.5 port 4000 to 203.0.113.9 port 53 length 90",
                endpoints("10.0.0.5", "203.0.113.9", [4000, 53]),
            ),
            (
                "icmp6",
                "2001:db8::77",
                ("2001:db8:f::1", "fd00::5"),
                "tcp from 2001:db8:f::1 port 50000 to 2001:db8::9 port 53 length 90",
                "tcp from fd00::5 port 4000 to 2001:db8::9 port 53 length 90",
                endpoints("fd00::5", "2001:db8::9", [4000, 53]),
            ),
        ] {
            let (before, after) = (frame(text).split_off(14), frame(quoted).split_off(14));
            // Down to the ports alone, and to an odd length.
            let least = if family == "icmp" { 28 } else { 48 };
            for cut in [before.len(), before.len() - 1, least + 7, least] {
                let error = |to: &str, quote: &[u8]| {
                    let (kind, headers) = if family == "icmp" { (3, 28) } else { (1, 48) };
                    let length = headers + cut;
                    let text = format!("{family} from {from} to {to} type {kind} code 0 length {length}");
                    let mut octets = frame(&text);
                    let at = octets.len() - cut;
                    octets[at..].copy_from_slice(&quote[..cut]);
                    octets[at - 6..at - 4].fill(0);
                    let sum = if family == "icmp" {
                        checksum::of(&octets[34..])
                    } else {
                        let (IpAddr::V6(from), IpAddr::V6(to)) = (from.parse().unwrap(), to.parse().unwrap()) else {
                            unreachable!("both are of IPv6")
                        };
                        let length = (octets.len() - 54) as u32;
                        checksum::pseudo_v6(from, to, protocol::ICMPV6, length).bytes(&octets[54..]).checksum()
                    };
                    octets[at - 6..at - 4].copy_from_slice(&sum.to_be_bytes());
                    octets
                };
                let mut packet = packet(&mut cache, &error(to.0, &before));
                translate_error(&mut packet, from.parse().unwrap(), to.1.parse().unwrap(), &ports);
                assert_eq!(packet.data(), error(to.1, &after), "{family} {cut}");
            }
        }
    }
}
