//! The error of a text: the problem, the place, and a suggestion.

use std::fmt;
use std::ops::Range;

/// A text that is not understood. Printed as one line, without the text itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// The bytes of the text that are at fault; empty, at its end, where something is missing.
    pub span: Range<usize>,
    /// The word that was found.
    pub found: String,
    /// The expected word, as in `a port, 0 to 65535`.
    pub expected: String,
    /// The suggested word, if there is one.
    pub suggestion: Option<String>,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found ", self.expected)?;
        if self.found.is_empty() { f.write_str("the end") } else { write!(f, "`{}`", self.found) }?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "; did you mean `{suggestion}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TextError {}

/// The candidate that a misspelt word is closest to, if it is close enough to have been meant.
pub(super) fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A packet's words are short: what is long was not meant as one, and is not worth comparing.
    if word.len() > 32 {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let limit = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The least number of insertions, deletions, replacements and swaps of neighbours that make one word of the other.
fn distance(a: &[u8], b: &[u8]) -> usize {
    // Rows of the table of distances between prefixes: of the prefix of `a` at hand, of the one before, and before
    // that.
    let mut before: Vec<usize> = vec![];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("ttl", "ttl", 0),
            ("lenght", "length", 1),
            ("ac", "ca", 1),
            ("echo-request", "echo-reply", 5),
            ("prot", "port", 1),
            ("dcsp", "dscp", 1),
            ("ports", "port", 1),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
            assert_eq!(distance(b.as_bytes(), a.as_bytes()), expected, "{b} {a}");
        }
    }

    #[test]
    fn only_what_is_close_is_suggested() {
        assert_eq!(closest("lenght", ["ttl", "length"]), Some("length"));
        assert_eq!(closest("TTL", ["ttl", "length"]), Some("ttl"));
        assert_eq!(closest("banana", ["ttl", "length"]), None);
        assert_eq!(closest(&"ttl".repeat(100), ["ttl"]), None);
    }
}
