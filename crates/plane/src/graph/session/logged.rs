//! The part of a translation that its log needs.

use crate::root::nat::{LogTo, RuleId};

/// The log of a translation that has one: where its beginning was logged, and its end is to be; and the names of its rules then.
/// It takes 16 octets of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Logged {
    /// The ids of the rule and of the one that gave the source; 0: it is the same.
    ids: [u32; 2],
    /// The numbers of their lists.
    lists: [u16; 2],
    /// The number of the sampler; [`u16::MAX`]: none.
    sampler: u16,
    is_lines: bool,
}

impl Logged {
    pub(super) fn new(to: LogTo, rule: RuleId, source_rule: Option<RuleId>) -> Logged {
        let source = source_rule.unwrap_or(RuleId { list: 0, id: 0 });
        Logged {
            ids: [rule.id, source.id],
            lists: [rule.list, source.list],
            // A gateway has fewer samplers.
            sampler: u16::try_from(to.sampler).unwrap_or(u16::MAX),
            is_lines: to.is_lines,
        }
    }

    pub(super) fn to(&self) -> LogTo {
        let sampler = if self.sampler == u16::MAX { LogTo::NOBODY } else { self.sampler.into() };
        LogTo { is_lines: self.is_lines, sampler }
    }

    pub(super) fn rules(&self) -> [Option<RuleId>; 2] {
        let of = |at: usize| RuleId { list: self.lists[at], id: self.ids[at] };
        [0, 1].map(|at| Some(of(at)).filter(|rule| rule.id != 0))
    }
}

const _: () = assert!(size_of::<Option<Logged>>() == 16);
