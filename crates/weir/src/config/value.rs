//! The small notations within strings: names, addresses, ranges, rates.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::str::FromStr as _;
use std::time::Duration;

use ipnet::IpNet;
use toml::de::DeValue;
use weir_packet::wire::MacAddress;
use weir_plane::model::Tag;

use super::diagnostic::{Code, Diagnostic};
use super::source::At;
use super::table::{Reader, Value, list, outside};
use crate::rules::{LONGEST_NAME, is_name, prefix, quantity};

/// Octets of a device's name, at most (IFNAMSIZ, with the zero at its end, is 16).
const LONGEST_DEVICE: usize = 15;

const TPID_8021Q: u16 = 0x8100;
const TPID_8021AD: u16 = 0x88a8;

impl Reader<'_> {
    /// A name that is declared here.
    pub(super) fn name(&mut self, value: Value<'_>) -> Option<At<String>> {
        let name = self.string(value, "a name")?;
        // What is wrong with the object itself is worth knowing all the same.
        self.declared_name(name);
        Some(At { value: name.value.to_owned(), span: name.span })
    }

    /// Refuses what cannot be a name.
    pub(super) fn declared_name(&mut self, name: At<&str>) -> Option<At<String>> {
        if !is_name(name.value) {
            let invalid = Diagnostic::error(Code::InvalidName, name.span, format!("`{}` is no valid name", name.value));
            self.report(invalid.help(format!(
                "a name has 1 to {LONGEST_NAME} of the characters a-z, 0-9, `.`, `_` and `-`, and begins with a letter or digit"
            )));
            return None;
        }
        Some(At { value: name.value.to_owned(), span: name.span })
    }

    /// The name of one of the kernel's devices, as the kernel takes it (dev_valid_name in net/core/dev.c); `%` would be
    /// taken for a pattern of names.
    pub(super) fn device<'d>(&mut self, value: Value<'d>) -> Option<At<&'d str>> {
        let name = self.string(value, "the name of a device")?;
        let odd = |c: char| c.is_whitespace() || c.is_control() || "/:%".contains(c);
        let length = name.value.len();
        if !(1..=LONGEST_DEVICE).contains(&length) || name.value.contains(odd) || [".", ".."].contains(&name.value) {
            let message = format!("`{}` cannot be the name of a device", name.value.escape_debug());
            let invalid = Diagnostic::error(Code::InvalidName, name.span, message);
            self.report(invalid.help(if length > LONGEST_DEVICE {
                format!("it has {length} octets, and the kernel takes {LONGEST_DEVICE} at most")
            } else {
                format!("it has 1 to {LONGEST_DEVICE} octets without spaces, `/`, `:` and `%`")
            }));
            return None;
        }
        Some(name)
    }

    /// The name of a user or group of the system, or its number.
    pub(super) fn account(&mut self, value: Value<'_>) -> Option<String> {
        let name = self.string(value, "the name of a user or group")?;
        // As useradd(8) of shadow and systemd take them, and numbers.
        let first = name.value.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let rest = name.value.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        if !first || !rest || name.value.len() > LONGEST_NAME {
            let invalid = format!("`{}` is no name of a user or group", name.value.escape_debug());
            self.report(Diagnostic::error(Code::InvalidName, name.span, invalid));
            return None;
        }
        Some(name.value.to_owned())
    }

    /// A time such as `30s`, a multiple of `unit`.
    pub(super) fn duration(
        &mut self,
        value: Value<'_>,
        what: &str,
        range: RangeInclusive<Duration>,
        unit: Duration,
    ) -> Option<Duration> {
        let DeValue::String(text) = value.get_ref() else {
            let example = examples(&range, unit)
                .find(|time| *time == "30s")
                .or(examples(&range, unit).next_back())
                .unwrap_or("30s");
            return self.wrong_type(value, &format!("a time such as `\"{example}\"` ({what})"));
        };
        let Ok(time) = humantime::parse_duration(text) else {
            let invalid = format!("`{text}` is no time ({what})");
            let invalid = Diagnostic::error(Code::InvalidValue, self.span(value.span()), invalid);
            self.report(invalid.help(format!(
                "write a number and its unit: {}",
                examples(&range, unit).map(|time| format!("`{time}`")).collect::<Vec<_>>().join(", ")
            )));
            return None;
        };
        let shown = humantime::format_duration;
        if !range.contains(&time) {
            let (least, most) = (shown(*range.start()), shown(*range.end()));
            let message = format!("{text} is not within {least} to {most}, the range of {what}");
            let found = Diagnostic::error(Code::OutOfRange, self.span(value.span()), message);
            self.report(found.help(format!(
                "write a number and its unit: {}",
                examples(&range, unit).map(|time| format!("`{time}`")).collect::<Vec<_>>().join(", ")
            )));
            return None;
        }
        if time.as_nanos() % unit.as_nanos() != 0 {
            self.error(Code::OutOfRange, value, format!("{what} is a multiple of {}", shown(unit)));
            return None;
        }
        Some(time)
    }

    /// A name that is declared elsewhere.
    pub(super) fn reference(&mut self, value: Value<'_>, what: &str) -> Option<At<String>> {
        let name = self.string(value, what)?;
        Some(At { value: name.value.to_owned(), span: name.span })
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&mut self, value: Value<'_>, what: &str, choices: &[(&str, T)]) -> Option<T> {
        let word = self.string(value, what)?;
        let found = choices.iter().find(|choice| choice.0 == word.value).map(|choice| choice.1);
        if found.is_none() {
            let words: Vec<&str> = choices.iter().map(|choice| choice.0).collect();
            let invalid = Diagnostic::error(Code::InvalidValue, word.span, format!("`{}` is no {what}", word.value));
            let invalid = invalid.suggest(word.value, &words);
            let help = invalid.help.clone().unwrap_or_else(|| format!("it is one of {}", list(&words)));
            self.report(invalid.help(help));
        }
        found
    }

    /// The address of another host.
    pub(super) fn host_address(&mut self, value: Value<'_>) -> Option<At<IpAddr>> {
        let text = self.string(value, "an IP address")?;
        let Ok(address) = IpAddr::from_str(text.value) else {
            let invalid =
                Diagnostic::error(Code::InvalidAddress, text.span, format!("`{}` is no IP address", text.value));
            self.report(match text.value.parse::<IpNet>() {
                Ok(net) => invalid.help(format!("write `{}`: a length has no place here", net.addr())),
                Err(_) => invalid,
            });
            return None;
        };
        if let Some(why) = not_a_host(address) {
            let span = text.span;
            self.report(Diagnostic::error(Code::NotAHostAddress, span, format!("{address} {why}, so no host has it")));
            return None;
        }
        Some(At { value: address, span: text.span })
    }

    /// One of our own addresses and the length of the connected prefix.
    pub(super) fn interface_address(&mut self, value: Value<'_>) -> Option<At<IpNet>> {
        let text = self.string(value, "an address and its prefix length, as in `198.51.100.1/24`")?;
        let net = match text.value.parse::<IpNet>() {
            Ok(net) => net,
            Err(_) => {
                let invalid = format!("`{}` is no address with a prefix length", text.value);
                let invalid = Diagnostic::error(Code::InvalidAddress, text.span, invalid);
                let help = match text.value.parse::<IpAddr>() {
                    Ok(IpAddr::V4(address)) => format!("write `{address}/24` if the link's prefix is a /24"),
                    Ok(IpAddr::V6(address)) => format!("write `{address}/64` if the link's prefix is a /64"),
                    Err(_) => prefix::length_help(text.value).unwrap_or("it looks like `198.51.100.1/24`").to_owned(),
                };
                self.report(invalid.help(help));
                return None;
            }
        };
        let why = not_a_host(net.addr()).or_else(|| {
            (net.prefix_len() == 0)
                .then_some("cannot have a connected prefix of length 0")
                .or_else(|| edge(net, net.addr()))
        });
        if let Some(why) = why {
            let message = format!("{} {why}, so it cannot be an interface's", net.addr());
            self.report(Diagnostic::error(Code::NotAHostAddress, text.span, message));
            return None;
        }
        Some(At { value: net, span: text.span })
    }

    /// A prefix; bits behind its length are cleared with a warning.
    pub(super) fn prefix(&mut self, value: Value<'_>) -> Option<At<IpNet>> {
        let text = self.string(value, "a prefix")?;
        match prefix::parse(text.value) {
            Ok((net, clean)) => {
                if !clean {
                    self.report(host_bits(text.value, net, text.span));
                }
                Some(At { value: net, span: text.span })
            }
            Err(help) => {
                self.report(invalid_prefix(text.value, help, text.span));
                None
            }
        }
    }

    /// A prefix, an address, or two addresses with a hyphen between.
    pub(super) fn address_range(&mut self, value: Value<'_>) -> Option<At<(IpAddr, IpAddr)>> {
        let text = self.string(value, "addresses")?;
        let span = text.span;
        let invalid = |help: &str| {
            Diagnostic::error(Code::InvalidRange, span, format!("`{}` is no range of addresses", text.value)).help(help)
        };
        let shape = "write a prefix (`10.0.0.0/24`), an address or a range (`10.0.0.1-10.0.0.99`)";
        let range = if let Ok(net) = text.value.parse::<IpNet>() {
            if net.addr() != net.network() {
                self.report(host_bits(text.value, net.trunc(), span));
            }
            (net.network(), net.broadcast())
        } else if let Ok(address) = text.value.parse::<IpAddr>() {
            (address, address)
        } else {
            let Some((first, last)) = text.value.split_once('-') else {
                self.report(invalid(prefix::length_help(text.value).unwrap_or(shape)));
                return None;
            };
            match (first.trim().parse::<IpAddr>(), last.trim().parse::<IpAddr>()) {
                (Ok(first), Ok(last)) => (first, last),
                _ => {
                    self.report(invalid(shape));
                    return None;
                }
            }
        };
        if range.0.is_ipv4() != range.1.is_ipv4() {
            self.report(invalid("both ends must be of one family"));
            return None;
        }
        if range.0 > range.1 {
            self.report(invalid("the first address lies behind the last: turn them round"));
            return None;
        }
        Some(At { value: range, span })
    }

    /// A port or two with a hyphen between.
    pub(super) fn port_range(&mut self, value: Value<'_>, what: &str) -> Option<(u16, u16)> {
        match value.get_ref() {
            DeValue::Integer(_) => self.u16(value, what, 0..=u16::MAX).map(|port| (port, port)),
            DeValue::String(_) => {
                let (first, last) = self.number_range(value, what, "`53` or `1024-65535`", 0, u64::from(u16::MAX))?;
                Some((u16::try_from(first).ok()?, u16::try_from(last).ok()?))
            }
            _ => self.wrong_type(value, &format!("an integer or a range ({what})")),
        }
    }

    /// A number or two with a hyphen between, in a string.
    pub(super) fn number_range(
        &mut self,
        value: Value<'_>,
        what: &str,
        shape: &str,
        least: u64,
        most: u64,
    ) -> Option<(u64, u64)> {
        let text = self.string(value, what)?;
        let parse = |part: &str| {
            let part = part.trim();
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            // More digits than a u64 holds are a number all the same: one out of range.
            digits.then(|| part.parse::<u64>().unwrap_or(u64::MAX))
        };
        let (first, last) = text.value.split_once('-').unwrap_or((text.value, text.value));
        let (Some(first), Some(last)) = (parse(first), parse(last)) else {
            let message = format!("`{}` is not {what}", text.value);
            let invalid = Diagnostic::error(Code::InvalidRange, text.span, message);
            self.report(invalid.help(format!("it looks like {shape}")));
            return None;
        };
        if first < least || last > most || first > most {
            let message = outside(text.value, what, least, most);
            self.report(Diagnostic::error(Code::OutOfRange, text.span, message));
            return None;
        }
        if first > last {
            let invalid =
                Diagnostic::error(Code::InvalidRange, text.span, format!("the range `{}` is empty", text.value));
            self.report(invalid.help(format!("write `{last}-{first}`")));
            return None;
        }
        Some((first, last))
    }

    /// A number of packets from 1, perhaps with k, M or G.
    pub(super) fn quantity(&mut self, value: Value<'_>, what: &str) -> Option<u64> {
        /// More than any machine makes in a year.
        const MOST: u64 = 1_000_000_000_000_000;
        match value.get_ref() {
            DeValue::Integer(_) => self.integer(value, what, 1..=MOST),
            DeValue::String(_) => {
                let text = self.string(value, what)?;
                let Some(number) = quantity::parse(text.value) else {
                    let message = format!("`{}` is not {what}", text.value);
                    let invalid = Diagnostic::error(Code::InvalidValue, text.span, message);
                    self.report(invalid.help("write a whole number, or one with k, M or G, as in `2.5M`"));
                    return None;
                };
                if !(1..=MOST).contains(&number) {
                    let message = outside(text.value, what, 1, MOST);
                    self.report(Diagnostic::error(Code::OutOfRange, text.span, message));
                    return None;
                }
                Some(number)
            }
            _ => self.wrong_type(value, &format!("an integer or a string such as `2.5M` ({what})")),
        }
    }

    /// The hardware address of one host.
    pub(super) fn mac(&mut self, value: Value<'_>) -> Option<MacAddress> {
        let text = self.string(value, "a MAC address")?;
        let Ok(mac) = text.value.parse::<MacAddress>() else {
            let invalid = Diagnostic::error(Code::InvalidMac, text.span, format!("`{}` is no MAC address", text.value));
            self.report(invalid.help("it looks like `02:00:00:00:00:01`"));
            return None;
        };
        let why = if mac.0 == [0; 6] {
            "is all zeros"
        } else if mac.0[0] & 1 == 1 {
            "is a group address (multicast or broadcast)"
        } else {
            return Some(mac);
        };
        let message = format!("{mac} {why}, so no host has it");
        let invalid = Diagnostic::error(Code::InvalidMac, text.span, message);
        self.report(invalid.help("an address of your own begins with `02`"));
        None
    }

    /// VLAN tags: an id, or a table of `outer`, `inner` and `tpid`.
    pub(super) fn vlan(&mut self, value: Value<'_>) -> Option<(Tag, Option<u16>)> {
        let id = |reader: &mut Self, value| reader.u16(value, "a VLAN id", 1..=4094);
        match value.get_ref() {
            DeValue::Integer(_) => id(self, value).map(|vid| (Tag { tpid: TPID_8021Q, vid }, None)),
            DeValue::Table(_) => {
                let table = self.table(value, "a `vlan` table", &["outer", "inner", "tpid"])?;
                let outer = self.require(&table, "outer").and_then(|value| id(self, value));
                let inner = match table.get("inner") {
                    Some(value) => Some(id(self, value)?),
                    None => None,
                };
                let tpid = match table.get("tpid") {
                    Some(value) => {
                        self.choice(value, "tag protocol", &[("802.1Q", TPID_8021Q), ("802.1ad", TPID_8021AD)])?
                    }
                    None if inner.is_some() => TPID_8021AD,
                    None => TPID_8021Q,
                };
                Some((Tag { tpid, vid: outer? }, inner))
            }
            _ => self.wrong_type(value, "a VLAN id or a table of `outer`, `inner` and `tpid`"),
        }
    }
}

/// Why no host can have an address, if so.
pub(super) fn not_a_host(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) if v4.octets()[0] == 0 => Some("means \"this network\""),
        IpAddr::V4(Ipv4Addr::BROADCAST) => Some("is the broadcast address"),
        IpAddr::V6(v6) if v6.is_unspecified() => Some("means \"no address\""),
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Some("stands for an IPv4 address"),
        address if address.is_multicast() => Some("is a multicast address"),
        address if address.is_loopback() => Some("is a loopback address"),
        _ => None,
    }
}

/// Why an address in a connected prefix is no host's, if so.
pub(crate) fn edge(net: IpNet, address: IpAddr) -> Option<&'static str> {
    if net.prefix_len() + 1 >= net.max_prefix_len() {
        return None;
    }
    match net {
        IpNet::V4(_) if address == net.network() => Some("is the network's own address"),
        IpNet::V4(_) if address == net.broadcast() => Some("is the network's broadcast address"),
        IpNet::V6(_) if address == net.network() => Some("is the network's anycast address of all routers"),
        _ => None,
    }
}

pub(super) fn invalid_prefix(text: &str, help: String, span: super::source::Span) -> Diagnostic {
    Diagnostic::error(Code::InvalidPrefix, span, format!("`{text}` is no prefix")).help(help)
}

pub(super) fn host_bits(text: &str, net: IpNet, span: super::source::Span) -> Diagnostic {
    let message = format!("`{text}` has bits set behind its length; it is taken as {net}");
    Diagnostic::warning(Code::HostBits, span, message).help(format!("write `{net}`"))
}

/// Times of a range that people write, each with another unit.
fn examples(range: &RangeInclusive<Duration>, unit: Duration) -> impl DoubleEndedIterator<Item = &'static str> {
    const TIMES: [(&str, Duration); 7] = [
        ("100us", Duration::from_micros(100)),
        ("1ms", Duration::from_millis(1)),
        ("500ms", Duration::from_millis(500)),
        ("30s", Duration::from_secs(30)),
        ("10m", Duration::from_secs(600)),
        ("2h", Duration::from_secs(7200)),
        ("7d", Duration::from_secs(7 * 86_400)),
    ];
    let fits = move |time: Duration| range.contains(&time) && time.as_nanos().is_multiple_of(unit.as_nanos());
    TIMES.into_iter().filter(move |(_, time)| fits(*time)).map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_a_prefix_are_no_hosts() {
        let edge = |net: &str, address: &str| edge(net.parse().unwrap(), address.parse().unwrap()).is_some();
        assert!(edge("10.0.0.0/24", "10.0.0.0"));
        assert!(edge("10.0.0.0/24", "10.0.0.255"));
        assert!(!edge("10.0.0.0/24", "10.0.0.1"));
        assert!(!edge("10.0.0.0/31", "10.0.0.0"));
        assert!(!edge("10.0.0.0/32", "10.0.0.0"));
        assert!(edge("10.0.0.0/30", "10.0.0.3"));
        assert!(edge("2001:db8::/64", "2001:db8::"));
        assert!(!edge("2001:db8::/64", "2001:db8::ffff:ffff:ffff:ffff"));
        assert!(!edge("2001:db8::/127", "2001:db8::"));
    }
}
