//! Rules: lines of one small grammar, the same in the configuration, in files of their own and on the control socket. There
//! are two kinds: those of source address validation, which are here, and those on all fields of packets ([`acl`]).
//!
//! ```text
//! rule       = [ "interface" ] action "from" source "on" interfaces [ "comment" text ]
//! action     = "permit" | "deny"
//! source     = "any" | prefix                  any: both families, 0.0.0.0/0 and ::/0
//! interfaces = "any" | name { "," name }       any: all of them
//! text       = '"' … '"'                       with \" and \\ in it
//! ```
//!
//! `interface` puts a rule into the lists of its interfaces rather than into that of its prefix ([`Scope`]).
//!
//! Words stand apart by blanks; `#` begins what is not part of the rule, to the end of the line. A rule prints in these
//! words, one blank between them, and what is printed reads back as the same rule.
//!
//! [`read`] takes in a whole text of rules: one a line, CSV or JSON ([`Format`]). It knows no gateway: rules name interfaces,
//! and whether there are such, others find out. A text with an error in it gives no rules at all.
//!
//! # Memory
//! A [`Line`] takes 64 octets and its comment. Rules that name the same interfaces in the same order share one list
//! ([`Names`]).

pub mod acl;
pub mod binding;
pub mod classify;
mod csv;
mod findings;
pub mod import;
mod json;
mod lexer;
mod lines;
mod names;
pub mod nat;
mod parser;
pub(crate) mod prefix;
pub(crate) mod prefixes;
pub(crate) mod quantity;
pub mod spd;
pub mod steer;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod words;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;

pub use findings::{Finding, Findings, Kind};
pub use names::Names;
pub(crate) use names::{LONGEST_NAME, is_name};
pub use weir_plane::model::Scope;

use findings::Sink;

/// The word for every source and for all interfaces.
pub(crate) const ANY: &str = "any";

/// The word for lists of interfaces.
const INTERFACE: &str = "interface";

/// Octets of a comment, at most.
pub const LONGEST_COMMENT: usize = 255;

/// A rule of source address validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Whose list it stands in.
    pub scope: Scope,
    /// The action.
    pub action: Action,
    /// The sources that it covers, host bits clear; `None`: any of both families.
    pub from: Option<IpNet>,
    /// The interfaces that it is about, by name and each once, not empty; `None`: all.
    pub on: Interfaces,
    /// The operator's comment: up to [`LONGEST_COMMENT`] octets without control characters.
    pub comment: Option<Box<str>>,
}

/// Interfaces by their names; `None`: all of them.
pub type Interfaces = Option<Arc<[Arc<str>]>>;

/// The action of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The sources are valid.
    Permit,
    /// The sources are invalid.
    Deny,
}

impl Action {
    /// The word of the grammar.
    pub const fn as_str(self) -> &'static str {
        match self {
            Action::Permit => "permit",
            Action::Deny => "deny",
        }
    }
}

/// A rule of a text, and where it stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The rule.
    pub rule: Rule,
    /// Its first octet in the text.
    pub start: u32,
    /// One past its last octet.
    pub end: u32,
}

/// The rules of a text.
#[derive(Debug)]
pub struct Reading {
    /// The rules, in the order of the text.
    pub lines: Vec<Line>,
    /// The warnings about them.
    pub warnings: Findings,
}

/// How a text of rules is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// A rule a line; blank lines and what follows `#` are passed over.
    Rules,
    /// CSV (RFC 4180) with a header: `prefix`, `interfaces` with spaces between them, and perhaps `action`, which is `permit`
    /// unless given, `scope`, which is `prefix` unless given, and `comment`, in any order.
    Csv,
    /// JSON: an array of objects with `prefix`, `interfaces`, which is an array, and perhaps `action`, `scope` and `comment`.
    Json,
}

impl Format {
    /// The format that the end of a file's name stands for.
    pub fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "rules" => Some(Format::Rules),
            "csv" => Some(Format::Csv),
            "json" => Some(Format::Json),
            _ => None,
        }
    }
}

/// Reads a text of rules.
///
/// # Errors
/// If any rule cannot be understood, with the first of the places where, and how many there are in all.
pub fn read(format: Format, text: &str) -> Result<Reading, Findings> {
    let mut sink = Sink::new(text);
    if !sink.takes_all() {
        return Err(sink.errors);
    }
    let mut names = Names::default();
    let lines = match format {
        Format::Rules => lines::read(text, &mut names, &mut sink),
        Format::Csv => csv::read(text, &mut names, &mut sink),
        Format::Json => json::read(text, &mut names, &mut sink),
    };
    if sink.errors.is_empty() { Ok(Reading { lines, warnings: sink.warnings }) } else { Err(sink.errors) }
}

/// Reads one rule; what it names is shared with others by `names`. Also says what is odd about it.
///
/// # Errors
/// If it cannot be understood.
pub fn parse(text: &str, names: &mut Names) -> Result<(Rule, Findings), Findings> {
    let mut sink = Sink::new(text);
    match parser::parse(text, 0, names, &mut sink) {
        Some(rule) if sink.errors.is_empty() => Ok((rule, sink.warnings)),
        _ => Err(sink.errors),
    }
}

/// The name of a prefix's rules: the words before and behind `from`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryName {
    /// Whose list they stand in.
    pub scope: Scope,
    /// The action.
    pub action: Action,
    /// Their sources; `None`: any of both families.
    pub from: Option<IpNet>,
}

/// Reads what names the rules of a prefix: `[ [ "interface" ] action ] source`; they permit unless they deny. Also says what is
/// odd about it.
///
/// # Errors
/// If it cannot be understood.
pub fn parse_entry(text: &str) -> Result<(EntryName, Findings), Findings> {
    let mut sink = Sink::new(text);
    match parser::entry(text, &mut sink) {
        Ok(name) => Ok((name, sink.warnings)),
        Err((range, problem)) => {
            sink.error(range, problem);
            Err(sink.errors)
        }
    }
}

/// Where a rule names an interface, in octets of its text.
pub(crate) fn place_of(format: Format, rule: &str, interface: &str) -> Option<Range<usize>> {
    match format {
        Format::Rules => parser::place_of(rule, interface),
        Format::Csv => csv::place_of(rule, interface),
        Format::Json => json::place_of(rule, interface),
    }
}

impl FromStr for Rule {
    type Err = Findings;

    fn from_str(text: &str) -> Result<Rule, Findings> {
        parse(text, &mut Names::default()).map(|(rule, _)| rule)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scope == Scope::Interface {
            write!(f, "{INTERFACE} ")?;
        }
        write!(f, "{} from ", self.action.as_str())?;
        match &self.from {
            Some(prefix) => write!(f, "{prefix} on ")?,
            None => write!(f, "{ANY} on ")?,
        }
        match self.on.as_deref() {
            None => f.write_str(ANY)?,
            Some(names) => {
                for (at, name) in names.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}{name}")?;
                }
            }
        }
        write_comment(f, self.comment.as_deref())
    }
}

/// Writes the comment behind a rule.
fn write_comment(f: &mut fmt::Formatter<'_>, comment: Option<&str>) -> fmt::Result {
    match comment {
        Some(comment) => write!(f, " comment \"{}\"", comment.replace('\\', "\\\\").replace('"', "\\\"")),
        None => Ok(()),
    }
}
