//! A text of rules, one a line.

use super::super::findings::{Finding, Findings, Sink};
use super::super::lines;
use super::super::names::Names;
use super::parser;
use super::rule::Rule;

/// A rule of a text, and its place there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The rule.
    pub rule: Rule,
    /// The rule as it stands there.
    pub text: String,
    /// The line, from 1.
    pub line: u32,
    /// Characters before it on its line.
    pub indent: u32,
}

/// Reads a text of rules, one a line; blank lines and what follows `#` are passed over. Also returns what is odd about them.
///
/// # Errors
/// If any rule cannot be understood, with the first of the places where, and how many there are in all.
pub fn read(text: &str) -> Result<(Vec<Line>, Findings), Findings> {
    let mut names = Names::default();
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
        match parser::parse(rule, &mut names, &mut sink) {
            Some(parsed) if sink.errors.is_empty() => {
                warnings.extend(sink.warnings.shown().iter().map(placed));
                read.push(Line { rule: parsed, text: rule.trim_ascii_end().to_owned(), line, indent });
            }
            _ => errors.extend(sink.errors.shown().iter().map(placed)),
        }
    }
    if errors.is_empty() { Ok((read, warnings.into_iter().collect())) } else { Err(errors.into_iter().collect()) }
}
