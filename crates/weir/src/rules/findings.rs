//! Errors and warnings about a text of rules, with their places.

use std::fmt;
use std::ops::Range;

use super::words::Problem;

/// Findings of one kind that are kept: the millionth wrong line teaches nothing new.
const SHOWN: usize = 20;

/// The subject of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Something is no rule.
    Rule,
    /// Something is no prefix.
    Prefix,
    /// A prefix with bits set behind its length: a warning.
    HostBits,
    /// An interface that a rule names twice: a warning.
    Repeated,
    /// An interface that is not there.
    Interface,
    /// A group that is not there.
    Group,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The subject.
    pub kind: Kind,
    /// Where, in octets of the text.
    pub range: Range<usize>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// The problem, in one sentence without a full stop.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

/// The first findings, and how many there are beside them. Prints a line for each.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
pub struct Findings {
    shown: Vec<Finding>,
    more: usize,
}

impl Findings {
    /// The first of them, in the order of the text.
    pub fn shown(&self) -> &[Finding] {
        &self.shown
    }

    /// How many there are beside those shown.
    pub fn more(&self) -> usize {
        self.more
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }
}

impl FromIterator<Finding> for Findings {
    fn from_iter<I: IntoIterator<Item = Finding>>(findings: I) -> Findings {
        let mut all = findings.into_iter();
        let shown = all.by_ref().take(SHOWN).collect();
        Findings { shown, more: all.count() }
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, finding) in self.shown.iter().enumerate() {
            let separator = if at == 0 { "" } else { "\n" };
            write!(f, "{separator}{finding}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

/// Takes down what is found in a text.
pub(super) struct Sink<'t> {
    text: &'t str,
    pub(super) errors: Findings,
    pub(super) warnings: Findings,
    /// The line that was looked up last, and where it starts.
    line: (u32, usize),
}

impl<'t> Sink<'t> {
    pub(super) fn new(text: &'t str) -> Sink<'t> {
        Sink { text, errors: Findings::default(), warnings: Findings::default(), line: (1, 0) }
    }

    /// Whether all places of the text have numbers; says so if not.
    pub(super) fn takes_all(&mut self) -> bool {
        let fits = u32::try_from(self.text.len()).is_ok();
        if !fits {
            self.error(0..0, Problem::new(Kind::Rule, "the text is larger than 4 GiB"));
        }
        fits
    }

    pub(super) fn error(&mut self, range: Range<usize>, problem: Problem) {
        if self.errors.shown.len() == SHOWN {
            self.errors.more += 1;
            return;
        }
        let finding = self.place(range, problem);
        self.errors.shown.push(finding);
    }

    pub(super) fn warning(&mut self, range: Range<usize>, problem: Problem) {
        if self.warnings.shown.len() == SHOWN {
            self.warnings.more += 1;
            return;
        }
        let finding = self.place(range, problem);
        self.warnings.shown.push(finding);
    }

    pub(super) fn place(&mut self, range: Range<usize>, Problem { kind, message, help }: Problem) -> Finding {
        // Findings come in the order of the text, more or less: each line break is counted about once.
        if range.start < self.line.1 {
            self.line = (1, 0);
        }
        let (from, start) = self.line;
        for (breaks, (at, _)) in (1..).zip(self.text[start..range.start].match_indices('\n')) {
            self.line = (from + breaks, start + at + 1);
        }
        let (line, start) = self.line;
        let before = self.text[start..range.start].chars().filter(|&c| c != '\u{feff}');
        let column = u32::try_from(before.count() + 1).unwrap_or(u32::MAX);
        Finding { kind, range, line, column, message, help }
    }
}
