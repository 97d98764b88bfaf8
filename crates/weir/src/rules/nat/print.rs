//! Rules as text.

use std::fmt;

use super::super::acl::print::{Span, What, write_end};
use super::super::acl::{Addresses, GROUP, Ports, Transport};
use super::super::prefix::Short;
use super::super::{ANY, write_comment};
use super::rule::{INTERFACE, Rule, Target, Verb};

/// The word of the grammar.
pub(super) const fn verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Source => "source",
        Verb::Destination => "destination",
        Verb::Both => "both",
        Verb::Map => "map",
        Verb::Keep => "keep",
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let matches = &self.matches;
        let (from, to) = match &matches.transport {
            Transport::Ports { source, destination, .. } => (source, destination),
            _ => (&Ports::Any, &Ports::Any),
        };
        let what = What { family: matches.family, protocol: matches.transport.protocol() };
        write!(f, "{} {what} from ", verb(self.verb))?;
        write_end(f, &matches.from, from)?;
        f.write_str(" to ")?;
        if self.to_interface {
            f.write_str(INTERFACE)?;
            match to {
                Ports::Any => {}
                Ports::Range(ports) => write!(f, " port {}", Span(ports))?,
                Ports::Group(name) => write!(f, " port {GROUP}{name}")?,
            }
        } else {
            write_end(f, &matches.to, to)?;
        }
        match (self.verb, &self.source, &self.destination) {
            (Verb::Both, Some(source), Some(destination)) => {
                write!(f, " as source {source} destination {destination}")?
            }
            (_, Some(target), _) | (_, None, Some(target)) => write!(f, " as {target}")?,
            (_, None, None) => {}
        }
        if self.preserve {
            f.write_str(" preserve")?;
        }
        if self.parity {
            f.write_str(" parity")?;
        }
        if let Some(limit) = self.limit_per_address {
            write!(f, " limit-per-address {limit}")?;
        }
        if self.log {
            f.write_str(" log")?;
        }
        write_comment(f, self.comment.as_deref())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.addresses {
            None => f.write_str(INTERFACE)?,
            Some(Addresses::Any) => f.write_str(ANY)?,
            Some(Addresses::Net(net)) => write!(f, "{}", Short(net))?,
            Some(Addresses::Range(first, last)) => write!(f, "{first}-{last}")?,
            Some(Addresses::Group(name)) => write!(f, "{GROUP}{name}")?,
        }
        match &self.ports {
            Some(ports) => write!(f, " port {}", Span(ports)),
            None => Ok(()),
        }
    }
}
