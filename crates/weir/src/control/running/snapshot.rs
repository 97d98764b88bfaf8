//! Takes the state of a gateway, and goes back to it.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use weir_plane::compile::{EntryKey, Names};
use weir_plane::engine::{EngineError, LostEdit};
use weir_plane::model::{self, SavAction};

use super::super::acl::live::{self, Put, word};
use super::super::acl::{Expect, GroupKind, GroupRequest};
use super::super::source::FILE;
use super::state::{Entries, Group, List, Snapshot, declared};
use super::{Running, placed, unix_time};
use crate::events;

/// The source of rules, members and entries that an undo restores.
const UNDO: &str = "undo";

/// Rules of a list, and entries of a policy's sources, that a snapshot keeps at most.
const MOST: usize = 10_000;

impl Running {
    /// Takes a snapshot. The caller holds `changing`. `about` is the object that is about to change.
    pub(super) fn snapshot_before(&self, about: &str) -> Snapshot {
        let mut unkept = Vec::new();
        let mut lists = Vec::new();
        let (briefs, has_groups) = self.engine.acl_briefs();
        for list in briefs {
            let of = format!("acl {}", list.name);
            if list.rules > MOST {
                if of == about || list.edited || list.created {
                    unkept.push(of);
                }
                continue;
            }
            if !list.edited && !list.created {
                continue;
            }
            let Some(rules) = live::rules(&self.engine, &list.name, usize::MAX) else { continue };
            let text: String = rules.rules.into_iter().map(|rule| rule.rule + "\n").collect();
            let (name, is_created) = (list.name.to_string(), list.created);
            lists.push(List { name, is_created, default: list.default, text: text.into() });
        }
        let groups = if has_groups { self.live_groups() } else { Vec::new() };
        let mut stages = Vec::new();
        let mut entries = Vec::new();
        for policy in self.engine.sav_policies() {
            if let Some((action, _)) = policy.stage
                && let Some(action) = SavAction::ALL.into_iter().find(|known| known.name() == action)
            {
                stages.push((policy.name.clone(), action));
            }
            let live: Vec<_> = policy.sources.iter().filter(|(source, _)| source != FILE).collect();
            if live.iter().map(|(_, entries)| entries).sum::<usize>() > MOST {
                unkept.push(format!("sav {}", policy.name));
                continue;
            }
            if !live.is_empty() {
                entries.extend(self.entries_of(&policy.name));
            }
        }
        Snapshot {
            model: self.engine.model(),
            texts: self.texts.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            settings: self.settings(),
            nat: self.nat_so_far().clone(),
            classify: self.classify_so_far().clone(),
            bindings: self.bindings_so_far().clone(),
            steers: self.steers_so_far().clone(),
            allowlists: self.allowlists_so_far().clone(),
            host: self.host_so_far().clone(),
            live: self.live().clone(),
            attached: self.attached_so_far().clone(),
            lists,
            groups,
            stages,
            entries,
            unkept,
        }
    }

    /// Returns the groups with live edits.
    fn live_groups(&self) -> Vec<Group> {
        let groups = self.engine.acl_groups(|gateway, group, said| {
            let members = live::member(gateway, &group);
            said.map(|_| Group { name: group.name().to_string(), kind: group.kind(), members })
        });
        groups.into_iter().flatten().collect()
    }

    /// Returns the entries of all sources of a policy but the file.
    fn entries_of(&self, policy: &str) -> Vec<Entries> {
        let mut all: Vec<Entries> = Vec::new();
        let (rows, _) = self.engine.sav_entries(policy, |_| true, usize::MAX).unwrap_or_default();
        for row in rows.into_iter().filter(|row| row.source != FILE) {
            let key = EntryKey { prefix: row.prefix, mode: row.scope.mode(row.permit) };
            let names: Names = row.interfaces.iter().map(|name| Arc::from(name.as_str())).collect();
            match all.iter_mut().find(|own| own.source == row.source) {
                Some(own) => own.entries.push((key, names)),
                None => {
                    let (policy, source) = (policy.to_owned(), row.source);
                    all.push(Entries { policy, source, entries: vec![(key, names)] });
                }
            }
        }
        all
    }

    /// Goes back to a snapshot. The caller holds `changing`. If something fails, all is as it was.
    pub(super) fn restore(&self, to: &Snapshot) -> Result<usize, String> {
        let now = self.snapshot_before("");
        self.go(&now, to).inspect_err(|error| {
            tracing::error!(kind = events::Kind::Reload.name(), "the gateway cannot go back: {error}");
            let part = self.snapshot_before("");
            if let Err(error) = self.go(&part, &now) {
                tracing::error!(
                    kind = events::Kind::Reload.name(),
                    "nor can it be as it was: {error}; reload the configuration"
                );
            }
        })
    }

    fn go(&self, now: &Snapshot, to: &Snapshot) -> Result<usize, String> {
        let mut ended = self.restore_model(now, to)?;
        for group in to.groups.iter().filter(|group| !now.groups.contains(group)) {
            ended += self.put_group(group)?;
        }
        for list in to.lists.iter() {
            self.put_list(list)?;
        }
        let edited = self.engine.acl_briefs().0.into_iter();
        for list in edited.filter(|list| !to.lists.iter().any(|own| *own.name == *list.name)) {
            if !to.keeps(&format!("acl {}", list.name)) {
                continue;
            }
            if list.created {
                live::remove(&self.engine, &list.name).map_err(|refusal| refusal.message)?;
            } else if list.edited {
                self.put_list(&declared(&to.model, &list.name))?;
            }
        }
        for group in now.groups.iter().filter(|group| !to.groups.iter().any(|own| own.name == group.name)) {
            // It may have ended with the model.
            let is_live = self.engine.acl_groups(|_, own, said| said.is_some() && **own.name() == *group.name);
            if is_live.contains(&true) {
                // The rules had these members before.
                let restored = self.change_group(|_| live::restore_group(&self.engine, &group.name, &|_| Ok(())));
                ended += restored.map_err(|refusal| refusal.message)?.translations;
            }
        }
        self.restore_policies(to)?;
        Ok(ended)
    }

    /// Puts the model of a snapshot into force, with its live edits but those of access lists and groups. Returns the number of
    /// translations that ended.
    fn restore_model(&self, now: &Snapshot, to: &Snapshot) -> Result<usize, String> {
        if Arc::ptr_eq(&now.model, &to.model) {
            return Ok(0);
        }
        let mut ended = 0;
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        // Interfaces name lists that are not there any more: these come first.
        let live: HashSet<String> = self
            .engine
            .acl_briefs()
            .0
            .into_iter()
            .filter(|list| list.created)
            .map(|list| list.name.to_string())
            .collect();
        let missing: Vec<&List> =
            to.lists.iter().filter(|list| list.is_created && !live.contains(&list.name)).collect();
        if !missing.is_empty() {
            let mut bare = (*to.model).clone();
            for interface in &mut bare.interfaces {
                interface.access.live_lists = [None, None];
            }
            ended += self.put_model(bare)?;
            for list in missing {
                self.put_list(list)?;
            }
        }
        let put = || self.put_model((*to.model).clone());
        ended += self.with_settings(to.settings.clone(), put, std::convert::identity)?;
        let (mut nat, mut bindings, mut steers) = (self.nat_so_far(), self.bindings_so_far(), self.steers_so_far());
        (*nat, *bindings, *steers) =
            (to.nat.restored(&nat), to.bindings.restored(&bindings), to.steers.restored(&steers));
        drop((nat, bindings, steers));
        *self.classify_so_far() = to.classify.clone();
        *self.allowlists_so_far() = to.allowlists.clone();
        // It goes with the model: what the host has changed since is taken over soon.
        *self.host_so_far() = to.host.clone();
        *self.live() = to.live.clone();
        *self.attached_so_far() = to.attached.clone();
        *self.texts.lock().unwrap_or_else(PoisonError::into_inner) = to.texts.clone();
        self.sampler.follow(&to.model.samplers);
        Ok(ended)
    }

    /// Puts a model into force. Returns the number of translations that ended.
    fn put_model(&self, model: model::Gateway) -> Result<usize, String> {
        let (origins, state) = (model.origins.clone(), model.ipsec.state.clone());
        let reserve = |numbers| self.reservations().step(state.as_deref(), numbers);
        let reloaded = self.engine.reload_after(model, LostEdit::Drop, reserve);
        reloaded.map(|own| own.translations).map_err(|error: EngineError| placed(&error, &origins))
    }

    fn put_list(&self, list: &List) -> Result<(), String> {
        let known = self.engine.acl_briefs().0.into_iter().find(|own| *own.name == *list.name);
        if known.as_ref().is_some_and(|own| own.default == list.default) {
            let rules = live::rules(&self.engine, &list.name, usize::MAX);
            let same =
                rules.is_some_and(|rules| rules.rules.iter().map(|rule| rule.rule.as_str()).eq(list.text.lines()));
            if same {
                return Ok(());
            }
        }
        let expect = Some(if known.is_some() { Expect::Existing } else { Expect::New });
        let default = live::default(word(list.default)).ok();
        let put = Put { source: UNDO, text: &list.text, default, expect, allow_empty: true };
        live::put(&self.engine, &list.name, &put, unix_time()).map(drop).map_err(|refusal| refusal.message)
    }

    /// Gives a group its members. Returns the number of translations that ended.
    fn put_group(&self, group: &Group) -> Result<usize, String> {
        let kinds = [GroupKind::Addresses, GroupKind::Ports, GroupKind::Interfaces];
        let kind = kinds.into_iter().find(|kind| kind.name() == group.kind);
        let request = GroupRequest { source: UNDO.to_owned(), kind, members: group.members.clone() };
        // The rules had these members before.
        let put = self.change_group(|_| live::group(&self.engine, &group.name, &request, unix_time(), &|_| Ok(())));
        put.map(|own| own.translations).map_err(|refusal| refusal.message)
    }

    /// Restores the stages and entries of policies of source address validation.
    fn restore_policies(&self, to: &Snapshot) -> Result<(), String> {
        for policy in self.engine.sav_policies() {
            let stage = to.stages.iter().find(|(name, _)| *name == policy.name).map(|(_, action)| *action);
            if stage.map(SavAction::name) != policy.stage.map(|(action, _)| action) {
                let staged = self.engine.stage_sav(&policy.name, stage, unix_time());
                staged.map_err(|error| error.to_string())?;
            }
            if policy.mechanism != "table" || !to.keeps(&format!("sav {}", policy.name)) {
                continue;
            }
            let now = self.entries_of(&policy.name);
            let wanted: Vec<&Entries> = to.entries.iter().filter(|own| own.policy == policy.name).collect();
            for own in &wanted {
                if !now.contains(own) {
                    let put = self.engine.replace_sav(&policy.name, &own.source, &own.entries, unix_time());
                    put.map_err(|error| error.to_string())?;
                }
            }
            for own in now.iter().filter(|own| !wanted.iter().any(|wanted| wanted.source == own.source)) {
                let gone = self.engine.replace_sav(&policy.name, &own.source, &[], unix_time());
                gone.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}
