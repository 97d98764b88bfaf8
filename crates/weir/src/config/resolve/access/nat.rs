//! Rules that translate: their names, the addresses that they stand for on the interfaces that name them, and which of them
//! never match.

use std::net::IpAddr;

use weir_plane::model::{self, AclRule, Addresses, IpFamily, NatList, NatRule, NatVerb};

use super::super::super::declare::access::Nat;
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::Span;
use super::super::Resolver;
use super::needless::shadowed;
use crate::rules::nat::Rule;

impl Resolver<'_> {
    /// Makes the lists of the model.
    pub(in super::super) fn nat_lists(&mut self) -> Vec<NatList> {
        let declared = self.declared;
        declared.access.nat.iter().enumerate().map(|(at, list)| self.nat_list(at, list)).collect()
    }

    fn nat_list(&mut self, at: usize, declared: &Nat) -> NatList {
        let mut rules = Vec::with_capacity(declared.rules.len());
        let mut places = Vec::with_capacity(declared.rules.len());
        for rule in &declared.rules {
            if let Some(made) = self.nat_rule(&rule.value, rule.span) {
                self.targets(at, &made, rule.span);
                rules.push(made);
                places.push(rule.span);
            }
        }
        let limit = self.declared.settings.limits.acl_rules;
        if rules.len() as u64 > u64::from(limit) {
            let name = &declared.name;
            let message = format!("the rules `{}` are {}, more than the limit of {limit}", name.value, rules.len());
            self.beyond_acl_rules(Diagnostic::error(Code::LimitExceeded, name.span, message));
        }
        if self.thorough {
            self.never(&rules, &places);
        }
        NatList { name: declared.name.value.clone(), rules: rules.into(), origin: self.origin(declared.name.span) }
    }

    fn nat_rule(&mut self, rule: &Rule, span: Span) -> Option<NatRule> {
        self.uses_groups(rule.groups());
        let origin = self.origin(span);
        let wrong = match rule.model(&self.access.vocabulary, origin) {
            Ok(rule) => return Some(rule),
            Err(wrong) => wrong,
        };
        self.report_wrong(wrong, span);
        None
    }

    /// Holds a rule against the interfaces that name its list: they have an address where the rule stands for theirs, packets
    /// to its outside addresses come to the gateway, and its destinations are not the gateway itself.
    fn targets(&mut self, list: usize, rule: &NatRule, span: Span) {
        let declared = self.declared;
        let name = &declared.access.nat[list].name.value;
        for (at, interface) in declared.interfaces.iter().enumerate() {
            if interface.nat.as_ref().is_none_or(|named| named.value != *name) || interface.lost_addresses {
                continue;
            }
            let Some(vrf) = self.vrf_of[at] else { continue };
            let families = rule.matches.family.map_or(vec![IpFamily::V4, IpFamily::V6], |family| vec![family]);
            let has = |family: &IpFamily| {
                interface.addresses.iter().any(|own| own.value.addr().is_ipv4() == (*family == IpFamily::V4))
            };
            let of_interface = rule.to_interface
                || [&rule.source, &rule.destination].into_iter().flatten().any(|target| target.addresses.is_none());
            if of_interface && !families.iter().any(has) {
                let family = match rule.matches.family {
                    Some(IpFamily::V4) => "IPv4 address",
                    Some(IpFamily::V6) => "IPv6 address",
                    None => "address",
                };
                let message = format!("the interface `{}` has no {family} for `interface`", interface.name.value);
                let found = Diagnostic::error(Code::InvalidRule, span, message);
                let found = found.related(interface.name.span, "the interface");
                self.report(found.help("give it one, or name addresses in the rule"));
            }
            if let Some(IpAddr::V4(_) | IpAddr::V6(_)) = rule.destination.as_ref().and_then(single)
                && let Some(to) = rule.destination.as_ref().and_then(single)
                && let Some(own) = self.connected.own(vrf, to)
            {
                let message = format!("{to} is an address of the gateway itself, whose answers are not translated");
                let found = Diagnostic::error(Code::InvalidRule, span, message).related(own.span, "here");
                self.report(found.help("name the address of a host"));
            }
            let outside = rule.source.as_ref().and_then(|target| target.addresses.as_ref());
            for address in outside.into_iter().flat_map(ends) {
                if self.connected.own(vrf, address).is_none()
                    && let Some(link) = self.connected.holding(vrf, address)
                {
                    let on = &self.declared(link.interface).name.value;
                    let message =
                        format!("{address} is on the link of `{on}`, where nobody answers for it: no replies come");
                    let found = Diagnostic::warning(Code::InvalidRule, span, message).related(link.span, "the link");
                    self.report(found.help("add it to the addresses of the interface, or use one that is routed here"));
                    break;
                }
            }
        }
    }

    /// Warns of rules that never match, as earlier ones match all their packets.
    fn never(&mut self, rules: &[NatRule], places: &[Span]) {
        let inwards = |rule: &NatRule| matches!(rule.verb, NatVerb::Destination | NatVerb::Both) && !rule.to_interface;
        let outwards = |rule: &NatRule| matches!(rule.verb, NatVerb::Source | NatVerb::Map);
        for about in [&inwards as &dyn Fn(&NatRule) -> bool, &outwards] {
            let among: Vec<usize> =
                (0..rules.len()).filter(|&at| about(&rules[at]) || rules[at].verb == NatVerb::Keep).collect();
            let matches: Vec<&AclRule> = among.iter().map(|&at| &rules[at].matches).collect();
            for finding in shadowed(&matches).findings {
                let at = among[finding.rule];
                if !about(&rules[at]) {
                    continue;
                }
                let found = Diagnostic::warning(
                    Code::ShadowedRule,
                    places[at],
                    "the rule never matches: earlier rules match its packets",
                );
                let found =
                    finding.by.iter().take(3).fold(found, |found, &by| found.related(places[among[by]], "this one"));
                self.report(found.help("move it before them, or leave it out"));
            }
        }
    }
}

/// The one address of a target.
fn single(target: &model::NatTarget) -> Option<IpAddr> {
    match &target.addresses {
        Some(Addresses::Net(net)) if net.prefix_len() == net.max_prefix_len() => Some(net.addr()),
        _ => None,
    }
}

/// The first and the last of addresses, of each member of a group.
fn ends(addresses: &Addresses) -> Vec<IpAddr> {
    match addresses {
        Addresses::Any => Vec::new(),
        Addresses::Net(net) => vec![net.network(), net.broadcast()],
        Addresses::Range(first, last) => vec![*first, *last],
        Addresses::Group(group) => group.members.iter().flat_map(ends).collect(),
    }
}
