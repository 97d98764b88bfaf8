//! The reference implementation: checks all packets that rules could distinguish.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::super::{Address, Fields, Fragment, Rule, Upper};
use super::{Kind, Listed};

/// Finds the removable rules of a list. Only for lists with few different values: checks each combination of them.
pub fn analyse<K: Address>(list: &[Listed<'_, K>], unmatched: u32) -> BTreeMap<usize, Kind> {
    let cells = cells(list);
    let mut found = BTreeMap::new();
    for rule in 0..list.len() {
        if !cells.iter().any(|rules| rules.first() == Some(&rule)) {
            found.insert(rule, Kind::Never);
        }
    }
    for rule in (0..list.len()).rev().filter(|rule| !found.contains_key(rule)).collect::<Vec<_>>() {
        let named = |other: &usize| found.contains_key(other) || *other == rule;
        if holds(list, unmatched, &cells, named) {
            found.insert(rule, Kind::Redundant);
        }
    }
    found
}

/// Returns whether any set of named rules can be removed: for each packet, the named rules that match before the first
/// staying rule have its verdict.
pub fn holds<K>(
    list: &[Listed<'_, K>],
    unmatched: u32,
    cells: &HashSet<Vec<usize>>,
    named: impl Fn(&usize) -> bool,
) -> bool {
    cells.iter().all(|rules| {
        let named_before = rules.iter().take_while(|rule| named(rule));
        let staying = rules.iter().find(|rule| !named(rule));
        let verdict = staying.map_or(unmatched, |rule| list[*rule].verdict);
        named_before.into_iter().all(|rule| list[*rule].verdict == verdict)
    })
}

/// Returns the matching rules, in order, of all packets that occur. Packets with the same matches count once.
pub fn cells<K: Address>(list: &[Listed<'_, K>]) -> HashSet<Vec<usize>> {
    let boxes: Vec<&Rule<K>> = list.iter().flat_map(|listed| listed.boxes).collect();
    let mut cells = HashSet::new();
    for packet in packets(&boxes) {
        let matching =
            list.iter().enumerate().filter(|(_, listed)| listed.boxes.iter().any(|rule| rule.matches(&packet)));
        cells.insert(matching.map(|(rule, _)| rule).collect());
    }
    cells
}

/// Returns the start of ranges and the values behind their ends.
fn ends<T: Ord>(lowest: T, of: impl Iterator<Item = (T, Option<T>)>) -> BTreeSet<T> {
    std::iter::once(lowest).chain(of.flat_map(|(low, after)| std::iter::once(low).chain(after))).collect()
}

fn with_another<T: Ord>(mut named: BTreeSet<T>, mut all: impl Iterator<Item = T>) -> BTreeSet<T> {
    named.extend(all.find(|value| !named.contains(value)));
    named
}

/// Returns at least one packet for each set of matching rules.
fn packets<K: Address>(rules: &[&Rule<K>]) -> Vec<Fields<K>> {
    let addresses = |side: usize| {
        ends(K::ZERO, rules.iter().map(|rule| (K::addresses(rule)[side].low(), K::addresses(rule)[side].high().next())))
    };
    let ports = |second: bool| {
        let spans = rules.iter().filter_map(|rule| match rule.upper {
            Upper::Ports { source, destination } => Some(if second { destination } else { source }),
            _ => None,
        });
        ends(0, spans.map(|span| (span.low(), span.high().checked_add(1))))
    };
    let octets = |second: bool| {
        let spans = rules.iter().filter_map(|rule| match rule.upper {
            Upper::Icmp { kind, code } => Some(if second { code } else { kind }),
            _ => None,
        });
        ends(0, spans.map(|span| (span.low(), span.high().checked_add(1))))
    };
    let bits = rules.iter().fold(0, |bits, rule| bits | rule.flags.mask());
    let flags = (0..=u16::MAX).filter(|flags| flags & !bits == 0);
    // The protocols of rules, and another one.
    let protocols = BTreeSet::from_iter(rules.iter().filter_map(|rule| rule.protocol).chain([1, 6, 58]));
    let dscps = BTreeSet::from_iter(rules.iter().filter_map(|rule| rule.dscp));
    let marks = with_another(BTreeSet::from_iter(rules.iter().filter_map(|rule| rule.mark)), 0..=u32::MAX);
    let interfaces = rules.iter().filter_map(|rule| rule.interfaces.as_ref()).flat_map(|set| set.iter());
    let interfaces = BTreeSet::from_iter(interfaces);
    let protocols = with_another(protocols, 0..=u8::MAX);
    let (dscps, interfaces) = (with_another(dscps, 0..=63), with_another(interfaces, 0..=u32::MAX));

    let mut uppers: Vec<Fields<K>> = Vec::new();
    for protocol in protocols {
        let bare = Fields::new(K::ZERO, K::ZERO, protocol);
        uppers.push(bare);
        let icmp = matches!(protocol, 1 | 58);
        for first in if icmp { octets(false) } else { BTreeSet::new() } {
            uppers.extend(octets(true).into_iter().map(|second| bare.with_icmp(first, second)));
        }
        for first in if icmp { BTreeSet::new() } else { ports(false) } {
            for second in ports(true) {
                let packet = bare.with_ports(first, second);
                uppers.push(packet);
                let flags = flags.clone().filter(|_| protocol == 6);
                uppers.extend(flags.map(|flags| packet.with_flags(flags)));
            }
        }
    }
    let mut packets = Vec::new();
    for upper in uppers {
        for source in addresses(0) {
            for destination in addresses(1) {
                for fragment in [Fragment::Whole, Fragment::First, Fragment::Later] {
                    for dscp in &dscps {
                        for interface in &interfaces {
                            let packet = Fields { source, destination, ..upper };
                            let packet = packet.with_fragment(fragment).with_dscp(*dscp).with_interface(*interface);
                            packets.extend(marks.iter().map(|mark| packet.with_mark(Some(*mark))));
                        }
                    }
                }
            }
        }
    }
    packets
}
