//! Security policy databases: the names in their rules, and rules that never match.

use weir_plane::model::{AclRule, IpFamily, Origin, Sa, SaIndex, SaMode, Spd, SpdAction, SpdRule};

use super::super::super::declare::access;
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::Span;
use super::super::Resolver;
use super::needless::shadowed;
use crate::rules::spd::{self, Rule};

/// Two rules match the same packets by the same words.
fn same_selectors(one: &AclRule, other: &AclRule) -> bool {
    AclRule { origin: Origin::default(), ..one.clone() } == AclRule { origin: Origin::default(), ..other.clone() }
}

impl Resolver<'_> {
    /// Makes the SPDs of the model.
    pub(in super::super) fn spds(&mut self, sas: &[Sa]) -> Vec<Spd> {
        let declared = self.declared;
        let spds: Vec<Spd> = declared.access.spd.iter().map(|spd| self.spd(spd, sas)).collect();
        self.unused_sas();
        spds
    }

    fn spd(&mut self, declared: &access::Spd, sas: &[Sa]) -> Spd {
        let mut rules = Vec::with_capacity(declared.rules.len());
        let mut places = Vec::with_capacity(declared.rules.len());
        for rule in &declared.rules {
            if let Some(made) = self.spd_rule(&rule.value, rule.span) {
                self.check_transport(&made, rule.span, sas);
                self.check_outbound(&made, rule.span, sas);
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
        let (name, origin) = (declared.name.value.clone(), self.origin(declared.name.span));
        let spd = Spd { name, rules: rules.into(), cache: declared.cache, origin };
        if self.thorough {
            self.never_matched(&spd, &places);
            self.shared_alone(&spd, &places);
        }
        self.access.spd_lost.push(declared.lost_rules || places.len() < declared.rules.len());
        self.access.spd_places.push(places);
        spd
    }

    /// Makes a rule of the model.
    pub(in super::super) fn spd_rule(&mut self, rule: &Rule, span: Span) -> Option<SpdRule> {
        self.uses_groups(rule.matches.groups());
        let origin = self.origin(span);
        let sa = rule.sa.as_deref().and_then(|name| self.sa_of_rule(name, span));
        match rule.model(&self.access.vocabulary, origin, |_| sa) {
            Ok(rule) => Some(rule),
            Err(wrong) => {
                self.report_wrong(wrong, span);
                None
            }
        }
    }

    /// The SA that a rule names.
    fn sa_of_rule(&mut self, name: &str, span: Span) -> Option<SaIndex> {
        self.access.sas_used.insert(name.to_owned());
        if let Some(&sa) = self.sas.get(name) {
            return Some(sa);
        }
        // What is wrong with a declared one has been reported.
        if !self.declared.lost_sas && !self.declared.sas.iter().any(|sa| sa.name.value == name) {
            let place = self.place_of_sa(span);
            let found = Diagnostic::error(Code::UnknownSa, place, format!("there is no SA `{name}`"));
            let found = found.suggest(name, self.sas.keys());
            let help = found.help.clone();
            self.report(found.help(help.unwrap_or_else(|| format!("declare it under `[sa.{name}]`"))));
        }
        None
    }

    /// Where the rule at this place names its SA.
    fn place_of_sa(&self, span: Span) -> Span {
        let (text, start) = self.rule_text(span);
        spd::place_of_sa(&text).map_or(span, |place| Span {
            start: start + place.start as u32,
            end: start + place.end as u32,
            ..span
        })
    }

    /// Refuses a rule that protects packets of another family than its SA in transport mode can (RFC 4301, 4.1).
    pub(in super::super) fn check_transport(&mut self, rule: &SpdRule, span: Span, sas: &[Sa]) {
        let SpdAction::Protect(sa) = rule.action else { return };
        let Some(sa) = sas.get(sa.0 as usize).filter(|sa| sa.mode == SaMode::Transport) else { return };
        let own = if sa.local.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 };
        if rule.matches.family.is_some_and(|family| family != own) {
            let place = self.place_of_sa(span);
            let message = format!("the SA `{}` in transport mode protects no packet of the rule's family", sa.name);
            let found = Diagnostic::error(Code::FamilyMismatch, place, message);
            self.report(found.help("its packets are those between its own two addresses"));
        }
    }

    /// Warns of a rule that protects packets by a pair without an outbound SA.
    pub(in super::super) fn check_outbound(&mut self, rule: &SpdRule, span: Span, sas: &[Sa]) {
        let SpdAction::Protect(sa) = rule.action else { return };
        let Some(sa) = sas.get(sa.0 as usize).filter(|sa| sa.outbound.is_none()) else { return };
        let place = self.place_of_sa(span);
        let message = format!("the SA `{}` has no `out`: packets that leave and match the rule are dropped", sa.name);
        let found = Diagnostic::warning(Code::NoOutbound, place, message);
        self.report(found.help(format!("write `out = {{ spi = …, key-file = … }}` in `[sa.{}]`", sa.name)));
    }

    /// Warns of SAs that no rule names: they protect nothing, and what they decrypt is dropped.
    fn unused_sas(&mut self) {
        let declared = self.declared;
        if declared.access.lost_spd {
            return;
        }
        for sa in &declared.sas {
            if !self.access.sas_used.contains(&sa.name.value) {
                let message = format!("no rule of an SPD names the SA `{}`", sa.name.value);
                let found = Diagnostic::warning(Code::UnusedSa, sa.name.span, message);
                self.report(
                    found
                        .help("write `protect … sa NAME` in `[spd.NAME]`: without a rule, all its packets are dropped"),
                );
            }
        }
    }

    /// Warns of rules that share the flows that they match with no other rule.
    fn shared_alone(&mut self, spd: &Spd, places: &[Span]) {
        let is_alike = |one: &SpdRule, other: &SpdRule| {
            one.opaque == other.opaque && one.action != other.action && same_selectors(&one.matches, &other.matches)
        };
        for (rule, &place) in spd.rules.iter().zip(places).filter(|(rule, _)| rule.shared) {
            if !spd.rules.iter().any(|other| other.shared && is_alike(rule, other)) {
                let message =
                    "the rule shares its flows with no other: no rule with these selectors and another SA is `shared`";
                let found = Diagnostic::warning(Code::SharedAlone, place, message);
                self.report(
                    found.help(
                        "add the rule of the other SA, with the same selectors and `shared`, or leave the word out",
                    ),
                );
            }
        }
    }

    /// Warns of rules that never match, as rules before them match all their packets. Rules with opaque ports are left
    /// aside.
    fn never_matched(&mut self, spd: &Spd, places: &[Span]) {
        let order = spd.order().into_iter().map(|place| place as usize);
        let among: Vec<usize> = order.filter(|&place| !spd.rules[place].is_opaque()).collect();
        let matches: Vec<&AclRule> = among.iter().map(|&place| &spd.rules[place].matches).collect();
        let protects = |place: usize| matches!(spd.rules[place].action, SpdAction::Protect(_));
        for finding in shadowed(&matches).findings {
            // A pair of SAs that is about to take the place of another one decrypts already.
            let is_successor = |by: &usize| protects(among[*by]) && same_selectors(matches[*by], matches[finding.rule]);
            if protects(among[finding.rule]) && finding.by.iter().all(is_successor) {
                continue;
            }
            let place = places[among[finding.rule]];
            let message = "the rule never matches: rules that are matched before it match its packets";
            let found = Diagnostic::warning(Code::ShadowedRule, place, message);
            let found =
                finding.by.iter().take(3).fold(found, |found, &by| found.related(places[among[by]], "matches first"));
            self.report(found.help("give it a higher priority, move it before them, or leave it out"));
        }
    }
}
