//! The addresses of rules that translate: whether the interfaces that name a list have them, and whether packets to them come
//! to the gateway.

use std::net::IpAddr;
use std::ops::Range;

use ipnet::IpNet;
use weir_plane::model::{Addresses, IpFamily, NatRule, NatTarget, NatVerb, Transport, VrfIndex};

use super::super::super::declare::Interface;
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::{At, Span};
use super::super::super::value::{edge, not_a_host};
use super::super::Resolver;
use super::super::known::Link;
use crate::rules::acl::has;

/// Both families, in the order of messages.
const FAMILIES: [IpFamily; 2] = [IpFamily::V4, IpFamily::V6];

/// A word of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// The source that it matches.
    From,
    /// The destination that it matches.
    To,
    /// The target of sources.
    Source,
    /// The target of destinations.
    Destination,
}

/// Finds a word in the text of a rule, in octets.
fn place_of(text: &str, verb: NatVerb, word: Word) -> Option<Range<usize>> {
    let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    let words = text.split([' ', '\t']).filter(|word| !word.is_empty());
    let marks: &[&str] = match (word, verb) {
        (Word::From, _) => &["from"],
        (Word::To, _) => &["to"],
        (Word::Source, NatVerb::Both) => &["as", "source"],
        (Word::Destination, NatVerb::Both) => &["as", "destination"],
        _ => &["as"],
    };
    let mut words = words;
    for mark in marks {
        words.find(|word| word == mark)?;
    }
    let word = words.next()?.trim_end_matches(['"', '\'']);
    Some(start(word)..start(word) + word.len())
}

impl Resolver<'_> {
    /// The place of a word of a rule; that of the whole rule, if the word is not found.
    pub(super) fn word_of(&self, rule: &NatRule, word: Word, span: Span) -> Span {
        let (text, start) = self.rule_text(span);
        let Some(range) = place_of(&text, rule.verb, word) else { return span };
        Span { start: start + range.start as u32, end: start + range.end as u32, ..span }
    }

    /// Holds a rule against the interfaces that name its list.
    pub(super) fn targets(&mut self, list: usize, rule: &NatRule, span: Span) {
        for (target, word) in [(&rule.source, Word::Source), (&rule.destination, Word::Destination)] {
            if let Some(target) = target {
                self.hosts(target, self.word_of(rule, word, span));
            }
        }
        let declared = self.declared;
        let name = &declared.access.nat[list].name.value;
        for (at, interface) in declared.interfaces.iter().enumerate() {
            if interface.nat.as_ref().is_none_or(|named| named.value != *name) || interface.lost_addresses {
                continue;
            }
            let Some(vrf) = self.vrf_of[at] else { continue };
            self.of_interface((interface, vrf), rule, span);
            self.not_ourselves(vrf, rule, span);
            self.answered(vrf, rule, span);
        }
    }

    /// Refuses targets that no host can have, wherever it is.
    fn hosts(&mut self, target: &NatTarget, span: Span) {
        let ends = target.addresses.iter().flat_map(ranges).flat_map(|(first, last)| [first, last]);
        let Some((address, why)) = ends.into_iter().find_map(|end| Some((end, not_a_host(end)?))) else { return };
        let message = format!("{address} {why}: no packet can have it");
        self.report(Diagnostic::error(Code::NotAHostAddress, span, message));
    }

    /// Refuses `interface` where the interface has no address of a family that the rule is about.
    fn of_interface(&mut self, (interface, vrf): (&Interface, VrfIndex), rule: &NatRule, span: Span) {
        let targets = || [&rule.source, &rule.destination].into_iter().flatten();
        if !rule.to_interface && targets().all(|target| target.addresses.is_some()) {
            return;
        }
        let about = |family: &IpFamily| {
            let mut named = [&rule.matches.from, &rule.matches.to].into_iter().chain(targets().filter_map(addresses));
            rule.matches.family.is_none_or(|own| own == *family) && named.all(|addresses| has(addresses, *family))
        };
        let families: Vec<IpFamily> = FAMILIES.into_iter().filter(about).collect();
        let is_there = |family: &IpFamily| {
            let mut own = interface.addresses.iter().map(|own| own.value.addr());
            own.any(|own| own.is_ipv4() == (*family == IpFamily::V4) && is_outside(own))
        };
        if families.iter().any(is_there) {
            if let Some(&missing) = families.iter().find(|family| !is_there(family)) {
                self.one_family((interface, vrf), rule, span, missing);
            }
            return;
        }
        let family = match families[..] {
            [IpFamily::V4] => "IPv4 address",
            [IpFamily::V6] if !interface.addresses.iter().all(|own| is_outside(own.value.addr())) => {
                "IPv6 address beside its link-local one"
            }
            [IpFamily::V6] => "IPv6 address",
            _ => "address",
        };
        let message = format!("the interface `{}` has no {family} for `interface`", interface.name.value);
        let is_missing = |target: &Option<NatTarget>| target.as_ref().is_some_and(|target| target.addresses.is_none());
        let word = match rule {
            _ if is_missing(&rule.source) => Word::Source,
            _ if is_missing(&rule.destination) => Word::Destination,
            _ => Word::To,
        };
        let found = Diagnostic::error(Code::InvalidRule, self.word_of(rule, word, span), message);
        let found = found.related(interface.name.span, "the interface");
        self.report(found.help("give it one, or name addresses in the rule"));
    }

    /// Warns of sources of a family that the interface has no address of, if the routing domain has some elsewhere.
    fn one_family(&mut self, (interface, vrf): (&Interface, VrfIndex), rule: &NatRule, span: Span, missing: IpFamily) {
        let is_missing = |own: &At<IpNet>| own.value.addr().is_ipv4() == (missing == IpFamily::V4);
        let declared = self.declared;
        let others = declared.interfaces.iter().zip(&self.vrf_of).filter(|(_, of)| **of == Some(vrf));
        let mut has_such = others.flat_map(|(other, _)| &other.addresses);
        if rule.verb != NatVerb::Source || !has_such.any(is_missing) {
            return;
        }
        let (family, word) = if missing == IpFamily::V4 { ("IPv4", "ip6") } else { ("IPv6", "ip4") };
        let name = &interface.name.value;
        let message = format!("the interface `{name}` has no {family} address: {family} packets leave untranslated");
        let place = self.word_of(rule, Word::Source, span);
        let found =
            Diagnostic::warning(Code::NatOneFamily, place, message).related(interface.name.span, "the interface");
        let help = match rule.matches.transport {
            Transport::Any => format!("write `{word}` instead of `ip`, or give the interface such an address"),
            _ => "give the interface such an address, or name addresses of one family in the rule".to_owned(),
        };
        self.report(found.help(help));
    }

    /// Refuses an inside address that is the gateway itself, or that no host of its link can have.
    fn not_ourselves(&mut self, vrf: VrfIndex, rule: &NatRule, span: Span) {
        let Some((inside, word)) = inside(rule) else { return };
        if let Some(own) = self.connected.own(vrf, inside) {
            let place = self.word_of(rule, word, span);
            let found = Diagnostic::error(Code::InvalidRule, place, ourselves(inside)).related(own.span, "here");
            self.report(found.help("name the address of a host"));
        } else if let Some(link) = self.connected.holding(vrf, inside)
            && let Some(why) = edge(link.prefix, inside)
        {
            let message = format!("{inside} {why}: no host has it");
            let place = self.word_of(rule, word, span);
            let found = Diagnostic::error(Code::NotAHostAddress, place, message).related(link.span, "the link");
            self.report(found.help("name the address of a host"));
        }
    }

    /// Warns of an outside address on a link where nobody answers for it: no packets to it come.
    fn answered(&mut self, vrf: VrfIndex, rule: &NatRule, span: Span) {
        let matched = || match rule.verb {
            NatVerb::Destination | NatVerb::Both => ranges(&rule.matches.to),
            _ => Vec::new(),
        };
        // All destinations, or those of a network, lie outside: other gateways answer for them.
        let to = matched().into_iter().filter(|&(first, last)| first == last || self.is_part_of_link(vrf, first, last));
        let sources = || rule.source.iter().filter_map(addresses).flat_map(ranges);
        let outside: Vec<_> = to.map(|of| (Word::To, of)).chain(sources().map(|of| (Word::Source, of))).collect();
        for (word, range) in outside {
            let Some((address, link)) = self.unanswered(vrf, range) else { continue };
            let on = &self.declared(link.interface).name.value;
            let message =
                format!("{address} is on the link of `{on}`, where nobody answers for it: no packets to it come");
            let place = self.word_of(rule, word, span);
            let found = Diagnostic::warning(Code::NatAddressUnanswered, place, message).related(link.span, "the link");
            self.report(found.help("add it to the addresses of the interface, or use one that is routed here"));
            return;
        }
    }

    /// A range is a part of a link, and not the whole link.
    fn is_part_of_link(&self, vrf: VrfIndex, first: IpAddr, last: IpAddr) -> bool {
        self.connected.holding(vrf, first).is_some_and(|link| {
            let (start, end) = (link.prefix.network(), link.prefix.broadcast());
            last <= end && (first > start || last < end)
        })
    }

    /// The first address of a range that is on a link and not the gateway's.
    fn unanswered(&self, vrf: VrfIndex, (first, last): (IpAddr, IpAddr)) -> Option<(IpAddr, Link)> {
        let links = self.connected.prefixes.iter().filter(|((of, net), _)| {
            *of == vrf && net.addr().is_ipv4() == first.is_ipv4() && net.network() <= last && net.broadcast() >= first
        });
        let mut links: Vec<Link> = links.map(|(_, link)| *link).filter(|link| !is_host(link)).collect();
        links.sort_by_key(|link| link.prefix);
        links.into_iter().find_map(|link| {
            let (mut address, end) = (first.max(link.prefix.network()), last.min(link.prefix.broadcast()));
            // Each address but the last that is looked at is one of the gateway's, which are few.
            while self.connected.own(vrf, address).is_some() {
                if address == end {
                    return None;
                }
                address = next(address)?;
            }
            Some((address, link))
        })
    }
}

/// The inside address of a rule about one host and its word, if the rule is about one.
pub(super) fn inside(rule: &NatRule) -> Option<(IpAddr, Word)> {
    let (mut inside, word) = match rule.verb {
        NatVerb::Map => (ranges(&rule.matches.from), Word::From),
        _ => (rule.destination.iter().filter_map(addresses).flat_map(ranges).collect(), Word::Destination),
    };
    inside.pop().filter(|(first, last)| first == last && inside.is_empty()).map(|(first, _)| (first, word))
}

/// Says that an inside address is the gateway's.
pub(super) fn ourselves(address: IpAddr) -> String {
    format!("{address} is an address of the gateway itself, whose answers are not translated")
}

/// An address may stand outside: nobody answers to a link-local one from behind a router.
pub(super) fn is_outside(address: IpAddr) -> bool {
    !matches!(address, IpAddr::V6(own) if own.is_unicast_link_local())
}

/// The connected prefix has one address: the interface's own.
fn is_host(link: &Link) -> bool {
    link.prefix.prefix_len() == link.prefix.max_prefix_len()
}

/// The address behind this one.
fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => v4.to_bits().checked_add(1).map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(v6) => v6.to_bits().checked_add(1).map(|bits| IpAddr::V6(bits.into())),
    }
}

/// The addresses of a target, unless they are the interface's.
pub(super) fn addresses(target: &NatTarget) -> Option<&Addresses> {
    target.addresses.as_ref()
}

/// Addresses as ranges; nothing for all of them.
pub(in super::super) fn ranges(addresses: &Addresses) -> Vec<(IpAddr, IpAddr)> {
    match addresses {
        Addresses::Any => Vec::new(),
        Addresses::Net(net) => vec![(net.network(), net.broadcast())],
        Addresses::Range(first, last) => vec![(*first, *last)],
        Addresses::Group(group) => group.members.iter().flat_map(ranges).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_what_is_before_them() {
        let both = "both tcp from any to interface port 80 as source interface destination 10.0.0.9 comment \"as to\"";
        let found = |text: &'static str, verb, word| place_of(text, verb, word).map(|range| &text[range]);
        assert_eq!(found(both, NatVerb::Both, Word::To), Some("interface"));
        assert_eq!(place_of(both, NatVerb::Both, Word::Source).map(|range| range.start), Some(49));
        assert_eq!(found(both, NatVerb::Both, Word::Destination), Some("10.0.0.9"));
        assert_eq!(found("map ip4 from 10.0.0.1 to any as 192.0.2.1", NatVerb::Map, Word::Source), Some("192.0.2.1"));
        assert_eq!(found("keep ip from any", NatVerb::Keep, Word::To), None);
    }
}
