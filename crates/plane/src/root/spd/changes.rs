//! Changes of an SPD, with the packets that they concern: an entry of a cache holds on if none of the changes since concerns its flow.

use weir_table::classify::{Fields, NO_RULE, Small};

use crate::root::changes::is_after;
use crate::root::family::Family;

/// The changes of an SPD for a direction and family.
#[derive(Clone)]
pub struct Changes<K: Family> {
    /// The version of the last change that is not known any more. It concerns all flows.
    since: u32,
    /// The rules that came, went or moved, those of the last change first. The answer is the version of a change. `None`: no change is
    /// known.
    rules: Option<Small<K>>,
}

impl<K: Family> Changes<K> {
    /// The changes after a version.
    pub fn new(since: u32, rules: Option<Small<K>>) -> Changes<K> {
        Changes { since, rules }
    }

    /// Whether entries of these flows and versions hold on in a version: writes it for each.
    #[cold]
    pub(crate) fn hold_on(&self, current: u32, entries: &[u32], flows: &[Fields<K>], found: &mut [bool]) {
        let mut last = [NO_RULE; weir_packet::vector::VECTOR];
        let last = &mut last[..flows.len()];
        if let Some(rules) = &self.rules {
            rules.lookup_each(flows, last);
        }
        for ((found, &entry), &last) in found.iter_mut().zip(entries).zip(&*last) {
            // Measurements put older versions into force again.
            let is_known = !is_after(self.since, entry) && !is_after(entry, current);
            *found = is_known && (last == NO_RULE || !is_after(last, entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_table::classify::{Rule, Span};

    use super::*;

    #[test]
    fn an_entry_holds_on_until_a_change_concerns_its_flow() {
        let to = |address: u32| Rule { destination: Span::only(address), ..Rule::any() };
        let rules = [(to(1), 9), (to(2), 8), (to(1), 7)];
        let changes = Changes::new(5, Small::build(rules.iter().map(|(rule, version)| (rule, *version))).ok());
        let holds = |version: u32, address: u32| {
            let mut found = [true];
            changes.hold_on(9, &[version], &[Fields::new(3, address, 6)], &mut found);
            found[0]
        };
        assert!(holds(9, 1) && !holds(8, 1) && !holds(6, 1));
        assert!(holds(8, 2) && !holds(7, 2));
        assert!(holds(5, 3) && !holds(4, 3), "older changes are not known");
        assert!(!holds(10, 3), "an entry of a later version");
        let none = Changes::<u32>::new(u32::MAX, None);
        let mut found = [false; 2];
        none.hold_on(2, &[u32::MAX, u32::MAX - 1], &[Fields::new(3, 1, 6); 2], &mut found);
        assert_eq!(found, [true, false], "past the largest number");
    }
}
