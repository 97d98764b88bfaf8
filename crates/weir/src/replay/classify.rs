//! The decisions of classifier tables about a packet.

use std::fmt;

use serde::Serialize;
use weir_plane::compile::{ClassifyDecision, Named};
use weir_plane::harness::{Harness, Outcome};
use weir_plane::model::{Gateway, Place};

use super::validation::Rule;
use crate::rules::classify::written;

/// The decision of a classifier table, the last one of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Classified {
    /// The interface.
    pub interface: String,
    /// `in` or `out`.
    pub direction: &'static str,
    /// The table that decided.
    pub table: String,
    /// The packet matched a session of it.
    pub matched: bool,
    /// `permit` or `deny`.
    pub action: &'static str,
    /// The session; the table, if none matched.
    pub by: Rule,
}

/// The name of a table, and the session in words; the table without one.
pub(crate) fn session(model: &Gateway, decision: &ClassifyDecision) -> Option<(String, Named)> {
    let table = model.classify.get(usize::from(decision.table.0))?;
    let (text, origin) = match decision.session {
        Some(place) => {
            let session = table.sessions.get(place)?;
            (written(model, table, session), session.origin)
        }
        None => ("no session matches".to_owned(), table.origin),
    };
    Some((table.name.clone(), Named { text, origin, said: None }))
}

/// Returns the decisions about a packet, in order.
pub(super) fn classified(harness: &Harness, outcome: &Outcome) -> Vec<Classified> {
    let of = |decision: &ClassifyDecision| {
        let (table, named) = session(harness.model(), decision)?;
        Some(Classified {
            interface: harness.interface_name(decision.interface).to_owned(),
            direction: if decision.output { "out" } else { "in" },
            table,
            matched: decision.session.is_some(),
            action: if decision.permit { "permit" } else { "deny" },
            by: Rule::new(harness, &named),
        })
    };
    outcome.classify.iter().filter_map(of).collect()
}

/// The place of the session or table that dropped a packet.
pub(super) fn dropped_by(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    let (_, named) = session(harness.model(), outcome.classify.last()?)?;
    harness.place(named.origin)
}

/// The place of the session that gave a packet its next hop.
pub(super) fn led_by(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    let (_, named) = session(harness.model(), outcome.classify.iter().rfind(|decision| !decision.output)?)?;
    harness.place(named.origin)
}

impl Classified {
    /// In a sentence, without the session.
    pub(super) fn sentence(&self) -> String {
        let Classified { interface, direction, table, action, matched, .. } = self;
        let does = if *action == "permit" { "permits" } else { "denies" };
        let what = if *matched { "it" } else { "packets without a session" };
        format!("{table} {does} {what} ({interface}, {direction})")
    }
}

impl fmt::Display for Classified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Classified { table, direction, action, by, .. } = self;
        write!(f, "{table} {direction} {action} by {}", by.whence())
    }
}
