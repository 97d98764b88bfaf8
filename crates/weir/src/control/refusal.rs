//! How the gateway says no.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ReloadError, UnknownNode};
use crate::render::Report;

/// What stands in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The request is not understood.
    BadRequest,
    /// There is nothing of that name.
    NotFound,
    /// There is something of that name, but not for this method.
    MethodNotAllowed,
    /// The request is longer than any that is understood.
    TooLarge,
    /// The graph has no such node.
    UnknownNode,
    /// The configuration is invalid.
    InvalidConfiguration,
    /// The configuration needs a gateway that is started anew.
    NeedsRestart,
    /// It was tried and failed.
    Failed,
}

impl Kind {
    /// The status of HTTP that says the same.
    pub fn status(self) -> u16 {
        match self {
            Kind::BadRequest => 400,
            Kind::NotFound | Kind::UnknownNode => 404,
            Kind::MethodNotAllowed => 405,
            Kind::NeedsRestart => 409,
            Kind::TooLarge => 413,
            Kind::InvalidConfiguration => 422,
            Kind::Failed => 500,
        }
    }
}

/// A refusal, as it stands in JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Refusal {
    /// What stands in the way.
    pub kind: Kind,
    /// The same in words.
    pub message: String,
    /// All nodes there are, when one was not found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// The findings as `weir check` prints them, when the configuration is invalid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub findings: String,
    /// The findings as `weir check --json` prints them, when the configuration is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Box<RawValue>>,
}

impl Refusal {
    /// A refusal that needs no more than words.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Refusal { kind, message: message.into(), nodes: Vec::new(), findings: String::new(), check: None }
    }

    /// Of a reload; the findings' text is coloured if wanted.
    pub fn of_reload(error: &ReloadError, colour: bool) -> Self {
        let message = error.to_string();
        match error {
            ReloadError::Invalid(loaded) => Refusal {
                findings: loaded.text(colour),
                check: RawValue::from_string(loaded.json()).ok(),
                ..Refusal::new(Kind::InvalidConfiguration, message)
            },
            ReloadError::NeedsRestart(_) => Refusal::new(Kind::NeedsRestart, message),
            ReloadError::NoFile | ReloadError::Failed(_) => Refusal::new(Kind::Failed, message),
        }
    }
}

impl From<UnknownNode> for Refusal {
    fn from(unknown: UnknownNode) -> Self {
        let message = unknown.to_string();
        Refusal { nodes: unknown.nodes, ..Refusal::new(Kind::UnknownNode, message) }
    }
}

impl Report for Refusal {
    const SCHEMA: &'static str = "weir.error/1";

    fn text(&self) -> String {
        format!("{}\n", self.message)
    }
}
