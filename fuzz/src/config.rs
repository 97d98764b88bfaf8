//! Configurations: whatever the text, an answer; what is said of it lies within it; a gateway if and only if no error.

use weir::config::{Severity, parse_str};

/// The target.
pub(crate) fn fuzz(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let loaded = parse_str("fuzz.toml", text);
    for diagnostic in &loaded.diagnostics {
        for label in diagnostic.primary.iter().chain(&diagnostic.related) {
            let source = loaded.sources.source(label.span.source);
            assert!(source.text.get(label.span.range()).is_some(), "{diagnostic:?}");
            let position = loaded.sources.position(label.span);
            assert!((position.line, position.column) <= (position.end_line, position.end_column));
        }
    }
    assert_eq!(loaded.gateway.is_none(), loaded.count(Severity::Error) > 0);
    assert_eq!(loaded.text(false).is_empty(), loaded.diagnostics.is_empty());
    assert!(loaded.json().starts_with(r#"{"schema":"weir.check/1""#));
}
