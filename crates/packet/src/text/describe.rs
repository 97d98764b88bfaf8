//! The grammar of packets.

use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use super::error::{TextError, closest};
use crate::checksum::{self, Sum};
use crate::wire::ethernet::ethertype;
use crate::wire::vlan::Tag;
use crate::wire::{MacAddress, VlanId, ethernet, icmpv4, icmpv6, ipv4, ipv6, protocol, tcp, udp};

/// A packet as a user writes it:
///
/// ```text
/// PACKET   = PROTOCOL from ADDRESS [port N] to ADDRESS [port N] OPTION*  |  0xHEX
/// OPTION   = ttl N | length N | dscp N | df | fragment OFFSET[+] | flags LIST | type NAME | code N | spi N
///          | vlan N | inner N | mac-from MAC | mac-to MAC
/// ```
///
/// - `PROTOCOL` is a name (`tcp`, `udp`, `icmp` with IPv4, `icmp6` with IPv6, `esp`, …) or a number. Those that have
///   ports need both, unless the packet is a later fragment, which has none.
/// - The family follows the addresses, which must agree.
/// - `ttl` is the hop limit in IPv6; 64 unless given. `dscp` is 0 to 63.
/// - `length` is that of the IP packet in octets, header included; unless given, the least that holds the headers. The
///   payload is zeros.
/// - `fragment OFFSET+` is a fragment that is not the last, at an offset in octets; without `+` it is the last.
/// - `flags` is a list such as `syn,ack`, or `none`; `syn` unless given. `type` and `code` are ICMP's: `echo-request`
///   and 0 unless given.
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
    Frame(Vec<u8>),
}

/// The hardware addresses of a packet that does not name its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Macs {
    /// Source.
    pub from: MacAddress,
    /// Destination.
    pub to: MacAddress,
}

impl PacketText {
    /// The Ethernet frame, with right checksums unless it was written in hexadecimal. `macs` stand where the text names
    /// none.
    pub fn frame(&self, macs: Macs) -> Vec<u8> {
        match &self.0 {
            Form::Described(description) => description.frame(macs),
            Form::Frame(bytes) => bytes.clone(),
        }
    }
}

impl fmt::Display for PacketText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Described(description) => fmt::Display::fmt(description, f),
            Form::Frame(bytes) => {
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
            return hex(text, text.len() - start.len() + 2).map(|bytes| PacketText(Form::Frame(bytes)));
        }
        let mut reader = Reader { text, at: 0, last: 0..0 };
        let described = reader.description()?;
        Ok(PacketText(Form::Described(described)))
    }
}

/// What a description says. Checked as a whole: [`Description::frame`] cannot fail.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Description {
    protocol: u8,
    source: IpAddr,
    destination: IpAddr,
    ports: Option<(u16, u16)>,
    ttl: Option<u8>,
    length: Option<u32>,
    dscp: Option<u8>,
    dont_fragment: bool,
    fragment: Option<Fragment>,
    flags: Option<tcp::Flags>,
    kind: Option<u8>,
    code: Option<u8>,
    spi: Option<u32>,
    vlan: Option<VlanId>,
    inner: Option<VlanId>,
    mac_from: Option<MacAddress>,
    mac_to: Option<MacAddress>,
}

/// `OFFSET[+]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fragment {
    offset: u16,
    more: bool,
}

impl fmt::Display for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.offset, if self.more { "+" } else { "" })
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match protocol::name(self.protocol).filter(|_| self.protocol != self.foreign_icmp()) {
            Some(name) => write!(f, "{name} from {}", self.source)?,
            None => write!(f, "{} from {}", self.protocol, self.source)?,
        }
        if let Some((port, _)) = self.ports {
            write!(f, " port {port}")?;
        }
        write!(f, " to {}", self.destination)?;
        if let Some((_, port)) = self.ports {
            write!(f, " port {port}")?;
        }
        option(f, "ttl", self.ttl)?;
        option(f, "length", self.length)?;
        option(f, "dscp", self.dscp)?;
        if self.dont_fragment {
            f.write_str(" df")?;
        }
        option(f, "fragment", self.fragment)?;
        option(f, "flags", self.flags)?;
        if let Some(kind) = self.kind {
            let (name, _) = self.icmp_names();
            match name(kind) {
                Some(name) => write!(f, " type {name}")?,
                None => write!(f, " type {kind}")?,
            }
        }
        option(f, "code", self.code)?;
        if let Some(spi) = self.spi {
            write!(f, " spi 0x{spi:x}")?;
        }
        option(f, "vlan", self.vlan)?;
        option(f, "inner", self.inner)?;
        option(f, "mac-from", self.mac_from)?;
        option(f, "mac-to", self.mac_to)
    }
}

fn option(f: &mut fmt::Formatter<'_>, keyword: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, " {keyword} {value}"))
}

impl Description {
    fn is_v4(&self) -> bool {
        self.source.is_ipv4()
    }

    fn icmp(&self) -> u8 {
        if self.is_v4() { protocol::ICMP } else { protocol::ICMPV6 }
    }

    /// The ICMP of the other family: no more than a number in this one.
    fn foreign_icmp(&self) -> u8 {
        if self.is_v4() { protocol::ICMPV6 } else { protocol::ICMP }
    }

    /// Names of ICMP types, and the types of names, in this family.
    #[expect(clippy::type_complexity, reason = "two function pointers, used on the spot")]
    fn icmp_names(&self) -> (fn(u8) -> Option<&'static str>, fn(&str) -> Option<u8>) {
        if self.is_v4() { (icmpv4::name, icmpv4::by_name) } else { (icmpv6::name, icmpv6::by_name) }
    }

    /// Whether the packet has no transport header.
    fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.offset != 0)
    }

    /// Length of the IP header, with the fragment header of IPv6, in octets.
    fn header_length(&self) -> u32 {
        match (self.is_v4(), self.fragment) {
            (true, _) => ipv4::LENGTH as u32,
            (false, None) => ipv6::LENGTH as u32,
            (false, Some(_)) => (ipv6::LENGTH + ipv6::FRAGMENT_LENGTH) as u32,
        }
    }

    /// Length of the transport header in octets.
    fn transport_length(&self) -> u32 {
        match self.protocol {
            protocol::TCP => tcp::LENGTH as u32,
            protocol::UDP | protocol::UDP_LITE => udp::LENGTH as u32,
            protocol::SCTP | protocol::DCCP | protocol::AH => 12,
            protocol::ESP => 8,
            own if own == self.icmp() => icmpv4::LENGTH as u32,
            _ => 0,
        }
    }

    /// The least length of the IP packet in octets, and the length it has unless another is given.
    fn least_and_usual_length(&self) -> (u32, u32) {
        let (header, transport) = (self.header_length(), self.transport_length());
        match self.fragment {
            None => (header + transport, header + transport),
            Some(fragment) if fragment.offset != 0 => (header + if fragment.more { 8 } else { 1 }, header + 8),
            // A first fragment may be so short that it cuts the transport header.
            Some(fragment) if fragment.more => (header + 8, header + transport.next_multiple_of(8).max(8)),
            Some(_) => (header + transport, header + transport),
        }
    }

    /// The transport header and payload, `length` octets.
    fn transport(&self, length: u32) -> Vec<u8> {
        let mut bytes = vec![0; length.max(self.transport_length()) as usize];
        if !self.is_later_fragment() {
            self.transport_header(&mut bytes);
        }
        bytes.truncate(length as usize);
        bytes
    }

    /// Writes the transport header over zeros that have room for it.
    fn transport_header(&self, bytes: &mut [u8]) {
        let (source, destination) = self.ports.unwrap_or((0, 0));
        // The length of an IP payload: at most 65,535.
        let length = bytes.len() as u16;
        let header = |bytes: &mut [u8], header: &[u8]| bytes[..header.len()].copy_from_slice(header);
        let place = match self.protocol {
            protocol::TCP => {
                let flags = self.flags.unwrap_or(tcp::Flags::SYN);
                let (sequence, acknowledgment, window, checksum) = (0, 0, u16::MAX, 0);
                let fields = tcp::Fields { source, destination, sequence, acknowledgment, flags, window, checksum };
                header(bytes, &fields.emit());
                tcp::CHECKSUM
            }
            protocol::UDP | protocol::UDP_LITE => {
                header(bytes, &udp::Fields { source, destination, length, checksum: 0 }.emit());
                udp::CHECKSUM
            }
            protocol::DCCP => {
                header(bytes, &udp::Fields { source, destination, length: 0, checksum: 0 }.emit());
                // Three words of header; a data packet with a short sequence number (RFC 4340 section 5.1).
                bytes[4] = 3;
                bytes[8] = 2 << 1;
                6
            }
            protocol::SCTP => {
                header(bytes, &udp::Fields { source, destination, length: 0, checksum: 0 }.emit());
                // Stored from its lowest octet (RFC 9260 appendix A).
                let checksum = crc32c(bytes);
                bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
                return;
            }
            protocol::ESP => {
                header(bytes, &self.spi.unwrap_or(0).to_be_bytes());
                return;
            }
            protocol::AH => {
                // Nothing is protected; three words of header, less two.
                header(bytes, &[protocol::NO_NEXT_HEADER, 1]);
                bytes[4..8].copy_from_slice(&self.spi.unwrap_or(0).to_be_bytes());
                return;
            }
            own if own == self.icmp() => {
                let request = if self.is_v4() { icmpv4::kind::ECHO_REQUEST } else { icmpv6::kind::ECHO_REQUEST };
                let (kind, code) = (self.kind.unwrap_or(request), self.code.unwrap_or(0));
                header(bytes, &icmpv4::Fields { kind, code, checksum: 0, rest: 0 }.emit());
                icmpv4::CHECKSUM
            }
            _ => return,
        };
        let pseudo = match (self.source, self.destination) {
            _ if self.protocol == protocol::ICMP => Sum::new(),
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                checksum::pseudo_v4(source, destination, self.protocol, length)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                checksum::pseudo_v6(source, destination, self.protocol, u32::from(length))
            }
            // The families agree.
            _ => Sum::new(),
        };
        let mut checksum = pseudo.bytes(bytes).checksum();
        if matches!(self.protocol, protocol::UDP | protocol::UDP_LITE) {
            checksum = checksum::udp(checksum);
        }
        bytes[place..][..2].copy_from_slice(&checksum.to_be_bytes());
    }

    fn frame(&self, macs: Macs) -> Vec<u8> {
        let total = self.length.unwrap_or(self.least_and_usual_length().1);
        let payload = self.transport(total - self.header_length());
        let (ttl, tos) = (self.ttl.unwrap_or(64), self.dscp.unwrap_or(0) << 2);
        let part = self.fragment.unwrap_or(Fragment { offset: 0, more: false });

        let mut frame = Vec::with_capacity(22 + total as usize);
        frame.extend_from_slice(&self.mac_to.unwrap_or(macs.to).0);
        frame.extend_from_slice(&self.mac_from.unwrap_or(macs.from).0);
        if let Some(vlan) = self.vlan {
            let tpid = if self.inner.is_some() { ethertype::QINQ } else { ethertype::VLAN };
            frame.extend_from_slice(&Tag { tpid, tci: vlan.number() }.emit());
        }
        if let Some(vlan) = self.inner {
            frame.extend_from_slice(&Tag { tpid: ethertype::VLAN, tci: vlan.number() }.emit());
        }
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = ipv4::Fields {
                    tos,
                    // Checked when it was read.
                    total_length: total as u16,
                    identification: 0,
                    dont_fragment: self.dont_fragment,
                    more_fragments: part.more,
                    fragment_offset: part.offset,
                    ttl,
                    protocol: self.protocol,
                    source,
                    destination,
                };
                frame.extend_from_slice(&ethertype::IPV4.to_be_bytes());
                frame.extend_from_slice(&header.emit());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = ipv6::Fields {
                    traffic_class: tos,
                    flow_label: 0,
                    // Checked when it was read.
                    payload_length: (total - ipv6::LENGTH as u32) as u16,
                    next_header: if self.fragment.is_some() { protocol::FRAGMENT } else { self.protocol },
                    hop_limit: ttl,
                    source,
                    destination,
                };
                frame.extend_from_slice(&ethertype::IPV6.to_be_bytes());
                frame.extend_from_slice(&header.emit());
                if self.fragment.is_some() {
                    let at = ipv6::LENGTH;
                    let header = ipv6::Fragment { at, offset: part.offset, more: part.more, identification: 0 };
                    frame.extend_from_slice(&header.emit(self.protocol));
                }
            }
            // The families agree.
            _ => {}
        }
        frame.extend_from_slice(&payload);
        frame
    }
}

/// CRC-32C (RFC 9260 appendix A), bit by bit: for the rare packet that somebody writes.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 != 0 { 0x82f6_3b78 } else { 0 })
    })
}

/// The longest frame that is read: two tags and the longest IPv6 packet.
const MAX_FRAME: usize = ethernet::LENGTH + 8 + ipv6::LENGTH + 65_535;

fn hex(text: &str, start: usize) -> Result<Vec<u8>, TextError> {
    let mut bytes = Vec::new();
    let mut upper = None;
    for (at, character) in text.char_indices().skip_while(|(at, _)| *at < start) {
        if character.is_whitespace() {
            continue;
        }
        let Some(digit) = character.to_digit(16) else {
            let span = at..at + character.len_utf8();
            let found = text[span.clone()].to_owned();
            return Err(TextError { span, found, expected: "a hexadecimal digit".to_owned(), suggestion: None });
        };
        // A digit is below 16.
        match upper.take() {
            None => upper = Some(digit as u8),
            Some(upper) => bytes.push(upper << 4 | digit as u8),
        }
    }
    let whole = |expected: String| {
        let span = start - 2..text.trim_end().len();
        let found = shortened(&text[span.clone()]);
        Err(TextError { span, found, expected, suggestion: None })
    };
    if upper.is_some() {
        return whole("an even number of hexadecimal digits".to_owned());
    }
    if !(ethernet::LENGTH..=MAX_FRAME).contains(&bytes.len()) {
        return whole(format!("an Ethernet frame of {} to {MAX_FRAME} octets", ethernet::LENGTH));
    }
    Ok(bytes)
}

/// A text that may be long, for a message.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

const OPTIONS: [&str; 13] =
    ["ttl", "length", "dscp", "df", "fragment", "flags", "type", "code", "spi", "vlan", "inner", "mac-from", "mac-to"];

/// Reads words from left to right.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Where the last word lies.
    last: Range<usize>,
}

/// A word and where it lies.
type Word<'a> = (&'a str, Range<usize>);

impl<'a> Reader<'a> {
    /// The next word, without taking it; empty at the end.
    fn peek(&self) -> Word<'a> {
        let rest = &self.text[self.at..];
        let word = rest.trim_start();
        let start = self.text.len() - word.len();
        let length = word.find(char::is_whitespace).unwrap_or(word.len());
        (&word[..length], start..start + length)
    }

    fn word(&mut self) -> Word<'a> {
        let (word, span) = self.peek();
        self.at = span.end;
        self.last = span.clone();
        (word, span)
    }

    fn error<T>(
        &self,
        span: Range<usize>,
        expected: impl Into<String>,
        suggestion: Option<String>,
    ) -> Result<T, TextError> {
        let found = shortened(&self.text[span.clone()]);
        Err(TextError { span, found, expected: expected.into(), suggestion })
    }

    fn keyword(&mut self, keyword: &str) -> Result<(), TextError> {
        match self.word() {
            (word, _) if word == keyword => Ok(()),
            (word, span) => {
                let suggestion = closest(word, [keyword]).map(str::to_owned);
                self.error(span, format!("`{keyword}`"), suggestion)
            }
        }
    }

    /// A word that `parse` understands.
    fn value<T>(&mut self, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, TextError> {
        let (word, span) = self.word();
        match parse(word) {
            Some(value) => Ok(value),
            None => self.error(span, expected, None),
        }
    }

    fn protocol(&mut self) -> Result<(u8, Word<'a>), TextError> {
        let (word, span) = self.word();
        match number(word).or_else(|| protocol::by_name(word)) {
            Some(number) => Ok((number, (word, span))),
            None => {
                let suggestion = closest(word, protocol::names()).map(str::to_owned);
                self.error(span, "a protocol, as `tcp` or a number of 0 to 255", suggestion)
            }
        }
    }

    fn address(&mut self) -> Result<IpAddr, TextError> {
        let (word, span) = self.word();
        match word.parse() {
            Ok(address) => Ok(address),
            Err(_) => {
                let address = word.split_once('/').map(|(address, _)| address);
                let suggestion = address.filter(|address| address.parse::<IpAddr>().is_ok()).map(str::to_owned);
                self.error(span, "an IPv4 or IPv6 address", suggestion)
            }
        }
    }

    fn port(&mut self) -> Result<Option<u16>, TextError> {
        if self.peek().0 != "port" {
            return Ok(None);
        }
        self.word();
        self.value("a port, 0 to 65535", number).map(Some)
    }

    fn description(&mut self) -> Result<Description, TextError> {
        let (protocol, (protocol_word, protocol_span)) = self.protocol()?;
        self.keyword("from")?;
        let source = self.address()?;
        let source_port = self.port()?;
        let after_source = self.peek().1;
        self.keyword("to")?;
        let destination = self.address()?;
        let destination_span = self.last.clone();
        let destination_port = self.port()?;
        let after_destination = self.peek().1;

        let mut packet = Description {
            protocol,
            source,
            destination,
            ports: None,
            ttl: None,
            length: None,
            dscp: None,
            dont_fragment: false,
            fragment: None,
            flags: None,
            kind: None,
            code: None,
            spi: None,
            vlan: None,
            inner: None,
            mac_from: None,
            mac_to: None,
        };
        let v4 = source.is_ipv4();
        if v4 != destination.is_ipv4() {
            let family = if v4 { "an IPv4" } else { "an IPv6" };
            return self.error(destination_span, format!("{family} address, as the source is one"), None);
        }
        if protocol == packet.foreign_icmp() && number::<u8>(protocol_word).is_none() {
            let own = protocol::name(packet.icmp()).unwrap_or_default();
            let family = if v4 { "IPv4" } else { "IPv6" };
            return self.error(protocol_span, format!("a protocol of {family}"), Some(own.to_owned()));
        }
        if !v4 && (protocol::is_extension(protocol)) {
            return self.error(protocol_span, "a protocol that is no IPv6 extension header", None);
        }

        let spans = self.options(&mut packet)?;
        self.check(&mut packet, &spans)?;

        // Ports, as soon as it is known whether there is room for any.
        let has_ports = protocol::has_ports(protocol);
        packet.ports = match (source_port, destination_port) {
            (None, None) if !has_ports || packet.is_later_fragment() => None,
            (Some(from), Some(to)) if has_ports && !packet.is_later_fragment() => Some((from, to)),
            (None, _) if has_ports && !packet.is_later_fragment() => {
                return self.error(after_source, "`port`, as the protocol has ports", None);
            }
            (_, None) if has_ports && !packet.is_later_fragment() => {
                return self.error(after_destination, "`port`, as the protocol has ports", None);
            }
            (from, _) => {
                let span = if from.is_some() { after_source } else { after_destination };
                let why = if has_ports { "a later fragment has none" } else { "the protocol has none" };
                return self.error(span.start..span.start, format!("no port: {why}"), None);
            }
        };
        Ok(packet)
    }

    /// Reads the options. Returns where the value (or keyword, for those without one) of each lies.
    fn options(&mut self, packet: &mut Description) -> Result<[Option<Range<usize>>; OPTIONS.len()], TextError> {
        let mut spans = [const { None }; OPTIONS.len()];
        loop {
            let (word, span) = self.word();
            if word.is_empty() {
                return Ok(spans);
            }
            let Some(index) = OPTIONS.iter().position(|option| *option == word) else {
                let suggestion = closest(word, OPTIONS).map(str::to_owned);
                return self.error(span, "an option, as `ttl`, or the end", suggestion);
            };
            if spans[index].is_some() {
                return self.error(span, format!("`{word}` once"), None);
            }
            match word {
                "ttl" => packet.ttl = Some(self.value("a TTL, 0 to 255", number)?),
                "length" => packet.length = Some(self.value("a length in octets", number)?),
                "dscp" => packet.dscp = Some(self.value("a DSCP, 0 to 63", |w| number(w).filter(|n| *n < 64))?),
                "df" => packet.dont_fragment = true,
                "fragment" => packet.fragment = Some(self.fragment()?),
                "flags" => packet.flags = Some(self.flags()?),
                "type" => packet.kind = Some(self.kind(packet)?),
                "code" => packet.code = Some(self.value("an ICMP code, 0 to 255", number)?),
                "spi" => packet.spi = Some(self.value("an SPI, as 0x100 or 256", spi)?),
                "vlan" => packet.vlan = Some(self.value("a VLAN, 0 to 4094", vlan)?),
                "inner" => packet.inner = Some(self.value("a VLAN, 0 to 4094", vlan)?),
                "mac-from" => packet.mac_from = Some(self.value("a MAC address, as 02:00:00:00:00:01", mac)?),
                _ => packet.mac_to = Some(self.value("a MAC address, as 02:00:00:00:00:01", mac)?),
            }
            spans[index] = Some(self.last.clone());
        }
    }

    fn fragment(&mut self) -> Result<Fragment, TextError> {
        let (word, span) = self.word();
        let (digits, more) = match word.strip_suffix('+') {
            Some(digits) => (digits, true),
            None => (word, false),
        };
        match number::<u16>(digits) {
            Some(offset) if offset % 8 == 0 => Ok(Fragment { offset, more }),
            Some(offset) => {
                let suggestion = Fragment { offset: offset & !7, more }.to_string();
                self.error(span, "an offset in octets that is a multiple of 8", Some(suggestion))
            }
            None => self.error(span, "the offset of a fragment in octets, as `0+` or `1480`", None),
        }
    }

    fn flags(&mut self) -> Result<tcp::Flags, TextError> {
        let (word, span) = self.word();
        if word == "none" {
            return Ok(tcp::Flags::default());
        }
        let mut flags = tcp::Flags::default();
        let mut start = span.start;
        for name in word.split(',') {
            let here = start..start + name.len();
            start = here.end + 1;
            let Some(flag) = tcp::Flags::by_name(name) else {
                let names = tcp::Flags::NAMES.map(|(_, name)| name);
                let suggestion = closest(name, names).map(str::to_owned);
                return self.error(here, "TCP flags, as `syn,ack`, or `none`", suggestion);
            };
            flags = flags.with(flag);
        }
        Ok(flags)
    }

    fn kind(&mut self, packet: &Description) -> Result<u8, TextError> {
        let (word, span) = self.word();
        let (_, by_name) = packet.icmp_names();
        match by_name(word).or_else(|| number(word)) {
            Some(kind) => Ok(kind),
            None => {
                let suggestion = match packet.is_v4() {
                    true => closest(word, icmpv4::names()),
                    false => closest(word, icmpv6::names()),
                };
                let suggestion = suggestion.map(str::to_owned);
                self.error(span, "an ICMP type, as `echo-request` or a number of 0 to 255", suggestion)
            }
        }
    }

    /// Whether the options go with one another and with the protocol.
    fn check(&self, packet: &mut Description, spans: &[Option<Range<usize>>; OPTIONS.len()]) -> Result<(), TextError> {
        let span = |option: &str| {
            let index = OPTIONS.iter().position(|o| *o == option);
            index.and_then(|index| spans[index].clone()).unwrap_or(self.text.len()..self.text.len())
        };
        let v4 = packet.is_v4();
        if packet.dont_fragment && !v4 {
            return self.error(span("df"), "no `df`: IPv6 packets are never fragmented on their way", None);
        }
        if packet.inner.is_some() && packet.vlan.is_none() {
            return self.error(span("inner"), "`vlan` beside `inner`", None);
        }
        if v4 && packet.fragment == Some(Fragment { offset: 0, more: false }) {
            let suggestion = Some("0+".to_owned());
            return self.error(span("fragment"), "a fragment: at offset 0, more follow", suggestion);
        }
        let later = packet.is_later_fragment();
        let belongs = [
            ("flags", packet.flags.is_some(), packet.protocol == protocol::TCP, "tcp"),
            ("type", packet.kind.is_some(), packet.protocol == packet.icmp(), "ICMP"),
            ("code", packet.code.is_some(), packet.protocol == packet.icmp(), "ICMP"),
            ("spi", packet.spi.is_some(), matches!(packet.protocol, protocol::ESP | protocol::AH), "esp and ah"),
        ];
        for (option, given, fits, whose) in belongs {
            if given && later {
                return self.error(span(option), format!("no `{option}`: a later fragment has none"), None);
            }
            if given && !fits {
                return self.error(span(option), format!("no `{option}`: it goes with {whose}"), None);
            }
        }
        let header = packet.header_length();
        let (least, usual) = packet.least_and_usual_length();
        let most = if v4 { ipv4::MAX_DATAGRAM as u32 } else { (ipv6::LENGTH + 65_535) as u32 };
        let length = packet.length.unwrap_or(usual);
        if !(least..=most).contains(&length) {
            let suggestion = length.clamp(least, most).to_string();
            return self.error(span("length"), format!("a length of {least} to {most} octets"), Some(suggestion));
        }
        if let Some(fragment) = packet.fragment {
            let data = length - header;
            if fragment.more && !data.is_multiple_of(8) {
                let suggestion = Some((header + data / 8 * 8).to_string());
                let expected = format!("a length of {header} octets of header and a multiple of 8");
                return self.error(span("length"), expected, suggestion);
            }
            if u32::from(fragment.offset) + data > 65_535 {
                return self.error(span("fragment"), "a fragment that ends at 65535 octets at most", None);
            }
        }
        Ok(())
    }
}

/// A number in decimal digits, without a sign.
fn number<T: FromStr>(word: &str) -> Option<T> {
    if word.bytes().all(|byte| byte.is_ascii_digit()) { word.parse().ok() } else { None }
}

fn spi(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => u32::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => number(word),
    }
}

fn vlan(word: &str) -> Option<VlanId> {
    number(word).and_then(VlanId::new)
}

fn mac(word: &str) -> Option<MacAddress> {
    word.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parse::{self, ParseFlags, Parsed};
    use crate::text::arbitrary::texts;
    use crate::text::summary;

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
                "icmp from 10.0.0.1 to 192.0.2.9 ttl 1 type unreachable code 3",
                "IP4 10.0.0.1 > 192.0.2.9 icmp unreachable code 3 ttl 1 length 28",
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

    #[test]
    fn crc32c_has_its_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
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
            let theirs = etherparse::SlicedPacket::from_ethernet(&frame).unwrap();
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
                    let right = udp.to_header().calc_checksum_ipv4_raw(ip.header().source(), ip.header().destination(), udp.payload()).unwrap();
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
        fn almost_right_texts_are_answered(text in texts(), cut in any::<prop::sample::Index>(), with in "[ a-z0-9x+.:,]{0,4}") {
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
