//! The ways in which the gateway under test validates, and on which side of it.

use serde::{Deserialize, Serialize};

use weir_plane::model::{Match, Mechanism, SavLayout, SavRule, SavRules, Urpf, UrpfMode};

use super::world::Side;

/// A mechanism, and for tables who fills them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// No validation.
    None,
    /// A list that the operator wrote when neighbours were connected, from what they said they have.
    Acl,
    /// Strict uRPF (RFC 3704, 2.2).
    UrpfStrict,
    /// Feasible-path uRPF (RFC 3704, 2.3).
    UrpfFeasible,
    /// Loose uRPF (RFC 3704, 2.4).
    UrpfLoose,
    /// A table of algorithm A of enhanced feasible-path uRPF on customers' interfaces (RFC 8704), loose uRPF on others.
    TableEfpA,
    /// The same of algorithm B.
    TableEfpB,
    /// A table that a SAVNET controller fills from the reports of all gateways.
    TableSavnet,
    /// The same with only one customer and the gateway under test as participants.
    TableSavnetPart,
}

impl Way {
    /// All of them, in the order of reports.
    pub const ALL: [Way; 9] = [
        Way::None,
        Way::Acl,
        Way::UrpfStrict,
        Way::UrpfFeasible,
        Way::UrpfLoose,
        Way::TableEfpA,
        Way::TableEfpB,
        Way::TableSavnet,
        Way::TableSavnetPart,
    ];

    /// As reports name it.
    pub const fn name(self) -> &'static str {
        match self {
            Way::None => "none",
            Way::Acl => "acl",
            Way::UrpfStrict => "urpf-strict",
            Way::UrpfFeasible => "urpf-feasible",
            Way::UrpfLoose => "urpf-loose",
            Way::TableEfpA => "table-efp-a",
            Way::TableEfpB => "table-efp-b",
            Way::TableSavnet => "table-savnet",
            Way::TableSavnetPart => "table-savnet-part",
        }
    }

    /// It says something in this kind of network: RFC 8704 is about BGP, and a domain has one operator.
    pub(super) const fn is_for(self, one_domain: bool) -> bool {
        !(one_domain && matches!(self, Way::TableEfpA | Way::TableEfpB | Way::TableSavnetPart))
    }

    /// The policy of an interface by what is behind it; inside a domain nothing is validated.
    pub(super) const fn policy(self, side: Side) -> Option<Policy> {
        match (self, side) {
            (_, Side::Domain) => None,
            (Way::None, _) => Some(Policy::Off),
            (Way::Acl, _) => Some(Policy::Acl),
            (Way::UrpfStrict, _) => Some(Policy::Strict),
            (Way::UrpfFeasible, _) => Some(Policy::Feasible),
            (Way::UrpfLoose, _) => Some(Policy::Loose),
            (Way::TableEfpA | Way::TableEfpB | Way::TableSavnet, Side::Customer | Side::Hosts) => Some(Policy::Table),
            // RFC 8704 recommends loose where transit providers and lateral peers are.
            (Way::TableEfpA | Way::TableEfpB, _) => Some(Policy::Loose),
            // A source that is not in the table may belong to a network that does not participate.
            (Way::TableSavnet | Way::TableSavnetPart, _) => Some(Policy::OpenTable),
        }
    }
}

/// A policy of the gateway under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Policy {
    Off,
    Acl,
    Strict,
    Feasible,
    Loose,
    /// Sources that are not in the table are invalid.
    Table,
    /// Sources that are not in the table are valid, as the table cannot have the whole Internet.
    OpenTable,
}

impl Policy {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Policy::Off => "off",
            Policy::Acl => "acl",
            Policy::Strict => "strict",
            Policy::Feasible => "feasible",
            Policy::Loose => "loose",
            Policy::Table => "table",
            Policy::OpenTable => "open-table",
        }
    }

    /// Returns the mechanism, with these rules if it is a list; `None`: no validation.
    pub(super) fn mechanism(self, list: Vec<SavRule>) -> Option<Mechanism> {
        let rules = |incremental| SavRules { list: list.into(), incremental, hits: false };
        let urpf = |mode| Some(Mechanism::Urpf(Urpf { mode, default_route: false, vrf: None }));
        let table = |rules| Mechanism::Table { rules, matching: Match::MostSpecific, layout: SavLayout::Merged };
        match self {
            Policy::Off => None,
            Policy::Acl => Some(Mechanism::Acl(rules(false))),
            Policy::Strict => urpf(UrpfMode::Strict),
            Policy::Feasible => urpf(UrpfMode::Feasible),
            Policy::Loose => urpf(UrpfMode::Loose),
            Policy::Table => Some(table(rules(false))),
            Policy::OpenTable => Some(table(rules(true))),
        }
    }
}
