//! Classifiers of lists that are compiled again as a whole.

use weir_base::reclaim::Domain;
use weir_table::classify::{Limits, Rule, Writer};
use weir_table::sav::NoRoom;

use super::boxes::Bits;
use super::table_full::TableFull;
use crate::model::Origin;

/// Octets of lookups' memory that a rule may take on average, and the least and most for a classifier.
const OCTETS_PER_RULE: usize = 4096;
const LEAST_OCTETS: usize = 4 << 20;
const MOST_OCTETS: usize = 4 << 30;

/// Compiles rules, each with its place in the order of matching and its answer. `table` and `origin` are those of the list.
///
/// # Errors
/// When there is no room.
pub(super) fn classifier<K: Bits>(
    domain: &Domain,
    rules: Vec<(u64, Rule<K>, u32)>,
    (table, origin): (String, Origin),
) -> Result<Writer<K>, TableFull> {
    let bytes = rules.len().saturating_mul(OCTETS_PER_RULE).clamp(LEAST_OCTETS, MOST_OCTETS);
    let limits = Limits { rules: rules.len().max(1), bytes };
    let load = || {
        let mut writer = Writer::new(domain, limits)?;
        writer.load(rules)?;
        Ok(writer)
    };
    load().map_err(|full| TableFull { table, prefix: String::new(), origin, full: NoRoom::Rules(full) })
}
