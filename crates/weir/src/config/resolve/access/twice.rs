//! Advises which rules can be left out.
//!
//! Rules that are reported as shadowed or redundant can be left out in any combination, and no packet fares otherwise. That
//! holds over lists, too: a rule is found because of the lists before its own only if it never matches wherever its list is
//! named, and rules that are found in a list by itself are no reason for it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use weir_plane::model::{AclDefault, AclIndex, AclList, AclRule, Interface, Origin};
use weir_table::classify::cover::{Finding, Kind};

use super::super::super::diagnostic::{Code, Diagnostic, SHOWN, Severity};
use super::super::super::plural;
use super::super::super::source::Span;
use super::super::Resolver;
use super::needless::{Needless, needed_for_fragments, needless, shadowed};

/// Rules that take another one's packets, of which the places are shown.
const COVERING: usize = 3;

/// Why a rule can be left out.
#[derive(Clone, Copy)]
enum Why {
    /// It never matches.
    Never,
    /// It never matches wherever its list is named.
    Sequences,
    /// Later rules decide in the same way.
    Redundant,
}

/// That a rule can be left out.
pub(in super::super) struct Advice {
    span: Span,
    why: Why,
    /// The rules that make it so, without ends of lists, the first ones of so many.
    by: Vec<Span>,
    count: usize,
    /// It has to stay for the sake of fragments.
    needed: bool,
}

impl Advice {
    /// The advice of a finding; `place` is where rules stand, if they are no ends of lists.
    pub(in super::super) fn new(finding: &Finding, place: impl Fn(usize) -> Option<Span>) -> Option<Advice> {
        let why = match finding.kind {
            Kind::Never => Why::Never,
            Kind::Redundant => Why::Redundant,
        };
        let by = finding.by.iter().filter_map(|rule| place(*rule)).take(COVERING).collect();
        Some(Advice { span: place(finding.rule)?, why, by, count: finding.by.len(), needed: false })
    }

    fn diagnostic(self) -> Diagnostic {
        let message = match (self.needed, self.why, self.count) {
            (true, Why::Redundant, _) => "this rule decides nothing but how fragments fare",
            (true, ..) => "this rule can never match, but without it fragments would fare otherwise",
            (_, Why::Never, 0) => "this rule can never match: there are no such packets",
            (_, Why::Never, 1) => "this rule can never match: an earlier one matches all that it matches",
            (_, Why::Never, _) => "this rule can never match: earlier ones together match all that it matches",
            (_, Why::Sequences, _) => {
                "this rule can never match: wherever its list is named, rules before it match all that it matches"
            }
            (_, Why::Redundant, 0) => "this rule can be left out: the default has the same effect",
            (_, Why::Redundant, _) => "this rule can be left out: all packets get the same verdict without it",
        };
        let code = match (self.needed, self.why) {
            (true, _) => Code::NeededForFragments,
            (_, Why::Redundant) => Code::RedundantRule,
            _ => Code::ShadowedRule,
        };
        let label = match (self.why, self.count) {
            (Why::Redundant, 1) => "this one decides instead",
            (Why::Redundant, _) => "one of the rules that decide instead",
            (_, 1) => "this one",
            _ => "one of them",
        };
        let found = Diagnostic::warning(code, self.span, message);
        let found = self.by.into_iter().fold(found, |found, place| found.related(place, label));
        if self.needed {
            return found.help("keep a rule on ports, types or flags in the list: fragments wait for its sake");
        }
        match self.count.saturating_sub(COVERING) {
            0 => found,
            more => found.help(format!("there are {more} more of them")),
        }
    }
}

/// A rule: its list, and its number there; the end of a list has none.
type Name = (usize, Option<usize>);

/// Rules of a list that never match because of the lists before it.
#[derive(Default)]
struct Shadowed {
    /// By rule: the rules that take its packets in the first sequence that has the list.
    by: BTreeMap<usize, Vec<Name>>,
    undecided: BTreeSet<usize>,
}

impl Resolver<'_> {
    /// Finds rules that can be left out of each list, or because of the lists that interfaces name before it.
    pub(in super::super) fn needless_rules(&mut self, lists: &[AclList], interfaces: &[Interface]) {
        let wrong = |diagnostic: &Diagnostic| diagnostic.severity == Severity::Error;
        if !self.thorough || self.diagnostics.iter().any(wrong) {
            return;
        }
        let alone: Vec<Needless> = lists.iter().map(|list| needless(&list.rules, list.default)).collect();
        let named = lists.iter().zip(&alone).map(|(list, needless)| {
            let mut named = vec![false; list.rules.len()];
            needless.findings.iter().for_each(|finding| named[finding.rule] = true);
            named
        });
        let mut named: Vec<Vec<bool>> = named.collect();
        let mut by_others = by_others(lists, interfaces, &named);
        let places = std::mem::take(&mut self.access.places);
        let mut needed = Vec::with_capacity(lists.len());
        for (at, list) in lists.iter().enumerate() {
            let by = by_others.get(&at).into_iter().flat_map(|shadowed| shadowed.by.keys());
            by.for_each(|rule| named[at][*rule] = true);
            needed.push(needed_for_fragments(&list.rules, &mut named[at]));
        }
        self.keep_shared_lines(&places, &mut named);
        for ((at, needless), needed) in alone.into_iter().enumerate().zip(needed) {
            let Shadowed { by, undecided } = by_others.remove(&at).unwrap_or_default();
            let mut advice: BTreeMap<usize, Advice> = BTreeMap::new();
            for finding in &needless.findings {
                advice.extend(Advice::new(finding, |rule| Some(places[at][rule])).map(|new| (finding.rule, new)));
            }
            for (rule, names) in by {
                let by = names.iter().filter_map(|(list, rule)| Some(places[*list][(*rule)?])).take(COVERING).collect();
                let (span, count) = (places[at][rule], names.len());
                advice.insert(rule, Advice { span, why: Why::Sequences, by, count, needed: false });
            }
            for rule in needed {
                advice.entry(rule).and_modify(|advice| advice.needed = true);
            }
            advice.retain(|rule, advice| named[at][*rule] || advice.needed);
            let undecided = BTreeSet::from_iter(needless.undecided).union(&undecided).count();
            let what = format!("of `{}`", lists[at].name);
            let span = self.declared.access.lists[at].name.span;
            self.advise(advice.into_values().collect(), undecided, &what, span);
        }
        self.access.places = places;
    }

    /// Keeps a line of a file that stands for several rules, in several lists or twice in one, unless all of them are named.
    fn keep_shared_lines(&self, places: &[Vec<Span>], named: &mut [Vec<bool>]) {
        let alike = self.sources.alike();
        let line = |span: &Span| (alike[span.source.0 as usize], span.start, span.end);
        let rules = || places.iter().flatten().map(line);
        let staying: HashSet<_> =
            rules().zip(named.iter().flatten()).filter(|(_, named)| !**named).map(|(line, _)| line).collect();
        for (line, named) in rules().zip(named.iter_mut().flatten()) {
            *named &= !staying.contains(&line);
        }
    }

    /// Reports which rules of a list can be left out, and for how many the search took too long.
    pub(in super::super) fn advise(&mut self, advice: Vec<Advice>, undecided: usize, what: &str, list: Span) {
        let more = advice.len().saturating_sub(SHOWN);
        advice.into_iter().take(SHOWN).for_each(|advice| self.report(advice.diagnostic()));
        if more > 0 {
            let message =
                format!("there are {} {what} that could be left out than are shown", plural(more, "more rule"));
            self.report(Diagnostic::warning(Code::More, list, message));
        }
        if undecided > 0 {
            let rules = plural(undecided, "rule");
            let message =
                format!("no result for {rules} {what}: the search for rules that can be left out takes too long");
            self.report(Diagnostic::warning(Code::UndecidedRules, list, message));
        }
    }
}

/// By list: the rules that stay in it by themselves, and never match in any sequence of lists that has it.
fn by_others(lists: &[AclList], interfaces: &[Interface], named: &[Vec<bool>]) -> HashMap<usize, Shadowed> {
    let ends: Vec<Option<AclRule>> = lists.iter().map(end).collect();
    let mut sequences: Vec<Vec<usize>> = Vec::new();
    let mut seen: HashSet<&[AclIndex]> = HashSet::new();
    for chain in interfaces.iter().flat_map(|interface| [&interface.access.acl_in, &interface.access.acl_out]) {
        if seen.insert(chain) {
            let chain = chain.iter().map(|index| usize::from(index.0));
            // Lists behind one that decides about all packets are not looked up.
            let last = chain.clone().position(|list| ends[list].is_some()).unwrap_or(chain.len());
            sequences.push(chain.take(last + 1).collect());
        }
    }
    // No list stands before one of these.
    let first: HashSet<usize> = sequences.iter().filter_map(|sequence| sequence.first().copied()).collect();
    let mut found: HashMap<usize, Shadowed> = HashMap::new();
    for sequence in sequences {
        let others = Vec::from_iter(sequence.iter().copied().filter(|list| !first.contains(list)));
        if others.is_empty() {
            continue;
        }
        let mut rules: Vec<(Name, &AclRule)> = Vec::new();
        for &list in &sequence {
            let staying = lists[list].rules.iter().enumerate().filter(|(number, _)| !named[list][*number]);
            rules.extend(staying.map(|(number, rule)| ((list, Some(number)), rule)));
            rules.extend(ends[list].iter().map(|end| ((list, None), end)));
        }
        let shadowed = shadowed(&Vec::from_iter(rules.iter().map(|(_, rule)| *rule)));
        let mut own: HashMap<usize, Shadowed> = others.iter().map(|list| (*list, Shadowed::default())).collect();
        for finding in shadowed.findings {
            if let (list, Some(number)) = rules[finding.rule].0
                && let Some(of_list) = own.get_mut(&list)
            {
                of_list.by.insert(number, finding.by.iter().map(|by| rules[*by].0).collect());
            }
        }
        for rule in shadowed.undecided {
            if let (list, Some(number)) = rules[rule].0
                && let Some(of_list) = own.get_mut(&list)
            {
                of_list.undecided.insert(number);
            }
        }
        for (list, here) in own {
            match found.entry(list) {
                Entry::Vacant(entry) => drop(entry.insert(here)),
                Entry::Occupied(mut entry) => {
                    let before = entry.get_mut();
                    let unknown = |rule: &usize| here.by.contains_key(rule) || here.undecided.contains(rule);
                    before.undecided.retain(unknown);
                    let undecided = here.undecided.iter().filter(|rule| before.by.contains_key(rule));
                    before.undecided.extend(undecided.copied());
                    before.by.retain(|rule, _| here.by.contains_key(rule));
                }
            }
        }
    }
    found
}

/// The rule at the end of a list, if it decides about all packets that come there.
fn end(list: &AclList) -> Option<AclRule> {
    match list.default {
        AclDefault::Next => None,
        AclDefault::Action(action) => Some(AclRule::all(action, Origin(0))),
    }
}
