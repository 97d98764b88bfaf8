//! A rule a line.

use super::findings::Sink;
use super::names::Names;
use super::{Line, parser};

/// Reads the lines of a text.
pub(super) fn read(text: &str, names: &mut Names, sink: &mut Sink<'_>) -> Vec<Line> {
    let mut lines = Vec::with_capacity(text.len() / 32);
    for (base, rule) in of(text) {
        let end = base + rule.trim_ascii_end().len();
        if let Some(rule) = parser::parse(rule, base, names, sink) {
            // The text is smaller than 4 GiB.
            lines.push(Line { rule, start: base as u32, end: end as u32 });
        }
    }
    lines
}

/// The lines of a text that have something on them beside a comment, without the blanks before it, and where each begins.
pub(super) fn of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    text.split('\n').filter_map(move |content| {
        let base = start;
        start += content.len() + 1;
        // A byte order mark may begin the text.
        let mark = if base == 0 && content.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let content = &content[mark..];
        let rule = content.trim_ascii_start();
        let any = !rule.is_empty() && !rule.starts_with('#');
        any.then_some((base + mark + (content.len() - rule.len()), rule))
    })
}
