//! SAs and SPDs: their live changes, the upkeep of SAs, and the clearing of their counters.

use std::sync::Arc;

use super::control::Control;
use super::made::ChangeKind;
use super::upkeep::Due;
use super::{policies, sas};
use crate::compile::TableFull;
use crate::model;
use crate::root::ipsec::{Numbers, Sequences};

impl Control {
    /// Puts a model into force that differs from the one in force in nothing but its pairs of SAs and the rules of its SPDs; nothing
    /// else is compiled. Calls `before_force` with the sequence numbers of outbound SAs before. Returns the generation.
    ///
    /// # Errors
    /// When there is no room; then the old model stays in force.
    pub fn change_ipsec(&self, model: model::Gateway, before_force: impl FnOnce(Numbers)) -> Result<u64, TableFull> {
        let operation = self.operate(ChangeKind::Ipsec);
        let (_, map) = self.in_force();
        let plan = operation.read().plan_ipsec(&model, &map)?;
        let sequences = operation.write().announced_sequences(&model);
        before_force(Numbers { sequences, windows: Vec::new() });
        let mut compiler = operation.write();
        let (root, map) = compiler.carry_out_ipsec(&model, plan);
        let generation = root.model;
        self.put_model_into_force(root, (Arc::new(model), map));
        drop(compiler);
        self.wake();
        Ok(generation)
    }

    /// Returns the packets that SAs have to send now, and ends SAs whose lifetime is over.
    pub(super) fn due_of_sas(&self) -> Due {
        self.made.count(ChangeKind::TendSas);
        let now = self.clock.now();
        let mut upkeep = self.upkeep();
        self.root.with(|root| upkeep.step(now, &root.ipsec))
    }

    /// Begins the counters of SAs with 0: of all pairs, or of the pair of a name. Sequence numbers, windows, ages and what counts
    /// for lifetimes go on.
    pub fn clear_sas(&self, name: Option<&str>) {
        let ((model, map), now) = (self.in_force(), self.clock.now());
        let upkeep = self.upkeep();
        let mut cleared = self.cleared();
        self.root.with(|root| cleared.clear_sas(sas::counted(&model, &map, root, (&upkeep, now)), name));
    }

    /// Counts of SPDs and their caches begin with 0.
    pub(super) fn clear_spds(&self) {
        self.root.with(|root| policies::clear(root, &mut self.cleared()));
    }

    /// The sequence numbers of each outbound key that was ever in force, by the digest of the key.
    pub fn sequences(&self) -> Sequences {
        self.look().0.sequences()
    }
}
