//! TCP resets that a gateway sends in the place of a host: what an unwilling destination would answer (RFC 9293, section
//! 3.10.7.1).

use std::net::IpAddr;

use crate::checksum;
use crate::icmp::TTL;
use crate::parse::{ParseFlags, Parsed, martian};
use crate::wire::tcp::{self, Flags};
use crate::wire::{ipv4, ipv6, protocol};

/// The longest reset in octets, with its IP header.
pub const MAX_RESET: usize = ipv6::LENGTH + tcp::LENGTH;

/// The answer that refuses a segment: from where it was sent to, to where it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reset {
    source: IpAddr,
    destination: IpAddr,
    segment: tcp::Fields,
}

impl Reset {
    /// The reset that is due about a packet that was parsed. None is due about resets, fragments, what was sent to more
    /// than one host or station, and what is no whole TCP header between two hosts.
    ///
    /// "If the ACK bit is off, sequence number zero is used, <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>. If the ACK bit is on,
    /// <SEQ=SEG.ACK><CTL=RST>."
    pub fn about(parsed: &Parsed, frame: &[u8]) -> Option<Reset> {
        let not_to_one = parsed.flags.intersects(ParseFlags::L2_GROUP | ParseFlags::FRAGMENT);
        if not_to_one || parsed.protocol != protocol::TCP || !parsed.flags.contains(ParseFlags::L4_HEADER) {
            return None;
        }
        let segment = parsed.transport(frame);
        let header = tcp::Header::new(segment).ok()?;
        let flags = header.flags();
        if flags.contains(Flags::RST) || header.header_length() < tcp::LENGTH {
            return None;
        }
        let data = segment.len().checked_sub(header.header_length())?;
        // SYN and FIN take a place in the sequence each.
        let length = data + usize::from(flags.contains(Flags::SYN)) + usize::from(flags.contains(Flags::FIN));
        let (sequence, acknowledgment, flags) = if flags.contains(Flags::ACK) {
            (header.acknowledgment(), 0, Flags::RST)
        } else {
            // At most 65,535 octets and two.
            (0, header.sequence().wrapping_add(length as u32), Flags::RST.with(Flags::ACK))
        };
        let (source, destination) = addresses(parsed, frame)?;
        Some(Reset {
            source: destination,
            destination: source,
            segment: tcp::Fields {
                source: header.destination(),
                destination: header.source(),
                sequence,
                acknowledgment,
                flags,
                window: 0,
                checksum: 0,
            },
        })
    }

    /// Returns the destination of the reset.
    pub fn destination(&self) -> IpAddr {
        self.destination
    }

    /// Writes it with its IP header at the start of `out`, and returns its length in octets, [`MAX_RESET`] at most; `None`
    /// if `out` is shorter.
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        const LENGTH: u16 = tcp::LENGTH as u16;
        let mut segment = self.segment;
        let sum = |pseudo: checksum::Sum| pseudo.bytes(&self.segment.emit()).checksum();
        let headers = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                segment.checksum = sum(checksum::pseudo_v4(source, destination, protocol::TCP, LENGTH));
                let header = ipv4::Fields {
                    tos: 0,
                    total_length: ipv4::LENGTH as u16 + LENGTH,
                    // Atomic (RFC 6864): it means nothing.
                    identification: 0,
                    dont_fragment: true,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl: TTL,
                    protocol: protocol::TCP,
                    source,
                    destination,
                };
                out.get_mut(..ipv4::LENGTH)?.copy_from_slice(&header.emit());
                ipv4::LENGTH
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                segment.checksum = sum(checksum::pseudo_v6(source, destination, protocol::TCP, LENGTH.into()));
                let header = ipv6::Fields {
                    traffic_class: 0,
                    flow_label: 0,
                    payload_length: LENGTH,
                    next_header: protocol::TCP,
                    hop_limit: TTL,
                    source,
                    destination,
                };
                out.get_mut(..ipv6::LENGTH)?.copy_from_slice(&header.emit());
                ipv6::LENGTH
            }
            _ => return None,
        };
        out.get_mut(headers..headers + tcp::LENGTH)?.copy_from_slice(&segment.emit());
        Some(headers + tcp::LENGTH)
    }
}

/// Source and destination of a packet between two hosts.
fn addresses(parsed: &Parsed, frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let packet = parsed.packet(frame);
    if parsed.flags.contains(ParseFlags::IP4) {
        let header = ipv4::Header::new(packet).ok()?;
        let (from, to) = (header.source(), header.destination());
        let hosts = !martian::source_v4(from) && !martian::destination_v4(to) && !to.is_multicast();
        (hosts && !to.is_broadcast()).then_some((from.into(), to.into()))
    } else {
        let header = ipv6::Header::new(packet).ok()?;
        let (from, to) = (header.source(), header.destination());
        let hosts = !martian::source_v6(from) && !martian::destination_v6(to) && !to.is_multicast();
        hosts.then_some((from.into(), to.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::text::{Macs, PacketText};
    use crate::wire::MacAddress;

    fn reset(text: &str, change: impl Fn(&mut [u8])) -> Option<Vec<u8>> {
        let macs = Macs { from: MacAddress([2, 0, 0, 0, 0, 1]), to: MacAddress([2, 0, 0, 0, 0, 2]) };
        let mut frame = text.parse::<PacketText>().unwrap_or_else(|error| panic!("{text}: {error}")).frame(macs);
        let l2 = parse::ethernet(&frame).unwrap();
        let parse = |frame: &[u8]| {
            if frame[14] >> 4 == 4 { parse::ipv4(frame, 14).unwrap() } else { parse::ipv6(frame, 14).unwrap() }
        };
        let l4 = usize::from(parse(&frame).l4);
        if l4 > 0 {
            change(&mut frame[l4..]);
        }
        let mut parsed = parse(&frame);
        parsed.flags |= l2.flags;
        let mut out = vec![0xaa; MAX_RESET];
        let length = Reset::about(&parsed, &frame)?.write(&mut out)?;
        out.truncate(length);
        assert_eq!(Reset::about(&parsed, &frame)?.write(&mut vec![0; length - 1]), None, "no room");
        Some(out)
    }

    /// Sequence number, acknowledgment number, RST, ACK, as another parser reads them; checksums are right.
    fn read(packet: &[u8]) -> (u32, u32, bool, bool) {
        use etherparse::{NetSlice, SlicedPacket, TransportSlice};
        let sliced = SlicedPacket::from_ip(packet).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!() };
        let checksum = match sliced.net.unwrap() {
            NetSlice::Ipv4(ip) => {
                assert_eq!(ip.header().to_header().calc_header_checksum(), ip.header().header_checksum());
                tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination())
            }
            NetSlice::Ipv6(ip) => tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()),
            NetSlice::Arp(_) => panic!(),
        };
        assert_eq!(checksum, Ok(tcp.checksum()));
        assert_eq!((tcp.source_port(), tcp.destination_port()), (443, 1000));
        assert!(!tcp.syn() && !tcp.fin() && !tcp.psh());
        (tcp.sequence_number(), tcp.acknowledgment_number(), tcp.rst(), tcp.ack())
    }

    fn numbers(segment: &mut [u8], sequence: u32, acknowledgment: u32) {
        segment[4..8].copy_from_slice(&sequence.to_be_bytes());
        segment[8..12].copy_from_slice(&acknowledgment.to_be_bytes());
    }

    #[test]
    fn what_a_closed_port_would_answer() {
        for addresses in ["192.0.2.1 port 1000 to 198.51.100.2", "2001:db8::1 port 1000 to 2001:db8:1::2"] {
            let headers = if addresses.contains(':') { 60 } else { 40 };
            let answer = |flags: &str, data: usize, sequence| {
                let text = format!("tcp from {addresses} port 443 flags {flags} length {}", headers + data);
                read(&reset(&text, |segment| numbers(segment, sequence, 77)).unwrap())
            };
            assert_eq!(answer("syn", 0, 10), (0, 11, true, true));
            assert_eq!(answer("syn,fin", 5, 10), (0, 17, true, true));
            assert_eq!(answer("fin", 0, u32::MAX), (0, 0, true, true));
            assert_eq!(answer("psh", 100, 10), (0, 110, true, true));
            assert_eq!(answer("syn,ack", 0, 10), (77, 0, true, false));
            assert_eq!(answer("ack", 100, 10), (77, 0, true, false));
        }
    }

    #[test]
    fn it_goes_back_by_the_same_addresses() {
        let packet = reset("tcp from 192.0.2.1 port 1000 to 198.51.100.2 port 443 flags syn", |_| ()).unwrap();
        let header = ipv4::Header::new(&packet).unwrap();
        assert_eq!((header.source().octets(), header.destination().octets()), ([198, 51, 100, 2], [192, 0, 2, 1]));
        assert_eq!((header.ttl(), packet.len()), (64, 40));
    }

    #[test]
    fn options_are_no_data() {
        let text = "tcp from 192.0.2.1 port 1000 to 198.51.100.2 port 443 flags syn length 64";
        let with = |octet| {
            reset(text, move |segment| {
                segment[12] = octet;
                numbers(segment, 10, 0);
            })
        };
        assert_eq!(read(&with(11 << 4).unwrap()), (0, 11, true, true));
        assert_eq!(with(12 << 4), None, "longer than the segment");
        assert_eq!(with(4 << 4), None, "shorter than any");
    }

    #[test]
    fn where_silence_is_due() {
        for text in [
            "tcp from 192.0.2.1 port 1000 to 198.51.100.2 port 443 flags rst",
            "tcp from 192.0.2.1 port 1000 to 198.51.100.2 port 443 flags rst,ack",
            "tcp from 192.0.2.1 port 1000 to 198.51.100.2 port 443 flags syn fragment 0+",
            "tcp from 192.0.2.1 to 198.51.100.2 fragment 8",
            "tcp from 192.0.2.1 port 1000 to 224.0.0.9 port 443 flags syn",
            "tcp from 192.0.2.1 port 1000 to 255.255.255.255 port 443 flags syn",
            "tcp from 0.0.0.0 port 1000 to 198.51.100.2 port 443 flags syn",
            "tcp from 2001:db8::1 port 1000 to ff0e::9 port 443 flags syn",
            "tcp from :: port 1000 to 2001:db8::2 port 443 flags syn",
            "tcp from 192.0.2.1 port 1000 to 198.51.100.2 port 443 flags syn mac-to ff:ff:ff:ff:ff:ff",
            "udp from 192.0.2.1 port 1000 to 198.51.100.2 port 443 length 60",
        ] {
            assert_eq!(reset(text, |_| ()), None, "{text}");
        }
    }
}
