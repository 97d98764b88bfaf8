//! Rules of others as our own.
//!
//! What cannot be said in our grammar is an error with its place, and nothing is read then: a list that lacks a rule means
//! something else. What is read prints as a text of rules.

mod classbench;
#[cfg(test)]
mod tests;
mod vpp;

use std::ops::Range;

use super::acl::{self, Action, Addresses, Ports, Rule, Transport};
use super::findings::Sink;
use super::words::{Problem, shown};
use super::{Findings, Kind, Names};

/// How others write rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// As ClassBench writes filters, one a line:
    ///
    /// ```text
    /// @192.0.2.0/24  198.51.100.7/32  0 : 65535  80 : 80  0x06/0xFF  0x0200/0x1200
    /// ```
    ///
    /// Addresses, source ports, destination ports, protocol and mask, flags and mask. The upper octet of flags is that of
    /// TCP's flags, or the type of ICMP; the lower one the code of ICMP. They may be missing. Filters have no actions:
    /// they come to `permit`.
    Classbench,
    /// As VPP reads rules, by `acl_add_replace` or `set acl-plugin acl`: `ipv4 permit src 192.0.2.0/24 proto 6 dport 80, …`.
    Vpp,
}

/// What was read.
#[derive(Debug)]
pub struct Imported {
    /// The rules, in their order.
    pub rules: Vec<Rule>,
    /// What is odd about them.
    pub warnings: Findings,
}

/// Reads rules.
///
/// # Errors
/// If any of them cannot be understood, or not be said, with the first of the places where, and how many there are in all.
pub fn import(text: &str, format: Format) -> Result<Imported, Findings> {
    let mut importer = Importer { sink: Sink::new(text), names: Names::default(), rules: Vec::new() };
    if importer.sink.takes_all() {
        match format {
            Format::Classbench => classbench::read(text, &mut importer),
            Format::Vpp => vpp::read(text, &mut importer),
        }
    }
    let Importer { sink, rules, .. } = importer;
    if sink.errors.is_empty() { Ok(Imported { rules, warnings: sink.warnings }) } else { Err(sink.errors) }
}

/// Where something is wrong, and what.
type Failure = (Range<usize>, Problem);

/// Takes down what is read.
struct Importer<'t> {
    sink: Sink<'t>,
    names: Names,
    rules: Vec<Rule>,
}

impl Importer<'_> {
    /// Adds a rule that stands at a place, as our grammar has it.
    fn add(&mut self, range: Range<usize>, rule: &Rule) {
        match acl::parse(&rule.to_string(), &mut self.names) {
            Ok((rule, _)) => self.rules.push(rule),
            Err(found) => {
                let first = found.shown().first();
                let message = first.map_or("no rule of ours says this", |found| &found.message);
                let help = first.and_then(|found| found.help.clone());
                self.sink.error(range, Problem { help, ..Problem::new(Kind::Rule, message) });
            }
        }
    }
}

/// A rule of these parts, of which nothing more is known.
fn rule(action: Action, from: Addresses, to: Addresses, transport: Transport) -> Rule {
    Rule {
        action,
        family: None,
        from,
        to,
        transport,
        fragment: None,
        dscp: None,
        received_on: None,
        limit: None,
        log: false,
        comment: None,
    }
}

/// The first and the last of all ports.
const ALL: (u16, u16) = (0, u16::MAX);

/// From the first port to the last; others write all ports where our rules write none.
fn ports((first, last): (u16, u16)) -> Ports {
    if (first, last) == ALL { Ports::Any } else { Ports::Range(first..=last) }
}

/// What ports, or types and codes, come to where a protocol has them; `None`: it has none, and they are asked for.
fn upper(protocol: u8, first: (u16, u16), second: (u16, u16)) -> Option<Transport> {
    let octets = |(low, high): (u16, u16)| match (u8::try_from(low).ok()?, u8::try_from(high).unwrap_or(u8::MAX)) {
        (0, u8::MAX) => Some(None),
        (low, high) => Some(Some(low..=high)),
    };
    match protocol {
        _ if first == ALL && second == ALL => Some(Transport::Protocol(protocol)),
        6 | 17 | 33 | 132 => {
            Some(Transport::Ports { protocol, source: ports(first), destination: ports(second), flags: None })
        }
        1 | 58 => Some(Transport::Icmp { protocol, icmp_type: octets(first)?, code: octets(second)? }),
        _ => None,
    }
}

/// `what` was expected at a word.
fn expected(what: &str, word: &str, range: Range<usize>) -> Failure {
    let found = if word.is_empty() { "the end".to_owned() } else { format!("`{}`", shown(word)) };
    (range, Problem::new(Kind::Rule, format!("expected {what}, found {found}")))
}
