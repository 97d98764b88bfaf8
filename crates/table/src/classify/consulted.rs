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

use weir_base::reclaim::Domain;

use super::address::Address;
use super::rule::{Fragments, Masked, Rule, Upper};
use super::table::Table;
use super::tree::{Refusal, Tree};

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

    const NAMES: [&str; 7] = ["protocol", "ports", "icmp", "interface", "flags", "fragment", "dscp"];

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

    fn each(self) -> impl Iterator<Item = usize> {
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

/// What a writer keeps of what its rules ask for.
pub(super) struct Asking<K> {
    domain: Domain,
    /// Octets that each tree may have; none if there are to be no trees.
    octets: Option<usize>,
    /// Rules that ask for each field.
    counts: [usize; Consulted::NAMES.len()],
    /// Of rules that ask for each of [`OUTSIDE`], once there has been one.
    trees: [Option<Tree<K>>; OUTSIDE.len()],
}

impl<K: Address> Asking<K> {
    pub(super) fn new(domain: &Domain, octets: Option<usize>) -> Asking<K> {
        Asking { domain: domain.clone(), octets, counts: Default::default(), trees: Default::default() }
    }

    /// Notes rules that will be in the table. All or nothing.
    pub(super) fn add(&mut self, rules: &[(u64, &Rule<K>, u32)], table: &Table<K>) -> Result<(), Refusal> {
        let done = self.plant(rules, table);
        match done {
            Ok(()) => {
                let asked = rules.iter().flat_map(|(_, rule, _)| Consulted::by(rule).each());
                asked.for_each(|field| self.counts[field] += 1);
                table.set_asks(self.asks());
            }
            Err(_) => rules.iter().for_each(|(place, ..)| self.uproot(*place)),
        }
        done
    }

    fn plant(&mut self, rules: &[(u64, &Rule<K>, u32)], table: &Table<K>) -> Result<(), Refusal> {
        let Some(octets) = self.octets else { return Ok(()) };
        for (number, field) in OUTSIDE.into_iter().enumerate() {
            let asking = rules.iter().filter(|(_, rule, _)| Consulted::by(rule).contains(field));
            let asking = Vec::from_iter(asking.map(|(place, rule, identity)| (*place, rule.within_key(), *identity)));
            if asking.is_empty() {
                continue;
            }
            if self.trees[number].is_none() {
                let tree = Tree::new(&self.domain, octets).map_err(|_| Refusal::NoRoom)?;
                table.set_asking(number, tree.table().clone());
                self.trees[number] = Some(tree);
            }
            let tree = self.trees[number].as_mut().expect("it has been made");
            for (place, ..) in &asking {
                // What could not be removed is still there.
                K::remove(tree, *place)?;
            }
            K::load(tree, asking)?;
        }
        Ok(())
    }

    /// Forgets a rule that has left the table.
    pub(super) fn remove(&mut self, place: u64, asked: Consulted, table: &Table<K>) {
        asked.each().for_each(|field| self.counts[field] -= 1);
        self.uproot(place);
        table.set_asks(self.asks());
    }

    /// A tree that has no room for what would take the place of a block keeps the rule: answers are then said to depend on
    /// more than they do, until a rule comes to the place that asks for the same field.
    fn uproot(&mut self, place: u64) {
        for tree in self.trees.iter_mut().flatten() {
            let _ = K::remove(tree, place);
        }
    }

    fn asks(&self) -> Consulted {
        let fields = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        fields.fold(Consulted::NONE, |all, (field, _)| all | Consulted(1 << field))
    }

    pub(super) fn collect(&mut self) {
        self.trees.iter_mut().flatten().for_each(Tree::collect);
    }

    pub(super) fn trees(&self) -> impl Iterator<Item = &Tree<K>> {
        self.trees.iter().flatten()
    }
}
