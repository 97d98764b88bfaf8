//! The configuration that a command was given.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use weir_plane::model::Gateway;

use super::error::Error;
use super::output::{colour, print};
use crate::config::{self, Loaded};

/// Reads it; what is wrong with it is said as `weir check` says it.
///
/// # Errors
/// [`Error::InvalidConfig`] when it is invalid.
pub(super) fn load(path: &Path, json: bool) -> Result<Gateway, Error> {
    valid(config::load(path), json)
}

/// Returns a configuration if it is valid; else reports its problems as `weir check` does.
///
/// # Errors
/// [`Error::InvalidConfig`] when it is invalid.
pub(super) fn valid(loaded: Loaded, json: bool) -> Result<Gateway, Error> {
    if json && loaded.gateway.is_none() {
        print(&(loaded.json() + "\n"))?;
    } else {
        let text = loaded.text(colour(std::io::stderr().is_terminal()));
        // A failure to write the report cannot be reported.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    loaded.gateway.ok_or(Error::InvalidConfig)
}
