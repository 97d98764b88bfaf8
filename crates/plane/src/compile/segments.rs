//! Decides which policies are per segment: they may match some segments of a super-packet, and others not.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_packet::identify::Identifier;
use weir_packet::wire::ethernet;
use weir_table::classify::Consulted;

use crate::model::{
    AclRule, ClassifyStart, ClassifyTable, Gateway, IpFamily, RateUnit, SteerOctets, SteerRule, Transport,
};
use crate::root::acl::Access;
use crate::root::segments::PerSegment;
use crate::root::steer;

/// Returns the policies of a model that are per segment. `lists` says so of access lists, which change without a model.
pub(super) fn per_segment(gateway: &Gateway, lists: Arc<AtomicBool>) -> PerSegment {
    let exempt = gateway.sav.iter().flat_map(|policy| policy.exempt.iter());
    let translating = gateway.nat.iter().flat_map(|list| list.rules.iter().map(|rule| &rule.matches));
    let rules = exempt.chain(translating).any(of_rule);
    PerSegment { rules, tables: gateway.classify.iter().any(of_table), bits: limits_bits(gateway), lists }
}

/// Returns in which ways steer rules are per segment.
pub(super) fn of_list(rules: &[SteerRule]) -> steer::PerSegment {
    let in_udp = |id: Identifier| matches!(id, Identifier::Esp | Identifier::Vni | Identifier::Teid);
    // Segments of an outer packet may have other packets inside.
    let octets = rules.iter().any(|rule| rule.inner.is_some() || rule.octets.as_ref().is_some_and(of_octets));
    let datagrams = rules.iter().any(|rule| rule.id.as_ref().is_some_and(|(id, _)| in_udp(*id)));
    steer::PerSegment { octets, datagrams, flags: rules.iter().any(|rule| of_rule(&rule.matches)) }
}

/// Returns whether validation or a classifier table limits bits.
fn limits_bits(gateway: &Gateway) -> bool {
    let actions = gateway.classify.iter().flat_map(|table| table.actions.iter());
    let of_tables = actions.filter_map(|action| action.limit.map(|limit| limit.unit));
    let of_validation = gateway.sav.iter().filter_map(|policy| policy.rate_limit.map(|limit| limit.unit));
    of_tables.chain(of_validation).any(|unit| unit == RateUnit::Bits)
}

fn of_rule(rule: &AclRule) -> bool {
    matches!(rule.transport, Transport::Ports { flags: Some(flags), .. } if of_flags(flags.mask.into()))
}

/// Returns whether segments differ in some of these TCP flags.
pub(super) fn of_flags(mask: u16) -> bool {
    mask & Consulted::OF_SEGMENTS != 0
}

/// Returns whether some access list in force is per segment.
pub(super) fn of_lists(Access { v4, v6, .. }: &Access) -> bool {
    v4.iter().any(|chain| chain.table.matched().contains(Consulted::SEGMENT))
        || v6.iter().any(|chain| chain.table.matched().contains(Consulted::SEGMENT))
}

/// Returns whether the mask of a table has octets in which segments differ: lengths, identifications, sequence numbers, checksums,
/// TCP flags and data. Where other headers or options may stand between, an octet counts as one of these.
fn of_table(table: &ClassifyTable) -> bool {
    of_places(table.start, table.family, 0, &table.mask)
}

fn of_octets(octets: &SteerOctets) -> bool {
    of_places(octets.start, None, octets.at.into(), &octets.mask)
}

/// Returns whether segments differ in octets of a mask that begins so many octets behind `start`.
fn of_places(start: ClassifyStart, family: Option<IpFamily>, first: usize, mask: &[u8]) -> bool {
    let is_shared = |at: usize| match (start, family) {
        (ClassifyStart::Link, _) => at < ethernet::LENGTH,
        // A super-packet has one mark.
        (ClassifyStart::Meta, _) => true,
        // The ports.
        (ClassifyStart::Transport, _) => at < 4,
        (ClassifyStart::Network, Some(IpFamily::V6)) => matches!(at, 0..4 | 6..44),
        (ClassifyStart::Network, Some(IpFamily::V4) | None) => matches!(at, 0..2 | 6..10 | 12..24),
    };
    mask.iter().enumerate().any(|(at, &octet)| octet != 0 && !is_shared(first + at))
}
