//! The grammar of packets.

use std::fmt;
use std::str::FromStr;

use super::description::{Description, Macs};
use super::error::TextError;
use super::reader::{Reader, hex};

/// A packet as a user writes it:
///
/// ```text
/// PACKET   = PROTOCOL from ADDRESS [port N] to ADDRESS [port N] OPTION*  |  0xHEX
/// OPTION   = ttl N | length N | dscp N | df | fragment OFFSET[+] | flags LIST | mss N | type NAME | code N | id N
///          | spi N | vlan N | inner N | mac-from MAC | mac-to MAC
/// ```
///
/// - `PROTOCOL` is a name (`tcp`, `udp`, `icmp` with IPv4, `icmp6` with IPv6, `esp`, …) or a number. Protocols with
///   ports need both, unless the packet is a later fragment, which has none.
/// - The family follows the addresses, which must agree.
/// - `ttl` is the hop limit in IPv6; 64 unless given. `dscp` is 0 to 63.
/// - `length` is that of the IP packet in octets, header included; unless given, the least that holds the headers. The
///   payload is zeros.
/// - `fragment OFFSET+` is a fragment that is not the last, at an offset in octets; without `+` it is the last.
/// - `flags` is a list such as `syn,ack`, or `none`; `syn` unless given. `mss` adds the option of the maximum segment
///   size to a TCP header. `type` and `code` are ICMP's: `echo-request` and 0 unless given. `id` is the identifier of an echo request, or the octets in its place.
/// - `vlan` alone is an 802.1Q tag; with `inner`, an 802.1ad tag around an 802.1Q one.
/// - `0xHEX` is a whole Ethernet frame, taken as it is. Spaces between digits do not count.
///
/// Options may come in any order, each once. Printed with single spaces, names for numbers, and options in the order
/// above, a packet reads as itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketText(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Described(Description),
    Indices(Vec<u8>),
}

impl PacketText {
    /// The Ethernet frame, with right checksums unless it was written in hexadecimal. `macs` stand where the text names
    /// none.
    pub fn frame(&self, macs: Macs) -> Vec<u8> {
        match &self.0 {
            Form::Described(description) => description.frame(macs),
            Form::Indices(bytes) => bytes.clone(),
        }
    }
}

impl fmt::Display for PacketText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Described(description) => fmt::Display::fmt(description, f),
            Form::Indices(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

impl FromStr for PacketText {
    type Err = TextError;

    fn from_str(text: &str) -> Result<PacketText, TextError> {
        let start = text.trim_start();
        if start.starts_with("0x") || start.starts_with("0X") {
            return hex(text, text.len() - start.len() + 2).map(|bytes| PacketText(Form::Indices(bytes)));
        }
        Reader::new(text).description().map(|described| PacketText(Form::Described(described)))
    }
}

#[cfg(test)]
mod tests {
    use etherparse::err::{Layer, packet::SliceError};
    use proptest::prelude::*;

    use super::*;
    use crate::checksum;
    use crate::parse::{self, ParseFlags, Parsed};
    use crate::text::arbitrary::texts;
    use crate::text::summary;
    use crate::wire::MacAddress;
    use crate::wire::ethernet::ethertype;

    const MACS: Macs = Macs { from: MacAddress([2, 0, 0, 0, 0, 1]), to: MacAddress([2, 0, 0, 0, 0, 2]) };

    fn frame(text: &str) -> Vec<u8> {
        text.parse::<PacketText>().unwrap_or_else(|error| panic!("{text}: {error}")).frame(MACS)
    }

    fn parsed(frame: &[u8]) -> Parsed {
        let l2 = parse::ethernet(frame).unwrap();
        match l2.ethertype {
            ethertype::IPV4 => parse::ipv4(frame, l2.l3.into()).unwrap(),
            _ => parse::ipv6(frame, l2.l3.into()).unwrap(),
        }
    }

    #[test]
    fn what_is_written_is_what_is_on_the_wire() {
        for (text, line) in [
            (
                "udp from 10.0.0.1 port 1000 to 192.0.2.9 port 53",
                "IP4 10.0.0.1 > 192.0.2.9 udp 1000 > 53 ttl 64 length 28",
            ),
            (
                "tcp from 10.0.0.1 port 1234 to 192.0.2.9 port 80 length 100 dscp 46 df flags syn,ack vlan 7 inner 9",
                "vlan 7 inner 9 IP4 10.0.0.1 > 192.0.2.9 tcp 1234 > 80 flags syn,ack ttl 64 length 100 dscp 46 df",
            ),
            (
                "tcp from 2001:db8::1 port 7 to 2001:db8::2 port 8 mss 1440",
                "IP6 2001:db8::1 > 2001:db8::2 tcp 7 > 8 flags syn mss 1440 ttl 64 length 64",
            ),
            (
                "icmp from 10.0.0.1 to 192.0.2.9 ttl 1 type destination-unreachable code 3",
                "IP4 10.0.0.1 > 192.0.2.9 icmp destination-unreachable code 3 ttl 1 length 28",
            ),
            (
                "icmp6 from 2001:db8::1 to 2001:db8::2",
                "IP6 2001:db8::1 > 2001:db8::2 icmp6 echo-request ttl 64 length 48",
            ),
            (
                "udp from 10.0.0.1 to 192.0.2.9 fragment 1480",
                "IP4 10.0.0.1 > 192.0.2.9 udp ttl 64 length 28 fragment 1480 id 0",
            ),
            (
                "udp from 2001:db8::1 port 7 to 2001:db8::2 port 8 fragment 0+ vlan 5",
                "vlan 5 IP6 2001:db8::1 > 2001:db8::2 udp 7 > 8 ttl 64 length 56 fragment 0+ id 0",
            ),
            (
                "tcp from 10.0.0.1 port 7 to 10.0.0.2 port 8 length 28 fragment 0+",
                "IP4 10.0.0.1 > 10.0.0.2 tcp 7 > 8 ttl 64 length 28 fragment 0+ id 0",
            ),
            ("esp from 10.0.0.1 to 10.0.0.2 spi 0x100", "IP4 10.0.0.1 > 10.0.0.2 esp spi 0x100 ttl 64 length 28"),
            ("254 from 10.0.0.1 to 10.0.0.2", "IP4 10.0.0.1 > 10.0.0.2 protocol 254 ttl 64 length 20"),
            ("58 from 10.0.0.1 to 10.0.0.2", "IP4 10.0.0.1 > 10.0.0.2 icmp6 ttl 64 length 20"),
        ] {
            assert_eq!(text.parse::<PacketText>().unwrap().to_string(), text);
            assert_eq!(summary(&frame(text)).to_string(), line, "{text}");
        }
    }

    #[test]
    fn addresses_of_the_link_come_from_the_text_or_the_caller() {
        let text = "udp from 10.0.0.1 port 1 to 10.0.0.2 port 2";
        let l2 = parse::ethernet(&frame(text)).unwrap();
        assert_eq!((l2.source, l2.destination), (MACS.from, MACS.to));
        let own = frame(&format!("{text} mac-from 02:00:00:00:00:0a mac-to ff:ff:ff:ff:ff:ff"));
        let l2 = parse::ethernet(&own).unwrap();
        assert_eq!((l2.source.to_string(), l2.destination), ("02:00:00:00:00:0a".to_owned(), MacAddress::BROADCAST));
    }

    #[test]
    fn a_frame_in_hexadecimal_is_taken_as_it_is() {
        let text = "0x ffffffffffff 020000000001 0806 00 01";
        let packet: PacketText = text.parse().unwrap();
        assert_eq!(packet.to_string(), "0xffffffffffff02000000000108060001");
        assert_eq!(packet.frame(MACS).len(), 16);
    }

    #[test]
    fn errors_say_where_what_and_what_instead() {
        // What is written, what is at fault in it, what is expected, what may have been meant.
        for (text, fault, expected, suggestion) in [
            ("", "", "a protocol", None),
            ("tpc from", "tpc", "a protocol", Some("tcp")),
            ("icmp from 2001:db8::1 to 2001:db8::2", "icmp", "a protocol of IPv6", Some("icmp6")),
            ("60 from 2001:db8::1 to 2001:db8::2", "60", "no IPv6 extension header", None),
            ("tcp form 10.0.0.1", "form", "`from`", Some("from")),
            ("tcp from 10.0.0.0/8 to 10.0.0.1", "10.0.0.0/8", "an IPv4 or IPv6 address", Some("10.0.0.0")),
            ("tcp from 10.0.0.1 port 65536", "65536", "a port, 0 to 65535", None),
            ("tcp from 10.0.0.1 port +5", "+5", "a port, 0 to 65535", None),
            ("udp from 10.0.0.1 port 1 to ::1 port 2", "::1", "an IPv4 address", None),
            ("udp from 10.0.0.1 to 10.0.0.2 port 2", "to", "`port`", None),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2", "", "`port`", None),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 ttl", "", "a TTL", None),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 lenght 5", "lenght", "an option", Some("length")),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 length 5", "5", "28 to 65535", Some("28")),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 dscp 64", "64", "0 to 63", None),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 ttl 1 ttl 2", "ttl", "`ttl` once", None),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 flags syn", "syn", "tcp", None),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 mss 9", "9", "tcp", None),
            ("tcp from 10.0.0.1 port 1 to 10.0.0.2 port 2 flags syn,akc", "akc", "TCP flags", Some("ack")),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 fragment 1481", "1481", "multiple of 8", Some("1480")),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 fragment 0", "0", "more follow", Some("0+")),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 fragment 8", "", "a later fragment has none", None),
            ("udp from 10.0.0.1 to 10.0.0.2 fragment 65528 length 28", "65528", "ends at 65535", None),
            ("udp from 10.0.0.1 to 10.0.0.2 fragment 8+ length 30", "30", "a multiple of 8", Some("28")),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 inner 9", "9", "`vlan`", None),
            ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 vlan 4095", "4095", "a VLAN", None),
            ("udp from ::2 port 1 to ::3 port 2 df", "df", "IPv6", None),
            ("icmp from 10.0.0.1 to 10.0.0.2 type echo-requst", "echo-requst", "an ICMP type", Some("echo-request")),
            ("icmp from 10.0.0.1 port 1 to 10.0.0.2", "", "no port", None),
            ("0x0", "0x0", "an even number", None),
            ("0x00", "0x00", "14 to", None),
            ("0x00 é", "é", "a hexadecimal digit", None),
        ] {
            let error = text.parse::<PacketText>().expect_err(text);
            assert_eq!(&text[error.span.clone()], fault, "{text}: {error}");
            assert!(error.expected.contains(expected), "{text}: {error}");
            assert_eq!(error.suggestion.as_deref(), suggestion, "{text}: {error}");
        }
        let error = "tpc from".parse::<PacketText>().unwrap_err();
        let line = "expected a protocol, as `tcp` or a number of 0 to 255, found `tpc`; did you mean `tcp`?";
        assert_eq!(error.to_string(), line);
    }

    proptest! {
        #[test]
        fn prints_back_as_it_was_read(text in texts()) {
            let packet: PacketText = text.parse().map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
            prop_assert_eq!(packet.to_string(), text);
        }

        #[test]
        fn frames_are_valid(text in texts()) {
            let frame = frame(&text);
            let parsed = parsed(&frame);
            prop_assert_eq!(parsed.packet(&frame).len() + usize::from(parsed.l3), frame.len());
            if parsed.flags.intersects(ParseFlags::FRAGMENT) {
                return Ok(());
            }
            let theirs = match etherparse::SlicedPacket::from_ethernet(&frame) {
                Ok(theirs) => theirs,
                // etherparse takes timestamps of 20 octets alone; a text may give any length.
                Err(SliceError::Len(e)) if [Layer::Icmpv4Timestamp, Layer::Icmpv4TimestampReply].contains(&e.layer) => {
                    return Ok(());
                }
                Err(e) => return Err(TestCaseError::fail(e.to_string())),
            };
            prop_assert!(theirs.net.is_some());
            let payload = parsed.transport(&frame);
            match (&theirs.net, &theirs.transport) {
                (Some(etherparse::NetSlice::Ipv4(ip)), Some(etherparse::TransportSlice::Tcp(tcp))) => {
                    let right = tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()).unwrap();
                    prop_assert_eq!(tcp.checksum(), right);
                }
                (Some(etherparse::NetSlice::Ipv6(ip)), Some(etherparse::TransportSlice::Tcp(tcp))) => {
                    let right = tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()).unwrap();
                    prop_assert_eq!(tcp.checksum(), right);
                }
                (Some(etherparse::NetSlice::Ipv4(ip)), Some(etherparse::TransportSlice::Udp(udp))) => {
                    let (from, to) = (ip.header().source(), ip.header().destination());
                    let right = udp.to_header().calc_checksum_ipv4_raw(from, to, udp.payload()).unwrap();
                    prop_assert_eq!(udp.checksum(), right);
                }
                (Some(etherparse::NetSlice::Ipv6(ip)), Some(etherparse::TransportSlice::Icmpv6(icmp))) => {
                    prop_assert!(icmp.is_checksum_valid(ip.header().source(), ip.header().destination()));
                }
                (_, Some(etherparse::TransportSlice::Icmpv4(_))) => prop_assert!(checksum::is_valid(payload)),
                _ => {}
            }
        }

        #[test]
        fn any_text_is_answered(text in "\\PC*") {
            if let Err(error) = text.parse::<PacketText>() {
                prop_assert!(text.get(error.span.clone()).is_some());
            }
        }

        #[test]
        fn almost_right_texts_are_answered(
            text in texts(),
            cut in any::<prop::sample::Index>(),
            with in "[ a-z0-9x+.:,]{0,4}",
        ) {
            let at = cut.index(text.len() + 1);
            let text = format!("{}{with}{}", &text[..at], &text[at..]);
            match text.parse::<PacketText>() {
                Err(error) => prop_assert!(text.get(error.span.clone()).is_some()),
                Ok(packet) => {
                    let printed = packet.to_string();
                    prop_assert_eq!(printed.parse::<PacketText>().unwrap(), packet);
                    let line = summary(&frame(&printed)).to_string();
                    prop_assert!(!line.contains("malformed"), "{}", line);
                }
            }
        }

        #[test]
        fn any_frame_has_a_line(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            prop_assert!(!summary(&bytes).to_string().is_empty());
        }
    }
}
