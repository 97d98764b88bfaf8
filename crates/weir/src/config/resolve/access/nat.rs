//! Rules that translate: their names, and which of those about sources never match.

use weir_plane::model::{AclRule, NatList, NatRule, NatVerb, Origin};

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
            self.never_outwards(&rules, &places);
        }
        self.access.nat_places.push(places);
        let ipfix = declared.ipfix.as_ref().and_then(|name| self.collector(name));
        NatList {
            name: declared.name.value.clone(),
            rules: rules.into(),
            ids: None,
            limit: declared.limit.as_ref().map(|limit| limit.value),
            limit_origin: declared.limit.as_ref().map_or(Origin(0), |limit| self.origin(limit.span)),
            mss_clamp: declared.mss_clamp,
            mapping: declared.mapping,
            log: declared.log,
            ipfix,
            origin: self.origin(declared.name.span),
        }
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

    /// Warns of rules about sources that never match, as earlier ones match all their packets.
    fn never_outwards(&mut self, rules: &[NatRule], places: &[Span]) {
        let about = |rule: &NatRule| matches!(rule.verb, NatVerb::Source | NatVerb::Map);
        let is_among = |rule: &NatRule| about(rule) || rule.verb == NatVerb::Keep;
        let among: Vec<usize> = (0..rules.len()).filter(|&at| is_among(&rules[at])).collect();
        let matches: Vec<&AclRule> = among.iter().map(|&at| &rules[at].matches).collect();
        for finding in shadowed(&matches).findings {
            let at = among[finding.rule];
            if !about(&rules[at]) {
                continue;
            }
            let message = match rules[at].verb {
                // Packets to its outside addresses are matched apart.
                NatVerb::Map => "the map never translates a source: earlier rules match its packets from inside",
                _ => "the rule never matches: earlier rules match its packets",
            };
            let found = Diagnostic::warning(Code::ShadowedRule, places[at], message);
            let found =
                finding.by.iter().take(3).fold(found, |found, &by| found.related(places[among[by]], "matches first"));
            self.report(found.help("move it before them, or leave it out"));
        }
    }
}
