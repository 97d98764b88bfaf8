//! Sources are translated before an SPD is matched: rules of NAT that take packets away from the rules that should protect them.

use std::net::IpAddr;

use weir_plane::compile::boxes::count;
use weir_plane::model::{
    AclRule, Addresses, Gateway, Group, Interface, NatList, NatRule, NatVerb, Spd, SpdAction, SpdRule, Transport,
};

use super::super::super::diagnostic::{Code, Diagnostic, SHOWN};
use super::super::Resolver;
use super::nat_addresses::ranges;
use super::needless::shadowed;
use crate::rules::nat;

/// Pairs of rules that are compared where nobody waits for a check.
const MOST_PAIRS: usize = 10_000;

impl Resolver<'_> {
    /// Warns of rules that protect packets by addresses that a NAT rule of the same interface changes before.
    pub(in super::super) fn nat_before_spd(&mut self, nat: &[NatList], spds: &[Spd], interfaces: &[Interface]) {
        let mut seen = Vec::new();
        for interface in interfaces {
            let (Some(list), Some(spd)) = (interface.nat, interface.spd) else { continue };
            if seen.contains(&(list, spd)) {
                continue;
            }
            seen.push((list, spd));
            let (list, spd) = (usize::from(list.0), usize::from(spd.0));
            // A list of names that stand twice has no rules of its own.
            let (Some(rules), Some(policies)) = (nat.get(list), spds.get(spd)) else { continue };
            // A start or a reload does not wait for the check of long lists.
            if !self.thorough && is_long(rules, policies) {
                continue;
            }
            for (rule, by) in taken(&rules.rules, &policies.rules, interface) {
                let place = self.access.spd_places.get(spd).and_then(|places| places.get(rule)).copied();
                let by = self.access.nat_places.get(list).and_then(|places| places.get(by)).copied();
                let (Some(place), Some(by)) = (place, by) else { continue };
                let message = "the rule does not protect packets that NAT translates first: \
                     the SPD matches translated addresses";
                let found = Diagnostic::warning(Code::NatBeforeSpd, place, message).related(by, "translates them");
                self.report(found.help(format!("write `{}` in front of the NAT rule", keep(&policies.rules[rule]))));
            }
        }
    }
}

/// A NAT rule that takes packets away from the rule of an SPD that would protect them. Places count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The name of the SPD.
    pub(crate) spd: String,
    /// The place of its rule.
    pub(crate) policy: usize,
    /// The place of the NAT rule.
    pub(crate) by: usize,
    /// The NAT rule that would keep the packets as they are.
    pub(crate) keep: String,
}

/// Finds what a list of NAT rules takes away from SPDs, at the interfaces that name the list. Long lists are left to `weir check`.
pub(crate) fn before_spd(gateway: &Gateway, list: &str) -> Vec<Taken> {
    let mut found: Vec<Taken> = Vec::new();
    for interface in &gateway.interfaces {
        let named = interface.nat.and_then(|index| gateway.nat.get(usize::from(index.0)));
        let spd = interface.spd.and_then(|index| gateway.spds.get(usize::from(index.0)));
        let (Some(rules), Some(spd)) = (named.filter(|own| own.name == list), spd) else { continue };
        if is_long(rules, spd) {
            continue;
        }
        for (policy, by) in taken(&rules.rules, &spd.rules, interface) {
            let keep = keep(&spd.rules[policy]).to_string();
            let own = Taken { spd: spd.name.clone(), policy: policy + 1, by: by + 1, keep };
            if !found.contains(&own) {
                found.push(own);
            }
        }
    }
    found
}

/// Each rule of an SPD that protects is held against each NAT rule.
fn is_long(nat: &NatList, spd: &Spd) -> bool {
    nat.rules.len().saturating_mul(spd.rules.len()) > MOST_PAIRS
}

/// The rules of an SPD from which NAT rules take packets away, and these rules: the first ones.
fn taken(rules: &[NatRule], policies: &[SpdRule], interface: &Interface) -> Vec<(usize, usize)> {
    let protects = policies.iter().enumerate();
    let protects = protects.filter(|(_, rule)| matches!(rule.action, SpdAction::Protect(_)));
    protects.filter_map(|(place, rule)| Some((place, translated(rules, rule, interface)?))).take(SHOWN).collect()
}

/// The NAT rule that keeps the addresses of a policy's packets, in words.
fn keep(policy: &SpdRule) -> nat::Rule {
    let matches = AclRule { comment: None, ..policy.matches.clone() };
    let keep = NatRule {
        verb: NatVerb::Keep,
        matches,
        to_interface: false,
        source: None,
        destination: None,
        preserve: false,
        parity: false,
        log: false,
        limit_per_address: None,
        comment: None,
    };
    // No rule of an SPD names an interface.
    nat::Rule::of(&keep, |_| "".into())
}

/// The first NAT rule that changes addresses of packets which a policy would protect, and no longer does then.
fn translated(rules: &[NatRule], policy: &SpdRule, interface: &Interface) -> Option<usize> {
    let changes = |rule: &NatRule| match rule.verb {
        NatVerb::Source | NatVerb::Map => !covers_sources(policy, rule, interface),
        // The destination of others is the gateway.
        NatVerb::Both => !rule.to_interface,
        NatVerb::Destination | NatVerb::Keep => false,
    };
    let takes = |place: usize, rule: &NatRule| {
        let Some(common) = common(&rule.matches, &policy.matches) else { return false };
        let kept = rules[..place].iter().filter(|rule| rule.verb == NatVerb::Keep).map(|rule| &rule.matches);
        let matches: Vec<&AclRule> = kept.chain([&common]).collect();
        let last = matches.len() - 1;
        !shadowed(&matches).findings.iter().any(|finding| finding.rule == last)
    };
    (0..).zip(rules).find(|(place, rule)| changes(rule) && takes(*place, rule)).map(|(place, _)| place)
}

/// Every source that a NAT rule gives is a local address of the policy.
fn covers_sources(policy: &SpdRule, rule: &NatRule, interface: &Interface) -> bool {
    if policy.matches.from == Addresses::Any {
        return true;
    }
    let given = match rule.source.as_ref().map(|target| &target.addresses) {
        Some(Some(addresses)) => ranges(addresses),
        _ => {
            let own = interface.addresses.iter().map(|own| own.net.addr());
            let is_of = |family: IpAddr| own.clone().find(|own| own.is_ipv4() == family.is_ipv4());
            ranges(&policy.matches.from)
                .first()
                .and_then(|&(first, _)| is_of(first))
                .map(|own| (own, own))
                .into_iter()
                .collect()
        }
    };
    let local = ranges(&policy.matches.from);
    let is_local = |(first, last): &(IpAddr, IpAddr)| local.iter().any(|(from, to)| from <= first && last <= to);
    !given.is_empty() && given.iter().all(is_local)
}

/// The packets that two rules match. Of ports, types and codes, those of one of the rules count.
fn common(one: &AclRule, other: &AclRule) -> Option<AclRule> {
    if one.family.is_some() && other.family.is_some() && one.family != other.family {
        return None;
    }
    let transport = match (protocol(&one.transport), protocol(&other.transport)) {
        (Some(one), Some(other)) if one != other => return None,
        (Some(_), None) => &one.transport,
        _ => &other.transport,
    };
    let common = AclRule {
        family: one.family.or(other.family),
        from: both(&one.from, &other.from)?,
        to: both(&one.to, &other.to)?,
        transport: transport.clone(),
        ..AclRule::all(other.action, other.origin)
    };
    (count(&common) > 0).then_some(common)
}

/// The protocol that a rule names.
fn protocol(transport: &Transport) -> Option<u8> {
    match transport {
        Transport::Any => None,
        Transport::Protocol(protocol) | Transport::Ports { protocol, .. } | Transport::Icmp { protocol, .. } => {
            Some(*protocol)
        }
    }
}

/// The addresses that two sets have in common; `None` if there are none.
fn both(one: &Addresses, other: &Addresses) -> Option<Addresses> {
    let (one, other) = match (one, other) {
        (Addresses::Any, set) | (set, Addresses::Any) => return Some(set.clone()),
        (one, other) => (ranges(one), ranges(other)),
    };
    let mut members = Vec::new();
    for &(first, last) in &one {
        let alike = other.iter().filter(|(own, _)| own.is_ipv4() == first.is_ipv4());
        let cut = alike.map(|&(from, to)| (first.max(from), last.min(to)));
        members.extend(cut.filter(|(first, last)| first <= last).map(|(first, last)| Addresses::Range(first, last)));
    }
    (!members.is_empty()).then(|| Addresses::Group(Group { name: "".into(), members: members.into() }))
}
