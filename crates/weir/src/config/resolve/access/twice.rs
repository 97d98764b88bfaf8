//! Tells of rules that could be left out.

use std::collections::HashSet;

use weir_plane::model::{AclDefault, AclIndex, AclList, AclRule, Interface, Origin};
use weir_table::classify::cover::{Finding, Kind};

use super::super::super::diagnostic::{Code, Diagnostic, Severity};
use super::super::super::load::SHOWN;
use super::super::super::plural;
use super::super::super::source::Span;
use super::super::Resolver;
use super::{Needless, Verdicts, analyse, analyse_never};

/// Rules that take another one's packets, of which the places are shown.
const COVERING: usize = 3;

impl Resolver<'_> {
    /// Looks for rules that could be left out, in each list, and in the lists that an interface names together.
    pub(in super::super) fn needless_rules(&mut self, lists: &[AclList], interfaces: &[Interface]) {
        let wrong = |diagnostic: &Diagnostic| diagnostic.severity == Severity::Error;
        if !self.thorough || self.diagnostics.iter().any(wrong) {
            return;
        }
        let mut never: Vec<HashSet<usize>> = Vec::with_capacity(lists.len());
        for (at, list) in lists.iter().enumerate() {
            let mut verdicts = Verdicts::default();
            let rules: Vec<_> = list.rules.iter().map(|rule| (rule, verdicts.of(rule, list.sample))).collect();
            let needless = analyse(&rules, verdicts.of_default(list.default));
            let places = std::mem::take(&mut self.access.places[at]);
            let what = format!("of `{}`", list.name);
            self.needless(&needless, &what, self.declared.access.lists[at].name.span, |at| Some(places[at]));
            self.access.places[at] = places;
            let findings = needless.findings.iter().filter(|finding| finding.kind == Kind::Never);
            never.push(findings.map(|finding| finding.rule).collect());
        }
        let mut seen: HashSet<&[AclIndex]> = HashSet::new();
        for interface in interfaces {
            for chain in [&interface.access.acl_in, &interface.access.acl_out] {
                if chain.len() > 1 && seen.insert(chain) {
                    self.needless_by_others(interface, lists, chain, &never);
                }
            }
        }
    }

    /// Tells of what was found in a list; `place` is where its rules stand, but for the end of a list.
    pub(in super::super) fn needless(
        &mut self,
        needless: &Needless,
        what: &str,
        list: Span,
        place: impl Fn(usize) -> Option<Span>,
    ) {
        for finding in needless.findings.iter().take(SHOWN) {
            let Some(span) = place(finding.rule) else { continue };
            let (code, message) = match finding.kind {
                Kind::Never => (Code::ShadowedRule, never(finding)),
                Kind::Redundant => (Code::RedundantRule, redundant(finding)),
            };
            self.report(covered(Diagnostic::warning(code, span, message), finding, &place));
        }
        let more = needless.findings.len().saturating_sub(SHOWN);
        if more > 0 {
            let message =
                format!("there are {} {what} that could be left out than are shown", plural(more, "more rule"));
            self.report(Diagnostic::warning(Code::More, list, message));
        }
        if needless.undecided > 0 {
            let rules = plural(needless.undecided, "rule");
            let message = format!("of {rules} {what} it would take too long to tell whether they could be left out");
            self.report(Diagnostic::warning(Code::UndecidedRules, list, message));
        }
    }

    /// Looks for rules that can never match because of the lists before them, on an interface.
    fn needless_by_others(
        &mut self,
        interface: &Interface,
        lists: &[AclList],
        chain: &[AclIndex],
        never: &[HashSet<usize>],
    ) {
        let ends: Vec<Option<AclRule>> = chain.iter().map(|index| end(&lists[usize::from(index.0)])).collect();
        // Lists behind one that decides about all packets have been told of.
        let asked = ends.iter().position(Option::is_some).map_or(chain.len(), |last| last + 1);
        let mut verdicts = Verdicts::default();
        let mut rules: Vec<(&AclRule, u32)> = Vec::new();
        // The list and number of each; ends of lists have no number.
        let mut names: Vec<(usize, Option<usize>)> = Vec::new();
        for (index, end) in chain[..asked].iter().zip(&ends) {
            let at = usize::from(index.0);
            let list = &lists[at];
            for (number, rule) in list.rules.iter().enumerate() {
                rules.push((rule, verdicts.of(rule, list.sample)));
                names.push((at, Some(number)));
            }
            if let Some(end) = end {
                rules.push((end, verdicts.of(end, None)));
                names.push((at, None));
            }
        }
        let needless = analyse_never(&rules);
        let place = |rule: usize| {
            let (list, number) = names[rule];
            number.map(|number| self.access.places[list][number])
        };
        let mut found = Vec::new();
        let news = needless.findings.iter().filter(|finding| {
            let (list, number) = names[finding.rule];
            finding.kind == Kind::Never && number.is_some_and(|number| !never[list].contains(&number))
        });
        for finding in news.take(SHOWN) {
            let Some(span) = place(finding.rule) else { continue };
            let message = format!(
                "this rule can never match where `{}` names its lists: those before it match all that it matches",
                interface.name
            );
            found.push(covered(Diagnostic::warning(Code::ShadowedRule, span, message), finding, place));
        }
        found.into_iter().for_each(|found| self.report(found));
    }
}

/// The rule at the end of a list, if it decides about all packets that come there.
fn end(list: &AclList) -> Option<AclRule> {
    match list.default {
        AclDefault::Next => None,
        AclDefault::Action(action) => Some(AclRule::all(action, Origin(0))),
    }
}

fn never(finding: &Finding) -> &'static str {
    match finding.by.len() {
        0 => "this rule can never match: there are no such packets",
        1 => "this rule can never match: an earlier one matches all that it matches",
        _ => "this rule can never match: earlier ones together match all that it matches",
    }
}

fn redundant(finding: &Finding) -> &'static str {
    match finding.by.len() {
        0 => "this rule could be left out: what no rule matches fares alike",
        _ => "this rule could be left out: without it all packets fare alike",
    }
}

/// Shows the first of the rules that take another one's packets.
fn covered(found: Diagnostic, finding: &Finding, place: impl Fn(usize) -> Option<Span>) -> Diagnostic {
    let label = match (finding.kind, finding.by.len()) {
        (Kind::Never, 1) => "this one",
        (Kind::Never, _) => "one of them",
        (Kind::Redundant, 1) => "this one decides instead",
        (Kind::Redundant, _) => "one of those that decide instead",
    };
    let places = finding.by.iter().filter_map(|&rule| place(rule)).take(COVERING);
    let found = places.fold(found, |found, place| found.related(place, label));
    match finding.by.len().saturating_sub(COVERING) {
        0 => found,
        more => found.help(format!("there are {more} more of them")),
    }
}
