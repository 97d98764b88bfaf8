//! The prefixes of an allowlist, and the changes of `weir allow`.

use serde::{Deserialize, Serialize};

use super::Report;
use super::acl::changed::is_zero;
use super::number::plural;
use super::remark::Remark;

/// The prefixes of an allowlist: first those of the configuration, then live ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefixes {
    /// The list.
    pub list: String,
    /// Each prefix.
    pub prefixes: Vec<Prefix>,
}

/// A prefix of an allowlist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefix {
    /// The prefix.
    pub prefix: String,
    /// Where it was declared; of a live prefix, the source and the time.
    pub origin: String,
}

impl Report for Prefixes {
    const SCHEMA: &'static str = "weir.allow/1";

    /// The prefixes alone, as they can be read again.
    fn text(&self) -> String {
        self.prefixes.iter().map(|own| format!("{}\n", own.prefix)).collect()
    }
}

/// The changes of an allowlist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Changed {
    /// The list.
    pub list: String,
    /// The source of the change.
    pub source: String,
    /// The number of inserted prefixes.
    pub inserted: usize,
    /// The number of deleted prefixes.
    pub deleted: usize,
    /// The number of prefixes from now on.
    pub prefixes: usize,
    /// The first warnings about the prefixes of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Remark>,
    /// The number of warnings beside these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_warnings: usize,
}

impl Report for Changed {
    const SCHEMA: &'static str = "weir.allow.changed/1";

    /// Formats the report without warnings.
    fn text(&self) -> String {
        let Changed { list, inserted, deleted, prefixes, .. } = self;
        let prefixes = plural(*prefixes as u64, "prefix");
        format!("{list}: inserted {inserted}, deleted {deleted}; {prefixes} now\n")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read};
    use super::*;

    #[test]
    fn a_line_and_json() {
        let changed = Changed {
            list: "ours".into(),
            source: "api".into(),
            inserted: 2,
            deleted: 1,
            prefixes: 1,
            warnings: Vec::new(),
            more_warnings: 0,
        };
        assert_eq!(changed.text(), "ours: inserted 2, deleted 1; 1 prefix now\n");
        assert_eq!(read::<Changed>(&json(&changed)).unwrap(), changed);
        let prefix = Prefix { prefix: "192.0.2.0/24".into(), origin: "edge.toml:9".into() };
        let prefixes = Prefixes { list: "ours".into(), prefixes: vec![prefix] };
        assert_eq!(prefixes.text(), "192.0.2.0/24\n");
        assert_eq!(read::<Prefixes>(&json(&prefixes)).unwrap(), prefixes);
    }
}
