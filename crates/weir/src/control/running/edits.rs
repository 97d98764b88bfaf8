//! Live edits of a running gateway, and the reloads that they survive.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_plane::compile::AclGroup;
use weir_plane::engine::{self, EngineError, LostEdit};
use weir_plane::model;

use super::super::acl::attached::{AttachRequest, Attachments};
use super::super::differences::differences;
use super::super::ipsec::Live;
use super::super::refusal::{Kind, Refusal};
use super::super::services::Settings;
use super::super::{ReloadError, acl, classify, lists};
use super::{Running, placed, unix_time};
use crate::config::live::Twice;
use crate::config::{self, Loaded, Texts};
use crate::events;
use crate::looped;
use crate::render::Report as _;
use crate::render::acl::attached::Attached;
use crate::render::allowlist_changed::Changed as AllowlistChanged;
use crate::render::changes::{self, Changes, Edit};
use crate::render::classify_changed::Changed as ClassifyChanged;
use crate::render::nat_changed::Changed as ListChanged;
use crate::render::number::plural;
use crate::render::reloaded::{Findings, Lost, Reloaded};
use crate::rules::steer::checks;
use crate::saved;

/// The outcome of an edit of an ordered list: the model and the lists with it, and its report.
type ListEdit<R> = Result<(model::Gateway, lists::Lists<R>, ListChanged), Box<Refusal>>;

/// The live edits that apply to a new configuration, and the edits that end.
pub(super) struct Carried {
    nat: lists::Nats,
    bindings: lists::Bindings,
    steers: lists::Steers,
    allowlists: lists::Allowlists,
    classify: classify::Tables,
    attached: Attachments,
    host: super::super::host::Host,
    pub(super) lost: Vec<Lost>,
    /// More packets might pass without one of the edits that end.
    pub(super) protects: bool,
    /// The edits that apply do not go with the configuration.
    pub(super) wrong: Option<Wrong>,
}

/// Why the parts of a model with live edits do not go together, each of which is right by itself.
pub(super) struct Wrong {
    object: Object,
    /// The lists that it is about.
    lists: Vec<String>,
    message: String,
}

/// The kind of lists.
enum Object {
    Nat,
    Steer,
}

impl Wrong {
    /// Says that a configuration cannot come into force.
    pub(super) fn refusal(&self) -> String {
        format!("live edits do not go with the file: {}", self.message)
    }
}

impl Running {
    /// Applies the live edits to a new configuration, but those of access lists, groups, SAs and SPDs. Lists whose edits do not go
    /// with the others lose them.
    pub(super) fn carry(&self, gateway: &mut model::Gateway) -> Carried {
        let mut host = self.host_so_far().clone();
        // What does not go with the new file is noticed as soon as the host changes something.
        host.put_into(gateway);
        let groups = self.engine.regroup(gateway);
        let (mut nats, mut steers) = (self.nat_so_far().clone(), self.steers_so_far().clone());
        let (mut ended, mut protect) = (Vec::new(), false);
        // Only their edits can end here.
        let file = (nats.rules().next().is_some() || steers.rules().next().is_some()).then(|| gateway.clone());
        loop {
            let mut carried = self.carry_lists((gateway, &groups), &nats, &steers);
            carried.wrong = self.wrong_together(gateway);
            let end = carried.wrong.as_ref().and_then(|wrong| {
                let mut lists = wrong.lists.iter();
                lists.find_map(|list| match wrong.object {
                    Object::Nat => nats.end(list, &wrong.message),
                    Object::Steer => steers.end(list, &wrong.message),
                })
            });
            let Some((lost, protects)) = end else {
                carried.lost.extend(ended);
                carried.protects |= protect;
                carried.host = host;
                return carried;
            };
            ended.push(lost);
            protect |= protects;
            if let Some(file) = &file {
                gateway.clone_from(file);
            }
        }
    }

    fn carry_lists(
        &self,
        (gateway, groups): (&mut model::Gateway, &[AclGroup]),
        nats: &lists::Nats,
        steers: &lists::Steers,
    ) -> Carried {
        // Steer rules are held against the access lists in force.
        let (attached, mut lost, of_attached) = self.attached_so_far().carry(gateway, &self.live_lists());
        let before = self.engine.model();
        let (nat, lost_nat, of_nat) = nats.carry(&before, gateway, groups);
        let (bindings, lost_bindings, of_bindings) = self.bindings_so_far().carry(&before, gateway, groups);
        let (steers, lost_steers, of_steers) = steers.carry(&before, gateway, groups);
        let (allowlists, lost_prefixes, of_allowlists) = self.allowlists_so_far().carry(gateway);
        let (classify, lost_sessions, of_sessions) = self.classify_so_far().carry(gateway);
        lost.extend(
            lost_nat.into_iter().chain(lost_bindings).chain(lost_steers).chain(lost_prefixes).chain(lost_sessions),
        );
        let protects = of_nat || of_bindings || of_steers || of_allowlists || of_sessions || of_attached;
        Carried {
            nat,
            bindings,
            steers,
            allowlists,
            classify,
            attached,
            host: Default::default(),
            lost,
            protects,
            wrong: None,
        }
    }

    pub(super) fn nat_so_far(&self) -> MutexGuard<'_, lists::Nats> {
        // It is replaced as a whole.
        self.nat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn bindings_so_far(&self) -> MutexGuard<'_, lists::Bindings> {
        // It is replaced as a whole.
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn steers_so_far(&self) -> MutexGuard<'_, lists::Steers> {
        // It is replaced as a whole.
        self.steers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn allowlists_so_far(&self) -> MutexGuard<'_, lists::Allowlists> {
        // It is replaced as a whole.
        self.allowlists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn classify_so_far(&self) -> MutexGuard<'_, classify::Tables> {
        // It is replaced as a whole.
        self.classify.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts changes of a classifier table into force, likewise.
    pub(super) fn edit_classify(
        &self,
        table: &str,
        source: &str,
        text: &str,
        add: bool,
    ) -> Result<ClassifyChanged, Box<Refusal>> {
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let (tables, before) = (self.classify_so_far().clone(), self.engine.model());
        let said = lists::Said { source: source.to_owned(), time: unix_time() };
        let edited = match add {
            true => tables.add(&before, table, &said, text),
            false => tables.delete(&before, table, &said, text),
        };
        let result = edited.and_then(|(gateway, tables, changed)| {
            self.put_edited(gateway)?;
            *self.classify_so_far() = tables;
            Ok(changed)
        });
        let object = format!("classify {table}");
        match &result {
            Ok(changed) => tracing::info!(
                kind = events::Kind::Edit.name(),
                object,
                source,
                "classify {} (by {source})",
                changed.text().trim_end()
            ),
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

    /// Puts an edited model into force, which is compiled as at a reload.
    pub(super) fn put_edited(&self, mut gateway: model::Gateway) -> Result<engine::Reloaded, Box<Refusal>> {
        // Lists keep their rules with the members of the day when they were read.
        self.engine.regroup(&mut gateway);
        let origins = gateway.origins.clone();
        let refused = |error: EngineError| {
            let message = format!("{}; nothing was changed", placed(&error, &origins));
            Box::new(Refusal::new(Kind::NoRoom, message))
        };
        if let Some(Wrong { message, .. }) = self.wrong_together(&gateway) {
            return Err(Refusal::new(Kind::Conflict, format!("{message}; nothing was changed")).into());
        }
        self.engine.reload(gateway).map_err(refused)
    }

    /// Changes a group: `change` gets the check of the model by which rules outside of access lists have other members.
    pub(super) fn change_group<T>(
        &self,
        change: impl FnOnce(&dyn Fn(&model::Gateway) -> Result<(), String>) -> Result<T, Box<Refusal>>,
    ) -> Result<T, Box<Refusal>> {
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.engine.model();
        let check = |gateway: &model::Gateway| {
            let refused = lists::refused::<model::NatRule>(&before, gateway)
                .or_else(|| lists::refused::<model::SteerRule>(&before, gateway))
                .or_else(|| gateway.sav.iter().find_map(config::live::too_many_exemptions))
                .or_else(|| self.wrong_together(gateway).map(|wrong| wrong.message));
            refused.map_or(Ok(()), Err)
        };
        change(&check)
    }

    fn wrong_together(&self, gateway: &model::Gateway) -> Option<Wrong> {
        // Each list is looked at once, however many interfaces have it, and none without steer rules.
        let opening = LazyCell::new(|| {
            let lists_of = |own| [false, true].into_iter().flat_map(move |output| gateway.lists_of(own, output));
            let lists: BTreeSet<&str> = gateway.interfaces.iter().flat_map(lists_of).collect();
            let opens = |list: &&str| acl::live::opens_sessions(&self.engine, gateway, list);
            lists.into_iter().filter(opens).collect::<BTreeSet<&str>>()
        });
        let steered = checks::refused(gateway, |list| opening.contains(list));
        let of_steer =
            |own: checks::Refused| Wrong { object: Object::Steer, lists: vec![own.list], message: own.message };
        steered.map(of_steer).or_else(|| mapped_twice(gateway))
    }

    /// Puts changes of the rules of an ordered list into force.
    pub(super) fn edit_list<R: lists::Rule>(
        &self,
        lists: &Mutex<lists::Lists<R>>,
        list: &str,
        edit: impl FnOnce(&lists::Lists<R>, lists::Known<'_>) -> ListEdit<R>,
    ) -> Result<ListChanged, Box<Refusal>> {
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let so_far = || lists.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, model) = (so_far().clone(), self.engine.model());
        let groups = self.engine.groups_of(&model);
        let known = lists::Known { gateway: &model, groups: &groups };
        let result = edit(&before, known).and_then(|(gateway, now, changed)| {
            let reloaded = self.put_edited(gateway)?;
            *so_far() = now;
            let engine::Reloaded { translations, bindings, .. } = reloaded;
            Ok(ListChanged { translations, bindings, ..changed })
        });
        let object = format!("{} {list}", R::OBJECT);
        match &result {
            Ok(changed) => {
                tracing::info!(
                    kind = events::Kind::Edit.name(),
                    object,
                    source = changed.source,
                    "{}",
                    lists::summary(R::OBJECT, changed)
                );
            }
            Err(refusal) => tracing::warn!(
                kind = events::Kind::Refused.name(),
                object,
                "{object}: nothing changed: {}",
                refusal.for_log()
            ),
        }
        result
    }

    /// Puts changes of the prefixes of an allowlist into force.
    pub(super) fn edit_allowlist(
        &self,
        list: &str,
        edit: impl FnOnce(
            &lists::Allowlists,
            &model::Gateway,
        ) -> Result<(model::Gateway, lists::Allowlists, AllowlistChanged), Box<Refusal>>,
    ) -> Result<AllowlistChanged, Box<Refusal>> {
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, model) = (self.allowlists_so_far().clone(), self.engine.model());
        let result = edit(&before, &model).and_then(|(gateway, now, changed)| {
            self.put_edited(gateway)?;
            *self.allowlists_so_far() = now;
            Ok(changed)
        });
        let object = format!("allowlist {list}");
        match &result {
            Ok(changed) => tracing::info!(
                kind = events::Kind::Edit.name(),
                object,
                source = changed.source,
                "{}",
                lists::summary_of_set(changed)
            ),
            Err(refusal) => tracing::warn!(
                kind = events::Kind::Refused.name(),
                object,
                "{object}: nothing changed: {}",
                refusal.for_log()
            ),
        }
        result
    }

    /// Reads a file with the live changes. Pairs of SAs that the file has now are its own: the rest is returned, too.
    pub(super) fn load_with(&self, file: &Path) -> (Loaded, Live) {
        let mut live = self.live().clone();
        let mut loaded = config::load_over(file, &live.overlay());
        if loaded.gateway.is_none() {
            let objects = saved::objects(&Texts::of(file, &loaded)).unwrap_or_default();
            if live.end_saved(&objects) {
                loaded = config::load_over(file, &live.overlay());
            }
        }
        (loaded, live)
    }

    /// Reads the file again with the live changes, and puts it into force.
    pub(super) fn reload_file(&self, file: &Path, lost: LostEdit) -> Result<Reloaded, ReloadError> {
        let (loaded, mut live) = self.load_with(file);
        let texts = Texts::of(file, &loaded);
        if loaded.gateway.is_some() {
            live.end_saved_spds(&texts);
        }
        let reloaded = self.put_loaded(loaded, texts, live, lost)?;
        for policy in self.engine.sav_policies() {
            // The file has the action of the stage now.
            if policy.stage.is_some_and(|(action, _)| action == policy.action)
                && let Err(error) = self.engine.stage_sav(&policy.name, None, unix_time())
            {
                tracing::warn!(kind = events::Kind::Reload.name(), "sav {}: the stage goes on: {error}", policy.name);
            }
        }
        let loops = looped::warnings(&self.engine.model());
        for line in &loops {
            tracing::warn!(kind = events::Kind::Reload.name(), "{line}");
        }
        Ok(Reloaded { loops, ..reloaded })
    }

    /// Reads the configuration in force again with these live changes of SAs and SPDs, and puts it into force.
    pub(super) fn reload_over(&self, live: Live, lost: LostEdit) -> Result<Reloaded, ReloadError> {
        let texts = self.texts().map_err(|_| ReloadError::NoFile)?;
        let loaded = config::load_texts(&texts, &live.overlay());
        self.put_loaded(loaded, texts.as_ref().clone(), live, lost)
    }

    /// Names the setting of a configuration that only a start can change, if there is one.
    pub(super) fn changes_at_start(&self, loaded: &Loaded) -> Option<&'static str> {
        match () {
            () if loaded.service != self.service => {
                Some("the user or group of `[service]` cannot change while the gateway runs: restart it")
            }
            () => None,
        }
    }

    /// Puts a configuration that was read from these texts and these live changes into force.
    fn put_loaded(
        &self,
        mut loaded: Loaded,
        texts: Texts,
        live: Live,
        lost_edits: LostEdit,
    ) -> Result<Reloaded, ReloadError> {
        let Some(mut gateway) = loaded.gateway.take() else { return Err(ReloadError::Invalid(Box::new(loaded))) };
        if let Some(what) = self.changes_at_start(&loaded) {
            return Err(ReloadError::NeedsRestart(what.to_owned()));
        }
        let (settings, settings_before) = (Settings::of(&loaded), self.settings());
        let sources_end = settings.ended(self.sources.read());
        let (origins, samplers) = (gateway.origins.clone(), gateway.samplers.clone());
        let state = gateway.ipsec.state.clone();
        // Reports of lost edits name interfaces by this model. Only reloads put another into force.
        let before = self.engine.model();
        let carried = self.carry(&mut gateway);
        // First: it does not help to drop changes.
        if let Some(wrong) = &carried.wrong {
            return Err(ReloadError::Failed(wrong.refusal()));
        }
        if lost_edits == LostEdit::Refuse && carried.protects {
            // Those of the lists themselves are reported with them; a model without room is refused below.
            let others = self.engine.refused_acl_edits(&gateway).unwrap_or_default();
            let others = others.into_iter().map(|edits| acl::lost::lost(&before, edits));
            return Err(ReloadError::EditsLost(
                carried.lost.iter().chain(&others.collect::<Vec<_>>()).flat_map(Lost::lines).collect(),
            ));
        }
        let engine::Reloaded {
            generation,
            added,
            removed,
            changed,
            routes: (routes, routes_before),
            lost,
            translations,
            bindings,
        } = self.with_settings(
            settings.clone(),
            || {
                let reserve = |numbers| self.reservations().step(state.as_deref(), numbers);
                self.engine.reload_after(gateway, lost_edits, reserve).map_err(|error| match error {
                    EngineError::NeedsRestart { .. } => ReloadError::NeedsRestart(error.to_string()),
                    EngineError::EditsLost(edits) => {
                        let lost = edits.into_iter().map(|edits| acl::lost::lost(&before, edits));
                        ReloadError::EditsLost(lost.flat_map(|lost| lost.lines()).collect())
                    }
                    _ => ReloadError::Failed(placed(&error, &origins)),
                })
            },
            ReloadError::Failed,
        )?;
        *self.nat_so_far() = carried.nat;
        *self.bindings_so_far() = carried.bindings;
        *self.steers_so_far() = carried.steers;
        *self.allowlists_so_far() = carried.allowlists;
        *self.classify_so_far() = carried.classify;
        *self.live() = live;
        *self.attached_so_far() = carried.attached;
        *self.host_so_far() = carried.host;
        *self.texts.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(texts));
        self.sampler.follow(&samplers);
        let mut lists = differences(&before, &self.engine.model());
        lists.changed.extend(settings.differing(&settings_before));
        let with = |names: Vec<String>, lists: Vec<String>| {
            names.into_iter().map(|name| format!("interface {name}")).chain(lists).collect()
        };
        let warnings = Findings::of(&loaded);
        let lost = lost.into_iter().map(|edits| acl::lost::lost(&before, edits));
        let lost: Vec<Lost> = lost.chain(carried.lost).chain(sources_end).collect();
        for line in lost.iter().flat_map(Lost::lines) {
            tracing::warn!(kind = events::Kind::Reload.name(), "{line}");
        }
        if bindings > 0 {
            tracing::warn!(kind = events::Kind::Reload.name(), "{} ended", plural(bindings as u64, "learned binding"));
        }
        Ok(Reloaded {
            generation,
            added: with(added, lists.added),
            removed: with(removed, lists.removed),
            changed: with(changed, lists.changed),
            lost,
            translations,
            bindings,
            loops: Vec::new(),
            confirm_by: None,
            routes,
            routes_before,
            warnings,
        })
    }

    pub(super) fn attached_so_far(&self) -> MutexGuard<'_, Attachments> {
        // It is replaced as a whole.
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names of the access lists that the configuration does not have.
    pub(super) fn live_lists(&self) -> Vec<String> {
        let lists = self.engine.acl_lists().into_iter().filter(|list| list.created.is_some());
        lists.map(|list| list.name).collect()
    }

    /// Attaches an access list to an interface, or detaches it: the model with it is compiled as at a reload.
    pub(super) fn change_attached(
        &self,
        list: &str,
        request: &AttachRequest,
        attach: bool,
    ) -> Result<Attached, Box<Refusal>> {
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, before) = (self.attached_so_far().clone(), self.engine.model());
        let changed = all.change(&before, &self.live_lists(), list, (request, attach), unix_time());
        let result = changed.and_then(|(gateway, all, report)| {
            self.put_edited(gateway)?;
            *self.attached_so_far() = all;
            let others = self.engine.acl_default(list).filter(|_| attach && report.lists.len() == 1);
            let others = others.and_then(acl::live::unmatched).map(str::to_owned);
            Ok(Attached { others, ..report })
        });
        let (object, source, interface) = (format!("acl {list}"), &request.source, &request.interface);
        match &result {
            Ok(report) => tracing::info!(
                kind = events::Kind::Edit.name(),
                object,
                source,
                interface,
                "{} (by {source})",
                report.text().trim_end()
            ),
            Err(refusal) => {
                tracing::warn!(
                    kind = events::Kind::Refused.name(),
                    object,
                    source,
                    interface,
                    "{object}: not attached or detached: {}",
                    refusal.for_log()
                );
            }
        }
        result
    }

    /// Returns the live edits, `most` at most.
    pub(super) fn live_edits(&self, most: usize) -> Changes {
        let mut edits: Vec<Edit> = self.engine.acl_edits(acl::edits::rows).into_iter().flatten().collect();
        edits.extend(self.attached_so_far().edits());
        edits.extend(self.nat_so_far().edits());
        edits.extend(self.bindings_so_far().edits());
        edits.extend(self.steers_so_far().edits());
        edits.extend(self.allowlists_so_far().edits());
        edits.extend(self.classify_so_far().edits());
        edits.extend(self.live().edits());
        for policy in self.engine.sav_policies() {
            let (Some((action, since)), of) = (policy.stage, format!("sav {}", policy.name)) else { continue };
            let (what, time) = (action.to_owned(), Some(since));
            edits.push(Edit { of, edit: changes::Kind::Stage, what, id: None, place: None, source: None, time });
        }
        let more = edits.len().saturating_sub(most);
        edits.truncate(most);
        Changes { edits, more, confirm_by: self.confirm_by() }
    }
}

/// Why NAT lists are wrong together.
fn mapped_twice(gateway: &model::Gateway) -> Option<Wrong> {
    let Twice { address, before, later } =
        config::live::mapped_twice(&gateway.nat, &gateway.interfaces).into_iter().next()?;
    let name = |(list, _): config::live::NatAt| gateway.nat[list].name.clone();
    let message = format!(
        "rule {} of the NAT list `{}`: {}; map to different addresses",
        later.1 + 1,
        name(later),
        config::live::another_map(address)
    );
    Some(Wrong { object: Object::Nat, lists: vec![name(later), name(before)], message })
}
