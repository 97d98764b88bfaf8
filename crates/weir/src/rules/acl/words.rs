//! Names of protocols, ICMP types, code points and flags. `weir-packet` has them, as they stand in packets' text, too.

use weir_packet::wire::names::Names;
pub(super) use weir_packet::wire::tcp::Flags;
use weir_packet::wire::{self, icmpv4, icmpv6, tcp};

use super::ICMP6;

/// The word for no flag.
pub(super) const NONE: &str = "none";

pub(crate) fn protocol(name: &str) -> Option<u8> {
    wire::protocol::NAMES.number(name)
}

pub(crate) fn protocol_name(number: u8) -> Option<&'static str> {
    wire::protocol::NAMES.name(number)
}

pub(super) fn protocols() -> Vec<&'static str> {
    wire::protocol::NAMES.names().collect()
}

pub(super) fn dscp(name: &str) -> Option<u8> {
    wire::dscp::NAMES.number(name)
}

pub(super) fn dscp_name(dscp: u8) -> Option<&'static str> {
    wire::dscp::NAMES.name(dscp)
}

fn icmp(protocol: u8) -> &'static Names {
    if protocol == ICMP6 { &icmpv6::NAMES } else { &icmpv4::NAMES }
}

pub(super) fn icmp_type(protocol: u8, name: &str) -> Option<u8> {
    icmp(protocol).number(name)
}

pub(super) fn icmp_type_name(protocol: u8, icmp_type: u8) -> Option<&'static str> {
    icmp(protocol).name(icmp_type)
}

pub(super) fn icmp_types(protocol: u8) -> Vec<&'static str> {
    icmp(protocol).names().collect()
}

/// Types of requests, which are answered by replies with the same identifier.
pub(super) fn requests(protocol: u8) -> impl Iterator<Item = u8> {
    let queries: &[(u8, u8)] = if protocol == ICMP6 { &icmpv6::QUERIES } else { &icmpv4::QUERIES };
    queries.iter().map(|&(request, _)| request)
}

/// The type whose name begins with a word, as others write it: of `echo`, the request.
pub(super) fn icmp_type_begun(protocol: u8, word: &str) -> Option<&'static str> {
    let begun = |name: &&str| name.strip_prefix(word).is_some_and(|rest| rest.starts_with('-'));
    let names: Vec<&str> = icmp_types(protocol).into_iter().filter(begun).collect();
    names.iter().copied().find(|name| name.ends_with("-request")).or(names.first().copied())
}

pub(super) fn dscps() -> Vec<&'static str> {
    weir_packet::wire::dscp::NAMES.names().collect()
}

/// The bit of a flag.
pub(super) fn flag(name: &str) -> Option<u8> {
    tcp::Flags::by_name(name).map(|flag| flag.0)
}

pub(super) fn flags() -> [&'static str; 8] {
    tcp::Flags::NAMES.map(|(_, name)| name)
}
