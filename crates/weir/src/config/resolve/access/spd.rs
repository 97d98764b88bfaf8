//! Security policy databases: the names in their rules, and rules that never match.

use weir_plane::model::{AclRule, SaIndex, Spd, SpdRule};

use super::super::super::declare::access;
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::Span;
use super::super::Resolver;
use super::needless::shadowed;
use crate::rules::spd::{self, Rule};

impl Resolver<'_> {
    /// Makes the SPDs of the model.
    pub(in super::super) fn spds(&mut self) -> Vec<Spd> {
        let declared = self.declared;
        declared.access.spd.iter().map(|spd| self.spd(spd)).collect()
    }

    fn spd(&mut self, declared: &access::Spd) -> Spd {
        let mut rules = Vec::with_capacity(declared.rules.len());
        let mut places = Vec::with_capacity(declared.rules.len());
        for rule in &declared.rules {
            if let Some(made) = self.spd_rule(&rule.value, rule.span) {
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
        }
        spd
    }

    fn spd_rule(&mut self, rule: &Rule, span: Span) -> Option<SpdRule> {
        self.uses_groups(rule.matches.groups());
        let origin = self.origin(span);
        let sa = rule.sa.as_deref().and_then(|name| self.sa(name, span));
        match rule.model(&self.access.vocabulary, origin, |_| sa) {
            Ok(rule) => Some(rule),
            Err(wrong) => {
                self.report_wrong(wrong, span);
                None
            }
        }
    }

    /// The SA that a rule names.
    fn sa(&mut self, name: &str, span: Span) -> Option<SaIndex> {
        let (text, start) = self.rule_text(span);
        let place = spd::place_of_sa(&text).map_or(span, |place| Span {
            start: start + place.start as u32,
            end: start + place.end as u32,
            ..span
        });
        let found = Diagnostic::error(Code::UnknownSa, place, format!("there is no SA `{name}`"));
        self.report(found.help(format!("declare it under `[sa.{name}]`")));
        None
    }

    /// Warns of rules that never match, as rules before them match all their packets. Rules with opaque ports are left
    /// aside.
    fn never_matched(&mut self, spd: &Spd, places: &[Span]) {
        let order = spd.order().into_iter().map(|place| place as usize);
        let among: Vec<usize> = order.filter(|&place| !spd.rules[place].is_opaque()).collect();
        let matches: Vec<&AclRule> = among.iter().map(|&place| &spd.rules[place].matches).collect();
        for finding in shadowed(&matches).findings {
            let place = places[among[finding.rule]];
            let message = "the rule never matches: rules that are matched before it match its packets";
            let found = Diagnostic::warning(Code::ShadowedRule, place, message);
            let found =
                finding.by.iter().take(3).fold(found, |found, &by| found.related(places[among[by]], "this one"));
            self.report(found.help("give it a higher priority, move it before them, or leave it out"));
        }
    }
}
