//! The entries of the tables of a policy.

use weir_table::lpm::Prefix;
use weir_table::sav::{NoRoom, Set};

use super::dynamic::Dynamic;
use super::engine::{Entries, Meaning, Shape};
use super::kept::Kept;
use super::lists;
use super::named::{NamedSets, Numbers};
use super::rules::{Family, Rules, Sets};

impl Kept {
    /// Writes all rules, and what was said beside them, into empty tables.
    pub(super) fn fill(&mut self, said: &Dynamic, numbers: &Numbers) -> Result<(), NoRoom> {
        self.v4.engine.fill(entries(&self.rules, &self.numbers, &self.shape, said, numbers))?;
        self.v6.engine.fill(entries(&self.rules, &self.numbers, &self.shape, said, numbers))
    }
}

/// All that tables of a family hold.
pub(super) fn entries<K: Family>(
    rules: &Rules,
    interfaces: &[u32],
    shape: &Shape,
    said: &Dynamic,
    numbers: &Numbers,
) -> Entries<K> {
    let mut sets = Sets::new(interfaces);
    match shape.meaning {
        Meaning::Ordered => return rules.ordered(&mut sets),
        Meaning::Modes(_) => return lists::entries(rules, interfaces, said, numbers),
        Meaning::Nested(..) => {}
    }
    let mut all = rules.nested::<K>(&mut sets);
    let mut named = NamedSets::new(numbers);
    let mut more: Vec<(Prefix<K>, Option<Set>)> = said
        .iter()
        .filter_map(|(_, key, said)| Some((K::prefix(key.prefix)?, Some(named.of(&said.interfaces)))))
        .collect();
    if !more.is_empty() {
        all.append(&mut more);
        all.sort_by_key(|(prefix, _)| *prefix);
        all.dedup_by(|(prefix, more), (kept, set)| {
            let same = prefix == kept;
            if same && let (Some(more), Some(set)) = (more, set) {
                *set = set.union(more);
            }
            same
        });
    }
    Entries::Nested(all)
}
