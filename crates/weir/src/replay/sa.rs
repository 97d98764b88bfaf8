//! SAs that encrypted or decrypted a packet.

use serde::Serialize;
use weir_plane::harness::{Harness, Outcome, Secured};
use weir_plane::model::Place;

use super::quoted::{Line, line};

/// A pair of SAs, and what it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Association {
    /// Its name.
    pub name: String,
    /// `out`: it encrypted the packet; `in`: it decrypted the packet, or refused to.
    pub direction: &'static str,
    /// The line that declares it.
    pub by: Option<Line>,
}

impl Association {
    /// The effect in words.
    pub(super) fn sentence(&self) -> String {
        let Association { name, direction, .. } = self;
        if *direction == "out" { format!("{name} encrypts it") } else { format!("{name} decrypts it") }
    }
}

/// The SAs of a packet, in order.
pub(super) fn associations(harness: &Harness, outcome: &Outcome) -> Vec<Association> {
    let of = |&Secured { sa, inbound }: &Secured| {
        let sa = harness.model().sas.get(sa.0 as usize)?;
        let direction = if inbound { "in" } else { "out" };
        Some(Association { name: sa.name.clone(), direction, by: harness.place(sa.origin).map(line) })
    };
    outcome.sas.iter().filter_map(of).collect()
}

/// The place of the SA that a packet came to last.
pub(super) fn last(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    let Secured { sa, .. } = outcome.sas.last()?;
    harness.place(harness.model().sas.get(sa.0 as usize)?.origin)
}
