//! Changes that can be compared, saved, taken back and confirmed.

use std::path::Path;
use std::time::Duration;

use weir_plane::engine::LostEdit;

use super::ReloadError;
use super::refusal::Refusal;
use crate::render::diff::Diff;
use crate::render::history::{Confirmed, History, Undone};
use crate::render::reloaded::Reloaded;
use crate::render::saved::Saved;

/// A gateway whose changes can be taken back.
pub trait Safe {
    /// Compares the running configuration with the file as it is now; `loaded`: as it was loaded.
    ///
    /// # Errors
    /// When there is no file, or it cannot be read.
    fn diff(&self, loaded: bool) -> Result<Diff, Box<Refusal>>;

    /// Returns the files of the running configuration that differ from those in force; or the whole of it as one file in a
    /// folder.
    ///
    /// # Errors
    /// When there is no file, or something of the running configuration cannot stand in one.
    fn saved(&self, folder: Option<&Path>) -> Result<Saved, Box<Refusal>>;

    /// Returns the changes that can be taken back.
    fn history(&self) -> History;

    /// Takes the last changes back, all of them or none.
    ///
    /// # Errors
    /// When there are not so many, or one of them cannot be taken back.
    fn undo(&self, count: usize) -> Result<Undone, Box<Refusal>>;

    /// Reloads as [`super::Gateway::reload`] does, and goes back after a time unless the reload is confirmed.
    ///
    /// # Errors
    /// As there.
    fn reload_for(&self, lost: LostEdit, time: Duration) -> Result<Reloaded, ReloadError>;

    /// Confirms a reload.
    ///
    /// # Errors
    /// When none waits for it.
    fn confirm(&self) -> Result<Confirmed, Box<Refusal>>;
}
