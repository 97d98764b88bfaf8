//! Access lists: their rules, and what they come to together.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use weir_packet::wire::tcp::Flags;
use weir_plane::compile::boxes;
use weir_plane::model::{
    Access, AclAction, AclDefault, AclIndex, AclList, AclRule, Addresses, Interface, IpFamily, TcpFlags, Transport,
};

use super::super::super::declare::access::List;
use super::super::super::declare::rules::diagnostic;
use super::super::super::diagnostic::{Code, Diagnostic, SHOWN, Severity};
use super::super::super::source::{At, SourceId, Span};
use super::super::Resolver;
use crate::rules::acl::Rule;

/// A list on its way into the model.
struct Making<'l> {
    declared: &'l List,
    rules: Vec<AclRule>,
    places: Vec<Span>,
    /// A rule that logs was reported.
    silent: bool,
    shown: usize,
    more: usize,
}

impl<'a> Resolver<'a> {
    /// Makes the access lists of the model.
    pub(in super::super) fn lists(&mut self) -> Vec<AclList> {
        let declared = self.declared;
        let lists: Vec<AclList> = declared.access.lists.iter().map(|list| self.list(list)).collect();
        let total: usize = lists.iter().map(|list| list.rules.len()).sum();
        let limit = self.declared.settings.limits.acl_rules;
        if total as u64 > u64::from(limit) {
            let mut so_far = 0;
            let beyond = lists.iter().position(|list| {
                so_far += list.rules.len();
                so_far as u64 > u64::from(limit)
            });
            let span = beyond.map(|at| declared.access.lists[at].name.span);
            if let Some(span) = span {
                let message = format!("the access lists have {total} rules, more than the limit of {limit}");
                self.beyond_acl_rules(Diagnostic::error(Code::LimitExceeded, span, message));
            }
        }
        lists
    }

    fn list(&mut self, declared: &List) -> AclList {
        let total = declared.inline.len() + declared.files.iter().map(|file| file.lines.len()).sum::<usize>();
        let mut making = Making {
            declared,
            rules: Vec::with_capacity(total),
            places: Vec::with_capacity(total),
            silent: false,
            shown: 0,
            more: 0,
        };
        for rule in &declared.inline {
            self.rule_of_list(&mut making, &rule.value, rule.span, true);
        }
        for file in &declared.files {
            let Some(source) = file.source else { continue };
            if file.lines.is_empty() && !self.has_errors(source) {
                let message = format!("`{}` has no rules", file.path.value);
                self.report(Diagnostic::warning(Code::EmptyFile, file.path.span, message));
            }
            for line in &file.lines {
                self.rule_of_list(&mut making, &line.rule, Span { source, start: line.start, end: line.end }, false);
            }
        }
        if making.more > 0 {
            let message = format!(
                "there is more to say of the rules of this list than is shown: {}",
                super::super::super::plural(making.more, "further finding")
            );
            self.report(Diagnostic::error(Code::More, declared.name.span, message));
        }
        self.access.places.push(making.places);
        // Also a list that no interface names: it is compiled where one is added, and looked through by the check.
        self.boxes(making.rules.iter(), "its groups the list comes", declared.name.span);
        AclList {
            name: declared.name.value.clone(),
            rules: making.rules.into(),
            default: declared.default,
            sample: declared.sample.as_ref().and_then(|sample| self.sampling(sample)),
            origin: self.origin(declared.name.span),
        }
    }

    /// Whether errors were found in a text.
    pub(in super::super) fn has_errors(&self, source: SourceId) -> bool {
        let is_of = |found: &&Diagnostic| found.primary.as_ref().is_some_and(|place| place.span.source == source);
        self.diagnostics.iter().filter(is_of).any(|found| found.severity == Severity::Error)
    }

    /// Makes a rule, which stands in a string or in a line of a file.
    fn rule_of_list(&mut self, making: &mut Making<'_>, rule: &Rule, span: Span, string: bool) {
        let Some(made) = self.acl_rule(rule, span, string, |resolver, found| resolver.tell(making, found)) else {
            return;
        };
        let name = &making.declared.name;
        if made.log && making.declared.sample.is_none() && !making.declared.lost_sample && !making.silent {
            making.silent = true;
            let message = format!("the rule logs, but the list `{}` has no `sample`", name.value);
            let found = Diagnostic::error(Code::MissingKey, span, message).related(name.span, "the list");
            self.tell(making, found.help("write `sample = { one-in = 100, to = \"…\" }`, with the name of a sampler"));
        }
        let (boxes, limit) = (boxes::count(&made), self.declared.settings.limits.acl_rules);
        if boxes as u64 > u64::from(limit) {
            let message = format!(
                "with each member of its groups the rule comes to {boxes} rules, more than the limit of {limit}"
            );
            self.beyond_acl_rules(Diagnostic::error(Code::LimitExceeded, span, message));
            return;
        }
        making.rules.push(made);
        making.places.push(span);
    }

    /// Resolves a rule; calls the closure for each error in its names.
    pub(in super::super) fn acl_rule(
        &mut self,
        rule: &Rule,
        span: Span,
        string: bool,
        mut tell: impl FnMut(&mut Self, Diagnostic),
    ) -> Option<AclRule> {
        for group in rule.groups() {
            if let Some(&at) = self.access.groups.by_name.get(group) {
                self.access.groups.used[usize::from(at)] = true;
            }
        }
        let origin = self.origin(span);
        let wrong = match rule.model(&self.access.vocabulary, origin) {
            Ok(rule) => {
                if rule.action == AclAction::Reflect && are_groups(&rule.to) {
                    let message =
                        "packets to multicast and broadcast destinations open no session: this rule only permits";
                    let found = Diagnostic::warning(Code::NeedlessReflect, span, message);
                    tell(self, found.help("write `permit`, and a rule for the other direction"));
                }
                if rule.action == AclAction::Reflect
                    && !self.declared.settings.flow_table.tcp_pickup
                    && begins_none(&rule)
                {
                    let message = "without `tcp-pickup`, no packet with these flags opens a session: packets that this rule \
                                   matches are dropped as `session-pickup`";
                    let found = Diagnostic::warning(Code::NeedlessReflect, span, message);
                    tell(self, found.help("match SYN alone, `tcp-flags syn/syn,ack`, or leave the flags out"));
                }
                return Some(rule);
            }
            Err(wrong) => wrong,
        };
        let text = self.sources.source(span.source).text.get(span.range()).unwrap_or_default();
        // A string's quotes are none of the rule. Escapes stand in comments alone, behind the names.
        let quotes: &[char] = if string { &['"', '\''] } else { &[] };
        let before = (text.len() - text.trim_start_matches(quotes).len()) as u32;
        let text = text.trim_matches(quotes).to_owned();
        for wrong in wrong {
            if !self.is_wrong(&wrong) {
                continue;
            }
            let finding = wrong.finding(&text);
            let start = span.start + before;
            let place =
                Span { start: start + finding.range.start as u32, end: start + finding.range.end as u32, ..span };
            tell(self, diagnostic(&finding, place));
        }
        None
    }

    /// Reports one of the first findings of a list's rules; of the others, how many there are.
    fn tell(&mut self, making: &mut Making<'_>, found: Diagnostic) {
        if making.shown == SHOWN {
            making.more += 1;
            return;
        }
        making.shown += 1;
        self.report(found);
    }

    /// That there are more rules than there may be.
    pub(super) fn beyond_acl_rules(&mut self, found: Diagnostic) {
        self.report(match self.declared.settings.acl_rules_span {
            Some(span) => found.related(span, "the limit"),
            None => found.help("raise `acl-rules` under `[limits]`"),
        });
    }

    /// Checks the lists of interfaces in one direction against the limit; warns of lists that never apply.
    pub(in super::super) fn chains(&mut self, lists: &[AclList], interfaces: &[Interface]) {
        let declared = self.declared;
        let mut seen: HashSet<&[AclIndex]> = HashSet::new();
        for (at, of) in declared.interfaces.iter().enumerate() {
            let Some(interface) = self.index_of[at].and_then(|index| interfaces.get(index.0 as usize)) else {
                continue;
            };
            let directions =
                [(&interface.access.acl_in, &of.access.acl_in), (&interface.access.acl_out, &of.access.acl_out)];
            for (chain, names) in directions {
                // Errors in names were reported.
                if chain.len() == names.len() && !chain.is_empty() && seen.insert(chain) {
                    self.chain(lists, chain, names);
                }
            }
        }
    }

    /// Warns of lists that open sessions where no list could refuse their replies.
    pub(in super::super) fn needless_reflect(&mut self, lists: &[AclList], interfaces: &[Interface]) {
        let zone = |interface: &Interface| (interface.vrf, interface.zone.clone());
        let reflects = |index: &AclIndex| {
            let rules = &lists[usize::from(index.0)].rules;
            rules.iter().any(|rule| rule.action == AclAction::Reflect)
        };
        let declared = self.declared;
        for (at, of) in declared.interfaces.iter().enumerate() {
            let Some(interface) = self.index_of[at].and_then(|index| interfaces.get(index.0 as usize)) else {
                continue;
            };
            let Access { acl_in, acl_out, .. } = &interface.access;
            for (chain, names, output) in [(acl_in, &of.access.acl_in, false), (acl_out, &of.access.acl_out, true)] {
                let others = interfaces.iter().filter(|other| zone(other) == zone(interface));
                let mut others = others.map(|other| if output { &other.access.acl_in } else { &other.access.acl_out });
                let Some(name) = chain.iter().position(reflects).and_then(|at| names.get(at)) else { continue };
                if others.any(|lists| !lists.is_empty()) {
                    continue;
                }
                let direction = if output { "ingress" } else { "egress" };
                let message = format!(
                    "the sessions of `{}` permit nothing here: no interface of the zone has a list for {direction}",
                    name.value
                );
                let found = Diagnostic::warning(Code::NeedlessReflect, name.span, message);
                self.report(found.help(format!("replies pass without sessions; `permit` costs less than `permit+reflect`, or name a list for {direction}")));
            }
        }
    }

    fn chain(&mut self, lists: &[AclList], chain: &[AclIndex], names: &[At<String>]) {
        let of = |index: &AclIndex| &lists[usize::from(index.0)];
        if let Some(last) = chain.iter().position(|index| of(index).default != AclDefault::Next) {
            for name in &names[last + 1..] {
                let decides = &names[last].value;
                let message = format!("the list `{}` never applies: `{decides}` decides about all packets", name.value);
                let found = Diagnostic::warning(Code::ShadowedList, name.span, message);
                let found = found.related(names[last].span, "this one");
                self.report(found.help("a list goes on to the next one by `default = \"next\"`"));
            }
        }
        if let [_] = chain {
            // It has been held against the limit by itself.
            return;
        }
        let rules = chain.iter().flat_map(|index| of(index).rules.iter());
        self.boxes(rules, "their groups these lists come", names[0].span);
    }

    /// Refuses rules that come to more than there may be when each combination of members of their groups counts.
    fn boxes<'r>(&mut self, rules: impl Iterator<Item = &'r AclRule> + Clone, whose: &str, span: Span) {
        let limit = self.declared.settings.limits.acl_rules;
        for (family, word) in [(IpFamily::V4, "IPv4"), (IpFamily::V6, "IPv6")] {
            let boxes = rules.clone().map(|rule| boxes::count_of(rule, family)).fold(0, usize::saturating_add);
            if boxes as u64 > u64::from(limit) {
                let message =
                    format!("with each member of {whose} to {boxes} rules of {word}, more than the limit of {limit}");
                self.beyond_acl_rules(Diagnostic::error(Code::LimitExceeded, span, message));
                return;
            }
        }
    }
}

/// All addresses are of groups, or the broadcast address of any link.
/// Whether a rule matches packets in mid-stream of TCP alone: those without SYN, with ACK or with FIN.
fn begins_none(rule: &AclRule) -> bool {
    let Transport::Ports { flags: Some(TcpFlags { value, mask }), .. } = rule.transport else { return false };
    let [syn, later] = [Flags::SYN.0, Flags::ACK.0 | Flags::FIN.0];
    value & later != 0 || mask & syn != 0 && value & syn == 0
}

fn are_groups(addresses: &Addresses) -> bool {
    let is_group = |address: IpAddr| address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST);
    match addresses {
        Addresses::Any => false,
        // The addresses between two multicast addresses of a family are multicast addresses.
        Addresses::Net(net) => is_group(net.network()) && is_group(net.broadcast()),
        Addresses::Range(first, last) => {
            is_group(*first) && is_group(*last) && first.is_multicast() == last.is_multicast()
        }
        Addresses::Group(group) => group.members.iter().all(are_groups),
    }
}
