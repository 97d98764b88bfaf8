//! Errors of a running gateway.

use crate::config::Loaded;

/// A node that the graph does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no node `{node}`; there are {}", nodes.join(", "))]
pub struct UnknownNode {
    /// The name of the request.
    pub node: String,
    /// All there are.
    pub nodes: Vec<String>,
}

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The configuration is invalid; its findings say why.
    #[error("the configuration is invalid; the old one goes on")]
    Invalid(Box<Loaded>),
    /// Live edits do not apply to the configuration, and more packets might pass without them: a line for each.
    #[error("{}", edits_lost(.0))]
    EditsLost(Vec<String>),
    /// Something changed that a running gateway cannot change.
    #[error("{0}; the old configuration goes on")]
    NeedsRestart(String),
    /// An earlier reload waits for its confirmation.
    #[error("{0}")]
    Unconfirmed(String),
    /// The gateway has no file to read.
    #[error("the gateway runs a built-in configuration: there is no file to reload")]
    NoFile,
    /// It could not be run.
    #[error("{0}; the old configuration goes on")]
    Failed(String),
}

fn edits_lost(lines: &[String]) -> String {
    let edits = match lines.len() {
        1 => "a live edit does",
        _ => "live edits do",
    };
    format!(
        "{edits} not apply to the configuration; the old one goes on; add the edits to the file, or end them with \
         `weir reload --drop-changes`"
    )
}
