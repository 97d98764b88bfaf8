//! Takes down the rules that are read, as our grammar has them.

use std::ops::Range;

use super::super::acl::{self, Action, Addresses, Ports, Rule, Transport};
use super::super::findings::Sink;
use super::super::words::{Problem, shown};
use super::super::{Kind, Names};

/// Where something is wrong, and what.
pub(super) type Failure = (Range<usize>, Problem);

/// Takes down what is read.
pub(super) struct Importer<'t> {
    pub(super) sink: Sink<'t>,
    pub(super) names: Names,
    pub(super) rules: Vec<Rule>,
}

impl Importer<'_> {
    /// Adds a rule that stands at a place, as our grammar has it.
    pub(super) fn add(&mut self, range: Range<usize>, rule: &Rule) {
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
pub(super) fn rule(action: Action, from: Addresses, to: Addresses, transport: Transport) -> Rule {
    Rule {
        action,
        family: None,
        from,
        to,
        transport,
        fragment: None,
        dscp: None,
        mark: None,
        received_on: None,
        limit: None,
        log: false,
        flow: None,
        comment: None,
    }
}

/// The first and the last of all ports.
const ALL: (u16, u16) = (0, u16::MAX);

/// From the first port to the last; others write all ports where our rules write none.
pub(super) fn ports((first, last): (u16, u16)) -> Ports {
    if (first, last) == ALL { Ports::Any } else { Ports::Range(first..=last) }
}

/// Converts ports, or types and codes, for a protocol that has them; `None` if the protocol has none, and the rule
/// matches some.
pub(super) fn upper(protocol: u8, first: (u16, u16), second: (u16, u16)) -> Option<Transport> {
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
pub(super) fn expected(what: &str, word: &str, range: Range<usize>) -> Failure {
    let found = if word.is_empty() { "the end".to_owned() } else { format!("`{}`", shown(word)) };
    (range, Problem::new(Kind::Rule, format!("expected {what}, found {found}")))
}
