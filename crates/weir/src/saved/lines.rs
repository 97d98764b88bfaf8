//! Files of rules, a rule a line.

use std::collections::HashSet;

/// Returns the rules of a text and the numbers of their lines, from 0. Comments and empty lines are left out.
pub(super) fn rules(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.trim_start_matches('\u{feff}').split('\n').enumerate();
    lines.map(|(number, line)| (number, without_comment(line))).filter(|(_, line)| !line.is_empty())
}

/// Returns a line without the comment at its end. In double quotes, `#` is a character as any other, and a backslash takes
/// away the meaning of what is behind it.
pub(super) fn without_comment(line: &str) -> &str {
    let (mut quoted, mut escaped) = (false, false);
    let begins = line.bytes().position(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'#' if !quoted => return true,
            _ => {}
        }
        false
    });
    line[..begins.unwrap_or(line.len())].trim()
}

/// The change of a list: items that go, and new ones by the item behind which they come.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// The indices of items that go.
    pub(super) gone: HashSet<usize>,
    /// Each new item, and the number of old items in front of it.
    pub(super) new: Vec<(usize, String)>,
}

impl Change {
    pub(super) fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.new.is_empty()
    }
}

/// Writes a change into a text of rules: all other lines stay as they are.
pub(super) fn write(text: &str, change: &Change) -> String {
    let places: Vec<usize> = rules(text).map(|(line, _)| line).collect();
    let gone: HashSet<usize> = change.gone.iter().filter_map(|&index| places.get(index).copied()).collect();
    let has_end = text.is_empty() || text.ends_with('\n');
    let mut lines: Vec<&str> = text.split('\n').collect();
    if has_end {
        lines.pop();
    }
    let mut out: Vec<&str> = Vec::with_capacity(lines.len() + change.new.len());
    // A new rule comes right behind the rule in front of it; in front of the first one, behind the comment at the head.
    let first = places.first().copied().unwrap_or(lines.len());
    let mut new = change.new.iter().peekable();
    let mut passed = 0;
    for (number, line) in lines.iter().enumerate() {
        if number == first {
            while let Some((_, text)) = new.next_if(|(before, _)| *before == 0) {
                out.push(text);
            }
        }
        if !gone.contains(&number) {
            out.push(line);
        }
        if places.get(passed) == Some(&number) {
            passed += 1;
            while let Some((_, text)) = new.next_if(|(before, _)| *before == passed) {
                out.push(text);
            }
        }
    }
    out.extend(new.map(|(_, text)| text.as_str()));
    let mut text = out.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text
}
