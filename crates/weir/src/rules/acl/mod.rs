//! Rules on the fields of packets: the first of a list that matches decides.
//!
//! ```text
//! rule      = action what "from" end "to" end { condition } [ "comment" text ]
//! action    = "permit" | "deny"
//! what      = "ip" | family [ protocol ] | protocol      ip: all packets
//! family    = "ip4" | "ip6"
//! protocol  = "tcp" | "udp" | "icmp" | "icmp6" | … | number
//! end       = addresses [ "port" range ]                 of tcp, udp, sctp and dccp
//! addresses = "any" | prefix | address [ "-" address ]
//! condition = "type" ( name | range )                    of icmp and icmp6
//!           | "code" range                               of icmp and icmp6
//!           | "tcp-flags" flags "/" flags                of tcp: those that are set, and those that are asked about
//!           | "fragment" | "no-fragment"                 not the first of their packet; or any other
//!           | "dscp" ( name | number )
//! flags     = "none" | flag { "," flag }
//! range     = number [ "-" number ]
//! ```
//!
//! Each condition stands once, in any order. Ports, types and flags are known of the first fragment of a packet only, so
//! a rule that asks for them does not match the others. Rules print as in [`super`]: names where numbers have them, an
//! address as the prefix of its length, and conditions in the order above.
//!
//! # Sources
//! The names of protocols, of ICMP types and of differentiated services code points are those of IANA's registries, in lower
//! case, with hyphens for blanks, and `icmp6` for `IPv6-ICMP`.

mod parser;
#[cfg(test)]
mod tests;
mod words;

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use weir_plane::model;

pub use weir_plane::model::{Addresses, IpFamily, Ports, TcpFlags, Transport};

use super::findings::Sink;
use super::{ANY, Action, Findings, write_comment};

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ICMP6: u8 = 58;
const SCTP: u8 = 132;

/// Protocols with ports, as far as rules ask for them.
const WITH_PORTS: [u8; 4] = [TCP, UDP, SCTP, DCCP];

/// A rule on the fields of packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it does with what it matches.
    pub action: Action,
    /// The family that it names; addresses may say it, too.
    pub family: Option<IpFamily>,
    /// Source addresses.
    pub from: Addresses,
    /// Destination addresses.
    pub to: Addresses,
    /// The protocol, and what is asked of its header. Of a protocol with ports that is not asked for them, only the number.
    pub transport: Transport,
    /// Whether it is about fragments that are not the first of their packet, or about all else.
    pub fragment: Option<bool>,
    /// The differentiated services code point, up to 63.
    pub dscp: Option<u8>,
    /// What people say of it: up to [`LONGEST_COMMENT`](super::LONGEST_COMMENT) octets without control characters.
    pub comment: Option<Box<str>>,
}

impl Rule {
    /// As the gateway wants it. Its family is known wherever anything of the rule says it.
    pub fn model(&self, origin: model::Origin) -> model::AclRule {
        let of_protocol = match self.transport {
            Transport::Any => None,
            Transport::Protocol(protocol) | Transport::Ports { protocol, .. } | Transport::Icmp { protocol, .. } => {
                family_of_protocol(protocol)
            }
        };
        let family = self.family.or(of_protocol);
        model::AclRule {
            action: match self.action {
                Action::Permit => model::AclAction::Permit,
                Action::Deny => model::AclAction::Deny,
            },
            family: family.or_else(|| family_of(&self.from)).or_else(|| family_of(&self.to)),
            from: self.from.clone(),
            to: self.to.clone(),
            transport: self.transport.clone(),
            fragment: self.fragment,
            dscp: self.dscp,
            ..model::AclRule::all(model::AclAction::Permit, origin)
        }
    }
}

/// The family of addresses; all of them have none.
fn family_of(addresses: &Addresses) -> Option<IpFamily> {
    let v4 = match addresses {
        Addresses::Any => return None,
        Addresses::Net(net) => net.addr().is_ipv4(),
        Addresses::Range(first, _) => first.is_ipv4(),
        // It may have both.
        Addresses::Group(_) => return None,
    };
    Some(if v4 { IpFamily::V4 } else { IpFamily::V6 })
}

/// The family that alone has a protocol.
fn family_of_protocol(protocol: u8) -> Option<IpFamily> {
    match protocol {
        ICMP => Some(IpFamily::V4),
        ICMP6 => Some(IpFamily::V6),
        _ => None,
    }
}

/// Reads one rule. Also says what is odd about it.
///
/// # Errors
/// If it cannot be understood.
pub fn parse(text: &str) -> Result<(Rule, Findings), Findings> {
    let mut sink = Sink::new(text);
    match parser::rule(text, &mut sink) {
        Ok(rule) => Ok((rule, sink.warnings)),
        Err((range, problem)) => {
            sink.error(range, problem);
            Err(sink.errors)
        }
    }
}

impl FromStr for Rule {
    type Err = Findings;

    fn from_str(text: &str) -> Result<Rule, Findings> {
        parse(text).map(|(rule, _)| rule)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (protocol, source, destination) = match &self.transport {
            Transport::Any => (None, None, None),
            Transport::Protocol(protocol) | Transport::Icmp { protocol, .. } => (Some(*protocol), None, None),
            Transport::Ports { protocol, source, destination, flags } => {
                let some = |ports: &Ports| Some(ports.clone()).filter(|ports| !ports.is_all());
                let destination = some(destination);
                // That there is a port at all is asked for, too.
                let first = flags.is_none() && destination.is_none();
                (Some(*protocol), some(source).or(first.then_some(Ports::ALL)), destination)
            }
        };
        write!(f, "{} {} from ", self.action.as_str(), What { family: self.family, protocol })?;
        write_end(f, &self.from, source)?;
        f.write_str(" to ")?;
        write_end(f, &self.to, destination)?;
        self.write_conditions(f)?;
        write_comment(f, self.comment.as_deref())
    }
}

impl Rule {
    fn write_conditions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transport {
            Transport::Icmp { protocol, icmp_type, code } => {
                let any_code = *code == (0..=u8::MAX);
                if *icmp_type != (0..=u8::MAX) || any_code {
                    let (first, last) = (*icmp_type.start(), *icmp_type.end());
                    match words::icmp_type_name(*protocol, first).filter(|_| first == last) {
                        Some(name) => write!(f, " type {name}")?,
                        None => write!(f, " type {}", Span(icmp_type))?,
                    }
                }
                if !any_code {
                    write!(f, " code {}", Span(code))?;
                }
            }
            Transport::Ports { flags: Some(flags), .. } => {
                write!(f, " tcp-flags {}/{}", words::Flags(flags.value), words::Flags(flags.mask))?;
            }
            _ => {}
        }
        match self.fragment {
            Some(true) => f.write_str(" fragment")?,
            Some(false) => f.write_str(" no-fragment")?,
            None => {}
        }
        match self.dscp.map(|dscp| (dscp, words::dscp_name(dscp))) {
            Some((_, Some(name))) => write!(f, " dscp {name}"),
            Some((dscp, None)) => write!(f, " dscp {dscp}"),
            None => Ok(()),
        }
    }
}

/// Which packets a rule is about: family, protocol, or `ip`.
struct What {
    family: Option<IpFamily>,
    protocol: Option<u8>,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.family, self.protocol) {
            (None, None) => "ip",
            (None, Some(_)) => "",
            (Some(IpFamily::V4), _) => "ip4",
            (Some(IpFamily::V6), _) => "ip6",
        })?;
        let Some(protocol) = self.protocol else { return Ok(()) };
        let blank = if self.family.is_some() { " " } else { "" };
        match words::protocol_name(protocol) {
            Some(name) => write!(f, "{blank}{name}"),
            None => write!(f, "{blank}{protocol}"),
        }
    }
}

/// Addresses, and perhaps ports.
fn write_end(f: &mut fmt::Formatter<'_>, addresses: &Addresses, ports: Option<Ports>) -> fmt::Result {
    match addresses {
        Addresses::Any => f.write_str(ANY)?,
        Addresses::Net(net) => write!(f, "{net}")?,
        Addresses::Range(first, last) => write!(f, "{first}-{last}")?,
        Addresses::Group(group) => write!(f, "@{}", group.name)?,
    }
    match ports {
        Some(Ports::Range(ports)) => write!(f, " port {}", Span(&ports)),
        Some(Ports::Group(group)) => write!(f, " port @{}", group.name),
        None => Ok(()),
    }
}

/// A number, or two with a hyphen between.
struct Span<'r, N>(&'r RangeInclusive<N>);

impl<N: fmt::Display + PartialEq> fmt::Display for Span<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.0.start(), self.0.end());
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}
