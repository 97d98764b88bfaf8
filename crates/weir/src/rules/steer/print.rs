//! Rules as text.

use std::fmt;

use weir_packet::identify::Identifier;
use weir_plane::model::SteerHeader;

use super::super::acl::print::{Span, What, write_end};
use super::super::acl::{Ports, Rule as Matches, Transport};
use super::super::write_comment;
use super::octets;
use super::rule::{Rule, Way};

/// The word of the grammar.
pub(super) const fn identifier(kind: Identifier) -> &'static str {
    match kind {
        Identifier::Esp | Identifier::Ah => "spi",
        Identifier::Vni => "vni",
        Identifier::Teid => "teid",
        Identifier::Session => "session",
    }
}

/// The word of the grammar.
pub(super) const fn header(header: SteerHeader) -> &'static str {
    match header {
        SteerHeader::Ethernet => "ethernet",
        SteerHeader::Ip4 => "ip4",
        SteerHeader::Ip6 => "ip6",
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_actions(f)?;
        if self.unchecked {
            f.write_str("unchecked ")?;
        }
        if let Some(vlan) = &self.vlan {
            write!(f, "vlan {} ", Span(vlan))?;
        }
        match self.frame {
            Some(frame) => super::frame::write(f, frame)?,
            None => write_packet(f, &self.matches)?,
        }
        super::frame::write_macs(f, self.macs)?;
        if let Some((kind, ids)) = &self.id {
            write!(f, " {} {}", identifier(*kind), Span(ids))?;
        }
        if let Some(octets) = &self.octets {
            octets::write(f, octets)?;
        }
        if let Some(inner) = &self.inner {
            f.write_str(" inner ")?;
            write_packet(f, inner)?;
        }
        if let Way::Advance(_, own) = self.way {
            write!(f, " then {}", header(own))?;
        }
        write_comment(f, self.comment.as_deref())
    }
}

/// Writes the packets that a rule matches.
fn write_packet(f: &mut fmt::Formatter<'_>, matches: &Matches) -> fmt::Result {
    let (from, to) = match &matches.transport {
        Transport::Ports { source, destination, .. } => (source, destination),
        _ => (&Ports::Any, &Ports::Any),
    };
    write!(f, "{} from ", What { family: matches.family, protocol: matches.transport.protocol() })?;
    write_end(f, &matches.from, from)?;
    f.write_str(" to ")?;
    write_end(f, &matches.to, to)?;
    matches.write_conditions(f)
}

impl Rule {
    /// Writes the actions, with a blank behind each.
    fn write_actions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count || self.mark.is_none() && self.way == Way::On {
            f.write_str("count ")?;
        }
        if let Some(mark) = self.mark {
            write!(f, "mark {mark} ")?;
        }
        match &self.way {
            Way::On => Ok(()),
            Way::Drop => f.write_str("drop "),
            Way::To(interface, address) => {
                f.write_str("redirect ")?;
                if let Some(name) = interface {
                    write!(f, "interface {name} ")?;
                }
                match address {
                    Some(address) => write!(f, "next-hop {address} "),
                    None => Ok(()),
                }
            }
            Way::Queue(worker) => write!(f, "redirect queue {worker} "),
            Way::Node(node) => write!(f, "redirect node {} ", node.name()),
            Way::Advance(octets, _) => write!(f, "advance {octets} "),
        }
    }
}
