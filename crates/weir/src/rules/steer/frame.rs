//! Frames that are not IP, and the stations of frames.

use std::fmt;
use std::ops::Range;

use weir_packet::wire::MacAddress;
use weir_packet::wire::ethernet::ethertype;
use weir_plane::model::{SteerFrame, SteerMac, SteerMacs};

use super::super::acl::parser::Line;
use super::super::findings::Kind;
use super::super::lexer::What;
use super::super::parser::{Failure, word};
use super::super::words::{Problem, shown};
use crate::ethertype as names;

/// The word of rules about frames.
pub(super) const FRAME: &str = "frame";

/// The bits of a hardware address.
const LENGTH: u8 = 48;

fn wrong<T>(place: Range<usize>, message: String, help: &str) -> Result<T, Failure> {
    Err((place, Problem::new(Kind::Rule, message).help(help)))
}

/// Reads the ethertype of frames, behind the word `frame`.
pub(super) fn read(line: &mut Line<'_, '_, '_>) -> Result<SteerFrame, Failure> {
    if line.lexer.clone().next()?.what != What::Word("ethertype") {
        return Ok(SteerFrame { ethertype: None });
    }
    line.lexer.next()?;
    let (text, place) = word(&mut line.lexer, "an ethertype")?;
    let named = names::NAMES.iter().find(|(name, _)| *name == text).map(|own| own.1);
    let number = || match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    match named.or_else(number) {
        Some(ethertype::IPV4 | ethertype::IPV6) => {
            wrong(place, "rules about frames match frames that are not IP".to_owned(), "write `ip4` or `ip6`")
        }
        Some(ethertype) => Ok(SteerFrame { ethertype: Some(ethertype) }),
        None => wrong(
            place,
            format!("`{}` is no ethertype", shown(text)),
            "write a name such as `arp`, a number, or digits behind `0x`",
        ),
    }
}

/// Reads stations behind `mac-from` or `mac-to`.
pub(super) fn station(line: &mut Line<'_, '_, '_>) -> Result<SteerMac, Failure> {
    let (text, place) = word(&mut line.lexer, "a hardware address")?;
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let length = match length {
        None => Some(LENGTH),
        Some(length) => length.parse::<u8>().ok().filter(|length| (1..=LENGTH).contains(length)),
    };
    let (Ok(mac), Some(length)) = (address.parse::<MacAddress>(), length) else {
        let help = "it looks like `02:00:00:00:00:01`, or `02:00:5e:00:00:00/24` with a length of 1 to 48";
        return wrong(place, format!("`{}` is no hardware address", shown(text)), help);
    };
    let number = mac.0.iter().fold(0u64, |number, &octet| number << 8 | u64::from(octet));
    if length < LENGTH && number << (16 + u32::from(length)) != 0 {
        return wrong(place, format!("`{}` has bits set behind its length", shown(text)), "leave these bits 0");
    }
    Ok(SteerMac { mac, length })
}

/// Writes the word for frames, and their ethertype.
pub(super) fn write(f: &mut fmt::Formatter<'_>, frame: SteerFrame) -> fmt::Result {
    match frame.ethertype {
        Some(ethertype) => write!(f, "{FRAME} ethertype {}", names::written(ethertype)),
        None => f.write_str(FRAME),
    }
}

/// Writes the stations, each with a blank in front.
pub(super) fn write_macs(f: &mut fmt::Formatter<'_>, macs: SteerMacs) -> fmt::Result {
    for (name, station) in [("mac-from", macs.from), ("mac-to", macs.to)] {
        match station {
            Some(SteerMac { mac, length: LENGTH }) => write!(f, " {name} {mac}")?,
            Some(SteerMac { mac, length }) => write!(f, " {name} {mac}/{length}")?,
            None => {}
        }
    }
    Ok(())
}
