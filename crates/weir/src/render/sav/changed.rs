//! The effect of a change to the entries of a policy.

use serde::{Deserialize, Serialize};

use super::super::Report;
use super::super::remark::Remark;

/// The outcome of a batch that was put into force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The policy.
    pub policy: String,
    /// The source of the change.
    pub source: String,
    /// Entries of the source that are new.
    pub added: usize,
    /// Entries that were replaced.
    pub replaced: usize,
    /// Entries that were deleted.
    pub deleted: usize,
    /// Entries of the source from now on.
    pub entries: usize,
    /// The first warnings about the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Remark>,
    /// How many warnings there are beside these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_warnings: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Report for Changed {
    const SCHEMA: &'static str = "weir.sav.changed/1";

    /// Formats the report without warnings, which are not part of the requested output.
    fn text(&self) -> String {
        let Changed { policy, source, added, replaced, deleted, entries, .. } = self;
        format!("{policy}: added {added}, replaced {replaced}, deleted {deleted}; {source} has {entries} now\n")
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{json, read};
    use super::*;

    #[test]
    fn one_line_a_change() {
        let mut changed = Changed {
            policy: "edge".into(),
            source: "api".into(),
            added: 2,
            replaced: 1,
            deleted: 0,
            entries: 7,
            warnings: vec![],
            more_warnings: 0,
        };
        assert_eq!(changed.text(), "edge: added 2, replaced 1, deleted 0; api has 7 now\n");
        assert!(!json(&changed).contains("warnings"));
        let help = Some("write `10.0.0.0/8`".into());
        changed.warnings =
            vec![Remark { line: Some(3), column: Some(13), message: "bits are set".into(), help, ..Remark::default() }];
        assert_eq!(changed.warnings[0].to_string(), "line 3, column 13: bits are set (write `10.0.0.0/8`)");
        assert_eq!(read::<Changed>(&json(&changed)).unwrap(), changed);
    }
}
