//! Keys without a meaning, and tables that could not be read.

use super::super::diagnostic::{Code, Diagnostic};
use super::super::table::{Reader, Table};

/// Whether some of the tables under a key could not be read, so many having been.
pub(super) fn lost_some(root: &Table<'_>, key: &str, read: usize) -> bool {
    root.get(key).is_some_and(|value| value.get_ref().as_table().is_none_or(|all| all.len() != read))
}

/// Refuses keys that have no meaning here.
pub(super) fn refuse(reader: &mut Reader<'_>, table: &Table<'_>, keys: &[&str], why: &str) {
    for key in keys {
        if let Some((name, _)) = table.entry(key) {
            let span = reader.span(name.span());
            let found = Diagnostic::error(Code::ConflictingKeys, span, format!("`{key}` {why}"));
            reader.report(found);
        }
    }
}
