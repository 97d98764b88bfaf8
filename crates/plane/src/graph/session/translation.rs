//! Translation, as a session has it: the tuple of its replies is not the reverse of its own.

use std::num::NonZeroU32;

use weir_packet::translate::has_words;

use super::mappings::MappedBy;
use super::tuple::Tuple;
use crate::root::Root;
use crate::root::family::Family;
use crate::root::nat::LogTo;

/// The part of a session that translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Translation<K> {
    /// The tuple of replies, as they come in.
    pub(crate) reply: Tuple<K>,
    /// The number of the rule that opened it.
    pub(crate) rule: u32,
    /// The chain that decided about the source, if it is another one.
    pub(crate) source_by: Option<SourceBy>,
    /// The interface whose chain has the rule: the one that the first packet came in by, or left by; the outside interface of
    /// the mapping that the packet came in for.
    pub(crate) interface: u32,
    /// The number of the limit on its inside address that it counts for.
    pub(crate) counted: Option<NonZeroU32>,
    /// The rule matched what came in.
    pub(crate) input: bool,
    /// The first packet came in for the outside endpoint of a mapping, which the rule gives.
    pub(crate) through: bool,
    /// It holds the mapping of its source, and the one that its first packet came in for.
    pub(crate) holds: [bool; 2],
    /// Where its beginning was logged, and its end is to be.
    pub(crate) logged: Option<LogTo>,
    /// The source of its first packet has not been decided about.
    pub(crate) is_undecided: bool,
}

/// The decision about the source of packets whose destination was translated before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceBy {
    /// The outside interface whose rules decided.
    pub(crate) interface: u32,
    /// The first packet left by no outside interface: the rules saw the destination that it came in with.
    pub(crate) is_hairpin: bool,
    /// The number of the rule; `None`: the source stays.
    pub(crate) rule: Option<u32>,
}

impl<K: Family> Translation<K> {
    /// The number of the rule that gave its source, or let the source be.
    pub(crate) fn source_rule(&self) -> Option<u32> {
        match self.source_by {
            Some(by) => by.rule,
            None if self.through => None,
            None => Some(self.rule),
        }
    }

    /// The mappings that it is to hold, by the rules in force: that of its source, and the one that its first packet came in for.
    pub(crate) fn mapped_by(&self, root: &Root) -> [Option<MappedBy>; 2] {
        let of = |number: u32| {
            let rule = root.nat.rules.get(number as usize)?;
            let number = rule.mapping?.number.get();
            Some(MappedBy { number, interface: rule.interface })
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
