//! How the text of a packet is read.

use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use super::description::{Description, Fragment};
use super::error::{TextError, closest};
use crate::wire::{self, MacAddress, VlanId, ethernet, ipv4, ipv6, protocol, tcp};

/// The longest frame that is read: two tags and the longest IPv6 packet.
const MAX_FRAME: usize = ethernet::LENGTH + 8 + ipv6::LENGTH + 65_535;

pub(super) fn hex(text: &str, start: usize) -> Result<Vec<u8>, TextError> {
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

const OPTIONS: [&str; 15] = [
    "ttl", "length", "dscp", "df", "fragment", "flags", "mss", "type", "code", "id", "spi", "vlan", "inner",
    "mac-from", "mac-to",
];

/// Reads words from left to right.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Where the last word lies.
    last: Range<usize>,
}

/// A word and where it lies.
type Word<'a> = (&'a str, Range<usize>);

impl<'a> Reader<'a> {
    /// Starts at the beginning of a text.
    pub(super) fn new(text: &'a str) -> Reader<'a> {
        Reader { text, at: 0, last: 0..0 }
    }

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
        match number(word).or_else(|| protocol::NAMES.number(word)) {
            Some(number) => Ok((number, (word, span))),
            None => {
                let suggestion = closest(word, protocol::NAMES.names()).map(str::to_owned);
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

    /// Reads the whole text as a description of a packet.
    pub(super) fn description(&mut self) -> Result<Description, TextError> {
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
            mss: None,
            kind: None,
            code: None,
            identifier: None,
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
            let own = protocol::NAMES.name(packet.icmp()).unwrap_or_default();
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
                "dscp" => packet.dscp = Some(self.value("a DSCP, as `ef` or 0 to 63", dscp)?),
                "df" => packet.dont_fragment = true,
                "fragment" => packet.fragment = Some(self.fragment()?),
                "flags" => packet.flags = Some(self.flags()?),
                "mss" => packet.mss = Some(self.value("a maximum segment size, 0 to 65535", number)?),
                "type" => packet.kind = Some(self.kind(packet)?),
                "code" => packet.code = Some(self.value("an ICMP code, 0 to 255", number)?),
                "id" => packet.identifier = Some(self.value("an identifier, 0 to 65535", number)?),
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
        let names = packet.icmp_names();
        match names.number(word).or_else(|| number(word)) {
            Some(kind) => Ok(kind),
            None => {
                let suggestion = closest(word, names.names()).map(str::to_owned);
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
            ("mss", packet.mss.is_some(), packet.protocol == protocol::TCP, "tcp"),
            ("type", packet.kind.is_some(), packet.protocol == packet.icmp(), "ICMP"),
            ("code", packet.code.is_some(), packet.protocol == packet.icmp(), "ICMP"),
            ("id", packet.identifier.is_some(), packet.protocol == packet.icmp(), "ICMP"),
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

/// A differentiated services code point, by its name or its number.
fn dscp(word: &str) -> Option<u8> {
    wire::dscp::NAMES.number(word).or_else(|| number(word).filter(|dscp| *dscp < 64))
}

fn vlan(word: &str) -> Option<VlanId> {
    number(word).and_then(VlanId::new)
}

fn mac(word: &str) -> Option<MacAddress> {
    word.parse().ok()
}
