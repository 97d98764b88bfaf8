//! Policies, as they are declared.

use weir_plane::model::{Alarm, LinkCheck, Match, RateLimit, SavAction, SavLayout, SpecialSources, UrpfMode};

use super::super::super::source::{At, SourceId, Span};
use super::super::Path;
use super::super::sampler::Sampling;
use crate::rules::{Format, Line, Rule, acl};

/// A policy of source address validation.
pub(in super::super::super) struct Policy {
    pub(in super::super::super) name: At<String>,
    /// `None`: it could not be read.
    pub(in super::super::super) mechanism: Option<Mechanism>,
    pub(in super::super::super) response: Response,
    pub(in super::super::super) sample: Option<Sampling>,
    /// Packets that are not validated.
    pub(in super::super::super) exempt: Vec<At<acl::Rule>>,
    pub(in super::super::super) special: SpecialSources,
}

/// The mechanism of a policy.
pub(in super::super::super) enum Mechanism {
    /// Nothing: the policy is switched off.
    None,
    Acl(RuleList),
    Urpf {
        mode: UrpfMode,
        default_route: bool,
        vrf: Option<At<String>>,
    },
    Table {
        rules: RuleList,
        matching: Match,
        layout: SavLayout,
    },
}

impl Mechanism {
    /// Its rules, if it has any.
    pub(in super::super::super) fn rules_mut(&mut self) -> Option<&mut RuleList> {
        match self {
            Mechanism::Acl(rules) | Mechanism::Table { rules, .. } => Some(rules),
            Mechanism::None | Mechanism::Urpf { .. } => None,
        }
    }
}

/// The rules of a policy.
#[derive(Default)]
pub(in super::super::super) struct RuleList {
    pub(in super::super::super) incremental: bool,
    pub(in super::super::super) hits: bool,
    /// The rules in the policy itself, and the strings that they are read from.
    pub(in super::super::super) inline: Vec<At<Rule>>,
    pub(in super::super::super) files: Vec<RuleFile>,
}

/// A file of rules.
pub(in super::super::super) struct RuleFile {
    pub(in super::super::super) path: At<String>,
    pub(in super::super::super) format: Format,
    /// The file, once read, and its rules.
    pub(in super::super::super) source: Option<SourceId>,
    pub(in super::super::super) lines: Vec<Line>,
}

/// The actions for invalid packets.
pub(in super::super::super) struct Response {
    pub(in super::super::super) action: SavAction,
    pub(in super::super::super) rate_limit: Option<Limit>,
    /// Where packets go.
    pub(in super::super::super) redirect: Vec<Path>,
    /// Some of that could not be read.
    pub(in super::super::super) lost_redirect: bool,
    pub(in super::super::super) link_check: LinkCheck,
    pub(in super::super::super) alarm: Option<Alarm>,
}

/// How many of them pass.
pub(in super::super::super) struct Limit {
    pub(in super::super::super) limit: RateLimit,
    /// Where it says what has a limit of its own.
    pub(super) per: Option<Span>,
}
