//! TOML text into a tree, past syntax errors.
//!
//! The parser of the `toml` crate goes on after many errors, but not after all: a line without `=` ends the document
//! for it, and an unclosed bracket swallows what follows. So when a text has errors, it is cut at its table headers
//! into chunks, and in each chunk the statement with the first error is blanked out (spaces for characters, so that
//! no place moves) until the chunk parses. What is left is parsed as a whole. One statement thus gives one error, and
//! the tables behind it are still read.

use std::cell::OnceCell;
use std::ops::Range;

use toml::de::DeTable;

/// An error of syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) message: String,
    pub(super) range: Range<usize>,
    /// A place that takes part, e.g. the first of two equal keys.
    pub(super) related: Option<(Range<usize>, &'static str)>,
    pub(super) help: Option<String>,
}

/// A text, read as far as it can be.
pub(super) struct Document<'t> {
    /// The parts that could be read.
    pub(super) root: DeTable<'t>,
    /// The errors in the parts that could not be read.
    pub(super) errors: Vec<SyntaxError>,
    /// The chunks of the text that lost something.
    pub(super) damaged: Vec<Range<usize>>,
}

/// The keys whose values are `true` or `false`.
const BOOLEANS: &[&str] = &[
    "allow-default",
    "autonomous",
    "dont-fragment",
    "hits",
    "incremental",
    "managed",
    "offload",
    "other",
    "paced",
    "persistent",
    "promiscuous",
    "repeat",
    "shared",
];

/// Statements of one chunk that are blanked out before the chunk is given up.
const PASSES: usize = 64;

/// Errors of syntax that are reported of one text.
const MOST_ERRORS: usize = 100;

/// Reads `text`; `healed` keeps the text without its errors, if it has any.
pub(super) fn parse<'t>(text: &'t str, healed: &'t OnceCell<String>) -> Document<'t> {
    let (root, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Document { root: root.into_inner(), errors: Vec::new(), damaged: Vec::new() };
    }
    let mut healing = Healing { bytes: text.as_bytes().to_vec(), errors: Vec::new(), damaged: Vec::new() };
    for chunk in chunks(text) {
        healing.chunk(text, chunk);
    }
    let Healing { bytes, mut errors, damaged } = healing;
    // Blanking replaces whole lines by spaces, so this is still UTF-8.
    let healed = healed.get_or_init(|| String::from_utf8(bytes).unwrap_or_default());
    let (root, remaining) = DeTable::parse_recoverable(healed);
    for error in remaining {
        report(&mut errors, text, 0..text.len(), &error);
    }
    Document { root: root.into_inner(), errors, damaged }
}

/// Adds an error unless it is known. Of very many, the last one shown says that there are more.
fn report(errors: &mut Vec<SyntaxError>, text: &str, chunk: Range<usize>, error: &toml::de::Error) {
    if errors.len() > MOST_ERRORS {
        return;
    }
    let mut error = describe(text, chunk, error);
    if errors.iter().any(|known| known.range == error.range && known.message == error.message) {
        return;
    }
    if errors.len() == MOST_ERRORS {
        error.message = format!("there are more than {MOST_ERRORS} errors of syntax; this is one more");
        error.related = None;
        error.help = None;
    }
    errors.push(error);
}

/// Cuts at lines that look like table headers.
fn chunks(text: &str) -> Vec<Range<usize>> {
    let mut starts = vec![0];
    starts.extend(
        lines(text, 0..text.len()).filter(|line| line.start > 0 && is_header(&text[line.clone()])).map(|l| l.start),
    );
    let ends = starts.iter().skip(1).copied().chain(std::iter::once(text.len()));
    starts.iter().zip(ends).map(|(&start, end)| start..end).collect()
}

/// The lines of a part of a text, line breaks excluded.
fn lines(text: &str, part: Range<usize>) -> impl DoubleEndedIterator<Item = Range<usize>> {
    text[part.clone()].split('\n').map(move |line| {
        let start = line.as_ptr() as usize - text.as_ptr() as usize;
        start..start + line.len()
    })
}

fn is_header(line: &str) -> bool {
    let line = line.trim_start();
    let name = line.strip_prefix("[[").or_else(|| line.strip_prefix('[')).unwrap_or_default().trim_start();
    name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && name
            .trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_-.".contains(c))
            .trim_start()
            .find(',')
            .is_none()
}

/// Whether a line begins with a key and `=`.
fn is_statement(line: &str) -> bool {
    let line = line.trim_start();
    let rest = line.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_-.\"'".contains(c));
    rest.len() < line.len() && rest.trim_start().starts_with('=')
}

/// Brackets that a text opens and does not close, roughly: those in strings are left out.
fn unclosed(text: &str) -> i64 {
    let mut depth = 0;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(q), c) if c == q || c == '\n' => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            _ => {}
        }
    }
    depth
}

struct Healing {
    bytes: Vec<u8>,
    errors: Vec<SyntaxError>,
    damaged: Vec<Range<usize>>,
}

impl Healing {
    fn chunk(&mut self, text: &str, chunk: Range<usize>) {
        for _ in 0..PASSES {
            let Some(current) = std::str::from_utf8(&self.bytes[chunk.clone()]).ok() else { break };
            let (_, mut found) = DeTable::parse_recoverable(current);
            found.sort_by_key(|error| error.span().map_or(0, |span| span.start));
            let mut fatal = None;
            for error in &found {
                report(&mut self.errors, text, chunk.clone(), error);
                if !is_harmless(text, &chunk, error) {
                    fatal = Some(floor(text, (chunk.start + error.span().map_or(0, |span| span.start)).min(chunk.end)));
                    break;
                }
            }
            let Some(at) = fatal else { return };
            if !self.damaged.contains(&chunk) {
                self.damaged.push(chunk.clone());
            }
            self.blank(culprit(text, chunk.clone(), at));
        }
        self.blank(chunk);
    }

    fn blank(&mut self, range: Range<usize>) {
        self.bytes[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
}

/// Errors behind which the tree is right all the same.
fn is_harmless(text: &str, chunk: &Range<usize>, error: &toml::de::Error) -> bool {
    let Some(span) = error.span().filter(|span| !span.is_empty()) else { return false };
    let written = text.get(chunk.start + span.start..chunk.start + span.end).unwrap_or_default();
    error.message() == "duplicate key" || error.message().starts_with(UNQUOTED) && is_word(written)
}

/// The parser's message about a value that is not TOML.
const UNQUOTED: &str = "string values must be quoted";

/// Which of `true` and `false` was meant by a word without quotes; `before` is its line up to it.
fn boolean(before: &str, written: &str) -> Option<bool> {
    let key = before.trim_end().strip_suffix('=').unwrap_or(before).trim_end();
    let key = key.rsplit(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c))).next().unwrap_or_default();
    match written.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        "yes" | "on" | "enable" | "enabled" if BOOLEANS.contains(&key) => Some(true),
        "no" | "off" | "disable" | "disabled" if BOOLEANS.contains(&key) => Some(false),
        _ => None,
    }
}

/// Whether a value without quotes was probably meant as a string.
fn is_word(written: &str) -> bool {
    written.starts_with(|c: char| c.is_alphabetic()) && !written.contains(char::is_whitespace)
}

/// The line of `at`, and whether nothing but blanks stands before `at` on it.
fn line_of(text: &str, chunk: &Range<usize>, at: usize) -> (Range<usize>, bool) {
    let start = text[chunk.start..at].rfind('\n').map_or(chunk.start, |found| chunk.start + found + 1);
    let end = text[at..chunk.end].find('\n').map_or(chunk.end, |found| at + found);
    (start..end, text[start..at].trim().is_empty())
}

/// Returns the range to blank out for an error at `at`.
fn culprit(text: &str, chunk: Range<usize>, at: usize) -> Range<usize> {
    let (line, at_start) = line_of(text, &chunk, at);
    if is_header(&text[line.clone()]) && line.start == chunk.start {
        return chunk;
    }
    let content = text[line.clone()].trim();
    if !at_start || content.starts_with('=') {
        return line;
    }
    let above =
        || lines(text, chunk.start..line.start.max(chunk.start)).rev().filter(|l| !text[l.clone()].trim().is_empty());
    if content.is_empty() || is_statement(&text[line.clone()]) {
        // The statement above was never closed.
        let open = above().find(|l| is_statement(&text[l.clone()]) && unclosed(&text[l.start..line.start]) > 0);
        if let Some(open) = open {
            return open.start..line.start;
        }
    } else if let Some(previous) = above().next().filter(|l| !is_header(&text[l.clone()])) {
        return previous.start..line.end;
    }
    line
}

/// Puts an error of the parser into our words and places. Its span counts from the start of the chunk.
fn describe(text: &str, chunk: Range<usize>, error: &toml::de::Error) -> SyntaxError {
    let span = error.span().unwrap_or(0..0);
    let clamp = |at: usize| floor(text, (chunk.start + at).min(chunk.end));
    let mut range = clamp(span.start)..clamp(span.end).max(clamp(span.start));
    let mut message = error.message().to_owned();
    let mut related = None;
    let mut help = None;
    // The parser takes a word for the keyword that begins as it does.
    let misread =
        ["invalid float, expected `", "invalid boolean, expected `"].iter().any(|own| message.starts_with(own));
    if misread {
        let is_word = |c: char| c.is_alphanumeric() || "_-".contains(c);
        let start = text[..range.start].trim_end_matches(is_word).len();
        let end = text.len() - text[range.start..].trim_start_matches(is_word).len();
        range = start..end;
    }
    if misread || message.starts_with(UNQUOTED) {
        let written = &text[range.clone()];
        if range.is_empty() {
            message = "a value is missing".to_owned();
        } else if is_word(written) {
            let line = line_of(text, &chunk, range.start).0;
            (message, help) = match boolean(&text[line.start..range.start], written) {
                Some(meant) => (format!("`{written}` is no value of TOML"), Some(format!("write `{meant}`"))),
                None => ("a string must stand in quotes".to_owned(), Some(format!("write `\"{written}\"`"))),
            };
        } else {
            message = format!("`{written}` is no value of TOML");
            help = Some("strings stand in quotes, lists in brackets".to_owned());
        }
    } else if message == "duplicate key" {
        let key = &text[range.clone()];
        message = format!("`{key}` stands here twice");
        related = first_use(text, chunk.clone(), range.start, key).map(|first| (first, "first here"));
    }
    if range.is_empty() {
        // What is missing is missing at the end of the line before.
        let (line, at_start) = line_of(text, &chunk, range.start);
        if at_start && !text[line].trim_start().starts_with('=') {
            let before = chunk.start + text[chunk.start..range.start].trim_end().len();
            range = before..before;
        }
    }
    SyntaxError { message, range, related, help }
}

/// The greatest character boundary that is not after `at`.
fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Where a key of the same table, or the same header, stands before `at`.
fn first_use(text: &str, chunk: Range<usize>, at: usize, key: &str) -> Option<Range<usize>> {
    let (own, _) = line_of(text, &(0..text.len()), at);
    let header = is_header(&text[own.clone()]);
    let part = if header { 0..own.start } else { chunk.start..own.start };
    lines(text, part).find_map(|line| {
        let content = &text[line.clone()];
        let start = line.start + content.len() - content.trim_start().trim_start_matches('[').len();
        let rest = text[start..line.end].strip_prefix(key)?.trim_start();
        let same = if header { is_header(content) && rest.starts_with(']') } else { rest.starts_with('=') };
        same.then(|| start..start + key.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_mean_a_boolean_are_corrected_where_the_key_is_one() {
        for (text, message, help) in [
            ("hits = yes\n", "`yes` is no value of TOML", "write `true`"),
            ("a = { x = 1, shared = No }\n", "`No` is no value of TOML", "write `false`"),
            ("[sav.edge]\nincremental=on\n", "`on` is no value of TOML", "write `true`"),
            ("anything = True\n", "`True` is no value of TOML", "write `true`"),
            ("link-check = off\n", "a string must stand in quotes", "write `\"off\"`"),
            ("name = yes\n", "a string must stand in quotes", "write `\"yes\"`"),
            ("hits = no\n", "`no` is no value of TOML", "write `false`"),
            ("name = north\n", "a string must stand in quotes", "write `\"north\"`"),
            ("hits = many\n", "a string must stand in quotes", "write `\"many\"`"),
        ] {
            let healed = OnceCell::new();
            let errors = parse(text, &healed).errors;
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert_eq!((errors[0].message.as_str(), errors[0].help.as_deref()), (message, Some(help)), "{text}");
        }
    }
}
