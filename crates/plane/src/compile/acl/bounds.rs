//! Bounds of the rules and sequences of lists.

use weir_table::classify::Error;
use weir_table::sav::NoRoom;

use super::list::{List, table};
use super::order::{Entry, Order};
use super::section::Full;
use crate::compile::table_full::TableFull;
use crate::model::{AclList, AclRule, Gateway, Origin};
use crate::root::acl::NONE;

/// The bound on rules, and the rules so far.
pub(super) struct Bounds {
    limit: usize,
    used: usize,
}

impl Bounds {
    pub(super) fn new(limit: usize) -> Bounds {
        Bounds { limit, used: 0 }
    }

    /// Adds the rules of a list, of which the first `new` of the declaration are new. The error names the first new rule without
    /// room, or else the list.
    pub(super) fn add(&mut self, list: &AclList, rules: usize, new: usize) -> Result<(), TableFull> {
        self.used += rules;
        let Bounds { limit, used } = *self;
        if used > limit {
            let rule = list.rules[..new].get(new.saturating_sub(used - limit));
            return Err(self.too_many(list, used, rule));
        }
        Ok(())
    }

    /// Gives the rules of a list their places. Refuses more boxes than a list can have.
    pub(super) fn spread(&self, list: &AclList, entries: Vec<Entry>) -> Result<Order, TableFull> {
        let mut boxes = 0_usize;
        for entry in &entries {
            boxes = boxes.saturating_add(entry.width as usize);
            // Each rule may have its boxes in either family.
            if boxes > self.limit.saturating_mul(2) {
                let rule = entry.declared().and_then(|index| list.rules.get(index as usize));
                return Err(self.too_many(list, boxes, rule));
            }
        }
        Ok(Order::spread(entries))
    }

    fn too_many(&self, list: &AclList, rules: usize, rule: Option<&AclRule>) -> TableFull {
        TableFull {
            table: table(&list.name),
            prefix: String::new(),
            origin: rule.map_or(list.origin, |rule| rule.origin),
            full: NoRoom::Rules(Error::TooManyRules { rules, most: self.limit }),
        }
    }
}

/// Names the list and the rule without room.
pub(super) fn table_full<'l>(full: Full, list: impl Fn(u32) -> &'l List) -> TableFull {
    let list = list(full.list);
    TableFull {
        table: table(&list.name),
        prefix: String::new(),
        // Live rules have no place of their own.
        origin: full.rule.filter(|rule| *rule != Origin::default()).unwrap_or(list.declared.origin),
        full: NoRoom::Rules(full.error),
    }
}

/// Refuses sequences of lists for which there is no number.
pub(super) fn too_many_sequences(gateway: &Gateway, list: &str) -> TableFull {
    let declared = gateway.acls.iter().find(|declared| declared.name == list);
    TableFull {
        table: table(list),
        prefix: String::new(),
        origin: declared.map_or(Origin::default(), |declared| declared.origin),
        full: NoRoom::Sequences(usize::from(NONE)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::chains::next_number;
    use super::*;

    #[test]
    fn too_many_sequences_have_an_error_of_their_own() {
        assert_eq!((next_number(65_534), next_number(65_535)), (Some(65_534), None));
        // A list that the model does not declare, as live lists.
        let refused = too_many_sequences(&crate::kit::Build::new().0, "edge");
        assert_eq!(
            refused.to_string(),
            "acl edge: interfaces name more than 65535 different sequences of access lists"
        );
    }
}
