//! Live changes of pairs of SAs and of SPDs.

use std::path::Path;
use std::sync::{MutexGuard, PoisonError};

use weir_plane::engine::{EngineError, LostEdit};
use weir_plane::model::Gateway;

use super::super::ReloadError;
use super::super::ipsec::{Live, SaEdit, SpdEdit, model};
use super::super::lists::Said;
use super::super::refusal::{Kind, Refusal};
use super::{Running, placed, unix_time};
use crate::config::{self, Loaded};
use crate::events;
use crate::render::ipsec_changed::{SaChanged, SpdChanged, SpdRule, SpdRules};
use crate::render::remark::Remark;

/// The source of steps that the gateway takes by itself.
const OWN: &str = "gateway";

impl Running {
    pub(super) fn live(&self) -> MutexGuard<'_, Live> {
        // It is replaced as a whole.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a pair of SAs.
    pub(super) fn change_sa(&self, name: &str, source: &str, edit: SaEdit<'_>) -> Result<SaChanged, Box<Refusal>> {
        let result = self.try_sa(name, source, edit);
        if let Err(refusal) = &result {
            tracing::warn!(
                kind = events::Kind::Refused.name(),
                object = format!("sa {name}"),
                source,
                "sa {name}: nothing changed: {}",
                refusal.for_log()
            );
        }
        result
    }

    /// The same, which logs no refusal.
    fn try_sa(&self, name: &str, source: &str, edit: SaEdit<'_>) -> Result<SaChanged, Box<Refusal>> {
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.live().clone();
        let live = before.edit_sa(&self.engine.model(), name, &said(source), edit)?;
        let warnings =
            self.put_into_force(live, |gateway, folder, live| model::edit_sa(gateway, folder, live, name, &edit))?;
        tracing::info!(
            kind = events::Kind::Edit.name(),
            object = format!("sa {name}"),
            source,
            "sa {name}: {} by {source}",
            edit.done()
        );
        let (sa, source, done) = (name.to_owned(), source.to_owned(), edit.done().to_owned());
        Ok(SaChanged { sa, source, done, warnings })
    }

    /// Changes the rules of an SPD.
    pub(super) fn change_spd(&self, spd: &str, source: &str, edit: SpdEdit<'_>) -> Result<SpdChanged, Box<Refusal>> {
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.live().clone();
        let is_reset = edit == SpdEdit::Reset;
        let result = before.edit_spd(&self.engine.model(), spd, &said(source), edit).and_then(|(live, mut changed)| {
            if is_reset {
                return self.read_again(live).map(|()| changed);
            }
            let own = live.spd(spd).cloned();
            let warnings = self.put_into_force(live, |gateway, _, live| match &own {
                Some(own) => model::edit_spd(gateway, live, own),
                None => Ok(None),
            })?;
            changed.warnings.extend(warnings);
            Ok(changed)
        });
        let object = format!("spd {spd}");
        match &result {
            Ok(SpdChanged { inserted, deleted, rules, .. }) => {
                tracing::info!(
                    kind = events::Kind::Edit.name(),
                    object,
                    source,
                    "{object}: {source} inserted {inserted}, deleted {deleted}; {rules} rules"
                );
            }
            Err(refusal) => tracing::warn!(
                kind = events::Kind::Refused.name(),
                object,
                source,
                "{object}: nothing changed: {}",
                refusal.for_log()
            ),
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

    /// Changes a copy of the model in force, and puts it into force with these live changes. The caller holds `reloading`. Returns
    /// the warnings of the change.
    fn put_into_force(
        &self,
        live: Live,
        change: impl FnOnce(&mut Gateway, &Path, &Live) -> Result<Option<Loaded>, Box<Loaded>>,
    ) -> Result<Vec<Remark>, Box<Refusal>> {
        let texts = self.texts().map_err(|_| refused(&ReloadError::NoFile))?;
        let mut gateway = (*self.engine.model()).clone();
        let folder = texts.main().parent().unwrap_or(Path::new(""));
        let found = change(&mut gateway, folder, &live).map_err(|found| refused(&ReloadError::Invalid(found)))?;
        // New rules were read with the members that the files give groups.
        self.engine.regroup(&mut gateway);
        let (state, origins) = (gateway.ipsec.state.clone(), gateway.origins.clone());
        let reserve = |numbers| self.reservations().step(state.as_deref(), numbers);
        let failed = |error: EngineError| refused(&ReloadError::Failed(placed(&error, &origins)));
        // The MTU of a tunnel is what ESP leaves.
        match config::live::fit_tunnels(&mut gateway) {
            true => self.engine.reload_after(gateway, LostEdit::Refuse, reserve).map(|_| ()).map_err(failed)?,
            false => {
                let changed = self.engine.change_ipsec(gateway, reserve);
                changed.map(|_| ()).map_err(|full| failed(full.into()))?;
            }
        }
        *self.live() = live;
        Ok(found.iter().flat_map(remarks).collect())
    }

    /// Reads the configuration in force again with these live changes. The caller holds `reloading`.
    fn read_again(&self, live: Live) -> Result<(), Box<Refusal>> {
        self.reload_over(live, LostEdit::Refuse).map(|_| ()).map_err(|error| refused(&error))
    }

    /// Takes the next steps of rekeys, if there are any. To be called about once a second, on a thread that may wait.
    pub fn tend_rekeys(&self) {
        let _changing = self.change_alone();
        if self.confirm_by().is_some() {
            // The old pairs go on until then.
            return;
        }
        // A rekey goes on whatever a user clears.
        let due = self.live().due(|| self.engine.sas_from_start());
        if let Some((name, edit)) = due {
            let refusal = self.try_sa(&name, OWN, edit).err();
            if refusal.is_none() {
                self.history().forget(format!("a rekey of {name} went on: changes before it cannot be taken back"));
            }
            // The step is tried again each second: the log has its refusal once.
            let refused = refusal.map(|refusal| format!("sa {name}: the rekey waits: {}", refusal.for_log()));
            let mut before = self.rekey_refused.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(message) = refused.as_ref().filter(|_| *before != refused) {
                let object = format!("sa {name}");
                tracing::warn!(kind = events::Kind::Refused.name(), object, "{message}");
            }
            *before = refused;
        }
    }

    /// A rekey is under way.
    pub fn is_rekeying(&self) -> bool {
        self.live().is_rekeying()
    }
}

/// A source that changes something now.
fn said(source: &str) -> Said {
    Said { source: source.to_owned(), time: unix_time() }
}

/// The refusal of a change, which has no configuration beside it.
fn refused(error: &ReloadError) -> Box<Refusal> {
    let mut refusal = Refusal::of_reload(error, false);
    if let ReloadError::Invalid(loaded) = error {
        refusal.message = format!("{}nothing was changed", loaded.text(false));
        refusal.kind = Kind::Conflict;
    }
    Box::new(refusal)
}

/// The findings of a change, each with its place.
fn remarks(found: &Loaded) -> impl Iterator<Item = Remark> {
    found.diagnostics.iter().map(|own| {
        let place = own.primary.as_ref().map(|primary| found.sources.position(primary.span));
        let place = place.map_or_else(String::new, |at| format!("{}:{}:{}: ", at.file, at.line, at.column));
        Remark { message: format!("{place}{}", own.message), help: own.help.clone(), ..Remark::default() }
    })
}
