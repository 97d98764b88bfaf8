//! The changes of `weir binding`.

use serde::{Deserialize, Serialize};

use super::{Report, nat_changed};

/// The changes of a list of bindings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Changed(pub nat_changed::Changed);

impl Report for Changed {
    const SCHEMA: &'static str = "weir.binding.changed/1";

    fn text(&self) -> String {
        self.0.text()
    }
}
