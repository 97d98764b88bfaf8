//! Rules: the interfaces that they name, and their entries in the model.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_plane::model::{InterfaceIndex, Match, Origin, SavRule, SavRules, Scope};

use super::super::super::declare::sav::{Policy, RuleList};
use super::super::super::diagnostic::{Code, Diagnostic, SHOWN, Severity};
use super::super::super::source::Span;
use super::Resolver;
use super::lists;
use super::overlaps::{self, Kind};
use crate::rules::{self, Action, Format, Rule};

/// The prefixes of a rule for every source.
const DEFAULTS: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)),
];

/// Lists of interfaces: equal lists are shared, whatever their words and policy.
#[derive(Default)]
pub(super) struct Lists {
    known: HashSet<Arc<[InterfaceIndex]>>,
    all: Option<Arc<[InterfaceIndex]>>,
}

impl Lists {
    fn keep(&mut self, mut list: Vec<InterfaceIndex>) -> Arc<[InterfaceIndex]> {
        list.sort_unstable();
        list.dedup();
        if let Some(known) = self.known.get(&list[..]) {
            return Arc::clone(known);
        }
        let list: Arc<[InterfaceIndex]> = list.into();
        self.known.insert(Arc::clone(&list));
        list
    }
}

/// The kinds of rules that a policy takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// One list, in order: those without `interface`.
    Ordered,
    /// All.
    Modes(Match),
    /// Rules that list the interfaces by which a prefix may enter, router-wide.
    Allowlists,
}

impl Takes {
    /// Returns the error about a rule of another kind.
    fn refuses(self, rule: &Rule, span: Span) -> Option<Diagnostic> {
        let wrong = |message: &str, help: &str| Some(Diagnostic::error(Code::InvalidRule, span, message).help(help));
        match self {
            Takes::Ordered if rule.scope == Scope::Interface => wrong(
                "an `acl` is one list in order, so none of its rules begins with `interface`",
                "lists of interfaces stand in a `table`",
            ),
            Takes::Allowlists if rule.scope == Scope::Interface || rule.action == Action::Deny => wrong(
                "tables of line cards take no other rules than `permit from … on …`",
                "for other kinds of lists write `layout = \"merged\"`",
            ),
            _ => None,
        }
    }
}

/// The rules of one policy on their way into the model.
struct Making<'l> {
    policy: Span,
    lists: &'l mut Lists,
    /// The resolved lists of names, by address: rules share them.
    meaning: HashMap<*const Arc<str>, Arc<[InterfaceIndex]>>,
    unknown: HashSet<Arc<str>>,
    list: Vec<SavRule>,
    places: Vec<Span>,
    shown: usize,
    more: usize,
    worst: Severity,
}

impl Resolver<'_> {
    /// Resolves the rules of a policy: its own, then the rules of its files.
    pub(super) fn rules(&mut self, policy: &Policy, declared: &RuleList, takes: Takes, lists: &mut Lists) -> SavRules {
        let total = declared.inline.len() + declared.files.iter().map(|file| file.lines.len()).sum::<usize>();
        let mut making = Making {
            policy: policy.name.span,
            lists,
            meaning: HashMap::new(),
            unknown: HashSet::new(),
            list: Vec::with_capacity(total),
            places: Vec::with_capacity(total),
            shown: 0,
            more: 0,
            worst: Severity::Warning,
        };
        for rule in &declared.inline {
            let origin = self.origin(rule.span);
            self.rule(&mut making, takes, &rule.value, None, rule.span, origin);
        }
        for file in &declared.files {
            let Some(source) = file.source else { continue };
            if file.lines.is_empty() && !self.has_errors(source) {
                let message = format!("`{}` has no rules", file.path.value);
                self.report(Diagnostic::warning(Code::EmptyFile, file.path.span, message));
            }
            for line in &file.lines {
                let span = Span { source, start: line.start, end: line.end };
                let origin = self.origin(span);
                self.rule(&mut making, takes, &line.rule, Some(file.format), span, origin);
            }
        }
        self.rule_overlaps(&mut making, policy, takes);
        self.report_more(&making);
        SavRules { list: making.list.into(), incremental: declared.incremental, hits: declared.hits }
    }

    /// Warns of rules that say nothing new or contradict each other; holds their number against the limit.
    fn rule_overlaps(&mut self, making: &mut Making<'_>, policy: &Policy, takes: Takes) {
        let interfaces = self.declared.interfaces.len();
        let all = making.lists.all.clone();
        let every = |rule: &SavRule| all.as_ref().is_some_and(|all| Arc::ptr_eq(all, &rule.interfaces));
        let found = match takes {
            Takes::Ordered => overlaps::find(&making.list, interfaces),
            Takes::Modes(matching) => lists::find(&making.list, interfaces, matching, every),
            Takes::Allowlists => lists::find(&making.list, interfaces, Match::MostSpecific, every),
        };
        let removable = found.overlaps.iter().filter(|overlap| overlap.kind.is_removable());
        self.policies.shared.note(removable.map(|overlap| making.places[overlap.rule as usize]));
        let shown = found.overlaps.len().min(SHOWN - making.shown);
        making.more += found.overlaps.len() - shown;
        for overlap in &found.overlaps[..shown] {
            let (place, other) = (making.places[overlap.rule as usize], making.places[overlap.other as usize]);
            let rule = &making.list[overlap.rule as usize];
            let (prefix, does) = (rule.prefix, if rule.permit { "permitted" } else { "denied" });
            let name = self.name_of(overlap.interface);
            self.report(match overlap.kind {
                Kind::Duplicate => {
                    let message = match rule.scope {
                        Scope::Prefix => format!("{prefix} is {does} on `{name}` twice"),
                        Scope::Interface => format!("`{name}` has {prefix} {does} twice"),
                    };
                    Diagnostic::warning(Code::DuplicateRule, place, message).related(other, "first here")
                }
                Kind::Conflict if takes == Takes::Ordered => {
                    let message = format!("{prefix} is both permitted and denied on `{name}`");
                    let found = Diagnostic::warning(Code::ConflictingRules, place, message);
                    found.related(other, "the earlier rule decides")
                }
                Kind::Conflict => {
                    let message = format!("two rules for {prefix} name different interfaces, which count together");
                    Diagnostic::warning(Code::ConflictingRules, place, message).related(other, "the other rule")
                }
                Kind::Shadowed => {
                    let message = "this rule never decides: earlier ones do for all of its sources and interfaces";
                    let found = Diagnostic::warning(Code::ShadowedRule, place, message);
                    found.related(other, format!("this one does on `{name}`"))
                }
                Kind::Overruled => {
                    let message = format!("this rule never decides: an allowlist says where {prefix} may come in");
                    Diagnostic::warning(Code::ConflictingRules, place, message).related(other, "the allowlist")
                }
                Kind::NotAsked => {
                    let message = format!("this rule does not apply on `{name}`, which has an allowlist of its own");
                    Diagnostic::warning(Code::ConflictingRules, place, message).related(other, "its allowlist")
                }
            });
            if overlap.kind.is_removable() {
                self.policies.shared.reported(self.diagnostics.len() - 1, place);
            }
        }
        let limit = self.declared.settings.limits.sav_prefixes;
        for (count, family) in found.prefixes.into_iter().zip(["IPv4", "IPv6"]) {
            if count as u64 > u64::from(limit) {
                let message =
                    format!("the policy has {count} {family} source prefixes, more than the limit of {limit}");
                let found = Diagnostic::error(Code::LimitExceeded, policy.name.span, message);
                self.report(match self.declared.settings.sav_prefixes_span {
                    Some(span) => found.related(span, "the limit"),
                    None => found.help("raise `sav-prefixes` under `[limits]`"),
                });
            }
        }
    }

    /// The name of an interface of the model.
    fn name_of(&self, index: InterfaceIndex) -> String {
        let at = self.index_of.iter().position(|&other| other == Some(index));
        at.map_or_else(String::new, |at| self.declared(at).name.value.clone())
    }

    /// Makes the entries of one rule: of a file, which has a format, or of a string in the policy.
    fn rule(
        &mut self,
        making: &mut Making<'_>,
        takes: Takes,
        rule: &Rule,
        format: Option<Format>,
        span: Span,
        origin: Origin,
    ) {
        if let Some(found) = takes.refuses(rule, span) {
            making.worst = Severity::Error;
            self.report_one(making, || found);
            return;
        }
        let Some(interfaces) = self.interfaces_of(making, rule, format, span) else { return };
        let permit = rule.action == Action::Permit;
        let prefixes = match &rule.from {
            Some(prefix) => std::slice::from_ref(prefix),
            None => &DEFAULTS,
        };
        for &prefix in prefixes {
            making.list.push(SavRule {
                prefix,
                interfaces: Arc::clone(&interfaces),
                permit,
                scope: rule.scope,
                origin,
            });
            making.places.push(span);
        }
    }

    /// The interfaces that a rule is about; `None` if there are none, which has been said.
    fn interfaces_of(
        &mut self,
        making: &mut Making<'_>,
        rule: &Rule,
        format: Option<Format>,
        span: Span,
    ) -> Option<Arc<[InterfaceIndex]>> {
        let Some(names) = &rule.on else {
            let index_of = &self.index_of;
            let all = || Arc::from_iter(index_of.iter().flatten().copied());
            let all = making.lists.all.get_or_insert_with(all);
            return (!all.is_empty()).then(|| Arc::clone(all));
        };
        if let Some(known) = making.meaning.get(&names.as_ptr()) {
            return (!known.is_empty()).then(|| Arc::clone(known));
        }
        let mut list = Vec::with_capacity(names.len());
        for name in names.iter() {
            match self.interfaces.get(&**name) {
                Some(&at) => list.extend(self.index_of[at]),
                None => self.unknown_in_rule(making, name, format, span),
            }
        }
        let list = making.lists.keep(list);
        making.meaning.insert(names.as_ptr(), Arc::clone(&list));
        (!list.is_empty()).then_some(list)
    }

    /// Reports an unknown interface once for each policy, at its first use.
    fn unknown_in_rule(&mut self, making: &mut Making<'_>, name: &Arc<str>, format: Option<Format>, span: Span) {
        if self.declared.lost_interfaces || !making.unknown.insert(Arc::clone(name)) {
            return;
        }
        let text = self.sources.source(span.source).text.get(span.range()).unwrap_or_default();
        // A string's quotes are none of the rule. Escapes stand in comments alone, behind the names.
        let quotes: &[char] = if format.is_none() { &['"', '\''] } else { &[] };
        let start = text.len() - text.trim_start_matches(quotes).len();
        let place = rules::place_of(format.unwrap_or(Format::Rules), text.trim_matches(quotes), name);
        let place = place.map_or(span, |range| {
            let start = span.start as usize + start + range.start;
            Span { start: start as u32, end: (start + range.len()) as u32, ..span }
        });
        let message = format!("there is no interface `{name}`");
        let unknown = Diagnostic::error(Code::UnknownInterface, place, message);
        let unknown = unknown.suggest(name, self.interfaces.keys());
        making.worst = Severity::Error;
        self.report_one(making, || unknown);
    }

    /// Reports one of the first findings of a policy's rules; of the others, how many there are.
    fn report_one(&mut self, making: &mut Making<'_>, found: impl FnOnce() -> Diagnostic) {
        if making.shown == SHOWN {
            making.more += 1;
            return;
        }
        making.shown += 1;
        self.report(found());
    }

    fn report_more(&mut self, making: &Making<'_>) {
        if making.more > 0 {
            let message = format!(
                "there is more to say of the rules of this policy than is shown: {}",
                super::super::super::plural(making.more, "further finding")
            );
            self.report(Diagnostic { severity: making.worst, ..Diagnostic::error(Code::More, making.policy, message) });
        }
    }
}
