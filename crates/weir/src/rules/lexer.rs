//! The words of a rule.

use std::ops::Range;

use super::findings::Kind;
use super::words::{Problem, shown};

/// A word, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token<'t> {
    pub(super) what: What<'t>,
    pub(super) range: Range<usize>,
}

/// The kind of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What<'t> {
    /// Characters up to a blank, a comma, a double quote or `#`.
    Word(&'t str),
    /// `,`
    Comma,
    /// The text between double quotes, with its backslashes.
    Text(&'t str),
    /// There is nothing more.
    End,
}

impl What<'_> {
    /// For people: "found …".
    pub(super) fn found(self) -> String {
        match self {
            What::Word(word) => format!("`{}`", shown(word)),
            What::Comma => "`,`".to_owned(),
            What::Text(_) => "a text in quotes".to_owned(),
            What::End => "the end of the rule".to_owned(),
        }
    }
}

/// Splits a line into words. Copies are cheap: a reader that looks ahead uses a copy.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'t> {
    line: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(line: &'t str) -> Lexer<'t> {
        Lexer { line, at: 0 }
    }

    /// The next word. Behind the last one there are ends without end.
    ///
    /// # Errors
    /// If a quote is not closed, with where it begins.
    pub(super) fn next(&mut self) -> Result<Token<'t>, (Range<usize>, Problem)> {
        let bytes = self.line.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        let start = self.at;
        let what = match bytes.get(start) {
            None | Some(b'#') => return Ok(Token { what: What::End, range: self.end() }),
            Some(b',') => {
                self.at += 1;
                What::Comma
            }
            Some(b'"') => {
                let Some(length) = closing(&bytes[start + 1..]) else {
                    let problem = Problem::new(Kind::Rule, "a double quote is not closed");
                    return Err((start..self.line.len(), problem));
                };
                self.at = start + length + 2;
                What::Text(&self.line[start + 1..self.at - 1])
            }
            Some(_) => {
                let ends = |byte: &u8| byte.is_ascii_whitespace() || b",\"#".contains(byte);
                let length = bytes[start..].iter().position(ends);
                self.at = length.map_or(bytes.len(), |length| start + length);
                What::Word(&self.line[start..self.at])
            }
        };
        Ok(Token { what, range: start..self.at })
    }

    /// Where the rule ends: behind its last character that is no blank.
    fn end(&self) -> Range<usize> {
        let end = self.line[..self.at].trim_ascii_end().len();
        end..end
    }
}

/// How many octets stand before the quote that closes a text. A backslash takes away the meaning of what is behind it.
fn closing(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}
