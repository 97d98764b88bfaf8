//! A text of rules, one a line.

use super::findings::{Finding, Findings, Sink};
use super::lines;

/// A rule of a text, and its place there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<R> {
    /// The rule.
    pub rule: R,
    /// The rule as it stands there.
    pub text: String,
    /// The line, from 1.
    pub line: u32,
    /// Characters before it on its line.
    pub indent: u32,
}

/// Reads a text of rules, one a line, each by `parse`. Skips blank lines and comments. Also returns warnings.
///
/// # Errors
/// If any rule cannot be understood, with the first of the places where, and how many there are in all.
pub(super) fn read<R>(
    text: &str,
    mut parse: impl FnMut(&str, &mut Sink<'_>) -> Option<R>,
) -> Result<(Vec<Line<R>>, Findings), Findings> {
    let (mut read, mut errors, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    let (mut line, mut from) = (1, 0);
    for (base, rule) in lines::of(text) {
        let breaks = |text: &str| text.bytes().filter(|&octet| octet == b'\n').count() as u32;
        line += text.get(from..base).map_or(0, breaks);
        from = base;
        let start = text.get(..base).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
        let before = text.get(start..base).unwrap_or_default().chars();
        let indent = before.filter(|&character| character != '\u{feff}').count() as u32;
        let placed = |finding: &Finding| Finding {
            line,
            column: finding.column + indent,
            range: finding.range.start + base..finding.range.end + base,
            ..finding.clone()
        };
        let mut sink = Sink::new(rule);
        match parse(rule, &mut sink) {
            Some(parsed) if sink.errors.is_empty() => {
                warnings.extend(sink.warnings.shown().iter().map(placed));
                read.push(Line { rule: parsed, text: rule.trim_ascii_end().to_owned(), line, indent });
            }
            _ => errors.extend(sink.errors.shown().iter().map(placed)),
        }
    }
    if errors.is_empty() { Ok((read, warnings.into_iter().collect())) } else { Err(errors.into_iter().collect()) }
}
