//! `weir save`: the running configuration as files.

use serde::{Deserialize, Serialize};

use super::Report;

/// The files of the running configuration, as far as they differ from those in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Saved {
    /// The main file.
    pub file: String,
    /// Files that differ.
    pub files: Vec<SavedFile>,
    /// The whole configuration as one file, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<String>,
    /// What is not saved, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFile {
    /// Its path, absolute.
    pub path: String,
    /// Its text in force.
    pub before: String,
    /// Its text with the live edits.
    pub text: String,
}

impl Report for Saved {
    const SCHEMA: &'static str = "weir.saved/1";

    fn text(&self) -> String {
        self.whole.clone().unwrap_or_else(|| self.files.iter().map(|file| format!("{}\n", file.path)).collect())
    }
}
