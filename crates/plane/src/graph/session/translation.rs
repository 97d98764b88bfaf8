//! Translation, as a session has it: the tuple of its replies is not the reverse of its own.

use std::num::NonZeroU32;

use weir_packet::translate::has_words;

use super::logged::Logged;
use super::mappings::MappedBy;
use super::tuple::Tuple;
use crate::root::Root;
use crate::root::family::Family;
use crate::root::nat::Rule;

/// The part of a session that translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Translation<K> {
    /// The tuple of replies, as they come in.
    pub(crate) reply: Tuple<K>,
    /// The number of the rule that opened it.
    pub(crate) rule: u32,
    /// The chain that decided about the source of packets that were translated as they came in; `None`: the source stays.
    pub(crate) source_by: Option<SourceBy>,
    /// The interface whose chain has the rule: the one that the first packet came in by, or left by; the outside interface of
    /// the mapping that the packet came in for.
    pub(crate) interface: u32,
    /// The list that it counts for: that of the rule which gives it to its first packet.
    pub(crate) list: u16,
    /// The number of the limit on its inside address that it counts for.
    pub(crate) counted: Option<NonZeroU32>,
    /// The rule matched what came in.
    pub(crate) input: bool,
    /// The first packet came in for the outside endpoint of a mapping, which the rule gives. After a reload, a rule about packets that
    /// come in may give the same.
    pub(crate) through: bool,
    /// It holds the mapping of its source, and the one that its first packet came in for.
    pub(crate) holds: [bool; 2],
    /// The log of its beginning and end; `None`: they are not logged.
    pub(crate) logged: Option<Logged>,
    /// The source of its first packet has not been decided about.
    pub(crate) is_undecided: bool,
}

/// No rule.
const NONE: u32 = u32::MAX;

/// The decision about the source of packets whose destination was translated before, or would be by a rule about both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceBy {
    /// The outside interface whose rules decided.
    pub(crate) interface: u32,
    /// The first packet left by no outside interface: the rules saw the destination that it came in with.
    pub(crate) is_hairpin: bool,
    /// The number of the rule, which may be about both; [`NONE`]: the source stays.
    rule: u32,
}

impl SourceBy {
    pub(crate) fn new(interface: u32, is_hairpin: bool, rule: Option<u32>) -> SourceBy {
        SourceBy { interface, is_hairpin, rule: rule.unwrap_or(NONE) }
    }

    /// The number of the rule, which may be about both; `None`: the source stays.
    pub(crate) fn rule(&self) -> Option<u32> {
        Some(self.rule).filter(|&rule| rule != NONE)
    }

    /// The same by another rule.
    pub(crate) fn with_rule(self, rule: Option<u32>) -> SourceBy {
        SourceBy::new(self.interface, self.is_hairpin, rule)
    }
}

impl<K: Family> Translation<K> {
    /// A translation that a rule begins at an interface. Neither its log nor the limit on its inside address is decided.
    pub(crate) fn begun(reply: Tuple<K>, (number, rule): (u32, &Rule), interface: u32) -> Translation<K> {
        Translation {
            reply,
            rule: number,
            source_by: None,
            interface,
            list: rule.id.list,
            counted: None,
            input: false,
            through: false,
            holds: [false; 2],
            logged: None,
            is_undecided: true,
        }
    }

    /// The number of the rule that gave its source, or let the source be.
    pub(crate) fn source_rule(&self) -> Option<u32> {
        match self.source_by {
            Some(by) => by.rule(),
            None if self.through => None,
            None => Some(self.rule),
        }
    }

    /// The number of the rule that gave its source, if that is another one.
    pub(crate) fn other_rule(&self) -> Option<u32> {
        self.source_by.and_then(|by| by.rule()).filter(|&rule| rule != self.rule)
    }

    /// The mappings that it is to hold, by the rules in force: that of its source, and the one that its first packet came in for.
    pub(crate) fn mapped_by(&self, root: &Root) -> [Option<MappedBy>; 2] {
        let of = |number: u32| {
            let rule = root.nat.rules.get(number as usize)?;
            let number = rule.mapping?.number.get();
            Some(MappedBy { number, interface: rule.interface, version: root.nat.version })
        };
        let has_words = has_words(self.reply.protocol, self.reply.query != 0);
        let source = self.source_rule().filter(|_| has_words).and_then(of);
        [source, if self.through { of(self.rule) } else { None }]
    }

    /// The tuple of packets in the direction of the first one, as they leave.
    #[inline]
    pub(crate) fn out(&self) -> Tuple<K> {
        self.reply.reversed()
    }
}
