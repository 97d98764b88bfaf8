//! `weir check --against`: what a reload would do.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::Report;
use super::diff::{self, Object};
use super::number::plural;

/// The effects of a reload, found out before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Preview {
    /// The file.
    pub file: String,
    /// The generation in force.
    pub generation: u64,
    /// The reasons for which a reload would be refused.
    pub refused: Vec<String>,
    /// Added objects, in words.
    pub added: Vec<String>,
    /// Removed objects.
    pub removed: Vec<String>,
    /// Changed objects.
    pub changed: Vec<String>,
    /// Interfaces whose ports are closed and opened again.
    pub reopened: Vec<String>,
    /// Live edits that end, with their reasons.
    pub lost: Vec<String>,
    /// Routes that would be in force, of all sources.
    pub routes: usize,
    /// Routes in force.
    pub routes_before: usize,
    /// Sessions in zones whose lists or interfaces change: they are matched again.
    pub sessions: usize,
    /// All sessions.
    pub sessions_total: usize,
    /// Translations that are matched again, as the rules change.
    pub translations: usize,
    /// The lines that differ from the texts in force.
    pub objects: Vec<Object>,
    /// More that is to be said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Report for Preview {
    const SCHEMA: &'static str = "weir.preview/1";

    fn text(&self) -> String {
        let mut text = String::new();
        let Preview { file, generation, routes, routes_before, .. } = self;
        let _ = writeln!(text, "{file} against generation {generation}, routes {routes} (now: {routes_before})");
        for (sign, lines) in [('+', &self.added), ('-', &self.removed), ('~', &self.changed)] {
            for line in lines {
                let _ = writeln!(text, "{sign} {line}");
            }
        }
        for interface in &self.reopened {
            let _ = writeln!(text, "! interface {interface}: its port is closed and opened again");
        }
        for line in &self.lost {
            let _ = writeln!(text, "! {line}");
        }
        if self.sessions > 0 {
            let (sessions, total) = (plural(self.sessions as u64, "session"), self.sessions_total);
            let _ = writeln!(text, "! {sessions} of {total} matched again");
        }
        if self.translations > 0 {
            let _ = writeln!(text, "! {} matched again", plural(self.translations as u64, "translation"));
        }
        for note in &self.notes {
            let _ = writeln!(text, "! {note}");
        }
        if !self.objects.is_empty() {
            let _ = write!(text, "\n{}", diff::print(&self.objects));
        }
        for why in &self.refused {
            let _ = writeln!(text, "refused: {why}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read};
    use super::*;

    #[test]
    fn effects_are_lines() {
        let preview = Preview {
            file: "edge.toml".into(),
            generation: 2,
            refused: vec!["the number of packet buffers cannot change".into()],
            changed: vec!["interface wan".into()],
            reopened: vec!["wan".into()],
            routes: 3,
            routes_before: 4,
            sessions: 1,
            sessions_total: 5,
            ..Preview::default()
        };
        let text = "\
edge.toml against generation 2, routes 3 (now: 4)
~ interface wan
! interface wan: its port is closed and opened again
! 1 session of 5 matched again
refused: the number of packet buffers cannot change
";
        assert_eq!(preview.text(), text);
        assert_eq!(read::<Preview>(&json(&preview)).unwrap(), preview);
    }
}
