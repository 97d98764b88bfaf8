//! The parts of a rule that translates which several files read.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_packet::npt::Prefixes;

use crate::model::{Addresses, NatList, NatRule, NatVerb, Transport};
use crate::root::nat::Spans;

/// Addresses that are not all.
pub(super) fn spans(addresses: &Addresses) -> Spans {
    let mut spans = Spans::default();
    let mut add = |first: IpAddr, last: IpAddr| match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => spans.v4.push((first.to_bits(), last.to_bits())),
        (IpAddr::V6(first), IpAddr::V6(last)) => spans.v6.push((first.to_bits(), last.to_bits())),
        _ => {}
    };
    let members = match addresses {
        Addresses::Group(group) => &*group.members,
        one => std::slice::from_ref(one),
    };
    for member in members {
        match member {
            Addresses::Net(net) => add(net.network(), net.broadcast()),
            Addresses::Range(first, last) => add(*first, *last),
            Addresses::Any | Addresses::Group(_) => {}
        }
    }
    spans
}

/// Returns whether a rule of a list begins translations, or a live edit may bring one: the list is empty.
pub fn begins_translations(list: &NatList) -> bool {
    list.rules.is_empty() || list.rules.iter().any(|rule| rule.verb != NatVerb::Keep && npt(rule).is_none())
}

/// The prefixes of a map of IPv6 that translates without sessions: it is about all packets, and its prefixes are short enough.
pub(super) fn npt(rule: &NatRule) -> Option<Prefixes> {
    let target = rule.source.as_ref().filter(|_| rule.verb == NatVerb::Map)?;
    let (Addresses::Net(IpNet::V6(inside)), Some(Addresses::Net(IpNet::V6(outside)))) =
        (&rule.matches.from, &target.addresses)
    else {
        return None;
    };
    let is_whole = rule.matches.to == Addresses::Any && rule.matches.transport == Transport::Any;
    let same = inside.prefix_len() == outside.prefix_len();
    let pair = Prefixes::new(inside.network().to_bits(), outside.network().to_bits(), inside.prefix_len());
    pair.filter(|_| is_whole && same)
}
