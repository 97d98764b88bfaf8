//! Rules as text.

use std::fmt;

use super::super::acl::print::{What, write_end, write_icmp};
use super::super::acl::{Ports, Transport};
use super::super::write_comment;
use super::rule::{Action, Rule};

/// The word for ports that are not there.
pub(super) const OPAQUE: &str = "opaque";

/// The word for rules that share the flows that they match.
pub(super) const SHARED: &str = "shared";

/// The word of the grammar.
pub(super) const fn action(action: Action) -> &'static str {
    match action {
        Action::Protect => "protect",
        Action::Bypass => "bypass",
        Action::Discard => "discard",
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
        write!(f, "{} {what} from ", action(self.action))?;
        write_end(f, &matches.from, from)?;
        if self.opaque.from {
            write!(f, " port {OPAQUE}")?;
        }
        f.write_str(" to ")?;
        write_end(f, &matches.to, to)?;
        if self.opaque.to {
            write!(f, " port {OPAQUE}")?;
        }
        if let Transport::Icmp { protocol, icmp_type, code } = &matches.transport {
            write_icmp(f, *protocol, icmp_type.as_ref(), code.as_ref())?;
        }
        if let Some(sa) = &self.sa {
            write!(f, " sa {sa}")?;
        }
        if self.shared {
            write!(f, " {SHARED}")?;
        }
        if self.priority != 0 {
            write!(f, " priority {}", self.priority)?;
        }
        write_comment(f, self.comment.as_deref())
    }
}
