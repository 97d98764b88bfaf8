//! Stages: another action than the configured one, put into force while the gateway runs.

use serde::{Deserialize, Serialize};
use weir_plane::model::SavAction;

/// The word for packets that go on and are counted.
pub const MONITOR: &str = "monitor";

/// The word for the action that is configured.
pub const CONFIGURED: &str = "configured";

/// The body of `POST /v1/sav/POLICY/stage`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageRequest {
    /// `monitor`, `rate-limit`, `redirect`, `discard` or `configured`.
    pub stage: String,
}

/// The action of a stage; `None`: that which is configured.
///
/// # Errors
/// Says that there is no such stage.
pub fn read(stage: &str) -> Result<Option<SavAction>, String> {
    match stage {
        MONITOR => Ok(Some(SavAction::Permit)),
        CONFIGURED => Ok(None),
        _ => match SavAction::ALL.into_iter().find(|action| action.name() == stage) {
            Some(action) => Ok(Some(action)),
            None => Err(format!(
                "there is no stage `{}`; there are monitor, rate-limit, redirect, discard and configured",
                stage.escape_debug()
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_have_names() {
        assert_eq!(read("monitor"), Ok(Some(SavAction::Permit)));
        assert_eq!(read("permit"), Ok(Some(SavAction::Permit)));
        assert_eq!(read("redirect"), Ok(Some(SavAction::Redirect)));
        assert_eq!(read("configured"), Ok(None));
        assert!(read("off").unwrap_err().starts_with("there is no stage `off`; there are monitor"));
    }
}
