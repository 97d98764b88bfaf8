//! Pairs of SAs and rules of SPDs that change beside a model in force: the checks of a configuration, without its files.

use std::collections::{HashMap, HashSet};

use weir_plane::model::{Gateway, InterfaceKind, SaIndex, SpdAction, SpdRule};

use super::super::declare::Declared;
use super::super::declare::ipsec::Sa;
use super::super::diagnostic::{Code, Diagnostic, Severity};
use super::super::overlay::{OverSpd, SOCKET};
use super::super::source::{At, SourceId, Sources, Span};
use super::Resolver;
use super::ipsec::{KnownSas, no_address, no_way_in};
use super::known::{Access, Connected, Policies, Samplers};
use super::past_spd::Placed;
use crate::rules::acl::Vocabulary;
use crate::rules::spd::Rule;

/// A place that stands for a pair of SAs in force, by its index: no text has it.
fn stand_in(at: usize) -> Span {
    let end = u32::MAX - at as u32;
    Span { source: SourceId(0), start: end, end }
}

/// A resolver that knows the SAs and the words of a model in force.
fn beside<'a>(
    gateway: &'a Gateway,
    declared: &'a Declared,
    sources: &'a Sources,
    diagnostics: &'a mut Vec<Diagnostic>,
) -> Resolver<'a> {
    let mut origins = gateway.origins.clone();
    let put = |source: &super::super::source::Source| origins.put_source(source.name.clone(), source.text.clone());
    let origin_sources = sources.iter().map(put).collect();
    Resolver {
        declared,
        sources,
        diagnostics,
        vrfs: HashMap::new(),
        interfaces: HashMap::new(),
        vrf_of: Vec::new(),
        index_of: Vec::new(),
        connected: Connected::default(),
        policies: Policies::default(),
        samplers: Samplers::default(),
        access: Access { vocabulary: Vocabulary::of(gateway), ..Access::default() },
        bridges: HashMap::new(),
        sas: (0..).zip(&gateway.sas).map(|(index, sa)| (sa.name.as_str(), SaIndex(index))).collect(),
        origins,
        origin_sources,
        thorough: false,
        is_beside: true,
    }
}

fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|found| found.severity == Severity::Error)
}

/// Puts the declared pair of SAs into a model: in the place of the pair of its name, or behind all others. If there are errors, the
/// model stays as it is.
pub(in super::super) fn put_sa(
    gateway: &mut Gateway,
    declared: &Declared,
    sources: &Sources,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let Some(own) = declared.sas.first().filter(|_| !has_errors(diagnostics)) else { return };
    let mut resolver = beside(gateway, declared, sources, diagnostics);
    let Some(sa) = resolver.sa_beside(gateway, own) else { return };
    let origins = resolver.origins;
    if has_errors(diagnostics) {
        return;
    }
    gateway.origins = origins;
    match gateway.sas.iter_mut().find(|other| other.name == sa.name) {
        Some(other) => *other = sa,
        None => gateway.sas.push(sa),
    }
}

impl Resolver<'_> {
    /// Makes a pair of SAs beside the pairs of a model.
    fn sa_beside(&mut self, gateway: &Gateway, own: &Sa) -> Option<weir_plane::model::Sa> {
        let vrf = |resolver: &mut Self| resolver.vrf_beside(gateway, own);
        let way_in = |resolver: &mut Self, name: &At<String>| {
            let found = gateway.interfaces.iter().position(|other| other.name == name.value);
            match found.map(|at| (at, &gateway.interfaces[at].kind)) {
                Some((at, InterfaceKind::Ipsec)) => Some(weir_plane::model::InterfaceIndex(at as u32)),
                Some(_) => {
                    resolver.report(no_way_in(name).help("name an interface with `port = \"ipsec\"`"));
                    None
                }
                None => {
                    let message = format!("there is no interface `{}`", name.value);
                    let unknown = Diagnostic::error(Code::UnknownInterface, name.span, message);
                    let names = gateway.interfaces.iter().map(|own| own.name.as_str());
                    resolver.report(unknown.suggest(&name.value, names));
                    None
                }
            }
        };
        let sa = self.sa(own, vrf, way_in)?;
        let others = || gateway.sas.iter().enumerate().filter(|(_, other)| other.name != sa.name);
        let mut known = KnownSas::default();
        others().for_each(|(at, other)| known.note(other, stand_in(at)));
        let before = self.diagnostics.len();
        self.unique(own, &sa, &mut known);
        for found in &mut self.diagnostics[before..] {
            let related = std::mem::take(&mut found.related);
            for label in related {
                let at = (u32::MAX - label.span.start) as usize;
                match gateway.sas.get(at).filter(|_| label.span == stand_in(at)) {
                    Some(other) => found.message.push_str(&format!(": the other one is of the pair `{}`", other.name)),
                    None => found.related.push(label),
                }
            }
        }
        // Rules in force name the pair: a pair in its place has to serve them.
        let named = gateway.sas.iter().position(|other| other.name == sa.name);
        if let Some(at) = named {
            let mut sas = gateway.sas.clone();
            sas[at] = sa.clone();
            let rules = gateway.spds.iter().flat_map(|spd| spd.rules.iter());
            let rules: Vec<&SpdRule> =
                rules.filter(|rule| rule.action == SpdAction::Protect(SaIndex(at as u32))).collect();
            for rule in rules.iter().take(1) {
                self.check_outbound(rule, own.name.span, &sas);
            }
            for rule in &rules {
                self.check_transport(rule, own.name.span, &sas);
            }
            for rule in rules {
                let rule_text = Rule::of(rule, |sa| weir_plane::engine::sa_name(gateway, sa));
                if self.check_ends(rule, own.name.span, &sas, &format!("the rule `{rule_text}`")) {
                    // One of the rules is enough.
                    break;
                }
            }
        }
        Some(sa)
    }

    /// The VRF of a pair: the one that it names, or the first in which its outer address is the gateway's.
    fn vrf_beside(&mut self, gateway: &Gateway, own: &Sa) -> Option<weir_plane::model::VrfIndex> {
        use weir_plane::model::VrfIndex;
        if let Some(name) = &own.vrf {
            let found = gateway.vrfs.iter().position(|vrf| vrf.name == name.value);
            if found.is_none() {
                let message = format!("there is no VRF `{}`", name.value);
                let unknown = Diagnostic::error(Code::UnknownVrf, name.span, message);
                self.report(unknown.suggest(&name.value, gateway.vrfs.iter().map(|vrf| vrf.name.as_str())));
            }
            return found.map(|at| VrfIndex(at as u16));
        }
        let has = |other: &&weir_plane::model::Interface| {
            other.addresses.iter().any(|address| address.net.addr() == own.local.value)
        };
        let found = gateway.interfaces.iter().filter(has).map(|other| other.vrf).min();
        if found.is_none() {
            self.report(no_address(&own.local));
        }
        Some(found.unwrap_or(VrfIndex(0)))
    }
}

/// A rule of an SPD from now on.
pub(in super::super) enum NewRule {
    /// A rule of the files, in words: it is in force.
    Kept(String),
    /// A rule of the socket.
    Read(Box<At<Rule>>),
}

/// Puts rules into an SPD of a model. If there are errors, the model stays as it is.
pub(in super::super) fn put_rules(
    gateway: &mut Gateway,
    over: &OverSpd,
    rules: Vec<NewRule>,
    (declared, sources): (&Declared, &Sources),
    diagnostics: &mut Vec<Diagnostic>,
) {
    let Some(at) = gateway.spds.iter().position(|spd| spd.name == over.name) else { return };
    let mut resolver = beside(gateway, declared, sources, diagnostics);
    let name = |sa| weir_plane::engine::sa_name(gateway, sa);
    let is_of_a_file = |rule: &SpdRule| {
        let place = gateway.origins.place(rule.origin());
        place.is_some_and(|place| !place.file.starts_with(SOCKET))
    };
    let mut before: Vec<Option<(String, &SpdRule)>> =
        gateway.spds[at].rules.iter().map(|rule| Some((Rule::of(rule, name).to_string(), rule))).collect();
    // Rules of the files first: a rule of the socket may have the same words.
    before.sort_by_key(|own| own.as_ref().is_some_and(|own| !is_of_a_file(own.1)));
    let known: HashSet<String> = before.iter().flatten().map(|own| own.0.clone()).collect();
    let mut all = Vec::with_capacity(rules.len());
    // The rules that come now, by their places among all. The others have been warned of.
    let mut new: Vec<(usize, Span)> = Vec::new();
    for rule in rules {
        match rule {
            NewRule::Kept(text) => {
                let same = before.iter_mut().find(|own| own.as_ref().is_some_and(|own| own.0 == text));
                match same.and_then(Option::take) {
                    Some(own) => all.push(own.1.clone()),
                    None => {
                        let message = format!("the rule `{text}` is not in force any more");
                        let found = Diagnostic::error(Code::LiveRules, stand_in(0), message);
                        resolver.report(Diagnostic { primary: None, ..found });
                    }
                }
            }
            NewRule::Read(rule) => {
                let Some(made) = resolver.spd_rule(&rule.value, rule.span) else { continue };
                resolver.check_transport(&made, rule.span, &gateway.sas);
                resolver.check_outbound(&made, rule.span, &gateway.sas);
                if !known.contains(&rule.value.to_string()) {
                    resolver.check_ends(&made, rule.span, &gateway.sas, "the rule");
                    new.push((all.len(), rule.span));
                }
                all.push(made);
            }
        }
    }
    let limit = gateway.limits.acl_rules;
    if all.len() as u64 > u64::from(limit) {
        let message = format!("the rules of `{}` are {}, more than the limit of {limit}", over.name, all.len());
        let found = Diagnostic::error(Code::LimitExceeded, Span { source: SourceId(0), start: 0, end: 0 }, message);
        resolver.report(Diagnostic { primary: None, ..found });
    }
    let placed = |&(place, span): &(usize, Span)| Placed { spd: at, name: &over.name, rule: &all[place], span };
    let placed: Vec<Placed<'_>> = new.iter().map(placed).collect();
    resolver.past_spd(&placed, &gateway.interfaces, &gateway.routes);
    let origins = resolver.origins;
    if has_errors(diagnostics) {
        return;
    }
    gateway.origins = origins;
    gateway.spds[at].rules = all.into();
}
