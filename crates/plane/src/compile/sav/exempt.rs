//! Rules on fields, compiled: those of a policy that say which packets are not validated.

use std::collections::HashMap;
use std::sync::Arc;

use weir_table::classify::Rule;
use weir_table::sav::NoRoom;

use super::super::boxes::{Bits, boxes};
use crate::model::{AclAction, AclRule, PerFamily, SavPolicy};
use crate::root::sav::Exempt;

/// The exemptions of a policy.
#[derive(Clone)]
pub(super) struct Exemptions {
    rules: Arc<[AclRule]>,
    v4: Option<Exempt<u32>>,
    v6: Option<Exempt<u128>>,
}

/// The exemptions of all policies that have some, by name.
pub(super) type All = HashMap<String, Exemptions>;

/// Compiles the exemptions of a policy, unless they are what they were.
pub(super) fn prepare(before: &All, policy: &SavPolicy) -> Result<Option<Exemptions>, NoRoom> {
    if policy.exempt.is_empty() {
        return Ok(None);
    }
    match before.get(&policy.name).filter(|before| before.rules == policy.exempt) {
        Some(before) => Ok(Some(before.clone())),
        None => Ok(Some(Exemptions {
            rules: Arc::clone(&policy.exempt),
            v4: compile(&policy.exempt)?,
            v6: compile(&policy.exempt)?,
        })),
    }
}

impl Exemptions {
    /// Returns the exemptions of a family.
    pub(super) fn of<K: OfFamily>(&self) -> Option<Exempt<K>> {
        K::exempt(self).clone()
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        self.v4.as_ref().map_or(0, Exempt::octets) + self.v6.as_ref().map_or(0, Exempt::octets)
    }
}

/// An address family's exemptions.
pub(super) trait OfFamily: Bits {
    /// Returns the exemptions of this family.
    fn exempt(all: &Exemptions) -> &Option<Exempt<Self>>;
}

impl OfFamily for u32 {
    fn exempt(all: &Exemptions) -> &Option<Exempt<u32>> {
        &all.v4
    }
}

impl OfFamily for u128 {
    fn exempt(all: &Exemptions) -> &Option<Exempt<u128>> {
        &all.v6
    }
}

/// Compiles the rules of a family; `None` if none of these exempts. Interfaces have the model's indices: exemptions do
/// not match interfaces.
fn compile<K: Bits>(list: &[AclRule]) -> Result<Option<Exempt<K>>, NoRoom> {
    let permits = |rule: &AclRule| rule.action == AclAction::Permit;
    let of = |(place, rule)| {
        let boxes = boxes(rule, |interface| interface.0);
        boxes.into_iter().map(move |asked| (asked, place, permits(rule)))
    };
    let rules: Vec<(Rule<K>, u32, bool)> = (0..).zip(list).flat_map(of).collect();
    if !rules.iter().any(|(_, _, permit)| *permit) {
        return Ok(None);
    }
    let rules = rules.iter().map(|(rule, place, permit)| (rule, *place, *permit));
    Ok(Some(Exempt::new(rules)?))
}

/// Which families have exemptions at all.
pub(super) fn families<'a>(all: impl Iterator<Item = &'a Exemptions>) -> PerFamily<bool> {
    all.fold(PerFamily::default(), |any, own| PerFamily {
        v4: any.v4 | own.v4.is_some(),
        v6: any.v6 | own.v6.is_some(),
    })
}
