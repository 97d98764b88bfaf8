//! The outcome of changes to the sessions of a classifier table.

use serde::{Deserialize, Serialize};

use super::Report;
use super::number::plural;

/// The outcome of changes to a table that are in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Changed {
    /// The table.
    pub table: String,
    /// The source of the changes.
    pub source: String,
    /// Sessions with new values.
    pub added: usize,
    /// Sessions that took the place of others with their values.
    pub replaced: usize,
    /// Sessions that went.
    pub deleted: usize,
    /// Sessions of the table from now on.
    pub sessions: usize,
}

impl Report for Changed {
    const SCHEMA: &'static str = "weir.classify.changed/1";

    fn text(&self) -> String {
        let Changed { table, added, replaced, deleted, sessions, .. } = self;
        let sessions = plural(*sessions as u64, "session");
        format!("{table}: added {added}, replaced {replaced}, deleted {deleted}; {sessions} now\n")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read};
    use super::*;

    #[test]
    fn a_line_and_json() {
        let (table, source) = ("edge".to_owned(), "api".to_owned());
        let changed = Changed { table, source, added: 2, replaced: 1, deleted: 0, sessions: 7 };
        assert_eq!(changed.text(), "edge: added 2, replaced 1, deleted 0; 7 sessions now\n");
        assert_eq!(read::<Changed>(&json(&changed)).unwrap(), changed);
    }
}
