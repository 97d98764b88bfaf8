//! Rules on the fields of packets: the first of a list that matches decides.
//!
//! ```text
//! rule      = action what "from" end "to" end { condition } [ "comment" text ]
//! action    = "permit" | "permit+reflect" | "deny" | "reject" | "reject+reset" | "reject+icmp"
//! what      = "ip" | family [ protocol ] | protocol      ip: all packets
//! family    = "ip4" | "ip6"
//! protocol  = "tcp" | "udp" | "icmp" | "icmp6" | … | number
//! end       = addresses [ "port" ports ]                 of tcp, udp, sctp and dccp
//! addresses = "any" | prefix | address [ "-" address ] | group
//! ports     = range | group
//! group     = "@" name
//! condition = "type" ( type | range )                    of icmp and icmp6
//!           | "code" range                               of icmp and icmp6
//!           | "tcp-flags" flags "/" flags                of tcp: the flags that are set, and the flags that are compared
//!           | "fragment" | "no-fragment"                 not the first of their packet; or any other
//!           | "dscp" ( code-point | number )
//!           | "mark" number                              up to 8388606, as steer rules and classifier tables give it
//!           | "received-on" ( name { "," name } | group )
//!           | "limit" rate [ "burst" quantity ]          of permit: the rest of the packets is dropped
//!           | "log"                                      the list's sampler gets some of the packets
//!           | "flow" | "no-flow"                         of permit: its flows are learned at once; or never
//! flags     = "none" | flag { "," flag }
//! range     = number [ "-" number ]
//! rate      = quantity "pps" | quantity "bps"            packets or bits in a second
//! quantity  = number [ "k" | "M" | "G" ]
//! ```
//!
//! Each condition stands once, in any order. Only the first fragment of a packet has ports, types and flags, so a rule
//! that matches them does not match later fragments. `reject` reports the drop to the source of a packet: TCP by a
//! reset, all else by ICMP. `reject+reset`, of tcp, and `reject+icmp` choose the report. `permit+reflect` opens
//! sessions, by which the answers pass.
//!
//! Rules print as in [`super`]: names where numbers have them, an address as the prefix of its length, and conditions in the
//! order above. A [`Rule`] names groups and interfaces; what they stand for, a [`Vocabulary`] knows.
//!
//! # Sources
//! The names of protocols, of ICMP types and of differentiated services code points are those of IANA's registries, in lower
//! case, with hyphens for blanks, and `icmp6` for `IPv6-ICMP`.

pub(in crate::rules) mod conditions;
mod limit;
pub(in crate::rules) mod parser;
pub(in crate::rules) mod print;
#[cfg(test)]
mod tests;
mod vocabulary;
mod words;

use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;

pub use limit::Limit;
pub(crate) use limit::default_burst;
pub(in crate::rules) use limit::{burst, rate};
pub(in crate::rules) use parser::without_replies;
pub(in crate::rules) use vocabulary::Resolving;
pub(crate) use vocabulary::has;
pub use vocabulary::{Members, Vocabulary, understand};
pub(crate) use vocabulary::{Role, Wrong};
pub use weir_plane::model::{AclAction as Action, IpFamily, Rejection, TcpFlags};
pub(in crate::rules) use words::protocol as protocol_number;
pub(crate) use words::protocol_name;

use super::findings::Sink;
use super::{Findings, Names, lines};

pub(in crate::rules) const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
pub(in crate::rules) const ICMP6: u8 = 58;
const SCTP: u8 = 132;

/// Protocols with ports that rules can match.
const WITH_PORTS: [u8; 4] = [TCP, UDP, SCTP, DCCP];

/// The first character of a group's name in a rule.
pub(crate) const GROUP: char = '@';

/// The word before the interfaces of a rule.
const RECEIVED_ON: &str = "received-on";

/// A rule on the fields of packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The action.
    pub action: Action,
    /// The family that it names; addresses may say it, too.
    pub family: Option<IpFamily>,
    /// Source addresses.
    pub from: Addresses,
    /// Destination addresses.
    pub to: Addresses,
    /// The protocol, and the conditions on its header. A protocol with ports but without a condition on them is the
    /// number only.
    pub transport: Transport,
    /// Whether it is about fragments that are not the first of their packet, or about all else.
    pub fragment: Option<bool>,
    /// The differentiated services code point, up to 63.
    pub dscp: Option<u8>,
    /// The mark.
    pub mark: Option<u32>,
    /// The interfaces that packets came in by; `None`: any, or none.
    pub received_on: Option<Interfaces>,
    /// How many of the packets it permits.
    pub limit: Option<Limit>,
    /// The list's sampler gets some of its packets.
    pub log: bool,
    /// Its flows are learned from their first packet on, or never.
    pub flow: Option<bool>,
    /// The operator's comment: up to [`LONGEST_COMMENT`](super::LONGEST_COMMENT) octets without control characters.
    pub comment: Option<Box<str>>,
}

/// Addresses that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addresses {
    /// All.
    Any,
    /// The addresses of a prefix, whose host bits are clear.
    Net(IpNet),
    /// From the first to the second, both included and of one family.
    Range(IpAddr, IpAddr),
    /// The addresses of the group of this name.
    Group(Arc<str>),
}

/// Ports that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ports {
    /// The rule does not name a port.
    Any,
    /// From the first to the last.
    Range(RangeInclusive<u16>),
    /// The ports of the group of this name.
    Group(Arc<str>),
}

/// Interfaces that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interfaces {
    /// The interfaces of these names, without duplicates; not empty.
    List(Arc<[Arc<str>]>),
    /// The interfaces of the group of this name.
    Group(Arc<str>),
}

/// The conditions of a rule on the header behind that of IP. Only the first fragment of a packet has ports, types and
/// flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Nothing.
    Any,
    /// The protocol.
    Protocol(u8),
    /// A protocol with ports: TCP, UDP, SCTP or DCCP.
    Ports {
        /// The protocol.
        protocol: u8,
        /// The source port.
        source: Ports,
        /// The destination port.
        destination: Ports,
        /// TCP's flags: what they are, where the mask has a bit.
        flags: Option<TcpFlags>,
    },
    /// ICMP for IPv4, or for IPv6.
    Icmp {
        /// 1 or 58.
        protocol: u8,
        /// The type; `None`: the rule does not name one.
        icmp_type: Option<RangeInclusive<u8>>,
        /// The code; `None`: the rule does not name one.
        code: Option<RangeInclusive<u8>>,
    },
}

impl Transport {
    /// Returns the protocol, if the rule matches one.
    pub fn protocol(&self) -> Option<u8> {
        match self {
            Transport::Any => None,
            Transport::Protocol(protocol) | Transport::Ports { protocol, .. } | Transport::Icmp { protocol, .. } => {
                Some(*protocol)
            }
        }
    }
}

impl Rule {
    /// The groups that it names.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        fn addresses(addresses: &Addresses) -> Option<&Arc<str>> {
            if let Addresses::Group(name) = addresses { Some(name) } else { None }
        }
        fn ports(ports: &Ports) -> Option<&Arc<str>> {
            if let Ports::Group(name) = ports { Some(name) } else { None }
        }
        let (source, destination) = match &self.transport {
            Transport::Ports { source, destination, .. } => (ports(source), ports(destination)),
            _ => (None, None),
        };
        let interfaces = match &self.received_on {
            Some(Interfaces::Group(name)) => Some(name),
            _ => None,
        };
        let all = [addresses(&self.from), addresses(&self.to), source, destination, interfaces];
        all.into_iter().flatten().map(|name| &**name)
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

/// Reads a text of rules, one a line; blank lines and what follows `#` are passed over.
///
/// # Errors
/// If any rule cannot be understood, with the first of the places where, and how many there are in all.
pub fn read(text: &str) -> Result<Reading, Findings> {
    let mut sink = Sink::new(text);
    if !sink.takes_all() {
        return Err(sink.errors);
    }
    let mut names = Names::default();
    let mut read = Vec::with_capacity(text.len() / 64);
    for (base, line) in lines::of(text) {
        let end = base + line.trim_ascii_end().len();
        if let Some(rule) = parser::parse(line, base, &mut names, &mut sink) {
            // The text is smaller than 4 GiB.
            read.push(Line { rule, start: base as u32, end: end as u32 });
        }
    }
    if sink.errors.is_empty() { Ok(Reading { lines: read, warnings: sink.warnings }) } else { Err(sink.errors) }
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

/// Reads the members of a group of addresses: addresses, as rules name them, but for `any`. Also says what is odd about them.
///
/// # Errors
/// If they cannot be understood.
pub(crate) fn parse_addresses(text: &str, names: &mut Names) -> Result<(Addresses, Findings), Findings> {
    member(text, names, parser::member_addresses)
}

/// Reads the members of a group of ports.
///
/// # Errors
/// If they cannot be understood.
pub(crate) fn parse_ports(text: &str, names: &mut Names) -> Result<(Ports, Findings), Findings> {
    member(text, names, parser::member_ports)
}

fn member<T>(
    text: &str,
    names: &mut Names,
    read: impl FnOnce(&str, &mut Names, &mut Sink<'_>) -> Result<T, super::parser::Failure>,
) -> Result<(T, Findings), Findings> {
    let mut sink = Sink::new(text);
    match read(text, names, &mut sink) {
        Ok(member) => Ok((member, sink.warnings)),
        Err((range, problem)) => {
            sink.error(range, problem);
            Err(sink.errors)
        }
    }
}

/// Where a rule names something in this role, in octets of its text. The names of groups begin with `@`.
pub(crate) fn place_of(rule: &str, role: Role, name: &str) -> Option<Range<usize>> {
    parser::place_of(rule, role, name)
}

impl FromStr for Rule {
    type Err = Findings;

    fn from_str(text: &str) -> Result<Rule, Findings> {
        parse(text, &mut Names::default()).map(|(rule, _)| rule)
    }
}

/// The family of addresses; all of them have none, and groups may have both.
pub(in crate::rules) fn family_of(addresses: &Addresses) -> Option<IpFamily> {
    let v4 = match addresses {
        Addresses::Any | Addresses::Group(_) => return None,
        Addresses::Net(net) => net.addr().is_ipv4(),
        Addresses::Range(first, _) => first.is_ipv4(),
    };
    Some(if v4 { IpFamily::V4 } else { IpFamily::V6 })
}

/// The family that alone has a protocol.
pub(in crate::rules) fn family_of_protocol(protocol: u8) -> Option<IpFamily> {
    match protocol {
        ICMP => Some(IpFamily::V4),
        ICMP6 => Some(IpFamily::V6),
        _ => None,
    }
}
