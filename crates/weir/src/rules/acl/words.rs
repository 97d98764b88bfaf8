//! Names of protocols, ICMP types, code points and flags.
//!
//! From IANA's registries "Assigned Internet Protocol Numbers", "ICMP Type Numbers", "ICMPv6 type Numbers",
//! "Differentiated Services Field Codepoints (DSCP)" and "TCP Header Flags"; those that are in use. Each table has a number
//! once.

use std::fmt;

use super::{ICMP, ICMP6};

/// Protocols.
const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", ICMP),
    ("igmp", 2),
    ("ipv4", 4),
    ("tcp", super::TCP),
    ("udp", super::UDP),
    ("dccp", super::DCCP),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", ICMP6),
    ("eigrp", 88),
    ("ospf", 89),
    ("etherip", 97),
    ("pim", 103),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", super::SCTP),
    ("udplite", 136),
    ("mpls-in-ip", 137),
];

/// Types of ICMP for IPv4.
const ICMP_TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
    ("address-mask-request", 17),
    ("address-mask-reply", 18),
    ("extended-echo-request", 42),
    ("extended-echo-reply", 43),
];

/// Types of ICMP for IPv6.
const ICMP6_TYPES: &[(&str, u8)] = &[
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("multicast-listener-query", 130),
    ("multicast-listener-report", 131),
    ("multicast-listener-done", 132),
    ("router-solicitation", 133),
    ("router-advertisement", 134),
    ("neighbor-solicitation", 135),
    ("neighbor-advertisement", 136),
    ("redirect", 137),
    ("multicast-listener-report-v2", 143),
    ("extended-echo-request", 160),
    ("extended-echo-reply", 161),
];

/// Differentiated services code points.
const CODE_POINTS: &[(&str, u8)] = &[
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("voice-admit", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

/// Flags of TCP (RFC 9293, 3.1), the lowest bit first.
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

/// The word for no flag.
pub(super) const NONE: &str = "none";

fn number(table: &[(&str, u8)], name: &str) -> Option<u8> {
    table.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
}

fn name(table: &'static [(&str, u8)], number: u8) -> Option<&'static str> {
    table.iter().find(|entry| entry.1 == number).map(|entry| entry.0)
}

fn names(table: &[(&'static str, u8)]) -> Vec<&'static str> {
    table.iter().map(|entry| entry.0).collect()
}

pub(super) fn protocol(name: &str) -> Option<u8> {
    number(PROTOCOLS, name)
}

pub(crate) fn protocol_name(protocol: u8) -> Option<&'static str> {
    name(PROTOCOLS, protocol)
}

pub(super) fn protocols() -> Vec<&'static str> {
    names(PROTOCOLS)
}

/// The types of one of the two protocols.
fn icmp_types_of(protocol: u8) -> &'static [(&'static str, u8)] {
    if protocol == ICMP6 { ICMP6_TYPES } else { ICMP_TYPES }
}

pub(super) fn icmp_type(protocol: u8, name: &str) -> Option<u8> {
    number(icmp_types_of(protocol), name)
}

pub(super) fn icmp_type_name(protocol: u8, icmp_type: u8) -> Option<&'static str> {
    name(icmp_types_of(protocol), icmp_type)
}

pub(super) fn icmp_types(protocol: u8) -> Vec<&'static str> {
    names(icmp_types_of(protocol))
}

pub(super) fn dscp(name: &str) -> Option<u8> {
    number(CODE_POINTS, name)
}

pub(super) fn dscp_name(dscp: u8) -> Option<&'static str> {
    name(CODE_POINTS, dscp)
}

pub(super) fn dscps() -> Vec<&'static str> {
    names(CODE_POINTS)
}

/// The bit of a flag.
pub(super) fn flag(name: &str) -> Option<u8> {
    FLAGS.iter().position(|flag| *flag == name).map(|bit| 1 << bit)
}

pub(super) fn flags() -> [&'static str; 8] {
    FLAGS
}

/// Prints flags, with commas between.
pub(super) struct Flags(pub(super) u8);

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str(NONE);
        }
        let mut comma = "";
        for (bit, flag) in FLAGS.iter().enumerate() {
            if self.0 >> bit & 1 == 1 {
                write!(f, "{comma}{flag}")?;
                comma = ",";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_numbers_stand_once() {
        for table in [PROTOCOLS, ICMP_TYPES, ICMP6_TYPES, CODE_POINTS] {
            assert_eq!(table.iter().map(|entry| entry.0).collect::<HashSet<_>>().len(), table.len());
            assert!(table.is_sorted_by(|a, b| a.1 < b.1), "{table:?}");
        }
        assert!(CODE_POINTS.iter().all(|entry| entry.1 < 64));
    }
}
