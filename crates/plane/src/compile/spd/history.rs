//! The last changes of an SPD.

use std::collections::HashSet;

use weir_table::classify::Small;

use super::identity::selectors;
use super::side::{Side, boxes_of};
use crate::compile::boxes::{Bits, count};
use crate::model::SpdRule;
use crate::root::is_after;
use crate::root::spd::Changes;

/// Boxes of the changes that are known, at most. Entries that are older than the oldest of these changes are decided again.
const MOST: usize = 1024;

/// The last changes of an SPD.
#[derive(Debug, Clone)]
pub(super) struct History {
    /// The version of the last change that is not known any more.
    since: u32,
    /// The rules that came, went or moved, with the version of the change, those of the last change first.
    rules: Vec<(u32, SpdRule)>,
}

impl History {
    /// No change is known before a version.
    pub(super) fn begun(version: u32) -> History {
        History { since: version, rules: Vec::new() }
    }

    /// Returns the history with a change.
    pub(super) fn with(&self, version: u32, changed: &[SpdRule]) -> History {
        let new: HashSet<SpdRule> = changed.iter().map(selectors).collect();
        let before = self.rules.iter().filter(|(_, rule)| !new.contains(&selectors(rule))).cloned();
        let mut rules: Vec<(u32, SpdRule)> = changed.iter().map(|rule| (version, rule.clone())).chain(before).collect();
        let mut since = self.since;
        let mut boxes = 0;
        let is_beyond = |(_, rule): &(u32, SpdRule)| {
            boxes += count(&rule.matches);
            boxes > MOST
        };
        if let Some(at) = rules.iter().position(is_beyond) {
            since = rules[at].0;
            rules.retain(|(version, _)| *version != since && is_after(*version, since));
        }
        History { since, rules }
    }

    /// The changes of a direction and family.
    pub(super) fn changes<K: Bits>(&self, side: Side) -> Changes<K> {
        let each = self
            .rules
            .iter()
            .flat_map(|(version, rule)| boxes_of::<K>(rule, side).into_iter().map(move |own| (own, *version)));
        let boxes: Vec<_> = each.collect();
        if boxes.is_empty() {
            return Changes::new(self.since, None);
        }
        match Small::build(boxes.iter().map(|(own, version)| (own, *version))) {
            Ok(rules) => Changes::new(self.since, Some(rules)),
            // There are fewer of them than such a list takes.
            Err(_) => Changes::new(self.rules.first().map_or(self.since, |newest| newest.0), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AclAction, AclRule, Addresses, Origin, SpdAction};

    fn to(number: usize) -> SpdRule {
        let to = Addresses::Net(std::net::IpAddr::from((number as u32).to_be_bytes()).into());
        SpdRule::new(SpdAction::Bypass, AclRule { to, ..AclRule::all(AclAction::Permit, Origin::default()) })
    }

    #[test]
    fn the_last_changes_are_known_and_whole() {
        let history = History::begun(3).with(4, &[to(1), to(2)]).with(5, &[to(1)]);
        assert_eq!((history.since, history.rules.len()), (3, 2), "a rule that changes again is known once");
        assert_eq!(history.rules[0].0, 5);
        let many: Vec<SpdRule> = (0..MOST - 1).map(to).collect();
        let full = history.with(6, &many);
        assert_eq!((full.since, full.rules.len()), (3, MOST - 1), "rules that changed again take no room");
        let next = full.with(7, &[to(MOST), to(MOST + 1)]);
        assert_eq!((next.since, next.rules.len()), (6, 2), "a change is forgotten as a whole");
        let all: Vec<SpdRule> = (0..=MOST).map(to).collect();
        let none = next.with(8, &all);
        assert_eq!((none.since, none.rules.len()), (8, 0));
    }
}
