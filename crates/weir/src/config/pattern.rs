//! Patterns of included files.

use std::path::Path;

use glob::{MatchOptions, Pattern};

/// Patterns name files of one folder each, and no hidden ones.
pub(super) const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// Returns a path as a pattern, if it is one.
pub(super) fn pattern(path: &Path) -> Option<Pattern> {
    let text = path.to_str().filter(|text| text.contains(['*', '?', '[']))?;
    Pattern::new(text).ok()
}
