//! The fields that masks name: where they stand in a header, and how their values are written.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_packet::wire::{MacAddress, dscp};
use weir_plane::model::{META_INTERFACE, META_NAME, META_VRF};

use super::super::acl::{protocol_name, protocol_number};
use super::super::findings::Kind as Subject;
use super::super::names::{LONGEST_NAME, is_name};
use super::super::words::{Problem, shown};

/// A field of a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// Its first octet.
    pub(super) at: usize,
    /// The bits of its octets.
    pub(super) mask: &'static [u8],
    kind: Kind,
}

/// How the value of a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    V4,
    V6,
    Mac,
    /// A number above so many bits of the last octet.
    Number(u8),
    Ethertype,
    Protocol,
    /// A code point above so many bits of the last octet.
    Dscp(u8),
    /// The name of an object of the configuration, with zeros behind it.
    Name,
}

const _: () = assert!(LONGEST_NAME <= META_NAME);

const fn spec(name: &'static str, at: usize, mask: &'static [u8], kind: Kind) -> Spec {
    Spec { name, at, mask, kind }
}

/// Fields of the Ethernet header.
pub(super) const LINK: &[Spec] = &[
    spec("dst", 0, &[0xff; 6], Kind::Mac),
    spec("src", 6, &[0xff; 6], Kind::Mac),
    spec("ethertype", 12, &[0xff; 2], Kind::Ethertype),
];

/// Fields of the IPv4 header, and the ports behind one without options.
pub(super) const IP4: &[Spec] = &[
    spec("dscp", 1, &[0xfc], Kind::Dscp(2)),
    spec("length", 2, &[0xff; 2], Kind::Number(0)),
    spec("ttl", 8, &[0xff], Kind::Number(0)),
    spec("proto", 9, &[0xff], Kind::Protocol),
    spec("src", 12, &[0xff; 4], Kind::V4),
    spec("dst", 16, &[0xff; 4], Kind::V4),
    spec("sport", 20, &[0xff; 2], Kind::Number(0)),
    spec("dport", 22, &[0xff; 2], Kind::Number(0)),
];

/// Fields of the IPv6 header, and the ports behind one without extension headers.
pub(super) const IP6: &[Spec] = &[
    spec("dscp", 0, &[0x0f, 0xc0], Kind::Dscp(6)),
    spec("flow-label", 1, &[0x0f, 0xff, 0xff], Kind::Number(0)),
    spec("length", 4, &[0xff; 2], Kind::Number(0)),
    spec("proto", 6, &[0xff], Kind::Protocol),
    spec("ttl", 7, &[0xff], Kind::Number(0)),
    spec("src", 8, &[0xff; 16], Kind::V6),
    spec("dst", 24, &[0xff; 16], Kind::V6),
    spec("sport", 40, &[0xff; 2], Kind::Number(0)),
    spec("dport", 42, &[0xff; 2], Kind::Number(0)),
];

/// Fields of a transport header.
pub(super) const TRANSPORT: &[Spec] =
    &[spec("sport", 0, &[0xff; 2], Kind::Number(0)), spec("dport", 2, &[0xff; 2], Kind::Number(0))];

/// Fields that a packet has beside its octets.
pub(super) const META: &[Spec] = &[
    spec("mark", 0, &[0xff; META_INTERFACE], Kind::Number(0)),
    spec("interface", META_INTERFACE, &[0xff; META_NAME], Kind::Name),
    spec("vrf", META_VRF, &[0xff; META_NAME], Kind::Name),
];

impl Spec {
    /// Whether a mask may have fewer bits of the field: its first ones.
    pub(super) fn has_length(&self) -> bool {
        matches!(self.kind, Kind::V4 | Kind::V6 | Kind::Mac)
    }

    /// Bits of the field.
    pub(super) fn bits(&self) -> u8 {
        self.mask.iter().map(|octet| octet.count_ones() as u8).sum()
    }

    /// Reads a value into the octets of the field.
    pub(super) fn read(&self, word: &str) -> Result<Vec<u8>, Problem> {
        let wrong = |what: &str| Problem::new(Subject::Rule, format!("`{}` is no {what}", shown(word)));
        match self.kind {
            Kind::V4 => {
                let address: Ipv4Addr = word.parse().map_err(|_| wrong("IPv4 address").help("as in `192.0.2.1`"))?;
                Ok(address.octets().to_vec())
            }
            Kind::V6 => {
                let address: Ipv6Addr = word.parse().map_err(|_| wrong("IPv6 address").help("as in `2001:db8::1`"))?;
                Ok(address.octets().to_vec())
            }
            Kind::Mac => {
                let address: MacAddress =
                    word.parse().map_err(|_| wrong("hardware address").help("as in `02:00:00:00:00:01`"))?;
                Ok(address.0.to_vec())
            }
            Kind::Protocol => match protocol_number(word).or_else(|| word.parse().ok()) {
                Some(number) => Ok(vec![number]),
                None => Err(wrong("protocol").help("it is a name such as `udp`, or a number up to 255")),
            },
            Kind::Dscp(shift) => {
                let number = dscp::NAMES.number(word).map(u64::from).or_else(|| word.parse().ok());
                let number = number.filter(|&number| number < 64);
                let number = number.ok_or_else(|| wrong("code point").help("it is a name such as `ef`, or 0 to 63"))?;
                Ok(self.octets(number << shift))
            }
            Kind::Ethertype => {
                let digits = word.strip_prefix("0x").and_then(|digits| u16::from_str_radix(digits, 16).ok());
                let number = digits.or_else(|| word.parse().ok());
                let number = number.ok_or_else(|| wrong("ethertype").help("it looks like `0x0800`"))?;
                Ok(self.octets(number.into()))
            }
            Kind::Name => {
                if !is_name(word) {
                    return Err(wrong("name"));
                }
                let mut octets = word.as_bytes().to_vec();
                octets.resize(self.mask.len(), 0);
                Ok(octets)
            }
            Kind::Number(shift) => {
                let most = (1u64 << self.bits()) - 1;
                let number = word.parse::<u64>().ok().filter(|&number| number <= most);
                let number = number.ok_or_else(|| wrong(self.name).help(format!("it is a number up to {most}")))?;
                Ok(self.octets(number << shift))
            }
        }
    }

    fn octets(&self, number: u64) -> Vec<u8> {
        number.to_be_bytes()[8 - self.mask.len()..].to_vec()
    }

    /// Writes the value that stands in the octets of the field.
    pub(super) fn write(&self, f: &mut impl fmt::Write, octets: &[u8]) -> fmt::Result {
        let number = octets.iter().zip(self.mask).fold(0u64, |sum, (octet, mask)| sum << 8 | u64::from(octet & mask));
        match self.kind {
            Kind::V4 => write!(f, "{}", Ipv4Addr::from(number as u32)),
            Kind::V6 => {
                let address = octets.iter().fold(0u128, |sum, &octet| sum << 8 | u128::from(octet));
                write!(f, "{}", Ipv6Addr::from(address))
            }
            Kind::Mac => {
                let mut address = [0; 6];
                address.copy_from_slice(&number.to_be_bytes()[2..]);
                write!(f, "{}", MacAddress(address))
            }
            Kind::Protocol => match protocol_name(number as u8) {
                Some(name) => f.write_str(name),
                None => write!(f, "{number}"),
            },
            Kind::Dscp(shift) => match dscp::NAMES.name((number >> shift) as u8) {
                Some(name) => f.write_str(name),
                None => write!(f, "{}", number >> shift),
            },
            Kind::Ethertype => write!(f, "{number:#06x}"),
            Kind::Name => {
                let name = octets.split(|&octet| octet == 0).next().unwrap_or_default();
                f.write_str(&String::from_utf8_lossy(name))
            }
            Kind::Number(shift) => write!(f, "{}", number >> shift),
        }
    }
}
