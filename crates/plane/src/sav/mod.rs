//! Source address validation, as the nodes see it: validators, of which the root has some for each family, and interfaces
//! name one each (`docs/sav.md` explains the mechanisms).
//!
//! A policy of the model becomes a validator for each way in which its answers differ by interface: by VRF, where routes
//! are looked up in that of the interface, and by line card, where each has tables of its own. What they have in common
//! is that one look finds a word for a source, and one bit of what this word stands for says whether the interface is
//! right.

mod answers;
mod counters;
mod exempt;
mod hits;
mod meters;
mod sources;
mod special;
mod validator;

use std::sync::Arc;

pub use answers::{Answer, answers};
pub use counters::SavCounters;
pub use exempt::Exempt;
pub use hits::Hits;
pub use meters::{Clock, Meters};
pub(crate) use sources::ENTRIES;
pub use sources::{Lost, PLACES, PREFIX_LENGTHS, Sources, Spoofed};
pub use special::{Broadcasts, Class, class_v4, class_v6};
pub use validator::{Check, Family, Finding, Paths, Reverse, Validator};
pub(crate) use validator::{Interfaces, One};

use crate::model::{Mechanism, PerFamily, Urpf, UrpfMode};
use crate::reason::Reason;

/// The interface has no validator.
pub const NONE: u16 = u16::MAX;

/// The validators of a root.
#[derive(Clone, Default)]
pub struct Validators {
    /// Of IPv4, by number.
    pub v4: Arc<[Validator<u32>]>,
    /// Of IPv6.
    pub v6: Arc<[Validator<u128>]>,
    /// The interfaces of each multipath set.
    pub reverse: Reverse,
    /// The adjacencies of each multipath set.
    pub paths: Paths,
    /// Families of which some packets are exempt.
    pub exempts: PerFamily<bool>,
}

impl Validators {
    /// Nothing is validated.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

/// What found a packet not valid.
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
    /// It came from another station than the neighbour whom its source is behind.
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

    /// What dropped a packet for a reason, if that reason is one of source address validation.
    pub fn of_reason(reason: Reason) -> Option<By> {
        By::ALL.into_iter().find(|by| by.reason() == reason)
    }
}
