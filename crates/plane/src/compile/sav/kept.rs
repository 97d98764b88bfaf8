//! The tables of all policies, as they are kept from version to version.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use weir_base::reclaim::Domain;
use weir_table::sav::{Merged, MostSpecific, NoRoom, Set};

use super::actions::Actions;
use super::dynamic::Dynamic;
use super::engine::{Engine, Shape};
use super::exempt;
use super::feasible::Feasible;
use super::rules::{Family, Rules};
use crate::model::SavPolicy;
use crate::root::sav::{Hits, Validators};

/// All policies' tables.
#[derive(Default)]
pub(in crate::compile) struct Store {
    pub(super) kept: Vec<Kept>,
    /// By number of the VRF: of those where routes that are not the best count.
    pub(super) feasible: Mutex<Vec<Option<Feasible>>>,
    pub(super) validators: Validators,
    pub(super) actions: Actions,
    pub(super) exemptions: exempt::All,
}

/// The tables of a policy.
pub(super) struct Kept {
    pub(super) name: Arc<str>,
    pub(super) rules: Rules,
    /// The numbers of the model's interfaces when the rules were compiled.
    pub(super) numbers: Vec<u32>,
    /// How many interfaces had names then.
    pub(super) named: usize,
    pub(super) shape: Shape,
    pub(super) v4: Own<u32>,
    pub(super) v6: Own<u128>,
    pub(super) dynamic: Dynamic,
    /// The interfaces of which the tables know that they have allowlists.
    pub(super) allowlisted: Set,
}

/// One family's.
pub(super) struct Own<K: Family> {
    pub(super) engine: Engine<K>,
    pub(super) hits: Option<Arc<Hits>>,
    /// The counts of numbers before they were given to their prefixes.
    pub(super) bases: HashMap<u32, u64>,
}

impl<K: Family> Own<K> {
    pub(super) fn new(domain: &Domain, shape: &Shape, workers: usize) -> Result<Own<K>, NoRoom> {
        // Number 0 is that of sources without a rule.
        let hits = shape.hits.then(|| Arc::new(Hits::new(workers, 2 * shape.limits.prefixes + 1)));
        Ok(Own { engine: Engine::new(domain, shape)?, hits, bases: HashMap::new() })
    }
}

/// A family, with its tables.
pub(super) trait Stored: Family {
    /// The tables of a policy.
    fn own(kept: &Kept) -> &Own<Self>;
    /// The table of routes back.
    fn feasible(both: &Feasible) -> &Merged<Self, MostSpecific>;
}

impl Stored for u32 {
    fn own(kept: &Kept) -> &Own<u32> {
        &kept.v4
    }

    fn feasible(both: &Feasible) -> &Merged<u32, MostSpecific> {
        &both.v4
    }
}

impl Stored for u128 {
    fn own(kept: &Kept) -> &Own<u128> {
        &kept.v6
    }

    fn feasible(both: &Feasible) -> &Merged<u128, MostSpecific> {
        &both.v6
    }
}

impl Store {
    pub(super) fn place(&self, policy: &str) -> Option<usize> {
        self.kept.iter().position(|kept| *kept.name == *policy)
    }
}

/// Whether sources are valid that no rule knows.
pub(super) fn unknown_is_valid(policy: &SavPolicy, kept: Option<&Kept>) -> bool {
    policy.mechanism.rules().is_some_and(|rules| rules.incremental) || kept.is_some_and(Kept::is_open)
}
