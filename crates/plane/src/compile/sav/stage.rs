//! Stages: actions in the place of the configured ones.

use std::sync::Arc;

use super::actions::{Stage, StageError, can};
use super::kept::Store;
use crate::model::{Gateway, SavAction};

impl Store {
    /// Puts an action into force in the place of the one that is configured; `None`: the one that is. The validators follow.
    pub(in crate::compile) fn stage(
        &mut self,
        gateway: &Gateway,
        name: &str,
        action: Option<SavAction>,
        time: u64,
    ) -> Result<(), StageError> {
        let Some(place) = gateway.sav.iter().position(|policy| policy.name == name) else {
            let policies = gateway.sav.iter().map(|policy| policy.name.clone()).collect();
            return Err(StageError::NoSuchPolicy { policy: name.to_owned(), policies });
        };
        match action {
            Some(action) => {
                can(gateway, place, action)?;
                let before = self.actions.stage(name);
                if before.is_none_or(|before| before.action != action) {
                    self.actions.stages.insert(name.to_owned(), Stage { action, since: time });
                }
            }
            None => drop(self.actions.stages.remove(name)),
        }
        let action = self.actions.action(&gateway.sav[place]);
        let is_own = |policy: u16| usize::from(policy) == place;
        for validator in Arc::make_mut(&mut self.validators.v4).iter_mut().filter(|own| is_own(own.policy)) {
            validator.action = action;
        }
        for validator in Arc::make_mut(&mut self.validators.v6).iter_mut().filter(|own| is_own(own.policy)) {
            validator.action = action;
        }
        Ok(())
    }

    /// The stage of a policy.
    pub(in crate::compile) fn stage_of(&self, policy: &str) -> Option<Stage> {
        self.actions.stage(policy)
    }

    /// Policies whose stages ended since the last call, as they are gone or lack what the stage needs.
    pub(in crate::compile) fn ended_stages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.actions.ended)
    }

    /// Octets of the buckets of a policy.
    pub(in crate::compile) fn meter_octets(&self, policy: &str) -> usize {
        let Some(buckets) = self.actions.buckets.get(policy) else { return 0 };
        let both = !Arc::ptr_eq(&buckets.v4, &buckets.v6);
        buckets.v4.octets() + if both { buckets.v6.octets() } else { 0 }
    }
}
