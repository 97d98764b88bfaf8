//! Changes that are kept to be taken back, and reloads that go back unless they are confirmed.

use std::fmt::Display;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_plane::compile::{AclGroup, AclSaid};
use weir_plane::engine::LostEdit;
use weir_plane::model::Gateway;

use super::super::refusal::{Kind, Refusal};
use super::super::{ReloadError, acl};
use super::history::{Awaited, History};
use super::{Running, Told, unix_time};
use crate::events;
use crate::render::acl::{attached, changed};
use crate::render::history::{Confirmed, History as Kept, Row, Undone};
use crate::render::number::plural;
use crate::render::reloaded::Reloaded;
use crate::render::time::utc_seconds;

/// The object of a reload.
const RELOAD: &str = "reload";

impl Running {
    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        // Whole records are pushed and dropped.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn awaited(&self) -> Option<Awaited> {
        *self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when a reload goes back unless it is confirmed, in seconds of the Unix epoch.
    pub(super) fn confirm_by(&self) -> Option<u64> {
        self.awaited().map(|awaited| awaited.by)
    }

    /// Keeps others from changing anything: the right to change.
    pub(super) fn change_alone(&self) -> MutexGuard<'_, ()> {
        // It guards no value.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a change while a reload waits for its confirmation.
    fn refuse_unconfirmed(&self) -> Result<(), Box<Refusal>> {
        let Some(by) = self.confirm_by() else { return Ok(()) };
        let message = format!(
            "a reload waits for `weir confirm` until {}: confirm it, or take it back with `weir undo`; nothing was changed",
            utc_seconds(by)
        );
        Err(Refusal::new(Kind::Unconfirmed, message).into())
    }

    /// Makes a change and keeps the state before it. The outer error is that changes are refused.
    pub(super) fn kept<T, E>(
        &self,
        object: &str,
        source: &str,
        words: impl FnOnce(&T) -> String,
        change: impl FnOnce() -> Result<T, E>,
    ) -> Result<Result<T, E>, Box<Refusal>> {
        let _changing = self.change_alone();
        self.refuse_unconfirmed().inspect_err(|refusal| {
            tracing::warn!(kind = events::Kind::Refused.name(), object, source, "{object}: {}", refusal.for_log())
        })?;
        let before = self.snapshot_before(object);
        let result = change();
        if let Ok(done) = &result {
            let (object, change, source) = (object.to_owned(), without_name(object, words(done)), source.to_owned());
            self.history().push(Row { number: 0, object, change, source, time: unix_time() }, before);
        }
        Ok(result)
    }

    /// The same of a change whose errors are refusals.
    pub(super) fn keep<T>(
        &self,
        object: &str,
        source: &str,
        words: impl FnOnce(&T) -> String,
        change: impl FnOnce() -> Result<T, Box<Refusal>>,
    ) -> Result<T, Box<Refusal>> {
        self.kept(object, source, words, change)?
    }

    /// Reads the file again. With a time it goes back by itself, unless it is confirmed before.
    pub(super) fn reload_kept(&self, lost: LostEdit, confirm: Option<Duration>) -> Result<Reloaded, ReloadError> {
        let file = self.file.as_deref().ok_or(ReloadError::NoFile)?;
        let change = || {
            // It guards no value that a panic could have left half-written.
            let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
            let mut told = Told::of_a_reload(self);
            let result = self.reload_file(file, lost);
            if let Err(error) = &result {
                told.failure = Some(error.to_string());
            }
            let awaited = result.as_ref().ok().and(confirm).map(|time| {
                let by = unix_time().saturating_add(time.as_secs());
                Awaited { until: Instant::now() + time, by }
            });
            *self.awaited.lock().unwrap_or_else(PoisonError::into_inner) = awaited;
            result.map(|reloaded| Reloaded { confirm_by: awaited.map(|awaited| awaited.by), ..reloaded })
        };
        let words = |reloaded: &Reloaded| format!("generation {}", reloaded.generation);
        let result = match self.kept(RELOAD, "file", words, change) {
            Ok(result) => result,
            Err(refusal) => {
                // The service manager waits for an answer.
                let mut told = Told::of_a_reload(self);
                told.failure = Some(refusal.message.clone());
                Err(ReloadError::Unconfirmed(refusal.message))
            }
        };
        match &result {
            Ok(reloaded) => {
                let until = reloaded.confirm_by.map_or_else(String::new, |by| {
                    format!("; it goes back at {} unless it is confirmed", utc_seconds(by))
                });
                let generation = reloaded.generation;
                tracing::info!(kind = events::Kind::Reload.name(), generation, "reloaded: {}{until}", reloaded.brief());
            }
            Err(error) => tracing::error!(kind = events::Kind::Refused.name(), "not reloaded: {error}"),
        }
        result
    }

    /// Confirms the reload that waits.
    pub(super) fn confirm_reload(&self) -> Result<Confirmed, Box<Refusal>> {
        let _changing = self.change_alone();
        let awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner).take();
        if awaited.is_none() {
            return Err(Refusal::new(Kind::Conflict, "no reload waits for its confirmation").into());
        }
        let generation = self.engine.generation();
        tracing::info!(kind = events::Kind::Reload.name(), generation, "generation {generation} is confirmed");
        Ok(Confirmed { generation })
    }

    /// Goes back if a reload was not confirmed in time. To be called some times a second.
    pub fn is_overdue(&self) -> bool {
        self.awaited().is_some_and(|awaited| Instant::now() >= awaited.until)
    }

    /// Goes back from a reload that was not confirmed in time. May take as long as a reload.
    pub fn go_back(&self) {
        let _changing = self.change_alone();
        if !self.is_overdue() {
            return;
        }
        let _told = Told::of_a_reload(self);
        match self.undo_last(1) {
            Ok(undone) => {
                let generation = undone.generation;
                tracing::warn!(
                    kind = events::Kind::Reload.name(),
                    generation,
                    "the reload was not confirmed and is taken back: generation {generation}"
                );
                log_ended(&undone);
            }
            Err(refusal) => {
                *self.awaited.lock().unwrap_or_else(PoisonError::into_inner) = None;
                tracing::error!(
                    kind = events::Kind::Reload.name(),
                    "the reload was not confirmed, and cannot be taken back: {}",
                    refusal.message
                );
            }
        }
    }

    /// Takes the last changes back.
    pub(super) fn undo_changes(&self, count: usize) -> Result<Undone, Box<Refusal>> {
        let _changing = self.change_alone();
        let result = self.undo_last(count);
        match &result {
            Ok(undone) => {
                for Row { object, change, .. } in &undone.undone {
                    tracing::info!(
                        kind = events::Kind::Reload.name(),
                        object,
                        generation = undone.generation,
                        "taken back: {object}: {change}"
                    );
                }
                log_ended(undone);
            }
            Err(refusal) => {
                tracing::warn!(kind = events::Kind::Refused.name(), "nothing was taken back: {}", refusal.for_log())
            }
        }
        result
    }

    /// The same by who holds `changing`.
    fn undo_last(&self, count: usize) -> Result<Undone, Box<Refusal>> {
        let refuse = |message: &dyn Display| {
            let refusal = Refusal::new(Kind::Conflict, format!("{message}; nothing was changed"));
            Err::<Undone, _>(Box::new(refusal))
        };
        let (rows, before) = {
            let history = self.history();
            let kept = history.len();
            if kept < count.max(1) {
                let cut = history.cut().map_or_else(String::new, |why| format!(": {why}"));
                let changes = plural(kept as u64, "change");
                return refuse(&match kept {
                    0 => format!("there is no change to take back{cut}"),
                    _ => format!("only {changes} can be taken back, not {count}{cut}"),
                });
            }
            let last: Vec<_> = history.last(count).collect();
            let lost = last.iter().find(|record| !record.before.keeps(&record.row.object));
            if let Some(record) = lost {
                let message =
                    format!("{} has more than 10,000 rules or entries, which are not kept", record.row.object);
                return refuse(&message);
            }
            let rows: Vec<Row> = last.iter().map(|record| record.row.clone()).collect();
            let Some(oldest) = last.last() else { return refuse(&"there is no change to take back") };
            (rows, oldest.before.clone())
        };
        let translations = match self.restore(&before) {
            Ok(translations) => translations,
            Err(error) => return refuse(&format!("the changes cannot be taken back: {error}")),
        };
        let rows = rows.into_iter().map(|row| Row { change: self.present(&row), ..row }).collect::<Vec<_>>();
        self.history().drop_last(rows.len());
        *self.awaited.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let (left, generation) = (self.history().len(), self.engine.generation());
        Ok(Undone { undone: rows, left, generation, translations })
    }

    /// Returns a change that was taken back in words, with the present number of rules, sessions or members of the object, or the
    /// present lists of an interface, instead of those behind the change.
    fn present(&self, row: &Row) -> String {
        let (kind, name) = row.object.split_once(' ').unwrap_or((&row.object, ""));
        match kind {
            "group" => return self.present_members(name, &row.change),
            "interface" => return self.present_lists(name, &row.change),
            _ => {}
        }
        // What the change ended stands behind the number.
        let is_number = |rest: &str| rest.ends_with(" now") || rest.contains(" now, ");
        let Some((change, _)) = row.change.rsplit_once("; ").filter(|(_, rest)| is_number(rest)) else {
            return row.change.clone();
        };
        let model = self.engine.model();
        let now = row.object.split_once(' ').and_then(|(kind, name)| {
            let rules = |rules: usize| plural(rules as u64, "rule");
            Some(match kind {
                "classify" => {
                    let table = model.classify.iter().find(|own| own.name == name)?;
                    plural(table.sessions.len() as u64, "session")
                }
                "steer" => rules(model.steer.iter().find(|own| own.name == name)?.rules.len()),
                "mac-ip" => rules(model.bindings.iter().find(|own| own.name == name)?.rules.len()),
                "nat" => rules(model.nat.iter().find(|own| own.name == name)?.rules.len()),
                "acl" => rules(acl::live::rules(&self.engine, name, usize::MAX)?.rules.len()),
                _ => return None,
            })
        });
        now.map_or_else(|| change.to_owned(), |now| format!("{change}; {now} now"))
    }

    /// Returns a change of a group that was taken back in words, with the present members.
    fn present_members(&self, group: &str, change: &str) -> String {
        let change = change.split_once("; ").map_or(change, |(change, _)| change);
        let of = |_: &Gateway, own: AclGroup, _: Option<AclSaid>| {
            (**own.name() == *group).then(|| changed::members(own.kind(), own.len()))
        };
        match self.engine.acl_groups(of).into_iter().flatten().next() {
            Some(members) => format!("{change}; {members} now"),
            None => format!("{change}; there is no such group now"),
        }
    }

    /// Returns a change of an interface's lists that was taken back in words, with the present lists.
    fn present_lists(&self, interface: &str, change: &str) -> String {
        let model = self.engine.model();
        let own = model.interfaces.iter().find(|own| own.name == interface);
        match (change.split_once("; "), own) {
            (Some((attached, _)), Some(own)) => {
                let lists = model.lists_of(own, attached.starts_with("out:"));
                format!("{attached}; lists now: {}", attached::listed(&lists))
            }
            _ => change.to_owned(),
        }
    }

    /// Returns the changes that can be taken back.
    pub(super) fn changes_kept(&self) -> Kept {
        let history = self.history();
        Kept { changes: history.rows(), cut: history.cut().map(str::to_owned), confirm_by: self.confirm_by() }
    }
}

/// Logs that translations ended as changes were taken back.
fn log_ended(undone: &Undone) {
    if undone.translations > 0 {
        let ended = plural(undone.translations as u64, "translation");
        tracing::info!(kind = events::Kind::Reload.name(), "taken back: {ended} ended");
    }
}

/// Leaves the name of an object out of the words about its change, which follow its kind and name.
fn without_name(object: &str, words: String) -> String {
    let name = object.split_once(' ').map_or(object, |(_, name)| name);
    let rest = words.strip_prefix(name).and_then(|rest| rest.strip_prefix(": "));
    let rest = rest.or_else(|| words.strip_prefix(object)?.strip_prefix(", "));
    rest.map_or_else(|| words.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::without_name;

    #[test]
    fn an_object_is_named_once() {
        for (object, words, expected) in [
            (
                "steer edge",
                "edge: inserted 1 (id 5), deleted 0; 5 rules now",
                "inserted 1 (id 5), deleted 0; 5 rules now",
            ),
            ("acl a", "ab: inserted 1", "ab: inserted 1"),
            ("group a b", "a b: 2 addresses", "2 addresses"),
            ("interface lan", "interface lan, in: attached a; lists now: a", "in: attached a; lists now: a"),
            ("reload", "3 changes", "3 changes"),
        ] {
            assert_eq!(without_name(object, words.to_owned()), expected);
        }
    }
}
