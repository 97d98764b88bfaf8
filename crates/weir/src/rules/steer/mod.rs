//! Steer rules: the first of a list that matches a packet acts on it, before the rest of the graph.
//!
//! ```text
//! rule      = action { action } [ "unchecked" ] [ "vlan" range ] what "from" end "to" end { condition } [ "comment" text ]
//! action    = "count"                                   counts and lets go on, as every rule counts
//!           | "mark" number                             up to 4294967295
//!           | "drop"
//!           | "redirect" "interface" name [ "next-hop" address ]
//!           | "redirect" "next-hop" address
//!           | "redirect" "queue" number                 another worker
//!           | "redirect" "node" node
//!           | "advance" octets                          with `then`
//! node      = "ip4-lookup" | "ip6-lookup" | "tunnel-decap"
//! rule      = action { action } [ "unchecked" ] [ "vlan" range ] "frame" [ "ethertype" ethertype ] { condition } [ "comment" text ]
//! what      = "ip" | family [ [ "proto" ] protocol ] | [ "proto" ] protocol
//! condition = "type" … | "code" … | "tcp-flags" … | "fragment" | "no-fragment" | "dscp" …
//!           | "spi" range                               of esp and ah
//!           | "vni" range                               of udp: VXLAN
//!           | "teid" range                              of udp: GTP
//!           | "session" range                           of l2tp, version 3
//!           | "mac-from" mac [ "/" length ] | "mac-to" mac [ "/" length ]
//!           | "octets" ( "l2" | "l3" | "l4" ) first hex [ "mask" hex ]
//!           | "inner" what "from" end "to" end { condition of access lists }    of rules with `vni` or `teid`, of ipv4 and ipv6
//!           | "then" ( "ethernet" | "ip4" | "ip6" )     of rules that advance
//! range     = number [ "-" number ]
//! ```
//!
//! `end` and the first conditions are those of access lists ([`super::acl`]). One action says where packets go: `drop`, a
//! redirection or `advance`; `count` and `mark` may stand beside it, and each action stands once. Rules print in these words
//! and in this order, and a printed rule reads back as the same rule.

mod action;
pub(crate) mod checks;
mod frame;
mod octets;
mod parser;
mod print;
mod rule;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::str::FromStr;

pub use rule::{Rule, Way};

use super::findings::{Finding, Kind, Sink};
use super::text::{self, Line};
use super::words::Problem;
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

/// Reads a text of rules, one a line. Skips blank lines and comments. Also returns warnings.
///
/// # Errors
/// If any rule cannot be understood: the first of these places, and their number.
pub fn read(text: &str) -> Result<(Vec<Line<Rule>>, Findings), Findings> {
    let mut names = Names::default();
    text::read(text, |rule, sink| parser::parse(rule, &mut names, sink))
}

/// Returns a finding about a rule: at the name behind a word of its actions, or at the whole rule.
pub(crate) fn finding(rule: &str, behind: Option<&str>, message: String, help: Option<&str>) -> Finding {
    let range = behind.and_then(|word| place_behind(rule, word)).unwrap_or(0..rule.trim_ascii_end().len());
    let problem = Problem::new(Kind::Rule, message);
    Sink::new(rule).place(range, help.into_iter().fold(problem, Problem::help))
}

/// Where a rule names something behind one of the words of its actions, in octets of its text.
pub(crate) fn place_behind(rule: &str, word: &str) -> Option<Range<usize>> {
    action::place_behind(rule, word)
}

impl FromStr for Rule {
    type Err = Findings;

    fn from_str(text: &str) -> Result<Rule, Findings> {
        parse(text, &mut Names::default()).map(|(rule, _)| rule)
    }
}
