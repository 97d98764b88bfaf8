//! NAT rules as packets from outside meet them: those of all interfaces of a VRF in one order. Which of them never match, and which
//! maps have one outside address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use weir_plane::compile::nat_inwards;
use weir_plane::model::{AclRule, Address, Interface, NatIndex, NatList, NatRule, NatVerb, VrfIndex};

use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::Span;
use super::super::Resolver;
use super::nat_addresses::{Word, ranges};
use super::needless::shadowed;

/// A rule: its list and its place there.
pub(crate) type At = (usize, usize);

/// A rule at one of the interfaces that name its list.
pub(super) struct Inwards {
    pub(super) at: At,
    pub(super) verb: NatVerb,
    /// The packets that come in and that it is about.
    pub(super) matches: AclRule,
}

/// Returns the rules about packets that come in, of each VRF in the order of its interfaces and their lists. A list that no
/// interface names stands by itself.
pub(super) fn inwards(nat: &[NatList], interfaces: &[Interface]) -> Vec<Vec<Inwards>> {
    let of_list = |list: usize, addresses: &[Address]| -> Vec<Inwards> {
        let rules = nat.get(list).map_or(&[][..], |own| &own.rules).iter().enumerate();
        let of = |(place, rule): (usize, &NatRule)| {
            Some(Inwards { at: (list, place), verb: rule.verb, matches: nat_inwards(rule, addresses)? })
        };
        rules.filter_map(of).collect()
    };
    let mut chains: BTreeMap<VrfIndex, Vec<Inwards>> = BTreeMap::new();
    for (own, list) in interfaces.iter().filter_map(|own| Some((own, own.nat?))) {
        chains.entry(own.vrf).or_default().extend(of_list(usize::from(list.0), &own.addresses));
    }
    let is_named = |list: usize| interfaces.iter().any(|own| own.nat == Some(NatIndex(list as u16)));
    let alone = (0..nat.len()).filter(|&list| !is_named(list)).map(|list| of_list(list, &[]));
    chains.into_values().chain(alone).collect()
}

/// A range of outside addresses, and the place of its map in the chain.
type Outside = (IpAddr, IpAddr, usize);

/// An outside address that two rules map to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Twice {
    pub(crate) address: IpAddr,
    pub(crate) before: At,
    pub(crate) later: At,
}

/// Says that a map has an outside address of another map.
pub(crate) fn another_map(address: IpAddr) -> String {
    format!("another map has the outside address {address}, too: packets to it are for one of them")
}

/// Finds maps of a VRF that give two inside addresses one outside address, for packets of the same protocol, ports and peers.
pub(crate) fn mapped_twice(nat: &[NatList], interfaces: &[Interface]) -> Vec<Twice> {
    twice(&inwards(nat, interfaces))
}

fn twice(chains: &[Vec<Inwards>]) -> Vec<Twice> {
    let mut twice: Vec<Twice> = Vec::new();
    for chain in chains {
        // Ranges of outside addresses by what else the maps are about, and by family.
        let mut alike: HashMap<_, Vec<Outside>> = HashMap::new();
        for (place, own) in chain.iter().enumerate().filter(|(_, own)| own.verb == NatVerb::Map) {
            for (first, last) in ranges(&own.matches.to) {
                let key = (&own.matches.from, &own.matches.transport, first.is_ipv4());
                alike.entry(key).or_default().push((first, last, place));
            }
        }
        for mut ranges in alike.into_values() {
            ranges.sort_unstable();
            let mut reach: Option<(IpAddr, usize)> = None;
            for (address, last, place) in ranges {
                if let Some((end, other)) = reach
                    && address <= end
                    && chain[other].at != chain[place].at
                {
                    let (before, later) = (chain[place.min(other)].at, chain[place.max(other)].at);
                    twice.push(Twice { address, before, later });
                }
                if reach.is_none_or(|(end, _)| last > end) {
                    reach = Some((last, place));
                }
            }
        }
    }
    twice.sort_unstable_by_key(|own| (own.later, own.before, own.address));
    twice.dedup_by_key(|own| own.later);
    twice
}

impl Resolver<'_> {
    /// Holds the rules of all interfaces of a VRF against each other.
    pub(in super::super) fn nat_inwards(&mut self, nat: &[NatList], interfaces: &[Interface]) {
        let chains = inwards(nat, interfaces);
        for Twice { address, before, later } in twice(&chains) {
            let (Some(first), Some(place)) = (self.nat_place(before), self.nat_place(later)) else { continue };
            let word = self.word_of(&nat[later.0].rules[later.1], Word::Source, place);
            let found = Diagnostic::error(Code::InvalidRule, word, another_map(address));
            self.report(found.related(first, "the other map").help("map to different addresses"));
        }
        if !self.thorough {
            return;
        }
        self.never_inwards(&chains);
        self.overlapping(&chains, nat);
    }

    /// Where a rule stands.
    pub(super) fn nat_place(&self, (list, rule): At) -> Option<Span> {
        self.access.nat_places.get(list)?.get(rule).copied()
    }

    /// Warns of rules about destinations that match no packet at any interface, as earlier rules match all of them.
    fn never_inwards(&mut self, chains: &[Vec<Inwards>]) {
        let is_about = |own: &&Inwards| matches!(own.verb, NatVerb::Destination | NatVerb::Both);
        let mut matching: BTreeSet<At> = BTreeSet::new();
        let mut silent: BTreeMap<At, BTreeSet<At>> = BTreeMap::new();
        for chain in chains {
            let found = shadowed(&chain.iter().map(|own| &own.matches).collect::<Vec<_>>()).findings;
            let never: BTreeSet<usize> = found.iter().map(|finding| finding.rule).collect();
            let others = chain.iter().enumerate().filter(|(place, _)| !never.contains(place));
            matching.extend(others.map(|(_, own)| own.at));
            for finding in found.iter().filter(|finding| is_about(&&chain[finding.rule])) {
                let by = finding.by.iter().map(|&by| chain[by].at);
                silent.entry(chain[finding.rule].at).or_default().extend(by);
            }
        }
        for (at, by) in silent.into_iter().filter(|(at, _)| !matching.contains(at)) {
            let Some(place) = self.nat_place(at) else { continue };
            let message = "the rule never matches: earlier rules match its packets";
            let found = Diagnostic::warning(Code::ShadowedRule, place, message);
            let others = by.iter().filter_map(|&own| self.nat_place(own)).take(3).collect::<Vec<_>>();
            let found = others.into_iter().fold(found, |found, place| found.related(place, "matches first"));
            let help = match by.iter().any(|own| own.0 != at.0) {
                true => "leave it out, or move it before them: the lists of a VRF apply in the order of its interfaces",
                false => "move it before them, or leave it out",
            };
            self.report(found.help(help));
        }
    }
}

#[cfg(test)]
mod tests {
    /// Returns the outside addresses that maps of the lists of `wan` and `wan2` have twice.
    fn twice(a: &[&str], b: &[&str]) -> Vec<String> {
        let list = |rules: &[&str]| {
            let rules: String = rules.iter().map(|own| format!("  \"map {own}\",\n")).collect();
            format!("rules = [\n{rules}]\n")
        };
        let (a, b) = (list(a), list(b));
        let text = format!(
            r#"
version = 1
[[interface]]
name = "lan"
port = "null"
address = "10.0.0.1/24"
[[interface]]
name = "wan"
port = "null"
address = ["198.51.100.1/24", "2001:db8::1/64"]
nat = "a"
[[interface]]
name = "wan2"
port = "null"
address = "203.0.113.1/24"
nat = "b"
[nat.a]
{a}
[nat.b]
{b}
"#
        );
        let findings = crate::config::parse_str("test.toml", &text).text(false);
        let found = findings.lines().filter_map(|line| line.strip_prefix("error[invalid-rule]: another map has the "));
        let found: Vec<String> =
            found.map(|line| line.split([' ', ',']).nth(2).unwrap_or_default().to_owned()).collect();
        assert_eq!(findings.matches("error[").count(), found.len(), "{findings}");
        found
    }

    #[test]
    fn maps_to_one_address_are_found_behind_a_map_of_another_kind_that_reaches_further() {
        // The second is about another protocol, and reaches beyond the others.
        let between = [
            "tcp from 10.0.0.80 to any as 198.51.100.80",
            "udp from 10.0.0.80/28 to any as 198.51.100.80/28",
            "tcp from 10.0.0.81 to any as 198.51.100.80",
        ];
        assert_eq!(twice(&between, &[]), ["198.51.100.80"]);
        let interface = ["ip4 from 10.0.0.80 to any as interface", "ip4 from 10.0.0.81 to any as 198.51.100.1"];
        assert_eq!(twice(&interface, &[]), ["198.51.100.1"]);
        let map = "ip4 from 10.0.0.80 to any as 198.51.100.80";
        assert_eq!(twice(&[map], &[&map.replace("0.80 to", "0.81 to")]), ["198.51.100.80"]);
        // Each list has the address of its own interface.
        let own = ["ip4 from 10.0.0.80 to any as interface"];
        assert!(twice(&own, &own).is_empty());
        let protocols = ["tcp from 10.0.0.80 to any as interface", "udp from 10.0.0.81 to any as interface"];
        assert!(twice(&protocols, &["ip6 from 2001:db8:1::/64 to any as 2001:db8:2::/64"]).is_empty());
    }
}
