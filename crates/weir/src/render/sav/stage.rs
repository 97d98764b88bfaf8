//! The action in force for a policy after a stage was requested.

use serde::{Deserialize, Serialize};

use super::super::Report;
use super::super::time::utc_seconds;

/// The stage of a policy after the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// The policy.
    pub policy: String,
    /// The action that was in force before.
    pub before: String,
    /// The one that is now.
    pub action: String,
    /// The one that is configured.
    pub configured: String,
    /// Since when the action is in force in the place of the configured one, in seconds of the Unix epoch; `None`: it is the
    /// configured one.
    pub since: Option<u64>,
}

impl Report for Staged {
    const SCHEMA: &'static str = "weir.sav.staged/1";

    fn text(&self) -> String {
        let Staged { policy, before, action, configured, since } = self;
        match since {
            Some(since) => format!(
                "{policy}: {action}, was {before}; staged since {}, configured: {configured}\n",
                utc_seconds(*since)
            ),
            None => format!("{policy}: {action}, was {before}; as configured\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{json, read};
    use super::*;

    #[test]
    fn one_line_a_stage() {
        let staged = Staged {
            policy: "edge".into(),
            before: "discard".into(),
            action: "permit".into(),
            configured: "discard".into(),
            since: Some(1_763_718_401),
        };
        assert_eq!(
            staged.text(),
            "edge: permit, was discard; staged since 2025-11-21T09:46:41Z, configured: discard\n"
        );
        assert_eq!(read::<Staged>(&json(&staged)).unwrap(), staged);
        let back = Staged { before: "permit".into(), action: "discard".into(), since: None, ..staged };
        assert_eq!(back.text(), "edge: discard, was permit; as configured\n");
    }
}
