//! The decisions of access lists and allowlists about a packet.

use serde::Serialize;
use weir_plane::acl::Action;
use weir_plane::compile::{AclDecision, Listed, Named};
use weir_plane::harness::{Filtered, Harness, Outcome, Piece};
use weir_plane::model::{AclDefault, Gateway, Place};
use weir_plane::record::{Fragmented, Role, Upper};

use super::validation::Rule;
use crate::control::acl::live::written;
use crate::rules::acl::protocol_name;
use crate::rules::binding::Binding;
use crate::rules::{Names, acl};

/// The decision of an interface's access lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Filter {
    /// The interface of the lists.
    pub interface: String,
    /// `in` or `out`.
    pub direction: &'static str,
    /// The list that decided.
    pub list: String,
    /// `permit`, `deny` or `reject`.
    pub action: &'static str,
    /// No rule matched: this is what the list does then.
    pub by_default: bool,
    /// The rule that decided.
    pub by: Rule,
    /// How the packet belongs to a session that the rule opened: `opens`, `original`, `reply`, or `error` for an ICMP error
    /// about a packet of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<&'static str>,
}

/// The treatment of a fragment by an interface's access lists, if a rule matches fields that only first fragments have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Fragment {
    /// The interface whose lists they are.
    pub interface: String,
    /// `in` or `out`.
    pub direction: &'static str,
    /// `given`: rules saw what the first fragment says. `waits`: for that one. `no-room`: to wait. `refused`: it and others
    /// do not go together, or a header is not whole.
    pub fragment: &'static str,
    /// The fields of the first fragment, if rules used them.
    pub first: Option<String>,
}

/// The verdict of an allowlist on a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Allowed {
    /// The list.
    pub list: String,
    /// It contains the source.
    pub contains: bool,
    /// The longest of its prefixes that covers the source, if one does.
    pub within: Option<Rule>,
    /// Where the list was declared.
    pub by: Option<String>,
}

/// The decision of bindings about the sender of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// Their name.
    pub list: String,
    /// They let the hardware address use its source.
    pub permit: bool,
    /// The hardware address.
    pub mac: String,
    /// The rule that says so; `None`: none matches.
    pub by: Option<Rule>,
}

/// Returns the treatment of a fragment by access lists.
pub(super) fn fragments(names: &[String], outcome: &Outcome) -> Vec<Fragment> {
    let of = |piece: &Piece| {
        let (fragment, first) = match piece.fragmented {
            Fragmented::Given(protocol, upper) => ("given", Some(transport(protocol, upper))),
            Fragmented::Waits => ("waits", None),
            Fragmented::NoRoom => ("no-room", None),
            Fragmented::Refused => ("refused", None),
        };
        let interface = names.get(piece.interface as usize).cloned().unwrap_or_default();
        Fragment { interface, direction: if piece.output { "out" } else { "in" }, fragment, first }
    };
    outcome.fragments.iter().map(of).collect()
}

/// Formats the transport header of a first fragment in the words of rules.
fn transport(protocol: u8, upper: Upper) -> String {
    let name = protocol_name(protocol).map_or_else(|| format!("protocol {protocol}"), str::to_owned);
    match upper {
        Upper::Ports(from, to, None) => format!("{name} port {from} to port {to}"),
        Upper::Ports(from, to, Some(flags)) => format!("{name} port {from} to port {to} flags {flags:#04x}"),
        Upper::Icmp(kind, code) => format!("{name} type {kind} code {code}"),
        Upper::Bare => name,
    }
}

/// Returns the decision of bindings.
pub(super) fn bound(harness: &Harness, outcome: &Outcome) -> Option<Bound> {
    let decision = outcome.bindings?;
    let list = harness.model().bindings.get(usize::from(decision.list.0))?;
    let by = decision.rule.and_then(|rule| list.rules.get(rule)).map(|rule| {
        let text = Binding::of(rule).to_string();
        Rule::new(harness, &Named { text, origin: rule.origin, said: None })
    });
    Some(Bound { list: list.name.clone(), permit: decision.permit, mac: decision.mac.to_string(), by })
}

/// The place of the rule that does not let a hardware address use its source, or of the list where none matches.
pub(super) fn not_bound_by(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    let decision = outcome.bindings?;
    let list = harness.model().bindings.get(usize::from(decision.list.0))?;
    let rule = decision.rule.and_then(|rule| list.rules.get(rule));
    harness.place(rule.map_or(list.origin, |rule| rule.origin))
}

fn action(action: Action) -> &'static str {
    match action {
        Action::Permit => "permit",
        Action::Deny => "deny",
        Action::Reject => "reject",
    }
}

/// Returns the decisions of access lists, in order.
pub(super) fn filters(harness: &Harness, names: &[String], outcome: &Outcome) -> Vec<Filter> {
    outcome.acl.iter().map(|filtered| filter(harness, names, filtered)).collect()
}

fn filter(harness: &Harness, names: &[String], filtered: &Filtered) -> Filter {
    let Filtered { interface, output, decision, session } = filtered;
    Filter {
        interface: names.get(*interface as usize).cloned().unwrap_or_default(),
        direction: if *output { "out" } else { "in" },
        list: decision.list.clone(),
        action: action(decision.action),
        by_default: decision.rule.is_none(),
        by: Rule::new(harness, &acl_rule(harness.model(), decision)),
        session: session.map(Role::name),
    }
}

/// The rule that decided, or what its list does by default.
pub(crate) fn acl_rule(gateway: &Gateway, decision: &AclDecision) -> Named {
    let list = gateway.acls.iter().find(|list| list.name == decision.list);
    let text = match &decision.rule {
        Some((_, rule)) => written(gateway, rule),
        None if list.is_none_or(|list| list.default == AclDefault::Next) => "behind the last list: deny".to_owned(),
        None => format!("{} by default", action(decision.action)),
    };
    let said = decision.said.as_ref().map(|said| (said.source.to_string(), said.time));
    Named { text, origin: decision.origin, said }
}

/// Returns the verdicts of allowlists in order, up to the one that refused.
pub(super) fn allowed(harness: &Harness, outcome: &Outcome) -> Vec<Allowed> {
    let of = |listed: &Listed| {
        let list = &harness.model().allowlists[usize::from(listed.list.0)];
        let within = listed
            .within
            .map(|(prefix, origin)| Rule::new(harness, &Named { text: prefix.to_string(), origin, said: None }));
        let by = harness.place(list.origin).map(|place| place.to_string());
        Allowed { list: list.name.clone(), contains: listed.contains, within, by }
    };
    outcome.allow.iter().map(of).collect()
}

/// The place of the rule or list that refused a packet.
pub(super) fn refused_by(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    harness.place(outcome.acl.last()?.decision.origin)
}

/// The place of the first rule for whose sake a fragment waits for the first of its packet, or is dropped as that did not
/// come, or does not go with it: of the lists of the interface that came to it last.
pub(super) fn asked_by(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    harness.place(outcome.fragments.last()?.asked_by?)
}

/// The place of the allowlist that refused a source, or of the route of its routing domain that discards it.
pub(super) fn not_allowed_by(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    let listed = outcome.allow.iter().find(|listed| !listed.contains)?;
    let within = listed.within.and_then(|(_, origin)| harness.place(origin));
    within.or_else(|| harness.place(harness.model().allowlists[usize::from(listed.list.0)].origin))
}

impl Filter {
    /// In a sentence, without its rule.
    pub(super) fn sentence(&self) -> String {
        let Filter { interface, list, action, by_default, .. } = self;
        let does = match *action {
            "permit" => "permits",
            "reject" => "rejects",
            _ => "denies",
        };
        // The list that opened a session may be one for the other direction.
        let packet = match self.session {
            Some("opens") => return format!("{list} on {interface} {does}: opens a session"),
            Some("original") => "belongs to it",
            Some("reply") => "is a reply of it",
            Some(_) => "is an ICMP error about it",
            None if *by_default => return format!("{list} on {interface} {does}: no rule matches"),
            None => return format!("{list} on {interface} {does}"),
        };
        format!("a session of {list} {does} on {interface}: the packet {packet}")
    }

    /// The rule, where the line of its place does not say which it is: others stand there, too.
    pub(super) fn rule_beside(&self) -> Option<&str> {
        let text = self.by.text.as_deref().filter(|_| !self.by_default)?;
        if text.matches(['"', '\'']).count() <= 2 {
            return None; // one string at most
        }
        // Of several, one may be the rule and the others within it, as a comment is.
        let text = text.trim().trim_end_matches(',');
        let inside = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
        let text = inside('"').or_else(|| inside('\'')).unwrap_or(text);
        let is_rule = |text: &str| {
            acl::parse(text, &mut Names::default()).is_ok_and(|(rule, _)| rule.to_string() == self.by.rule)
        };
        let alone = is_rule(text) || is_rule(&unescaped(text));
        // Where the line does not have the rule as it prints, its own lines begin with it.
        (!alone && self.by.lines().len() == 1).then_some(&self.by.rule)
    }
}

/// The inside of a string of TOML, without the backslashes before quotes and backslashes.
fn unescaped(text: &str) -> String {
    let mut characters = text.chars();
    std::iter::from_fn(|| match characters.next()? {
        '\\' => characters.next(),
        c => Some(c),
    })
    .collect()
}

impl Fragment {
    /// In a sentence. `waits`: it still does.
    pub(super) fn sentence(&self, waits: bool) -> String {
        let Fragment { interface, fragment, first, .. } = self;
        let of_lists = format!("lists on {interface} match fields that only it has");
        match (*fragment, first) {
            (_, Some(first)) => format!("for the lists on {interface} it has what the first fragment says: {first}"),
            ("waits", None) if waits => format!("waits for the first fragment of its packet: {of_lists}"),
            ("waits", None) => format!("waited for the first fragment of its packet, in vain: {of_lists}"),
            ("no-room", None) => format!("cannot wait for the first fragment of its packet: {of_lists}"),
            _ => {
                let why = "it and another one do not go together, or a header is not whole";
                format!("refused before the lists on {interface}: {why}")
            }
        }
    }
}

impl Bound {
    /// In a sentence, without its rule.
    pub(super) fn sentence(&self) -> String {
        let Bound { list, permit, mac, by } = self;
        match (permit, by) {
            (true, _) => format!("{list} permits {mac}"),
            (false, Some(_)) => format!("{list} denies {mac}"),
            (false, None) => format!("{list} denies {mac}: no rule matches"),
        }
    }
}

impl Allowed {
    /// In a sentence, without what it is within.
    pub(super) fn sentence(&self) -> String {
        let Allowed { list, contains, .. } = self;
        format!("{list} {} the source", if *contains { "contains" } else { "does not contain" })
    }
}
