//! Rules of a security policy database (RFC 4301, 4.4.1): of those that match a packet, the one of the highest priority
//! decides, and among equal ones the first of the list.
//!
//! ```text
//! rule     = action what "from" end "to" end { option } [ "comment" text ]
//! action   = "protect" | "bypass" | "discard"
//! end      = addresses [ "port" ( ports | "opaque" ) ]
//! option   = "type" ( type | range )               of icmp and icmp6
//!          | "code" range                          of icmp and icmp6
//!          | "sa" name                             of protect, which needs it
//!          | "priority" number                     -2147483648 to 2147483647; 0 unless given
//! ```
//!
//! `what`, `addresses`, `ports`, `type` and `range` are those of access lists ([`super::acl`]). `from` is the local side, `to` the
//! remote side: packets that leave match with source and destination, packets that come in with both exchanged. `opaque` matches
//! packets in which the ports are not there (RFC 4301, 4.4.1.1): fragments other than the first, and protocols without
//! ports. Both ends are opaque then.
//!
//! Each option stands once, in any order. Rules print in these words, with options in the order above, and a printed rule
//! reads back as the same rule.

mod parser;
mod print;
mod rule;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::str::FromStr;

pub use rule::{Action, Opaque, Rule};

use super::findings::Sink;
use super::{Findings, Names};

/// Reads one rule; names in it are shared with other rules by `names`. Also returns warnings.
///
/// # Errors
/// If the text is no rule.
pub fn parse(text: &str, names: &mut Names) -> Result<(Rule, Findings), Findings> {
    let mut sink = Sink::new(text);
    match parser::parse(text, names, &mut sink) {
        Some(rule) if sink.errors.is_empty() => Ok((rule, sink.warnings)),
        _ => Err(sink.errors),
    }
}

/// Where a rule names its SA, in octets of its text.
pub(crate) fn place_of_sa(rule: &str) -> Option<Range<usize>> {
    parser::place_of_sa(rule)
}

impl FromStr for Rule {
    type Err = Findings;

    fn from_str(text: &str) -> Result<Rule, Findings> {
        parse(text, &mut Names::default()).map(|(rule, _)| rule)
    }
}
