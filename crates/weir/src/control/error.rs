//! Errors of a running gateway.

use crate::config::Loaded;

/// A node that the graph does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no node `{node}`; there are {}", nodes.join(", "))]
pub struct UnknownNode {
    /// What was asked for.
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
    /// Something changed that a running gateway cannot change.
    #[error("{0}; the old configuration goes on")]
    NeedsRestart(String),
    /// The gateway has no file to read.
    #[error("the gateway runs a built-in configuration: there is no file to reload")]
    NoFile,
    /// It could not be run.
    #[error("{0}; the old configuration goes on")]
    Failed(String),
}
