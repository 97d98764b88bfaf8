//! Which fields rules ask for, and which of those outside of a flow's key had a part in an answer.
//!
//! Whoever remembers answers by flow must know whether another packet of the flow would have had the same one. The key of
//! a flow has the addresses, the protocol, the ports or type and code, and the interface. Flags, codepoint, and which part
//! of a datagram a packet is may differ from packet to packet. They have a part in an answer if a rule asks for them that
//! comes before the one that was found, or is it, and that matches in all else: another packet may be matched by it that
//! this one was not, or the other way round.
//!
//! For each of the three, rules that ask for it are in a tree of their own, without all that the key does not have. The
//! first rule of such a tree that matches a packet, if it comes before what was found, is all there is to know. Where no
//! rule asks for it, there is no tree, and nothing is looked up. As rules that do take twice the memory and time to change,
//! there are trees only for writers that are made so ([`Writer::with_consulted`](super::Writer::with_consulted)).

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use super::rule::{Fragments, Masked, Rule, Upper};

/// A set of fields.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Consulted(u8);

impl Consulted {
    /// None.
    pub const NONE: Consulted = Consulted(0);
    /// The protocol.
    pub const PROTOCOL: Consulted = Consulted(1 << 0);
    /// Ports.
    pub const PORTS: Consulted = Consulted(1 << 1);
    /// Type and code of ICMP.
    pub const ICMP: Consulted = Consulted(1 << 2);
    /// The interface.
    pub const INTERFACE: Consulted = Consulted(1 << 3);
    /// Flags of TCP.
    pub const FLAGS: Consulted = Consulted(1 << 4);
    /// Which part of a datagram it is.
    pub const FRAGMENT: Consulted = Consulted(1 << 5);
    /// The codepoint of differentiated services.
    pub const DSCP: Consulted = Consulted(1 << 6);
    /// What the key of a flow does not have.
    pub const OUTSIDE: Consulted = Consulted(Consulted::FLAGS.0 | Consulted::FRAGMENT.0 | Consulted::DSCP.0);

    /// How many fields there are.
    pub(super) const COUNT: usize = 7;

    const NAMES: [&str; Consulted::COUNT] = ["protocol", "ports", "icmp", "interface", "flags", "fragment", "dscp"];

    /// What a rule asks for, beside addresses.
    pub fn by<K>(rule: &Rule<K>) -> Consulted {
        let asks = [
            (rule.protocol.is_some(), Consulted::PROTOCOL),
            (matches!(rule.upper, Upper::Ports { .. }), Consulted::PORTS),
            (matches!(rule.upper, Upper::Icmp { .. }), Consulted::ICMP),
            (rule.interfaces.is_some(), Consulted::INTERFACE),
            (rule.flags.mask() != 0, Consulted::FLAGS),
            (rule.fragments != Fragments::ALL, Consulted::FRAGMENT),
            (rule.dscp.is_some(), Consulted::DSCP),
        ];
        asks.into_iter().filter(|(asks, _)| *asks).fold(Consulted::NONE, |all, (_, field)| all | field)
    }

    /// Whether it has all fields of another set.
    pub fn contains(self, other: Consulted) -> bool {
        self.0 & other.0 == other.0
    }

    /// The fields of both.
    #[must_use]
    pub fn and(self, other: Consulted) -> Consulted {
        Consulted(self.0 & other.0)
    }

    /// There are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// A bit for each field.
    pub fn bits(self) -> u8 {
        self.0
    }

    pub(super) fn from_bits(bits: u8) -> Consulted {
        Consulted(bits)
    }

    /// A field by its number.
    pub(super) fn field(number: usize) -> Consulted {
        Consulted(1 << number)
    }

    /// The numbers of its fields.
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
    /// The rule without what the key of a flow does not have: flags, fragments and codepoint.
    #[must_use]
    pub fn within_key(&self) -> Rule<K> {
        Rule { flags: Masked::new(0, 0), fragments: Fragments::ALL, dscp: None, ..self.clone() }
    }
}

/// The fields that have trees, in the order of these.
pub(super) const OUTSIDE: [Consulted; 3] = [Consulted::FLAGS, Consulted::FRAGMENT, Consulted::DSCP];
