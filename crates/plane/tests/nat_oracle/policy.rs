//! Rules by first match, one after the other: the decision about a packet of no translation (docs/nat.md).

use std::ops::RangeInclusive;

use weir_plane::model::{NatFiltering, NatMapping, NatVerb};

use crate::mapping::{Endpoint, Mapping};
use crate::mutant::Mutant;
use crate::packet::{ICMP, SCTP, Tuple, has_ports};
use crate::rules::{List, Rule, Target};
use crate::translator::Translator;

/// A rule, its outside interface, and the destination that it gives: address, and port or identifier.
type ByRule<'a> = (&'a Rule, usize, (u32, u16));

/// The decision about a packet of no translation.
pub struct Decision<'a> {
    /// A rule or a mapping gives the destination.
    pub hit: bool,
    /// The mapping among these.
    pub mapping: Option<Mapping>,
    /// The outside interface whose list begins its translation.
    pub begins: Option<usize>,
    /// The rule about its source, and the outside interface whose list has it.
    pub rule: Option<(&'a Rule, usize)>,
    /// The destination.
    pub to: (u32, u16),
    /// The interface that the packet leaves by.
    pub out: Option<usize>,
}

/// The rule or the mapping that gives a destination.
enum Given<'a> {
    Rule(&'a Rule),
    Mapping(Mapping),
}

impl Translator {
    pub fn is_outside(&self, interface: usize) -> bool {
        self.lists.iter().any(|list| list.edge == interface)
    }

    fn list(&self, edge: usize) -> Option<&List> {
        self.lists.iter().find(|list| list.edge == edge)
    }

    /// Whether inside endpoints keep their outside endpoints by a rule.
    pub fn maps(&self, rule: &Rule, edge: usize, fields: &Tuple) -> bool {
        let mapping = self.list(edge).map_or(NatMapping::EndpointDependent, |list| list.mapping);
        let maps = !self.layout.tenants && mapping != NatMapping::EndpointDependent;
        maps && rule.verb == NatVerb::Source && draws(rule, fields)
    }

    /// Whether the packets of all workers come to one of them.
    pub fn is_whole(&self) -> bool {
        self.lists.iter().any(|list| list.mapping != NatMapping::EndpointDependent)
    }

    /// The rule about the destination of a packet, and its outside interface; `Err`: a `keep` rule matches first.
    fn destination(&self, fields: &Tuple) -> Result<Option<ByRule<'_>>, ()> {
        for List { edge, rules, .. } in &self.lists {
            for rule in rules {
                match rule.verb {
                    NatVerb::Keep if rule.matches(*edge, fields) => return Err(()),
                    NatVerb::Destination | NatVerb::Both if rule.matches(*edge, fields) => {
                        return Ok(Some((rule, *edge, rule.given(fields))));
                    }
                    NatVerb::Map => {
                        let (inside, outside) = rule.map();
                        if outside.has(fields.destination) {
                            let back = inside.first + (fields.destination - outside.first);
                            let turned = Tuple { destination: back, ..*fields }.turned();
                            // The rule says which packets from inside it translates: those to the sender.
                            let wanted = Tuple {
                                dport: if fields.protocol == ICMP { fields.dport } else { turned.dport },
                                ..turned
                            };
                            if rule.matches(*edge, &wanted) {
                                return Ok(Some((rule, *edge, (back, fields.dport))));
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(None)
    }

    /// The mapping that a packet reaches from an interface, if rules translate the answer.
    fn reached(&self, entry: usize, fields: &Tuple, seen: Option<u32>) -> Option<Mapping> {
        if self.is(Mutant::HairpinsNothing) && !self.is_outside(entry) || !has_ports(fields.protocol) {
            return None;
        }
        let outside = Endpoint::destination(fields);
        let (mapping, is_sure) = self.mappings.at(&outside)?;
        // A mapping that ends, or began in this vector: what left says whether the gateway had it.
        let still = is_sure && !self.mappings.begun.contains(&outside) || seen == Some(mapping.inside.address);
        let target = if still { self.lets_in(mapping, entry, fields) } else { None };
        (target.as_ref() == Some(&mapping.target)).then(|| mapping.clone())
    }

    /// Whether a packet is for a mapping that ends, or began in this vector.
    pub fn may_reach(&self, fields: &Tuple) -> bool {
        let outside = Endpoint::destination(fields);
        let known = self.mappings.at(&outside).filter(|_| has_ports(fields.protocol));
        known.is_some_and(|(_, is_sure)| !is_sure || self.mappings.begun.contains(&outside))
    }

    /// The target of the rule that translates the answer to a packet for a mapping, if the mapping's list lets the packet in.
    pub fn lets_in(&self, mapping: &Mapping, entry: usize, fields: &Tuple) -> Option<Target> {
        let list = self.list(mapping.edge)?;
        let is_open = list.mapping == NatMapping::EndpointIndependent(NatFiltering::EndpointIndependent)
            || self.is(Mutant::FiltersNothing);
        let is_hairpin = !self.is_outside(entry);
        if !is_hairpin && !is_open {
            return None;
        }
        // In a hairpin the answer goes to the outside endpoint, unless no rule translates the source.
        let is_translated = is_hairpin && self.source(mapping.edge, fields).is_some();
        let to = if is_translated { (fields.destination, fields.dport) } else { (fields.source, fields.sport) };
        let Endpoint { protocol, address: source, port: sport, .. } = mapping.inside;
        let answer = Tuple { protocol, source, sport, destination: to.0, dport: to.1 };
        let rule = self.source(mapping.edge, &answer);
        let (rule, edge) = rule.filter(|(rule, edge)| self.maps(rule, *edge, &answer))?;
        // Outside endpoints that a rule does not give after a change of rules.
        let has_port = ports(rule, &answer).contains(&mapping.outside.port);
        let fits = has_port && self.addresses(rule, edge, source).contains(&mapping.outside.address);
        rule.source.clone().filter(|_| fits)
    }

    /// The rule about the source of a packet that leaves by an interface.
    pub fn source(&self, edge: usize, fields: &Tuple) -> Option<(&Rule, usize)> {
        let rules = &self.list(edge)?.rules;
        let is_about = |rule: &&Rule| {
            matches!(rule.verb, NatVerb::Keep | NatVerb::Source | NatVerb::Map) && rule.matches(edge, fields)
        };
        let mut matching = rules.iter().filter(is_about);
        let rule = if self.is(Mutant::LastMatch) { matching.next_back() } else { matching.next() }?;
        (rule.verb != NatVerb::Keep).then_some((rule, edge))
    }

    /// Decides about a packet; `seen` is the destination that it left with, if it did.
    pub fn decide(&self, entry: usize, fields: &Tuple, seen: Option<u32>) -> Decision<'_> {
        let given = match self.destination(fields) {
            Ok(Some((rule, edge, to))) => Some((Given::Rule(rule), edge, to)),
            Ok(None) => self.reached(entry, fields, seen).map(|mapping| {
                let (edge, Endpoint { address, port, .. }) = (mapping.edge, mapping.inside);
                (Given::Mapping(mapping), edge, (address, port))
            }),
            Err(()) => None,
        };
        self.decided(entry, fields, given)
    }

    /// Decides again about the first packet of a translation, whose destination no mapping gave.
    pub fn decide_ruled(&self, entry: usize, fields: &Tuple) -> Decision<'_> {
        let given = self.destination(fields).ok().flatten();
        self.decided(entry, fields, given.map(|(rule, edge, to)| (Given::Rule(rule), edge, to)))
    }

    /// Decides again about the first packet of a translation whose destination a mapping gave.
    pub fn decide_mapped(&self, entry: usize, fields: &Tuple, mapping: &Mapping) -> Decision<'_> {
        let given = match self.destination(fields) {
            Ok(Some((rule, edge, to))) => Some((Given::Rule(rule), edge, to)),
            Ok(None) => self.lets_in(mapping, entry, fields).map(|target| {
                // Rules with another target may give the same outside endpoint.
                let Endpoint { address, port, .. } = mapping.inside;
                (Given::Mapping(Mapping { target, ..mapping.clone() }), mapping.edge, (address, port))
            }),
            Err(()) => None,
        };
        self.decided(entry, fields, given)
    }

    fn decided<'a>(
        &'a self,
        entry: usize,
        fields: &Tuple,
        given: Option<(Given<'a>, usize, (u32, u16))>,
    ) -> Decision<'a> {
        let to = given.as_ref().map_or((fields.destination, fields.dport), |(.., to)| *to);
        // A destination that rules give is looked up in the VRF of the list.
        let vrf = self.layout.vrf(given.as_ref().map_or(entry, |(_, edge, _)| *edge));
        let out = self.layout.route(vrf, to.0);
        let rule = match (&given, out) {
            (Some((Given::Rule(rule), edge, _)), _) if rule.verb == NatVerb::Both => Some((*rule, *edge)),
            (_, Some(out)) if self.is_outside(out) => {
                self.source(out, &Tuple { destination: to.0, dport: to.1, ..*fields })
            }
            // A hairpin: as if it left by the outside interface.
            (Some((_, edge, _)), Some(_)) if !self.is_outside(entry) => self.source(*edge, fields),
            _ => None,
        };
        let hit = given.is_some();
        let begins = given.as_ref().map(|(_, edge, _)| *edge).or(rule.map(|(_, edge)| edge));
        let mapping = match given {
            Some((Given::Mapping(mapping), ..)) => Some(mapping),
            _ => None,
        };
        Decision { hit, mapping, begins, rule, to, out }
    }

    /// The addresses that a rule gives to a source.
    pub fn addresses(&self, rule: &Rule, edge: usize, source: u32) -> Vec<u32> {
        if rule.verb == NatVerb::Map {
            let (inside, outside) = rule.map();
            return vec![outside.first + (source - inside.first)];
        }
        rule.source.as_ref().map(|target| target.list(edge)).unwrap_or_default()
    }

    /// The address that an inside address of a VRF has of a rule's target, if it is known.
    pub fn pair(&self, rule: &Rule, edge: usize, vrf: usize, source: u32) -> Option<u32> {
        let addresses = self.addresses(rule, edge, source);
        match &addresses[..] {
            [only] => Some(*only),
            [first, ..] if self.is(Mutant::GivesFirstAddress) => Some(*first),
            _ => self.paired.get(&(addresses, edge, vrf, source)).copied(),
        }
    }
}

/// Whether a port is drawn for a packet.
pub fn draws(rule: &Rule, fields: &Tuple) -> bool {
    let protocol = fields.protocol;
    rule.verb != NatVerb::Map && (protocol == ICMP || has_ports(protocol) && protocol != SCTP)
}

/// Whether the port is even or odd as it was: identifiers of ICMP are no ports.
pub fn has_parity(rule: &Rule, fields: &Tuple) -> bool {
    rule.parity && draws(rule, fields) && fields.protocol != ICMP
}

/// The ports that a rule gives.
pub fn ports(rule: &Rule, fields: &Tuple) -> RangeInclusive<u16> {
    if !draws(rule, fields) {
        return fields.sport..=fields.sport;
    }
    let given = rule.source.as_ref().and_then(|target| target.ports.clone());
    given.unwrap_or(if fields.protocol == ICMP { 0..=65_535 } else { 1024..=65_535 })
}
