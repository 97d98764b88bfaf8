//! The changes of `weir steer`.

use serde::{Deserialize, Serialize};

use super::{Report, nat_changed};

/// The changes of a list of steer rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Changed(pub nat_changed::Changed);

impl Report for Changed {
    const SCHEMA: &'static str = "weir.steer.changed/1";

    fn text(&self) -> String {
        self.0.text()
    }
}
