//! A finding about the host.

use serde::{Deserialize, Serialize};

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// As it should be.
    Fine,
    /// Costs speed or memory.
    Advice,
    /// Prevents the start, loses packets, forwards them twice, or bypasses policies.
    Problem,
}

/// A finding about the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// Its weight.
    pub level: Level,
    /// The examined part of the host, such as `huge pages` or `interface lan`.
    pub subject: String,
    /// The fact, and its effect.
    pub what: String,
    /// The command that mends it; `None` if there is none, or nothing to mend.
    pub command: Option<String>,
}

impl Finding {
    /// Something is as it should be.
    pub(super) fn fine(subject: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { level: Level::Fine, subject: subject.into(), what: what.into(), command: None }
    }

    /// Something costs speed or memory.
    pub(super) fn advice(subject: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { level: Level::Advice, ..Finding::fine(subject, what) }
    }

    /// Something is in the way.
    pub(crate) fn problem(subject: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { level: Level::Problem, ..Finding::fine(subject, what) }
    }

    /// Adds the command that mends it.
    #[must_use]
    pub(crate) fn mended_by(self, command: impl Into<String>) -> Finding {
        Finding { command: Some(command.into()), ..self }
    }
}
