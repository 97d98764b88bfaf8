//! Which hardware addresses may use which addresses of IP: the first rule that matches decides.
//!
//! ```text
//! rule     = ( "permit" | "deny" ) hardware "from" source
//! hardware = "any" | address [ "/" length ]       six octets such as 02:00:00:00:00:01; a length of 24 for all of a vendor
//! source   = "any" | prefix | address
//! ```
//!
//! Words stand apart by blanks; `#` begins what is not part of the rule. A rule prints in these words, an address as the prefix
//! of its length.

use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use ipnet::IpNet;
use weir_packet::wire::MacAddress;
use weir_plane::model::{self, Origin};

use super::findings::{Findings, Kind, Sink};
use super::lexer::{Lexer, What};
use super::parser::{Failure, expected, keyword, word};
use super::prefix::Short;
use super::text::{self, Line};
use super::words::{self, Problem, shown};
use super::{ANY, Action, prefix};

/// Bits of a hardware address.
const LENGTH: u8 = 48;

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    /// The action.
    pub action: Action,
    /// Source hardware addresses: one whose bits beyond the length are clear, and the length, up to 48; `None`: any.
    pub mac: Option<(MacAddress, u8)>,
    /// Source addresses, host bits clear; `None`: any of both families.
    pub from: Option<IpNet>,
}

impl Binding {
    /// As the gateway wants it.
    pub fn model(&self, origin: Origin) -> model::Binding {
        let (mac, mac_length) = self.mac.map_or(([0; 6], 0), |(mac, length)| (mac.0, length));
        model::Binding { permit: self.action == Action::Permit, mac, mac_length, from: self.from, origin }
    }

    /// A rule of a gateway, as one would write it.
    pub fn of(binding: &model::Binding) -> Binding {
        Binding {
            action: if binding.permit { Action::Permit } else { Action::Deny },
            mac: (binding.mac_length > 0).then_some((MacAddress(binding.mac), binding.mac_length)),
            from: binding.from,
        }
    }
}

/// Reads one rule. Also says what is odd about it.
///
/// # Errors
/// If it cannot be understood.
pub fn parse(text: &str) -> Result<(Binding, Findings), Findings> {
    let mut sink = Sink::new(text);
    match read(text, &mut sink) {
        Ok(binding) => Ok((binding, sink.warnings)),
        Err((range, problem)) => {
            sink.error(range, problem);
            Err(sink.errors)
        }
    }
}

/// Reads a text of rules, one a line. Also returns warnings.
///
/// # Errors
/// If any rule cannot be understood: the first of these places, and their number.
pub fn read_text(text: &str) -> Result<(Vec<Line<Binding>>, Findings), Findings> {
    text::read(text, |rule, sink| read(rule, sink).map_err(|(range, problem)| sink.error(range, problem)).ok())
}

fn read(text: &str, sink: &mut Sink<'_>) -> Result<Binding, Failure> {
    let mut lexer = Lexer::new(text);
    let (does, place) = word(&mut lexer, "`permit` or `deny`")?;
    let action = words::action(does).map_err(|problem| (place, problem))?;
    let (hardware, place) = word(&mut lexer, "a hardware address or `any`")?;
    let mac = mac(hardware, place, sink)?;
    keyword(&mut lexer, "from")?;
    let (source, place) = word(&mut lexer, "a prefix, an address or `any`")?;
    let from = match source.parse::<IpAddr>() {
        Ok(address) => Some(address.into()),
        Err(_) => {
            let (from, odd) = words::source(source).map_err(|problem| (place.clone(), problem))?;
            if let Some(odd) = odd {
                sink.warning(place.clone(), odd);
            }
            from
        }
    };
    if let Some(net) = from.and_then(prefix::unmapped) {
        let problem = Problem::new(Kind::Prefix, format!("`{}`: no packet has an IPv4-mapped address", shown(source)));
        return Err((place, problem.help(format!("write `{net}`"))));
    }
    let behind = lexer.next()?;
    if behind.what == What::End {
        Ok(Binding { action, mac, from })
    } else {
        Err(expected("the end of the rule", &behind))
    }
}

fn mac(word: &str, place: Range<usize>, sink: &mut Sink<'_>) -> Result<Option<(MacAddress, u8)>, Failure> {
    if word == ANY {
        return Ok(None);
    }
    let wrong = |message: String, help: &str| Err((place.clone(), Problem::new(Kind::Rule, message).help(help)));
    let (address, length) = word.split_once('/').map_or((word, None), |(address, length)| (address, Some(length)));
    let Ok(address) = address.parse::<MacAddress>() else {
        return wrong(
            format!("`{}` is no hardware address", shown(word)),
            "it looks like `02:00:00:00:00:01`, or `02:00:5e:00:00:00/24`",
        );
    };
    let length = match length.map(|length| length.parse::<u8>().ok().filter(|length| (1..=LENGTH).contains(length))) {
        None => LENGTH,
        Some(Some(length)) => length,
        Some(None) => {
            return wrong(
                format!("`{}` is no hardware address", shown(word)),
                "the length behind it is 1 to 48; `any` stands for all",
            );
        }
    };
    if length >= 8 && address.0[0] & 1 == 1 {
        return wrong(format!("`{}` is a group address, which nobody sends from", shown(word)), "name that of a host");
    }
    let clean = clear(address, length);
    if clean != address {
        let message = format!("`{word}` has bits set behind its length; it is taken as {clean}/{length}");
        sink.warning(place, Problem::new(Kind::HostBits, message).help(format!("write `{clean}/{length}`")));
    }
    Ok(Some((clean, length)))
}

/// An address without the bits behind a length of 1 to 48.
fn clear(address: MacAddress, length: u8) -> MacAddress {
    let mut octets = [0; 8];
    octets[2..].copy_from_slice(&address.0);
    let bits = u64::from_be_bytes(octets) >> (LENGTH - length) << (LENGTH - length);
    let mut clean = [0; 6];
    clean.copy_from_slice(&bits.to_be_bytes()[2..]);
    MacAddress(clean)
}

/// Returns whether some packet may match both of two bindings.
pub fn may_meet(one: &model::Binding, other: &model::Binding) -> bool {
    let length = one.mac_length.min(other.mac_length);
    let same_station = length == 0 || clear(MacAddress(one.mac), length) == clear(MacAddress(other.mac), length);
    let same_source = match (one.from, other.from) {
        (Some(one), Some(other)) => one.contains(&other) || other.contains(&one),
        _ => true,
    };
    same_station && same_source
}

impl FromStr for Binding {
    type Err = Findings;

    fn from_str(text: &str) -> Result<Binding, Findings> {
        parse(text).map(|(binding, _)| binding)
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.action.as_str())?;
        match self.mac {
            None => f.write_str(ANY)?,
            Some((mac, LENGTH)) => write!(f, "{mac}")?,
            Some((mac, length)) => write!(f, "{mac}/{length}")?,
        }
        match self.from {
            None => write!(f, " from {ANY}"),
            Some(prefix) => write!(f, " from {}", Short(&prefix)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rules_print_as_they_were_read() {
        for (text, expected) in [
            ("permit 02:00:00:00:00:01 from 10.0.0.1", "permit 02:00:00:00:00:01 from 10.0.0.1"),
            ("permit 02:00:5e:00:00:00/24 from 2001:db8::/64", "permit 02:00:5e:00:00:00/24 from 2001:db8::/64"),
            ("deny  any from any # all else", "deny any from any"),
        ] {
            let binding: Binding = text.parse().expect(text);
            assert_eq!(binding.to_string(), expected);
            assert_eq!(Binding::of(&binding.model(Origin(1))), binding);
        }
        let (binding, odd) = parse("permit 02:00:5e:12:34:56/25 from 10.0.0.1/8").expect("a rule");
        assert_eq!(binding.to_string(), "permit 02:00:5e:00:00:00/25 from 10.0.0.0/8");
        assert_eq!(
            odd.to_string(),
            "line 1, column 8: `02:00:5e:12:34:56/25` has bits set behind its length; it is taken as 02:00:5e:00:00:00/25 (write `02:00:5e:00:00:00/25`)\n\
             line 1, column 34: `10.0.0.1/8` has bits set behind its length; it is taken as 10.0.0.0/8 (write `10.0.0.0/8`)"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, expected) in [
            ("", "column 1: expected `permit` or `deny`, found the end of the rule"),
            ("permt any from any", "column 1: expected `permit` or `deny`, found `permt` (did you mean `permit`?)"),
            (
                "permit 02:00 from any",
                "column 8: `02:00` is no hardware address (it looks like `02:00:00:00:00:01`, or `02:00:5e:00:00:00/24`)",
            ),
            (
                "permit 02:00:00:00:00:01/49 from any",
                "column 8: `02:00:00:00:00:01/49` is no hardware address (the length behind it is 1 to 48; `any` stands for all)",
            ),
            (
                "permit 01:00:5e:00:00:01 from any",
                "column 8: `01:00:5e:00:00:01` is a group address, which nobody sends from (name that of a host)",
            ),
            ("permit any on any", "column 12: expected `from`, found `on`"),
            (
                "permit any from 10.0.0.0/33",
                "column 17: `10.0.0.0/33` is no prefix (the length of an IPv4 prefix is 0 to 32)",
            ),
            (
                "permit any from ::ffff:10.0.0.0/104",
                "column 17: `::ffff:10.0.0.0/104`: no packet has an IPv4-mapped address (write `10.0.0.0/8`)",
            ),
            ("permit any from any any", "column 21: expected the end of the rule, found `any`"),
        ] {
            let found = text.parse::<Binding>().expect_err(text).to_string();
            assert_eq!(found, format!("line 1, {expected}"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(octets: [u8; 6], length in 0..=48u8, v4: u32, prefix in prop::option::of(0..=32u8), permit: bool) {
            let mac = MacAddress([octets[0] & 0xfe, octets[1], octets[2], octets[3], octets[4], octets[5]]);
            let from = prefix.map(|length| IpNet::new(IpAddr::V4(v4.into()), length).expect("a length of IPv4").trunc());
            let mac = (length > 0).then(|| (clear(mac, length), length));
            let binding = Binding { action: if permit { Action::Permit } else { Action::Deny }, mac, from };
            prop_assert_eq!(binding.to_string().parse::<Binding>(), Ok(binding));
            prop_assert_eq!(Binding::of(&binding.model(Origin(0))), binding);
        }
    }
}
