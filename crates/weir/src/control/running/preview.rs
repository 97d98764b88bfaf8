//! Effects of a reload, found out before it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use weir_plane::engine::{FlowFilter, FlowOrder};
use weir_plane::model::Gateway;

use super::super::ReloadError;
use super::super::acl::lost::lost;
use super::super::differences::differences;
use super::super::refusal::{Kind, Refusal};
use super::super::services::Settings;
use super::edits::Wrong;
use super::{Running, placed};
use crate::config::Texts;
use crate::render::preview::Preview;
use crate::render::reloaded::Lost;
use crate::saved;

impl Running {
    /// Finds out what a reload of a file would do; `None`: of the gateway's own.
    pub(super) fn preview_of(&self, file: Option<&Path>) -> Result<Preview, Box<Refusal>> {
        let own = self.file.as_deref().ok_or_else(|| Box::new(Refusal::of_reload(&ReloadError::NoFile, false)))?;
        let file = file.unwrap_or(own);
        let read = beside(file, own);
        let (mut loaded, _) = self.load_with(&read);
        let texts = Texts::of(&read, &loaded);
        let Some(mut gateway) = loaded.gateway.take() else {
            return Err(Refusal::of_reload(&ReloadError::Invalid(Box::new(loaded)), false).into());
        };
        let mut preview =
            Preview { file: file.display().to_string(), generation: self.engine.generation(), ..Preview::default() };
        preview.refused.extend(self.changes_at_start(&loaded).map(str::to_owned));
        if !is_same(file, own) {
            preview.notes.push(format!("a reload reads {}, not this file", own.display()));
        }
        if let Some(by) = self.confirm_by() {
            preview
                .refused
                .push(format!("a reload waits for its confirmation until {}", crate::render::time::utc_seconds(by)));
        }
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.engine.model();
        let carried = self.carry(&mut gateway);
        preview.refused.extend(carried.wrong.as_ref().map(Wrong::refusal));
        let origins = gateway.origins.clone();
        let found = self.engine.preview(&gateway);
        let found = found.map_err(|error| Refusal::new(Kind::Failed, placed(&error, &origins)))?;
        preview.refused.extend(found.restart);
        let ends = carried.protects || found.lost.iter().any(|edits| edits.protects);
        if ends && carried.wrong.is_none() {
            let message = "live edits that protect would end: add them to the file, or reload with `--drop-changes`";
            preview.refused.push(message.to_owned());
        }
        let lost_acls: Vec<Lost> = found.lost.into_iter().map(|edits| lost(&before, edits)).collect();
        let sources_end = Settings::of(&loaded).ended(self.sources.read());
        preview.lost = lost_acls.iter().chain(&carried.lost).chain(&sources_end).flat_map(Lost::lines).collect();
        preview.reopened = found.reopened;
        let mut lists = differences(&before, &gateway);
        lists.changed.extend(Settings::of(&loaded).differing(&self.settings()));
        let with = |names: Vec<String>, lists: Vec<String>| -> Vec<String> {
            names.into_iter().map(|name| format!("interface {name}")).chain(lists).collect()
        };
        preview.added = with(found.difference.added, lists.added);
        preview.removed = with(found.difference.removed, lists.removed);
        preview.changed = with(found.difference.changed, lists.changed);
        (preview.routes, preview.routes_before) = found.difference.routes;
        self.count_flows(&before, &mut preview);
        if let Ok(now) = self.texts() {
            let (now, then) = (saved::objects(&now), saved::objects(&texts));
            if let (Ok(now), Ok(then)) = (now, then) {
                preview.objects = saved::compare(&now, &then).into_iter().map(super::saved::plain).collect();
            }
        }
        Ok(preview)
    }

    /// Counts the sessions and translations that a reload concerns.
    fn count_flows(&self, before: &Gateway, preview: &mut Preview) {
        let concerned: HashSet<&str> = preview
            .removed
            .iter()
            .chain(&preview.changed)
            .filter_map(|name| name.split_once(' '))
            .filter(|(kind, _)| matches!(*kind, "interface" | "acl"))
            .map(|(_, name)| name)
            .collect();
        let is_concerned = |name: &str| concerned.contains(name);
        let mut zones: HashSet<&str> = HashSet::new();
        for interface in &before.interfaces {
            let lists = [false, true].map(|output| before.lists_of(interface, output)).concat();
            if is_concerned(&interface.name) || lists.iter().any(|list| is_concerned(list)) {
                let vrf = before.vrfs[usize::from(interface.vrf.0)].name.as_str();
                zones.insert(interface.zone.as_deref().unwrap_or(vrf));
            }
        }
        let all = |translations| {
            let filter = FlowFilter { translations, ..FlowFilter::default() };
            self.engine.flows(|_| Ok::<_, std::convert::Infallible>(filter), FlowOrder::Age, usize::MAX)
        };
        let Ok(sessions) = all(false);
        preview.sessions_total = sessions.total;
        preview.sessions = sessions.rows.iter().filter(|row| zones.contains(row.zone.1.as_str())).count();
        if preview.removed.iter().chain(&preview.changed).any(|name| name.starts_with("nat ")) {
            let Ok(translations) = all(true);
            preview.translations = translations.total;
        }
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let canonical = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    canonical(one) == canonical(other)
}

/// Returns a file by the name of its folder that a reload knows, if it is in the same one: paths in the file begin there, and others
/// than those in force would be changes.
fn beside(file: &Path, own: &Path) -> PathBuf {
    let folder = |path: &Path| path.parent().filter(|own| *own != Path::new("")).unwrap_or(Path::new(".")).to_owned();
    match file.file_name() {
        Some(name) if is_same(&folder(file), &folder(own)) => own.with_file_name(name),
        _ => file.to_owned(),
    }
}
