//! Names of protocols, ICMP types, code points and flags. `weir-packet` has them, as they stand in packets' text, too.

pub(super) use weir_packet::wire::dscp::{by_name as dscp, name as dscp_name};
pub(crate) use weir_packet::wire::protocol::{by_name as protocol, name as protocol_name};
pub(super) use weir_packet::wire::tcp::Flags;
use weir_packet::wire::{icmpv4, icmpv6, tcp};

use super::ICMP6;

/// The word for no flag.
pub(super) const NONE: &str = "none";

pub(super) fn protocols() -> Vec<&'static str> {
    weir_packet::wire::protocol::names().collect()
}

pub(super) fn icmp_type(protocol: u8, name: &str) -> Option<u8> {
    if protocol == ICMP6 { icmpv6::by_name(name) } else { icmpv4::by_name(name) }
}

pub(super) fn icmp_type_name(protocol: u8, icmp_type: u8) -> Option<&'static str> {
    if protocol == ICMP6 { icmpv6::name(icmp_type) } else { icmpv4::name(icmp_type) }
}

pub(super) fn icmp_types(protocol: u8) -> Vec<&'static str> {
    if protocol == ICMP6 { icmpv6::names().collect() } else { icmpv4::names().collect() }
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
    weir_packet::wire::dscp::names().collect()
}

/// The bit of a flag.
pub(super) fn flag(name: &str) -> Option<u8> {
    tcp::Flags::by_name(name).map(|flag| flag.0)
}

pub(super) fn flags() -> [&'static str; 8] {
    tcp::Flags::NAMES.map(|(_, name)| name)
}
