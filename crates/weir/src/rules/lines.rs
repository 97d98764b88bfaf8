//! A rule a line.

use super::findings::Sink;
use super::names::Names;
use super::{Line, parser};

/// Reads the lines of a text.
pub(super) fn read(text: &str, names: &mut Names, sink: &mut Sink<'_>) -> Vec<Line> {
    let mut lines = Vec::with_capacity(text.len() / 32);
    let mut start = 0;
    for content in text.split('\n') {
        let base = start;
        start += content.len() + 1;
        // A byte order mark may begin the text.
        let mark = if base == 0 && content.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let content = &content[mark..];
        let rule = content.trim_ascii_start();
        if rule.is_empty() || rule.starts_with('#') {
            continue;
        }
        let base = base + mark + (content.len() - rule.len());
        let rule_end = base + rule.trim_ascii_end().len();
        if let Some(rule) = parser::parse(rule, base, names, sink) {
            // The text is smaller than 4 GiB.
            lines.push(Line { rule, start: base as u32, end: rule_end as u32 });
        }
    }
    lines
}
