//! Rules that translate addresses and ports: the first of a list that matches decides.
//!
//! ```text
//! rule   = "source" what "from" end "to" end "as" target [ "preserve" ] [ "limit-per-address" n ] [ "comment" text ]
//!        | "destination" what "from" end "to" own "as" target [ "comment" text ]
//!        | "both" what "from" end "to" own "as" "source" target "destination" target [ "preserve" ] [ "comment" text ]
//!        | "map" what "from" end "to" end "as" prefix [ "comment" text ]
//!        | "keep" what "from" end "to" end [ "comment" text ]
//! own    = end | "interface" [ "port" ports ]
//! target = ( "interface" | addresses ) [ "port" range ]
//! ```
//!
//! `what`, `end`, `addresses` and `ports` are those of access lists ([`super::acl`]). `interface` is the one that names the list:
//! as a target its first address, as a destination any of its addresses. Rules print in these words, and what is printed
//! reads back as the same rule.

mod parser;
mod print;
mod rule;
#[cfg(test)]
mod tests;

use std::str::FromStr;

pub use rule::{Rule, Target, Verb};

use super::findings::Sink;
use super::text::{self, Line};
use super::{Findings, Names};

/// Reads one rule; what it names is shared with others by `names`. Also says what is odd about it.
///
/// # Errors
/// If it cannot be understood.
pub fn parse(text: &str, names: &mut Names) -> Result<(Rule, Findings), Findings> {
    let mut sink = Sink::new(text);
    match parser::parse(text, names, &mut sink) {
        Some(rule) if sink.errors.is_empty() => Ok((rule, sink.warnings)),
        _ => Err(sink.errors),
    }
}

/// Reads a text of rules, one a line. Also returns warnings.
///
/// # Errors
/// If any rule cannot be understood: the first of these places, and their number.
pub fn read(text: &str) -> Result<(Vec<Line<Rule>>, Findings), Findings> {
    let mut names = Names::default();
    text::read(text, |rule, sink| parser::parse(rule, &mut names, sink))
}

impl FromStr for Rule {
    type Err = Findings;

    fn from_str(text: &str) -> Result<Rule, Findings> {
        parse(text, &mut Names::default()).map(|(rule, _)| rule)
    }
}
