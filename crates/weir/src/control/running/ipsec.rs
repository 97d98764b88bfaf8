//! Live changes of pairs of SAs and of SPDs.

use std::sync::{MutexGuard, PoisonError};

use weir_plane::engine::LostEdit;

use super::super::ReloadError;
use super::super::ipsec::{Live, SaEdit, SpdEdit};
use super::super::refusal::{Kind, Refusal};
use super::Running;
use crate::render::ipsec_changed::{SaChanged, SpdChanged, SpdRule, SpdRules};

/// The source of steps that the gateway takes by itself.
const OWN: &str = "gateway";

impl Running {
    pub(super) fn live(&self) -> MutexGuard<'_, Live> {
        // It is replaced as a whole.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a pair of SAs.
    pub(super) fn change_sa(&self, name: &str, source: &str, edit: SaEdit<'_>) -> Result<SaChanged, Box<Refusal>> {
        let result = {
            let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
            let before = self.live().clone();
            before.edit_sa(&self.engine.model(), name, source, edit).and_then(|live| self.put_into_force(live))
        };
        match &result {
            Ok(()) => tracing::info!("sa {name}: {} by {source}", edit.done()),
            Err(refusal) => tracing::warn!("sa {name}: nothing changed: {}", refusal.for_log()),
        }
        let changed = SaChanged { sa: name.to_owned(), source: source.to_owned(), done: edit.done().to_owned() };
        result.map(|()| changed)
    }

    /// Changes the rules of an SPD.
    pub(super) fn change_spd(&self, spd: &str, source: &str, edit: SpdEdit<'_>) -> Result<SpdChanged, Box<Refusal>> {
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.live().clone();
        let result = before
            .edit_spd(&self.engine.model(), spd, source, edit)
            .and_then(|(live, changed)| self.put_into_force(live).map(|()| changed));
        match &result {
            Ok(SpdChanged { inserted, deleted, rules, .. }) => {
                tracing::info!("spd {spd}: {source} inserted {inserted}, deleted {deleted}; {rules} rules");
            }
            Err(refusal) => tracing::warn!("spd {spd}: nothing changed: {}", refusal.for_log()),
        }
        result
    }

    /// The rules of an SPD, as they can be read again.
    pub(super) fn rules_of_spd(&self, spd: &str) -> Result<SpdRules, Box<Refusal>> {
        let rules = self.live().rules(&self.engine.model(), spd)?;
        let rule = |own: crate::config::OverRule| SpdRule {
            rule: own.text,
            source: own.source.unwrap_or_else(|| "file".to_owned()),
        };
        Ok(SpdRules { rules: rules.into_iter().map(rule).collect() })
    }

    /// Reads the configuration in force again with these live changes. The caller holds `reloading`.
    fn put_into_force(&self, live: Live) -> Result<(), Box<Refusal>> {
        let refused = |error: &ReloadError| {
            let mut refusal = Refusal::of_reload(error, false);
            if let ReloadError::Invalid(loaded) = error {
                // The client of a change has no configuration beside it.
                refusal.message = format!("{}nothing was changed", loaded.text(false));
                refusal.kind = Kind::Conflict;
            }
            Box::new(refusal)
        };
        self.reload_over(live, LostEdit::Refuse).map(|_| ()).map_err(|error| refused(&error))
    }

    /// Takes the next steps of rekeys, if there are any. To be called about once a second, on a thread that may wait.
    pub fn tend_rekeys(&self) {
        let _changing = self.change_alone();
        if self.confirm_by().is_some() {
            // The old pairs go on until then.
            return;
        }
        let due = self.live().due(|| self.engine.sas());
        if let Some((name, edit)) = due {
            // It is in the log if it fails, and tried again.
            if self.change_sa(&name, OWN, edit).is_ok() {
                self.history().forget(format!("a rekey of {name} went on: changes before it cannot be taken back"));
            }
        }
    }

    /// A rekey is under way.
    pub fn is_rekeying(&self) -> bool {
        self.live().is_rekeying()
    }
}
