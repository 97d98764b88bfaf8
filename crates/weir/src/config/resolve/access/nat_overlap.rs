//! Forwards that overlap: some packets match two rules, and neither rule is an exception from the other.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weir_plane::model::{Addresses, NatList, NatRule, NatVerb, Ports, Transport};

use super::super::super::diagnostic::{Code, Diagnostic, SHOWN};
use super::super::Resolver;
use super::nat_addresses::{Word, ranges};
use super::nat_inwards::{At, Inwards};

/// The first forwards of a VRF that are compared with each other.
const MOST: usize = 1000;

/// Inclusive ranges; `None`: everything.
type Ranges<T> = Option<Vec<(T, T)>>;

/// The packets that a forward matches.
struct Forward {
    at: At,
    protocol: Option<u8>,
    from: Ranges<IpAddr>,
    to: Ranges<IpAddr>,
    ports: [Ranges<u16>; 2],
}

fn addresses(of: &Addresses) -> Ranges<IpAddr> {
    (*of != Addresses::Any).then(|| ranges(of))
}

fn ports(of: &Ports) -> Ranges<u16> {
    match of {
        Ports::Any => None,
        Ports::Range(range) => Some(vec![(*range.start(), *range.end())]),
        Ports::Group(group) => Some(group.members.iter().map(|range| (*range.start(), *range.end())).collect()),
    }
}

fn meet<T: Ord>(one: &Ranges<T>, other: &Ranges<T>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return true };
    one.iter().any(|own| other.iter().any(|of| own.0 <= of.1 && of.0 <= own.1))
}

/// Whether each range lies in one of the others.
fn lie_in<T: Ord>(one: &Ranges<T>, other: &Ranges<T>) -> bool {
    let Some(other) = other else { return true };
    let Some(one) = one else { return false };
    one.iter().all(|own| other.iter().any(|of| of.0 <= own.0 && own.1 <= of.1))
}

impl Forward {
    fn new(rule: &Inwards) -> Option<Forward> {
        // A forward beside a map is an exception from it: the map is about all that its address gets.
        if !matches!(rule.verb, NatVerb::Destination | NatVerb::Both) {
            return None;
        }
        let (protocol, ports) = match &rule.matches.transport {
            Transport::Any => (None, [None, None]),
            Transport::Protocol(protocol) => (Some(*protocol), [None, None]),
            Transport::Ports { protocol, source, destination, .. } => {
                (Some(*protocol), [ports(source), ports(destination)])
            }
            Transport::Icmp { .. } => return None,
        };
        let (from, to) = (addresses(&rule.matches.from), addresses(&rule.matches.to));
        Some(Forward { at: rule.at, protocol, from, to, ports })
    }

    fn meets(&self, other: &Forward) -> bool {
        let is_same = |(one, other): (Option<u8>, Option<u8>)| one.is_none() || other.is_none() || one == other;
        is_same((self.protocol, other.protocol))
            && self.ports.iter().zip(&other.ports).all(|(one, other)| meet(one, other))
            && meet(&self.to, &other.to)
            && meet(&self.from, &other.from)
    }

    fn lies_in(&self, other: &Forward) -> bool {
        (other.protocol.is_none() || self.protocol == other.protocol)
            && self.ports.iter().zip(&other.ports).all(|(one, other)| lie_in(one, other))
            && lie_in(&self.to, &other.to)
            && lie_in(&self.from, &other.from)
    }
}

impl Resolver<'_> {
    /// Warns of forwards to other hosts than an earlier one gives to some of their packets, unless one of the two matches all packets
    /// of the other: then the earlier one is an exception, or the later one never matches.
    pub(super) fn overlapping(&mut self, chains: &[Vec<Inwards>], nat: &[NatList]) {
        let rule = |(list, place): At| &nat[list].rules[place];
        let mut shown = BTreeSet::new();
        for chain in chains {
            let all: Vec<Forward> = chain.iter().filter_map(Forward::new).take(MOST).collect();
            for (at, later) in all.iter().enumerate() {
                let is_ambiguous = |earlier: &&Forward| {
                    let (one, other) = (rule(earlier.at), rule(later.at));
                    let family = |own: &NatRule| own.matches.family;
                    earlier.at != later.at
                        && one.destination != other.destination
                        && family(one).is_none_or(|own| family(other).is_none_or(|other| own == other))
                        && later.meets(earlier)
                        && !earlier.lies_in(later)
                        && !later.lies_in(earlier)
                };
                let Some(earlier) = all[..at].iter().find(is_ambiguous) else { continue };
                let (Some(first), Some(place)) = (self.nat_place(earlier.at), self.nat_place(later.at)) else {
                    continue;
                };
                if !shown.insert(later.at) {
                    continue;
                }
                let message = "the rule overlaps an earlier one, which decides about the packets of both";
                let place = self.word_of(rule(later.at), Word::To, place);
                let found = Diagnostic::warning(Code::NatOverlap, place, message);
                let found = found.related(first, "matches first");
                self.report(found.help("give the rules ports or addresses that do not overlap"));
                if shown.len() == SHOWN {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_meet_and_lie_in_each_other() {
        let of = |ranges: &[(u16, u16)]| Some(ranges.to_vec());
        assert!(meet(&of(&[(1, 5)]), &of(&[(9, 9), (5, 7)])) && !meet(&of(&[(1, 4)]), &of(&[(5, 7)])));
        assert!(meet::<u16>(&None, &of(&[(3, 3)])) && meet::<u16>(&None, &None));
        assert!(lie_in(&of(&[(2, 3), (7, 7)]), &of(&[(1, 4), (6, 9)])) && !lie_in(&of(&[(2, 5)]), &of(&[(1, 4)])));
        assert!(lie_in(&of(&[(2, 5)]), &None) && !lie_in(&None, &of(&[(0, 65_535)])));
    }
}
