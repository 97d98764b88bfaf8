//! The fields that rules match on, and those outside of a flow's key that an answer depends on.
//!
//! A component that caches answers by flow must know whether another packet of the flow would get the same answer. The
//! key of a flow has the addresses, the protocol, ports or type and code, and the interface. Flags, codepoint and
//! fragment kind may differ between packets. An answer depends on such a field if a rule that matches on it comes no
//! later than the found rule, and matches in all other fields: another packet may match this rule although the first
//! did not, or the reverse.
//!
//! For each of the three fields, a tree of its own holds the rules that match on it, reduced to the fields of the key.
//! The answer depends on the field if the first matching rule of that tree comes before the found rule. A field without
//! rules has no tree and costs nothing. Such rules take twice the memory and time to change, so trees exist only in
//! writers of [`Writer::with_consulted`](super::Writer::with_consulted).

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use super::rule::{Fragments, Masked, Rule, Upper};

/// A set of fields.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Consulted(u16);

impl Consulted {
    /// No field.
    pub const NONE: Consulted = Consulted(0);
    /// The protocol.
    pub const PROTOCOL: Consulted = Consulted(1 << 0);
    /// The ports.
    pub const PORTS: Consulted = Consulted(1 << 1);
    /// Type and code of ICMP.
    pub const ICMP: Consulted = Consulted(1 << 2);
    /// The interface.
    pub const INTERFACE: Consulted = Consulted(1 << 3);
    /// The TCP flags.
    pub const FLAGS: Consulted = Consulted(1 << 4);
    /// The kind of fragment.
    pub const FRAGMENT: Consulted = Consulted(1 << 5);
    /// The DSCP.
    pub const DSCP: Consulted = Consulted(1 << 6);
    /// The fields outside of a flow's key.
    pub const OUTSIDE: Consulted = Consulted(Consulted::FLAGS.0 | Consulted::FRAGMENT.0 | Consulted::DSCP.0);

    /// The TCP flags in which segments of one super-packet differ: those of [`Consulted::OF_SEGMENTS`]. Rules that match on them match
    /// on [`Consulted::FLAGS`], too.
    pub const SEGMENT: Consulted = Consulted(1 << 7);

    /// FIN and PSH, which the last segment has, and CWR, which the first one has (RFC 3168, 6.1.2).
    pub const OF_SEGMENTS: u16 = 0x01 | 0x08 | 0x80;

    /// The mark. It has no tree: an answer of a list with such rules depends on it.
    pub const MARK: Consulted = Consulted(1 << 8);

    pub(super) const COUNT: usize = 9;

    const NAMES: [&str; Consulted::COUNT] =
        ["protocol", "ports", "icmp", "interface", "flags", "fragment", "dscp", "segment", "mark"];

    /// Returns the fields that a rule matches on, apart from addresses.
    pub fn by<K>(rule: &Rule<K>) -> Consulted {
        let matched = [
            (rule.protocol.is_some(), Consulted::PROTOCOL),
            (matches!(rule.upper, Upper::Ports { .. } | Upper::Bare), Consulted::PORTS),
            (matches!(rule.upper, Upper::Icmp { .. }), Consulted::ICMP),
            (rule.interfaces.is_some(), Consulted::INTERFACE),
            (rule.flags.mask() != 0, Consulted::FLAGS),
            (rule.fragments != Fragments::ALL, Consulted::FRAGMENT),
            (rule.dscp.is_some(), Consulted::DSCP),
            (rule.mark.is_some(), Consulted::MARK),
            (rule.flags.mask() & Consulted::OF_SEGMENTS != 0, Consulted::SEGMENT),
        ];
        matched.into_iter().filter(|(matched, _)| *matched).fold(Consulted::NONE, |all, (_, field)| all | field)
    }

    /// Returns whether the set contains all fields of another.
    pub fn contains(self, other: Consulted) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union with another set.
    #[must_use]
    pub fn and(self, other: Consulted) -> Consulted {
        Consulted(self.0 & other.0)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns one bit for each field.
    pub fn bits(self) -> u16 {
        self.0
    }

    pub(super) fn from_bits(bits: u16) -> Consulted {
        Consulted(bits)
    }

    pub(super) fn field(number: usize) -> Consulted {
        Consulted(1 << number)
    }

    /// Returns the numbers of the fields.
    pub(super) fn each(self) -> impl Iterator<Item = usize> {
        (0..Consulted::NAMES.len()).filter(move |field| self.0 >> field & 1 != 0)
    }
}

impl BitOr for Consulted {
    type Output = Consulted;

    fn bitor(self, other: Consulted) -> Consulted {
        Consulted(self.0 | other.0)
    }
}

impl BitOrAssign for Consulted {
    fn bitor_assign(&mut self, other: Consulted) {
        *self = *self | other;
    }
}

impl fmt::Debug for Consulted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.each().map(|field| Consulted::NAMES[field])).finish()
    }
}

impl<K: Clone> Rule<K> {
    /// Returns the rule reduced to the fields of a flow's key: without flags, fragments, codepoint and mark.
    #[must_use]
    pub fn within_key(&self) -> Rule<K> {
        Rule { flags: Masked::new(0, 0), fragments: Fragments::ALL, dscp: None, mark: None, ..self.clone() }
    }
}

/// The fields with trees, in order.
pub(super) const OUTSIDE: [Consulted; 3] = [Consulted::FLAGS, Consulted::FRAGMENT, Consulted::DSCP];
