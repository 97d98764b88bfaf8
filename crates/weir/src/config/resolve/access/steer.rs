//! Steer rules: the names in them, and the checks that packets pass by for their sake.

use std::net::IpAddr;

use weir_plane::model::{
    AclList, AclRule, Bridge, Interface, InterfaceIndex, NextHop, Route, SteerIndex, SteerList, SteerMacs, SteerRule,
    Vrf, VrfIndex,
};

use super::super::super::declare::Path;
use super::super::super::declare::access;
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::{At, Span};
use super::super::Resolver;
use super::needless::shadowed;
use crate::rules::steer::checks::{Kind, Objection, Site, Translating, opens_sessions};
use crate::rules::steer::{self, Rule, Way};

impl Resolver<'_> {
    /// Makes the lists of the model.
    pub(in super::super) fn steer(&mut self) -> Vec<SteerList> {
        let declared = self.declared;
        declared.access.steer.iter().map(|list| self.steer_list(list)).collect()
    }

    fn steer_list(&mut self, declared: &access::Steer) -> SteerList {
        let mut rules = Vec::with_capacity(declared.rules.len());
        let mut places = Vec::with_capacity(declared.rules.len());
        for rule in &declared.rules {
            if let Some(made) = self.steer_rule(&rule.value, rule.span) {
                rules.push(made);
                places.push(rule.span);
            }
        }
        let limit = self.declared.settings.limits.acl_rules;
        if rules.len() as u64 > u64::from(limit) {
            let name = &declared.name;
            let message = format!("the rules of `{}` are {}, more than the limit of {limit}", name.value, rules.len());
            self.beyond_acl_rules(Diagnostic::error(Code::LimitExceeded, name.span, message));
        }
        if self.thorough {
            self.never_steered(&rules, &places);
        }
        self.access.steer_places.push(places);
        let (name, origin) = (declared.name.value.clone(), self.origin(declared.name.span));
        SteerList { name, rules: rules.into(), origin }
    }

    fn steer_rule(&mut self, rule: &Rule, span: Span) -> Option<SteerRule> {
        self.uses_groups(rule.matches.groups());
        let origin = self.origin(span);
        let hop = match &rule.way {
            Way::To(interface, address) => self.steer_hop(interface.as_deref(), *address, span),
            _ => None,
        };
        match rule.model(&self.access.vocabulary, origin, |_, _| hop) {
            Ok(rule) => Some(rule),
            Err(wrong) => {
                self.report_wrong(wrong, span);
                None
            }
        }
    }

    /// The interface and the next hop that a rule redirects to.
    fn steer_hop(&mut self, name: Option<&str>, address: Option<IpAddr>, span: Span) -> Option<NextHop> {
        let named = name.map(|name| At { value: name.to_owned(), span: self.place_in_rule(span, "interface") });
        let path = Path {
            interface: named.clone(),
            address: address.map(|value| At { value, span: self.place_in_rule(span, "next-hop") }),
            vrf: None,
            weight: 1,
            span,
        };
        let known = named.as_ref().and_then(|name| self.interfaces.get(name.value.as_str()));
        // A next hop that is known by its address alone is looked for in the VRF that is always there.
        let vrf = known.and_then(|&at| self.vrf_of[at]).unwrap_or(VrfIndex(0));
        let interface = self.path(vrf, &path).and_then(|at| self.index_of[at])?;
        Some(NextHop { interface, address, weight: 1 })
    }

    /// Where the rule at this place has the word behind another.
    fn place_in_rule(&self, span: Span, word: &str) -> Span {
        let (text, start) = self.rule_text(span);
        steer::place_behind(&text, word).map_or(span, |place| Span {
            start: start + place.start as u32,
            end: start + place.end as u32,
            ..span
        })
    }

    /// Checks the lists at the interfaces that name them.
    pub(in super::super) fn steer_at(
        &mut self,
        lists: &[SteerList],
        acls: &[AclList],
        (vrfs, interfaces, routes, bridges): (&[Vrf], &[Interface], &[Route], &[Bridge]),
    ) {
        let translating = Translating::new(vrfs.len(), interfaces, routes);
        let opens = |own: &Interface| {
            let named = own.access.acl_in.iter().chain(&own.access.acl_out);
            named.filter_map(|list| acls.get(usize::from(list.0))).any(opens_sessions)
        };
        for (number, interface) in (0..).zip(interfaces) {
            // Frames that a bridge forwards match no rule, as a warning says.
            if bridges.iter().any(|bridge| bridge.has_port(InterfaceIndex(number))) {
                continue;
            }
            let Some(SteerIndex(index)) = interface.steer else { continue };
            let Some(list) = lists.get(usize::from(index)) else { continue };
            let places = self.access.steer_places[usize::from(index)].clone();
            let site = Site::new(interface, (interfaces, bridges), &translating, opens);
            let workers = self.declared.settings.workers.as_ref().map_or(1, |workers| workers.value);
            for (rule, place) in list.rules.iter().zip(places) {
                for objection in site.objections(rule, workers) {
                    self.objects(objection, place);
                }
            }
        }
    }

    /// Reports an objection to the rule at this place.
    fn objects(&mut self, objection: Objection, place: Span) {
        let Objection { kind, refuses, behind, message, help } = objection;
        let place = behind.map_or(place, |word| self.place_in_rule(place, word));
        let code = match kind {
            Kind::Unchecked => Code::SteerUnchecked,
            Kind::Queue => Code::SteerQueue,
            Kind::Leaves => Code::ConflictingKeys,
        };
        let found = match refuses {
            true => Diagnostic::error(code, place, message),
            false => Diagnostic::warning(code, place, message),
        };
        self.report(match help {
            Some(help) => found.help(help),
            None => found,
        });
    }

    /// Warns of rules that never match, as rules before them match all their packets. Rules with conditions that access lists
    /// have not are left aside.
    fn never_steered(&mut self, rules: &[SteerRule], places: &[Span]) {
        let among: Vec<usize> = (0..rules.len()).filter(|&at| has_fields_alone(&rules[at])).collect();
        let matches: Vec<&AclRule> = among.iter().map(|&at| &rules[at].matches).collect();
        for finding in shadowed(&matches).findings {
            let message = "the rule never matches: earlier rules match its packets";
            let found = Diagnostic::warning(Code::ShadowedRule, places[among[finding.rule]], message);
            let found =
                finding.by.iter().take(3).fold(found, |found, &by| found.related(places[among[by]], "matches first"));
            self.report(found.help("move it before them, or leave it out"));
        }
    }
}

/// A rule has no conditions that access lists have not.
fn has_fields_alone(rule: &SteerRule) -> bool {
    let SteerRule { vlan, id, octets, macs, inner, frame, .. } = rule;
    vlan.is_none()
        && id.is_none()
        && octets.is_none()
        && inner.is_none()
        && frame.is_none()
        && *macs == SteerMacs::default()
}
