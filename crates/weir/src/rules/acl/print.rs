//! Rules as text.

use std::fmt;
use std::ops::RangeInclusive;

use super::super::prefix::Short;
use super::super::{ANY, write_comment};
use super::{Action, Addresses, GROUP, Interfaces, IpFamily, Ports, RECEIVED_ON, Rejection, Rule, Transport, words};

/// The word for what a rule does.
pub(super) fn action(action: Action) -> &'static str {
    match action {
        Action::Permit => "permit",
        Action::Reflect => "permit+reflect",
        Action::Deny => "deny",
        Action::Reject(Rejection::Usual) => "reject",
        Action::Reject(Rejection::Reset) => "reject+reset",
        Action::Reject(Rejection::Icmp) => "reject+icmp",
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = match &self.transport {
            Transport::Ports { source, destination, .. } => (source, destination),
            _ => (&Ports::Any, &Ports::Any),
        };
        let what = What { family: self.family, protocol: self.transport.protocol() };
        write!(f, "{} {what} from ", action(self.action))?;
        write_end(f, &self.from, source)?;
        f.write_str(" to ")?;
        write_end(f, &self.to, destination)?;
        self.write_conditions(f)?;
        write_comment(f, self.comment.as_deref())
    }
}

impl Rule {
    /// Writes the conditions behind the ends.
    pub(in crate::rules) fn write_conditions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transport {
            Transport::Icmp { protocol, icmp_type, code } => {
                write_icmp(f, *protocol, icmp_type.as_ref(), code.as_ref())?;
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
            Some((_, Some(name))) => write!(f, " dscp {name}")?,
            Some((dscp, None)) => write!(f, " dscp {dscp}")?,
            None => {}
        }
        if let Some(mark) = self.mark {
            write!(f, " mark {mark}")?;
        }
        match &self.received_on {
            Some(Interfaces::List(names)) => write!(f, " {RECEIVED_ON} {}", names.join(", "))?,
            Some(Interfaces::Group(name)) => write!(f, " {RECEIVED_ON} {GROUP}{name}")?,
            None => {}
        }
        if let Some(limit) = &self.limit {
            write!(f, " limit {limit}")?;
        }
        if self.log {
            f.write_str(" log")?;
        }
        match self.flow {
            Some(true) => f.write_str(" flow"),
            Some(false) => f.write_str(" no-flow"),
            None => Ok(()),
        }
    }
}

/// Type and code of ICMP, as far as a rule names them.
pub(in crate::rules) fn write_icmp(
    f: &mut fmt::Formatter<'_>,
    protocol: u8,
    icmp_type: Option<&RangeInclusive<u8>>,
    code: Option<&RangeInclusive<u8>>,
) -> fmt::Result {
    if let Some(icmp_type) = icmp_type {
        let (first, last) = (*icmp_type.start(), *icmp_type.end());
        match words::icmp_type_name(protocol, first).filter(|_| first == last) {
            Some(name) => write!(f, " type {name}")?,
            None => write!(f, " type {}", Span(icmp_type))?,
        }
    }
    match code {
        Some(code) => write!(f, " code {}", Span(code)),
        None => Ok(()),
    }
}

/// Which packets a rule is about: family, protocol, or `ip`.
pub(in crate::rules) struct What {
    pub(in crate::rules) family: Option<IpFamily>,
    pub(in crate::rules) protocol: Option<u8>,
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
pub(in crate::rules) fn write_end(f: &mut fmt::Formatter<'_>, addresses: &Addresses, ports: &Ports) -> fmt::Result {
    match addresses {
        Addresses::Any => f.write_str(ANY)?,
        Addresses::Net(net) => write!(f, "{}", Short(net))?,
        Addresses::Range(first, last) => write!(f, "{first}-{last}")?,
        Addresses::Group(name) => write!(f, "{GROUP}{name}")?,
    }
    match ports {
        Ports::Any => Ok(()),
        Ports::Range(ports) => write!(f, " port {}", Span(ports)),
        Ports::Group(name) => write!(f, " port {GROUP}{name}"),
    }
}

/// A number, or two with a hyphen between.
pub(in crate::rules) struct Span<'r, N>(pub(in crate::rules) &'r RangeInclusive<N>);

impl<N: fmt::Display + PartialEq> fmt::Display for Span<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.0.start(), self.0.end());
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}
