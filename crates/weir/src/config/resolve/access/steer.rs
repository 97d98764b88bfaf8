//! Steer rules: the names in them, and the checks that packets pass by for their sake.

use std::net::IpAddr;

use weir_plane::model::{
    AclAction, AclList, AclRule, Interface, InterfaceKind, NextHop, SteerIndex, SteerList, SteerRule, SteerWay,
    VrfIndex,
};

use super::super::super::declare::Path;
use super::super::super::declare::access;
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::{At, Span};
use super::super::Resolver;
use super::needless::shadowed;
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
    pub(in super::super) fn steer_at(&mut self, lists: &[SteerList], acls: &[AclList], interfaces: &[Interface]) {
        for interface in interfaces {
            let Some(SteerIndex(index)) = interface.steer else { continue };
            let Some(list) = lists.get(usize::from(index)) else { continue };
            let places = self.access.steer_places[usize::from(index)].clone();
            let checks = checks(interface, interfaces);
            let has_state = has_state(interface, interfaces, acls);
            for (rule, place) in list.rules.iter().zip(places) {
                self.skips(rule, place, interface, &checks);
                self.queue(rule, place, interface, has_state);
                self.leaves(rule, place, interfaces);
            }
        }
    }

    /// Refuses a rule whose packets would pass by checks of an interface, unless the rule says so.
    fn skips(&mut self, rule: &SteerRule, place: Span, interface: &Interface, checks: &[&str]) {
        if !rule.way.skips_checks() || checks.is_empty() {
            return;
        }
        let (name, checks) = (&interface.name, checks.join(", "));
        if rule.unchecked {
            let message = format!("packets of this rule pass by checks of the interface `{name}`: {checks}");
            return self.report(Diagnostic::warning(Code::SteerUnchecked, place, message));
        }
        let message = format!("packets of this rule would pass by checks of the interface `{name}`: {checks}");
        let found = Diagnostic::error(Code::SteerUnchecked, place, message);
        self.report(found.help("write `unchecked` behind the actions if that is meant"));
    }

    /// Refuses a rule that moves packets to a worker that is not there, or away from their sessions and translations.
    fn queue(&mut self, rule: &SteerRule, place: Span, interface: &Interface, has_state: bool) {
        let SteerWay::Queue(worker) = rule.way else { return };
        let place = self.place_in_rule(place, "queue");
        let workers = self.declared.settings.workers.as_ref().map_or(1, |workers| workers.value);
        if worker >= workers {
            let message = format!("there is no worker {worker}: the gateway has workers 0 to {}", workers - 1);
            return self.report(Diagnostic::error(Code::SteerQueue, place, message));
        }
        if has_state {
            let message = format!(
                "sessions or translations apply to packets of the interface `{}`: both directions have one worker",
                interface.name
            );
            let found = Diagnostic::error(Code::SteerQueue, place, message);
            self.report(found.help("leave the choice of the worker to weir, which knows both directions"));
        }
    }

    /// Refuses a redirection to an interface that no packets leave by.
    fn leaves(&mut self, rule: &SteerRule, place: Span, interfaces: &[Interface]) {
        let SteerWay::To { hop, .. } = rule.way else { return };
        let Some(interface) = interfaces.get(hop.interface.0 as usize) else { return };
        if matches!(interface.kind, InterfaceKind::Ipsec) {
            let place = self.place_in_rule(place, "interface");
            let message = format!("no packet leaves by `{}`: decrypted packets come in there", interface.name);
            self.report(Diagnostic::error(Code::ConflictingKeys, place, message));
        }
    }

    /// Warns of rules that never match, as rules before them match all their packets. Rules with conditions that access lists
    /// have not are left aside.
    fn never_steered(&mut self, rules: &[SteerRule], places: &[Span]) {
        let among: Vec<usize> =
            (0..rules.len()).filter(|&at| rules[at].id.is_none() && rules[at].vlan.is_none()).collect();
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

/// The checks of packets that come in by an interface.
fn checks(interface: &Interface, interfaces: &[Interface]) -> Vec<&'static str> {
    let access = &interface.access;
    let all = [
        (interface.sav.v4.is_some() || interface.sav.v6.is_some(), "source address validation"),
        (access.bindings.is_some(), "bindings"),
        (!access.acl_in.is_empty(), "access lists"),
        (!access.allow.v4.is_empty() || !access.allow.v6.is_empty(), "allowlists"),
        (access.classify_in.is_some(), "classifier tables"),
        (interface.spd.is_some(), "the SPD"),
        (interfaces.iter().any(|own| own.nat.is_some() && own.vrf == interface.vrf), "translation"),
    ];
    all.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect()
}

/// Sessions of access lists or translations apply to packets of an interface.
fn has_state(interface: &Interface, interfaces: &[Interface], acls: &[AclList]) -> bool {
    let zone = |own: &Interface| own.zone.clone().ok_or(own.vrf);
    let opens = |own: &Interface| {
        let lists = own.access.acl_in.iter().chain(&own.access.acl_out);
        lists
            .filter_map(|list| acls.get(usize::from(list.0)))
            .any(|list| list.rules.iter().any(|rule| rule.action == AclAction::Reflect))
    };
    interfaces
        .iter()
        .any(|own| own.nat.is_some() && own.vrf == interface.vrf || zone(own) == zone(interface) && opens(own))
}
