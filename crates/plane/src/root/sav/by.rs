//! The mechanisms and checks that find packets not valid.

use crate::model::{Mechanism, Urpf, UrpfMode};
use crate::reason::Reason;

/// The check that found a packet invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum By {
    /// An ordered list.
    Acl,
    /// The route back to its source leads elsewhere.
    UrpfStrict,
    /// There is no route back to its source.
    UrpfLoose,
    /// All routes back to its source lead elsewhere.
    UrpfFeasible,
    /// The table of sources.
    Table,
    /// Its source is a special address.
    Special,
    /// It came from another station than the neighbour to which the route back leads.
    Link,
}

impl By {
    /// All of them, in order.
    pub const ALL: [By; 7] =
        [By::Acl, By::UrpfStrict, By::UrpfLoose, By::UrpfFeasible, By::Table, By::Special, By::Link];

    /// The mechanism of a policy.
    pub const fn of(mechanism: &Mechanism) -> By {
        match mechanism {
            Mechanism::Acl(_) => By::Acl,
            Mechanism::Urpf(Urpf { mode: UrpfMode::Strict, .. }) => By::UrpfStrict,
            Mechanism::Urpf(Urpf { mode: UrpfMode::Loose, .. }) => By::UrpfLoose,
            Mechanism::Urpf(Urpf { mode: UrpfMode::Feasible, .. }) => By::UrpfFeasible,
            Mechanism::Table { .. } => By::Table,
        }
    }

    /// As counters and commands name it.
    pub const fn name(self) -> &'static str {
        match self {
            By::Acl => "acl",
            By::UrpfStrict => "urpf-strict",
            By::UrpfLoose => "urpf-loose",
            By::UrpfFeasible => "urpf-feasible",
            By::Table => "table",
            By::Special => "special",
            By::Link => "link",
        }
    }

    /// Why a packet is dropped that it found not valid.
    pub const fn reason(self) -> Reason {
        match self {
            By::Acl => Reason::SavAcl,
            By::UrpfStrict => Reason::SavUrpfStrict,
            By::UrpfLoose => Reason::SavUrpfLoose,
            By::UrpfFeasible => Reason::SavUrpfFeasible,
            By::Table => Reason::SavTable,
            By::Special => Reason::SavSpecial,
            By::Link => Reason::SavLink,
        }
    }

    /// Returns the check behind a drop reason, if the reason is one of source address validation.
    pub fn of_reason(reason: Reason) -> Option<By> {
        By::ALL.into_iter().find(|by| by.reason() == reason)
    }
}
